//! What is read is bounded, a plain file, and the user's own.

use super::*;

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
    let error = store.get(&key("ab")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    // By its length, and not by what was read of it.
    assert!(error.to_string().contains(&(MAX_ENTRY_BYTES + 1).to_string()), "{error}");
    file.set_len(MAX_ENTRY_BYTES).unwrap();
    assert_eq!(
        store.get(&key("ab")).unwrap().map(|value| value.len() as u64),
        Some(MAX_ENTRY_BYTES)
    );
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

#[test]
fn a_shard_swapped_for_a_link_between_two_calls_is_refused() {
    let (dir, store) = temp_store();
    store.put(&key("ab"), b"mine").unwrap();
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"mine"[..]));
    let (shard, aside, planted) =
        (store.root().join("ab"), dir.path().join("aside"), dir.path().join("planted"));
    fs::create_dir(&planted).unwrap();
    let files = [format!("{}.cubin", key("ab")), format!("{}.tmp.1.0.x", key("ab"))];
    for file in &files {
        fs::write(planted.join(file), b"planted").unwrap();
        age(&planted.join(file), 10_000);
    }
    fs::rename(&shard, aside).unwrap();
    symlink(&planted, &shard).unwrap();
    let kinds = [
        store.get(&key("ab")).unwrap_err().kind(),
        store.contains(&key("ab")).unwrap_err().kind(),
        store.put(&key("ab"), b"new").unwrap_err().kind(),
        store.delete(&key("ab")).unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::NotADirectory; 4]);
    // Neither eviction nor clearing looks behind it.
    let small = FileSystemJitStore::builder(store.root()).capacity_bytes(16).open().unwrap();
    small.put(&key("cd"), b"evicts").unwrap();
    store.clear().unwrap();
    assert_eq!(names(&planted), files);
    for file in files {
        assert_eq!(fs::read(planted.join(file)).unwrap(), b"planted");
    }
}

#[test]
fn contains_says_no_to_every_entry_that_get_refuses() {
    let (_dir, store) = temp_store();
    store.put(&key("ab"), b"x").unwrap();
    let file = File::options().write(true).open(entry_path(&store, &key("ab"))).unwrap();
    file.set_len(MAX_ENTRY_BYTES + 1).unwrap();
    assert!(store.get(&key("ab")).is_err());
    assert!(!store.contains(&key("ab")).unwrap());
    fs::create_dir_all(entry_path(&store, &key("cd"))).unwrap();
    assert!(store.get(&key("cd")).is_err());
    assert!(!store.contains(&key("cd")).unwrap());
}
