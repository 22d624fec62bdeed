//! What a build covers: any length, recordings, strict mode and its explanations. On virtual GPUs.

use cutile_tests::{Build, Built, Fixture, Run, scratch, toolkit, workspace_root};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const COVER: &str = "FIXTURE_COVER";

fn build<'f>(fixture: &'f Fixture, cover: &str) -> Build<'f> {
    fixture.build().env(COVER, cover)
}

/// A machine that can compile, and has no cache.
fn with_toolkit(built: &Built, cache: &Path) -> Run {
    built
        .program()
        .on("sm_90")
        .env("CUTILE_TILEIRAS_PATH", toolkit().tileiras.as_os_str())
        .env("XDG_CACHE_HOME", cache)
}

#[test]
fn any_length_covers_every_pair_of_lengths() {
    let fixture = Fixture::new("covered", "covered-any");
    let built = build(&fixture, "any").ok();
    let said = built.script_output();
    // In a vector a length of 1 is as any odd one: 5 of `add`, 25 of `shift`. In a matrix a second
    // length of 1 is a stride of 1: 30 of `copy`.
    assert!(said.contains("cutile-build: 60 specializations"), "{said}");
    let steps = ["strict", "pairs:64", "add:1", "add:7", "add:1000", "add:4096", "shift:7:0"];
    let printed = built.program().on("sm_90").arguments(steps).arguments(["shift:96:3"]).ok();
    for step in &steps[1..] {
        assert_eq!(printed.line(step), "compiled=0 done");
    }
    assert_eq!(printed.line("shift:96:3"), "compiled=0 done");

    // Specializations of one kernel, one right after the other: `launch!` tells each.
    let out = scratch();
    let file = out.path().join("kernels.json");
    let run = built.program().on("sm_90").env("CUTILE_EMBED_RECORD", &file).arguments(["install"]);
    let printed = run.arguments(["must-copy:16:16", "must-copy:16:3", "must-copy:3:16"]).ok();
    assert_eq!(printed.line("must-copy:3:16"), "compiled=0 done");
    let recorded = std::fs::read_to_string(&file).unwrap();
    assert_eq!(recorded.matches("\"copy\"").count(), 3, "{recorded}");
}

#[test]
fn a_recorded_run_is_replayed_for_every_target_and_runs_strict() {
    let fixture = Fixture::new("covered", "covered-replay");
    let built = build(&fixture, "warmup").ok();
    let cache = scratch();
    let file = fixture.dir().join("kernels.json");
    let launches = ["add:1000", "shift:96:3", "copy:48:20"];
    let printed = with_toolkit(&built, cache.path())
        .env("CUTILE_EMBED_RECORD", &file)
        .arguments(["install"])
        .arguments(launches)
        .ok();
    assert!(printed.stderr.contains("Launches are recorded into"), "{}", printed.stderr);
    assert!(
        printed.stderr.contains("not filled, so that each launch is seen"),
        "{}",
        printed.stderr
    );
    let recorded = std::fs::read_to_string(&file).unwrap();
    for launch in launches {
        assert!(printed.line(launch).ends_with("done"), "{}", printed.stdout);
    }
    assert_eq!(recorded.matches("\"function\"").count(), 3, "{recorded}");
    assert!(!recorded.contains(env!("CARGO_MANIFEST_DIR")), "a path is in it: {recorded}");

    // A kernel edited since is replayed as it is now, and so is one that only moved.
    fixture.edit("src/kernels.rs", "x_tile + y_tile", "x_tile + y_tile + y_tile");
    fixture.edit("src/kernels.rs", "/// Matrices.", "/// Matrices.\n/// Moved by a line.");
    fixture.cargo_toml(&["sm_80", "sm_90", "sm_100", "sm_120"], "");
    let built = build(&fixture, "replay").ok();
    let out = scratch();
    let (tileiras, log) = counting_tileiras(out.path());
    for gpu in ["sm_80", "sm_90", "sm_100", "sm_120"] {
        let misses = out.path().join(gpu);
        let run = built.program().on(gpu).env("CUTILE_TILEIRAS_PATH", &tileiras);
        let run = run.arguments(["strict"]).arguments(launches);
        let printed = run.arguments([format!("misses:{}", misses.display())]).ok();
        for launch in launches {
            assert_eq!(printed.line(launch), "compiled=0 done", "{gpu}");
        }
        let misses = std::fs::read_to_string(misses).unwrap();
        assert!(!misses.contains("\"function\""), "{gpu}: {misses}");
    }
    assert!(!log.exists(), "a tileiras was started");
}

