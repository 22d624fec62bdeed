//! The contract of the store, the key and the entry, a test a row: what upstream's own tests hold
//! of its cache, and what this crate adds.
//!
//! Tests that look at the counters of the process, or change its store, take [`process`] first.
//! What needs another umask, file size limit or environment runs in a child: this test binary
//! again, in a folder of its own ([`child`]).

#![cfg(unix)]

use cutile_embed::entry::{
    ENTRY_HEADER_LEN, EntryHeader, EntryParams, decode_entry, encode_entry,
};
use cutile_embed::key::{BytecodeVersion, KeyInput, L2_KEY_SCHEMA, key_bytes, l2_key};
use cutile_embed::pack::{Pack, PackWriter};
use cutile_embed::store::{
    self, CompileError, DEFAULT_CAPACITY_BYTES, EVICTION_LOCK_FILE_NAME, EmbeddedJitStore,
    FileSystemJitStore, JitCacheStats, JitStore, MAX_ENTRY_BYTES, Tier, TieredJitStore,
    default_root,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const FINGERPRINT: &str = "V13.5.37";

fn params() -> EntryParams<'static> {
    EntryParams {
        bc_sha256: [7; 32],
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: FINGERPRINT,
    }
}

/// A key that starts with `shard`, two hex digits.
fn key(shard: &str) -> String {
    format!("{shard}{}", "0".repeat(62))
}

fn temp_store() -> (TempDir, FileSystemJitStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = FileSystemJitStore::new(dir.path().join("root")).unwrap();
    (dir, store)
}

fn entry_path(store: &FileSystemJitStore, key: &str) -> PathBuf {
    store.root().join(&key[..2]).join(format!("{key}.cubin"))
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes a file look as if it was last used `seconds` ago.
fn age(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(then)).unwrap();
}

fn mtime(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// The store and the counters of the process, for one test at a time.
fn process() -> MutexGuard<'static, ()> {
    static PROCESS: Mutex<()> = Mutex::new(());
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the counters moved by: hits, misses, puts, bytes written, io errors.
fn moved(run: impl FnOnce()) -> [u64; 5] {
    let list = |JitCacheStats { hits, misses, puts, bytes_written, io_errors }: JitCacheStats| {
        [hits, misses, puts, bytes_written, io_errors]
    };
    let before = list(store::stats());
    run();
    let after = list(store::stats());
    std::array::from_fn(|at| after[at] - before[at])
}

const CHILD: &str = "this folder is for the child of a test";

fn is_child() -> bool {
    Path::new(CHILD).exists()
}

/// Runs one test of this binary in an empty folder, where [`is_child`] is true, below a shell that
/// does `setup` first.
fn child(test: &str, setup: &str, environment: &[(&str, &Path)]) -> (TempDir, Output) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(CHILD), "").unwrap();
    let output = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("{setup}\nexec \"$@\""))
        .arg("sh")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .current_dir(dir.path())
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    (dir, output)
}

fn assert_success(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A store in memory, of which operations can be made to fail.
#[derive(Default)]
struct Memory {
    values: Mutex<HashMap<String, Vec<u8>>>,
    /// Among "get", "put", "delete" and "clear".
    fails: &'static [&'static str],
}

impl Memory {
    fn failing(fails: &'static [&'static str]) -> Self {
        Self { fails, ..Self::default() }
    }

    fn check(&self, operation: &str) -> io::Result<()> {
        match self.fails.contains(&operation) {
            true => Err(io::Error::other(format!("{operation} fails"))),
            false => Ok(()),
        }
    }
}

impl JitStore for Memory {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.check("get")?;
        Ok(self.values.lock().unwrap().get(key).cloned())
    }

    fn put(&self, key: &str, value: &[u8]) -> io::Result<()> {
        self.check("put")?;
        self.values.lock().unwrap().insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        self.check("delete")?;
        self.values.lock().unwrap().remove(key);
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        self.check("clear")?;
        self.values.lock().unwrap().clear();
        Ok(())
    }
}

/// A pack that lives as long as a binary does.
fn pack(entries: &[(&str, &[u8])]) -> Pack<'static> {
    Pack::parse(pack_bytes(entries).leak()).unwrap()
}

fn pack_bytes(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = PackWriter::new("crate", "1.0.0");
    for (key, value) in entries {
        writer.insert(key_bytes(key).unwrap(), value.to_vec()).unwrap();
    }
    writer.finish()
}

// ---- JitStore ----

#[test]
fn seed_a_store_gives_back_what_was_put() {
    let (_dir, store) = temp_store();
    let key = key("ab");
    assert_eq!(store.get(&key).unwrap(), None);
    assert!(!store.contains(&key).unwrap());
    store.put(&key, b"one").unwrap();
    assert_eq!(store.get(&key).unwrap().as_deref(), Some(&b"one"[..]));
    assert!(store.contains(&key).unwrap());
    store.put(&key, b"two, in place of one").unwrap();
    assert_eq!(store.get(&key).unwrap().as_deref(), Some(&b"two, in place of one"[..]));
    store.put(&key, b"").unwrap();
    assert_eq!(store.get(&key).unwrap().as_deref(), Some(&b""[..]));
    store.delete(&key).unwrap();
    assert_eq!(store.get(&key).unwrap(), None);
}

#[test]
fn seed_deleting_an_absent_key_is_ok() {
    let (_dir, store) = temp_store();
    store.delete(&key("ab")).unwrap();
    store.put(&key("ab"), b"x").unwrap();
    store.delete(&key("ab")).unwrap();
    store.delete(&key("ab")).unwrap();
}

#[test]
fn seed_contains_asks_get_unless_a_store_knows_better() {
    let store = Memory::default();
    assert!(!store.contains("k").unwrap());
    store.put("k", b"x").unwrap();
    assert!(store.contains("k").unwrap());
    assert!(Memory::failing(&["get"]).contains("k").is_err());
}

#[test]
fn seed_contains_passes_real_errors_on() {
    let (_dir, store) = temp_store();
    fs::write(store.root().join("ab"), b"a file where the shard would be").unwrap();
    let error = store.contains(&key("ab")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADirectory);
    assert!(store.get(&key("ab")).is_err());
    assert!(store.put(&key("ab"), b"x").is_err());
}

#[test]
fn seed_contains_does_not_say_yes_to_what_get_refuses() {
    let (dir, store) = temp_store();
    store.put(&key("ab"), b"x").unwrap();
    let (path, elsewhere) = (entry_path(&store, &key("ab")), dir.path().join("elsewhere"));
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(!store.contains(&key("ab")).unwrap());
}

