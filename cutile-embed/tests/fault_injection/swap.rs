//! A folder of the store is replaced by a link to a planted one, before each call in turn: nothing
//! planted is served, and nothing behind the link is touched.

use super::*;
use cutile_embed::entry::encode_entry;
use std::os::unix::fs::{DirBuilderExt, chown};

/// The kernel whose key is planted: it is looked for twice.
const PLANTED: &str = "a2";

/// What a folder holds, with every name and all bytes.
fn contents(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => found.push((path.clone(), fs::read(&path).ok())),
        }
        found.push((path, None));
    }
    found.sort();
    found
}

/// A folder that looks like a shard, with an entry that every check of an entry lets through.
fn plant_shard(shard: &Path) {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(shard).unwrap();
    let planted = encode_entry(&scenario::params(), b"planted").unwrap();
    fs::write(shard.join(format!("{}.cubin", key(PLANTED))), planted).unwrap();
    fs::write(shard.join("notes"), b"mine").unwrap();
    let stale = shard.join(format!("{}.tmp.1.0.x", key(PLANTED)));
    fs::write(&stale, b"half").unwrap();
    let then = SystemTime::now() - Duration::from_secs(10_000);
    let file = File::options().write(true).open(&stale).unwrap();
    file.set_times(FileTimes::new().set_modified(then)).unwrap();
}

/// Replaces `swapped` by a link to what `plant` makes, before each call in turn, until there are
/// no more calls; returns how often.
fn swap_everywhere(test: &str, swapped: impl Fn(&Path) -> PathBuf, plant: impl Fn(&Path)) -> u64 {
    for number in 1.. {
        let child = Child::new();
        let planted = child.dir.path().join("planted");
        plant(&planted);
        let before = contents(&planted);
        let target = swapped(&child.home());
        let environment = [
            ("FAULT_DO", "swap".to_owned()),
            ("FAULT_SWAP", target.to_str().unwrap().to_owned()),
            ("FAULT_ASIDE", child.dir.path().join("aside").to_str().unwrap().to_owned()),
            ("FAULT_PLANTED", planted.to_str().unwrap().to_owned()),
        ];
        let output = child.run(test, number, &environment);
        let calls = child.calls();
        let Some(call) = calls.iter().find(|call| call.starts_with('!')) else {
            return number - 1;
        };
        // The child itself asks that nothing but its own bytes is served.
        assert!(success(&output), "before {call}, call {number}: {}", text(&output));
        assert_eq!(contents(&planted), before, "before {call}, call {number}");
    }
    unreachable!()
}

#[test]
fn a_shard_that_becomes_a_link_between_two_calls_gains_nothing() {
    const TEST: &str = "swap::a_shard_that_becomes_a_link_between_two_calls_gains_nothing";
    if is_child() {
        return be_the_child(true);
    }
    let swaps = swap_everywhere(TEST, |home| kernels(home).join(PLANTED), plant_shard);
    println!("a shard became a link {swaps} times");
    assert!(swaps > 50, "{swaps}");
}

#[test]
fn a_root_that_becomes_a_link_between_two_calls_gains_nothing() {
    const TEST: &str = "swap::a_root_that_becomes_a_link_between_two_calls_gains_nothing";
    if is_child() {
        return be_the_child(false);
    }
    for root in [kernels, shaders] {
        let swaps = swap_everywhere(TEST, root, |planted| plant_shard(&planted.join(PLANTED)));
        println!("a root became a link {swaps} times");
        assert!(swaps > 50, "{swaps}");
    }
}

#[test]
fn a_parent_that_becomes_a_link_to_another_users_folder_gains_nothing() {
    const TEST: &str = "swap::a_parent_that_becomes_a_link_to_another_users_folder_gains_nothing";
    if is_child() {
        return be_the_child(false);
    }
    let probe = tempfile::tempdir().unwrap();
    if chown(probe.path(), Some(12345), None).is_err() {
        eprintln!("not run: only root can give folders away");
        return;
    }
    let plant = |planted: &Path| {
        for root in ["kernels", "shaders"] {
            plant_shard(&planted.join(root).join(PLANTED));
        }
        for (path, _) in contents(planted) {
            chown(path, Some(12345), None).unwrap();
        }
    };
    let parent = |home: &Path| kernels(home).parent().unwrap().to_owned();
    let swaps = swap_everywhere(TEST, parent, plant);
    println!("a parent became a link {swaps} times");
    assert!(swaps > 50, "{swaps}");
}
