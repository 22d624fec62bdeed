//! What is edited, or set in the environment, is what is served.

use crate::{IN_MEMORY, probe};
use cutile_tests::{Build, Fixture, toolkit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the manifest says of device code at the level that a launch has by default.
fn optimized(lineinfo: bool) -> Value {
    json!({"Optimized": {"level": 3, "lineinfo": lineinfo}})
}

/// Builds the probe, expects this level of device code in its bundle, and launches it.
fn probe_hits_at(codegen: &Value, build: Build<'_>) {
    let built = build.ok();
    assert_eq!(built.manifest().0["codegen"], *codegen);
    let run = built.program().on("sm_90").arguments(["install", "double", "square"]).ok();
    for line in ["1:double", "2:square"] {
        assert_eq!(run.line(line), IN_MEMORY);
    }
}

/// The same for example-app, in the release profile: the first command of the README has compiled
/// it. A fixture would not share all of that, as it does in the dev profile.
fn app_hits_at(codegen: &Value, build: Build<'_>) {
    let built = build.argument("--release").ok();
    assert_eq!(built.manifest().0["codegen"], *codegen);
    let app = built.program().on("sm_90").arguments(["--json"]).ok().json();
    assert_eq!(app["compiled_at_run_time"], 0);
    let launches = app["launches"].as_array().unwrap();
    assert!(!launches.is_empty());
    for launch in launches {
        assert_eq!(launch["source"], "embedded", "{launch}");
    }
}

fn app() -> Build<'static> {
    Build::of_workspace("example-app")
}

/// The host's code of these is not optimized: what is compiled anew takes a third of the time, and
/// how fast it runs is no part of a test.
fn not_optimized<'f>(build: Build<'f>, packages: &[&str]) -> Build<'f> {
    packages.iter().fold(build, |build, package| {
        build.profile(&format!("release.package.{package}.opt-level=0"))
    })
}

#[test]
fn s05_the_launch_hits_in_the_dev_profile() {
    let fixture = Fixture::new("probe", "s05");
    probe_hits_at(&json!("Debug"), fixture.build());
}

#[test]
fn s05_every_launch_hits_in_the_release_profile() {
    app_hits_at(&optimized(false), app());
}

/// What decides is the `debug` of cutile-compiler. It is set for two crates and not for all, so
/// that only what depends on that one is compiled anew.
#[test]
fn s05_every_launch_hits_in_the_release_profile_with_debug_1() {
    let build = ["example-app", "cutile-compiler"]
        .iter()
        .fold(app(), |build, package| build.profile(&format!("release.package.{package}.debug=1")));
    let anew = ["cutile-compiler", "cutile-macro", "cutile", "cutile-embed", "cutile-build"];
    app_hits_at(&json!("Debug"), not_optimized(not_optimized(build, &anew), &["example-app"]));
}

/// cutile-compiler's build script reads the variable, so everything above it is compiled anew: in
/// a place of its own, by a profile of its own, or the next test would do so once more.
#[test]
fn s05_the_launch_hits_with_cuda_rust_debug_line() {
    let fixture = Fixture::new("probe", "s05-line");
    let build = fixture.build().profile("dev.package.cutile-compiler.debug=2");
    probe_hits_at(&optimized(true), build.env("CUDA_RUST_DEBUG", "line"));
}

/// In a release profile that does not keep it from that, cargo compiles cutile twice, and `debug`
/// counts for the program's alone. Then the build script's own cutile has another level than the
/// program's, and that must not show. Here the program is not linked anew; what tells the script of
/// the program's level is the `debug` of its crate.
#[test]
fn s05_the_level_of_the_build_scripts_own_cutile_does_not_show() {
    let fixture = Fixture::new("probe", "s05-apart");
    let files = |of_program: Option<&str>, of_script: Option<&str>| {
        let mut build = fixture.build();
        for (package, debug) in [("s05-apart", of_program), ("cutile-compiler", of_script)] {
            if let Some(debug) = debug {
                build = build.profile(&format!("dev.package.{package}.debug={debug}"));
            }
        }
        let files = std::fs::read_dir(build.ok().bundle()).unwrap().map(|file| {
            let path = file.unwrap().path();
            (path.file_name().unwrap().to_owned(), std::fs::read(path).unwrap())
        });
        files.collect::<BTreeMap<_, _>>()
    };
    let (full, none) = (files(None, None), files(Some("0"), Some("0")));
    assert!(full != none);
    assert!(files(None, Some("0")) == full);
    assert!(files(Some("0"), None) == none);
}

