//! Runs the warm-ups on virtual GPUs, one child process per target: out come specializations and
//! the jobs for tileiras.
//!
//! The child is the build script again, with an environment of its own; no variable of the parent
//! is touched. What passes between the two, all in one folder of the child:
//!
//! | file | written by | what |
//! |---|---|---|
//! | `tileiras-version`, `tileiras-list-versions` | parent | what the recording assembler answers |
//! | `replay.json` | parent | rows of a recording, and hashes of the modules they name |
//! | `jobs/<digest>.job` | recording assembler | bytecode and options, as they come |
//! | `rows.jsonl` | child | [`Line`]s, as they come |

mod child;
mod parent;
mod replay;
pub(crate) mod source_hash;

pub(crate) use child::{Warmup, run_if_child};
pub(crate) use parent::{Rehearsal, Setup, rehearse};

use cutile_embed::manifest::{Codegen, Specialization, Validator};
use serde::{Deserialize, Serialize};

/// Folder of the child; its presence is what makes a process a child.
const DIR_ENV: &str = "CUTILE_BUILD_REHEARSAL_DIR";
/// A [`Pass`] as JSON.
const PASS_ENV: &str = "CUTILE_BUILD_REHEARSAL_PASS";
/// File of a child's folder with what it replays.
const REPLAY_FILE: &str = "replay.json";
/// Where upstream looks for tileiras first.
const TILEIRAS_ENV: &str = "CUTILE_TILEIRAS_PATH";
/// Upstream's override of the debug level.
const JIT_DEBUG_ENV: &str = "CUTILE_JIT_DEBUG";

/// How a child treats the debug level. The level that a launch gets by default is compiled into
/// cutile, and the build script may link another build of it than the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pass {
    /// The target.
    target: String,
    /// The level that the program's launches have by default.
    program: Codegen,
    /// Which keys to keep.
    keep: Keep,
}

/// Which keys a pass keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Keep {
    /// All: both sides have the same default level.
    All,
    /// Those with the default level, which are given the program's. The front end runs at that
    /// level, whatever a launch asked for.
    Default,
    /// Those with a level of their own, as they are.
    Explicit,
}

/// A line of `rows.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Line {
    /// The child runs, on cutile of this version.
    Start {
        cutile: String,
        /// Newest bytecode version both sides know.
        bytecode: (u8, u8, u16),
        /// Default level of the build script's own cutile.
        script: Codegen,
    },
    /// A kernel that a linked module declares.
    Declared(Declared),
    /// A specialization, with the digest of its job.
    Row(Box<Row>),
    /// A specialization that cannot be embedded.
    LeftOut { kernel: String, reason: String },
    /// A recorded specialization that does not fit the sources any more.
    Stale { module: String, function: String, what: String },
    /// A warm-up that failed.
    Failed { warmup: String, what: String, after: Option<String> },
    /// There are keys for a pass that keeps [`Keep::Explicit`].
    Explicit,
    /// All warm-ups were run.
    End,
}

/// A kernel that a module declares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Declared {
    /// Path of the module.
    pub(crate) module: String,
    /// The kernel.
    pub(crate) function: String,
    /// Whether the module is of the crate that is being built.
    pub(crate) own: bool,
}

/// A specialization as the child found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) specialization: Specialization,
    pub(crate) validator: Validator,
    /// Digest of the job, 64 hex.
    pub(crate) job: String,
    /// The key that upstream's disk cache would use, 64 hex.
    pub(crate) l2_key: String,
    /// `file:line` of the kernel.
    pub(crate) location: String,
    /// The warm-up that launched it first.
    pub(crate) warmup: String,
}
