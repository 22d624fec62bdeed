//! The default place: whose it is, and who may enter it.

use super::*;

#[test]
fn seed_the_default_place_is_the_users_cache_folder() {
    let place = |xdg: Option<&str>, home: Option<&str>| {
        default_root(xdg.map(OsStr::new), home.map(OsStr::new))
    };
    let below_home = Path::new("/home/u/.cache/cutile/kernels");
    assert_eq!(place(Some("/x"), Some("/home/u")).unwrap(), Path::new("/x/cutile/kernels"));
    assert_eq!(place(Some("/x"), None).unwrap(), Path::new("/x/cutile/kernels"));
    for ignored in [None, Some(""), Some("relative"), Some("./x")] {
        assert_eq!(place(ignored, Some("/home/u")).unwrap(), below_home);
        // Never a temporary folder that all users share.
        for home in [None, Some("")] {
            assert_eq!(place(ignored, home).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }
}

#[test]
fn seed_a_new_root_is_0700_whatever_the_umask() {
    if is_child() {
        let root = std::env::current_dir().unwrap().join("cache/cutile/kernels");
        let store = FileSystemJitStore::private(&root).unwrap();
        assert_eq!(store.root(), root);
        assert_eq!(mode(&root), 0o700);
        // What the umask leaves of 0777 tells what it leaves of 0700.
        fs::create_dir("probe").unwrap();
        for parent in root.ancestors().skip(1).take(2) {
            assert_eq!(mode(parent), mode(Path::new("probe")) & 0o700);
        }
        store.put(&key("ab"), b"x").unwrap();
        return;
    }
    for umask in ["000", "022", "077", "477"] {
        let test = "root::seed_a_new_root_is_0700_whatever_the_umask";
        let (_dir, output) = child(test, &format!("umask {umask}"), &[]);
        assert_success(&output);
    }
}

/// An existing folder for a cache, of a mode.
fn existing_root(mode: u32) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("cutile").join("kernels");
    DirBuilder::new().recursive(true).mode(0o700).create(&root).unwrap();
    fs::write(root.join("entry"), b"found there").unwrap();
    set_mode(&root, mode);
    (dir, root)
}

#[test]
fn seed_a_private_root_is_kept_with_what_is_in_it() {
    let (_dir, root) = existing_root(0o700);
    FileSystemJitStore::private(&root).unwrap();
    assert_eq!(mode(&root), 0o700);
    assert_eq!(fs::read(root.join("entry")).unwrap(), b"found there");
}

#[test]
fn seed_a_root_that_others_can_enter_is_refused_and_left_alone() {
    for found in [0o755, 0o750, 0o770, 0o702, 0o1777, 0o710] {
        let (_dir, root) = existing_root(found);
        let error = FileSystemJitStore::private(&root).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains("delete it and retry"), "{text}");
        assert!(text.contains(&format!("{found:04o}")), "{text}");
        assert_eq!(mode(&root), found);
        assert_eq!(fs::read(root.join("entry")).unwrap(), b"found there");
    }
}