#[test]
fn seed_the_trait_says_what_is_trusted() {
    let source = include_str!("../src/store/mod.rs");
    let (docs, _) = source.split_once("pub trait JitStore").unwrap();
    let docs = &docs[docs.rfind("\n\n").unwrap()..];
    assert!(docs.contains("# Security"), "{docs}");
}

// ---- FileSystemJitStore: layout ----

#[test]
fn seed_the_constants_are_upstreams() {
    assert_eq!(DEFAULT_CAPACITY_BYTES, 2 * 1024 * 1024 * 1024);
    assert_eq!(EVICTION_LOCK_FILE_NAME, ".eviction.lock");
    assert_eq!(L2_KEY_SCHEMA, 2);
}

#[test]
fn seed_an_entry_lies_in_a_shard_named_by_two_digits() {
    let (_dir, store) = temp_store();
    store.put(&key("ab"), b"value").unwrap();
    assert_eq!(names(store.root()), ["ab"]);
    assert_eq!(names(&store.root().join("ab")), [format!("{}.cubin", key("ab"))]);
    assert_eq!(fs::read(entry_path(&store, &key("ab"))).unwrap(), b"value");
}

#[test]
fn seed_what_is_written_is_the_users_alone() {
    let (_dir, store) = temp_store();
    store.put(&key("ab"), b"value").unwrap();
    assert_eq!(mode(&store.root().join("ab")) & 0o077, 0);
    assert_eq!(mode(&entry_path(&store, &key("ab"))) & 0o077, 0);
}

#[test]
fn seed_a_key_is_64_lowercase_hex_digits_or_invalid_input() {
    let (_dir, disk) = temp_store();
    let embedded = EmbeddedJitStore::new([]);
    let tiered = TieredJitStore::new(Vec::new());
    let good = key("ab");
    let upper = good.to_uppercase();
    let escape = format!("../{}", &good[3..]);
    for bad in ["", "ab", &good[1..], &format!("{good}0"), &upper, &escape, &"g".repeat(64)] {
        for store in [&disk as &dyn JitStore, &embedded, &tiered] {
            let mut kinds = vec![
                store.get(bad).unwrap_err().kind(),
                store.contains(bad).unwrap_err().kind(),
                store.delete(bad).unwrap_err().kind(),
            ];
            kinds.extend(store.put(bad, b"x").err().map(|error| error.kind()));
            kinds.retain(|kind| *kind != ErrorKind::ReadOnlyFilesystem);
            assert!(kinds.iter().all(|kind| *kind == ErrorKind::InvalidInput), "{bad}: {kinds:?}");
        }
    }
    assert_eq!(disk.put("../x", b"x").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(names(disk.root()).is_empty());
}

#[test]
fn seed_a_failed_rename_leaves_no_temporary_file() {
    let (_dir, store) = temp_store();
    fs::create_dir_all(entry_path(&store, &key("ab"))).unwrap();
    assert!(store.put(&key("ab"), b"value").is_err());
    assert_eq!(names(&store.root().join("ab")), [format!("{}.cubin", key("ab"))]);
}

#[test]
fn seed_a_write_that_fails_in_the_middle_leaves_no_temporary_file() {
    if is_child() {
        // The shell limits files to 8 blocks, as a full disk would.
        let store = FileSystemJitStore::new("root").unwrap();
        store.put(&key("ab"), b"short").unwrap();
        let error = store.put(&key("ab"), &vec![1; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(names(Path::new("root/ab")), [format!("{}.cubin", key("ab"))]);
        assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"short"[..]));
        return;
    }
    let test = "seed_a_write_that_fails_in_the_middle_leaves_no_temporary_file";
    let (_dir, output) = child(test, "trap '' XFSZ; ulimit -f 8", &[]);
    assert_success(&output);
}

#[test]
fn seed_a_reader_sees_nothing_or_one_whole_value() {
    let (_dir, store) = temp_store();
    let key = key("ab");
    let values: Vec<Vec<u8>> = (0u8..4).map(|n| vec![n; 4000 + usize::from(n) * 4000]).collect();
    let start = Barrier::new(values.len() + 1);
    std::thread::scope(|scope| {
        for value in &values {
            scope.spawn(|| {
                start.wait();
                for _ in 0..50 {
                    store.put(&key, value).unwrap();
                }
            });
        }
        start.wait();
        for _ in 0..200 {
            if let Some(value) = store.get(&key).unwrap() {
                assert!(values.contains(&value), "a torn value of {} bytes", value.len());
            }
        }
    });
    assert_eq!(names(&store.root().join("ab")).len(), 1);
}

#[test]
fn seed_a_put_makes_the_shard_again_when_it_vanished() {
    let (_dir, store) = temp_store();
    store.put(&key("ab"), b"one").unwrap();
    fs::remove_dir_all(store.root().join("ab")).unwrap();
    assert_eq!(store.get(&key("ab")).unwrap(), None);
    store.put(&key("ab"), b"two").unwrap();
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"two"[..]));
    // The root, too.
    fs::remove_dir_all(store.root()).unwrap();
    assert_eq!(store.get(&key("ab")).unwrap(), None);
    store.put(&key("ab"), b"three").unwrap();
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"three"[..]));
}

#[test]
fn seed_puts_survive_a_clear_at_the_same_time() {
    let (_dir, store) = temp_store();
    std::thread::scope(|scope| {
        let puts = scope.spawn(|| (0..300).all(|_| store.put(&key("ab"), b"x").is_ok()));
        // A clear that finds a new file in the folder it removes may say so.
        while !puts.is_finished() {
            let _ = store.clear();
        }
        assert!(puts.join().unwrap() || store.put(&key("ab"), b"x").is_ok());
    });
    store.put(&key("ab"), b"x").unwrap();
    assert!(store.contains(&key("ab")).unwrap());
}

#[test]
fn seed_clear_removes_only_shards_of_two_hex_digits() {
    let (dir, store) = temp_store();
    store.put(&key("ab"), b"x").unwrap();
    store.put(&key("00"), b"x").unwrap();
    for kept in ["notes", "abc", "a", "zz"] {
        fs::create_dir(store.root().join(kept)).unwrap();
        fs::write(store.root().join(kept).join("file"), b"mine").unwrap();
    }
    fs::write(store.root().join("cd"), b"a file").unwrap();
    fs::write(store.root().join(EVICTION_LOCK_FILE_NAME), b"").unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("file"), b"mine").unwrap();
    symlink(&elsewhere, store.root().join("ef")).unwrap();
    store.clear().unwrap();
    let kept = [EVICTION_LOCK_FILE_NAME, "a", "abc", "cd", "ef", "notes", "zz"];
    assert_eq!(names(store.root()), kept);
    assert_eq!(names(&elsewhere), ["file"]);
    assert_eq!(store.get(&key("ab")).unwrap(), None);
}

