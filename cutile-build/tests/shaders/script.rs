//! A build script as cargo runs it: this program again, as a process of its own.

use crate::fixture::{Crate, GOOD, has};
use cutile_build::Builder;
use std::process::{Command, Output};

const CHILD: &str = "CUTILE_TEST_BUILD_SCRIPT";

/// What the build script does; in a process that is none, nothing.
#[test]
fn as_a_build_script() {
    #[allow(clippy::disallowed_methods, reason = "tells the child that it is one")]
    if std::env::var_os(CHILD).is_some() {
        Builder::from_metadata().build();
    }
}

fn script(crate_: &Crate) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "script::as_a_build_script", "--nocapture"])
        .current_dir(crate_.root())
        .env(CHILD, "1")
        .envs(crate_.variables())
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(ToOwned::to_owned).collect()
}

#[test]
fn cargo_is_told_of_every_shader_and_of_the_folders_where_new_ones_can_appear() {
    let crate_ = Crate::with([("a.wgsl", GOOD), ("fx/deep/b.wgsl", GOOD)]);
    crate_.file("more/c.wgsl", GOOD);
    crate_.metadata(
        "[package.metadata.cutile]\nshaders = [\"shaders/fx/**/*.wgsl\", \"shaders/a.wgsl\"]\n\
         [[package.metadata.cutile.shader]]\npath = \"more/c.wgsl\"\n",
    );
    let output = script(&crate_);
    assert!(output.status.success());
    let lines = lines(&output);
    for path in
        ["Cargo.toml", "shaders/fx", "shaders/fx/deep/b.wgsl", "shaders/a.wgsl", "more/c.wgsl"]
    {
        let line = format!("cargo::rerun-if-changed={path}");
        assert!(lines.contains(&line), "{line} is not in {lines:?}");
    }
    // Nothing in which cargo or the build itself writes.
    for path in ["", ".", "shaders/fx/*"] {
        assert!(!lines.contains(&format!("cargo::rerun-if-changed={path}")));
    }
    // What only kernels depend on does not run it again.
    assert!(!lines.iter().any(|line| line.contains("CUDA_TOOLKIT_PATH")), "{lines:?}");
}

#[test]
fn a_script_that_fails_prints_all_errors_and_has_told_cargo_what_to_watch() {
    let crate_ = Crate::with([("a.wgsl", "fn f( {}"), ("b.wgsl", "let x;")]);
    let output = script(&crate_);
    assert_eq!(output.status.code(), Some(1));
    has(
        &String::from_utf8_lossy(&output.stderr),
        &["2 of 2 shaders", "shaders/a.wgsl:1:7", "shaders/b.wgsl:1:1", "fn f( {}"],
    );
    has(&lines(&output).join("\n"), &["cargo::rerun-if-changed=shaders\n"]);
}

#[test]
fn the_summary_counts_shaders() {
    let crate_ = Crate::with([("a.wgsl", GOOD), ("b.wgsl", GOOD)]);
    has(
        &String::from_utf8_lossy(&script(&crate_).stderr),
        &["cutile-build: 2 shaders in 2 forms, "],
    );
}
