//! What build script and program both link, cargo compiles once: cutile takes minutes.

use cutile_tests::workspace_root;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Libraries that cargo compiles more than once in a build of example-app, by package.
fn several_times(profile: &[&str]) -> Vec<String> {
    // Cargo prints what it would compile on a nightly compiler, or where it takes this for one.
    let build = Command::new("cargo")
        .args(["build", "--offline", "--locked", "-p", "example-app"])
        .args(profile)
        .args(["-Z", "unstable-options", "--unit-graph"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let graph: Value = serde_json::from_slice(&build.stdout).expect("a graph");
    let mut times = BTreeMap::<&str, usize>::new();
    for unit in graph["units"].as_array().expect("units") {
        if unit["mode"] == "build" && unit["target"]["kind"][0] == "lib" {
            *times.entry(unit["pkg_id"].as_str().expect("a package")).or_default() += 1;
        }
    }
    let names = times.iter().map(|(package, times)| (name(package), *times));
    assert!(names.clone().any(|(name, _)| name == "cutile-compiler"), "{times:?}");
    let mut several: Vec<_> =
        names.filter(|(_, times)| *times > 1).map(|(name, _)| name.to_owned()).collect();
    several.sort();
    several
}

/// `registry+https://…#NAME@VERSION`, `path+file:///…/NAME#VERSION`.
fn name(package: &str) -> &str {
    let (place, rest) = package.split_once('#').expect("a package");
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().expect("a folder"),
    }
}

#[test]
fn a_build_script_and_its_program_have_one_cutile_and_one_naga() {
    // `wgpu` of cutile-embed is the program's alone, and with it one feature of these.
    let with_wgpu = ["cutile-embed", "raw-window-handle", "wgpu-naga-bridge", "wgpu-types"];
    for profile in [&[][..], &["--release"]] {
        assert_eq!(several_times(profile), with_wgpu);
    }
}
