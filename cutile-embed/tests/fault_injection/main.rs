//! The stores on a file system that fails at each call in turn.
//!
//! A library that is loaded before libc (`shim.c`) makes one call of a child fail: the child is
//! this binary again, and does [`scenario::run`]. Once for each call and each fault.

#![cfg(all(target_os = "linux", target_env = "gnu", feature = "wgsl"))]

mod scenario;
mod swap;

use cutile_embed::store::{FileSystemJitStore, JitStore};
use scenario::{Counted, kernels, key, shaders, value};
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const EINTR: i32 = 4;
const ENOENT: i32 = 2;
const ENOTEMPTY: i32 = 39;

/// Linux's numbers.
const ERRORS: [(&str, i32); 7] = [
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("EACCES", 13),
    ("EBUSY", 16),
    ("ESTALE", 116),
    ("EINTR", EINTR),
    ("EIO", 5),
];

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It fails, and the next does not.
    Once(i32),
    /// It fails, and so does every one after it.
    From(i32),
    /// A write takes half.
    Short,
    /// A rename is not done, and says it was.
    Lost,
    /// What a call names is gone, as where another process clears the store at the same time.
    Gone,
    /// Everything is, from this call on.
    GoneFrom,
    /// A folder that was empty has something in it again when it is removed.
    Filled,
    /// It comes later.
    Delay,
    /// The process is killed before it.
    Kill,
}

impl Fault {
    fn environment(self) -> Vec<(&'static str, String)> {
        let one = |action: &str| vec![("FAULT_DO", action.to_owned())];
        let of = |action: &str, calls: &str| {
            vec![("FAULT_DO", action.to_owned()), ("FAULT_CALLS", calls.to_owned())]
        };
        match self {
            Self::Once(error) => one(&error.to_string()),
            Self::From(error) => {
                vec![("FAULT_DO", error.to_string()), ("FAULT_FROM", "1".to_owned())]
            }
            Self::Short => of("short", "write"),
            Self::Lost => of("lost", "rename"),
            Self::Gone => of(&ENOENT.to_string(), NAMING),
            Self::GoneFrom => Self::From(ENOENT).environment(),
            Self::Filled => of(&ENOTEMPTY.to_string(), "rmdir"),
            Self::Delay => one("delay"),
            Self::Kill => one("kill"),
        }
    }
}

/// Calls that name a file, which may be gone.
const NAMING: &str = "open stat rename unlink rmdir";

/// A folder of a child, in which it finds `home` and leaves `counted` and `log`.
struct Child {
    dir: TempDir,
}

impl Child {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CHILD), "").unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    fn home(&self) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join("home")
    }

    fn run(&self, test: &str, number: u64, environment: &[(&str, String)]) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .current_dir(self.dir.path())
            .env("LD_PRELOAD", shim())
            .env("FAULT_DIR", self.home())
            .env("FAULT_LOG", self.dir.path().join("log"))
            .env("FAULT_N", number.to_string())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }

    /// The calls below `home`, each with what it named; `!` in front of those that were faults.
    fn calls(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn counted(&self) -> Counted {
        Counted::read(&self.dir.path().join("counted"))
    }
}

const CHILD: &str = "this folder is for the child of a test";

fn is_child() -> bool {
    Path::new(CHILD).exists()
}

/// The scenario in this process, with its counters left in the folder.
fn be_the_child(with_small_store: bool) {
    let home = std::env::current_dir().unwrap().canonicalize().unwrap().join("home");
    scenario::run(&home, with_small_store).write(Path::new("counted"));
}

/// The library, compiled once.
fn shim() -> &'static Path {
    static SHIM: std::sync::LazyLock<(TempDir, PathBuf)> = std::sync::LazyLock::new(|| {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("shim.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault_injection/shim.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(source)
            .arg("-ldl")
            .status()
            .expect("the tests need a C compiler: install gcc");
        assert!(compiled.success());
        (dir, library)
    });
    &SHIM.1
}

fn success(output: &Output) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Every temporary file below `root`.
fn temporary(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for shard in fs::read_dir(root).into_iter().flatten().flatten() {
        for file in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().contains(".tmp.") {
                found.push(file.path());
            }
        }
    }
    found
}

/// A failure that nobody is told of: an entry that cannot be touched only ages faster.
fn is_passed_over(call: &str) -> bool {
    call.starts_with("futimens")
}

/// Others clear a store, which takes its shards away and leaves its root.
fn is_in_a_shard(call: &str) -> bool {
    let is_shard = |name: &str| name.len() == 2 && name.bytes().all(|b| b.is_ascii_hexdigit());
    call.split(' ').nth(1).is_some_and(|path| path.split('/').any(is_shard))
}

