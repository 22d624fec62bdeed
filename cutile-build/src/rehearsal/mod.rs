//! Runs the warm-ups, or a program, on virtual GPUs, one child process per target: out come
//! specializations and the jobs for tileiras.
//!
//! The child has an environment of its own; no variable of the parent is touched. For a build script
//! it is the script again. What passes between the two, all in one folder of the child, and in
//! [`cutile_embed::rehearsal`]:
//!
//! | file | written by | what |
//! |---|---|---|
//! | `tileiras-version`, `tileiras-list-versions` | parent | what the recording assembler answers |
//! | `replay.json` | parent | rows of a recording, and hashes of the modules they name |

#[cfg(feature = "cuda")]
mod child;
mod kept;
mod parent;
#[cfg(feature = "cuda")]
mod replay;
#[cfg(feature = "cuda")]
pub(crate) mod source_hash;

#[cfg(feature = "cuda")]
pub(crate) use child::{Warmup, run_if_child};
pub(crate) use parent::{Process, Rehearsal, Setup, rehearse};

/// A [`Pass`](cutile_embed::rehearsal::Pass) as JSON; its presence is what makes a build script a
/// child.
const PASS_ENV: &str = "CUTILE_BUILD_REHEARSAL_PASS";
/// File of a child's folder with what it replays.
const REPLAY_FILE: &str = "replay.json";
/// Where upstream looks for tileiras first.
const TILEIRAS_ENV: &str = "CUTILE_TILEIRAS_PATH";
/// Upstream's override of the debug level.
const JIT_DEBUG_ENV: &str = "CUTILE_JIT_DEBUG";