// ---- FileSystemJitStore: capacity ----

/// Capacity 4000, so that every entry of 1000 bytes makes `put` look at the total.
fn small_store(dir: &TempDir) -> FileSystemJitStore {
    FileSystemJitStore::builder(dir.path().join("root")).capacity_bytes(4000).open().unwrap()
}

/// Puts entries of 1000 bytes into `shards`, the first the longest unused.
fn fill(store: &FileSystemJitStore, shards: &[&str]) {
    for (at, shard) in shards.iter().enumerate() {
        store.put(&key(shard), &[0; 1000]).unwrap();
        age(&entry_path(store, &key(shard)), 1000 - at as u64);
    }
}

fn kept(store: &FileSystemJitStore, shards: &[&'static str]) -> Vec<&'static str> {
    shards.iter().copied().filter(|shard| store.contains(&key(shard)).unwrap()).collect()
}

const SHARDS: [&str; 5] = ["01", "02", "03", "04", "05"];

#[test]
fn seed_eviction_removes_what_was_used_longest_ago_down_to_the_low_watermark() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    fill(&store, &SHARDS[..4]);
    assert_eq!(kept(&store, &SHARDS).len(), 4, "4000 bytes are not above the high watermark");
    store.put(&key("05"), &[0; 1000]).unwrap();
    // 5000 bytes, down to 3200.
    assert_eq!(kept(&store, &SHARDS), ["03", "04", "05"]);
}

#[test]
fn seed_the_watermarks_are_the_builders() {
    let dir = tempfile::tempdir().unwrap();
    let builder = FileSystemJitStore::builder(dir.path().join("root")).capacity_bytes(2000);
    let store = builder.eviction_watermarks(2.0, 1.0).open().unwrap();
    fill(&store, &SHARDS[..4]);
    assert_eq!(kept(&store, &SHARDS).len(), 4);
    store.put(&key("05"), &[0; 1000]).unwrap();
    assert_eq!(kept(&store, &SHARDS), ["04", "05"]);
}

#[test]
fn seed_a_get_counts_as_use_and_contains_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    fill(&store, &SHARDS[..4]);
    assert!(store.get(&key("01")).unwrap().is_some());
    assert!(store.contains(&key("02")).unwrap());
    store.put(&key("05"), &[0; 1000]).unwrap();
    assert_eq!(kept(&store, &SHARDS), ["01", "04", "05"]);
}

#[test]
fn seed_without_a_capacity_nothing_is_evicted_or_touched() {
    let dir = tempfile::tempdir().unwrap();
    let builder = FileSystemJitStore::builder(dir.path().join("root"));
    let store = builder.capacity_bytes(0).open().unwrap();
    fill(&store, &SHARDS);
    let before = mtime(&entry_path(&store, &key("01")));
    assert!(store.get(&key("01")).unwrap().is_some());
    assert_eq!(mtime(&entry_path(&store, &key("01"))), before);
    assert_eq!(kept(&store, &SHARDS), SHARDS);
    assert!(!store.root().join(EVICTION_LOCK_FILE_NAME).exists());
}

#[test]
fn seed_a_get_never_evicts() {
    let dir = tempfile::tempdir().unwrap();
    let big = FileSystemJitStore::new(dir.path().join("root")).unwrap();
    fill(&big, &SHARDS);
    let store = FileSystemJitStore::builder(big.root()).capacity_bytes(1000).open().unwrap();
    for shard in SHARDS {
        assert!(store.get(&key(shard)).unwrap().is_some());
    }
    assert_eq!(kept(&store, &SHARDS), SHARDS);
}

#[test]
fn seed_who_finds_the_lock_taken_leaves_eviction_to_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    fill(&store, &SHARDS[..4]);
    let lock = File::create(store.root().join(EVICTION_LOCK_FILE_NAME)).unwrap();
    lock.lock().unwrap();
    store.put(&key("05"), &[0; 1000]).unwrap();
    assert_eq!(kept(&store, &SHARDS), SHARDS);
    drop(lock);
    store.put(&key("05"), &[0; 1000]).unwrap();
    assert_eq!(kept(&store, &SHARDS), ["03", "04", "05"]);
    assert!(store.root().join(EVICTION_LOCK_FILE_NAME).exists());
}

#[test]
fn seed_a_link_in_place_of_the_lock_is_not_followed() {
    let _process = process();
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    let victim = dir.path().join("victim");
    fs::write(&victim, b"not a lock").unwrap();
    symlink(&victim, store.root().join(EVICTION_LOCK_FILE_NAME)).unwrap();
    let counted = moved(|| fill(&store, &SHARDS[..1]));
    assert_eq!(fs::read(&victim).unwrap(), b"not a lock");
    assert_eq!(counted, [0, 0, 0, 0, 1], "the put is as good as any, and the fault is counted");
    // And a lock with something in it keeps it.
    fs::remove_file(store.root().join(EVICTION_LOCK_FILE_NAME)).unwrap();
    fs::write(store.root().join(EVICTION_LOCK_FILE_NAME), b"kept").unwrap();
    fill(&store, &SHARDS[..1]);
    assert_eq!(fs::read(store.root().join(EVICTION_LOCK_FILE_NAME)).unwrap(), b"kept");
}

#[test]
fn seed_watermarks_that_make_no_sense_are_invalid_input() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let bad = [
        (1.0, 0.0),
        (1.0, -0.5),
        (0.5, 0.8),
        (f64::INFINITY, 0.8),
        (f64::NAN, 0.8),
        (1.0, f64::NAN),
    ];
    for (high, low) in bad {
        let builder = FileSystemJitStore::builder(&root).eviction_watermarks(high, low);
        assert_eq!(builder.open().unwrap_err().kind(), ErrorKind::InvalidInput, "{high} {low}");
    }
    assert!(!root.exists());
    FileSystemJitStore::builder(&root).eviction_watermarks(0.5, 0.5).open().unwrap();
}

#[test]
fn seed_an_entry_that_could_not_stay_is_declined_with_ok() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    fill(&store, &SHARDS[..3]);
    store.put(&key("05"), &[0; 3201]).unwrap();
    assert_eq!(kept(&store, &SHARDS), ["01", "02", "03"]);
    store.put(&key("05"), &[0; 3200]).unwrap();
    assert_eq!(kept(&store, &SHARDS), ["05"]);
}

