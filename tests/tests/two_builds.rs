//! Two runs of cargo at one time, on one build cache.

use cutile_tests::{Build, Built, FakeToolkit, Fault, Fixture, linked_target_dir, scratch};
use std::fs;
use std::path::Path;

/// The probe, whose script does not compile before that of `other` is there too.
fn meeting(name: &str, other: &str, meet: &Path) -> Fixture {
    let fixture = Fixture::new("probe", name);
    let (own, other) = (meet.join(name), meet.join(other));
    fixture.edit(
        "build.rs",
        "fn main() {\n",
        &format!(
            "fn main() {{\n    std::fs::write({own:?}, \"\").unwrap();\n    \
             for _ in 0..60_000 {{\n        \
             if std::path::Path::new({other:?}).exists() {{\n            break;\n        }}\n        \
             std::thread::sleep(std::time::Duration::from_millis(10));\n    }}\n"
        ),
    );
    fixture
}

/// Cargo lets one build at a time into a target folder, so the second workspace has one of its own.
#[test]
fn s13_two_cargo_builds_that_share_the_build_cache_compile_each_job_once() {
    let (cache, meet, toolkit) = (scratch(), scratch(), FakeToolkit::new());
    // Long enough that each of them comes to a job that the other is at.
    toolkit.set(&[("", Fault::IsSlow)]);
    let one = meeting("s13-one", "s13-two", meet.path());
    let two = meeting("s13-two", "s13-one", meet.path());
    // All that both depend on is compiled before it is linked.
    Fixture::new("probe", "s13-before").build().ok();
    let second_target = linked_target_dir();
    let shared = |build: Build<'_>| -> Built {
        let root = toolkit.root().as_os_str();
        build
            .env("CUTILE_BUILD_CACHE", cache.path())
            .script_env("CUDA_TOOLKIT_PATH", Some(root))
            .ok()
    };
    let built = std::thread::scope(|scope| {
        let builds = [
            scope.spawn(|| shared(one.build())),
            scope.spawn(|| shared(two.build().target_dir(second_target.path()))),
        ];
        builds.map(|build| build.join().expect("a build"))
    });
    for name in ["s13-one", "s13-two"] {
        assert!(meet.path().join(name).exists(), "the script of {name} did not run");
    }
    let jobs = toolkit.calls();
    assert_eq!(jobs.len(), 2, "{jobs:#?}");
    let processes: usize = built.iter().map(Built::tileiras_runs).sum();
    assert_eq!(processes, 2);
    // Each has all of it, whoever compiled it.
    let packs = built.each_ref().map(|built| fs::read(built.bundle().join("images-sm_90.pack")));
    let [first, second] = packs.map(|pack| pack.expect("images for sm_90"));
    assert!(!first.is_empty());
    for built in &built {
        let run = built.program().on("sm_90").arguments(["install", "double", "square"]).ok();
        for line in ["1:double", "2:square"] {
            assert_eq!(run.line(line), "jit=0 backend=0 stored=0 done");
        }
    }
    // The name of the package is in the pack, and as long.
    assert_eq!(first.len(), second.len());
}
