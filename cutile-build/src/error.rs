//! What ends a build.

use crate::assemble::JobError;
use crate::environment::EnvError;
use crate::package::PackageError;
#[cfg(feature = "wgsl")]
use crate::shader::ShaderConfigError;
use crate::targets::TargetError;
use crate::toolkit::ToolkitError;
use crate::virtual_gpu::VirtualGpuError;
use cutile_embed::recording::RecordingError;
#[cfg(feature = "wgsl")]
use cutile_embed::shader::ShaderError;
#[cfg(feature = "wgsl")]
use std::collections::BTreeSet;
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
    /// No shader is named anywhere, and kernels are not this build's.
    NoShaders,
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
    /// A recording cannot be read.
    Recording(RecordingError),
    /// The crate's prebuilt bundle cannot be used.
    Prebuilt {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There is nothing to compile the kernels from.
    NoWarmUps {
        /// The crate that is being built.
        package: String,
    },
    /// A program that was run for its launches made none.
    NothingLaunched {
        /// The program.
        program: PathBuf,
    },
    /// Kernels without a specialization, where that is denied.
    Uncovered {
        /// As `module::kernel`.
        kernels: Vec<String>,
    },
    /// A kernel that does not exist has targets of its own.
    UnknownKernel {
        /// As it is written.
        name: String,
        /// The kernel with the most similar name.
        nearest: String,
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
    /// Shaders are wrong, or what is asked for of them.
    #[cfg(feature = "wgsl")]
    #[non_exhaustive]
    Shaders {
        /// The crate that is being built.
        package: String,
        /// What is wrong with globs, paths and options.
        problems: Vec<ShaderConfigError>,
        /// What is wrong with shaders; one can be wrong in more than one way.
        failed: Vec<ShaderError>,
        /// How many shaders are right.
        ok: usize,
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
            Self::NoShaders => f.write_str(
                "no shader is named; write `shaders = [\"shaders/**/*.wgsl\"]` under \
                 [package.metadata.cutile] in Cargo.toml, or call Builder::shaders. For kernels, \
                 cutile-build needs its feature `cuda`, or the crate a prebuilt bundle: make it \
                 with\n    cargo cutile prebuild",
            ),
            Self::Package(error) => error.fmt(f),
            Self::Toolkit(error) => error.fmt(f),
            Self::VirtualGpu(error) => error.fmt(f),
            Self::Io { what, path, source } => write!(f, "{what}: {}: {source}", path.display()),
            Self::Rehearsal { failures } => {
                f.write_str("the kernels could not be recorded on virtual GPUs")?;
                failures.iter().try_for_each(|failure| write!(f, "\n\n{failure}"))
            }
            Self::Recording(error) => error.fmt(f),
            Self::Prebuilt { path, what } => write!(
                f,
                "the prebuilt bundle in {} cannot be used: {what}\n\nMake it anew with\n    cargo \
                 cutile prebuild\nor build without it with CUTILE_BUILD_PREBUILT=ignore",
                path.display()
            ),
            Self::NoWarmUps { package } => write!(
                f,
                "CUTILE_BUILD_PREBUILT=ignore is set, and the build script of {package} launches \
                 no kernel: its kernels come from its prebuilt bundle only. Make that anew with\n    \
                 cargo cutile prebuild -p {package}\nor unset the variable"
            ),
            Self::NothingLaunched { program } => write!(
                f,
                "{} launched no kernel. It has to call cutile_embed::install() first thing, and then \
                 make the launches that are to be prebuilt",
                program.display()
            ),
            Self::Uncovered { kernels } => {
                f.write_str("deny_uncovered() is set, and some kernels are not embedded:")?;
                kernels
                    .iter()
                    .try_for_each(|kernel| write!(f, "\n  no warm-up launches {kernel}"))?;
                f.write_str("\nLaunch each in a warm-up, or replay a recording that has it")
            }
            Self::UnknownKernel { name, nearest } => write!(
                f,
                "targets_for names {name}, and no kernel of this crate is called that; did you \
                 mean {nearest}?"
            ),
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
            #[cfg(feature = "wgsl")]
            Self::Shaders { package, problems, failed, ok } => {
                let wrong: BTreeSet<&str> =
                    failed.iter().map(|error| error.path.as_str()).collect();
                if wrong.is_empty() {
                    write!(f, "crate {package}: its shaders cannot be built")?;
                } else {
                    let (wrong, all) = (wrong.len(), wrong.len() + ok);
                    write!(f, "crate {package}: {wrong} of {all} shaders cannot be built")?;
                }
                problems.iter().try_for_each(|problem| write!(f, "\n\n{problem}"))?;
                failed.iter().try_for_each(|error| write!(f, "\n\n{error}"))
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
            Self::Recording(error) => error.source(),
            Self::Toolkit(error) => error.source(),
            Self::VirtualGpu(error) => error.source(),
            Self::Io { source, .. } => Some(source),
            Self::Jobs { failed, .. } => {
                failed.first().map(|job| &job.error as &(dyn Error + 'static))
            }
            #[cfg(feature = "wgsl")]
            Self::Shaders { problems, failed, .. } => match (problems.first(), failed.first()) {
                (Some(problem), _) => Some(problem),
                (None, Some(error)) => Some(error),
                (None, None) => None,
            },
            Self::NoTargets
            | Self::NoShaders
            | Self::NoWarmUps { .. }
            | Self::NothingLaunched { .. }
            | Self::Prebuilt { .. }
            | Self::Uncovered { .. }
            | Self::UnknownKernel { .. }
            | Self::Rehearsal { .. } => None,
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
#[must_use]
pub fn nearest<'c>(found: &str, candidates: &[&'c str]) -> Option<&'c str> {
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
