//! `--report FILE.html`: what took how long, and how large it got, as a page.
//!
//! | file | one idea |
//! |---|---|
//! | `markup.rs` | text of others as text of a page; times |
//! | `summary.rs` | what the build was and what came of it; failures |
//! | `timeline.rs` | a bar a job, on its slot |
//! | `tables.rs` | slowest jobs, sizes, all jobs |
//! | `style.css` | light, dark, narrow, printed |
//!
//! The page is one file: it loads nothing and runs nothing, and its policy says so. All that is
//! drawn stands in a table as well.

mod markup;
mod summary;
mod tables;
mod timeline;

use crate::failure::Failure;
use crate::journal::Script;
use crate::output::say;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

const STYLE: &str = include_str!("report/style.css");

/// Where the report goes.
#[derive(Debug)]
pub(crate) struct ReportFile {
    path: PathBuf,
    folder: PathBuf,
}

impl ReportFile {
    /// Checks that the file can be written, before a build that takes minutes. Makes nothing: a
    /// new file could make cargo run a build script again.
    pub(crate) fn at(path: &Path) -> Result<Self, Failure> {
        let cannot =
            |why: &str| Failure(format!("--report {} cannot be written: {why}", path.display()));
        // The page is moved into place: of a link, where that points to.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if path.is_dir() {
            return Err(cannot("it is a folder; name a file in it"));
        }
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            return Err(cannot("it is there, and is no plain file"));
        }
        if !folder.is_dir() {
            return Err(cannot(&format!("{} is no folder", folder.display())));
        }
        rustix::fs::access(&folder, rustix::fs::Access::WRITE_OK)
            .map_err(|error| cannot(&format!("{}: {error}", folder.display())))?;
        Ok(Self { path: path.to_owned(), folder })
    }

    /// Writes the page, whole or not at all.
    pub(crate) fn write(&self, report: &Report<'_>) -> Result<(), Failure> {
        let page = report.page();
        // As a file that a shell makes; the user's mask takes away from it.
        tempfile::Builder::new()
            .prefix(".cutile-report-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(&self.folder)
            .and_then(|mut file| {
                file.write_all(page.as_bytes())?;
                file.persist(&self.path).map_err(|error| error.error)
            })
            .map_err(Failure::io("write", &self.path))?;
        say!("      Report {}", self.path.display());
        Ok(())
    }
}

/// What the page is made of.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// Cargo's command and arguments.
    pub(crate) command: &'a [OsString],
    /// When it began, in milliseconds since 1970.
    pub(crate) began: u64,
    /// How long it took, in milliseconds.
    pub(crate) took: u64,
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// Packages with kernels whose build script did not run.
    pub(crate) idle: Vec<String>,
    /// Build scripts that ran.
    pub(crate) scripts: &'a [&'a Script],
}

impl Report<'_> {
    /// The page.
    fn page(&self) -> String {
        let mut out = String::with_capacity(64 << 10);
        let title = format!("{} – kernels", self.command_line());
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n",
            markup::text(&title)
        );
        summary::header(&mut out, self);
        out.push_str("<main>\n");
        summary::failures(&mut out, self);
        summary::nothing(&mut out, self);
        for (index, script) in self.with_kernels().enumerate() {
            timeline::section(&mut out, index, script);
        }
        let scripts: Vec<&Script> = self.with_kernels().collect();
        tables::slowest(&mut out, &scripts);
        tables::sizes(&mut out, &scripts);
        tables::all(&mut out, &scripts);
        out.push_str("</main>\n");
        let _ = write!(
            out,
            "<footer><p>Written by cargo cutile {}. Times of a build script count from when it \
             began to look at kernels.</p></footer>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION")
        );
        out
    }

    fn command_line(&self) -> String {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        words.fold("cargo cutile".to_owned(), |line, word| format!("{line} {word}"))
    }

    /// Build scripts that were to compile kernels.
    fn with_kernels(&self) -> impl Iterator<Item = &Script> {
        self.scripts.iter().copied().filter(|script| !script.targets.is_empty())
    }
}

#[cfg(test)]
mod tests;
