//! Jobs through tileiras: in parallel, each once, the build cache first.
//!
//! ```text
//! rehearsals ──submit──▶ queue ──▶ worker 1 (the build script's own token) ──▶ cache? ─▶ tileiras
//!                              ├─▶ worker 2 (a token of cargo's jobserver) ──▶ cache? ─▶ tileiras
//!                              └─▶ …        as many as jobs and memory allow
//! ```
//!
//! Each process has a folder of its own, a process group, a time limit and no terminal. A job that
//! fails stops no other; what the others made stays in the [cache]. An image is taken only when it
//! is a whole ELF file: tileiras that is killed can leave half of one.

pub mod cache;
mod elf;
mod error;
mod job;
mod limits;
mod os;
mod pool;

pub use elf::{NotCubin, check_cubin, entry_symbols, has_function};
pub use error::{JobError, JobErrorKind};
#[cfg(feature = "cuda")]
pub(crate) use job::SCRATCH as JOB_SCRATCH;
pub use limits::{JOB_MEMORY, available_memory, worker_count};
pub use os::inherited_jobserver;
#[cfg(any(feature = "cuda", feature = "cli"))]
pub(crate) use os::{kill_group, own_group};
pub use pool::{Pool, Report};

use crate::environment::BuildEnv;
use crate::events::Events;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A call to tileiras.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Digest of options and bytecode, by which the caller knows it. Jobs with the same digest are
    /// run once.
    pub digest: [u8; 32],
    /// The `sm_XX`, for messages.
    pub gpu: String,
    /// For messages, as `kernels::gemm<f16>`; may be empty.
    pub label: String,
    /// Every argument, except `-o OUT` and the input file.
    pub args: Vec<String>,
    /// The input file: Tile IR bytecode.
    pub bytecode: Vec<u8>,
}

/// How tileiras is called, and which one it is.
#[derive(Clone)]
pub struct Assembler {
    /// Digest of everything that can change what it makes: tileiras, ptxas, libnvvm.
    pub identity: [u8; 32],
    /// The program with its whole environment, given a folder for temporary files. The command has
    /// no argument yet.
    pub command: Arc<dyn Fn(&Path) -> Command + Send + Sync>,
}

impl Assembler {
    /// An assembler.
    pub fn new(
        identity: [u8; 32],
        command: impl Fn(&Path) -> Command + Send + Sync + 'static,
    ) -> Self {
        Self { identity, command: Arc::new(command) }
    }
}

impl fmt::Debug for Assembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = (self.command)(Path::new("TMPDIR")).get_program().to_owned();
        f.debug_struct("Assembler").field("program", &program).finish_non_exhaustive()
    }
}

/// An image that tileiras made.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Assembled {
    /// A whole ELF file.
    pub cubin: Vec<u8>,
    /// Whether no process was needed.
    pub from_cache: bool,
    /// How long it took.
    pub seconds: f64,
}

/// Per digest, the image or what happened instead.
pub type Outcomes = BTreeMap<[u8; 32], Result<Assembled, JobError>>;

/// What a [`Pool`] is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Jobs that have an outcome.
    pub done: usize,
    /// Jobs submitted so far.
    pub total: usize,
    /// Jobs that run now.
    pub running: usize,
    /// The job that runs longest, `kernels::gemm for sm_100`, and how long.
    pub longest: Option<(String, Duration)>,
    /// Since the first job was submitted.
    pub elapsed: Duration,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, total, running, longest, elapsed } = self;
        write!(f, "{done} of {total} GPU images after {} s, {running} running", elapsed.as_secs())?;
        match longest {
            Some((job, time)) => write!(f, ", longest {job}: {} s", time.as_secs()),
            None => Ok(()),
        }
    }
}

/// Where progress goes.
pub type ProgressFn = Arc<dyn Fn(&Progress) + Send + Sync>;

/// What a [`Pool`] may use.
#[derive(Clone)]
#[non_exhaustive]
pub struct PoolOptions {
    /// At most this many processes at once, before memory is looked at.
    pub jobs: usize,
    /// What they may take together, in bytes; each is taken to need [`JOB_MEMORY`].
    pub memory: u64,
    /// At most this long a process.
    pub timeout: Duration,
    /// Folder of the build cache.
    pub cache: Option<PathBuf>,
    /// Each process but one holds a token of it.
    pub jobserver: Option<jobserver::Client>,
    /// Folder for the processes' folders; it exists.
    pub scratch: PathBuf,
    /// Folder for the bytecode of jobs that failed; made when needed.
    pub keep: PathBuf,
    /// Called from [`progress_after`](Self::progress_after) on.
    pub progress: Option<ProgressFn>,
    /// Default: a minute.
    pub progress_after: Duration,
    /// Default: 15 seconds.
    pub progress_every: Duration,
    /// Who is told of each job. Default: nobody.
    pub events: Events,
}

impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("jobs", &self.jobs)
            .field("memory", &self.memory)
            .field("timeout", &self.timeout)
            .field("cache", &self.cache)
            .field("jobserver", &self.jobserver.is_some())
            .field("scratch", &self.scratch)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl PoolOptions {
    /// One process at a time in `dir`, no cache, no jobserver.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self {
            jobs: 1,
            memory: u64::MAX,
            timeout: Duration::from_secs(600),
            cache: None,
            jobserver: None,
            scratch: dir.to_owned(),
            keep: dir.join("cutile-failed"),
            progress: None,
            progress_after: Duration::from_secs(60),
            progress_every: Duration::from_secs(15),
            events: Events::default(),
        }
    }

    /// What the environment of a build script says: its `CUTILE_BUILD_*`, 75 % of the memory that
    /// is available, cargo's jobserver, folders in `OUT_DIR`.
    #[must_use]
    pub fn from_env(env: &BuildEnv) -> Self {
        Self {
            jobs: env.parallel_jobs(),
            memory: env.memory.unwrap_or_else(|| available_memory(Path::new("/")) / 4 * 3),
            timeout: env.timeout(),
            cache: env.cache_dir(),
            jobserver: env.makeflags.as_ref().and_then(|_| inherited_jobserver()),
            ..Self::new(env.out_dir())
        }
    }
}

fn hex(digest: &[u8; 32]) -> String {
    cutile_embed::key::key_text(digest)
}
