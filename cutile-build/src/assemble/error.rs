//! What can happen to a job.

use super::{Assembler, Job, hex};
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why tileiras made no image for a job.
#[derive(Debug)]
#[non_exhaustive]
pub struct JobError {
    /// What happened.
    pub kind: JobErrorKind,
    /// The `sm_XX`.
    pub gpu: String,
    /// What it printed: the last 64 KiB of both streams.
    pub output: Box<str>,
    /// Its bytecode, unless that could not be written.
    pub kept: Option<PathBuf>,
    /// The command that repeats it, for a shell.
    pub command: Box<str>,
}

/// What happened to a job.
#[derive(Debug)]
#[non_exhaustive]
pub enum JobErrorKind {
    /// tileiras ended with this status.
    Failed {
        /// Its exit status.
        status: i32,
    },
    /// tileiras was killed.
    Killed {
        /// By this signal.
        signal: i32,
    },
    /// tileiras ran longer than it may.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The build ended before it.
    Cancelled,
    /// tileiras ended well and wrote nothing.
    Empty,
    /// tileiras ended well and wrote a part.
    Truncated {
        /// What is missing.
        what: String,
    },
    /// tileiras ended well and wrote something else.
    NotElf {
        /// What it is.
        what: String,
    },
    /// Another job with the same digest has other contents.
    Conflict,
    /// tileiras cannot be started.
    Spawn {
        /// What the system says.
        source: io::Error,
    },
    /// A file of the job cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl fmt::Display for JobErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { status } => write!(f, "tileiras failed with exit status {status}"),
            Self::Killed { signal: 9 } => f.write_str(
                "tileiras was killed by signal 9, as the system does when memory runs out; try \
                 CUTILE_BUILD_JOBS=1, or set CUTILE_BUILD_MEMORY to less than is free",
            ),
            Self::Killed { signal } => write!(
                f,
                "tileiras was killed by signal {signal}; if memory ran out, try \
                 CUTILE_BUILD_JOBS=1, or set CUTILE_BUILD_MEMORY to less than is free"
            ),
            Self::TimedOut { limit } => write!(
                f,
                "tileiras ran longer than {} s and was killed; CUTILE_BUILD_TIMEOUT sets the limit",
                limit.as_secs_f64()
            ),
            Self::Cancelled => f.write_str("the build ended before it"),
            Self::Empty => f.write_str("tileiras ended well and wrote no image; is the disk full?"),
            Self::Truncated { what } => write!(
                f,
                "tileiras ended well and wrote only a part of the image: {what}; is the disk full?"
            ),
            Self::NotElf { what } => {
                write!(f, "tileiras ended well and wrote something that is no image: {what}")
            }
            Self::Conflict => f.write_str(
                "two jobs have the same digest and differ; this is a fault of cutile-build, please \
                 report it",
            ),
            Self::Spawn { source } => write!(f, "tileiras cannot be started: {source}"),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        let output = self.output.trim();
        match output.is_empty() {
            true => f.write_str("\n  it printed nothing")?,
            false => {
                f.write_str("\n  it printed:")?;
                output.lines().try_for_each(|line| write!(f, "\n    {line}"))?;
            }
        }
        if let Some(kept) = &self.kept {
            write!(f, "\n  its input is kept in {}", kept.display())?;
            write!(f, "\n  to repeat it:\n    {}", self.command)?;
        }
        Ok(())
    }
}

impl Error for JobError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            JobErrorKind::Spawn { source } | JobErrorKind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl JobError {
    /// Keeps the bytecode, best effort: what happened is worth more than what happens here.
    pub(super) fn new(
        kind: JobErrorKind,
        output: String,
        job: &Job,
        assembler: &Assembler,
        keep: &Path,
    ) -> Self {
        let kept = keep.join(format!("{}.bc", hex(&job.digest)));
        let written =
            std::fs::create_dir_all(keep).and_then(|()| std::fs::write(&kept, &job.bytecode));
        Self {
            kind,
            gpu: job.gpu.clone(),
            output: output.into(),
            command: repeat(job, assembler, keep, &kept).into(),
            kept: written.is_ok().then_some(kept),
        }
    }
}

fn repeat(job: &Job, assembler: &Assembler, keep: &Path, input: &Path) -> String {
    let command = (assembler.command)(keep);
    let mut words = vec!["env".to_owned(), "-i".to_owned()];
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.to_string_lossy(), quoted(value)));
        }
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    words.extend(job.args.iter().map(|arg| quoted(OsStr::new(arg))));
    words.push("-o".to_owned());
    words.push(quoted(input.with_extension("cubin").as_os_str()));
    words.push(quoted(input.as_os_str()));
    words.join(" ")
}

/// A word for a POSIX shell.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=/.,:@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        for (word, text) in [
            ("--gpu-name=sm_90", "--gpu-name=sm_90"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quoted(OsStr::new(word)), text);
        }
    }
}
