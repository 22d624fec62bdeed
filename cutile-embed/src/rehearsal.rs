//! What passes between a rehearsal, a process that makes launches on a virtual GPU, and the build
//! that started it. For `cutile-build`: a build script rehearses its warm-ups, and a program that
//! calls `install` what it launches.
//!
//! | variable | what |
//! |---|---|
//! | [`DIR_ENV`] | folder of the rehearsal |
//! | [`PROGRAM_PASS_ENV`] | a [`Pass`] as JSON; its presence makes a program rehearse |
//!
//! | file of the folder | written by | what |
//! |---|---|---|
//! | `jobs/<digest>.job` | recording assembler | bytecode and options, as they come |
//! | [`ROWS_FILE`] | the rehearsal | [`Line`]s as JSON, as they come; the last one is [`Line::End`] |

use crate::manifest::{Codegen, Specialization, Validator};
use serde::{Deserialize, Serialize};

/// The folder of a rehearsal. The recording assembler reads it as well.
pub const DIR_ENV: &str = "CUTILE_BUILD_REHEARSAL_DIR";
/// What a program that rehearses is told.
pub const PROGRAM_PASS_ENV: &str = "CUTILE_EMBED_REHEARSAL";
/// Where the lines go.
pub const ROWS_FILE: &str = "rows.jsonl";

const PLACEHOLDER: usize = 72;
const PLACEHOLDER_MAGIC: &[u8; 16] = b"cutile-rehearsal";

/// The digest of the job that a placeholder of the recording assembler stands for, or `None` for any
/// other image. The layout is in `cutile_build::virtual_gpu`.
#[must_use]
pub fn placeholder_digest(image: &[u8]) -> Option<[u8; 32]> {
    let is_placeholder = image.len() == PLACEHOLDER
        && image.starts_with(b"\x7fELF")
        && image[16..32] == PLACEHOLDER_MAGIC[..]
        && image[64..] == (PLACEHOLDER as u64).to_le_bytes();
    if is_placeholder { image[32..64].try_into().ok() } else { None }
}

/// How a rehearsal treats the debug level. The level that a launch gets by default is compiled into
/// cutile, and the process that rehearses may link another build of it than the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// The target.
    pub target: String,
    /// The level that the program's launches have by default.
    pub program: Codegen,
    /// Which keys to keep.
    pub keep: Keep,
}

/// Which keys a pass keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// All: both sides have the same default level.
    All,
    /// Those with the default level, which are given the program's. The front end runs at that
    /// level, whatever a launch asked for.
    Default,
    /// Those with a level of their own, as they are.
    Explicit,
}

/// A line of [`ROWS_FILE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// The rehearsal runs, on cutile of this version.
    Start {
        /// Its version.
        cutile: String,
        /// Newest bytecode version that it and tileiras know: major, minor, tag.
        bytecode: (u8, u8, u16),
    },
    /// A kernel that a linked module declares.
    Declared(Declared),
    /// A specialization, with the digest of its job.
    Row(Box<Row>),
    /// A specialization that cannot be embedded.
    LeftOut {
        /// `module::function`.
        kernel: String,
        /// Why.
        reason: String,
    },
    /// A recorded specialization that does not fit the sources any more.
    Stale {
        /// Short name of the module.
        module: String,
        /// The kernel.
        function: String,
        /// What does not fit.
        what: String,
    },
    /// A warm-up that failed.
    Failed {
        /// Its name.
        warmup: String,
        /// The error.
        what: String,
        /// The kernel that it compiled before.
        after: Option<String>,
    },
    /// There are keys for a pass that keeps [`Keep::Explicit`].
    Explicit,
    /// All launches were made.
    End,
}

/// A kernel that a module declares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Declared {
    /// Path of the module.
    pub module: String,
    /// The kernel.
    pub function: String,
}

/// A specialization as a rehearsal found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The specialization.
    pub specialization: Specialization,
    /// What its launcher checks.
    pub validator: Validator,
    /// Digest of the job, 64 hex.
    pub job: String,
    /// The key that upstream's disk cache would use, 64 hex.
    pub l2_key: String,
    /// `file:line` of the kernel.
    pub location: String,
    /// The warm-up that launched it first; empty in a program.
    pub warmup: String,
}
