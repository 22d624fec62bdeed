//! The way of a kernel through the store, and what is counted on it.

use super::*;

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

/// Puts `entry` where `params` will look for it: it must be a miss, and gone.
#[track_caller]
fn assert_missed_and_deleted(entry: Vec<u8>, params: &EntryParams<'_>) {
    // A store that cannot be written shows that the entry was deleted, not replaced.
    let store = Arc::new(Memory::failing(&["put"]));
    store.values.lock().unwrap().insert(key("ab"), entry);
    store::enable(store.clone());
    assert_eq!(load(&key("ab"), params, b"image"), ([0, 1, 0, 0, 1], 1));
    assert!(!store.contains(&key("ab")).unwrap());
    store::disable();
}

#[test]
fn seed_an_entry_with_any_byte_flipped_or_cut_off_is_a_miss_and_goes() {
    let _process = process();
    let good = encode_entry(&params(), b"image").unwrap();
    for at in (0..good.len()).filter(|at| !RESERVED.contains(at)) {
        let mut flipped = good.clone();
        flipped[at] ^= 0x01;
        assert_missed_and_deleted(flipped, &params());
        assert_missed_and_deleted(good[..at].to_vec(), &params());
    }
    let mut longer = good;
    longer.push(0);
    assert_missed_and_deleted(longer, &params());
}

#[test]
fn seed_an_entry_of_another_request_is_a_miss_and_goes() {
    let _process = process();
    let good = encode_entry(&params(), b"image").unwrap();
    for other in others() {
        assert_missed_and_deleted(good.clone(), &other);
    }
}

#[test]
fn seed_what_is_no_plain_file_is_counted_passed_over_and_replaced() {
    let _process = process();
    let (dir, store) = temp_store();
    let root = store.root().to_owned();
    let path = |shard: &str| {
        fs::create_dir(root.join(shard)).unwrap();
        entry_path(&store, &key(shard))
    };
    fs::write(dir.path().join("planted"), encode_entry(&params(), b"planted").unwrap()).unwrap();
    symlink(dir.path().join("planted"), path("01")).unwrap();
    assert!(Command::new("mkfifo").arg(path("02")).status().unwrap().success());
    fs::create_dir(path("03")).unwrap();
    let bytes = encode_entry(&params(), b"image").unwrap().len() as u64;
    store::enable(Arc::new(store));
    for shard in ["01", "02"] {
        assert_eq!(load(&key(shard), &params(), b"image"), ([0, 1, 1, bytes, 1], 1), "{shard}");
        assert_eq!(load(&key(shard), &params(), b"image"), ([1, 0, 0, 0, 0], 0), "{shard}");
    }
    // A folder cannot be replaced by a file: read and write fail, the launch does not.
    assert_eq!(load(&key("03"), &params(), b"image"), ([0, 1, 0, 0, 2], 1));
    assert!(root.join("03").join(format!("{}.cubin", key("03"))).is_dir());
    store::disable();
}

#[test]
fn seed_a_name_too_long_for_the_entry_is_not_cached() {
    let _process = process();
    let store = Arc::new(Memory::default());
    store::enable(store.clone());
    let long = "x".repeat(usize::from(u16::MAX) + 1);
    let fingerprint = EntryParams { tileiras_fp: &long, ..params() };
    let gpu = EntryParams { gpu_name: &long, ..params() };
    for params in [fingerprint, gpu] {
        assert_eq!(load(&key("ab"), &params, b"image"), ([0, 1, 0, 0, 0], 1));
        assert!(!store.contains(&key("ab")).unwrap());
    }
    store::disable();
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
    let moved = counted(|| {
        load(&key("ab"), &params(), b"image");
    });
    assert_eq!(moved, [1, 1, 0]);
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
        let Err(error @ CompileError::Compile(_)) = loaded else { panic!("{loaded:?}") };
        assert_eq!(error.to_string(), "the kernel does not compile: no compiler");
        assert_eq!(error.source().unwrap().to_string(), "no compiler");
    });
    assert_eq!(moved, [0, 0, 0]);
    assert!(!store.contains(&key("ab")).unwrap());
    store::disable();
}

#[test]
fn an_image_that_was_just_compiled_and_is_rejected_says_what_may_be_wrong() {
    let _process = process();
    store::disable();
    let compile = || Ok(b"image".to_vec());
    let reject = |_: &[u8]| Err::<(), _>(io::Error::other("error 209"));
    let error = store::load_or_compile(&key("ab"), &params(), compile, reject).unwrap_err();
    assert!(matches!(error, CompileError::Load(_)));
    let said = error.to_string();
    assert!(said.starts_with("the driver rejected an image that was just compiled: error 209; is"));
    assert_eq!(error.source().unwrap().to_string(), "error 209");
}
