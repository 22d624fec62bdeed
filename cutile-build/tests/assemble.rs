//! Jobs through a tileiras that does what its input says. It writes a line to a file for every
//! start: what runs is counted, never timed.

use cutile_build::assemble::{
    Assembler, Job, JobError, JobErrorKind, Outcomes, Pool, PoolOptions, Progress, Report,
    check_cubin, entry_symbols, has_function,
};
use cutile_build::events::{Event, Events, JobOutcome, Line, make_folder};
use cutile_embed::store::{FileSystemJitStore, JitStore};
use sha2::{Digest, Sha256};
use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The last argument is the input, the one before it the output. `sh` runs the script, which so
/// need not be executable, and cannot be busy while another test forks.
const FAKE: &str = r#"
for last; do before_output=$output; output=$previous; previous=$last; done
echo "$*" >> "$LOG"
env >> "$LOG.env"
read -r order < "$last"
echo "order: $order"
case "$order" in
    fail*) echo "failed to compile Tile IR program" >&2; exit 3 ;;
    chatty) i=0; while [ $i -lt 3000 ]; do echo "line $i of very much text that nobody reads"; i=$((i+1)); done; exit 1 ;;
    hang) sleep 1000 & echo $! > "$LOG.child"; wait ;;
    slow*) sleep 1; cp "$ELF" "$output" ;;
    kill) kill -9 $$ ;;
    nothing) ;;
    empty) : > "$output" ;;
    half) head -c 300 "$ELF" > "$output" ;;
    text) echo "hello, no image" > "$output" ;;
    *) cp "$ELF" "$output" ;;
esac
"#;

struct Fake {
    dir: tempfile::TempDir,
}

impl Fake {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tileiras.sh"), FAKE).unwrap();
        fs::write(dir.path().join("image"), elf(&["gemm_entry"])).unwrap();
        fs::create_dir(dir.path().join("scratch")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn assembler(&self, identity: u8) -> Assembler {
        let root = self.dir.path().to_owned();
        Assembler::new([identity; 32], move |tmp| {
            let mut command = Command::new("/bin/sh");
            command
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("LOG", root.join("log"))
                .env("ELF", root.join("image"))
                .env("TMPDIR", tmp)
                .arg(root.join("tileiras.sh"));
            command
        })
    }

    fn options(&self) -> PoolOptions {
        let mut options = PoolOptions::new(&self.path("scratch"));
        options.jobs = 4;
        options.cache = Some(self.path("cache/cutile/build"));
        options.keep = self.path("keep");
        options
    }

    fn run(&self, jobs: impl IntoIterator<Item = Job>) -> Report {
        self.run_with(self.options(), jobs)
    }

    fn run_with(&self, options: PoolOptions, jobs: impl IntoIterator<Item = Job>) -> Report {
        let pool = Pool::start(self.assembler(1), options);
        jobs.into_iter().for_each(|job| pool.submit(job));
        pool.finish()
    }

    /// Processes started so far.
    fn runs(&self) -> usize {
        fs::read_to_string(self.path("log")).map_or(0, |log| log.lines().count())
    }
}

fn job(gpu: &str, order: &str) -> Job {
    Job {
        digest: Sha256::digest(format!("{gpu} {order}")).into(),
        gpu: gpu.into(),
        label: "kernels::gemm<f16>".into(),
        args: vec!["--gpu-name".into(), gpu.into(), "--opt-level".into(), "3".into()],
        bytecode: format!("{order}\n").into_bytes(),
    }
}

fn only(outcomes: Outcomes) -> JobError {
    assert_eq!(outcomes.len(), 1);
    outcomes.into_values().next().unwrap().unwrap_err()
}

/// A 64-bit ELF file for CUDA (machine 190) with these functions, and 4 KiB of code.
fn elf(functions: &[&str]) -> Vec<u8> {
    const HEADER: usize = 64;
    let strings: Vec<u8> =
        functions.iter().fold(vec![0], |all, name| [&all, name.as_bytes(), &[0]].concat());
    let mut symbols = vec![0; 24];
    let mut name = 1;
    for function in functions {
        symbols.extend((name as u32).to_le_bytes());
        // A global function with CUDA's mark for an entry, in section 3.
        symbols.extend([0x12, 0x10, 3, 0]);
        symbols.extend([0; 16]);
        name += function.len() + 1;
    }
    let code = vec![0x90; 4096];
    let (strings_at, symbols_at) = (HEADER, HEADER + strings.len());
    let code_at = symbols_at + symbols.len();
    let headers_at = code_at + code.len();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 190, 0, 1, 0, 0, 0]);
    file.resize(40, 0);
    file.extend((headers_at as u64).to_le_bytes());
    file.extend([0; 4]);
    for half in [HEADER as u16, 56, 0, 64, 4, 1] {
        file.extend(half.to_le_bytes());
    }
    file.extend([strings, symbols.clone(), code.clone()].concat());
    let strings_len = symbols_at - strings_at;
    file.extend([0; 64]);
    for (kind, at, len, link, size) in [
        (3_u32, strings_at, strings_len, 0_u32, 0_u64),
        (2, symbols_at, symbols.len(), 1, 24),
        (1, code_at, code.len(), 0, 0),
    ] {
        file.extend(0_u32.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend([0; 16]);
        file.extend((at as u64).to_le_bytes());
        file.extend((len as u64).to_le_bytes());
        file.extend(link.to_le_bytes());
        file.extend(0_u32.to_le_bytes());
        file.extend(1_u64.to_le_bytes());
        file.extend(size.to_le_bytes());
    }
    file
}

