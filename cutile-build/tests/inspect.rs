//! `inspect`, `verify` and `diff`, as processes, on files made here: no CUDA is needed.
#![cfg(all(feature = "cli", unix))]

mod embedded;

use embedded::fixture::{self, Noise, Plan};
use embedded::{CUTILE, GEMM, Home, call};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Two bundles with a megabyte of random bytes before, between and behind.
fn two(noise: &mut Noise) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..100_003).map(|_| noise.byte()).collect();
    bytes.extend(fixture::file(&fixture::bundle("first", &["sm_90", "sm_100"]), 77));
    bytes.extend((0..1_000_000).map(|_| noise.byte()));
    bytes.extend(fixture::file(&fixture::bundle("second", &["sm_80"]), 13));
    bytes
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Where an image of the gemm lies: its key's entry by `inspect`.
fn gemm_at(home: &Home, file: &Path, target: &str) -> (usize, usize) {
    let found = home.cutile(&["inspect", text(file), "--json"]).expect(0).json();
    let kernels = found["bundles"][0]["kernels"].as_array().unwrap();
    let gemm = kernels.iter().find(|kernel| kernel["kernel"] == GEMM).unwrap();
    let images = gemm["images"].as_array().unwrap();
    let image = images.iter().find(|image| image["target"] == target).unwrap();
    let number = |name: &str| usize::try_from(image[name].as_u64().unwrap()).unwrap();
    (number("offset"), number("stored"))
}

#[test]
fn inspect_shows_a_table_of_every_kernel_and_shader() {
    let home = Home::new();
    let app = home.app("app");
    home.cutile(&["cutile", "inspect", text(&app)]).expect(0).fits().says(&[
        "app 1.2.3",
        "cutile 0.5.0, O3",
        "tileiras 13.5, V13.5.37; ptxas 13.5, V13.5.37; Tile IR 13.5",
        "sm_80 3 3",
        "all 3 6",
        GEMM,
        "a 16×8, b 8×16, n 4",
        "vector::add<f32, 128>",
        "shaders/nothing.wgsl main (compute 64×1×1)",
    ]);
    let keys = home.cutile(&["inspect", text(&app), "--keys"]).expect(0).fits();
    let is_key = |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Six images and two forms of a shader.
    assert_eq!(keys.stdout.split_whitespace().filter(|word| is_key(word)).count(), 8);
}

