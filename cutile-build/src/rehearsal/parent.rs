//! The parent: starts the children, hands on their jobs as they come, gathers their rows.

use super::kept::{Kept, Rehearsed};
use super::{JIT_DEBUG_ENV, PASS_ENV, REPLAY_FILE, TILEIRAS_ENV};
use crate::assemble::{kill_group, own_group};
use crate::error::BuildError;
use crate::events::Events;
use crate::prebuilt::level;
use crate::restricted::Restricted;
use crate::targets::Target;
use crate::toolkit::Identity;
use crate::virtual_gpu::{RecordedJob, VirtualGpu};
use cutile_embed::key::key_bytes;
use cutile_embed::manifest::{Codegen, LeftOut, Specialization};
use cutile_embed::recording::Recorded;
use cutile_embed::rehearsal::{
    DIR_ENV, Declared, Keep, Line, PROGRAM_PASS_ENV, Pass, ROWS_FILE, Row,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// What a child is.
pub(crate) enum Process<'a> {
    /// This build script again, which makes the launches of its warm-ups. Its launches have this
    /// debug level by default.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only a build script is one"))]
    BuildScript { codegen: Codegen },
    /// A program, run in a folder. What level its launches have by default, only it knows.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "the command runs them"))]
    Program { path: &'a Path, folder: &'a Path },
}

/// What the children need.
pub(crate) struct Setup<'a> {
    pub(crate) process: Process<'a>,
    /// Folder for the children's folders.
    pub(crate) scratch: &'a Path,
    /// Where it is, or will be: it is compiled when a child needs it.
    pub(crate) virtual_gpu: &'a VirtualGpu,
    pub(crate) rustc: &'a OsStr,
    /// The build cache, and the folder that a build script runs in.
    pub(crate) cache: Option<(PathBuf, PathBuf)>,
    /// Whose answers the recording assembler gives.
    pub(crate) identity: &'a Identity,
    /// Default debug level that the images are for.
    pub(crate) program: Codegen,
    /// What is compiled beside the warm-ups.
    pub(crate) replay: &'a [Recorded],
    /// Hashes of the modules that it names, by path.
    pub(crate) source_hashes: &'a BTreeMap<String, String>,
    /// Kernels that are compiled for some targets only.
    pub(crate) restricted: &'a Restricted,
    /// `LD_LIBRARY_PATH` of this process.
    pub(crate) library_path: Option<OsString>,
    /// At most this many children at once.
    pub(crate) parallel: usize,
    /// At most this long a child.
    pub(crate) timeout: Duration,
}

/// What the rehearsals found.
#[derive(Debug, Default)]
pub(crate) struct Rehearsal {
    /// Version of the cutile that lowered the kernels.
    pub(crate) cutile: String,
    /// Newest bytecode version.
    pub(crate) bytecode: (u8, u8, u16),
    pub(crate) declared: BTreeSet<Declared>,
    pub(crate) rows: BTreeMap<Target, Vec<Row>>,
    pub(crate) left_out: Vec<LeftOut>,
}

impl Rehearsal {
    /// Whether no kernel was launched on any target, as far as this crate's cutile knows.
    pub(crate) fn is_empty(&self) -> bool {
        self.left_out.is_empty() && self.rows.values().all(Vec::is_empty)
    }

    /// Kernels that the crate declares and nothing launched, as `path::to::module::kernel`. Modules
    /// are the crate's where the first name of their path is `own`.
    pub(crate) fn uncovered(&self, own: impl Fn(&str) -> bool) -> Vec<String> {
        let launched: HashSet<(&str, &str)> = self
            .rows
            .values()
            .flatten()
            .map(|row| (&*row.specialization.module, &*row.specialization.function))
            .collect();
        let is_launched = |kernel: &Declared| {
            let module = kernel.module.rsplit("::").next().unwrap_or_default();
            launched.contains(&(module, &*kernel.function))
        };
        self.declared
            .iter()
            .filter(|kernel| own(root(&kernel.module)) && !is_launched(kernel))
            .map(|kernel| format!("{}::{}", portable(&kernel.module), kernel.function))
            .collect()
    }
}

