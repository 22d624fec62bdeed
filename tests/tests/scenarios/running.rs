//! The program on other machines than the one that built it.

use crate::{IN_MEMORY, probe, with_toolkit};
use cutile_embed::index::Index;
use cutile_tests::{Container, FakeToolkit, Fault, Fixture, Program, scratch};

#[test]
fn s18_nothing_on_the_machine_but_the_driver() {
    // No HOME, no PATH, no place to write.
    let run = probe().program().on("sm_90").arguments(["install", "double", "square"]).ok();
    assert!(run.stderr.contains("No disk cache"), "{}", run.stderr);
    for line in ["1:double", "2:square"] {
        assert_eq!(run.line(line), IN_MEMORY);
    }
}

#[test]
fn s18_a_read_only_machine_without_a_home_a_shell_and_root() {
    let container = Container::new(probe().program());
    let steps = ["write:/program-2", "write:/tmp/program", "install", "double", "square"];
    let run = container.run("sm_90", &steps);
    assert!(run.success, "{}\n{}", run.stdout, run.stderr);
    // The machine is what this test says it is.
    assert_eq!(run.line("0:write"), "ReadOnlyFilesystem");
    assert_eq!(run.line("1:write"), "by user 65534, run: Err(PermissionDenied)");
    assert!(run.stderr.contains("No disk cache"), "{}", run.stderr);
    for line in ["3:double", "4:square"] {
        assert_eq!(run.line(line), IN_MEMORY);
    }
}

#[test]
fn s19_another_tileiras_on_the_machine() {
    // It answers with another version, and must not be asked to compile.
    let other = FakeToolkit::new();
    let script = "#!/bin/sh\ncase \"$1\" in\n--version) echo 'release 13.9, V13.9.1';;\n\
                  --list-versions) echo 13.1;;\n*) exit 1;;\nesac\n";
    std::fs::write(other.root().join("bin/tileiras"), script).unwrap();
    let run = probe()
        .program()
        .on("sm_90")
        .env("PATH", "/usr/bin:/bin")
        .env("CUTILE_TILEIRAS_PATH", other.root().join("bin/tileiras"))
        .arguments(["install", "double"])
        .ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
}

#[test]
fn s20_an_architecture_that_is_not_embedded() {
    let run = probe().program().on("sm_89").arguments(["install", "double"]).ok();
    let text = "nothing is embedded for sm_89, only for sm_90, sm_100";
    assert!(run.stderr.contains(text), "{}", run.stderr);
    assert!(!run.line("1:error").is_empty());
}

#[test]
fn s27_install_twice_and_after_an_eviction() {
    let scratch = scratch();
    let log = scratch.path().join("log");
    let steps = [
        "install",
        "install",
        "double",
        "evict",
        "install",
        "double",
        "evict:double",
        "install",
        "evict:square",
        "install",
    ];
    let run =
        probe().program().on("sm_90").env("CUTILE_VIRTUAL_GPU_LOG", &log).arguments(steps).ok();
    assert_eq!(run.line("0:install"), "0=sm_90 filled=2 present=0 images=2 failed=0");
    assert_eq!(run.line("1:install"), "0=sm_90 filled=0 present=2 images=0 failed=0");
    assert_eq!(run.line("2:double"), IN_MEMORY);
    assert_eq!(run.line("4:install"), "0=sm_90 filled=2 present=0 images=2 failed=0");
    assert_eq!(run.line("5:double"), IN_MEMORY);
    for line in ["7:install", "9:install"] {
        assert_eq!(run.line(line), "0=sm_90 filled=1 present=1 images=1 failed=0");
    }
    // What the driver was asked for: two images, nothing by the second call, the two again, and one by
    // each of the last calls.
    let log = std::fs::read_to_string(log).unwrap();
    let words = log.lines().filter_map(|line| line.split(' ').next());
    let of_driver = ["load", "load", "launch", "load", "load", "launch", "load", "load"];
    assert_eq!(words.collect::<Vec<_>>(), of_driver, "{log}");
}