#[test]
fn a_program_that_dies_leaves_what_it_had_launched() {
    let fixture = Fixture::new("covered", "covered-dies");
    let built = build(&fixture, "warmup").ok();
    let (cache, out) = (scratch(), scratch());
    let file = out.path().join("kernels.json");
    let printed = with_toolkit(&built, cache.path())
        .env("CUTILE_EMBED_RECORD", &file)
        .arguments(["install", "add:1000", "copy:48:20", "abort"])
        .run();
    assert!(!printed.success);
    let recorded = std::fs::read_to_string(&file).unwrap();
    assert_eq!(recorded.matches("\"function\"").count(), 2, "{recorded}");
}

/// `cargo cutile record` of a program, with what it printed.
fn record(options: &[&str], file: &Path, built: &Built, steps: &[&str]) -> (bool, String) {
    let output = Command::new("cargo")
        .args(["cutile", "--virtual-gpu", "sm_90", "record", "-o"])
        .arg(file)
        .args(options)
        .arg("--")
        .arg(built.program().path())
        .args(steps)
        .current_dir(workspace_root())
        .output()
        .expect("cargo runs");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_command_records_merges_and_ends_what_does_not_end() {
    let fixture = Fixture::new("covered", "covered-command");
    let built = build(&fixture, "warmup").ok();
    let out = scratch();
    let file = out.path().join("kernels.json");
    let text = || std::fs::read_to_string(&file).unwrap();

    let (well, said) = record(&[], &file, &built, &["install", "add:1000"]);
    assert!(well && said.contains("1 specialization of 1 kernel, 1 of them new"), "{said}");
    let first = text();
    let (well, said) = record(&["--merge"], &file, &built, &["install", "copy:48:20"]);
    assert!(well && said.contains("2 specializations of 2 kernels, 1 of them new"), "{said}");
    let (well, said) = record(&[], &file, &built, &["install", "add:1000"]);
    assert!(well && text() == first, "the same run gives other bytes: {said}");

    let steps = ["install", "add:1000", "copy:48:20", "wait"];
    let (well, said) = record(&["--timeout", "20"], &file, &built, &steps);
    assert!(well && said.contains("was ended when its time was up"), "{said}");
    assert!(said.contains("2 specializations"), "{said}");

    // Where nothing was recorded, what is there stays.
    let before = text();
    let (well, said) = record(&[], &file, &built, &[]);
    assert!(!well && said.contains("Does it call cutile_embed::install()"), "{said}");
    assert_eq!(text(), before);
    // It was installed, and launched nothing.
    let (well, said) = record(&[], &file, &built, &["install"]);
    assert!(!well && said.contains("the program launched no kernel"), "{said}");
    assert_eq!(text(), before);
    let (well, said) = record(&["--merge"], &out.path().join("no/kernels.json"), &built, &[]);
    assert!(!well && said.contains("no/kernels.json"), "{said}");
}

#[test]
fn a_filled_kernel_is_recorded_when_it_is_launched_and_not_before() {
    let fixture = Fixture::new("covered", "covered-filled");
    let built = build(&fixture, "warmup").ok();
    let out = scratch();
    let file = out.path().join("kernels.json");
    // No toolkit here: what is embedded is filled.
    let run = |steps: &[&str]| {
        let run = built.program().on("sm_90").env("CUTILE_EMBED_RECORD", &file);
        let _ = run.arguments(["install"]).arguments(steps).ok();
        std::fs::read_to_string(&file).unwrap()
    };
    assert!(!run(&[]).contains("\"function\""));
    let recorded = run(&["add:256"]);
    assert!(recorded.contains("\"add\"") && !recorded.contains("\"shift\""), "{recorded}");
    // What was recorded before the cache was emptied stays, and what fills it again was not launched.
    let again = run(&["must-add:256", "evict", "install"]);
    assert_eq!(again, recorded);
}

/// So that the program finds a kernel under the name that it had.
const RENAMED: &str = "mod planes {\n    pub use crate::kernels::planes::copied as copy;\n}\n\
                       use kernels::vectors;";

#[test]
fn a_recorded_kernel_that_changed_its_signature_or_is_gone_stops_the_build() {
    let fixture = Fixture::new("covered", "covered-stale");
    let built = build(&fixture, "warmup").ok();
    let cache = scratch();
    let _ = with_toolkit(&built, cache.path())
        .env("CUTILE_EMBED_RECORD", fixture.dir().join("kernels.json"))
        .arguments(["install", "add:1000", "copy:48:20"])
        .ok();
    fixture.edit("src/kernels.rs", "pub fn copy<", "pub fn copied<");
    fixture.edit("src/kernels.rs", "planes::copy(", "planes::copied(");
    fixture.edit("src/main.rs", "use kernels::{planes, vectors};", RENAMED);
    fixture.edit("src/kernels.rs", "        y: &Tensor", "        w: &Tensor");
    fixture.edit("src/kernels.rs", "load_tile_like(y, z)", "load_tile_like(w, z)");
    let said = build(&fixture, "replay").fails();
    assert!(said.contains("planes::copy cannot be replayed for sm_90"), "{said}");
    assert!(said.contains("did you mean planes::copied?"), "{said}");
    assert!(said.contains("the recording has a parameter `y`, the kernel has none"), "{said}");
    assert!(said.contains("the nearest is `w`"), "{said}");
}

#[test]
fn a_recording_that_is_none_stops_the_build_by_its_name() {
    let fixture = Fixture::new("covered", "covered-none");
    let said = build(&fixture, "replay").fails();
    assert!(said.contains("kernels.json") && said.contains("No such file"), "{said}");
    fixture.write("kernels.json", "{\"schema\": 7}");
    let said = build(&fixture, "replay").fails();
    assert!(said.contains("has schema 7, this code reads 1"), "{said}");
}

#[test]
fn s26_one_length_that_is_no_multiple_of_16_is_told_in_words() {
    let fixture = Fixture::new("covered", "covered-strict");
    let built = build(&fixture, "warmup").ok();
    let out = scratch();
    let misses = out.path().join("misses.json");
    let steps =
        ["strict".to_owned(), "must-add:256".into(), "must-add:1001".into(), "add:1001".into()];
    let last = format!("misses:{}", misses.display());
    let printed = built.program().on("sm_90").arguments(steps).arguments([last]).ok();
    assert_eq!(printed.line("must-add:256"), "compiled=0 done");
    assert_eq!(
        printed.line("must-add:1001"),
        "compiled=0 error vectors::add<64> is not embedded for sm_90: the nearest embedded is \
         vectors::add<64>: `z.shape[0]` is divisible by 1 and not by 2; embedded: divisible by 16; \
         `x.shape[0]` is divisible by 1 and not by 2; embedded: divisible by 16; `y.shape[0]` is \
         divisible by 1 and not by 2; embedded: divisible by 16. Cover it with `any_length`, or \
         record this run"
    );
    // A bare launch has upstream's error, which says where to look.
    let bare = printed.line("add:1001");
    assert!(bare.contains("cutile-embed-is-strict") && bare.contains("misses"), "{bare}");
    let text = std::fs::read_to_string(&misses).unwrap();
    assert_eq!(text.matches("\"function\"").count(), 1, "{text}");

    // What was missed is what replay takes.
    std::fs::copy(&misses, fixture.dir().join("kernels.json")).unwrap();
    let built = build(&fixture, "replay").ok();
    let printed = built.program().on("sm_90").arguments(["strict", "must-add:1001"]).ok();
    assert_eq!(printed.line("must-add:1001"), "compiled=0 done");
}

/// A tileiras that writes into a file that it was started.
fn counting_tileiras(folder: &Path) -> (PathBuf, PathBuf) {
    let (tileiras, log) = (folder.join("tileiras"), folder.join("started"));
    std::fs::write(&tileiras, format!("#!/bin/sh\necho $$ >> {}\n", log.display())).unwrap();
    std::fs::set_permissions(&tileiras, std::fs::Permissions::from_mode(0o755)).unwrap();
    (tileiras, log)
}

#[test]
fn strict_starts_no_tileiras_where_one_is_installed() {
    let fixture = Fixture::new("covered", "covered-no-process");
    let built = build(&fixture, "warmup").ok();
    let out = scratch();
    let (tileiras, log) = counting_tileiras(out.path());
    let run = |step| {
        let run = built.program().on("sm_90").env("CUTILE_TILEIRAS_PATH", &tileiras);
        let _ = run.arguments([step, "add:256", "add:1001"]).run();
        log.exists()
    };
    assert!(!run("strict"));
    assert!(run("install"), "the tileiras of this test is not found at all");
}

#[test]
fn each_reason_has_a_message_of_its_own() {
    let fixture = Fixture::new("covered", "covered-reasons");
    let built = build(&fixture, "warmup").ok();
    let said = |gpu: &str, name: &str, value: &str, steps: &[&str]| {
        let run = built.program().on(gpu).env(name, value);
        run.arguments(steps).ok().line("must-add:256").to_owned()
    };
    let both = ["install", "must-add:256"];
    let none = said("sm_90", "UNUSED", "1", &["must-add:256"]);
    assert!(none.contains("cutile_embed::install() was not called"), "{none}");
    let other = said("sm_80", "UNUSED", "1", &both);
    assert!(other.contains("embedded for sm_90 only; add sm_80 to `targets`"), "{other}");
    let variable = said("sm_90", "CUTILE_FORCE_DEVICE_CHECKS", "1", &both);
    assert!(variable.contains("CUTILE_FORCE_DEVICE_CHECKS set"), "{variable}");

    let skipped = build(&fixture, "warmup").env("CUTILE_BUILD", "skip").ok();
    let printed = skipped.program().on("sm_90").arguments(both).ok();
    let line = printed.line("must-add:256");
    assert!(line.contains("embeds nothing: CUTILE_BUILD=skip is set"), "{line}");

    // What tells the build of the program's level is the `debug` of its crate, which is not that of
    // the cutile it links.
    let level = build(&fixture, "warmup").profile("dev.package.covered-reasons.debug=0").ok();
    let printed = level.program().on("sm_90").arguments(both).ok();
    let why = "the bundle of covered-reasons 0.1.0 is not used: it was built with device debug level \
               Optimized { level: 3, lineinfo: false } and this program launches with Debug: set \
               CUDA_RUST_DEBUG to none, line or full for the whole build";
    assert!(printed.stderr.contains(why), "{}", printed.stderr);
    assert_eq!(
        printed.line("must-add:256"),
        format!("compiled=0 error vectors::add<64> is not embedded for sm_90: {why}")
    );

    let other = build(&fixture, "copy").ok();
    let printed = other.program().on("sm_90").arguments(both).ok();
    let line = printed.line("must-add:256");
    assert!(line.contains("no specialization of this kernel is embedded"), "{line}");
    assert!(line.contains("planes::copy"), "{line}");
}

#[test]
fn uncovered_kernels_stop_the_build_where_they_are_denied() {
    let fixture = Fixture::new("covered", "covered-deny");
    let said = build(&fixture, "warmup,deny").fails();
    assert!(said.contains("no warm-up launches kernels::planes::copy"), "{said}");
    let _ = build(&fixture, "warmup,copy,deny").ok();
}

#[test]
fn s10_a_kernel_is_kept_to_its_targets() {
    let fixture = Fixture::new("covered", "covered-targets");
    fixture.cargo_toml(&["sm_80", "sm_90"], "");
    let built = build(&fixture, "warmup,copy,only-sm_80").ok();
    let launch = |gpu| {
        let run = built.program().on(gpu).arguments(["strict", "copy:64:64", "add:256"]).ok();
        (run.line("copy:64:64").to_owned(), run.line("add:256").to_owned())
    };
    assert_eq!(launch("sm_80"), ("compiled=0 done".into(), "compiled=0 done".into()));
    let (copy, add) = launch("sm_90");
    assert!(copy.contains("error"), "{copy}");
    assert_eq!(add, "compiled=0 done");
    let said = build(&fixture, "warmup,typo").fails();
    assert!(said.contains("targets_for names planes::copi"), "{said}");
    assert!(said.contains("did you mean planes::copy?"), "{said}");
}
