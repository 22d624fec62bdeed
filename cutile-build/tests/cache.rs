//! `cache`, as a process, on caches made here.
#![cfg(all(feature = "cli", unix))]

mod embedded;

use cutile_embed::store::{EVICTION_LOCK_FILE_NAME, FileSystemJitStore, JitStore as _};
use embedded::{Home, call};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

fn root(home: &Home, kind: &str) -> PathBuf {
    home.path(".cache/cutile").join(kind)
}

fn key(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

/// An entry of 1000 bytes that was used `hours` ago.
fn put(root: &Path, byte: u8, hours: u64) {
    FileSystemJitStore::private(root).unwrap().put(&key(byte), &[byte; 1000]).unwrap();
    let key = key(byte);
    age(&root.join(&key[..2]).join(format!("{key}.cubin")), hours);
}

fn age(path: &Path, hours: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
}

fn has(root: &Path, byte: u8) -> bool {
    FileSystemJitStore::new(root).unwrap().contains(&key(byte)).unwrap()
}

#[test]
fn stats_count_every_cache_and_make_none() {
    let home = Home::new();
    home.cutile(&["cache", "stats"]).expect(0).fits().says(&["kernels", "not there yet"]);
    assert!(!home.path(".cache").exists());
    put(&root(&home, "kernels"), 1, 3);
    put(&root(&home, "kernels"), 2, 50);
    put(&root(&home, "shaders"), 3, 0);
    home.cutile(&["cache", "stats"])
        .expect(0)
        .says(&["2 entries, 2.0 kB of 2.1 GB, the oldest used 2 days ago", "1 entries, 1.0 kB"]);
    let found = home.cutile(&["cache", "stats", "--json"]).expect(0).json();
    let stores = found["stores"].as_array().unwrap();
    let rows: Vec<_> = stores
        .iter()
        .map(|store| (store["store"].as_str().unwrap(), store["entries"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, [("kernels", 2), ("shaders", 1), ("build", 0)]);
    assert_eq!(stores[2]["exists"], false);
    let one = home.cutile(&["cache", "stats", "--json", "--shaders"]).expect(0).json();
    assert_eq!(one["stores"].as_array().unwrap().len(), 1);
}

#[test]
fn gc_removes_what_was_used_longest_ago_and_what_processes_left() {
    let home = Home::new();
    let kernels = root(&home, "kernels");
    for (byte, hours) in [(1, 5), (2, 9), (3, 1)] {
        put(&kernels, byte, hours);
    }
    let temp = |more: &str| kernels.join("01").join(format!("{}.tmp.1.2.{more}", key(1)));
    let (stale, fresh) = (temp("3"), temp("4"));
    fs::write(&stale, "torn").unwrap();
    fs::write(&fresh, "being written").unwrap();
    age(&stale, 2);
    home.cutile(&["cache", "gc"]).expect(0).says(&["0 entries (0 B) removed", "1 unfinished"]);
    assert!(!stale.exists() && fresh.exists());
    home.cutile(&["cache", "gc", "--kernels", "--capacity", "2K"]).expect(0);
    assert_eq!([1, 2, 3].map(|byte| has(&kernels, byte)), [true, false, true]);
    home.cutile(&["cache", "gc", "--kernels", "--capacity", "0"]).expect(0).says(&["2 entries"]);
    assert!(!has(&kernels, 3));
    home.cutile(&["cache", "gc", "--capacity", "many"]).expect(2).says(&["as 512M"]);
}

#[test]
fn gc_leaves_a_cache_to_the_process_that_evicts_already() {
    let home = Home::new();
    let kernels = root(&home, "kernels");
    put(&kernels, 1, 5);
    let lock = File::create(kernels.join(EVICTION_LOCK_FILE_NAME)).unwrap();
    lock.lock().unwrap();
    home.cutile(&["cache", "gc", "--kernels", "--capacity", "0"])
        .expect(0)
        .says(&["another process evicts just now"]);
    assert!(has(&kernels, 1));
}

#[test]
fn clear_asks_and_without_a_terminal_or_yes_removes_nothing() {
    let home = Home::new();
    let (kernels, shaders) = (root(&home, "kernels"), root(&home, "shaders"));
    home.cutile(&["cache", "clear"]).expect(0).says(&["There is nothing to remove"]);
    put(&kernels, 1, 5);
    put(&shaders, 2, 5);
    home.cutile(&["cache", "clear"]).expect(1).says(&["kernels 1 entries", "add --yes"]);
    assert!(has(&kernels, 1) && has(&shaders, 2));
    home.cutile(&["cache", "clear", "--shaders", "--yes"]).expect(0).says(&["1 entries (1.0 kB)"]);
    assert!(has(&kernels, 1) && !has(&shaders, 2));
}

#[test]
fn what_is_not_the_caches_stays() {
    let home = Home::new();
    let kernels = root(&home, "kernels");
    put(&kernels, 1, 5);
    let shard = kernels.join(&key(1)[..2]);
    let foreign = [shard.join("thesis.txt"), shard.join("a.tmp.b"), shard.join("a.cubin")];
    for file in &foreign {
        fs::write(file, "mine").unwrap();
        age(file, 5);
    }
    home.cutile(&["cache", "stats", "--kernels"]).expect(0).says(&["1 entries"]);
    home.cutile(&["cache", "gc", "--kernels", "--capacity", "0"]).expect(0).says(&["1 entries"]);
    put(&kernels, 1, 5);
    home.cutile(&["cache", "clear", "--kernels", "--yes"]).expect(0).says(&["1 entries"]);
    assert!(!has(&kernels, 1));
    foreign.iter().for_each(|file| assert_eq!(fs::read(file).unwrap(), b"mine"));
}

#[test]
fn the_build_cache_is_where_its_variable_says() {
    let home = Home::new();
    let build = home.path("elsewhere");
    put(&build, 1, 5);
    let with = |arguments: &[&str], value: &str| {
        call(home.command(arguments).env("CUTILE_BUILD_CACHE", value))
    };
    let path = build.to_str().unwrap();
    with(&["cache", "stats", "--build"], path).expect(0).says(&[path, "1 entries"]);
    with(&["cache", "clear", "--build", "--yes"], path).expect(0);
    assert!(!has(&build, 1));
    with(&["cache", "stats", "--build"], "off").expect(1).says(&["CUTILE_BUILD_CACHE=off"]);
    with(&["cache", "stats"], "off").expect(0);
    with(&["cache", "stats", "--build"], "relative").expect(1).says(&["an absolute path"]);
}

#[test]
fn a_link_in_place_of_a_cache_is_not_followed() {
    let home = Home::new();
    let other = home.path("other");
    put(&other, 1, 5);
    let kernels = root(&home, "kernels");
    fs::create_dir_all(kernels.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&other, &kernels).unwrap();
    for action in [&["stats"][..], &["gc", "--capacity", "0"], &["clear", "--yes"]] {
        let arguments = [&["cache"], action, &["--kernels"]].concat();
        home.cutile(&arguments).expect(1).says(&["is no folder, and a cache is one: move it away"]);
    }
    assert!(has(&other, 1));
}
