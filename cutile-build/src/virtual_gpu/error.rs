//! Why the virtual GPU could not be built.

use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::{fmt, io};

/// Why the virtual GPU could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum VirtualGpuError {
    /// A file or a directory could not be made.
    Io {
        /// What was tried: "create", "write" …
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The directory's path has a colon, which separates the paths of `LD_LIBRARY_PATH`.
    ColonInPath {
        /// The directory.
        path: PathBuf,
    },
    /// The compiler could not be started.
    CompilerNotRun {
        /// The compiler.
        rustc: OsString,
        /// Why not.
        source: io::Error,
    },
    /// The compiler ran and failed.
    CompilerFailed {
        /// The compiler.
        rustc: OsString,
        /// The source that it was given, or `-vV`.
        on: OsString,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        stderr: String,
    },
}

impl fmt::Display for VirtualGpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, path, source } => write!(
                f,
                "virtual GPU: cannot {action} {}: {source}; make its directory writable, or \
                 remove what is in the way",
                path.display()
            ),
            Self::ColonInPath { path } => write!(
                f,
                "virtual GPU: the path {} has a colon, which no library path can hold; build in a \
                 directory without one (CARGO_TARGET_DIR)",
                path.display()
            ),
            Self::CompilerNotRun { rustc, source } => write!(
                f,
                "virtual GPU: cannot run the compiler {}: {source}; set RUSTC to a Rust compiler",
                rustc.display()
            ),
            Self::CompilerFailed { rustc, on, status, stderr } => write!(
                f,
                "virtual GPU: {} {} failed ({status}); it needs Rust 1.89 or newer \
                 with the standard library of this machine, and a C linker (on Debian: apt \
                 install gcc). It said:\n{}",
                rustc.display(),
                on.display(),
                stderr.trim_end()
            ),
        }
    }
}

impl Error for VirtualGpuError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::CompilerNotRun { source, .. } => Some(source),
            Self::ColonInPath { .. } | Self::CompilerFailed { .. } => None,
        }
    }
}
