//! The CUDA toolkit: find it, identify it, run its tileiras.
//!
//! What the kernels are compiled with is decided by what is found here, so a toolkit is named by
//! three programs: tileiras, and the ptxas and libnvvm that it calls. Two toolkits with one
//! `tileiras --version` can make different images.

mod error;
mod find;
mod identity;
mod places;
mod run;

pub use error::ToolkitError;
pub use find::{MIN_TILEIRAS, Toolkit};
pub use identity::{Identity, Version};
pub use places::{Chosen, SearchPlaces};

/// The command that installs a toolkit.
pub const INSTALL_COMMAND: &str = "cargo cutile toolkit install";
