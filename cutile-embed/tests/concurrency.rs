//! 16 processes of 8 threads on one store.
//!
//! Each value carries its key and its digest, so that a torn one is known by itself. In one run
//! entries are deleted, evicted and cleared all the time; in another they are only put, and each
//! has to be there in the end.
//!
//! A run takes two seconds, or as many as `CUTILE_EMBED_STRESS_SECONDS` says. The child is this
//! binary again, in a folder of its own.

#![cfg(unix)]

use cutile_embed::key::key_text;
use cutile_embed::store::{EVICTION_LOCK_FILE_NAME, FileSystemJitStore, JitStore};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROCESSES: usize = 16;
const THREADS: usize = 8;
const KEYS: u64 = 200;
/// Smaller than what the keys have together, so that eviction runs all the time.
const CAPACITY: u64 = 400_000;

/// What a child finds in its folder: how long, and what it does.
const CHILD: &str = "this folder is for the child of a test";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// Put, get, contains, delete, evict, clear.
    Everything,
    /// Put and get, without a bound.
    PutAndGet,
}

/// A small generator: what is done differs, and nothing depends on how.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Keys of a few shards, so that processes meet.
fn key(number: u64) -> String {
    let mut key: [u8; 32] = Sha256::digest(number.to_le_bytes()).into();
    key[0] %= 8;
    key_text(&key)
}

/// Digest, key, and up to 16 kB.
fn value(key: &str, random: &mut Random) -> Vec<u8> {
    let length = random.below(16_000) as usize;
    let fill = random.below(256) as u8;
    let mut body = key.as_bytes().to_vec();
    body.resize(key.len() + length, fill);
    [&Sha256::digest(&body)[..], &body].concat()
}

fn is_whole(key: &str, value: &[u8]) -> bool {
    value.split_at_checked(32).is_some_and(|(digest, body)| {
        Sha256::digest(body).as_slice() == digest && body.starts_with(key.as_bytes())
    })
}

type Counts = BTreeMap<&'static str, u64>;

fn count(counts: &mut Counts, what: &'static str) {
    *counts.entry(what).or_insert(0) += 1;
}

/// What one thread does until `end`, and the keys it has put.
fn work(run: Run, root: &Path, seed: u64, end: Instant) -> (Counts, BTreeSet<u64>) {
    let mut random = Random(seed);
    let store = match run {
        Run::Everything => FileSystemJitStore::builder(root).capacity_bytes(CAPACITY),
        Run::PutAndGet => FileSystemJitStore::builder(root).capacity_bytes(0),
    };
    let store = store.open().unwrap();
    let mut counts = Counts::new();
    let mut known = BTreeSet::new();
    while Instant::now() < end {
        let number = random.below(KEYS);
        let key = key(number);
        let choice = match run {
            Run::Everything => random.below(1000),
            Run::PutAndGet => random.below(900),
        };
        match choice {
            0..400 => match store.put(&key, &value(&key, &mut random)) {
                Ok(()) => {
                    known.insert(number);
                    count(&mut counts, "put");
                }
                // `clear` of others took the shard away again and again.
                Err(error) if run == Run::Everything && error.kind() == ErrorKind::NotFound => {
                    count(&mut counts, "put in vain");
                }
                Err(error) => panic!("put: {error}"),
            },
            400..900 => match store.get(&key).unwrap_or_else(|error| panic!("get: {error}")) {
                Some(value) if is_whole(&key, &value) => count(&mut counts, "whole"),
                Some(value) => {
                    eprintln!("a torn value of {} bytes under {key}", value.len());
                    count(&mut counts, "torn");
                }
                None if run == Run::PutAndGet && known.contains(&number) => {
                    eprintln!("{key} was put, and is lost");
                    count(&mut counts, "lost");
                }
                None => count(&mut counts, "nothing"),
            },
            900..950 => {
                store.contains(&key).unwrap_or_else(|error| panic!("contains: {error}"));
                count(&mut counts, "contains");
            }
            950..998 => {
                store.delete(&key).unwrap_or_else(|error| panic!("delete: {error}"));
                count(&mut counts, "delete");
            }
            _ => {
                store.clear().unwrap_or_else(|error| panic!("clear: {error}"));
                count(&mut counts, "clear");
            }
        }
    }
    (counts, known)
}

