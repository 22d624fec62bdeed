//! What the end-to-end tests have in common: fixture crates that are built by cargo, programs that
//! run on the virtual GPU, and a tileiras that fails.
//!
//! Everything a test makes is below `target/cutile-tests`:
//!
//! ```text
//! crates/<name>/    a fixture crate; always the same path, so that cargo keeps what it compiled
//! virtual-gpu/      the driver
//! cache/            a build cache, where a test does not count processes
//! ```
//!
//! Fixture crates are workspaces of their own and share the target folder, the lock file and the
//! profile of this workspace, so that cutile is compiled once for all of them.
//!
//! No variable of a test's own process is changed: children are given an environment of their own.

mod container;
mod fake_toolkit;
mod fixture;
mod manifest;
mod places;
mod program;

pub use container::Container;
pub use fake_toolkit::{FakeToolkit, Fault};
pub use fixture::{Build, Built, Fixture, copy};
pub use manifest::Manifest;
pub use places::{linked_target_dir, scratch, toolkit, toolkit_root, virtual_gpu, workspace_root};
pub use program::{Printed, Program, Run};
