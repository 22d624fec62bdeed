//! The store of the process, and its counters.

use super::*;

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
fn seed_a_failure_is_counted_once_through_tiers_too() {
    let _process = process();
    let failing = Tier::writable("disk", Arc::new(Memory::failing(&["get", "put"])));
    let tiered = Arc::new(TieredJitStore::new(vec![failing]));
    store::enable(tiered.clone());
    assert_eq!(load(&key("ab"), &params(), b"image"), ([0, 1, 0, 0, 2], 1));
    assert_eq!(tiered.tier_stats()[0].errors, 2);
    store::disable();
}

#[test]
fn seed_enable_default_takes_the_users_folder_or_fails() {
    const TEST: &str = "switch::seed_enable_default_takes_the_users_folder_or_fails";
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
    const TEST: &str = "switch::seed_log_lines_have_a_prefix_and_are_off_unless_asked_for";
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
    let panicked = std::thread::scope(|scope| scope.spawn(run).join().is_err());
    assert!(panicked && store::is_enabled());
    store::disable();
    assert!(!store::is_enabled());
    load(&key("ab"), &params(), b"image");
}