#[test]
fn seed_an_entry_that_would_not_be_read_is_declined_with_ok() {
    let dir = tempfile::tempdir().unwrap();
    let builder = FileSystemJitStore::builder(dir.path().join("root"));
    let store = builder.capacity_bytes(0).open().unwrap();
    store.put(&key("ab"), &vec![0; usize::try_from(MAX_ENTRY_BYTES).unwrap() + 1]).unwrap();
    assert!(!store.contains(&key("ab")).unwrap());
}

#[test]
fn seed_stale_temporary_files_are_removed_and_young_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    fill(&store, &["01"]);
    let shard = store.root().join("01");
    let temp = |name: &str, seconds| {
        let path = shard.join(format!("{}.tmp.1.0.{name}", key("01")));
        fs::write(&path, b"half").unwrap();
        age(&path, seconds);
        path
    };
    let (stale, young) = (temp("stale", 3700), temp("young", 3500));
    let other = shard.join("notes");
    fs::write(&other, b"mine").unwrap();
    age(&other, 100_000);
    store.put(&key("02"), &[0; 1000]).unwrap();
    assert!(!stale.exists() && young.exists() && other.exists());
}

#[test]
fn seed_temporary_files_do_not_count_as_entries() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    fill(&store, &SHARDS[..3]);
    fs::write(store.root().join("01").join(format!("{}.tmp.1.0.x", key("01"))), [0; 4000]).unwrap();
    store.put(&key("04"), &[0; 1000]).unwrap();
    assert_eq!(kept(&store, &SHARDS), SHARDS[..4]);
}

// ---- The default place ----

#[test]
fn seed_the_default_place_is_the_users_cache_folder() {
    let place = |xdg: Option<&str>, home: Option<&str>| {
        default_root(xdg.map(OsStr::new), home.map(OsStr::new))
    };
    let below_home = Path::new("/home/u/.cache/cutile/kernels");
    assert_eq!(place(Some("/x"), Some("/home/u")).unwrap(), Path::new("/x/cutile/kernels"));
    assert_eq!(place(Some("/x"), None).unwrap(), Path::new("/x/cutile/kernels"));
    for ignored in [None, Some(""), Some("relative"), Some("./x")] {
        assert_eq!(place(ignored, Some("/home/u")).unwrap(), below_home);
        // Never a temporary folder that all users share.
        for home in [None, Some("")] {
            assert_eq!(place(ignored, home).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
}

#[test]
fn seed_a_new_root_is_0700_whatever_the_umask() {
    if is_child() {
        let root = std::env::current_dir().unwrap().join("cache/cutile/kernels");
        let store = FileSystemJitStore::private(&root).unwrap();
        assert_eq!(store.root(), root);
        assert_eq!(mode(&root), 0o700);
        for parent in root.ancestors().skip(1).take(2) {
            assert_eq!(mode(parent) & 0o077, 0);
        }
        store.put(&key("ab"), b"x").unwrap();
        return;
    }
    for umask in ["000", "022", "077", "477"] {
        let test = "seed_a_new_root_is_0700_whatever_the_umask";
        let (_dir, output) = child(test, &format!("umask {umask}"), &[]);
        assert_success(&output);
    }
}

/// An existing folder for a cache, of a mode.
fn existing_root(mode: u32) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cutile").join("kernels");
    DirBuilder::new().recursive(true).mode(0o700).create(&root).unwrap();
    fs::write(root.join("entry"), b"found there").unwrap();
    set_mode(&root, mode);
    (dir, root)
}

#[test]
fn seed_a_private_root_is_kept_with_what_is_in_it() {
    let (_dir, root) = existing_root(0o700);
    FileSystemJitStore::private(&root).unwrap();
    assert_eq!(mode(&root), 0o700);
    assert_eq!(fs::read(root.join("entry")).unwrap(), b"found there");
}

#[test]
fn seed_a_root_that_others_can_enter_is_refused_and_left_alone() {
    for found in [0o755, 0o750, 0o770, 0o702, 0o1777, 0o710] {
        let (_dir, root) = existing_root(found);
        let error = FileSystemJitStore::private(&root).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains("delete it and retry"), "{text}");
        assert!(text.contains(&format!("{found:04o}")), "{text}");
        assert_eq!(mode(&root), found);
        assert_eq!(fs::read(root.join("entry")).unwrap(), b"found there");
    }
}

#[test]
fn seed_a_root_that_is_no_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    fs::write(&file, b"a file").unwrap();
    DirBuilder::new().mode(0o700).create(dir.path().join("folder")).unwrap();
    symlink(dir.path().join("folder"), &link).unwrap();
    for root in [&file, &link] {
        let error = FileSystemJitStore::private(root).unwrap_err();
        assert!(error.to_string().contains("delete it and retry"), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"a file");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn seed_a_root_of_another_user_is_refused() {
    let (_dir, root) = existing_root(0o700);
    // Only root can give a folder away; everybody else finds one that is root's.
    let root = match std::os::unix::fs::chown(&root, Some(12345), None) {
        Ok(()) => root,
        Err(_) => PathBuf::from("/usr"),
    };
    let error = FileSystemJitStore::private(&root).unwrap_err();
    assert!(error.to_string().contains("belongs to user"), "{error}");
}

#[test]
fn seed_a_parent_that_everybody_can_write_is_refused_unless_it_is_sticky() {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join("parent");
    fs::create_dir_all(parent.join("cutile")).unwrap();
    set_mode(&parent, 0o777);
    let root = parent.join("cutile").join("kernels");
    let error = FileSystemJitStore::private(&root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(parent.to_str().unwrap()), "{error}");
    assert!(!root.exists());
    assert_eq!(mode(&parent), 0o777);
    // Reached through a link, it is the same folder.
    let link = dir.path().join("link");
    symlink(&parent, &link).unwrap();
    assert!(FileSystemJitStore::private(&link.join("cutile").join("kernels")).is_err());
    set_mode(&parent, 0o1777);
    FileSystemJitStore::private(&root).unwrap();
}

#[test]
fn seed_a_parent_may_be_a_link() {
    let dir = tempfile::tempdir().unwrap();
    DirBuilder::new().mode(0o700).create(dir.path().join("folder")).unwrap();
    symlink(dir.path().join("folder"), dir.path().join("link")).unwrap();
    let root = dir.path().join("link").join("cutile").join("kernels");
    FileSystemJitStore::private(&root).unwrap().put(&key("ab"), b"x").unwrap();
    assert!(dir.path().join("folder/cutile/kernels/ab").is_dir());
}

// ---- Reads ----

#[test]
fn seed_what_is_no_plain_file_is_refused() {
    let (dir, store) = temp_store();
    store.put(&key("01"), b"planted").unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(entry_path(&store, &key("01")), &elsewhere).unwrap();
    let path = |shard: &str| {
        let path = entry_path(&store, &key(shard));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    symlink(&elsewhere, path("01")).unwrap();
    symlink(dir.path().join("nothing"), path("02")).unwrap();
    fs::create_dir(path("03")).unwrap();
    // A pipe without a writer: opened the plain way, the reader waits for ever.
    let fifo = Command::new("mkfifo").arg(path("04")).status().unwrap();
    assert!(fifo.success());
    // `sun_path` is short: the socket is made elsewhere and moved.
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    fs::rename(dir.path().join("s"), path("05")).unwrap();
    symlink("/dev/zero", path("06")).unwrap();
    for shard in ["01", "02", "03", "04", "05", "06"] {
        assert!(store.get(&key(shard)).is_err(), "{shard}");
    }
    // All but a folder heal by the next put, and what a link pointed to is left alone.
    for shard in ["01", "02", "04", "05", "06"] {
        store.put(&key(shard), b"new").unwrap();
        assert_eq!(store.get(&key(shard)).unwrap().as_deref(), Some(&b"new"[..]));
    }
    assert_eq!(fs::read(&elsewhere).unwrap(), b"planted");
}

#[test]
fn seed_a_link_in_place_of_a_shard_is_refused() {
    let (dir, store) = temp_store();
    store.put(&key("ab"), b"planted").unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(store.root().join("ab"), &elsewhere).unwrap();
    symlink(&elsewhere, store.root().join("ab")).unwrap();
    assert!(store.get(&key("ab")).is_err());
    assert!(store.contains(&key("ab")).is_err());
    assert!(store.put(&key("ab"), b"mine").is_err());
    assert!(store.delete(&key("ab")).is_err());
    assert_eq!(fs::read(elsewhere.join(format!("{}.cubin", key("ab")))).unwrap(), b"planted");
}

#[test]
fn seed_a_huge_entry_is_refused_before_anything_is_allocated() {
    let (_dir, store) = temp_store();
    store.put(&key("ab"), b"x").unwrap();
    // 20 GiB, without a block on disk; a machine with as much memory would read it otherwise.
    let file = File::options().write(true).open(entry_path(&store, &key("ab"))).unwrap();
    file.set_len(20 << 30).unwrap();
    assert_eq!(store.get(&key("ab")).unwrap_err().kind(), ErrorKind::InvalidData);
    file.set_len(MAX_ENTRY_BYTES + 1).unwrap();
    assert_eq!(store.get(&key("ab")).unwrap_err().kind(), ErrorKind::InvalidData);
    store.put(&key("ab"), b"y").unwrap();
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"y"[..]));
}

#[test]
fn seed_an_entry_of_another_user_is_refused() {
    let (dir, store) = temp_store();
    store.put(&key("ab"), b"planted").unwrap();
    let path = entry_path(&store, &key("ab"));
    // Only root can give a file away. Everybody else takes a file of root's that is plain.
    if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
        assert_ne!(fs::metadata("/etc/passwd").unwrap().uid(), fs::metadata(&dir).unwrap().uid());
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
    }
    assert!(store.get(&key("ab")).is_err());
}

