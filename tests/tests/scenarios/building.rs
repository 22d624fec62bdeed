//! When cargo runs the build script, and what is in the bundle then.

use crate::{IN_MEMORY, with_toolkit};
use cutile_tests::{FakeToolkit, Fixture, toolkit_root, workspace_root};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

#[test]
fn s01_the_kernels_are_compiled_once_the_toolkit_is_there() {
    let probe = Fixture::elsewhere("probe", "s01");
    let bare = || probe.build().script_env("CUDA_TOOLKIT_PATH", None).script_env("CUDA_HOME", None);
    let said = bare().fails();
    assert!(said.contains("no CUDA toolkit with tileiras 13.3 or newer was found"), "{said}");
    assert!(said.contains("cargo cutile toolkit"), "{said}");
    // Nothing but this changes.
    fs::create_dir(probe.dir().join(".cutile")).unwrap();
    symlink(toolkit_root(), probe.dir().join(".cutile/toolkit")).unwrap();
    let built = bare().ok();
    assert_eq!(built.manifest().kernels().len(), 2);
}

#[test]
fn s01_a_skipped_build_says_so_and_the_next_one_compiles() {
    let probe = Fixture::new("probe", "s01-skip");
    let skipped = probe.build().env("CUTILE_BUILD", "skip").ok();
    assert_eq!(skipped.manifest().skipped(), Some("CUTILE_BUILD=skip is set"));
    let run = skipped.program().on("sm_90").arguments(["install"]).ok();
    assert!(run.stderr.contains("embeds nothing: CUTILE_BUILD=skip is set"), "{}", run.stderr);
    let built = probe.build().ok();
    assert_eq!(built.manifest().skipped(), None);
    assert_eq!(built.manifest().kernels().len(), 2);
}

#[test]
fn s02_targets_change_and_change_back() {
    let probe = Fixture::new("probe", "s02");
    let cache = cutile_tests::scratch();
    let build = |target: &str| {
        probe.cargo_toml(&[target], "");
        let built = probe.build().env("CUTILE_BUILD_CACHE", cache.path()).ok();
        assert_eq!(Vec::from_iter(built.manifest().image_targets()), [target]);
        let packs = fs::read_dir(built.bundle()).unwrap().map(|file| file.unwrap().file_name());
        let packs: Vec<_> =
            packs.filter(|name| name.to_string_lossy().starts_with("images-")).collect();
        assert_eq!(packs, [format!("images-{target}.pack").as_str()]);
        built.tileiras_runs()
    };
    assert_eq!(build("sm_90"), 2);
    assert_eq!(build("sm_100"), 2);
    assert_eq!(build("sm_90"), 0);
}

#[test]
fn s03_nothing_changed_and_no_script_runs() {
    let probe = Fixture::new("probe", "s03");
    assert!(probe.build().ok().script_ran());
    let again = probe.build().ok();
    assert!(!again.script_ran(), "{}", again.stderr);
    assert!(!again.stderr.contains("Compiling"), "{}", again.stderr);
}

#[test]
fn s04_a_comment_above_a_kernel() {
    let probe = Fixture::new("probe", "s04");
    probe.build().ok();
    probe.edit(
        "src/kernels.rs",
        "    #[cutile::entry()]\n    pub fn square",
        "    // A comment.\n\n    #[cutile::entry()]\n    pub fn square",
    );
    let run = probe.build().ok().program().on("sm_90").arguments(["install", "square"]).ok();
    assert_eq!(run.line("1:square"), IN_MEMORY);
}

#[test]
fn s06_the_path_has_a_space_and_a_letter() {
    let probe = Fixture::in_folder("s06 mit Ümlaut", "probe", "s06");
    let run = probe.build().ok().program().on("sm_90").arguments(["install", "double"]).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
}