/// The name of the crate in a module path.
fn root(module: &str) -> &str {
    module.split("::").next().unwrap_or_default()
}

/// A module path without the crate's name, which in a build script is another one.
fn portable(module: &str) -> &str {
    module.split_once("::").map_or(module, |(_, rest)| rest)
}

/// A job that a child recorded.
pub(crate) type Submit<'a> = dyn Fn([u8; 32], RecordedJob) + Sync + 'a;

/// Runs the warm-ups once per target, but for those that are kept. Every job goes to `submit` as soon
/// as it is recorded.
pub(crate) fn rehearse(
    setup: &Setup<'_>,
    targets: &[Target],
    submit: &Submit<'_>,
) -> Result<Rehearsal, BuildError> {
    let kept = Kept::open(setup);
    let mut outcomes: BTreeMap<Target, Result<Vec<Line>, String>> = BTreeMap::new();
    for target in targets {
        if let Some(found) = kept.as_ref().and_then(|kept| kept.get(setup, *target)) {
            let take = || Ok(take(setup, *target, found, submit));
            outcomes.insert(*target, Events::of_process().rehearsal(target.as_str(), take));
        }
    }
    let left: Vec<&Target> =
        targets.iter().filter(|target| !outcomes.contains_key(*target)).collect();
    if !left.is_empty() {
        setup.virtual_gpu.compile(setup.rustc)?;
    }
    let kept = kept.as_ref();
    let queue = Mutex::new(left.iter());
    let outcomes = Mutex::new(outcomes);
    std::thread::scope(|scope| {
        for _ in 0..setup.parallel.clamp(1, left.len().max(1)) {
            scope.spawn(|| {
                while let Some(target) = next(&queue) {
                    let rehearse = || on_target(setup, kept, target, submit);
                    let lines = Events::of_process().rehearsal(target.as_str(), rehearse);
                    lock(&outcomes).insert(**target, lines);
                }
            });
        }
    });
    gather(
        outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner),
        setup.restricted,
    )
}

fn next<'t, T>(queue: &Mutex<std::slice::Iter<'t, T>>) -> Option<&'t T> {
    lock(queue).next()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Submits the jobs of a target, but for those of kernels that it does not get.
struct Submitter<'a> {
    submit: &'a Submit<'a>,
    restricted: &'a Restricted,
    target: Target,
    /// Functions of kernels that the target does not get.
    without: Vec<&'a str>,
    held: HashMap<[u8; 32], RecordedJob>,
}

impl<'a> Submitter<'a> {
    fn new(setup: &'a Setup<'_>, target: Target, submit: &'a Submit<'a>) -> Self {
        let restricted = setup.restricted;
        let without = restricted.functions_without(target);
        Self { submit, restricted, target, without, held: HashMap::new() }
    }

    /// Submits a job, or holds it: its kernel is not known yet. The name of the entry is in the
    /// bytecode, and may be that of another kernel, too.
    fn submit_or_hold(&mut self, digest: [u8; 32], job: RecordedJob) {
        let may_be = |function: &&str| {
            let entry = format!("{function}_entry");
            job.bytecode.windows(entry.len()).any(|window| window == entry.as_bytes())
        };
        if self.without.iter().any(may_be) {
            self.held.insert(digest, job);
        } else {
            (self.submit)(digest, job);
        }
    }

    /// Submits what was held and is of a kernel that the target gets.
    fn name(&mut self, lines: &[Line]) {
        for line in lines {
            if let Line::Row(row) = line
                && allows(self.restricted, row, self.target)
                && let Some(digest) = key_bytes(&row.job)
                && let Some(job) = self.held.remove(&digest)
            {
                (self.submit)(digest, job);
            }
        }
    }
}

