//! Compiles the cuTile kernels of a crate ahead of time, and checks and lowers its WGSL shaders, from
//! its build script.
//!
//! ```no_run
//! # mod kernels { pub fn warmup() -> Result<(), String> { Ok(()) } }
//! // build.rs, with `#[path = "src/kernels.rs"] mod kernels;`
//! # #[cfg(feature = "cuda")]
//! cutile_build::Builder::from_metadata().warmup("app", kernels::warmup).build();
//! ```
//!
//! The crate then embeds them with `cutile_embed::embed!()`.
//!
//! | module | what it is |
//! |---|---|
//! | `builder` | what a build script calls |
//! | [`environment`], [`package`], [`targets`] | what it is told |
//! | [`toolkit`] | the CUDA toolkit: find it, identify it, run it |
//! | [`virtual_gpu`] | a driver that records and computes nothing, and the recording assembler |
//! | `shader` | WGSL: found, checked, lowered, described; needs the feature `wgsl` only |
//! | `kernels` | kernels, from the warm-ups to the contents of a bundle |
//! | `lengths` | `any_length`: a launch for each class of a length |
//! | `rehearsal` | runs the warm-ups, or a program, on it, one child process per target |
//! | [`assemble`] | jobs through tileiras: in parallel, each once, the build cache first |
//! | `bundle` | writes what is embedded |
//! | `prebuild`, `prebuilt` | a bundle that is shipped with the sources: made, and taken |
//! | [`events`] | what `cargo cutile` is told meanwhile |

pub mod assemble;
mod builder;
mod bundle;
#[cfg(any(feature = "cuda", feature = "cli"))]
mod compile;
mod digest;
pub mod environment;
pub mod error;
pub mod events;
#[cfg(feature = "cuda")]
mod kernels;
#[cfg(feature = "cuda")]
mod lengths;
pub mod package;
#[cfg(feature = "cli")]
pub mod prebuild;
mod prebuilt;
#[cfg(any(feature = "cuda", feature = "cli"))]
mod rehearsal;
#[cfg(any(feature = "cuda", feature = "cli"))]
mod restricted;
#[cfg(any(feature = "cuda", feature = "cli"))]
mod reuse;
#[cfg(feature = "wgsl")]
mod shader;
pub mod targets;
pub mod toolkit;
pub mod virtual_gpu;

pub use builder::Builder;
pub use error::BuildError;
#[cfg(feature = "cuda")]
pub use lengths::{LENGTHS, any_length, any_length_of};
#[cfg(feature = "wgsl")]
pub use shader::{Emit, ShaderConfigError, ShaderOptions};