#[test]
fn an_image_lists_its_functions() {
    let image = elf(&["gemm_entry", "add_entry"]);
    assert_eq!(check_cubin(&image), Ok(()));
    assert_eq!(entry_symbols(&image).unwrap(), ["add_entry", "gemm_entry"]);
    assert_eq!(has_function(&image, "add_entry"), Ok(true));
    assert_eq!(has_function(&image, "add"), Ok(false));
}

#[test]
fn an_image_that_is_cut_anywhere_is_found() {
    let image = elf(&["gemm_entry"]);
    for len in 0..image.len() {
        assert!(check_cubin(&image[..len]).is_err(), "cut at {len}");
    }
}

#[test]
fn a_warm_cache_starts_no_process() {
    let fake = Fake::new();
    let jobs = || [job("sm_80", "a"), job("sm_90", "a"), job("sm_90", "b")];
    let cold = fake.run(jobs());
    assert_eq!((cold.processes, fake.runs()), (3, 3));
    assert!(cold.outcomes.values().all(|outcome| !outcome.as_ref().unwrap().from_cache));
    let warm = fake.run(jobs());
    assert_eq!((warm.processes, fake.runs()), (0, 3));
    for outcome in warm.outcomes.into_values() {
        let assembled = outcome.unwrap();
        assert!(assembled.from_cache);
        assert_eq!(assembled.cubin, elf(&["gemm_entry"]));
    }
    assert!(cold.notes.is_empty() && warm.notes.is_empty());
    assert_eq!(fs::read_dir(fake.path("scratch")).unwrap().count(), 0, "no folder is left");
}

#[test]
fn identical_jobs_run_once() {
    let fake = Fake::new();
    let mut options = fake.options();
    options.cache = None;
    let report = fake.run_with(options, std::iter::repeat_n(job("sm_90", "slow"), 8));
    assert_eq!((report.outcomes.len(), fake.runs()), (1, 1));
}

#[test]
fn jobs_with_one_digest_that_differ_are_an_error() {
    let fake = Fake::new();
    let other = Job { bytecode: b"other\n".to_vec(), ..job("sm_90", "a") };
    let report = fake.run([job("sm_90", "a"), other]);
    // Whether the first had ended already does not matter: neither image may be taken.
    assert!(matches!(only(report.outcomes).kind, JobErrorKind::Conflict));
}

