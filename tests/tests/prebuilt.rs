//! Bundles that are shipped with the sources: made by `cargo cutile prebuild`, and taken by builds
//! with and without toolkit. On virtual GPUs.

use cutile_tests::{FakeToolkit, Fixture, Printed, copy};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The crate with kernels that no build script can take in. Its own script has no cutile.
fn kernel_crate(folder: &str) -> Fixture {
    let fixture = Fixture::in_folder(folder, "prebuilt", "prebuilt-kernels");
    fixture.cargo_toml(&["sm_90", "sm_120"], "");
    fixture.edit(
        "Cargo.toml",
        "[build-dependencies]\ncutile = \"=0.5.0\"\n",
        "[build-dependencies]\n",
    );
    let text = fs::read_to_string(fixture.dir().join("Cargo.toml")).unwrap();
    let start = text.find("[build-dependencies]").unwrap();
    let end = text[start..].find("half").unwrap() + start;
    let ours = text[start..end].replace("features = [\"cuda\"]", "default-features = false");
    fixture.write("Cargo.toml", &format!("{}{ours}{}", &text[..start], &text[end..]));
    fixture
}

/// `cargo cutile prebuild` in a crate.
fn prebuild(fixture: &Fixture, arguments: &[&str]) -> Printed {
    fixture.cargo_cutile("prebuild", arguments)
}

/// For programs as the tests build them: their launches have full debug information.
const FULL: [&str; 2] = ["--debug-level", "full"];
const FULL_CHECK: [&str; 3] = ["--debug-level", "full", "--check"];

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let file = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

#[test]
fn s36_a_published_crate_brings_its_kernels_and_none_that_is_stale() {
    let fixture = kernel_crate("prebuilt");
    let folder = fixture.dir().join("prebuilt");

    // Before there is a bundle, the build says how to make one.
    let said = fixture.build().without_messages().fails();
    assert!(said.contains("cargo cutile prebuild"), "{said}");
    let said = prebuild(&fixture, &["--example", "warm"]);
    assert!(!said.success && said.stderr.contains("it has warmup"), "{}", said.stderr);

    let made = prebuild(&fixture, &FULL);
    assert!(made.success, "{}", made.stderr);
    let line = "3 specializations, 6 images for sm_90, sm_120";
    assert!(made.stdout.contains(line), "{}{}", made.stdout, made.stderr);
    let first = files(&folder);
    let names: Vec<&String> = first.keys().collect();
    assert_eq!(names, ["images-sm_120.pack", "images-sm_90.pack", "manifest.json"]);
    let manifest: Value = serde_json::from_slice(&first["manifest.json"]).unwrap();
    let modules = &manifest["kernels"][1]["modules"];
    assert_eq!(modules.as_array().map(Vec::len), Some(2), "kernel and helper: {modules}");
    let text = String::from_utf8_lossy(&first["manifest.json"]);
    assert!(!text.contains(fixture.dir().to_str().unwrap()), "a path of this machine is in it");

    // The same sources make the same bytes, and the check says so.
    let checked = prebuild(&fixture, &FULL_CHECK);
    assert!(checked.success && checked.stdout.contains("as the sources make it"), "{checked:?}");
    assert!(checked.stdout.contains("tileiras ran 0 times"), "{}", checked.stdout);

    // As a user has it: vendored at another path, in a program of his own.
    let user = Fixture::new("prebuilt", "prebuilt-user");
    for gone in ["src/lib.rs", "build.rs", "examples/warmup.rs"] {
        fs::remove_file(user.dir().join(gone)).unwrap();
    }
    user.cargo_toml(&["sm_90"], "prebuilt-kernels = { path = \"vendor/kernels\" }\n");
    copy(fixture.dir(), &user.dir().join("vendor/kernels"));
    user.edit("vendor/kernels/Cargo.toml", "[workspace]\n", "");
    let steps = ["sum", "product", "copy", "must-sum"];
    let built = user.build().ok();
    for gpu in ["sm_90", "sm_120"] {
        let printed = built.program().on(gpu).arguments(steps).ok();
        for step in steps {
            assert_eq!(printed.line(step), "compiled=0 done", "{gpu}: {}", printed.stderr);
        }
    }

    // The helper changes; the text of the kernels' own modules does not.
    user.edit("vendor/kernels/src/lib.rs", "        x + x\n", "        x + x + x\n");
    let built = user.build().ok();
    let printed = built.program().on("sm_90").arguments(steps).run();
    assert_eq!(printed.line("copy"), "compiled=0 done");
    for kernel in ["sums::sum<64>", "products::product<64>"] {
        let why =
            format!("{kernel} is not served: it is prebuilt, and crate::scaling changed since");
        assert!(printed.stderr.contains(&why), "{}", printed.stderr);
    }
    assert!(!printed.line("sum").ends_with("done"), "{}", printed.stdout);
    let said = printed.line("must-sum");
    assert!(said.contains("it is left out: it is prebuilt, and crate::scaling changed"), "{said}");
    assert!(said.contains("cargo cutile prebuild -p prebuilt-kernels"), "{said}");

    // The author's check sees it as well.
    fixture.edit("src/lib.rs", "        x + x\n", "        x + x + x\n");
    let checked = prebuild(&fixture, &FULL_CHECK);
    assert!(
        !checked.success && checked.stderr.contains("images-sm_90.pack differs"),
        "{checked:?}"
    );
    assert_eq!(files(&folder), first, "a check writes nothing");
}