// ---- The switch and the counters ----

/// Loads through a store: the counters that moved, and how often the compiler ran.
fn load(key: &str, params: &EntryParams<'_>, cubin: &[u8]) -> ([u64; 5], u32) {
    let mut compiled = 0;
    let moved = moved(|| {
        let loaded = store::load_or_compile(
            key,
            params,
            || {
                compiled += 1;
                Ok::<_, io::Error>(cubin.to_vec())
            },
            |image| Ok(image.to_vec()),
        );
        assert_eq!(loaded.unwrap(), cubin);
    });
    (moved, compiled)
}

#[test]
fn seed_a_miss_compiles_and_stores_and_the_next_is_a_hit() {
    let _process = process();
    let (_dir, store) = temp_store();
    store::enable(Arc::new(store));
    let bytes = encode_entry(&params(), b"image").unwrap().len() as u64;
    assert_eq!(load(&key("ab"), &params(), b"image"), ([0, 1, 1, bytes, 0], 1));
    assert_eq!(load(&key("ab"), &params(), b"image"), ([1, 0, 0, 0, 0], 0));
    store::disable();
}

#[test]
fn seed_the_switch_can_be_turned_again_and_again() {
    let _process = process();
    assert!(!store::is_enabled());
    let (first, second) = (Arc::new(Memory::default()), Arc::new(Memory::default()));
    store::enable(first.clone());
    assert!(store::is_enabled());
    load(&key("ab"), &params(), b"image");
    store::enable(second.clone());
    load(&key("cd"), &params(), b"image");
    assert!(first.contains(&key("ab")).unwrap() && !first.contains(&key("cd")).unwrap());
    assert!(second.contains(&key("cd")).unwrap() && !second.contains(&key("ab")).unwrap());
    store::disable();
    store::disable();
    assert!(!store::is_enabled());
    // Without a store nothing is read, and nothing written.
    let (counted, compiled) = load(&key("cd"), &params(), b"image");
    assert_eq!((counted[0], counted[2], counted[3], compiled), (0, 0, 0, 1));
}

#[test]
fn seed_what_is_loaded_stays_when_the_store_goes() {
    let _process = process();
    let (_dir, store) = temp_store();
    let root = store.root().to_owned();
    store::enable(Arc::new(store));
    let module = store::load_or_compile(
        &key("ab"),
        &params(),
        || Ok::<_, io::Error>(b"image".to_vec()),
        |image| Ok(image.to_vec()),
    );
    store::disable();
    fs::remove_dir_all(root).unwrap();
    assert_eq!(module.unwrap(), b"image");
}