#[test]
fn s02_from_one_target_to_another_and_back_starts_no_process() {
    let fake = Fake::new();
    for (gpu, runs) in [("sm_90", 1), ("sm_100", 2), ("sm_90", 2), ("sm_100", 2)] {
        let report = fake.run([job(gpu, "a")]);
        assert_eq!((report.outcomes.len(), fake.runs()), (1, runs), "{gpu}");
    }
}

#[test]
fn another_toolkit_is_another_cache() {
    let fake = Fake::new();
    for (identity, runs) in [(1, 1), (2, 2), (1, 2)] {
        let pool = Pool::start(fake.assembler(identity), fake.options());
        pool.submit(job("sm_90", "a"));
        pool.finish();
        assert_eq!(fake.runs(), runs, "toolkit {identity}");
    }
}

#[test]
fn s08_a_failure_says_how_to_repeat_it_and_stops_no_other_job() {
    let fake = Fake::new();
    let jobs = || [job("sm_90", "fail it's"), job("sm_90", "a"), job("sm_80", "b")];
    let report = fake.run(jobs());
    assert_eq!(report.outcomes.values().filter(|outcome| outcome.is_ok()).count(), 2);
    let error = report.outcomes.into_values().find_map(Result::err).unwrap();
    assert!(matches!(error.kind, JobErrorKind::Failed { status: 3 }));
    assert_eq!(error.gpu, "sm_90");
    assert!(error.output.contains("failed to compile Tile IR program"));
    let kept = error.kept.clone().unwrap();
    assert_eq!(kept, fake.path("keep").join(kept.file_name().unwrap()));
    assert_eq!(fs::read(&kept).unwrap(), b"fail it's\n");
    let message = error.to_string();
    for part in ["exit status 3", "Tile IR", &kept.display().to_string(), "env -i "] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // The command does repeat it.
    let runs = fake.runs();
    let again = Command::new("/bin/sh").arg("-c").arg(&*error.command).output().unwrap();
    assert_eq!(again.status.code(), Some(3));
    assert_eq!(fake.runs(), runs + 1);
    let log = fs::read_to_string(fake.path("log")).unwrap();
    assert!(log.lines().last().unwrap().starts_with("--gpu-name sm_90 --opt-level 3 -o "));
    // The others stay cached, the failure does not.
    let report = fake.run(jobs());
    assert_eq!(report.processes, 1);
}

#[test]
fn s09_a_process_that_is_killed_says_what_to_do() {
    let fake = Fake::new();
    let error = only(fake.run([job("sm_90", "kill")]).outcomes);
    assert!(matches!(error.kind, JobErrorKind::Killed { signal: 9 }));
    let message = error.to_string();
    for part in ["memory", "CUTILE_BUILD_JOBS=1", "CUTILE_BUILD_MEMORY"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn s09_a_process_that_hangs_is_killed_with_its_children() {
    let fake = Fake::new();
    let mut options = fake.options();
    options.timeout = Duration::from_secs(1);
    let error = only(fake.run_with(options, [job("sm_90", "hang")]).outcomes);
    assert!(matches!(error.kind, JobErrorKind::TimedOut { .. }));
    assert!(error.to_string().contains("CUTILE_BUILD_TIMEOUT"));
    assert!(error.output.contains("order: hang"));
    let child = fs::read_to_string(fake.path("log.child")).unwrap();
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        !is_alive(child.trim())
    });
    assert!(gone, "its child {child} lives");
}

/// A process without a parent that waits for it may stay as a zombie.
fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_none_or(|rest| !rest.starts_with(" Z")))
}

