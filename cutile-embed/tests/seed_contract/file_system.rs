//! Where entries lie on disk, and what is left behind when a write fails.

use super::*;

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
    let test = "file_system::seed_a_write_that_fails_in_the_middle_leaves_no_temporary_file";
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

#[test]
fn seed_the_root_is_made_with_its_parents_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a").join("b");
    assert_eq!(FileSystemJitStore::new(&root).unwrap().root(), root);
    assert!(root.is_dir());
    // What was there stays.
    FileSystemJitStore::new(&root).unwrap().put(&key("ab"), b"x").unwrap();
    assert!(FileSystemJitStore::new(&root).unwrap().contains(&key("ab")).unwrap());
    fs::write(dir.path().join("file"), b"x").unwrap();
    assert!(FileSystemJitStore::new(dir.path().join("file")).is_err());
}

#[test]
fn seed_a_file_in_place_of_a_shard_fails_a_put_and_is_left_alone() {
    let (_dir, store) = temp_store();
    fs::write(store.root().join("ab"), b"a file").unwrap();
    assert!(store.put(&key("ab"), b"x").is_err());
    assert_eq!(names(store.root()), ["ab"]);
    assert_eq!(fs::read(store.root().join("ab")).unwrap(), b"a file");
    store.put(&key("cd"), b"x").unwrap();
}