#[test]
fn s36_a_helper_in_another_module_is_edited() {
    let probe = Fixture::new("probe", "s36");
    let images = |built: &cutile_tests::Built| -> Vec<(String, String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let manifest = built.manifest();
        let kernels = manifest.kernels().iter();
        kernels
            .map(|kernel| {
                let image = &kernel["images"]["sm_90"];
                (text(&kernel["function"]), text(&kernel["source_hash"]), text(&image["sha256"]))
            })
            .collect()
    };
    let before = images(&probe.build().ok());
    probe.edit("src/kernels.rs", "        x + x\n", "        x + x + x\n");
    let built = probe.build().ok();
    let after = images(&built);
    let of = |all: &[(String, String, String)], name: &str| {
        all.iter().find(|row| row.0 == name).cloned().expect("a kernel")
    };
    let (old, new) = (of(&before, "double"), of(&after, "double"));
    assert_eq!(old.1, new.1, "upstream's source hash does not see it");
    assert_ne!(old.2, new.2, "the image does");
    assert_eq!(of(&before, "square").1, of(&after, "square").1);
    let run = built.program().on("sm_90").arguments(["install", "double"]).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
}

const OVERRIDES: [(&str, &str); 6] = [
    ("CUTILE_JIT_DEBUG", "line"),
    ("CUTILE_JIT_OPT_LEVEL", "1"),
    ("CUTILE_JIT_SANITIZE", "memcheck"),
    ("CUTILE_BYTECODE_VERSION", "13.3"),
    ("CUTILE_FORCE_DEVICE_CHECKS", "1"),
    ("CUTILE_DISABLE_CHECK_HOISTING", "1"),
];

#[test]
fn s37_an_override_during_the_build_is_refused() {
    let fixture = Fixture::new("probe", "s37");
    // All of them, so that one that is added is tried.
    assert_eq!(OVERRIDES.map(|(name, _)| name), cutile_build::environment::FORBIDDEN);
    for (name, value) in OVERRIDES {
        let said = fixture.build().env(name, value).fails();
        assert!(said.contains(&format!("{name}={value:?} cannot be used")), "{said}");
        assert!(said.contains("CUTILE_BUILD_ALLOW_ENV=1"), "{said}");
    }
    fixture.build().ok();
}

#[test]
fn s37_an_override_at_run_time_switches_filling_off() {
    for (name, value) in OVERRIDES {
        let cache = cutile_tests::scratch();
        let run = probe()
            .program()
            .on("sm_90")
            .env(name, value)
            .env("CUTILE_TILEIRAS_PATH", toolkit().tileiras.as_os_str())
            .env("XDG_CACHE_HOME", cache.path())
            .arguments(["install", "must-double"])
            .ok();
        assert!(run.line("0:install").contains("filled=0"), "{name}: {}", run.stdout);
        assert!(run.stderr.contains(&format!("{name} set")), "{}", run.stderr);
        let why = format!("{name} set, which changes the code that cutile generates; unset to use");
        assert!(run.line("1:must-double").contains(&why), "{name}: {}", run.stdout);
    }
}

#[test]
fn s38_what_is_in_the_run_time_cache_is_not_embedded() {
    let fixture = Fixture::new("probe", "s38");
    let image = |built: &cutile_tests::Built, field: &str| -> Vec<String> {
        let manifest = built.manifest();
        let fields =
            manifest.kernels().iter().map(|kernel| kernel["images"]["sm_90"][field].clone());
        fields.map(|value| value.as_str().expect("a text").to_owned()).collect()
    };
    let good = fixture.build().ok();
    let (keys, digests) = (image(&good, "key"), image(&good, "sha256"));
    let home = cutile_tests::scratch();
    for key in &keys {
        let shard = home.path().join("cutile/kernels").join(&key[..2]);
        std::fs::create_dir_all(&shard).unwrap();
        std::fs::write(shard.join(format!("{key}.cubin")), "planted").unwrap();
    }
    let built =
        fixture.build().env("CUTILE_BUILD_CACHE", "").env("XDG_CACHE_HOME", home.path()).ok();
    assert_eq!(built.tileiras_runs(), 2);
    assert_eq!(image(&built, "sha256"), digests);
}