#[test]
fn seed_a_poisoned_lock_is_survived() {
    /// Panics when it is dropped: `enable` holds the lock then.
    struct Fragile;
    impl JitStore for Fragile {
        fn get(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }
        fn put(&self, _: &str, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn delete(&self, _: &str) -> io::Result<()> {
            Ok(())
        }
        fn clear(&self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("a store that panics when it is dropped");
        }
    }
    let _process = process();
    store::enable(Arc::new(Fragile));
    assert!(catch_unwind(store::disable).is_err());
    let memory = Arc::new(Memory::default());
    store::enable(memory.clone());
    assert!(store::is_enabled());
    load(&key("ab"), &params(), b"image");
    assert!(memory.contains(&key("ab")).unwrap());
    store::disable();
    assert!(!store::is_enabled());
}

#[test]
fn seed_a_store_that_fails_is_counted_and_never_fails_a_launch() {
    let _process = process();
    store::enable(Arc::new(Memory::failing(&["get", "put"])));
    assert_eq!(load(&key("ab"), &params(), b"image"), ([0, 1, 0, 0, 2], 1));
    let stubborn = Memory::failing(&["delete"]);
    stubborn.put(&key("ab"), b"no entry").unwrap();
    store::enable(Arc::new(stubborn));
    let bytes = encode_entry(&params(), b"image").unwrap().len() as u64;
    assert_eq!(load(&key("ab"), &params(), b"image"), ([0, 1, 1, bytes, 1], 1));
    store::disable();
}

#[test]
fn seed_a_failure_is_counted_once_through_tiers_too() {
    let _process = process();
    let failing = Tier::writable("disk", Arc::new(Memory::failing(&["get", "put"])));
    store::enable(Arc::new(TieredJitStore::new(vec![failing])));
    assert_eq!(load(&key("ab"), &params(), b"image"), ([0, 1, 0, 0, 2], 1));
    store::disable();
}

#[test]
fn seed_whatever_is_wrong_with_an_entry_it_is_a_miss_and_goes() {
    let _process = process();
    let good = encode_entry(&params(), b"image").unwrap();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let debug = EntryParams { flags: 1, ..params() };
    let wrong = [
        Vec::new(),
        good[..good.len() - 1].to_vec(),
        flipped,
        encode_entry(&debug, b"image").unwrap(),
    ];
    for entry in wrong {
        // A store that cannot be written shows that the entry was deleted, not replaced.
        let store = Arc::new(Memory::failing(&["put"]));
        store.values.lock().unwrap().insert(key("ab"), entry);
        store::enable(store.clone());
        assert_eq!(load(&key("ab"), &params(), b"image"), ([0, 1, 0, 0, 1], 1));
        assert!(!store.contains(&key("ab")).unwrap());
    }
    store::disable();
}

#[test]
fn seed_a_name_too_long_for_the_entry_is_not_cached() {
    let _process = process();
    let store = Arc::new(Memory::default());
    store::enable(store.clone());
    let long = "x".repeat(usize::from(u16::MAX) + 1);
    let params = EntryParams { tileiras_fp: &long, ..params() };
    assert_eq!(load(&key("ab"), &params, b"image"), ([0, 1, 0, 0, 0], 1));
    assert!(!store.contains(&key("ab")).unwrap());
    store::disable();
}

/// compiles, backend compiles, disk hits.
fn counts() -> [u64; 3] {
    [store::compile_count(), store::backend_compile_count(), store::disk_hit_count()]
}

fn counted(run: impl FnOnce()) -> [u64; 3] {
    let before = counts();
    run();
    let after = counts();
    std::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn seed_compiles_are_backend_compiles_and_store_hits() {
    let _process = process();
    store::enable(Arc::new(Memory::default()));
    let moved = counted(|| {
        load(&key("ab"), &params(), b"image");
        load(&key("ab"), &params(), b"image");
        load(&key("ab"), &params(), b"image");
        load(&key("cd"), &params(), b"image");
    });
    assert_eq!(moved, [4, 2, 2]);
    store::disable();
    assert_eq!(counted(|| drop(load(&key("ab"), &params(), b"image"))), [1, 1, 0]);
}

#[test]
fn seed_an_image_that_the_driver_rejects_is_deleted_and_compiled_once() {
    let _process = process();
    let store = Arc::new(Memory::default());
    let stale = encode_entry(&params(), b"rejected").unwrap();
    store.put(&key("ab"), &stale).unwrap();
    store::enable(store.clone());
    let load = |image: &[u8]| match image {
        b"accepted" => Ok(image.to_vec()),
        _ => Err(io::Error::other("invalid image")),
    };
    let mut compiled = 0;
    let mut stats = [0; 5];
    let counts = counted(|| {
        stats = moved(|| {
            let compile = || {
                compiled += 1;
                Ok(b"accepted".to_vec())
            };
            let loaded = store::load_or_compile(&key("ab"), &params(), compile, load);
            assert_eq!(loaded.unwrap(), b"accepted");
        });
    });
    assert_eq!(compiled, 1);
    // The caveat: one request is a hit and a compile, so the sum is one ahead.
    assert_eq!(counts, [1, 1, 1]);
    assert_eq!(stats, [1, 0, 0, 0, 0], "nothing is put");
    assert!(!store.contains(&key("ab")).unwrap());
    store::disable();
}

#[test]
fn seed_a_rejected_image_that_cannot_be_deleted_is_no_loop() {
    let _process = process();
    let store = Memory::failing(&["delete"]);
    store.put(&key("ab"), &encode_entry(&params(), b"rejected").unwrap()).unwrap();
    store::enable(Arc::new(store));
    let (mut compiled, mut loads) = (0, 0);
    let stats = moved(|| {
        let compile = || {
            compiled += 1;
            Ok(b"rejected again".to_vec())
        };
        let load = |_: &[u8]| {
            loads += 1;
            Err::<(), _>(io::Error::other("invalid image"))
        };
        let error = store::load_or_compile(&key("ab"), &params(), compile, load).unwrap_err();
        assert!(matches!(error, CompileError::Load(_)));
    });
    assert_eq!((compiled, loads), (1, 2));
    assert_eq!(stats, [1, 0, 0, 0, 1]);
    store::disable();
}

#[test]
fn seed_a_compiler_that_fails_stores_nothing() {
    let _process = process();
    let store = Arc::new(Memory::default());
    store::enable(store.clone());
    let moved = counted(|| {
        let compile = || Err(io::Error::other("no compiler"));
        let loaded = store::load_or_compile(&key("ab"), &params(), compile, |_| Ok(()));
        assert!(matches!(loaded, Err(CompileError::Compile(_))));
    });
    assert_eq!(moved, [0, 0, 0]);
    assert!(!store.contains(&key("ab")).unwrap());
    store::disable();
}

#[test]
fn seed_enable_default_takes_the_users_folder_or_fails() {
    const TEST: &str = "seed_enable_default_takes_the_users_folder_or_fails";
    if is_child() {
        match store::enable_default() {
            Ok(()) => {
                assert!(store::is_enabled());
                load(&key("ab"), &params(), b"image");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound);
                assert!(!store::is_enabled());
                File::create("refused").unwrap();
            }
        }
        return;
    }
    let (dir, output) = child(TEST, "", &[]);
    assert_success(&output);
    assert!(dir.path().join("refused").exists());
    for variable in ["XDG_CACHE_HOME", "HOME"] {
        let place = tempfile::tempdir().unwrap();
        let (dir, output) = child(TEST, "", &[(variable, place.path())]);
        assert_success(&output);
        assert!(!dir.path().join("refused").exists());
        let below = if variable == "HOME" { ".cache/cutile/kernels" } else { "cutile/kernels" };
        let root = place.path().join(below);
        assert_eq!(mode(&root), 0o700);
        assert_eq!(names(&root.join("ab")), [format!("{}.cubin", key("ab"))]);
    }
}

#[test]
fn seed_log_lines_have_a_prefix_and_are_off_unless_asked_for() {
    const TEST: &str = "seed_log_lines_have_a_prefix_and_are_off_unless_asked_for";
    if is_child() {
        store::enable(Arc::new(Memory::failing(&["get", "put"])));
        load(&key("ab"), &params(), b"image");
        return;
    }
    for (value, lines) in [("1", 2), ("true", 2), ("yes", 2), ("on", 2), ("0", 0), ("", 0)] {
        let (_dir, output) = child(TEST, "", &[("CUTILE_JIT_LOG", Path::new(value))]);
        assert_success(&output);
        let text = String::from_utf8_lossy(&output.stderr);
        let found = text.lines().filter(|line| line.starts_with("[cutile::jit] ")).count();
        assert_eq!(found, lines, "{value}: {text}");
    }
}

// ---- Key and entry ----

#[test]
fn seed_the_key_is_the_one_that_upstream_pins() {
    let input = KeyInput {
        bytecode: b"bc",
        version: BytecodeVersion { major: 13, minor: 2, tag: 0 },
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: "fp",
        tilelib_digest: None,
    };
    let pinned = "45274c4d279d97c5e383d8a8b035225d5ec81c91bd9f27c3027f5f5593473533";
    assert_eq!(l2_key(&input), pinned);
    // Where a name ends and the next begins is part of the key.
    let shifted = KeyInput { gpu_name: "sm_9", tileiras_fp: "0fp", ..input };
    assert_ne!(l2_key(&shifted), pinned);
}

#[test]
fn seed_an_entry_round_trips_and_decoding_borrows() {
    let entry = encode_entry(&params(), b"the image").unwrap();
    let image = decode_entry(&entry, &params()).unwrap();
    assert_eq!(image, b"the image");
    assert!(entry.as_ptr_range().contains(&image.as_ptr()));
    assert_eq!(EntryHeader::parse(&entry).unwrap().cubin(), b"the image");
    let empty = encode_entry(&params(), b"").unwrap();
    assert_eq!(decode_entry(&empty, &params()), Some(&b""[..]));
}

#[test]
fn seed_an_entry_serves_no_other_request() {
    let entry = encode_entry(&params(), b"image").unwrap();
    for other in [
        EntryParams { bc_sha256: [8; 32], ..params() },
        EntryParams { gpu_name: "sm_80", ..params() },
        EntryParams { opt_level: 0, ..params() },
        EntryParams { flags: 1, ..params() },
        EntryParams { tileiras_fp: "V13.5.38", ..params() },
    ] {
        assert_eq!(decode_entry(&entry, &other), None, "{other:?}");
    }
}

#[test]
fn seed_an_entry_from_before_there_were_flags_is_a_release_entry() {
    // Its byte was padding then, and padding was 0.
    let mut entry = encode_entry(&EntryParams { flags: 4, ..params() }, b"image").unwrap();
    assert_eq!(decode_entry(&entry, &params()), None);
    entry[85] = 0;
    assert_eq!(decode_entry(&entry, &params()), Some(&b"image"[..]));
}

#[test]
fn seed_every_flipped_byte_every_cut_and_anything_behind_is_refused() {
    let entry = encode_entry(&params(), b"the image").unwrap();
    // Written 0, and like upstream not read.
    let reserved = [14, 15, 86, 87];
    for at in (0..entry.len()).filter(|at| !reserved.contains(at)) {
        let mut flipped = entry.clone();
        flipped[at] ^= 0xff;
        assert_eq!(decode_entry(&flipped, &params()), None, "byte {at}");
    }
    for len in 0..entry.len() {
        assert_eq!(decode_entry(&entry[..len], &params()), None, "length {len}");
    }
    let mut longer = entry.clone();
    longer.push(0);
    assert_eq!(decode_entry(&longer, &params()), None);
    assert_eq!(ENTRY_HEADER_LEN, 96);
}

#[test]
fn seed_lengths_that_overflow_are_refused() {
    let mut entry = encode_entry(&params(), b"image").unwrap();
    entry[88..96].fill(0xff);
    assert_eq!(decode_entry(&entry, &params()), None);
    entry[80..84].fill(0xff);
    assert_eq!(decode_entry(&entry, &params()), None);
}

#[test]
fn seed_names_longer_than_a_u16_are_not_encoded() {
    let longest = "x".repeat(usize::from(u16::MAX));
    let longer = format!("{longest}x");
    for (name, encoded) in [(&longest, true), (&longer, false)] {
        let gpu = EntryParams { gpu_name: name, ..params() };
        let fingerprint = EntryParams { tileiras_fp: name, ..params() };
        for params in [gpu, fingerprint] {
            let entry = encode_entry(&params, b"image");
            assert_eq!(entry.is_some(), encoded);
            if let Some(entry) = entry {
                assert_eq!(decode_entry(&entry, &params), Some(&b"image"[..]));
            }
        }
    }
}

// ---- Embedded ----

#[test]
fn seed_embedded_entries_are_served_and_cannot_be_written() {
    let store = EmbeddedJitStore::new([pack(&[(&key("ab"), b"one")]), pack(&[(&key("cd"), b"two")])]);
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(store.get(&key("cd")).unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(store.get(&key("ef")).unwrap(), None);
    assert!(store.contains(&key("ab")).unwrap() && !store.contains(&key("ef")).unwrap());
    let error = store.put(&key("ef"), b"three").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn seed_the_first_pack_wins() {
    let store = EmbeddedJitStore::new([pack(&[(&key("ab"), b"one")]), pack(&[(&key("ab"), b"two")])]);
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"one"[..]));
}

#[test]
fn seed_a_deleted_embedded_entry_is_hidden_from_this_store() {
    let pack = pack(&[(&key("ab"), b"one"), (&key("cd"), b"two")]);
    let store = EmbeddedJitStore::new([pack]);
    store.delete(&key("ab")).unwrap();
    store.delete(&key("ef")).unwrap();
    assert_eq!(store.get(&key("ab")).unwrap(), None);
    assert!(!store.contains(&key("ab")).unwrap());
    assert!(store.contains(&key("cd")).unwrap());
    store.clear().unwrap();
    assert_eq!(store.get(&key("cd")).unwrap(), None);
    assert!(!store.contains(&key("cd")).unwrap());
    assert!(EmbeddedJitStore::new([pack]).contains(&key("ab")).unwrap());
}

#[test]
fn seed_a_damaged_embedded_entry_is_an_error_and_no_image() {
    let mut bytes = pack_bytes(&[(&key("ab"), b"the payload")]);
    *bytes.last_mut().unwrap() ^= 1;
    let store = EmbeddedJitStore::new([Pack::parse(bytes.leak()).unwrap()]);
    let error = store.get(&key("ab")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains(&key("ab")), "{error}");
}

// ---- Tiers ----

#[test]
fn seed_tiers_are_asked_in_order_and_counted() {
    let _process = process();
    let disk = Arc::new(Memory::default());
    disk.put(&key("ab"), b"on disk").unwrap();
    disk.put(&key("cd"), b"on disk").unwrap();
    let embedded = EmbeddedJitStore::new([pack(&[(&key("ab"), b"embedded")])]);
    let store = TieredJitStore::new(vec![
        Tier::read_only("embedded", Arc::new(embedded)),
        Tier::writable("disk", disk.clone()),
        Tier::writable("never", Arc::new(Memory::default())),
    ]);
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"embedded"[..]));
    assert_eq!(store.get(&key("cd")).unwrap().as_deref(), Some(&b"on disk"[..]));
    assert_eq!(store.get(&key("ef")).unwrap(), None);
    store.put(&key("ef"), b"new").unwrap();
    assert!(disk.contains(&key("ef")).unwrap() && store.contains(&key("ef")).unwrap());
    assert!(!store.contains(&key("00")).unwrap());
    let rows: Vec<_> = store
        .tier_stats()
        .iter()
        .map(|row| (row.name, row.hits, row.misses, row.puts, row.errors))
        .collect();
    assert_eq!(rows, [("embedded", 1, 2, 0, 0), ("disk", 1, 1, 1, 0), ("never", 0, 1, 0, 0)]);
}

