use super::*;

#[test]
fn every_bit_of_a_draw_is_uniform() {
    // A fixed bit would be the same in all of them; with 4,096 draws a free one is not, but once
    // in 2^4095.
    let draws: Vec<u64> = (0..4096).map(|_| draw(&Uuid::new_v4())).collect();
    let all_ones = draws.iter().fold(u64::MAX, |bits, draw| bits & draw);
    let any_ones = draws.iter().fold(0, |bits, draw| bits | draw);
    assert_eq!((all_ones, any_ones), (0, u64::MAX));
    for bit in 0..64 {
        let set = draws.iter().filter(|draw| *draw >> bit & 1 == 1).count();
        // Eight standard deviations of 32 round the mean.
        assert!((1792..=2304).contains(&set), "bit {bit} is set {set} times of 4096");
    }
}

#[test]
fn the_draw_is_compared_exactly() {
    // Capacity 1600: the threshold is 100. A length of 25 looks below a quarter of all draws.
    let quarter = 1 << 62;
    assert!(looks(quarter - 1, 25, 1600));
    assert!(!looks(quarter, 25, 1600));
    assert!(looks(u64::MAX, 100, 1600));
    assert!(!looks(u64::MAX, 99, 1600));
    assert!(!looks(0, 0, 1600));
    assert!(looks(u64::MAX, u64::MAX, u64::MAX));
}

#[test]
fn another_users_file_is_refused_by_what_was_opened() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = FileSystemJitStore::new(dir.path()).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    let meta = fs::metadata(&file).unwrap();
    store.check(&meta).unwrap();
    let foreign = store.root.join("foreign");
    fs::write(&foreign, b"x").unwrap();
    // Only root can give a file away; elsewhere the same check runs on a file of root's.
    let foreign = match std::os::unix::fs::chown(&foreign, Some(12345), None) {
        Ok(()) => fs::metadata(&foreign).unwrap(),
        Err(_) => fs::metadata("/etc/passwd").unwrap(),
    };
    let error = store.check(&foreign).unwrap_err();
    assert!(error.to_string().contains("belongs to user"), "{error}");
    // Of a folder that the caller chose, the owner's files are served.
    store.owner = platform::owner(&foreign);
    store.check(&foreign).unwrap();
}

#[test]
fn another_users_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileSystemJitStore::new(dir.path().join("root")).unwrap();
    let own = fs::metadata(dir.path()).unwrap();
    store.check_folder(dir.path(), &own).unwrap();
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    // As above.
    let found = match std::os::unix::fs::chown(&foreign, Some(12345), None) {
        Ok(()) => fs::metadata(&foreign).unwrap(),
        Err(_) => fs::metadata("/etc").unwrap(),
    };
    let error = store.check_folder(&foreign, &found).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("belongs to somebody else"), "{error}");
}

#[test]
fn a_temporary_name_has_the_pid_a_counter_and_a_uuid() {
    let nonce = Uuid::new_v4();
    let key = "ab".repeat(32);
    let names = [temp_name(&key, &nonce), temp_name(&key, &nonce)];
    let rows = names.each_ref().map(|name| {
        let rest = name.strip_prefix(&format!("{key}.tmp.{}.", process::id())).unwrap();
        let (counter, uuid) = rest.split_once('.').unwrap();
        assert_eq!(uuid.parse::<Uuid>().unwrap(), nonce);
        counter.parse::<u64>().unwrap()
    });
    assert_ne!(rows[0], rows[1]);
}

#[test]
fn a_huge_file_is_refused_by_its_length_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileSystemJitStore::new(dir.path()).unwrap();
    let file = fs::File::create(dir.path().join("huge")).unwrap();
    file.set_len(MAX_ENTRY_BYTES).unwrap();
    store.check(&file.metadata().unwrap()).unwrap();
    file.set_len(MAX_ENTRY_BYTES + 1).unwrap();
    let error = store.check(&file.metadata().unwrap()).unwrap_err();
    assert!(error.to_string().contains(&(MAX_ENTRY_BYTES + 1).to_string()), "{error}");
}

#[test]
fn an_entry_that_would_not_be_read_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = FileSystemJitStore::new(dir.path()).unwrap();
    store.longest = 10;
    for (number, length, is_kept) in [(0, 10, true), (1, 11, false), (2, 12, false)] {
        let key = format!("{number:064x}");
        store.put(&key, &vec![7; length]).unwrap();
        assert_eq!(store.contains(&key).unwrap(), is_kept, "{length} bytes of 10");
    }
}

