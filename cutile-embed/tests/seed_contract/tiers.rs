//! Entries in the binary, and stores behind each other.

use super::*;

#[test]
fn seed_embedded_entries_are_served_and_cannot_be_written() {
    let store =
        EmbeddedJitStore::new([pack(&[(&key("ab"), b"one")]), pack(&[(&key("cd"), b"two")])]);
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(store.get(&key("cd")).unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(store.get(&key("ef")).unwrap(), None);
    assert!(store.contains(&key("ab")).unwrap() && !store.contains(&key("ef")).unwrap());
    let error = store.put(&key("ef"), b"three").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
}

#[test]
fn seed_the_first_pack_wins() {
    let store =
        EmbeddedJitStore::new([pack(&[(&key("ab"), b"one")]), pack(&[(&key("ab"), b"two")])]);
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

#[test]
fn packs_are_not_read_to_be_printed() {
    let store = EmbeddedJitStore::on_demand(|| panic!("nobody asked for an entry"));
    store.delete(&key("ab")).unwrap();
    let printed = format!("{store:?}");
    assert!(printed.starts_with("EmbeddedJitStore { hidden: "), "{printed}");
    // Nor does a tier print what it keeps.
    let printed = format!("{:?}", Tier::writable("disk", Arc::new(store)));
    assert_eq!(printed, "Tier { name: \"disk\", writable: true, .. }");
}

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