/// All threads of one process; its counts go to stdout.
fn be_the_child(run: Run) {
    let told = fs::read_to_string(CHILD).unwrap();
    let (number, seconds) = told.split_once(' ').unwrap();
    let number: u64 = number.parse().unwrap();
    let root = std::env::current_dir().unwrap().parent().unwrap().join("root");
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse().unwrap());
    let total = Mutex::new((Counts::new(), BTreeSet::new()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (root, total) = (&root, &total);
            scope.spawn(move || {
                let (counts, known) = work(run, root, (number * 100 + thread + 1) << 20 | 1, end);
                let mut total = total.lock().unwrap();
                for (what, number) in counts {
                    *total.0.entry(what).or_insert(0) += number;
                }
                total.1.extend(known);
            });
        }
    });
    let (counts, known) = total.into_inner().unwrap();
    for (what, number) in counts {
        println!("counted {number} {what}");
    }
    for number in known {
        println!("known {number}");
    }
}

fn seconds() -> f64 {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads this variable")]
    let given = std::env::var("CUTILE_EMBED_STRESS_SECONDS");
    given.map_or(2.0, |given| given.parse().expect("a number of seconds"))
}

/// What all processes did.
struct Done {
    _dir: TempDir,
    root: PathBuf,
    counts: BTreeMap<String, u64>,
    /// What was put.
    known: BTreeSet<u64>,
}

fn processes(test: &str) -> Done {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let folder = dir.path().join(format!("child{number}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(CHILD), format!("{number} {}", seconds())).unwrap();
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture"])
                .current_dir(folder)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let (mut counts, mut known) = (BTreeMap::new(), BTreeSet::new());
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
        for line in text.lines().filter_map(|line| line.split_once("counted ")) {
            let (number, what) = line.1.split_once(' ').unwrap();
            *counts.entry(what.to_owned()).or_insert(0) += number.parse::<u64>().unwrap();
        }
        known.extend(
            text.lines().filter_map(|line| line.strip_prefix("known ")?.parse::<u64>().ok()),
        );
    }
    println!("{PROCESSES} processes of {THREADS} threads, {} s: {counts:?}", seconds());
    Done { root: dir.path().join("root"), _dir: dir, counts, known }
}

/// The names of all files of the shards.
fn files(root: &Path) -> Vec<String> {
    let shards = fs::read_dir(root).unwrap().map(|shard| shard.unwrap().path());
    shards
        .filter(|shard| shard.is_dir())
        .flat_map(|shard| fs::read_dir(shard).unwrap())
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn what_is_read_is_whole_while_others_put_delete_evict_and_clear() {
    const TEST: &str = "what_is_read_is_whole_while_others_put_delete_evict_and_clear";
    if Path::new(CHILD).exists() {
        return be_the_child(Run::Everything);
    }
    let Done { _dir, root, counts, .. } = processes(TEST);
    assert_eq!(counts.get("torn"), None, "{counts:?}");
    for happened in ["put", "whole", "nothing", "delete", "clear"] {
        assert!(counts.contains_key(happened), "{happened}: {counts:?}");
    }
    assert!(files(&root).iter().all(|name| !name.contains(".tmp.")), "{:?}", files(&root));
    // Who looks at the total makes it.
    assert!(root.join(EVICTION_LOCK_FILE_NAME).exists());
}

#[test]
fn what_was_put_is_there_for_all_processes() {
    const TEST: &str = "what_was_put_is_there_for_all_processes";
    if Path::new(CHILD).exists() {
        return be_the_child(Run::PutAndGet);
    }
    let Done { _dir, root, counts, known } = processes(TEST);
    assert_eq!((counts.get("torn"), counts.get("lost")), (None, None), "{counts:?}");
    assert!(known.len() as u64 > KEYS / 2, "{counts:?}");
    let store = FileSystemJitStore::new(&root).unwrap();
    for key in known.iter().copied().map(key) {
        let value = store.get(&key).unwrap().unwrap_or_else(|| panic!("{key} is lost"));
        assert!(is_whole(&key, &value), "{key}");
    }
    assert_eq!(files(&root).len(), known.len(), "{:?}", files(&root));
}
