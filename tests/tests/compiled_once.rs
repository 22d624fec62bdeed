//! What build script and program both link, cargo compiles once: cutile takes minutes.

use cutile_tests::workspace_root;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crates of a package, each with the sets of features that it is compiled with.
fn features(package: &str) -> BTreeMap<String, BTreeSet<String>> {
    let tree = Command::new("cargo")
        .args(["tree", "--offline", "--locked", "-p", package, "-e", "normal,build"])
        .args(["--prefix", "none", "-f", "{p}|{f}"])
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let mut features = BTreeMap::<_, BTreeSet<_>>::new();
    for line in String::from_utf8_lossy(&tree.stdout).lines() {
        let line = line.trim_end_matches(" (*)");
        let (package, set) = line.split_once('|').expect("a package and its features");
        features.entry(package.to_owned()).or_default().insert(set.to_owned());
    }
    features
}

#[test]
fn a_build_script_and_its_program_have_one_cutile_and_one_naga() {
    let features = features("example-app");
    assert!(features.keys().any(|package| package.starts_with("cutile-compiler v")));
    let several: Vec<&str> = features
        .iter()
        .filter(|(_, sets)| sets.len() > 1)
        .filter_map(|(package, _)| package.split(' ').next())
        .collect();
    // With wgpu in the program only, and what nothing of the two depends on.
    assert_eq!(several, ["cutile-embed", "raw-window-handle"]);
}
