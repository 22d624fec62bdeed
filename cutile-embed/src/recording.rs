//! `kernels.json`: the specializations that a run launched, for `Builder::replay`.
//!
//! Schema 1, JSON, rows sorted, no time, no absolute path, no machine: the same launches give the
//! same bytes, and a diff shows what changed.
//!
//! | member | what it is |
//! |---|---|
//! | `schema` | [`RECORDING_SCHEMA`] |
//! | `kernels` | rows of the manifest without images, and `default_codegen` |
//!
//! `default_codegen` says that a launch set no optimization or debug level of its own. Such a row
//! holds level 3 without line tables whatever the run's was, so that a debug and a release run
//! record the same, and a build gives it the level of the program that is built.
//!
//! The file is input: it is bounded, its numbers are checked, and no path is taken from it.

use crate::manifest::{Codegen, Divisibility, Specialization};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Version of the layout of `kernels.json`.
pub const RECORDING_SCHEMA: u32 = 1;

/// Longest file that is read: 64 MiB, some 50,000 specializations.
pub const MAX_RECORDING_BYTES: u64 = 64 << 20;

/// The level that upstream's options have where nothing is set and nothing is debugged.
const DEFAULT_CODEGEN: Codegen = Codegen::Optimized { level: 3, lineinfo: false };

/// A specialization that was launched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recorded {
    /// The specialization.
    #[serde(flatten)]
    pub specialization: Specialization,
    /// Whether the launch had the optimization and debug level of its program.
    pub default_codegen: bool,
}

impl Recorded {
    /// A launch in a program whose launches have `default` where they set no level.
    #[must_use]
    pub fn new(mut specialization: Specialization, default: Codegen) -> Self {
        let default_codegen = specialization.options.codegen == default;
        if default_codegen {
            specialization.options.codegen = DEFAULT_CODEGEN;
        }
        Self { specialization, default_codegen }
    }

    /// The specialization as a program asks for it whose launches have `default`.
    #[must_use]
    pub fn at(&self, default: Codegen) -> Specialization {
        let mut specialization = self.specialization.clone();
        if self.default_codegen {
            specialization.options.codegen = default;
        }
        specialization
    }
}

/// What a run launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Recording {
    /// [`RECORDING_SCHEMA`].
    pub schema: u32,
    /// A row a specialization, sorted.
    pub kernels: BTreeSet<Recorded>,
}

impl Default for Recording {
    fn default() -> Self {
        Self { schema: RECORDING_SCHEMA, kernels: BTreeSet::new() }
    }
}

/// Why a file is no recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordingError {
    /// It cannot be read or written.
    Io(PathBuf, io::Error),
    /// It is longer than [`MAX_RECORDING_BYTES`].
    TooLong(PathBuf),
    /// It is not the JSON of a recording, and why.
    Malformed(PathBuf, String),
    /// It has another schema.
    Schema(PathBuf, u32),
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::TooLong(path) => write!(
                f,
                "{} is longer than {MAX_RECORDING_BYTES} bytes; it is no recording of `cargo \
                 cutile record`",
                path.display()
            ),
            Self::Malformed(path, why) => write!(
                f,
                "{} is no recording: {why}; make it with `cargo cutile record`",
                path.display()
            ),
            Self::Schema(path, found) => write!(
                f,
                "{} has schema {found}, this code reads {RECORDING_SCHEMA}; record again with the \
                 version of cutile-embed that builds",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`RecordingError`] names the file, and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, RecordingError> {
        let io = |error| RecordingError::Io(path.to_owned(), error);
        let mut text = Vec::new();
        let file = File::open(path).map_err(io)?;
        file.take(MAX_RECORDING_BYTES + 1).read_to_end(&mut text).map_err(io)?;
        if text.len() as u64 > MAX_RECORDING_BYTES {
            return Err(RecordingError::TooLong(path.to_owned()));
        }
        Self::parse(path, &text)
    }

    /// Reads the text of a file; the path is for messages.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, RecordingError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let malformed = |why: String| RecordingError::Malformed(path.to_owned(), why);
        let Schema { schema } =
            serde_json::from_slice(text).map_err(|error| malformed(error.to_string()))?;
        if schema != RECORDING_SCHEMA {
            return Err(RecordingError::Schema(path.to_owned(), schema));
        }
        let recording: Self =
            serde_json::from_slice(text).map_err(|error| malformed(error.to_string()))?;
        for row in &recording.kernels {
            check(&row.specialization)
                .map_err(|why| malformed(format!("{}: {why}", row.specialization.name())))?;
        }
        Ok(recording)
    }

    /// The bytes of the file.
    ///
    /// # Panics
    ///
    /// Never: the types have no state that JSON refuses.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("plain data serializes");
        text.push(b'\n');
        text
    }

    /// Writes the file: a reader sees the old one or all of the new one. Of a link, it is the file
    /// that it points to.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Io`]; also where something else than a plain file has that name.
    pub fn write(&self, path: &Path) -> Result<(), RecordingError> {
        replace(path, &self.to_json()).map_err(|error| RecordingError::Io(path.to_owned(), error))
    }

    /// Adds the rows of another recording.
    pub fn merge(&mut self, other: Self) {
        self.kernels.extend(other.kernels);
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A rename puts a file in place of whatever is there: of a link, or of /dev/null.
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => path.to_owned(),
        found => found?,
    };
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is there, and is no plain file"));
    }
    let mut temp = path.clone().into_os_string();
    temp.push(format!(".tmp.{}", Uuid::new_v4()));
    let written = File::create_new(&temp)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temp, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written
}

/// What the launcher could not have made, and its compiler should not see.
fn check(row: &Specialization) -> Result<(), String> {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_alphanumeric() || c == '_')
            && text.len() < 512
    };
    for name in [&row.module, &row.function] {
        if !is_name(name) {
            return Err(format!("{name:?} is no name of a module or kernel"));
        }
    }
    let lists = [
        row.generics.len(),
        row.strides.len(),
        row.specs.len(),
        row.scalar_hints.len(),
        row.modules.len(),
    ];
    if lists.iter().any(|length| *length > 1000) {
        return Err("it has more than 1000 of something".to_owned());
    }
    let hints = row
        .specs
        .iter()
        .flat_map(|spec| spec.shape_div.iter().chain(&spec.stride_div).chain([&spec.base_ptr_div]))
        .chain(row.scalar_hints.iter().map(|hint| &hint.divisibility));
    for Divisibility { divisor, max } in hints {
        let power = |n: i32| n > 0 && n.count_ones() == 1;
        if !power(*divisor) || !power(*max) || divisor > max {
            return Err(format!("{divisor} of at most {max} is no divisor that cutile finds"));
        }
    }
    for spec in &row.specs {
        if spec.shape_div.len() != spec.stride_div.len()
            || spec.shape_div.len() != spec.stride_one.len()
        {
            return Err(format!("`{}` has lists of unequal length", spec.param));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