/// What has to hold after a child met `fault` at call `number`; returns how many faults there were.
fn check(child: &Child, fault: Fault, number: u64, output: &Output, whole: &Counted) -> u64 {
    let calls = child.calls();
    let hit: Vec<&str> = calls.iter().filter_map(|call| call.strip_prefix('!')).collect();
    let context = || format!("{fault:?} at call {number}: {hit:?}\n{}", text(output));
    if fault == Fault::Kill && !hit.is_empty() {
        assert!(!output.status.success(), "{}", context());
    } else {
        assert!(success(output), "{}", context());
        let counted = child.counted();
        match fault {
            Fault::Short | Fault::Delay => assert_eq!(counted, *whole, "{}", context()),
            // What was only interrupted is asked again, or is an error as any other.
            Fault::Once(EINTR) if counted == *whole => {}
            Fault::Once(_) | Fault::From(_) => {
                let told = counted.seen() > 0 || hit.iter().all(|call| is_passed_over(call));
                assert!(told, "nobody learns of it: {counted:?}, {}", context());
            }
            // What others do to a store is no failure of it.
            Fault::Gone | Fault::Filled if hit.iter().all(|call| is_in_a_shard(call)) => {
                assert_eq!(counted.seen(), 0, "{counted:?}, {}", context());
                assert_eq!(counted.puts, counted.misses, "{counted:?}, {}", context());
            }
            _ => {}
        }
    }

    // A clean process: nothing torn is served, no temporary file stays, everything works again.
    let home = child.home();
    let store = FileSystemJitStore::private(&kernels(&home))
        .unwrap_or_else(|error| panic!("{error}: {}", context()));
    for shard in scenario::LOADED.iter().chain(&scenario::DIRECT).chain([&scenario::EVICTING]) {
        if let Some(found) = store.get(&key(shard)).unwrap() {
            assert_eq!(found, value(shard), "{shard}: {}", context());
        }
    }
    for root in [kernels(&home), shaders(&home), scenario::cleared(&home)] {
        let left = temporary(&root);
        let may_be_left = match fault {
            Fault::Kill | Fault::Lost | Fault::From(_) | Fault::GoneFrom => true,
            // It was the removal that failed.
            Fault::Once(_) | Fault::Gone => hit.iter().any(|call| call.starts_with("unlink")),
            _ => false,
        };
        assert!(left.is_empty() || may_be_left, "{left:?}: {}", context());
        for temp in &left {
            let then = SystemTime::now() - Duration::from_secs(3700);
            let file = File::options().write(true).open(temp).unwrap();
            file.set_times(FileTimes::new().set_modified(then)).unwrap();
        }
        if !left.is_empty() {
            LEFT.fetch_add(left.len() as u64, Ordering::Relaxed);
            let shared = FileSystemJitStore::new(&root).unwrap();
            for temp in &left {
                let shard = temp.parent().unwrap().file_name().unwrap().to_str().unwrap();
                shared.put(&key(shard), &value(shard)).unwrap();
            }
            assert!(temporary(&root).is_empty(), "{}", context());
        }
    }
    store.put(&key("a1"), &value("a1")).unwrap();
    assert_eq!(store.get(&key("a1")).unwrap(), Some(value("a1")));
    for kind in scenario::KINDS {
        let (lowered, _) = scenario::shader(kind, None);
        assert_eq!(scenario::shader(kind, Some(shaders(&home))).0, lowered, "{}", context());
        assert_eq!(scenario::shader(kind, Some(shaders(&home))), (lowered, true), "{}", context());
    }
    hit.len() as u64
}

/// Temporary files that were left, and removed when they were old.
static LEFT: AtomicU64 = AtomicU64::new(0);

const TEST: &str = "after_every_single_fault_the_launch_works_and_nothing_is_torn";

#[test]
fn after_every_single_fault_the_launch_works_and_nothing_is_torn() {
    if is_child() {
        return be_the_child(true);
    }
    let clean = Child::new();
    let output = clean.run(TEST, 0, &[]);
    assert!(success(&output), "{}", text(&output));
    let whole = clean.counted();
    assert_eq!(whole.seen(), 0);
    let calls = clean.calls().len() as u64;
    let mut kinds = BTreeMap::new();
    for call in clean.calls() {
        *kinds.entry(call.split(' ').next().unwrap().to_owned()).or_insert(0) += 1;
    }
    println!("{kinds:?}");
    assert_eq!((whole.loads, whole.hits, whole.puts), (5, 3, 2), "{whole:?}");
    assert_eq!((whole.shader_hits, whole.shader_misses), (2, 4), "{whole:?}");

    let mut faults: Vec<Fault> = ERRORS.map(|(_, error)| Fault::Once(error)).to_vec();
    faults.extend([28, 30, 5].map(Fault::From));
    faults.extend([Fault::Short, Fault::Lost, Fault::Delay, Fault::Kill]);
    faults.extend([Fault::Gone, Fault::GoneFrom, Fault::Filled]);
    let queue = Mutex::new(faults);
    let injected = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(fault) = { queue.lock().unwrap().pop() } {
                    let (mut hit, mut runs) = (0, 0);
                    for number in 1.. {
                        let child = Child::new();
                        let output = child.run(TEST, number, &fault.environment());
                        let met = check(&child, fault, number, &output, &whole);
                        if met == 0 {
                            break;
                        }
                        hit += met;
                        runs += 1;
                    }
                    injected.lock().unwrap().insert(format!("{fault:?}"), (runs, hit));
                }
            });
        }
    });
    let injected = injected.into_inner().unwrap();
    let (runs, hits) = injected.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{calls} calls, {runs} runs with a fault, {hits} faults: {injected:?}");
    println!("{} temporary files were left, and removed when old", LEFT.load(Ordering::Relaxed));
    // Were the library not loaded, there would be none.
    assert!(runs > 200, "{runs}");
}
