//! Everything that names a cutile type: `install`, and the conversion of keys.
//!
//! A new cutile release changes this folder and cutile-build's `rehearsal`.

pub mod declared;
mod fill;
mod install;
pub mod modules;
pub mod rehearse;
mod report;
mod require;
pub mod row;
mod stale;
mod store;
mod watch;

pub use install::{Devices, Disk, Installer, install};
pub use report::{BundleReport, BundleState, DeviceReport, LeftOut, Report, StoreState};
pub use require::{LaunchError, NotEmbedded, Why, require};
pub use store::{Upstream, tier_stats};
pub use watch::{misses, record_to};