#[test]
fn seed_a_root_that_is_no_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    fs::write(&file, b"a file").unwrap();
    DirBuilder::new().mode(0o700).create(dir.path().join("folder")).unwrap();
    symlink(dir.path().join("folder"), &link).unwrap();
    for root in [&file, &link] {
        let error = FileSystemJitStore::private(root).unwrap_err();
        assert!(error.to_string().contains("delete it and retry"), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"a file");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn seed_a_root_of_another_user_is_refused() {
    let (_dir, root) = existing_root(0o700);
    // Only root can give a folder away; everybody else finds one that is root's.
    let root = match std::os::unix::fs::chown(&root, Some(12345), None) {
        Ok(()) => root,
        Err(_) => PathBuf::from("/usr"),
    };
    let error = FileSystemJitStore::private(&root).unwrap_err();
    assert!(error.to_string().contains("belongs to user"), "{error}");
}

#[test]
fn seed_a_parent_that_everybody_can_write_is_refused_unless_it_is_sticky() {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join("parent");
    fs::create_dir_all(parent.join("cutile")).unwrap();
    set_mode(&parent, 0o777);
    let root = parent.join("cutile").join("kernels");
    let error = FileSystemJitStore::private(&root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(parent.to_str().unwrap()), "{error}");
    assert!(!root.exists());
    assert_eq!(mode(&parent), 0o777);
    // Reached through a link, it is the same folder.
    let link = dir.path().join("link");
    symlink(&parent, &link).unwrap();
    assert!(FileSystemJitStore::private(&link.join("cutile").join("kernels")).is_err());
    // And so is what a link names below it, though no part of this path can be written.
    let below = dir.path().join("below");
    symlink(parent.join("cutile"), &below).unwrap();
    assert!(FileSystemJitStore::private(&below.join("kernels")).is_err());
    assert!(!root.exists());
    set_mode(&parent, 0o1777);
    FileSystemJitStore::private(&root).unwrap();
}

#[test]
fn seed_a_parent_may_be_a_link() {
    let dir = tempfile::tempdir().unwrap();
    DirBuilder::new().mode(0o700).create(dir.path().join("folder")).unwrap();
    symlink(dir.path().join("folder"), dir.path().join("link")).unwrap();
    let root = dir.path().join("link").join("cutile").join("kernels");
    FileSystemJitStore::private(&root).unwrap().put(&key("ab"), b"x").unwrap();
    assert!(dir.path().join("folder/cutile/kernels/ab").is_dir());
}

#[test]
fn the_cache_folder_of_the_user_may_be_a_link_to_another_disk() {
    const TEST: &str = "root::the_cache_folder_of_the_user_may_be_a_link_to_another_disk";
    if is_child() {
        store::enable_default().unwrap();
        load(&key("ab"), &params(), b"image");
        let (counted, compiled) = load(&key("ab"), &params(), b"image");
        assert_eq!((counted, compiled), ([1, 0, 0, 0, 0], 0));
        return;
    }
    let (home, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(scratch.path(), home.path().join(".cache")).unwrap();
    let (_dir, output) = child(TEST, "", &[("HOME", home.path())]);
    assert_success(&output);
    let root = scratch.path().join("cutile/kernels");
    assert_eq!((mode(&root), names(&root)), (0o700, vec!["ab".to_owned()]));
}

#[test]
fn a_good_root_is_not_touched_and_one_without_the_owners_rights_gets_them() {
    let (_dir, root) = existing_root(0o700);
    let changed = |root: &Path| {
        let found = fs::metadata(root).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    let before = changed(&root);
    FileSystemJitStore::private(&root).unwrap();
    // On a disk that is only read, changing its mode would fail.
    assert_eq!(changed(&root), before);
    for found in [0o500, 0o300, 0o000] {
        let (_dir, root) = existing_root(found);
        FileSystemJitStore::private(&root).unwrap().put(&key("ab"), b"x").unwrap();
        assert_eq!(mode(&root), 0o700, "{found:o}");
    }
}

#[test]
fn a_root_that_opens_up_after_it_was_checked_is_refused_from_then_on() {
    let (_dir, root) = existing_root(0o700);
    let store = FileSystemJitStore::private(&root).unwrap();
    store.put(&key("ab"), b"x").unwrap();
    for open in [0o750, 0o701, 0o777] {
        set_mode(&root, open);
        let kinds = [
            store.get(&key("ab")).unwrap_err().kind(),
            store.contains(&key("ab")).unwrap_err().kind(),
            store.put(&key("cd"), b"x").unwrap_err().kind(),
            store.delete(&key("ab")).unwrap_err().kind(),
            store.clear().unwrap_err().kind(),
        ];
        assert_eq!(kinds, [ErrorKind::PermissionDenied; 5], "{open:o}");
        assert_eq!(mode(&root), open);
    }
    set_mode(&root, 0o700);
    assert_eq!(store.get(&key("ab")).unwrap().as_deref(), Some(&b"x"[..]));
}

#[test]
fn a_private_root_that_becomes_a_link_is_refused_from_then_on() {
    let (dir, root) = existing_root(0o700);
    let store = FileSystemJitStore::private(&root).unwrap();
    store.put(&key("ab"), b"planted").unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&root, &elsewhere).unwrap();
    symlink(&elsewhere, &root).unwrap();
    assert!(store.get(&key("ab")).is_err());
    assert!(store.contains(&key("ab")).is_err());
    assert!(store.put(&key("cd"), b"mine").is_err());
    assert!(store.delete(&key("ab")).is_err());
    assert!(store.clear().is_err());
    assert_eq!(names(&elsewhere), ["ab", "entry"]);
    // Of a root that the caller chose, a link is his.
    let chosen = FileSystemJitStore::new(&root).unwrap();
    assert_eq!(chosen.get(&key("ab")).unwrap().as_deref(), Some(&b"planted"[..]));
}

#[test]
fn a_root_that_vanished_is_made_again_as_it_was_made_first() {
    let (_dir, root) = existing_root(0o700);
    let store = FileSystemJitStore::private(&root).unwrap();
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(store.get(&key("ab")).unwrap(), None);
    assert!(!store.contains(&key("ab")).unwrap());
    store.delete(&key("ab")).unwrap();
    store.put(&key("ab"), b"x").unwrap();
    assert_eq!(mode(&root), 0o700);
    fs::remove_dir_all(&root).unwrap();
    set_mode(root.parent().unwrap(), 0o777);
    assert_eq!(store.put(&key("ab"), b"x").unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert!(!root.exists());
}
