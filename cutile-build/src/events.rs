//! What a build script tells `cargo cutile` while it runs: the live bar and `--report` are made of
//! it. Cargo keeps what a build script prints to itself, so there is a channel beside it.
//!
//! `cargo cutile build` makes a folder that is open to this user only and names it in
//! [`EVENTS_ENV`]. Each build script makes a file of its own there, `<package>-<process>.jsonl`, and
//! appends [`Line`]s as JSON. A file `bar` in the folder says that a bar is drawn.
//!
//! | event | when | what for |
//! |---|---|---|
//! | `script` | first line | the package; the wall clock that `ms` counts from |
//! | `targets` | they are chosen | summary |
//! | `skipped` | no kernels are to be built | summary: why |
//! | `rehearsal_started`, `rehearsal_ended` | per target | timeline |
//! | `job_queued` | a rehearsal recorded it; its kernel is not known yet | total of the bar |
//! | `job_started` | tileiras is started for it, on a slot | current job of the bar |
//! | `job_ended` | it has an outcome | timeline, sizes, cache hits, failures |
//! | `job_named` | its rehearsal ended | the kernel, for all of them |
//! | `bundle` | it is written | summary |
//! | `script_ended` | last line | whether it failed, and why |
//!
//! The channel is internal: it is one version of this crate on both ends in practice, and a line
//! that a reader does not know is passed over. It is not in `rerun-if-env-changed`, since it changes
//! nothing that is built. Nothing that goes wrong here fails a build, or is even said.
//!
//! # Security
//!
//! A file is made only in a folder that belongs to its own user and is open to nobody else, and
//! where no file or link of its name is. It is bounded, and so is every text in it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The folder. Set by `cargo cutile` for the cargo that it runs, and by nobody else.
pub const EVENTS_ENV: &str = "CUTILE_BUILD_EVENTS";

/// How long a file can get, in bytes. What comes after is not written.
pub const FILE_LIMIT: u64 = 16 << 20;

/// How long a text in an event can get, in bytes.
const TEXT_LIMIT: usize = 4 << 10;

/// Name of the file which says that a bar is drawn.
const BAR: &str = "bar";

/// There is one file a process, whatever is built in it.
static OF_PROCESS: std::sync::OnceLock<Events> = std::sync::OnceLock::new();

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Milliseconds since the first line.
    pub ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// What can happen. The module has the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The build script began.
    Script {
        /// Name of the package.
        package: String,
        /// Its version.
        version: String,
        /// Milliseconds of the wall clock, since 1970.
        unix_ms: u64,
    },
    /// Kernels are compiled for these.
    Targets {
        /// `sm_XX`.
        targets: Vec<String>,
    },
    /// No kernels are compiled.
    Skipped {
        /// Why.
        reason: String,
    },
    /// The warm-ups begin on a virtual GPU.
    RehearsalStarted {
        /// `sm_XX`.
        target: String,
    },
    /// They ended.
    RehearsalEnded {
        /// `sm_XX`.
        target: String,
        /// What went wrong.
        error: Option<String>,
    },
    /// A job waits for a slot.
    JobQueued {
        /// Digest of the job, 64 hex.
        job: String,
        /// `sm_XX`.
        target: String,
    },
    /// A job is of this kernel. One job can be of several.
    JobNamed {
        /// Digest of the job, 64 hex.
        job: String,
        /// `module::function<generics>`.
        kernel: String,
    },
    /// tileiras is started for a job.
    JobStarted {
        /// Digest of the job, 64 hex.
        job: String,
        /// From 0; slot 0 is the build script's own share of cargo's jobserver.
        slot: usize,
    },
    /// A job has an outcome. Without a `job_started` before it no process was needed.
    JobEnded {
        /// Digest of the job, 64 hex.
        job: String,
        /// Where it ran.
        slot: usize,
        /// What became of it.
        outcome: JobOutcome,
    },
    /// The bundle is written.
    Bundle {
        /// Specializations of all targets.
        specializations: usize,
        /// Images of all targets.
        images: usize,
        /// What the images take before they are compressed.
        bytes: u64,
        /// Shaders.
        shaders: usize,
    },
    /// The build script is about to end.
    ScriptEnded {
        /// The error that it ends with.
        error: Option<String>,
    },
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JobOutcome {
    /// tileiras made an image.
    Compiled {
        /// Its size.
        bytes: u64,
    },
    /// The build cache had it.
    Cached {
        /// Its size.
        bytes: u64,
    },
    /// There is no image.
    Failed {
        /// What happened, and what tileiras printed.
        what: String,
    },
}

/// Where a build script writes; clones write into the same file. The default writes nothing.
#[derive(Clone, Default)]
pub struct Events(Option<Arc<Sink>>);

struct Sink {
    start: Instant,
    bar: bool,
    out: Mutex<Out>,
}

