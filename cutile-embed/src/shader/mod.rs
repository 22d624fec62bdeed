//! WGSL shaders: lowered at build, served embedded, from the disk cache, or lowered on a miss.
//!
//! ```
//! use cutile_embed::shader::{Artifact, Config, Request, load_or_lower_with};
//!
//! let text = "@compute @workgroup_size(64) fn main() {}";
//! let request = Request::new("shaders/nothing.wgsl", text);
//! let lowered = load_or_lower_with(&request, &Config::default().disk(None)).unwrap();
//! assert!(matches!(lowered.artifact, Artifact::Ir(_)));
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `request` | what is asked for |
//! | `key` | what the answer depends on: a table, hashed |
//! | `entry`, `text` | byte layouts of what is stored |
//! | `entry_point` | what a generated module says about an entry point |
//! | `features` | wgpu's feature names, and what naga may accept under them |
//! | `front` | text to a validated module; the only caller of the WGSL front end |
//! | `constants` | values of overrides, checked before naga rounds them |
//! | `emit` | a module to IR bytes, SPIR-V or WGSL, with every option written out |
//! | `interface` | what a caller sees of a module, to find what a writer leaves out |
//! | `load` | embedded, then disk, then lowered |
//! | `wgpu` | a `wgpu::ShaderModule` of it (feature `wgpu`) |
//!
//! # Security
//!
//! A shader from the disk cache is validated by wgpu again before it becomes a pipeline, and wgpu
//! keeps its bounds checks. Nothing stored is decoded before its digest is checked: naga's
//! validator can panic on bytes that naga did not write. The rest is as for kernels, see
//! [`JitStore`](crate::store::JitStore).

mod constants;
mod emit;
mod entry_point;
mod error;
mod features;
mod front;
mod interface;
mod key;
mod load;
mod request;
mod text;
#[cfg(feature = "wgpu")]
mod wgpu;

use crate::shader_entry as entry;

/// The wgpu whose devices [`shader_module`] takes.
#[cfg(feature = "wgpu")]
pub use ::wgpu as wgpu30;
pub use constants::{Override, OverrideType, check_constants, overrides, resolve};
pub use emit::{decode_ir, emit_spirv, emit_wgsl, encode_ir};
pub use entry::{
    ENTRY_MAGIC, ENTRY_VERSION, EntryError, MAX_METADATA_BYTES, MAX_PAYLOAD_BYTES, decode_entry,
    encode_entry,
};
pub use entry_point::EntryPoint;
pub use error::{ShaderError, Stage};
pub use features::{UnknownFeature, capabilities};
pub use front::{Checked, front_end_calls, parse};
pub use key::{KEY_VERSION, cache_key, fingerprint, preimage};
pub use load::{
    Artifact, Config, Lowered, Note, Source, Stats, cache_dir, entry_of, load_or_lower,
    load_or_lower_with, stats,
};
pub use naga;
pub use request::{Kind, Request, Shader, Text};
pub use text::{BuiltAs, EmbeddedText, text_entry, text_key};
#[cfg(feature = "wgpu")]
pub use wgpu::{
    LoadedModule, pipeline_cache, pipeline_cache_key, shader_module, shader_module_with,
    store_pipeline_cache,
};

/// The version of naga that this crate is made for and links: IR has the layout of that version's
/// structs, so another one reads something else into it.
pub const NAGA_VERSION: &str = "30.0.2";