#[test]
fn s09_an_image_that_is_not_whole_is_refused_and_not_cached() {
    let fake = Fake::new();
    for order in ["nothing", "empty", "half", "text"] {
        for _ in 0..2 {
            let runs = fake.runs();
            let error = only(fake.run([job("sm_90", order)]).outcomes);
            assert_eq!(fake.runs(), runs + 1, "{order}: it is not cached");
            let as_expected = match order {
                "half" => matches!(error.kind, JobErrorKind::Truncated { .. }),
                "text" => matches!(error.kind, JobErrorKind::NotElf { .. }),
                _ => matches!(error.kind, JobErrorKind::Empty),
            };
            assert!(as_expected, "{order}: {error}");
            assert!(error.kept.is_some());
        }
    }
}

#[test]
fn output_is_bounded_and_its_end_is_kept() {
    let fake = Fake::new();
    let error = only(fake.run([job("sm_90", "chatty")]).outcomes);
    assert_eq!(error.output.len(), 64 << 10);
    assert!(error.output.contains("line 2999 ") && !error.output.contains("line 0 "));
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_with_its_source() {
    let fake = Fake::new();
    let assembler = Assembler::new([1; 32], |_| Command::new("/nowhere/tileiras"));
    let pool = Pool::start(assembler, fake.options());
    pool.submit(job("sm_90", "a"));
    let error = only(pool.finish().outcomes);
    assert!(matches!(error.kind, JobErrorKind::Spawn { .. }));
    assert!(error.source().is_some());
    assert!(error.command.contains("/nowhere/tileiras"));
}

#[test]
fn nothing_of_this_process_environment_reaches_it() {
    let fake = Fake::new();
    fake.run([job("sm_90", "a")]);
    let env = fs::read_to_string(fake.path("log.env")).unwrap();
    let mut names: Vec<&str> = env
        .lines()
        .filter_map(|line| line.split_once('=').map(|(name, _)| name))
        // The shell sets these itself.
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["ELF", "LOG", "PATH", "TMPDIR"]);
    let scratch = fake.path("scratch");
    let tmp = env.lines().find_map(|line| line.strip_prefix("TMPDIR=")).unwrap();
    assert!(Path::new(tmp).starts_with(scratch), "{tmp}");
}

#[test]
fn s13_two_builds_that_share_the_cache_run_each_job_once() {
    let fake = Fake::new();
    let jobs = || ["slow 1", "slow 2", "slow 3", "slow 4"].map(|order| job("sm_90", order));
    let processes: usize = std::thread::scope(|scope| {
        let builds: Vec<_> = (0..2).map(|_| scope.spawn(|| fake.run(jobs()))).collect();
        builds
            .into_iter()
            .map(|build| {
                let report = build.join().unwrap();
                assert!(report.outcomes.values().all(Result::is_ok));
                report.processes
            })
            .sum()
    });
    assert_eq!((processes, fake.runs()), (4, 4));
}

#[test]
fn s13_a_build_that_died_holds_up_no_other() {
    let fake = Fake::new();
    fake.run([job("sm_80", "b")]);
    // What a killed build leaves: a lock file that nobody holds.
    let key = {
        let cache = cutile_build::assemble::cache::BuildCache::open(
            &fake.path("cache/cutile/build"),
            [1; 32],
        );
        cache.unwrap().key(&job("sm_90", "a"))
    };
    let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let lock = fake.path("cache/cutile/build/locks").join(format!("{name}.lock"));
    fs::write(&lock, "").unwrap();
    assert_eq!(fake.run([job("sm_90", "a")]).processes, 1);
    assert!(!lock.exists());
}

fn values(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(values(&path)),
            path if path.extension().is_some_and(|end| end == "cubin") => found.push(path),
            _ => {}
        }
    }
    found
}

