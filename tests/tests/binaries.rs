//! `cargo cutile inspect`, `diff`, `verify`, `export` and `import` on programs that were built, and
//! on copies of them that were stripped or damaged.

use cutile_tests::{Build, Built, Fixture, Program, scratch, toolkit, virtual_gpu, workspace_root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const TARGETS: [&str; 4] = ["sm_80", "sm_90", "sm_100", "sm_120"];

/// The release build, which the first command of the README has made: the command, which is not
/// optimized here, reads it in a third of the time.
fn built() -> &'static Built {
    static APP: OnceLock<Result<Built, String>> = OnceLock::new();
    let build = || Build::of_workspace("example-app").argument("--release").try_ok();
    APP.get_or_init(build).as_ref().unwrap_or_else(|what| panic!("{what}"))
}

fn app() -> &'static Program {
    built().program()
}

/// What `cargo cutile` did.
#[derive(Debug)]
struct Called {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn cutile(arguments: &[&str], program: &Program) -> Called {
    cutile_with(arguments, &[program.path()], None)
}

/// The command with paths behind its arguments, and a cache folder of its own for `import`.
fn cutile_with(arguments: &[&str], paths: &[&Path], cache: Option<&Path>) -> Called {
    let mut command = command(arguments);
    command.args(paths);
    if let Some(cache) = cache {
        command.env("XDG_CACHE_HOME", cache);
    }
    call(command)
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("cutile").args(arguments).current_dir(workspace_root());
    command
}

fn call(mut command: Command) -> Called {
    let output = command.output().expect("cargo runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Called { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Called {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        for line in self.stdout.lines().filter(|_| !self.stdout.starts_with('{')) {
            // Paths of the test's own are as long as they are.
            assert!(line.chars().count() <= 80 || line.contains("/cutile-tests-"), "{line}");
        }
        self
    }

    #[track_caller]
    fn says(self, text: &str) -> Self {
        // Lines are broken where the width asks for it.
        let said = format!("{} {}", self.stdout, self.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(text), "{text:?} is not in {said}");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("JSON")
    }
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().expect("a number")).expect("a number of bytes")
}

/// The one bundle that `inspect --json` finds.
fn inspected(program: &Program) -> Value {
    let found = cutile(&["inspect", "--json"], program).expect(0).json();
    let [bundle] = &found["bundles"].as_array().expect("bundles")[..] else { panic!("{found}") };
    bundle.clone()
}

/// An image of a kernel that shares it with no other: `(kernel, offset)`. No image is so small that
/// 100 bytes behind its start is another.
fn image(bundle: &Value, kernel: &str, target: &str) -> (String, usize) {
    let kernels = bundle["kernels"].as_array().expect("kernels");
    let kernel = kernels.iter().find(|row| row["kernel"].as_str().unwrap().starts_with(kernel));
    let kernel = kernel.expect("the kernel");
    let images = kernel["images"].as_array().expect("images");
    let image = images.iter().find(|image| image["target"] == target).expect("an image");
    let name = kernel["kernel"].as_str().unwrap().to_owned();
    (name, number(&image["offset"]))
}