struct Out {
    file: File,
    left: u64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("on", &self.0.is_some()).finish()
    }
}

impl Events {
    /// Begins a file in a folder that [`make_folder`] made; writes nothing where that cannot be.
    #[must_use]
    pub fn begin(folder: &Path, package: &str, version: &str) -> Self {
        let Ok(file) = create(folder, package) else { return Self::default() };
        let events = Self(Some(Arc::new(Sink {
            start: Instant::now(),
            bar: folder.join(BAR).is_file(),
            out: Mutex::new(Out { file, left: FILE_LIMIT }),
        })));
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        events.say(Event::Script {
            package: package.to_owned(),
            version: version.to_owned(),
            unix_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
        });
        events
    }

    /// Those of this process, which is a build script: written where `cargo cutile` asked for them.
    pub(crate) fn of_script(env: &crate::environment::BuildEnv) -> Self {
        let begin = || match crate::environment::BuildEnv::internal(EVENTS_ENV) {
            Some(folder) => {
                Self::begin(Path::new(&folder), &env.package_name, &env.package_version)
            }
            None => Self::default(),
        };
        OF_PROCESS.get_or_init(begin).clone()
    }

    /// The same, for what is not told of the environment; nothing is written before
    /// [`of_script`](Self::of_script), as in a process that is no build script.
    #[cfg(any(feature = "cuda", feature = "cli"))]
    pub(crate) fn of_process() -> Self {
        OF_PROCESS.get().cloned().unwrap_or_default()
    }

    /// Tells of the rehearsal for a target, and of which kernels its jobs are.
    #[cfg(any(feature = "cuda", feature = "cli"))]
    pub(crate) fn rehearsal(
        &self,
        target: &str,
        run: impl FnOnce() -> Result<Vec<cutile_embed::rehearsal::Line>, String>,
    ) -> Result<Vec<cutile_embed::rehearsal::Line>, String> {
        use cutile_embed::rehearsal::Line::Row;

        self.say(Event::RehearsalStarted { target: target.to_owned() });
        let result = run();
        for line in result.iter().flatten() {
            if let Row(row) = line {
                let kernel = row.specialization.name();
                self.say(Event::JobNamed { job: row.job.clone(), kernel });
            }
        }
        let error = result.as_ref().err().cloned();
        self.say(Event::RehearsalEnded { target: target.to_owned(), error });
        result
    }

    /// Writes a line.
    pub fn say(&self, event: Event) {
        let Some(sink) = &self.0 else { return };
        let mut out = sink.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Within the lock: lines are in the order of their times.
        let ms = u64::try_from(sink.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let Ok(mut line) = serde_json::to_vec(&Line { ms, event: event.bounded() }) else {
            return;
        };
        line.push(b'\n');
        let len = line.len() as u64;
        if len > out.left {
            out.left = 0;
            return;
        }
        out.left -= len;
        // In one piece: the reader is told of it as soon as it is whole.
        if out.file.write_all(&line).is_err() {
            out.left = 0;
        }
    }

    /// Whether somebody shows progress, so that nobody else has to.
    #[must_use]
    pub fn have_bar(&self) -> bool {
        self.0.as_ref().is_some_and(|sink| sink.bar)
    }
}

impl Event {
    /// With every text that has no bound of its own cut.
    fn bounded(mut self) -> Self {
        match &mut self {
            Self::Skipped { reason: text }
            | Self::JobNamed { kernel: text, .. }
            | Self::RehearsalEnded { error: Some(text), .. }
            | Self::ScriptEnded { error: Some(text) }
            | Self::JobEnded { outcome: JobOutcome::Failed { what: text }, .. } => cut(text),
            _ => {}
        }
        self
    }
}

fn cut(text: &mut String) {
    if text.len() > TEXT_LIMIT {
        let end = (0..=TEXT_LIMIT).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
}

/// Makes the folder for the events of a build, in one that exists. Whoever makes it removes it.
///
/// # Errors
///
/// The system's.
pub fn make_folder(path: &Path, bar: bool) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    if bar {
        File::create_new(path.join(BAR))?;
    }
    Ok(())
}

/// A new file. Its owner is this process's user, which is how the owner of the folder is checked.
fn create(folder: &Path, package: &str) -> io::Result<File> {
    let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
    let meta = fs::symlink_metadata(folder)?;
    if !folder.is_absolute() || !meta.is_dir() || meta.mode() & 0o077 != 0 {
        return Err(refused());
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let package: String = package.chars().take(64).map(plain).collect();
    let path = folder.join(format!("{package}-{}.jsonl", std::process::id()));
    let file = File::options().append(true).create_new(true).mode(0o600).open(&path)?;
    if file.metadata()?.uid() != meta.uid() {
        let _ = fs::remove_file(&path);
        return Err(refused());
    }
    Ok(file)
}

#[cfg(test)]
#[path = "events/tests.rs"]
mod tests;
