//! The shaders of the app, on a Vulkan device that computes on the CPU (Mesa's lavapipe), and where
//! there is none.

use cutile_tests::{Build, Program, Run, scratch};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::OnceLock;

fn app() -> &'static Program {
    static APP: OnceLock<Result<Program, String>> = OnceLock::new();
    let build = || Ok(Build::of_workspace("example-app").try_ok()?.program().clone());
    APP.get_or_init(build).as_ref().unwrap_or_else(|what| panic!("{what}"))
}

fn shaders(cache: &Path) -> Run {
    let cache = cache.to_str().expect("a path in UTF-8");
    app().bare().arguments(["--json", "--shaders-only", "--shader-cache", cache])
}

fn rows(app: &Value) -> &[Value] {
    app["shaders"].as_array().expect("a row a specialization")
}

fn assert_all_right(app: &Value, source: &str) {
    let rows = rows(app);
    assert!(rows.len() >= 6, "{}", rows.len());
    for row in rows {
        assert_eq!(row["source"], source, "{row}");
        let error = row["relative_error"].as_f64().unwrap_or_else(|| panic!("not run: {row}"));
        assert!(error < 1e-2, "{row}");
    }
}

fn counts(app: &Value) -> (u64, u64, u64, u64) {
    let count = |name: &str| app["shader_counts"][name].as_u64().expect("a counter");
    (count("embedded"), count("disk"), count("lowered"), count("front_end_calls"))
}

#[test]
fn every_shader_is_embedded_and_computes_right_and_nothing_is_parsed() {
    let cache = scratch();
    for _ in 0..2 {
        let app = shaders(cache.path()).ok().json();
        assert!(app["adapter"].is_string(), "no Vulkan device: install mesa-vulkan-drivers");
        assert_all_right(&app, "embedded");
        let (embedded, disk, lowered, front_end_calls) = counts(&app);
        assert!(embedded >= 4);
        assert_eq!((disk, lowered, front_end_calls), (0, 0, 0));
    }
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0, "the cache was written");
}

#[test]
fn without_the_bundle_the_first_process_lowers_and_the_second_reads_the_disk() {
    let cache = scratch();
    let run = || shaders(cache.path()).arguments(["--no-bundle"]).ok().json();
    let first = run();
    assert_all_right(&first, "lowered");
    let (_, _, lowered, front_end_calls) = counts(&first);
    assert_eq!(lowered, front_end_calls);
    let second = run();
    assert_all_right(&second, "disk");
    assert_eq!(counts(&second), (0, lowered, 0, 0));
}

#[test]
fn without_subgroups_the_other_prefix_sum_is_used() {
    let cache = scratch();
    let paths = |app: &Value| -> Vec<String> {
        rows(app).iter().map(|row| row["path"].as_str().unwrap().to_owned()).collect()
    };
    let with = shaders(cache.path()).ok().json();
    let without = shaders(cache.path()).arguments(["--no-subgroups"]).ok().json();
    assert_all_right(&without, "embedded");
    assert!(paths(&without).contains(&"shaders/prefix_sum.wgsl".to_owned()));
    assert!(!paths(&without).iter().any(|path| path.contains("subgroups")));
    assert!(paths(&with).iter().any(|path| path.contains("prefix_sum")));
}

#[test]
fn without_a_vulkan_device_modules_are_made_and_nothing_is_executed() {
    let cache = scratch();
    let printed = shaders(cache.path())
        .env("VK_ICD_FILENAMES", "/nonexistent")
        .env("VK_DRIVER_FILES", "/nonexistent")
        .ok();
    let app = printed.json();
    assert_eq!(app["adapter"], json!(null));
    assert!(rows(&app).len() >= 6);
    for row in rows(&app) {
        assert_eq!((&row["source"], &row["relative_error"]), (&json!("embedded"), &json!(null)));
    }
}

#[test]
fn the_scene_is_rendered_to_a_picture() {
    let (cache, out) = (scratch(), scratch());
    let png = out.path().join("scene.png");
    let _ = shaders(cache.path()).arguments(["--png", png.to_str().unwrap()]).ok();
    let bytes = std::fs::read(&png).unwrap();
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    // A picture of one colour is some hundred bytes.
    assert!(bytes.len() > 20_000, "{} bytes", bytes.len());
}