/// What was found by a rehearsal before this build, with its jobs.
fn take(setup: &Setup<'_>, target: Target, found: Rehearsed, submit: &Submit<'_>) -> Vec<Line> {
    let Rehearsed { lines, jobs } = found;
    let mut submitter = Submitter::new(setup, target, submit);
    for (digest, job) in jobs {
        submitter.submit_or_hold(digest, job);
    }
    submitter.name(&lines);
    lines
}

/// The passes that a target takes: one where both sides have the same default level, else one at
/// the program's level, and one for launches that set a level of their own if there are any.
fn on_target(
    setup: &Setup<'_>,
    kept: Option<&Kept>,
    target: &Target,
    submit: &Submit<'_>,
) -> Result<Vec<Line>, String> {
    let started = SystemTime::now();
    let mut dirs = Vec::new();
    let mut run = |keep| {
        let pass = Pass { target: target.to_string(), program: setup.program, keep };
        let dir = setup.scratch.join(format!("{target}-{keep:?}"));
        let lines = run(setup, *target, &pass, &dir, submit)?;
        dirs.push(dir);
        Ok::<_, String>(lines)
    };
    let is_same =
        matches!(setup.process, Process::BuildScript { codegen } if codegen == setup.program);
    let mut lines = run(if is_same { Keep::All } else { Keep::Default })?;
    if !is_same && lines.contains(&Line::Explicit) {
        lines.extend(run(Keep::Explicit)?);
    }
    if let Some(kept) = kept {
        kept.put(setup, *target, &lines, &dirs, started);
    }
    Ok(lines)
}

fn run(
    setup: &Setup<'_>,
    target: Target,
    pass: &Pass,
    dir: &Path,
    submit: &Submit<'_>,
) -> Result<Vec<Line>, String> {
    let io = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let jobs = dir.join("jobs");
    fs::create_dir_all(&jobs).map_err(|error| io("its folder cannot be made", error))?;
    for (name, answer) in [
        ("tileiras-version", &setup.identity.tileiras),
        ("tileiras-list-versions", &setup.identity.list_versions),
    ] {
        fs::write(dir.join(name), answer).map_err(|error| io("its folder is read-only", error))?;
    }
    if !setup.replay.is_empty() {
        let text = serde_json::to_vec(&(setup.replay, setup.source_hashes))
            .map_err(|error| error.to_string())?;
        fs::write(dir.join(REPLAY_FILE), text)
            .map_err(|error| io("its folder is read-only", error))?;
    }
    // Apart, as cargo has them: a message without an end of its line must hide no instruction.
    let create = |name: &str| {
        File::create(dir.join(name)).map_err(|error| io("no file for what it prints", error))
    };
    let (output, errors) = (create(OUTPUT)?, create(ERRORS)?);
    let mut child = command(setup, pass, dir)
        .and_then(|mut command| {
            own_group(&mut command);
            command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn()
        })
        .map_err(|error| io("it does not start", error))?;
    let mut seen = HashSet::new();
    let mut submitter = Submitter::new(setup, target, submit);
    let mut submit = |digest, job| submitter.submit_or_hold(digest, job);
    let status = watch(&mut child, setup.timeout, || collect(&jobs, &mut seen, &mut submit))?;
    collect(&jobs, &mut seen, &mut submit)?;
    let lines = read_lines(&dir.join(ROWS_FILE));
    submitter.name(&lines);
    if status.success() && lines.last() == Some(&Line::End) {
        return Ok(lines);
    }
    let printed = [ERRORS, OUTPUT].map(|name| tail(&dir.join(name))).concat();
    Err(format!("it ended early ({status}); it printed:\n{printed}"))
}