#[test]
fn only_entries_are_listed_for_eviction() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileSystemJitStore::new(dir.path()).unwrap();
    let key = "ab".repeat(32);
    store.put(&key, b"entry").unwrap();
    let shard = dir.path().join("ab");
    let of_another_shard = format!("{}.cubin", "cd".repeat(32));
    let strays =
        ["notes", &temp_name(&key, &Uuid::new_v4()), "key.cubin.bak", "a.cubin", &of_another_shard];
    for stray in strays {
        fs::write(shard.join(stray), b"stray").unwrap();
    }
    fs::write(dir.path().join("outside.cubin"), b"stray").unwrap();
    let found: Vec<_> = entries(&store.open_root().unwrap())
        .unwrap()
        .into_iter()
        .map(|entry| (entry.shard, entry.name))
        .collect();
    assert_eq!(found, [("ab".to_owned(), format!("{key}.cubin"))]);
}

#[test]
fn what_a_killed_process_left_goes_with_a_put_into_its_shard_without_eviction() {
    let dir = tempfile::tempdir().unwrap();
    for capacity in [0, DEFAULT_CAPACITY_BYTES] {
        let builder = FileSystemJitStore::builder(dir.path()).capacity_bytes(capacity);
        let store = builder.open().unwrap();
        let shard = dir.path().join("ab");
        let _ = fs::create_dir(&shard);
        let temp = |age: u64| {
            let path = shard.join(temp_name(&"ab".repeat(32), &Uuid::new_v4()));
            let then = SystemTime::now() - Duration::from_secs(age);
            let times = FileTimes::new().set_modified(then);
            fs::File::create(&path).unwrap().set_times(times).unwrap();
            path
        };
        let (young, stale) = (temp(3500), temp(3700));
        store.put(&"ab".repeat(32), b"x").unwrap();
        assert!(young.exists() && !stale.exists());
    }
}

#[test]
fn a_file_is_the_stores_by_its_name() {
    let key = "ab".repeat(32);
    let entry = format!("{key}.cubin");
    assert_eq!(FileRole::of("ab", &entry), Some(FileRole::Entry));
    let temporary = temp_name(&key, &Uuid::new_v4());
    assert_eq!(FileRole::of("ab", &temporary), Some(FileRole::Temporary));
    assert_eq!(FileRole::of("cd", &entry), None);
    assert_eq!(FileRole::of("cd", &temporary), None);
    let long = format!("{key}0.cubin");
    let upper = entry.to_uppercase();
    let cut_in_a_letter = format!("{}é.cubin", &key[..63]);
    let bak = format!("{entry}.bak");
    for name in ["", ".cubin", "ab.cubin", &key, &long, &upper, &cut_in_a_letter, &bak] {
        assert_eq!(FileRole::of("ab", name), None, "{name}");
    }
}

#[test]
fn clear_leaves_what_is_not_the_stores() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileSystemJitStore::new(dir.path()).unwrap();
    let (key, other) = ("ab".repeat(32), "cd".repeat(32));
    store.put(&key, b"entry").unwrap();
    store.put(&other, b"entry").unwrap();
    let temporary = dir.path().join("ab").join(temp_name(&key, &Uuid::new_v4()));
    fs::write(&temporary, b"torn").unwrap();
    // Under names that a store has, too.
    let folder = dir.path().join("ab").join(format!("{}.cubin", "abcd".repeat(16)));
    fs::create_dir(&folder).unwrap();
    let kept = [
        folder.join("file"),
        dir.path().join("ab/thesis.txt"),
        dir.path().join("ab/a.cubin"),
        dir.path().join("ef"),
        dir.path().join("notes"),
    ];
    kept.iter().for_each(|path| fs::write(path, b"kept").unwrap());
    store.clear().unwrap();
    assert_eq!((store.get(&key).unwrap(), store.get(&other).unwrap()), (None, None));
    assert!(!temporary.exists() && !dir.path().join("cd").exists());
    kept.iter().for_each(|path| assert_eq!(fs::read(path).unwrap(), b"kept"));
}

#[test]
fn clear_is_no_error_where_something_is_put_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileSystemJitStore::new(dir.path()).unwrap();
    let cleared = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !cleared.load(Ordering::Relaxed) {
                let _ = store.put(&"ab".repeat(32), b"x");
            }
        });
        let results: Vec<_> = (0..300).map(|_| store.clear()).collect();
        cleared.store(true, Ordering::Relaxed);
        for result in results {
            result.unwrap();
        }
    });
}

#[test]
fn the_longest_name_is_that_of_an_entry_below_its_root() {
    // `folder` holds what is done with it.
    let entry = Path::new("/ab").join(entry_name(&"ab".repeat(32)).unwrap());
    assert_eq!(LONGEST_NAME, entry.as_os_str().len());
}