#[test]
fn s06_the_path_has_a_byte_that_is_not_utf_8() {
    let folder = OsStr::from_bytes(b"s06-caf\xe9");
    let probe = Fixture::in_folder(folder, "probe", "s06-bytes");
    // With `--message-format=json` cargo itself panics, as JSON cannot hold the path.
    let said = probe.build().without_messages().fails();
    let ours = said.lines().filter(|line| line.contains("is not UTF-8")).collect::<Vec<_>>();
    let [ours] = ours[..] else { panic!("{said}") };
    let ours = ours.trim();
    assert!(ours.starts_with("the path of the crate is not UTF-8, which Cargo's"), "{ours}");
    assert!(ours.ends_with("Rename or move the folder"), "{ours}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn s07_the_toolkit_of_another_version_is_first_in_path() {
    let probe = Fixture::new("probe", "s07");
    let (other, cache) = (FakeToolkit::new(), cutile_tests::scratch());
    other.set(&[("", cutile_tests::Fault::Fails)]);
    let path = format!("{}:/usr/bin:/bin", other.root().join("bin").display());
    let built = probe
        .build()
        .env("CUTILE_BUILD_CACHE", cache.path())
        .script_env("PATH", Some(path.as_ref()))
        .script_env("CUDA_HOME", Some(other.root().as_os_str()))
        .ok();
    assert_eq!(built.tileiras_runs(), 2);
    assert!(other.calls().is_empty(), "{:?}", other.calls());
    let plain = Fixture::new("probe", "s07-plain").build().ok();
    let images = |built: &cutile_tests::Built| -> Vec<serde_json::Value> {
        let manifest = built.manifest();
        manifest.kernels().iter().map(|k| k["images"]["sm_90"]["bytes"].clone()).collect()
    };
    assert_eq!(images(&built), images(&plain));
}

/// As an editor or docs.rs builds a crate with kernels and shaders: no toolkit, no libclang.
#[test]
fn s11_the_crate_builds_with_its_cuda_feature_off_where_nothing_of_cuda_is() {
    let krate = Fixture::new("probe", "s11");
    let manifest = fs::read_to_string(krate.dir().join("Cargo.toml")).unwrap();
    let manifest = manifest
        .replace("cutile = \"=0.5.0\"", "cutile = { version = \"=0.5.0\", optional = true }")
        .replace("features = [\"cuda\"] }", "default-features = false, features = [\"wgsl\"] }")
        .replace("targets = ", "shaders = [\"shaders/*.wgsl\"]\ntargets = ");
    krate.write("shaders/nothing.wgsl", "@compute @workgroup_size(1) fn main() {}\n");
    let features = "[features]\ndefault = [\"cuda\"]\n\
                    cuda = [\"dep:cutile\", \"cutile-embed/cuda\", \"cutile-build/cuda\"]\n\n\
                    [dependencies]\n";
    krate.write("Cargo.toml", &manifest.replacen("[dependencies]\n", features, 1));
    krate.write(
        "build.rs",
        "#[cfg(feature = \"cuda\")]\n#[path = \"src/kernels.rs\"]\nmod kernels;\n\n\
         fn main() {\n    let builder = cutile_build::Builder::from_metadata();\n    \
         #[cfg(feature = \"cuda\")]\n    \
         let builder = builder.warmup(\"probe\", kernels::warmup);\n    builder.build();\n}\n",
    );
    krate.write(
        "src/main.rs",
        "#[cfg(feature = \"cuda\")]\nmod kernels;\n\ncutile_embed::embed!();\n\n\
         fn main() {\n    println!(\"bundles {}\", cutile_embed::bundles().len());\n}\n",
    );
    let built = krate
        .build()
        .argument("--no-default-features")
        .env("CUDA_TOOLKIT_PATH", "/nonexistent")
        .env("LIBCLANG_PATH", "/nonexistent")
        .ok();
    for absent in ["cuda-bindings", "cutile v0.5", "cutile-compiler"] {
        assert!(!built.stderr.contains(absent), "{absent} is built:\n{}", built.stderr);
    }
    assert_eq!(built.program().bare().ok().line("bundles"), "1");
}

#[test]
fn s11_docs_rs_gets_an_empty_bundle_that_says_so() {
    let probe = Fixture::new("probe", "s11-docs");
    let built = probe
        .build()
        .script_env("DOCS_RS", Some("1".as_ref()))
        .script_env("CUDA_TOOLKIT_PATH", None)
        .ok();
    assert_eq!(built.manifest().skipped(), Some("DOCS_RS is set: docs.rs has no CUDA toolkit"));
    let run = built.program().on("sm_90").arguments(["install", "must-double"]).ok();
    let why = "s11-docs 0.1.0 embeds nothing: DOCS_RS is set: docs.rs has no CUDA toolkit";
    assert!(run.line("1:must-double").ends_with(why), "{}", run.stdout);
}

/// Vendored as `cargo vendor` does it: a folder of sources with checksums that stands for a
/// repository nobody can reach.
#[test]
fn s14_a_vendored_crate_is_built_offline_locked_and_frozen() {
    let root = workspace_root().display();
    let program = Fixture::elsewhere("probe", "s14");
    let vendored = program.dir().join("vendor/s14-library");
    let library = Fixture::in_folder(vendored, "probe", "s14-library");
    let repository = "https://kernels.invalid/library";
    program.cargo_toml(
        &["sm_90"],
        &format!("s14-library = {{ git = \"{repository}\", rev = \"1.0\" }}\n"),
    );
    // What a release names by version is here by path.
    program.edit(
        "Cargo.toml",
        "[workspace]\n",
        &format!(
            "[workspace]\n\n[patch.crates-io]\n\
             cutile-embed = {{ path = \"{root}/cutile-embed\" }}\n\
             cutile-build = {{ path = \"{root}/cutile-build\" }}\n"
        ),
    );
    for krate in ["embed", "build"] {
        let path = format!("path = \"{root}/cutile-{krate}\"");
        library.edit("Cargo.toml", &path, "version = \"0.1\"");
    }
    library.edit("Cargo.toml", "[workspace]\n", "");
    fs::remove_file(library.dir().join("Cargo.lock")).unwrap();
    fs::remove_file(library.dir().join("src/main.rs")).unwrap();
    let text = fs::read_to_string(library.dir().join("src/kernels.rs")).unwrap();
    let text = text.replace("pub mod small", "pub mod little").replace("small::", "little::");
    library.write("src/kernels.rs", &text);
    library.write("src/lib.rs", "pub mod kernels;\ncutile_embed::embed!();\n");
    library.write(".cargo-checksum.json", "{\"files\": {}, \"package\": null}");
    program.write(
        ".cargo/config.toml",
        &format!(
            "[source.\"git+{repository}?rev=1.0\"]\ngit = \"{repository}\"\nrev = \"1.0\"\n\
             replace-with = \"vendored\"\n\n[source.vendored]\ndirectory = \"vendor\"\n"
        ),
    );
    program.edit(
        "src/main.rs",
        "use kernels::small;",
        "use kernels::small;\nuse s14_library::kernels::little;",
    );
    program.edit("src/main.rs", "small::square(", "little::square(");
    let files = || -> BTreeMap<PathBuf, Vec<u8>> { read_all(library.dir()) };
    let before = files();
    lock(&program, &library, &format!("git+{repository}?rev=1.0#{}", "0".repeat(40)));
    let lock = fs::read(program.dir().join("Cargo.lock")).unwrap();
    let built = program.build().argument("--locked").argument("--frozen").ok();
    assert!(files() == before, "a build writes into the vendored crate");
    assert!(fs::read(program.dir().join("Cargo.lock")).unwrap() == lock);
    let steps = ["install", "double", "square", "bundles"];
    let run = built.program().on("sm_90").arguments(steps).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
    assert_eq!(run.line("2:square"), IN_MEMORY);
    assert!(run.line("3:bundles").contains("s14-library"), "{}", run.stdout);
}

/// Writes the lock file as whoever could reach the repository has it: of a resolution by path, with
/// the source of the library in it.
fn lock(program: &Fixture, library: &Fixture, source: &str) {
    let manifest = fs::read_to_string(program.dir().join("Cargo.toml")).unwrap();
    let at = manifest.find(&format!("{} = {{ git", library.name())).unwrap();
    let end = at + manifest[at..].find('\n').unwrap();
    let by_path = format!("{} = {{ path = \"{}\" }}", library.name(), library.dir().display());
    let manifest_by_path = format!("{}{by_path}{}", &manifest[..at], &manifest[end..]);
    program.write("Cargo.toml", &manifest_by_path);
    let resolved = std::process::Command::new("cargo")
        .args(["metadata", "--offline", "--format-version=1"])
        .current_dir(program.dir())
        .output()
        .unwrap();
    assert!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr));
    program.write("Cargo.toml", &manifest);
    let name = format!("name = \"{}\"\nversion = \"0.1.0\"\n", library.name());
    program.edit("Cargo.lock", &name, &format!("{name}source = \"{source}\"\n"));
}