#[test]
fn s18_a_launch_that_must_not_compile_says_what_is_missing_in_the_program() {
    let must_double = |steps: &[&str]| {
        let run = probe().program().on("sm_90").arguments(steps).arguments(["must-double"]).ok();
        run.line(&format!("{}:must-double", steps.len())).to_owned()
    };
    assert_eq!(
        must_double(&[]),
        "small::double<64> is not embedded for sm_90: cutile_embed::install() was not called; call \
         it first thing"
    );
    assert_eq!(
        must_double(&["install:nothing"]),
        "small::double<64> is not embedded for sm_90: no crate of this program embeds kernels; \
         write `cutile_embed::embed!();` once in the crate that has them"
    );
    assert_eq!(must_double(&["install"]), "done");
}

#[test]
fn s42_the_in_memory_cache_is_evicted_between_two_launches() {
    // No tileiras: nothing can be compiled, and nothing is found in a store without one.
    let steps = ["install", "double", "evict", "must-double", "install", "must-double"];
    let run = probe().program().on("sm_90").arguments(steps).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
    assert_eq!(
        run.line("3:must-double"),
        "small::double<64> is not embedded for sm_90: it is embedded and not in cutile's in-memory \
         cache: `only` left it out, or the cache was cleared; call install again"
    );
    assert_eq!(run.line("5:must-double"), "done");
    // With the build's tileiras, which has nothing to do: the image is in the store.
    let cache = scratch();
    let run = probe()
        .program()
        .on("sm_90")
        .env("CUTILE_TILEIRAS_PATH", cutile_tests::toolkit().tileiras.as_os_str())
        .env("XDG_CACHE_HOME", cache.path())
        .arguments(["install", "double", "evict", "double", "double"])
        .ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
    assert_eq!(run.line("3:double"), "jit=1 backend=0 stored=1 done");
    assert_eq!(run.line("4:double"), IN_MEMORY);
}

#[test]
fn s42_a_dependent_launch_needs_a_program_that_answers_for_tileiras() {
    let steps = ["install", "double", "dependent", "double"];
    let run = |tileiras: &std::path::Path| {
        let run = probe().program().on("sm_90").env("PATH", "/usr/bin:/bin");
        run.env("CUTILE_TILEIRAS_PATH", tileiras).arguments(steps).ok()
    };
    let without = run("/nonexistent/tileiras".as_ref());
    let error = without.line("2:error");
    assert!(error.contains("tileiras"), "{error}");
    // The process goes on, and what is embedded is served.
    assert_eq!(without.line("3:double"), IN_MEMORY);
    let answers = FakeToolkit::new();
    let with = run(&answers.root().join("bin/tileiras"));
    assert_eq!(with.line("2:dependent"), IN_MEMORY, "{}", with.stdout);
    assert!(answers.calls().is_empty(), "{:?}", answers.calls());
}

#[test]
fn s27_another_store_comes_before_or_after() {
    let folder = cutile_tests::scratch();
    let foreign = format!("foreign:{}/store", folder.path().display());
    let run = |steps: [&str; 3]| probe().program().on("sm_90").arguments(steps).ok();
    let after = run(["install", &foreign, "double"]);
    assert_eq!(after.line("2:double"), IN_MEMORY);
    let before = run([&foreign, "install", "double"]);
    assert_eq!(before.line("2:double"), IN_MEMORY);
    assert!(before.stderr.contains("Another store was installed before and stays"));
}

#[test]
fn s28_no_gpu_at_all() {
    let run = probe().program().bare().arguments(["install"]).ok();
    assert!(run.stderr.contains("nothing to fill: no NVIDIA driver"), "{}", run.stderr);
    let run = probe().program().on("").arguments(["install"]).ok();
    // CUDA_ERROR_NO_DEVICE, which real drivers say as well.
    let text = "nothing to fill: the driver does not start (DriverError(100, ";
    assert!(run.stderr.contains(text), "{}", run.stderr);
    assert!(!run.stderr.contains(" ready"), "{}", run.stderr);
    assert_eq!(run.line("0:install"), "");
}