#[test]
fn s41_two_modules_of_one_text_that_call_other_helpers() {
    let fixture = Fixture::new("probe", "s41");
    let text = std::fs::read_to_string(fixture.dir().join("src/kernels.rs")).unwrap();
    let start = text.find("#[cutile::module]").unwrap();
    let end = text.find("/// The launches of the program.").unwrap();
    let modules = &text[start..end];
    let other = modules.replace("        x + x\n", "        x + x + x\n");
    fixture.write(
        "src/kernels.rs",
        &format!(
            "use cutile::api;\nuse cutile::error::Error;\nuse cutile::prelude::*;\n\n\
             pub mod one {{\n{modules}}}\n\npub mod two {{\n{other}}}\n\npub use one::small;\n\n\
             pub fn warmup() -> Result<(), Error> {{\n\
             let vector = || api::meta::<f32>(&[256]).sync();\n\
             one::small::double(vector()?.partition([64]), vector()?).compile()?;\n\
             Ok(())\n}}\n"
        ),
    );
    let built = fixture.build().ok();
    let steps = ["install", "double", "must-double"];
    let run = built.program().on("sm_90").arguments(steps).ok();
    assert!(run.line("0:install").contains("filled=0"), "{}", run.stdout);
    assert!(run.stderr.contains("small::double<64> is not served"), "{}", run.stderr);
    assert!(!run.line("1:error").is_empty());
    assert_eq!(
        run.line("2:must-double"),
        "small::double<64> is not embedded for sm_90: it is left out: s41::kernels::two::small has \
         the same text and calls other helpers, and cutile's key does not tell the two apart; \
         rename one of the modules"
    );
}

#[test]
fn s41_two_crates_with_a_module_and_a_kernel_of_one_name() {
    let program = Fixture::new("probe", "s41-two");
    program.cargo_toml(&["sm_90"], "s41-library = { path = \"library\" }\n");
    let library = Fixture::in_folder("s41-two/library", "probe", "s41-library");
    std::fs::remove_file(library.dir().join("src/main.rs")).unwrap();
    library.edit("Cargo.toml", "[workspace]\n", "");
    library.write("src/lib.rs", "pub mod kernels;\ncutile_embed::embed!();\n");
    program.edit(
        "src/main.rs",
        "use kernels::small;",
        "use kernels::small;\nuse s41_library as _;",
    );
    let steps = ["install", "double", "must-double"];
    // Each of the two is left out; the linker decides which is the first.
    let left_out = |whys: [&str; 2]| {
        let run = program.build().ok().program().on("sm_90").arguments(steps).ok();
        assert!(run.line("0:install").contains("filled=0"), "{}", run.stdout);
        for why in whys {
            let text = format!("small::double<64> is not served: {why}");
            assert!(run.stderr.contains(&text), "{}", run.stderr);
        }
        assert!(!run.line("1:error").is_empty());
        let said = run.line("2:must-double");
        let is_told = |why| {
            said == format!("small::double<64> is not embedded for sm_90: it is left out: {why}")
        };
        assert!(whys.into_iter().any(is_told), "{said}");
    };
    // The same text in both: the images differ in the paths that they name.
    let why = "two images are embedded under one key; rename one of the modules that declare it";
    left_out([why, why]);
    library.edit("src/kernels.rs", "        x + x\n", "        x + x + x\n");
    let why = "has the same text and calls other helpers, and cutile's key does not tell the two \
               apart; rename one of the modules";
    let of = |krate: &str| format!("{krate}::kernels::small {why}");
    left_out([&of("s41_library"), &of("s41_two")]);
}

#[test]
fn s36_a_helper_in_another_crate_is_edited() {
    let program = Fixture::new("probe", "s36-crate");
    program.cargo_toml(&["sm_90"], "s36-helpers = { path = \"helpers\" }\n");
    program.edit(
        "Cargo.toml",
        "[build-dependencies]\n",
        "[build-dependencies]\ns36-helpers = { path = \"helpers\" }\n",
    );
    let text = std::fs::read_to_string(program.dir().join("src/kernels.rs")).unwrap();
    let start = text.find("#[cutile::module]").unwrap();
    let end = start + 1 + text[start + 1..].find("#[cutile::module]").unwrap();
    program.write(
        "helpers/Cargo.toml",
        "[package]\nname = \"s36-helpers\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ncutile = \"=0.5.0\"\n",
    );
    program.write("helpers/src/lib.rs", &format!("//! A helper.\n\n{}", &text[start..end]));
    let kernels = text.replace(&text[start..end], "");
    program.write(
        "src/kernels.rs",
        &kernels.replace("super::shapes::twice", "s36_helpers::shapes::twice"),
    );
    let image = |built: &cutile_tests::Built| {
        let manifest = built.manifest();
        let double = manifest.kernels().iter().find(|kernel| kernel["function"] == "double");
        let double = double.expect("a kernel").clone();
        (double["source_hash"].clone(), double["images"]["sm_90"]["sha256"].clone())
    };
    let before = image(&program.build().ok());
    program.edit("helpers/src/lib.rs", "        x + x\n", "        x + x + x\n");
    let built = program.build().ok();
    let after = image(&built);
    assert_eq!(before.0, after.0, "upstream's source hash does not see it");
    assert_ne!(before.1, after.1, "the image does");
    let run = built.program().on("sm_90").arguments(["install", "double"]).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
}