#[test]
fn seed_a_tier_that_fails_is_passed_over_and_counted() {
    let _process = process();
    let disk = Arc::new(Memory::default());
    disk.put(&key("ab"), b"good").unwrap();
    let store = TieredJitStore::new(vec![
        Tier::read_only("broken", Arc::new(Memory::failing(&["get", "delete", "clear"]))),
        Tier::writable("disk", disk.clone()),
    ]);
    let counted = moved(|| {
        assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"good"[..]));
        assert_eq!(store.get(&key("cd")).unwrap(), None);
    });
    assert_eq!(counted, [0, 0, 0, 0, 2]);
    assert_eq!(store.tier_stats()[0].errors, 2);
    // A tier that cannot delete does not keep the next from it.
    let counted = moved(|| assert!(store.delete(&key("ab")).is_err()));
    assert_eq!(counted, [0; 5], "who gets the error counts it");
    assert!(!disk.contains(&key("ab")).unwrap());
    disk.put(&key("ab"), b"good").unwrap();
    assert!(store.clear().is_err());
    assert!(!disk.contains(&key("ab")).unwrap());
    assert!(store.contains(&key("ab")).is_err(), "one cannot be asked");
    disk.put(&key("ab"), b"good").unwrap();
    assert!(store.contains(&key("ab")).unwrap());
    assert_eq!(store.tier_stats()[0].errors, 4);
}

