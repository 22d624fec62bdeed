//! The app of this workspace: what its binary does on machines that have a driver and nothing else.

use cutile_tests::{Build, Container, Printed, Program, toolkit, virtual_gpu};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

fn app() -> &'static Program {
    static APP: OnceLock<Result<Program, String>> = OnceLock::new();
    let build = || Ok(Build::of_workspace("example-app").try_ok()?.program().clone());
    APP.get_or_init(build).as_ref().unwrap_or_else(|what| panic!("{what}"))
}

fn json_on(gpus: &str, arguments: &[&str]) -> Value {
    app().on(gpus).arguments(["--json"]).arguments(arguments).ok().json()
}

fn sources(app: &Value) -> Vec<&str> {
    let launches = app["launches"].as_array().expect("a row a launch");
    launches.iter().map(|launch| launch["source"].as_str().expect("a source")).collect()
}

fn assert_all_embedded(app: &Value, target: &str) {
    assert_eq!(app["device"]["kind"], "virtual");
    assert_eq!(app["device"]["target"], target);
    assert_eq!(app["compiled_at_run_time"], 0);
    let sources = sources(app);
    assert!(sources.len() >= 14, "{}", sources.len());
    assert!(sources.iter().all(|source| *source == "embedded"), "{sources:?}");
}

#[test]
fn every_launch_is_embedded_on_each_target() {
    for target in ["sm_80", "sm_90", "sm_100", "sm_120"] {
        assert_all_embedded(&json_on(target, &[]), target);
    }
}

#[test]
fn every_launch_is_embedded_on_the_second_of_two_devices() {
    assert_all_embedded(&json_on("sm_80,sm_120", &["--device", "1"]), "sm_120");
}

#[test]
fn every_launch_is_embedded_on_two_devices_of_one_process() {
    for gpus in ["sm_80,sm_90", "sm_90,sm_90"] {
        let printed =
            app().on(gpus).arguments(["--json", "--kernels-only", "--device", "0,1"]).ok();
        let lines: Vec<Value> =
            printed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{}", printed.stdout);
        for (line, target) in lines.iter().zip(gpus.split(',')) {
            assert_all_embedded(line, target);
        }
    }
}

/// No home, shell, toolkit or other user's rights, and nothing that can be written.
#[test]
fn every_launch_is_embedded_on_a_machine_that_has_the_driver_and_the_app() {
    let printed = Container::new(app()).run("sm_90", &["--json"]);
    assert!(printed.success, "{}\n{}", printed.stdout, printed.stderr);
    assert_all_embedded(&printed.json(), "sm_90");
}

#[test]
fn a_target_that_is_not_embedded_is_told_with_those_that_are() {
    let printed = app().on("sm_89").arguments(["--json"]).run();
    assert!(!printed.success, "nothing can compile for it here");
    for target in ["sm_89", "sm_80", "sm_90", "sm_100", "sm_120"] {
        assert!(printed.stderr.contains(target), "{target}: {}", printed.stderr);
    }
}

#[test]
fn without_a_driver_it_says_so_and_ends_well() {
    let printed = app().bare().arguments(["--json"]).ok();
    let app = printed.json();
    assert_eq!(app["device"]["kind"], "none");
    assert_eq!(app["launches"], Value::Array(Vec::new()));
    assert_eq!(app["compiled_at_run_time"], 0);
    assert!(printed.stderr.contains("no NVIDIA driver"), "{}", printed.stderr);
}

#[test]
fn json_is_one_line_with_what_is_embedded() {
    let app = json_on("sm_90", &[]);
    assert_eq!(
        app["embedded"]["targets"],
        serde_json::json!(["sm_80", "sm_90", "sm_100", "sm_120"])
    );
    for count in ["kernels", "images", "bytes"] {
        assert!(app["embedded"][count].as_u64().expect(count) > 0);
    }
    for launch in app["launches"].as_array().expect("launches") {
        assert!(launch["kernel"].as_str().expect("kernel").contains("::"));
        assert!(launch["generics"].is_array());
        assert!(launch["first_launch_us"].as_f64().expect("a time") > 0.0);
        assert!(launch["relative_error"].is_null(), "a virtual GPU computes nothing");
    }
}

#[test]
fn the_table_fits_eighty_columns() {
    let table = app().on("sm_90").ok().stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

fn files(root: &Path) -> usize {
    let Ok(listing) = fs::read_dir(root) else { return 0 };
    let paths: Vec<_> = listing.map(|entry| entry.expect("an entry").path()).collect();
    paths
        .iter()
        .map(|path| match path.is_dir() {
            true => files(path),
            false => usize::from(path.extension().is_some_and(|extension| extension == "cubin")),
        })
        .sum()
}

/// The same toolkit on the machine as in the build: L1 off, then bundle off, twice.
#[test]
fn the_chain_goes_from_embedded_to_compiled_to_disk() {
    let cache = cutile_tests::scratch();
    let run = |flag: &str| -> Printed {
        app()
            .bare()
            .env("LD_LIBRARY_PATH", virtual_gpu().library_dir())
            .env("CUTILE_VIRTUAL_GPU", "sm_90")
            .env("CUTILE_TILEIRAS_PATH", toolkit().tileiras.as_os_str())
            .env("XDG_CACHE_HOME", cache.path())
            .arguments(["--json", "--kernels-only", flag])
            .ok()
    };
    let all = |app: &Value, source: &str| {
        let sources = sources(app);
        assert!(sources.iter().all(|other| *other == source), "{source}: {sources:?}");
    };

    let app = run("--no-l1").json();
    assert_eq!(app["compiled_at_run_time"], 0);
    all(&app, "embedded");
    assert_eq!(files(cache.path()), 0);

    let app = run("--no-bundle").json();
    let compiled = app["compiled_at_run_time"].as_u64().expect("a count");
    all(&app, "compiled");
    assert_eq!(compiled, sources(&app).len() as u64);
    assert_eq!(files(cache.path()) as u64, compiled);

    let app = run("--no-bundle").json();
    assert_eq!(app["compiled_at_run_time"], 0);
    all(&app, "disk");
    assert_eq!(files(cache.path()) as u64, compiled);
}