fn command(setup: &Setup<'_>, pass: &Pass, dir: &Path) -> std::io::Result<Command> {
    let (mut command, pass_env) = match setup.process {
        Process::BuildScript { .. } => (Command::new(std::env::current_exe()?), PASS_ENV),
        Process::Program { path, folder } => {
            let mut command = Command::new(path);
            command.current_dir(folder);
            (command, PROGRAM_PASS_ENV)
        }
    };
    let targets = [pass.target.as_str()];
    command
        .envs(setup.virtual_gpu.environment(&targets, setup.library_path.as_deref()))
        .env(DIR_ENV, dir)
        .env(pass_env, serde_json::to_string(pass).map_err(std::io::Error::other)?)
        .env(TILEIRAS_ENV, setup.virtual_gpu.assembler())
        // Upstream writes every job to the temporary folder first.
        .env("TMPDIR", dir);
    match pass.keep {
        Keep::All | Keep::Explicit => command.env_remove(JIT_DEBUG_ENV),
        Keep::Default => command.env(JIT_DEBUG_ENV, level(pass.program)),
    };
    Ok(command)
}

/// Waits for the child and calls `meanwhile`, which is cheap, again and again.
fn watch(
    child: &mut Child,
    timeout: Duration,
    mut meanwhile: impl FnMut() -> Result<(), String>,
) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        let late = start.elapsed() > timeout;
        if let Err(error) = meanwhile().and_then(|()| match late {
            true => Err(format!(
                "it ran longer than {} s. A virtual GPU computes nothing: does a warm-up wait for \
                 a result? CUTILE_BUILD_TIMEOUT sets the limit",
                timeout.as_secs()
            )),
            false => Ok(()),
        }) {
            kill_group(child);
            let _ = child.wait();
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Submits the jobs that are new in `jobs`. They appear there by rename, so each is whole.
fn collect(
    jobs: &Path,
    seen: &mut HashSet<OsString>,
    submit: &mut dyn FnMut([u8; 32], RecordedJob),
) -> Result<(), String> {
    let listing = fs::read_dir(jobs).map_err(|error| error.to_string())?;
    for file in listing.flatten() {
        let path: PathBuf = file.path();
        if path.extension().is_none_or(|extension| extension != "job")
            || !seen.insert(file.file_name())
        {
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| error.to_string())?;
        let digest = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .and_then(key_bytes)
            .ok_or("a job has no digest for a name")?;
        let job = RecordedJob::parse(&bytes).map_err(|error| error.to_string())?;
        submit(digest, job);
    }
    Ok(())
}

fn allows(restricted: &Restricted, row: &Row, target: Target) -> bool {
    restricted.allows(&row.specialization.module, &row.specialization.function, target)
}

/// What a rehearsal prints to standard output, where its instructions to cargo are.
pub(super) const OUTPUT: &str = "output";
/// What it prints to standard error.
const ERRORS: &str = "errors";

fn read_lines(path: &Path) -> Vec<Line> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .map_while(|line| serde_json::from_str(&line).ok())
        .collect()
}