#[test]
fn a_prebuilt_bundle_that_is_damaged_or_another_crates_stops_the_build() {
    let fixture = kernel_crate("prebuilt-damaged");
    // A developer's profile has another debug level than what is made by default. Build and report
    // say so, and the program goes on without.
    let made = prebuild(&fixture, &[]);
    assert!(made.success, "{}", made.stderr);
    let built = fixture.build().ok();
    assert!(built.stderr.contains("CUDA_RUST_DEBUG = \"none\""), "{}", built.stderr);
    let printed = built.program().on("sm_90").arguments(["must-sum"]).ok();
    assert!(printed.stderr.contains("set CUDA_RUST_DEBUG to none"), "{}", printed.stderr);
    assert!(printed.line("must-sum").contains("set CUDA_RUST_DEBUG"), "{}", printed.stdout);

    let made = prebuild(&fixture, &FULL);
    assert!(made.success, "{}", made.stderr);
    let folder = fixture.dir().join("prebuilt");
    let good = files(&folder);
    let fails_with = |name: &str, bytes: &[u8], what: &str| {
        fs::write(folder.join(name), bytes).unwrap();
        let said = fixture.build().without_messages().fails();
        assert!(said.contains(what), "{name}: {said}");
        assert!(said.contains("CUTILE_BUILD_PREBUILT=ignore"), "{name}: {said}");
        fs::write(folder.join(name), &good[name]).unwrap();
    };
    let pack = &good["images-sm_90.pack"];
    let mut flipped = pack.clone();
    let middle = pack.len() / 2;
    flipped[middle] ^= 1;
    fails_with("images-sm_90.pack", &flipped, " for sm_90: ");
    fails_with("images-sm_90.pack", &pack[..pack.len() - 1], "images-sm_90.pack: ");
    fails_with("images-sm_90.pack", &good["images-sm_120.pack"], " for sm_90: ");
    let manifest = String::from_utf8(good["manifest.json"].clone()).unwrap();
    let edited = |from: &str, to: &str| manifest.replacen(from, to, 1).into_bytes();
    let package = edited("\"prebuilt-kernels\"", "\"another\"");
    fails_with("manifest.json", &package, "it is that of the package another");
    fails_with("manifest.json", &edited("\"schema\": 1", "\"schema\": 9"), "has schema 9");
    let cutile = edited("\"cutile\": \"0.5.0\"", "\"cutile\": \"0.4.0\"");
    fails_with("manifest.json", &cutile, "cutile 0.4.0 made it");
    fails_with("manifest.json", b"{}", "is no manifest");
    // One that a build refuses can be made anew.
    fs::write(folder.join("manifest.json"), "{}").unwrap();
    let made = prebuild(&fixture, &FULL);
    assert!(made.success && files(&folder) == good, "{}", made.stderr);
    fails_with("manifest.json", &edited("\"sm_90\"", "\"../sm_90\""), "../sm_90");
    fixture.build().ok();

    let said = fixture.build().env("CUTILE_BUILD_PREBUILT", "ignore").without_messages().fails();
    assert!(said.contains("its kernels come from its prebuilt bundle only"), "{said}");
    // A target that the bundle lacks is a warning, and the others are there.
    let built = fixture.build().env("CUTILE_BUILD_TARGETS", "sm_90,sm_100").ok();
    assert!(built.stderr.contains("nothing is embedded for sm_100"), "{}", built.stderr);
    let names: Vec<String> = files(&built.bundle()).into_keys().collect();
    assert_eq!(names, ["images-sm_90.pack", "index.bin", "manifest.json"]);
}

