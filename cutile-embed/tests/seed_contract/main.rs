//! The contract of the store, the key and the entry, a test a row: what upstream's own tests hold
//! of its cache, and what this crate adds.
//!
//! Tests that look at the counters of the process, or change its store, take [`process`] first.
//! What needs another umask, file size limit or environment runs in a child: this test binary
//! again, in a folder of its own ([`child`]).

#![cfg(unix)]

mod compile;
mod entry;
mod every_store;
mod eviction;
mod file_system;
mod reads;
mod root;
mod switch;
mod tiers;

use cutile_embed::entry::{ENTRY_HEADER_LEN, EntryHeader, EntryParams, decode_entry, encode_entry};
use cutile_embed::key::{BytecodeVersion, KeyInput, L2_KEY_SCHEMA, key_bytes, l2_key};
use cutile_embed::pack::{Pack, PackWriter};
use cutile_embed::store::{
    self, CompileError, DEFAULT_CAPACITY_BYTES, EVICTION_LOCK_FILE_NAME, EmbeddedJitStore,
    FileSystemJitStore, JitCacheStats, JitStore, MAX_ENTRY_BYTES, Tier, TieredJitStore,
    default_root,
};
use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::panic::catch_unwind;
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

/// Requests that differ from [`params`] in one field each.
fn others() -> [EntryParams<'static>; 6] {
    [
        EntryParams { bc_sha256: [8; 32], ..params() },
        EntryParams { gpu_name: "sm_80", ..params() },
        EntryParams { gpu_name: "sm_9", ..params() },
        EntryParams { opt_level: 0, ..params() },
        EntryParams { flags: 1, ..params() },
        EntryParams { tileiras_fp: "V13.5.38", ..params() },
    ]
}

/// Bytes of an entry that are written 0 and, as upstream does, not read.
const RESERVED: [usize; 4] = [14, 15, 86, 87];

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