fn tail(path: &Path) -> String {
    const LIMIT: u64 = 16 << 10;
    let mut text = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let len = file.metadata().map_or(0, |meta| meta.len());
        let _ = file.seek(SeekFrom::Start(len.saturating_sub(LIMIT)));
        let _ = file.take(LIMIT).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn gather(
    outcomes: BTreeMap<Target, Result<Vec<Line>, String>>,
    restricted: &Restricted,
) -> Result<Rehearsal, BuildError> {
    let launches = Launches::of(&outcomes);
    let mut found = Rehearsal::default();
    let mut failures = Vec::new();
    for (target, outcome) in outcomes {
        let lines = match outcome {
            Ok(lines) => lines,
            Err(what) => {
                failures.push(format!("the rehearsal for {target} failed: {what}"));
                continue;
            }
        };
        for line in lines {
            match line {
                Line::Start { cutile, bytecode } => {
                    found.cutile = cutile;
                    found.bytecode = bytecode;
                }
                Line::Declared(kernel) => {
                    found.declared.insert(kernel);
                }
                Line::Row(row) if !allows(restricted, &row, target) => {}
                Line::Row(row) => found.rows.entry(target).or_default().push(*row),
                Line::LeftOut { kernel, reason } => {
                    found.left_out.push(LeftOut { kernel, target: target.to_string(), reason });
                }
                // A front end can refuse a kernel on the targets that it is kept from.
                Line::Stale { module, function, .. }
                    if !restricted.allows(&module, &function, target) => {}
                Line::Stale { module, function, what } => {
                    let kernel = format!("{module}::{function}");
                    failures
                        .push(format!("recorded {kernel} cannot be replayed for {target}: {what}"));
                }
                Line::Failed { warmup, what, after } => {
                    failures.extend(launches.failure(restricted, target, &warmup, &what, after));
                }
                Line::Explicit | Line::End => {}
            }
        }
    }
    if failures.is_empty() { Ok(found) } else { Err(BuildError::Rehearsal { failures }) }
}

/// What the warm-ups launched, by warm-up and target, in the order of the launches.
struct Launches {
    by_warmup: BTreeMap<String, BTreeMap<Target, Vec<Specialization>>>,
}

impl Launches {
    fn of(outcomes: &BTreeMap<Target, Result<Vec<Line>, String>>) -> Self {
        let mut by_warmup: BTreeMap<_, BTreeMap<_, Vec<_>>> = BTreeMap::new();
        for (target, lines) in outcomes {
            for line in lines.iter().flatten() {
                if let Line::Row(row) = line {
                    let of_warmup = by_warmup.entry(row.warmup.clone()).or_default();
                    of_warmup.entry(*target).or_default().push(row.specialization.clone());
                }
            }
        }
        Self { by_warmup }
    }

    /// What a target did not get to of what the warm-up launches for others.
    fn behind(&self, target: Target, warmup: &str) -> Vec<&Specialization> {
        let Some(by_target) = self.by_warmup.get(warmup) else { return Vec::new() };
        let here = by_target.get(&target).map_or(&[][..], Vec::as_slice);
        let others = by_target.iter().filter(|(other, _)| **other != target);
        let longest = others.map(|(_, launches)| launches).max_by_key(|launches| launches.len());
        longest.into_iter().flatten().filter(|row| !here.contains(row)).collect()
    }

    /// The text of a warm-up that failed for a target, or nothing where it may: it did so at a kernel
    /// that the target does not get, and nothing comes behind that.
    fn failure(
        &self,
        restricted: &Restricted,
        target: Target,
        warmup: &str,
        what: &str,
        after: Option<String>,
    ) -> Option<String> {
        let is_kept =
            |row: &&&Specialization| !restricted.allows(&row.module, &row.function, target);
        let behind = self.behind(target, warmup);
        let name = |row: &&Specialization| row.name();
        if let Some(kept) = behind.iter().find(is_kept) {
            let lost: Vec<String> = behind.iter().filter(|row| !is_kept(row)).map(name).collect();
            return (!lost.is_empty()).then(|| {
                format!(
                    "warm-up {warmup:?} ends for {target} at {}, which is kept from that target, and \
                     with it is lost what comes behind: {}. Launch {} in a warm-up of its own",
                    kept.name(),
                    lost.join(", "),
                    kept.name()
                )
            });
        }
        let after = match after {
            Some(kernel) => format!(" after it compiled {kernel}"),
            None => " at its first launch".to_owned(),
        };
        // What works for another target is perhaps nothing that this one can do.
        let hint = match behind.first() {
            Some(row) => format!(
                "\n{} compiles for other targets. Where {target} lacks what it needs, name its \
                 targets: .targets_for(\"{}::{}\", […]), or targets-for in Cargo.toml",
                row.name(),
                row.module,
                row.function
            ),
            None => String::new(),
        };
        Some(format!("warm-up {warmup:?} failed for {target}{after}: {what}{hint}"))
    }
}