#[test]
fn a_damaged_value_is_compiled_again() {
    let fake = Fake::new();
    fake.run([job("sm_90", "a")]);
    let path = values(&fake.path("cache")).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let flipped = {
        let mut bytes = whole.clone();
        bytes[200] ^= 1;
        bytes
    };
    for (nth, damaged) in [flipped, whole[..whole.len() / 2].to_vec(), vec![], elf(&["planted"])]
        .into_iter()
        .enumerate()
    {
        fs::write(&path, damaged).unwrap();
        let report = fake.run([job("sm_90", "a")]);
        assert_eq!(report.processes, 1, "damage {nth}");
        assert!(report.outcomes.values().all(Result::is_ok));
        assert_eq!(fs::read(&path).unwrap(), whole, "damage {nth}");
    }
}

#[test]
fn s38_what_lies_in_the_run_time_cache_is_not_embedded() {
    let fake = Fake::new();
    fake.run([job("sm_90", "a")]);
    let ours = values(&fake.path("cache")).pop().unwrap();
    let key = ours.file_stem().unwrap().to_str().unwrap().to_owned();
    let value = fs::read(&ours).unwrap();
    fs::remove_dir_all(fake.path("cache/cutile/build")).unwrap();
    // The same value under the same key, and under the job's digest, beside it.
    let run_time = FileSystemJitStore::builder(fake.path("cache/cutile/kernels")).open().unwrap();
    let digest: String =
        job("sm_90", "a").digest.iter().map(|byte| format!("{byte:02x}")).collect();
    run_time.put(&key, &value).unwrap();
    run_time.put(&digest, &elf(&["planted"])).unwrap();
    let before = values(&fake.path("cache/cutile/kernels")).len();
    let report = fake.run([job("sm_90", "a")]);
    assert_eq!(report.processes, 1);
    let assembled = report.outcomes.into_values().next().unwrap().unwrap();
    assert_eq!(has_function(&assembled.cubin, "planted"), Ok(false));
    assert_eq!(values(&fake.path("cache/cutile/kernels")).len(), before, "nor written to");
}

#[test]
fn a_cache_that_cannot_be_used_is_one_note_and_no_failure() {
    let fake = Fake::new();
    fs::write(fake.path("a-file"), "").unwrap();
    fs::create_dir(fake.path("open-to-others")).unwrap();
    fs::set_permissions(fake.path("open-to-others"), fs::Permissions::from_mode(0o755)).unwrap();
    for place in ["a-file", "a-file/below", "open-to-others"] {
        let mut options = fake.options();
        options.cache = Some(fake.path(place));
        let report = fake.run_with(options, [job("sm_90", "a"), job("sm_80", "a")]);
        assert!(report.outcomes.values().all(Result::is_ok), "{place}");
        assert_eq!(report.processes, 2);
        assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
        assert!(report.notes[0].contains(place) && report.notes[0].contains("CUTILE_BUILD_CACHE"));
    }
    assert_eq!(fs::read_dir(fake.path("open-to-others")).unwrap().count(), 0, "untouched");
}

#[test]
fn without_tokens_one_process_runs_and_all_jobs_end() {
    let fake = Fake::new();
    let jobserver = jobserver::Client::new(1).unwrap();
    let taken = jobserver.acquire().unwrap();
    let most = Arc::new(Mutex::new(0));
    let mut options = fake.options();
    options.jobserver = Some(jobserver.clone());
    options.progress_after = Duration::from_millis(100);
    options.progress_every = Duration::from_millis(20);
    let seen = Arc::clone(&most);
    options.progress = Some(Arc::new(move |progress: &Progress| {
        let mut most = seen.lock().unwrap();
        *most = progress.running.max(*most);
    }));
    let report = fake.run_with(options, ["slow 1", "slow 2"].map(|order| job("sm_90", order)));
    assert!(report.outcomes.values().all(Result::is_ok));
    assert_eq!(*most.lock().unwrap(), 1);
    drop(taken);
    assert_eq!(jobserver.available().unwrap(), 1, "every token is given back");
}