#[test]
fn inspect_finds_two_bundles_at_odd_places_between_random_bytes() {
    let home = Home::new();
    let bytes = two(&mut Noise(3));
    let file = home.write("two", &bytes);
    home.cutile(&["inspect", text(&file)]).expect(0).fits().says(&["2 bundles with"]);
    let found = home.cutile(&["inspect", text(&file), "--json"]).expect(0).json();
    assert_eq!(found["bytes"], bytes.len());
    let bundles = found["bundles"].as_array().unwrap();
    let names: Vec<_> = bundles.iter().map(|bundle| bundle["package"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second"]);
    let mut images = 0;
    for kernel in bundles.iter().flat_map(|bundle| bundle["kernels"].as_array().unwrap()) {
        for image in kernel["images"].as_array().unwrap() {
            let offset = usize::try_from(image["offset"].as_u64().unwrap()).unwrap();
            let stored = usize::try_from(image["stored"].as_u64().unwrap()).unwrap();
            // A frame of zstd, shorter than the cubin.
            assert_eq!(bytes[offset..offset + 4], [0x28, 0xb5, 0x2f, 0xfd]);
            assert_eq!(image["codec"], "zstd");
            assert!((stored as u64) < image["bytes"].as_u64().unwrap());
            assert_eq!(image["key"].as_str().unwrap().len(), 64);
            images += 1;
        }
    }
    assert_eq!(images, 3 * 2 + 3);
    home.cutile(&["verify", text(&file)]).expect(0).fits();
}

#[test]
fn the_keys_that_the_help_documents_are_there() {
    let home = Home::new();
    let app = home.app("app");
    let found = home.cutile(&["inspect", text(&app), "--json"]).expect(0).json();
    let has = |value: &Value, keys: &[&str]| {
        for key in keys {
            assert!(value.get(key).is_some(), "{key} in {value:#}");
        }
    };
    has(&found, &["file", "bytes", "unreadable"]);
    let bundle = &found["bundles"][0];
    has(bundle, &["package", "version", "cutile", "codegen", "skipped", "toolkit", "left_out"]);
    for part in [&bundle["index"], &bundle["manifest"], &bundle["targets"][0]["pack"]] {
        has(part, &["offset", "bytes"]);
    }
    has(&bundle["targets"][0], &["target", "kernels", "images", "bytes"]);
    has(&bundle["kernels"][0], &["kernel", "words", "module", "function", "generics", "specs"]);
    has(
        &bundle["kernels"][0]["images"][0],
        &["target", "key", "bytes", "offset", "stored", "codec"],
    );
    has(&bundle["shaders"][0], &["path", "entry_points"]);
    has(&bundle["shaders"][0]["artifacts"][0], &["kind", "key", "bytes", "offset"]);
    let verified = home.cutile(&["verify", text(&app), "--json"]).expect(0).json();
    has(&verified, &["file", "ok", "problems"]);
    has(&verified["bundles"][0], &["package", "version", "rows", "entries", "problems"]);
}

#[test]
fn many_targets_are_summed_up_within_the_width() {
    let home = Home::new();
    let targets = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120"];
    let mut plan = Plan::new("app", &targets);
    plan.kernels[0].generics = vec!["half::binary16::f16".into(), "{ [128, 64, -1] }".repeat(6)];
    let file = home.write("app", fixture::file(&plan.build(), 5));
    home.cutile(&["inspect", text(&file)]).expect(0).fits().says(&["images least most", "sm_120"]);
    home.cutile(&["verify", text(&file)]).expect(0).fits();
}

#[test]
fn a_stripped_executable_shows_what_it_showed_before() {
    let home = Home::new();
    let app = home.app("app.bin");
    home.write(
        "main.rs",
        format!(
            "static EMBEDDED: &[u8] = include_bytes!({:?});\n\
             fn main() {{ println!(\"{{}}\", std::hint::black_box(EMBEDDED)[0]); }}\n",
            text(&app)
        ),
    );
    let built = Command::new("rustc")
        .args(["--edition", "2024", "-O", "-C", "strip=symbols", "main.rs", "-o", "main"])
        .current_dir(home.root())
        .status()
        .unwrap();
    assert!(built.success());
    let main = home.path("main");
    assert!(fs::read(&main).unwrap().starts_with(b"\x7fELF"));
    home.cutile(&["verify", text(&main)]).expect(0).says(&["app 1.2.3: 6 rows, 9 entries"]);
    home.cutile(&["diff", text(&app), text(&main)]).expect(0);
    // And in an archive, whose members lie at even places.
    let mut archive = b"!<arch>\n".to_vec();
    let bytes = fs::read(&main).unwrap();
    archive.extend(format!("{:<48}{:<10}`\n", "main/", bytes.len()).into_bytes());
    archive.extend(bytes);
    let archive = home.write("libmain.a", archive);
    home.cutile(&["diff", text(&app), text(&archive)]).expect(0);
}

#[test]
fn what_is_cut_short_or_damaged_is_shown_and_fails() {
    let home = Home::new();
    let whole = fs::read(home.app("app")).unwrap();
    let magic = cutile_embed::pack::magic();
    let at = whole.windows(16).rposition(|window| window == magic).unwrap();
    // In the middle of the last pack.
    let cut = home.write("cut", &whole[..at + 200]);
    home.cutile(&["inspect", text(&cut)]).expect(0).fits().says(&["pack at", "cut short"]);
    home.cutile(&["verify", text(&cut)]).expect(1).fits().says(&["there is no index"]);
    // A magic with anything behind it.
    let mut garbage = whole.clone();
    garbage.extend(magic);
    garbage.extend([0xff; 300]);
    let garbage = home.write("garbage", garbage);
    home.cutile(&["inspect", text(&garbage)]).expect(0).says(&["app 1.2.3", "version 4294967295"]);
    let found = home.cutile(&["verify", text(&garbage), "--json"]).expect(1).json();
    assert_eq!(found["problems"][0]["offset"], whole.len());
    assert_eq!(found["problems"][0]["package"], Value::Null);
    assert_eq!(found["bundles"][0]["problems"], 0);
}

#[test]
fn a_flipped_byte_inside_an_image_fails_and_names_kernel_and_target() {
    let home = Home::new();
    let app = home.app("app");
    for target in ["sm_80", "sm_90"] {
        let (offset, stored) = gemm_at(&home, &app, target);
        let mut damaged = fs::read(&app).unwrap();
        damaged[offset + stored / 2] ^= 1;
        let damaged = home.write("damaged", damaged);
        let place = format!("{GEMM} for {target}, at {offset:#x}");
        home.cutile(&["verify", text(&damaged)]).expect(1).fits().says(&[
            &place,
            "does not match its digest",
            "1 problem in",
        ]);
        let found = home.cutile(&["verify", text(&damaged), "--json"]).expect(1).json();
        assert_eq!(found["ok"], false);
        let problems = found["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0]["kernel"], GEMM);
        assert_eq!(problems[0]["target"], target);
        assert_eq!(problems[0]["offset"], offset);
        let difference = home.cutile(&["diff", text(&app), text(&damaged)]).expect(1).fits();
        difference.says(&[GEMM, target, "0 kernels added, 0 removed, 1 changed"]);
    }
}

#[test]
fn an_image_for_another_gpu_than_its_target_fails() {
    let home = Home::new();
    let built = Plan::new("app", &["sm_90"]).build_with(|image| {
        if image.kernel == GEMM {
            image.sm = 120;
            image.symbol = "another".into();
        }
    });
    let file = home.write("app", fixture::file(&built, 9));
    home.cutile(&["verify", text(&file)]).expect(1).fits().says(&[
        &format!("{GEMM} for sm_90"),
        "its cubin is for sm_120",
        "no function matmul_entry, but: another",
    ]);
}

#[test]
fn a_file_that_cannot_be_read_is_trouble_and_not_a_finding() {
    let home = Home::new();
    let app = home.app("app");
    let empty = home.write("empty", "");
    let folder = home.path("folder");
    fs::create_dir(&folder).unwrap();
    let large = home.path("large");
    fs::File::create(&large).unwrap().set_len((4 << 30) + 1).unwrap();
    for (path, words) in [
        (home.path("none"), "No such file"),
        (folder, "it is a folder"),
        (empty, "nothing is embedded in"),
        (large, "at most 4294967296 are read"),
    ] {
        home.cutile(&["inspect", text(&path)]).expect(1).says(&["error: ", words]);
        home.cutile(&["verify", text(&path)]).expect(2).says(&["error: ", words]);
        home.cutile(&["diff", text(&app), text(&path)]).expect(2).says(&["error: ", words]);
    }
    home.cutile(&["inspect"]).expect(2);
}

#[test]
fn diff_is_silent_for_equal_files_and_lists_what_differs() {
    let home = Home::new();
    let app = home.app("app");
    let moved = fixture::file(&fixture::bundle("app", &["sm_80", "sm_90"]), 5);
    let moved = home.write("moved", moved);
    let same = home.cutile(&["diff", text(&app), text(&moved)]).expect(0);
    assert_eq!((same.stdout.as_str(), same.stderr.as_str()), ("", ""));
    let json = home.cutile(&["diff", "--json", text(&app), text(&moved)]).expect(0).json();
    assert_eq!(json["same"], true);

    let mut plan = Plan::new("app", &["sm_90", "sm_120"]);
    plan.package.version = "1.3.0".into();
    plan.kernels.remove(0);
    plan.kernels[0].source_hash = "77".repeat(32);
    let next = home.write("next", fixture::file(&plan.build(), 5));
    home.cutile(&["diff", text(&app), text(&next)]).expect(1).fits().says(&[
        "~ app",
        "version 1.2.3 → 1.3.0",
        "targets +sm_120 -sm_80",
        &format!("- {GEMM}"),
        "~ vector::add<f32, 128>",
        "its module's text",
        "0 kernels added, 1 removed, 2 changed",
    ]);
    let json = home.cutile(&["diff", "--json", text(&app), text(&next)]).expect(1).json();
    assert_eq!(json["same"], false);
    assert_eq!(json["bundles"][0]["kernels"][0]["status"], "removed");
    assert_eq!(json["bundles"][0]["kernels"][0]["images"][0]["bytes"][1], Value::Null);
}

#[test]
fn extract_writes_the_parts_and_nothing_over_what_is_there() {
    let home = Home::new();
    let built = fixture::bundle("app", &["sm_80", "sm_90"]);
    let app = home.write("app", fixture::file(&built, 21));
    let out = home.path("out");
    home.cutile(&["inspect", text(&app), "--extract", text(&out)]).expect(0);
    let folder = out.join("app-1.2.3");
    assert_eq!(fs::read(folder.join("index.bin")).unwrap(), built.index);
    assert_eq!(fs::read(folder.join("images-sm_90.pack")).unwrap(), built.packs[1].1);
    assert_eq!(fs::read(folder.join("shaders.pack")).unwrap(), built.shaders.unwrap());
    // The line at the end belongs to no JSON value.
    let manifest = fs::read(folder.join("manifest.json")).unwrap();
    assert_eq!(manifest, built.manifest.trim_ascii_end());
    let cubins: Vec<_> = fs::read_dir(folder.join("cubins/sm_90")).unwrap().flatten().collect();
    assert_eq!(cubins.len(), 3);
    assert!(cubins.iter().all(|file| fs::read(file.path()).unwrap().starts_with(b"\x7fELF")));
    assert_eq!(fs::read_dir(folder.join("shaders")).unwrap().count(), 3);
    home.cutile(&["inspect", text(&app), "--extract", text(&out)])
        .expect(1)
        .says(&["is already there, and nothing is written over"]);
}

#[test]
fn names_of_a_file_are_no_paths_and_no_commands_for_the_terminal() {
    let home = Home::new();
    let mut plan = Plan::new("../../../evil\x1b[31m", &["sm_90"]);
    plan.package.version = "../..".into();
    plan.kernels[0].module = "../../x\n\u{202e}".into();
    let file = home.write("deep/down/app", fixture::file(&plan.build(), 4));
    let out = home.path("deep/down/out");
    home.cutile(&["inspect", text(&file), "--keys", "--extract", text(&out)]).expect(0).fits();
    home.cutile(&["verify", text(&file)]).expect(0).fits();
    assert_eq!(fs::read_dir(home.root()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(home.path("deep")).unwrap().count(), 1);
    let names: Vec<_> = fs::read_dir(&out).unwrap().flatten().map(|dir| dir.file_name()).collect();
    assert_eq!(names, ["_________evil__31m-_._._._._"]);
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let home = Home::new();
    let plan = Plan::new("app", &["sm_80", "sm_90"]);
    let mut bytes = Vec::new();
    for at in 0..60 {
        let mut plan = plan.clone();
        plan.package.name = format!("app-{at}");
        bytes.extend(fixture::file(&plan.build(), 3));
    }
    let file = home.write("many", bytes);
    let mut command = home.command(&["inspect", text(&file), "--json"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command");
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// `--help` fits into a pipe's buffer; what is asked of each here is to write to one that nobody
/// reads, or to a full disk.
#[test]
#[cfg(target_os = "linux")]
fn an_output_that_takes_nothing_is_an_exit_code_and_no_panic() {
    let home = Home::new();
    let app = home.app("app");
    let app = text(&app);
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for (arguments, code) in [
        (&["inspect", app][..], 1),
        (&["diff", "--json", app, app], 2),
        (&["verify", app], 2),
        (&["cache", "stats"], 1),
        (&["doctor"], 1),
        (&["export", app, "seed"], 1),
    ] {
        let called = call(home.command(arguments).stdout(full())).expect(code);
        assert!(called.stderr.starts_with("error: cannot write to the standard"), "{called:?}");
        let mut silent = home.command(arguments);
        let status = silent.stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
    for (arguments, code) in [
        (&["inspect", "nothing"][..], 1),
        (&["diff", app, "nothing"], 2),
        (&["verify", "nothing"], 2),
        (&["inspect", app, "--extract", "out"], 0),
        (&["cache", "clear"], 1),
    ] {
        if code == 1 {
            home.write(&format!(".cache/cutile/kernels/ab/{}.cubin", "ab".repeat(32)), "entry");
        }
        let status = home.command(arguments).stdout(Stdio::null()).stderr(full()).status();
        assert_eq!(status.unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn an_error_has_no_commands_for_the_terminal() {
    let home = Home::new();
    let app = home.app("app");
    let mut cut = fs::read(&app).unwrap();
    let magic = cutile_embed::pack::magic();
    cut.truncate(cut.windows(16).rposition(|window| window == magic).unwrap() + 200);
    let evil = home.write("\x1b[31m\u{202e}app", cut);
    let forged = home.cutile(&["inspect", "no\nerror: such"]).expect(1);
    assert_eq!(forged.stderr.lines().count(), 1, "{forged:?}");
    for arguments in [
        &["inspect", "\x1b[31m\u{202e}"][..],
        &["verify", "\x1b[31m\u{202e}"],
        &["diff", "\x1b[31m\u{202e}", text(&app)],
        &["diff", text(&evil), text(&app)],
        // No path: only what prints an error cleans it.
        &["export", text(&app), "seed", "--target", "\x1b[31m\u{202e}"],
    ] {
        let called = home.cutile(arguments);
        assert!(called.stderr.contains("[31m"), "{called:?}");
        assert!(!called.stderr.contains(['\x1b', '\u{202e}']), "{called:?}");
    }
}

#[test]
fn what_cannot_be_extracted_is_named_and_fails() {
    let home = Home::new();
    let app = home.app("app");
    let (offset, stored) = gemm_at(&home, &app, "sm_90");
    let mut damaged = fs::read(&app).unwrap();
    damaged[offset + stored / 2] ^= 1;
    let damaged = home.write("damaged", damaged);
    home.cutile(&["inspect", text(&damaged), "--extract", "out"]).expect(1).says(&[
        "1 part damaged, without a file",
        &format!("{GEMM} for sm_90"),
        "cargo cutile verify",
    ]);
    // The others are there.
    assert_eq!(fs::read_dir(home.path("out/app-1.2.3/cubins/sm_90")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(home.path("out/app-1.2.3/cubins/sm_80")).unwrap().count(), 3);
}

#[test]
fn what_was_extracted_is_removed_where_not_all_of_it_could_be() {
    let home = Home::new();
    let mut bytes = fixture::file(&Plan::new("one", &["sm_90"]).build(), 3);
    bytes.extend(fixture::file(&Plan::new("two", &["sm_90"]).build(), 3));
    let file = home.write("both", bytes);
    home.write("out/two-1.2.3/own", "kept");
    home.cutile(&["inspect", text(&file), "--extract", "out"])
        .expect(1)
        .says(&["two-1.2.3 is already there"]);
    let left: Vec<_> =
        fs::read_dir(home.path("out")).unwrap().map(|d| d.unwrap().file_name()).collect();
    assert_eq!(left, ["two-1.2.3"]);
    assert_eq!(fs::read(home.path("out/two-1.2.3/own")).unwrap(), b"kept");
}

#[test]
fn every_help_text_fits_and_has_an_example() {
    let home = Home::new();
    for name in [
        "inspect",
        "diff",
        "verify",
        "export",
        "import",
        "doctor",
        "cache",
        "record",
        "prebuild",
        "toolkit",
        "virtual-gpu",
    ] {
        for flag in ["-h", "--help"] {
            let help = home.cutile(&["cutile", name, flag]).expect(0);
            let lines = help.stdout.lines();
            assert!(lines.clone().all(|line| line.chars().count() <= 80), "{}", help.stdout);
            assert!(help.stdout.contains(&format!("  cargo cutile {name} ")), "{}", help.stdout);
        }
    }
    for action in ["stats", "gc", "clear"] {
        home.cutile(&["cache", action, "--help"]).expect(0).fits();
    }
    let mut command = Command::new(CUTILE);
    let all = call(command.arg("--help"));
    assert!(all.stdout.contains("verify") && all.stdout.contains("doctor"), "{}", all.stdout);
}