#[test]
fn seed_without_a_writable_tier_nothing_is_kept_and_nothing_fails() {
    let _process = process();
    let memory = Arc::new(Memory::default());
    let store = TieredJitStore::new(vec![Tier::read_only("only", memory.clone())]);
    store.put(&key("ab"), b"x").unwrap();
    assert!(!memory.contains(&key("ab")).unwrap());
    assert_eq!(store.tier_stats()[0].puts, 0);
}

#[test]
fn seed_a_bad_entry_is_hidden_in_the_binary_and_removed_from_disk() {
    let _process = process();
    let bad = encode_entry(&params(), b"rejected").unwrap();
    let disk = Arc::new(Memory::default());
    disk.put(&key("ab"), &bad).unwrap();
    let embedded = Arc::new(EmbeddedJitStore::new([pack(&[(&key("ab"), &bad)])]));
    store::enable(Arc::new(TieredJitStore::new(vec![
        Tier::read_only("embedded", embedded.clone()),
        Tier::writable("disk", disk.clone()),
    ])));
    let loaded = store::load_or_compile(
        &key("ab"),
        &params(),
        || Ok(b"accepted".to_vec()),
        |image| match image {
            b"accepted" => Ok(()),
            _ => Err(io::Error::other("invalid image")),
        },
    );
    loaded.unwrap();
    assert!(!embedded.contains(&key("ab")).unwrap());
    assert!(!disk.contains(&key("ab")).unwrap());
    store::disable();
}

#[test]
fn seed_an_entry_exported_from_a_pack_is_a_disk_cache() {
    let entry = encode_entry(&params(), b"image").unwrap();
    let (_dir, store) = temp_store();
    for packed in pack(&[(&key("ab"), &entry)]).entries() {
        let key = cutile_embed::key::key_text(&packed.key);
        store.put(&key, &packed.payload().unwrap()).unwrap();
    }
    let entry = store.get(&key("ab")).unwrap().unwrap();
    assert_eq!(decode_entry(&entry, &params()), Some(&b"image"[..]));
}

#[test]
fn seed_a_panic_in_a_store_of_the_user_leaves_the_switch_usable() {
    struct Panics;
    impl JitStore for Panics {
        fn get(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
            panic!("a store that panics")
        }
        fn put(&self, _: &str, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn delete(&self, _: &str) -> io::Result<()> {
            Ok(())
        }
        fn clear(&self) -> io::Result<()> {
            Ok(())
        }
    }
    let _process = process();
    store::enable(Arc::new(Panics));
    let run = || load(&key("ab"), &params(), b"image");
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    store::disable();
    assert!(!store::is_enabled());
    load(&key("ab"), &params(), b"image");
}
