//! What ends a build.

use crate::assemble::JobError;
use crate::environment::EnvError;
use crate::package::PackageError;
use crate::targets::TargetError;
use crate::toolkit::ToolkitError;
use crate::virtual_gpu::VirtualGpuError;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why nothing was embedded. The text says what was found, what was expected and what to do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// An environment variable has a value that cannot be used.
    Environment(EnvError),
    /// The list of targets cannot be used.
    Targets(TargetError),
    /// No target is named anywhere.
    NoTargets,
    /// `[package.metadata.cutile]` cannot be read or used.
    Package(PackageError),
    /// The toolkit is missing or cannot be used.
    Toolkit(ToolkitError),
    /// The virtual GPU cannot be made.
    VirtualGpu(VirtualGpuError),
    /// A file or folder cannot be read or written.
    Io {
        /// What cannot be done.
        what: String,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Warm-ups failed on a virtual GPU.
    Rehearsal {
        /// One text a failure.
        failures: Vec<String>,
    },
    /// tileiras made no usable image of some kernels.
    Jobs {
        /// The crate that is being built.
        package: String,
        /// What failed.
        failed: Vec<FailedJob>,
        /// How many images were made; they stay in the build cache.
        compiled: usize,
    },
}

/// A kernel that tileiras could not compile for one target.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailedJob {
    /// `module::function<generics>`.
    pub kernel: String,
    /// The `sm_XX`.
    pub target: String,
    /// `file:line` of the kernel, where it is known.
    pub location: Option<String>,
    /// What happened.
    pub error: JobError,
}

impl FailedJob {
    /// A failure with the kernel it belongs to.
    #[must_use]
    pub fn new(
        kernel: impl Into<String>,
        target: impl Into<String>,
        location: Option<String>,
        error: JobError,
    ) -> Self {
        Self { kernel: kernel.into(), target: target.into(), location, error }
    }
}

impl BuildError {
    /// A file or folder cannot be used.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "what writes bundles uses it"))]
    pub(crate) fn io(what: impl Into<String>, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io { what: what.into(), path: path.as_ref().to_owned(), source }
    }
}

impl fmt::Display for FailedJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {} for {}", self.kernel, self.target)?;
        if let Some(location) = &self.location {
            write!(f, " ({location})")?;
        }
        write!(f, ": {}", self.error)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(error) => error.fmt(f),
            Self::Targets(error) => error.fmt(f),
            Self::NoTargets => f.write_str(
                "no GPU to compile for is named; write `targets = [\"sm_90\"]` under \
                 [package.metadata.cutile] in Cargo.toml, or set CUTILE_BUILD_TARGETS=sm_90",
            ),
            Self::Package(error) => error.fmt(f),
            Self::Toolkit(error) => error.fmt(f),
            Self::VirtualGpu(error) => error.fmt(f),
            Self::Io { what, path, source } => write!(f, "{what}: {}: {source}", path.display()),
            Self::Rehearsal { failures } => {
                f.write_str("the kernels could not be recorded on virtual GPUs")?;
                failures.iter().try_for_each(|failure| write!(f, "\n\n{failure}"))
            }
            Self::Jobs { package, failed, compiled } => {
                write!(
                    f,
                    "crate {package}: {} of {} GPU images could not be compiled; the others stay \
                     in the build cache",
                    failed.len(),
                    failed.len() + compiled
                )?;
                failed.iter().try_for_each(|job| write!(f, "\n\n{job}"))
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Environment(error) => error.source(),
            Self::Targets(error) => error.source(),
            Self::Package(error) => error.source(),
            Self::Toolkit(error) => error.source(),
            Self::VirtualGpu(error) => error.source(),
            Self::Io { source, .. } => Some(source),
            Self::Jobs { failed, .. } => {
                failed.first().map(|job| &job.error as &(dyn Error + 'static))
            }
            Self::NoTargets | Self::Rehearsal { .. } => None,
        }
    }
}

impl From<EnvError> for BuildError {
    fn from(error: EnvError) -> Self {
        Self::Environment(error)
    }
}

impl From<TargetError> for BuildError {
    fn from(error: TargetError) -> Self {
        Self::Targets(error)
    }
}

impl From<ToolkitError> for BuildError {
    fn from(error: ToolkitError) -> Self {
        Self::Toolkit(error)
    }
}

impl From<VirtualGpuError> for BuildError {
    fn from(error: VirtualGpuError) -> Self {
        Self::VirtualGpu(error)
    }
}

impl From<PackageError> for BuildError {
    fn from(error: PackageError) -> Self {
        Self::Package(error)
    }
}

/// The candidate with the fewest letters to insert, delete or replace.
pub(crate) fn nearest<'c>(found: &str, candidates: &[&'c str]) -> Option<&'c str> {
    candidates.iter().copied().min_by_key(|candidate| distance(found, candidate))
}

/// Levenshtein's distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("é", "e", 1)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn an_io_error_keeps_its_path_and_source() {
        let error = BuildError::io("no folder", "/x/y", io::Error::other("why"));
        assert_eq!(error.to_string(), "no folder: /x/y: why");
        assert_eq!(error.source().unwrap().to_string(), "why");
    }
}
