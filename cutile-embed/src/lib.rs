//! Serves cuTile kernels that were compiled ahead of time by `cutile-build`, so that a kernel's
//! first launch costs what the driver needs to load it, with no compiler and no toolkit on the
//! machine.
//!
//! In each crate that ships kernels, once:
//!
//! ```text
//! cutile_embed::embed!();
//! ```
//!
//! In the program, first thing:
//!
//! ```text
//! let report = cutile_embed::install();
//! ```
//!
//! What is not embedded falls back to a disk cache, which `install` turns on, then to the JIT, as without
//! this crate.
//!
//! | module | what it is |
//! |---|---|
//! | [`bundle`] | `embed!`, and the bundles of all crates of the program |
//! | `cuda` | `install`: fills cutile's in-memory cache and installs the store |
//! | `shader` | WGSL: embedded, from disk, or lowered (feature `wgsl`) |
//! | [`store`] | `JitStore`: on disk, embedded, tiers of both. States what is trusted |
//! | [`explain`] | why a launch is not covered, in words |
//! | [`mod@entry`], [`key`] | upstream's byte layouts |
//! | [`shader_entry`] | the layout of a shader's entry |
//! | [`pack`], [`index`], [`manifest`], [`recording`] | ours |
//! | [`rehearsal`] | what passes between a process on a virtual GPU and `cutile-build` |

pub mod bundle;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod entry;
pub mod explain;
pub mod index;
pub mod key;
pub mod manifest;
pub mod pack;
pub mod recording;
pub mod rehearsal;
#[cfg(feature = "wgsl")]
pub mod shader;
// Without the feature, so that a tool reads what is in a binary without naga.
#[path = "shader/entry.rs"]
pub mod shader_entry;
pub mod store;

pub use bundle::{Bundle, bundles};
#[cfg(feature = "cuda")]
pub use cuda::{
    Devices, Disk, Installer, LaunchError, NotEmbedded, Report, install, misses, record_to, require,
};

/// What [`embed!`] expands to. Not API.
#[doc(hidden)]
pub mod __private {
    pub use crate::bundle::BUNDLES;
    pub use crate::index::assert_schema;
    pub use include_dir;
    pub use linkme;
}