#[test]
fn memory_limits_how_many_run() {
    let fake = Fake::new();
    let most = Arc::new(Mutex::new(0));
    let mut options = fake.options();
    options.memory = 1 << 30;
    options.progress_after = Duration::ZERO;
    options.progress_every = Duration::from_millis(20);
    let seen = Arc::clone(&most);
    options.progress = Some(Arc::new(move |progress: &Progress| {
        let mut most = seen.lock().unwrap();
        *most = progress.running.max(*most);
    }));
    fake.run_with(options, ["slow 1", "slow 2"].map(|order| job("sm_90", order)));
    assert_eq!(*most.lock().unwrap(), 1);
}

#[test]
fn a_long_build_says_which_job_runs_and_since_when() {
    let fake = Fake::new();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let mut options = fake.options();
    options.progress_after = Duration::from_millis(300);
    options.progress_every = Duration::from_millis(100);
    let seen = Arc::clone(&lines);
    options.progress = Some(Arc::new(move |progress: &Progress| {
        seen.lock().unwrap().push(progress.to_string());
    }));
    fake.run_with(options, [job("sm_100", "slow")]);
    let lines = lines.lock().unwrap();
    assert!(
        lines.iter().any(|line| line.starts_with("0 of 1 GPU images after 0 s, 1 running")
            && line.contains("longest kernels::gemm<f16> for sm_100: ")),
        "{lines:?}"
    );
}

#[test]
fn a_pool_that_is_dropped_kills_what_runs() {
    let fake = Fake::new();
    let pool = Pool::start(fake.assembler(1), fake.options());
    pool.submit(job("sm_90", "hang"));
    let started = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        fake.path("log.child").exists()
    });
    assert!(started);
    // It would wait 10 minutes if it did not kill.
    drop(pool);
    assert_eq!(fs::read_dir(fake.path("scratch")).unwrap().count(), 0);
}

/// What the pool said of these jobs, without the first line.
fn said(fake: &Fake, folder: &str, jobs: impl IntoIterator<Item = Job>) -> Vec<Event> {
    let folder = fake.path(folder);
    make_folder(&folder, false).unwrap();
    let mut options = fake.options();
    options.events = Events::begin(&folder, "app", "0.1.0");
    fake.run_with(options, jobs);
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(file).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str::<Line>(line).unwrap().event).collect()
}

#[test]
fn each_job_is_told_of_with_its_outcome() {
    let fake = Fake::new();
    let bytes = elf(&["gemm_entry"]).len() as u64;
    let outcomes = |events: &[Event]| -> Vec<JobOutcome> {
        let mut outcomes: Vec<JobOutcome> = events
            .iter()
            .filter_map(|event| match event {
                Event::JobEnded { outcome, .. } => Some(outcome.clone()),
                _ => None,
            })
            .collect();
        outcomes.sort_by_key(|outcome| format!("{outcome:?}"));
        outcomes
    };
    let count = |events: &[Event], is: fn(&Event) -> bool| events.iter().filter(|e| is(e)).count();
    let started = |event: &Event| matches!(event, Event::JobStarted { slot: 0..4, .. });
    let queued =
        |event: &Event| matches!(event, Event::JobQueued { target, .. } if target == "sm_90");

    let cold = said(&fake, "cold", [job("sm_90", "a"), job("sm_90", "a"), job("sm_90", "fail")]);
    assert_eq!((count(&cold, queued), count(&cold, started)), (2, 2), "{cold:?}");
    let [JobOutcome::Compiled { bytes: compiled }, JobOutcome::Failed { what }] =
        &outcomes(&cold)[..]
    else {
        panic!("{cold:?}")
    };
    assert_eq!(*compiled, bytes);
    assert!(what.contains("exit status 3") && what.contains("failed to compile"), "{what}");

    // What needs no process starts none, and says so.
    let warm = said(&fake, "warm", [job("sm_90", "a")]);
    assert_eq!((count(&warm, queued), count(&warm, started)), (1, 0), "{warm:?}");
    assert_eq!(outcomes(&warm), [JobOutcome::Cached { bytes }]);
}