/// Path to bytes of every file below a folder.
fn read_all(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => read_all(&path),
            false => BTreeMap::from([(path.clone(), fs::read(&path).unwrap())]),
        })
        .collect()
}

#[test]
fn s12_a_driver_on_the_build_host_does_not_count() {
    let probe = Fixture::new("probe", "s12");
    let plain = probe.build().ok();
    let read = |built: &cutile_tests::Built| {
        let mut files: Vec<_> = fs::read_dir(built.bundle())
            .unwrap()
            .map(|file| file.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = read(&plain);
    // A host with a GPU of another architecture, first in the library path.
    probe.edit("build.rs", "//! Compiles two small", "//!  Compiles two small");
    let driver = cutile_tests::virtual_gpu().library_dir();
    let built =
        probe.build().env("LD_LIBRARY_PATH", driver).env("CUTILE_VIRTUAL_GPU", "sm_120").ok();
    assert!(built.script_ran());
    assert!(read(&built) == before, "the bundle differs");
}

/// A copy of cutile 0.5.0 that says it is 0.6.0, for `[patch]`: there is no second version that
/// kernels compile with. What it links below itself is the same, so only itself is compiled anew.
fn cutile_0_6(krate: &Fixture) {
    let output = std::process::Command::new("cargo")
        .args(["metadata", "--offline", "--format-version=1"])
        .current_dir(workspace_root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let cutile = packages.iter().find(|package| package["name"] == "cutile").unwrap();
    let manifest = Path::new(cutile["manifest_path"].as_str().unwrap());
    let text = fs::read_to_string(manifest).unwrap();
    // Without the tests and examples that it lists.
    let start = text.find("[dependencies.").unwrap();
    let end = text.find("[dev-dependencies.").unwrap();
    let package = "[package]\nname = \"cutile\"\nversion = \"0.6.0\"\nedition = \"2021\"\n\n\
                   [features]\nexperimental-tune = []\n\n";
    krate.write("cutile/Cargo.toml", &format!("{package}{}", &text[start..end]));
    cutile_tests::copy(&manifest.with_file_name("src"), &krate.dir().join("cutile/src"));
}

#[test]
fn s16_two_versions_of_cutile_stop_the_build() {
    let probe = Fixture::new("probe", "s16");
    cutile_0_6(&probe);
    let plain = fs::read_to_string(probe.dir().join("Cargo.toml")).unwrap();
    let said = |dependencies: &str, build_dependencies: &str| {
        let asks = |requirement: &str| format!("cutile = \"{requirement}\"\n");
        let [before, between, after] = plain.split(&asks("=0.5.0")).collect::<Vec<_>>()[..] else {
            panic!("two tables ask for cutile in\n{plain}")
        };
        let (first, second) = (asks(dependencies), asks(build_dependencies));
        let patch = "\n[patch.crates-io]\ncutile = { path = \"cutile\" }\n";
        probe.write("Cargo.toml", &format!("{before}{first}{between}{second}{after}{patch}"));
        let said = probe.build().fails();
        let ours = said.lines().filter(|line| line.contains("links cutile 0.5.0"));
        let ours: Vec<&str> = ours.map(str::trim).collect();
        let [ours] = ours[..] else { panic!("one sentence in\n{said}") };
        ours.to_owned()
    };
    let advice = "write cutile = \"0.5.0\" into [dependencies] and [build-dependencies]";
    assert_eq!(
        said("0.6", "0.6"),
        format!(
            "cutile-build links cutile 0.5.0, but [dependencies] asks for cutile ^0.6; {advice}"
        )
    );
    // The lock file keeps 0.6.0 for it, and 0.5.0 would do: no manifest shows that.
    assert_eq!(
        said(">=0.5", ">=0.5"),
        format!(
            "cutile-build links cutile 0.5.0, but the warm-ups launch kernels of another cutile \
             (`cargo tree -i cutile` lists them); {advice}"
        )
    );
    assert_eq!(
        said("=0.5.0", "0.6"),
        format!(
            "cutile-build links cutile 0.5.0, but [build-dependencies] asks for cutile ^0.6; \
             {advice}"
        )
    );
}

#[test]
fn s17_memory_caps_how_many_tileiras_run_at_once() {
    let probe = Fixture::new("probe", "s17");
    let (toolkit, cache) = (FakeToolkit::new(), cutile_tests::scratch());
    let build = probe
        .build()
        .env("CUTILE_BUILD_CACHE", cache.path())
        .env("CUTILE_BUILD_JOBS", "16")
        .env("CUTILE_BUILD_MEMORY", "1G");
    assert_eq!(with_toolkit(build, &toolkit).ok().tileiras_runs(), 2);
    assert_eq!(toolkit.most_at_once(), 1);
}