#[test]
fn s39_devices_of_different_and_of_equal_architectures() {
    let launch = ["device:1", "double"];
    let run = |gpus: &str, install: &str| {
        probe().program().on(gpus).arguments([install]).arguments(launch).ok()
    };
    let different = run("sm_90,sm_100", "install:all");
    assert_eq!(
        different.line("0:install"),
        "0=sm_90 filled=2 present=0 images=2 failed=0; 1=sm_100 filled=2 present=0 images=2 failed=0"
    );
    assert_eq!(different.line("2:double"), IN_MEMORY);
    let equal = run("sm_90,sm_90", "install:all");
    assert_eq!(equal.line("2:double"), IN_MEMORY);
    let repeated = run("sm_90,sm_100", "install:1,1");
    assert_eq!(repeated.line("0:install"), "1=sm_100 filled=2 present=0 images=2 failed=0");
    assert_eq!(repeated.line("2:double"), IN_MEMORY);
    let run = probe().program().on("sm_90,sm_100");
    let other = run.arguments(["install:0", "device:1", "must-double"]).ok();
    assert_eq!(
        other.line("2:must-double"),
        "small::double<64> is not embedded for sm_100: device 1 was not filled; choose it with \
         Installer::devices"
    );
    let absent = probe().program().on("sm_90").arguments(["install:4"]).ok();
    assert!(absent.stderr.contains("there is no device 4"), "{}", absent.stderr);
    // Those that are there are filled.
    let some = probe().program().on("sm_90").arguments(["install:0,4"]).ok();
    assert_eq!(some.line("0:install"), "0=sm_90 filled=2 present=0 images=2 failed=0");
    assert!(some.stderr.contains("there is no device 4, only 1 of them"), "{}", some.stderr);
}

#[test]
fn s15_two_crates_embed_and_one_program_launches() {
    let program = Fixture::new("probe", "s15");
    program.cargo_toml(&["sm_90"], "s15-library = { path = \"library\" }\n");
    // One workspace: cargo takes a path dependency below its root in.
    let library = Fixture::in_folder("s15/library", "probe", "s15-library");
    std::fs::remove_file(library.dir().join("src/main.rs")).unwrap();
    library.edit("Cargo.toml", "[workspace]\n", "");
    let text = std::fs::read_to_string(library.dir().join("src/kernels.rs")).unwrap();
    // A module of its own name, or the two would be one for cutile.
    let text = text.replace("pub mod small", "pub mod little").replace("small::", "little::");
    library.write("src/kernels.rs", &text);
    library.write("src/lib.rs", "pub mod kernels;\ncutile_embed::embed!();\n");
    program.edit(
        "src/main.rs",
        "use kernels::small;",
        "use kernels::small;\nuse s15_library::kernels::little;",
    );
    program.edit("src/main.rs", "small::square(", "little::square(");
    let built = program.build().ok();
    let steps = ["install", "double", "square", "bundles"];
    let run = built.program().on("sm_90").arguments(steps).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
    assert_eq!(run.line("2:square"), IN_MEMORY);
    let mut bundles: Vec<&str> = run.line("3:bundles").split(',').collect();
    bundles.sort_unstable();
    assert_eq!(bundles, ["s15", "s15-library"]);

    // One of the two cannot be used: its kernels are told why, and the other's are served.
    let half = of_another_cutile(built.program(), "s15");
    let run = half.on("sm_90").arguments(["install", "must-double", "square"]).ok();
    let said = run.line("1:must-double");
    assert!(said.contains("the bundle of s15 0.1.0 is not used: it was built by cutile"), "{said}");
    assert_eq!(run.line("2:square"), IN_MEMORY);
}