#[test]
fn a_script_with_kernels_compiles_what_is_stale() {
    let fixture = Fixture::elsewhere("probe", "prebuilt-both");
    // Cargo puts examples of all crates into one folder, so its name is of this test.
    // Its kernels by the same path as the script has them, since bytecode holds it.
    fixture.write("src/lib.rs", "//! Kernels.\npub mod kernels;\n");
    fixture.write(
        "examples/launches.rs",
        "//! The launches.\nfn main() {\n    eprintln!(\"{}\", cutile_embed::install());\n    \
         prebuilt_both::kernels::warmup().unwrap();\n}\n",
    );
    let made = prebuild(&fixture, &["--debug-level", "full", "--example", "launches"]);
    assert!(made.success && made.stdout.contains("2 specializations"), "{made:?}");

    let fresh = || fixture.build().env("CUTILE_BUILD_CACHE", "off");
    let built = fresh().ok();
    assert_eq!(built.tileiras_runs(), 0, "{}", built.script_output());
    let steps = ["install", "double", "square"];
    let hits = |built: &cutile_tests::Built| {
        let printed = built.program().on("sm_90").arguments(steps).ok();
        printed.line("0:install").contains("filled=2")
    };
    assert!(hits(&built));
    // Distributors build from the sources.
    let built = fresh().env("CUTILE_BUILD_PREBUILT", "ignore").ok();
    assert_eq!(built.tileiras_runs(), 2);
    // One kernel changes.
    fixture.edit("src/kernels.rs", "z.store(tile * tile);", "z.store(tile * tile * tile);");
    let built = fresh().ok();
    assert_eq!(built.tileiras_runs(), 1, "{}", built.script_output());
    let said = "1 of its images are stale, 1 are missing; run cargo cutile prebuild";
    assert!(built.stderr.contains(said), "{}", built.stderr);
    assert!(hits(&built));
    // Another toolkit makes other images: all are compiled, and nothing is called stale.
    let another = FakeToolkit::new();
    let ptxas = another.root().join("bin/ptxas");
    fs::remove_file(&ptxas).unwrap();
    fs::write(&ptxas, "#!/bin/sh\necho 'ptxas: another one'\n").unwrap();
    fs::set_permissions(&ptxas, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let root = another.root().as_os_str();
    let built = fresh().script_env("CUDA_TOOLKIT_PATH", Some(root)).ok();
    assert_eq!(built.tileiras_runs(), 2);
    assert!(!built.stderr.contains("stale"), "{}", built.stderr);
    // Without a toolkit nothing of a module that changed is served, and all of it is named.
    let built = fresh().script_env("CUDA_TOOLKIT_PATH", None).script_env("CUDA_HOME", None).ok();
    assert!(built.script_output().contains("prebuilt"), "{}", built.script_output());
    let printed = built.program().on("sm_90").arguments(steps).run();
    for kernel in ["double", "square"] {
        let why =
            format!("small::{kernel}<64> is not served: it is prebuilt, and crate::kernels::small");
        assert!(printed.stderr.contains(&why), "{}", printed.stderr);
    }
}
