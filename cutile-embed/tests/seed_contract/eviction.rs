//! The capacity: what is removed, by whom, and when.

use super::*;

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
fn seed_eviction_logs_what_it_removed_and_what_it_cannot_and_no_stray_file() {
    const TEST: &str =
        "eviction::seed_eviction_logs_what_it_removed_and_what_it_cannot_and_no_stray_file";
    if is_child() {
        let dir = tempfile::tempdir().unwrap();
        let store = small_store(&dir);
        // A file with the name of a shard, and a folder with that of a temporary file.
        fs::write(store.root().join("0a"), "stray").unwrap();
        let folder = store.root().join("01").join(format!("{}.tmp.1.2.3", key("01")));
        fs::create_dir_all(&folder).unwrap();
        age(&folder, 3700);
        fill(&store, &SHARDS);
        return;
    }
    let (_dir, output) = child(TEST, "", &[("CUTILE_JIT_LOG", Path::new("1"))]);
    assert_success(&output);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("evicted 2 entries; 3000 bytes of 4000 left"), "{text}");
    assert!(text.contains("a stale temporary file cannot be removed"), "{text}");
    assert!(!text.contains("cannot be listed"), "{text}");
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
        (0.0, 0.0),
        (f64::INFINITY, 0.8),
        (f64::INFINITY, f64::INFINITY),
        (f64::NEG_INFINITY, f64::NEG_INFINITY),
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

#[test]
fn seed_a_sixteenth_of_the_capacity_always_looks_and_an_empty_entry_never() {
    let dir = tempfile::tempdir().unwrap();
    // Who looks at the total opens the lock first.
    let looked = |store: &FileSystemJitStore| {
        fs::remove_file(store.root().join(EVICTION_LOCK_FILE_NAME)).is_ok()
    };
    let root = dir.path().join("root");
    let store = FileSystemJitStore::builder(&root).capacity_bytes(16_000).open().unwrap();
    for _ in 0..64 {
        store.put(&key("ab"), &[0; 1000]).unwrap();
        assert!(looked(&store));
        store.put(&key("ab"), &[]).unwrap();
        assert!(!looked(&store));
    }
    // One byte of 2^63: once in 2^59 draws.
    let huge = FileSystemJitStore::builder(&root).capacity_bytes(1 << 63).open().unwrap();
    for _ in 0..64 {
        huge.put(&key("ab"), &[0]).unwrap();
        assert!(!looked(&huge));
    }
}

#[test]
fn seed_the_lock_outlives_eviction_and_clear() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    let lock = store.root().join(EVICTION_LOCK_FILE_NAME);
    // Large, and older than everything else.
    fs::write(&lock, [0; 8000]).unwrap();
    age(&lock, 1_000_000);
    let inode = fs::metadata(&lock).unwrap().ino();
    fill(&store, &SHARDS);
    assert_eq!(kept(&store, &SHARDS), ["03", "04", "05"], "its size does not count");
    store.clear().unwrap();
    assert!(kept(&store, &SHARDS).is_empty());
    assert_eq!(fs::metadata(&lock).unwrap().ino(), inode);
    assert_eq!(fs::metadata(&lock).unwrap().len(), 8000);
}

#[test]
fn seed_stale_temporary_files_are_removed_below_the_high_watermark_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = small_store(&dir);
    let shard = store.root().join("ab");
    fs::create_dir(&shard).unwrap();
    let temp = shard.join(format!("{}.tmp.1.0.stale", key("ab")));
    fs::write(&temp, b"half").unwrap();
    age(&temp, 3610);
    fill(&store, &["01"]);
    assert!(!temp.exists());
    assert_eq!(kept(&store, &SHARDS), ["01"]);
}