#[test]
fn inspect_shows_every_kernel_target_and_shader() {
    let table = cutile(&["inspect"], app()).expect(0);
    let bundle = inspected(app());
    assert_eq!(bundle["package"], "example-app");
    let manifest = built().manifest();
    let kernels = bundle["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), manifest.kernels().len());
    for kernel in kernels {
        let targets: Vec<&str> = kernel["images"]
            .as_array()
            .unwrap()
            .iter()
            .map(|image| image["target"].as_str().unwrap())
            .collect();
        assert_eq!(targets, TARGETS, "{kernel}");
        assert!(table.stdout.contains(kernel["kernel"].as_str().unwrap()), "{}", table.stdout);
    }
    let shaders = bundle["shaders"].as_array().unwrap();
    assert_eq!(shaders.len(), manifest.0["shaders"].as_array().unwrap().len());
    for shader in shaders {
        assert!(table.stdout.contains(shader["path"].as_str().unwrap()), "{}", table.stdout);
    }
    for target in bundle["targets"].as_array().unwrap() {
        assert_eq!(number(&target["kernels"]), kernels.len());
    }
    cutile(&["verify"], app()).expect(0).says("all holds");
}

#[test]
fn a_stripped_release_binary_has_all_of_it() {
    let whole = app();
    let stripped = whole.changed(|_| {});
    let done = Command::new("strip").arg(stripped.path()).status().expect("strip runs");
    assert!(done.success());
    let size = |program: &Program| fs::metadata(program.path()).unwrap().len();
    assert!(size(&stripped) < size(whole));
    cutile(&["verify"], &stripped).expect(0).says("all holds");
    // The same keys, whatever the places.
    let keys = |program| -> BTreeSet<String> {
        let bundle = inspected(program);
        let kernels = bundle["kernels"].as_array().unwrap().clone();
        let images = kernels.iter().flat_map(|kernel| kernel["images"].as_array().unwrap().clone());
        images.map(|image| image["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&stripped), keys(whole));
    cutile_with(&["diff"], &[whole.path(), stripped.path()], None).expect(0);
    let run = stripped.on("sm_90").arguments(["--json", "--kernels-only"]).ok().json();
    assert_eq!(run["compiled_at_run_time"], 0);
}

#[test]
fn verify_names_the_kernel_of_a_flipped_byte() {
    let (kernel, offset) = image(&inspected(app()), "attention::flash_attention", "sm_100");
    let damaged = app().changed(|program| program[offset + 100] ^= 1);
    cutile(&["verify"], &damaged)
        .expect(1)
        .says("1 problem")
        .says(&format!("{kernel} for sm_100, at {offset:#x}"));
    let found = cutile(&["verify", "--json"], &damaged).expect(1).json();
    assert_eq!(found["ok"], false);
    let [problem] = &found["problems"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!(
        (&problem["kernel"], &problem["target"]),
        (&kernel.as_str().into(), &"sm_100".into())
    );
    // The program serves the others.
    let other = damaged.on("sm_90").arguments(["--json", "--kernels-only"]).ok().json();
    assert_eq!(other["compiled_at_run_time"], 0);
    let run = damaged.on("sm_100").arguments(["--json", "--kernels-only"]).run();
    assert!(run.stderr.contains(&format!("{kernel} for sm_100: ")), "{}", run.stderr);
    cutile_with(&["export"], &[damaged.path(), &scratch().path().join("seed")], None)
        .expect(1)
        .says("nothing was written")
        .says(&kernel);
}

#[test]
fn verify_and_the_program_tell_of_a_flipped_byte_in_the_index() {
    let index = inspected(app())["index"].clone();
    let (offset, bytes) = (number(&index["offset"]), number(&index["bytes"]));
    let damaged = app().changed(|program| program[offset + bytes / 2] ^= 1);
    let why = "the index does not match its digest; build the crate again";
    cutile(&["verify"], &damaged).expect(1).says(why);
    cutile(&["inspect"], &damaged).expect(0).says(why);
    let run = damaged.on("sm_90").arguments(["--json", "--kernels-only"]).run();
    assert!(run.stderr.contains(why), "{}", run.stderr);
}

#[test]
fn verify_tells_that_a_file_is_cut_short_and_that_nothing_is_embedded() {
    let (_, offset) = image(&inspected(app()), "attention::flash_attention", "sm_100");
    let short = app().changed(|program| program.truncate(offset + 100));
    cutile(&["verify"], &short).expect(1).says("cut short");
    cutile(&["inspect"], &short).expect(0).says("cut short");
    let none = app().changed(|program| program.truncate(4096));
    cutile(&["verify"], &none).expect(2).says("nothing is embedded");
}

#[test]
fn doctor_tells_which_gpus_of_a_machine_a_binary_has_images_for() {
    let mut command = command(&["doctor"]);
    command
        .arg(app().path())
        .env("LD_LIBRARY_PATH", virtual_gpu().library_dir())
        .env("CUTILE_VIRTUAL_GPU", "sm_90,sm_89");
    call(command)
        .expect(0)
        .says("embedded example-app 0.1.0: ")
        .says("ok device 0 cuTile virtual GPU sm_90, sm_90: there are images for it")
        .says("warn device 1 cuTile virtual GPU sm_89, sm_89: there are no images for it")
        .says("add \"sm_89\" to `targets`");
}

#[test]
fn diff_tells_what_a_second_build_changed() {
    let fixture = Fixture::new("probe", "binaries-diff");
    let old = fixture.build().ok();
    fixture.cargo_toml(&["sm_90", "sm_100"], "");
    fixture.edit("src/kernels.rs", "tile * tile", "tile * tile * tile");
    let new = fixture.build().ok();
    let diff = |options: &[&str], a: &Built, b: &Built| {
        let options = [&["diff"], options].concat();
        cutile_with(&options, &[a.program().path(), b.program().path()], None)
    };
    diff(&[], &old, &old).expect(0);
    diff(&[], &old, &new).expect(1).says("small::square<64>").says("sm_100");
    let found = diff(&["--json"], &old, &new).expect(1).json();
    assert!(found.to_string().contains("small::double<64>"), "it has an image more: {found}");
}

/// Key to value of every entry below a cache.
fn entries(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let Ok(listing) = fs::read_dir(root) else { return BTreeMap::new() };
    let paths: Vec<PathBuf> = listing.map(|entry| entry.unwrap().path()).collect();
    paths
        .into_iter()
        .flat_map(|path| match path.is_dir() {
            true => entries(&path),
            false => BTreeMap::from([(path.file_name().unwrap().into(), fs::read(&path).unwrap())]),
        })
        .filter(|(name, _)| name.extension().is_some_and(|extension| extension == "cubin"))
        .collect()
}

/// What is exported stands where a machine has its cache: one with the toolkit of the build finds
/// everything there, though the program uses nothing of what it embeds.
#[test]
fn what_is_exported_or_imported_serves_a_machine_with_the_same_toolkit() {
    let (exported, imported) = (scratch(), scratch());
    let seed = exported.path().join("cutile/kernels");
    // The cache of a machine is its user's alone, or it is not used.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&seed).unwrap();
    cutile_with(&["export", "--target", "sm_90"], &[app().path(), &seed], None)
        .expect(0)
        .says("images for sm_90");
    let images: BTreeSet<String> = inspected(app())["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|kernel| kernel["images"].as_array().unwrap().clone())
        .filter(|image| image["target"] == "sm_90")
        .map(|image| format!("{}.cubin", image["key"].as_str().unwrap()))
        .collect();
    let found: BTreeSet<String> =
        entries(&seed).into_keys().map(|name| name.to_str().unwrap().to_owned()).collect();
    assert_eq!(found, images);

    let import = |arguments: &[&str], from: &Path| {
        cutile_with(&[&["import"], arguments].concat(), &[from], Some(imported.path()))
    };
    let cache = imported.path().join("cutile/kernels");
    import(&[], &seed).expect(1).says("add --trust");
    assert!(!cache.exists());
    import(&["--trust"], &seed).expect(0).says("0 were there already");
    assert_eq!(entries(&cache), entries(&seed));
    let stats = || {
        let stats = cutile_with(&["cache", "stats", "--json"], &[], Some(imported.path()));
        let stats = stats.expect(0).json()["stores"].as_array().unwrap().clone();
        let row = stats.into_iter().find(|row| row["store"] == "kernels").unwrap();
        number(&row["entries"])
    };
    assert_eq!(stats(), images.len());
    import(&["--trust"], app().path())
        .expect(0)
        .says(&format!("{} were there already", images.len()));
    let all = stats();
    assert_eq!(all, images.len() * TARGETS.len());
    let cached = |arguments: &[&str]| {
        cutile_with(&[&["cache"], arguments].concat(), &[], Some(imported.path()))
    };
    cached(&["gc", "--kernels", "--capacity", "1M"]).expect(0);
    assert!((1..all).contains(&stats()), "{}", stats());
    cached(&["clear", "--kernels", "--yes"]).expect(0);
    assert_eq!(stats(), 0);

    let app = app()
        .bare()
        .env("LD_LIBRARY_PATH", virtual_gpu().library_dir())
        .env("CUTILE_VIRTUAL_GPU", "sm_90")
        .env("CUTILE_TILEIRAS_PATH", toolkit().tileiras.as_os_str())
        .env("XDG_CACHE_HOME", exported.path())
        .arguments(["--json", "--kernels-only", "--no-bundle"])
        .ok()
        .json();
    assert_eq!(app["compiled_at_run_time"], 0);
    let launches = app["launches"].as_array().unwrap();
    assert!(!launches.is_empty());
    for launch in launches {
        assert_eq!(launch["source"], "disk", "{launch}");
    }
}
