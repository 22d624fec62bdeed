//! What every store does.

use super::*;

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
    let (dir, store) = temp_store();
    fs::write(store.root().join("ab"), b"a file where the shard would be").unwrap();
    let error = store.contains(&key("ab")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADirectory);
    let shard = store.root().join("ab");
    assert_eq!(error.to_string(), format!("{} is no folder; delete it", shard.display()));
    assert!(store.get(&key("ab")).is_err());
    assert!(store.put(&key("ab"), b"x").is_err());
    // A root so deep that the path of an entry is longer than Linux takes (4096 bytes), and that of
    // a shard is not.
    let mut root = dir.path().to_owned();
    while root.as_os_str().len() < 3900 {
        root.push("d".repeat(100));
    }
    root.push("d".repeat(4050 - root.as_os_str().len()));
    let store = FileSystemJitStore::new(root).unwrap();
    assert_eq!(store.contains(&key("ab")).unwrap_err().kind(), ErrorKind::InvalidFilename);
    assert_eq!(store.get(&key("ab")).unwrap_err().kind(), ErrorKind::InvalidFilename);
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
    let source = include_str!("../../src/store/mod.rs");
    let (docs, _) = source.split_once("pub trait JitStore").unwrap();
    let docs = &docs[docs.rfind("\n\n").unwrap()..];
    assert!(docs.contains("# Security"), "{docs}");
}

#[test]
fn seed_what_is_no_key_is_invalid_input_in_every_method_of_every_store() {
    let (_dir, disk) = temp_store();
    let embedded = EmbeddedJitStore::new([]);
    let memory = Arc::new(Memory::default());
    let tiered = TieredJitStore::new(vec![Tier::writable("memory", memory.clone())]);
    let read_only = TieredJitStore::new(vec![Tier::read_only("memory", memory.clone())]);
    let good = key("ab");
    let upper = good.to_uppercase();
    let escape = format!("../{}", &good[3..]);
    let wide = format!("{}\u{e9}", &good[2..]);
    for bad in ["", "ab", &good[1..], &format!("{good}0"), &upper, &escape, &wide, &"g".repeat(64)]
    {
        for store in [&disk as &dyn JitStore, &embedded, &tiered, &read_only] {
            let kinds = [
                store.get(bad).unwrap_err().kind(),
                store.put(bad, b"x").unwrap_err().kind(),
                store.contains(bad).unwrap_err().kind(),
                store.delete(bad).unwrap_err().kind(),
            ];
            assert_eq!(kinds, [ErrorKind::InvalidInput; 4], "{bad:?}");
        }
    }
    assert!(names(disk.root()).is_empty());
    assert!(memory.values.lock().unwrap().is_empty());
}

#[test]
fn seed_clear_removes_every_value() {
    let (_dir, disk) = temp_store();
    let memory = Arc::new(Memory::default());
    let tiered = TieredJitStore::new(vec![Tier::writable("memory", memory)]);
    for store in [&disk as &dyn JitStore, &tiered] {
        store.clear().unwrap();
        for shard in ["00", "7f", "ff"] {
            store.put(&key(shard), b"x").unwrap();
        }
        store.clear().unwrap();
        for shard in ["00", "7f", "ff"] {
            assert_eq!(store.get(&key(shard)).unwrap(), None);
            assert!(!store.contains(&key(shard)).unwrap());
        }
        store.put(&key("00"), b"y").unwrap();
        assert_eq!(store.get(&key("00")).unwrap().as_deref(), Some(&b"y"[..]));
    }
}