#[test]
fn s21_the_driver_rejects_an_image() {
    let (toolkit, cache) = (FakeToolkit::new(), cutile_tests::scratch());
    toolkit.set(&[("", Fault::CompilesForAnother)]);
    let probe = Fixture::new("probe", "s21");
    let build = probe.build().env("CUTILE_BUILD_CACHE", cache.path());
    let built = with_toolkit(build, &toolkit).ok();
    let steps = ["install", "double", "must-double"];
    let run = built.program().on("sm_90").arguments(steps).ok();
    assert_eq!(run.line("0:install"), "0=sm_90 filled=0 present=0 images=0 failed=2");
    assert_eq!(run.stderr.matches("the driver refused its image").count(), 2, "{}", run.stderr);
    assert!(!run.line("1:error").is_empty(), "there is no toolkit to fall back to");
    let said = run.line("2:must-double");
    let start = "small::double<64> is not embedded for sm_90: its image cannot be used: \
                 small::double<64> for sm_90: the driver refused its image (CUDA driver error: \
                 DriverError(209, ";
    assert!(said.starts_with(start), "{said}");
    assert!(said.ends_with("; launches of it are compiled at run time"), "{said}");
    let run = built
        .program()
        .on("sm_90")
        .env("CUTILE_TILEIRAS_PATH", cutile_tests::toolkit().tileiras.as_os_str())
        .arguments(["install", "double", "double"])
        .ok();
    assert!(run.line("1:double").starts_with("jit=1 backend=1"), "{}", run.stdout);
    assert_eq!(run.line("2:double"), IN_MEMORY);
}

/// A copy of a program whose bundle of this package says that another cutile built it.
fn of_another_cutile(program: &Program, package: &str) -> Program {
    program.changed(|bytes| {
        // The magic stands in the code that looks for it, too.
        let starts = bytes.windows(16).enumerate();
        let starts = starts.filter(|(_, window)| *window == cutile_embed::index::INDEX_MAGIC);
        let found = starts.map(|(at, _)| at).find_map(|at| {
            let length = u64::from_le_bytes(bytes.get(at + 24..at + 32)?.try_into().ok()?);
            let end = at.checked_add(80)?.checked_add(usize::try_from(length).ok()?)?;
            let mut index = Index::parse(bytes.get(at..end)?).ok()?;
            index.cutile = "0.4.9";
            (index.package == package).then(|| (at..end, index.write()))
        });
        let (place, index) = found.expect("an index in the program");
        assert_eq!(place.len(), index.len());
        bytes[place].copy_from_slice(&index);
    })
}

#[test]
fn s16_a_bundle_that_another_cutile_built_is_told_and_left_alone() {
    let program = of_another_cutile(probe().program(), "probe");
    let run = program.on("sm_90").arguments(["install", "must-double"]).ok();
    let why = "the bundle of probe 0.1.0 is not used: it was built by cutile 0.4.9 and this program \
               has 0.5.0: use one version of cutile for dependencies and build-dependencies";
    assert!(run.stderr.contains(why), "{}", run.stderr);
    assert_eq!(run.line("0:install"), "0=sm_90 filled=0 present=0 images=0 failed=0");
    assert_eq!(
        run.line("1:must-double"),
        format!("small::double<64> is not embedded for sm_90: {why}")
    );
}

#[test]
fn a_damaged_pack_is_told_and_the_other_target_is_served() {
    // The packs stand in the program by the names of their files: sm_100 before sm_90.
    let program = probe().program().changed(|bytes| {
        let magic = cutile_embed::pack::magic();
        let starts = bytes.windows(magic.len()).enumerate();
        let starts = starts.filter(|(_, window)| *window == magic).map(|(at, _)| at);
        let packs: Vec<usize> = starts.collect();
        let [_, of_sm_90] = packs[..] else { panic!("two packs: {packs:?}") };
        // In the index, behind the header.
        bytes[of_sm_90 + 100] ^= 1;
    });
    let steps = ["install", "must-double"];
    let run = program.on("sm_90").arguments(steps).ok();
    assert_eq!(run.line("0:install"), "0=sm_90 filled=0 present=0 images=0 failed=0");
    let why = "the pack's index does not match its digest; build again";
    assert!(
        run.stderr.contains(&format!("probe for sm_90 is not served: {why}")),
        "{}",
        run.stderr
    );
    assert_eq!(
        run.line("1:must-double"),
        format!("small::double<64> is not embedded for sm_90: it is left out: {why}")
    );
    let run = program.on("sm_100").arguments(steps).ok();
    assert_eq!(run.line("1:must-double"), "done");
}
