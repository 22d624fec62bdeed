//! Why there is no toolkit, and what to do.

use super::{INSTALL_COMMAND, MIN_TILEIRAS};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no toolkit.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolkitError {
    /// A variable names a folder that is none.
    Named {
        /// The variable.
        variable: &'static str,
        /// What it names.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is none where one would be.
    Missing {
        /// What was looked at, and what is wrong with it.
        tried: Vec<(PathBuf, String)>,
    },
    /// A program of it does not answer.
    Silent {
        /// The program.
        program: PathBuf,
        /// What happened.
        what: String,
    },
    /// A file of it cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl fmt::Display for ToolkitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { variable, path, why } => write!(
                f,
                "{variable}={} is no CUDA toolkit that compiles kernels: {why}. Let it name one \
                 with tileiras {MIN_TILEIRAS} or newer, or unset it and install one with\n    \
                 {INSTALL_COMMAND}",
                path.display()
            ),
            Self::Missing { tried } => {
                f.write_str(&missing_text(tried))?;
                write!(
                    f,
                    "Install one with\n    {INSTALL_COMMAND}\nor name one in CUDA_TOOLKIT_PATH, or \
                     build without kernels with CUTILE_BUILD=skip"
                )
            }
            Self::Silent { program, what } => write!(
                f,
                "{} does not run: {what}. Is the toolkit whole? {INSTALL_COMMAND} installs one",
                program.display()
            ),
            Self::Unreadable { path, source } => write!(
                f,
                "{} cannot be read: {source}. Is the toolkit whole? {INSTALL_COMMAND} installs one",
                path.display()
            ),
        }
    }
}

impl ToolkitError {
    /// The text without what to do next, for one who does it.
    #[must_use]
    pub fn without_advice(&self) -> String {
        match self {
            Self::Missing { tried } => missing_text(tried).trim_end().to_owned(),
            Self::Named { variable, path, why } => {
                format!("{variable}={} has no tileiras that can be used: {why}.", path.display())
            }
            _ => self.to_string(),
        }
    }
}

fn missing_text(tried: &[(PathBuf, String)]) -> String {
    let mut text = format!(
        "no CUDA toolkit with tileiras {MIN_TILEIRAS} or newer was found; it compiles the GPU \
         kernels. Looked at:\n"
    );
    for (path, why) in tried {
        text += &format!("  {}: {why}\n", path.display());
    }
    text
}

impl Error for ToolkitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}
