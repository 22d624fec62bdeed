//! `--reproducible`, on a crate without kernels: what matters is the compiler and the environment.

use super::{Fixture, compiled, program, text};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Tells the program which paths rustc knew when it compiled the script, and what the script's
/// environment was. A path that is absolute in the program stays so in what is compiled.
const SCRIPT: &str = r#"
const PART: &str = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/part.rs"));
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let value = |name| std::env::var(name).unwrap_or_default();
    let values = ["CUTILE_BUILD_CACHE", "TZ", "LC_ALL", "SOURCE_DATE_EPOCH"].map(value).join(" ");
    let text = format!("const SCRIPT: &str = {PART:?};\nconst VALUES: &str = {values:?};\n\
                        fn generated() -> &'static str {{ file!() }}\n");
    std::fs::write(std::path::Path::new(&value("OUT_DIR")).join("generated.rs"), text).unwrap();
}
"#;

const MAIN: &str = r#"
include!(concat!(env!("OUT_DIR"), "/generated.rs"));
const PART: &str = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/part.rs"));
fn main() {
    println!("{SCRIPT}\n{PART}\n{}\n{VALUES}", generated());
}
"#;

fn fixture() -> Fixture {
    let fixture = Fixture::with_toolkit();
    fixture.write("build.rs", SCRIPT);
    fixture.write("part.rs", "file!()");
    fixture.write("src/main.rs", MAIN);
    fixture
}

fn host() -> String {
    let (_, stdout, _) = text(Command::new("rustc").arg("-vV"));
    stdout.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn built(fixture: &Fixture, arguments: &[&str]) -> (Vec<u8>, PathBuf) {
    let arguments = [&["build", "--reproducible"], arguments].concat();
    let (code, _, stderr) = text(&mut fixture.cutile(&arguments));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("Reproducible in "), "{stderr}");
    assert!(!stderr.contains("paths of this machine"), "{stderr}");
    let target = if arguments.contains(&"--target") { host() } else { String::new() };
    let program = fixture.path("target/reproducible").join(target).join("debug/fixture");
    (fs::read(&program).unwrap(), program)
}

/// With `--target`, for which cargo gives no `RUSTFLAGS` to build scripts, and with all that debug
/// information has.
#[test]
fn two_folders_make_the_same_program_and_build_scripts_are_not_left_out() {
    let (one, two) = (fixture(), fixture());
    for arguments in [&[][..], &["--target", &host()]] {
        let (first, program) = built(&one, arguments);
        let (second, _) = built(&two, arguments);
        assert!(first == second, "{arguments:?}: {program:?}");
        let (_, stdout, _) = text(&mut Command::new(program));
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines[..2], ["/workspace/part.rs"; 2]);
        assert!(lines[2].starts_with("/target/") && lines[2].ends_with("/out/generated.rs"));
        assert_eq!(lines[3], "off UTC C 315532800");
    }
}

#[test]
fn a_plain_build_and_a_reproducible_one_share_nothing() {
    let fixture = fixture();
    let (first, program) = built(&fixture, &[]);
    assert!(!fixture.path("target/debug").exists());
    let (code, _, stderr) = text(&mut fixture.cargo(&["build"]));
    assert_eq!((code, compiled(&stderr)), (Some(0), 1), "{stderr}");
    let root = fixture.dir.path().canonicalize().unwrap();
    let (_, stdout, _) = text(&mut Command::new(fixture.path("target/debug/fixture")));
    let part = root.join("part.rs");
    assert!(stdout.starts_with(part.to_str().unwrap()), "{stdout}");
    assert_eq!(built(&fixture, &[]), (first.clone(), program));
    // Elsewhere where it is asked for, and there in a folder of its own, too.
    let (code, _, stderr) =
        text(&mut fixture.cutile(&["build", "--target-dir", "other", "--reproducible"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(fs::read(fixture.path("other/reproducible/debug/fixture")).unwrap() == first);
}

#[test]
fn a_path_that_no_remap_reaches_is_told_each_time() {
    let fixture = fixture();
    let main = MAIN.replace("{VALUES}", "{VALUES} {}").replace(
        "generated());",
        "generated(), concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/data\"));",
    );
    fixture.write("src/main.rs", &main);
    let data = fixture.dir.path().canonicalize().unwrap().join("data");
    for _ in 0..2 {
        let (code, _, stderr) = text(&mut fixture.cutile(&["build", "--reproducible"]));
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stderr.contains("has paths of this machine that no remap reaches"), "{stderr}");
        assert!(stderr.contains(data.to_str().unwrap()), "{stderr}");
    }
}

#[test]
fn a_package_outside_of_the_workspaces_folder_is_told() {
    let fixture = fixture();
    let other = tempfile::tempdir().unwrap();
    let other = other.path().canonicalize().unwrap();
    fs::create_dir_all(other.join("src")).unwrap();
    fs::write(other.join("src/lib.rs"), "pub fn here() -> &'static str { file!() }").unwrap();
    let package = "[package]\nname = \"other\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(other.join("Cargo.toml"), package).unwrap();
    let manifest = fs::read_to_string(fixture.path("Cargo.toml")).unwrap();
    let dependency = format!("[dependencies]\nother = {{ path = {other:?} }}\n");
    fixture.write("Cargo.toml", &(manifest + &dependency));
    fixture.write("src/main.rs", &MAIN.replace("generated());", "other::here());"));
    let (code, _, stderr) = text(&mut fixture.cargo(&["generate-lockfile", "--offline"]));
    assert_eq!(code, Some(0), "{stderr}");
    let (code, _, stderr) = text(&mut fixture.cutile(&["build", "--reproducible"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(&format!("{} is used by its path", other.display())), "{stderr}");
    let (_, stdout, _) = text(&mut Command::new(fixture.path("target/reproducible/debug/fixture")));
    let name = other.file_name().unwrap().to_str().unwrap();
    assert!(stdout.contains(&format!("../{name}/src/lib.rs")), "{stdout}");
}

#[test]
fn what_the_user_has_before_rustc_stays_there() {
    let fixture = fixture();
    let wrapper = fixture.path("wrapper");
    let noted = fixture.path("noted");
    program(&wrapper, &format!("#!/bin/sh\necho \"$@\" >> {noted:?}\nexec \"$@\"\n"));
    let build = || {
        let mut command = fixture.cutile(&["build", "--reproducible"]);
        text(command.env("RUSTC_WRAPPER", &wrapper))
    };
    let (code, _, stderr) = build();
    assert_eq!(code, Some(0), "{stderr}");
    let noted = fs::read_to_string(noted).unwrap();
    for unit in ["--crate-name build_script_build ", "--crate-name fixture "] {
        let line = noted.lines().find(|line| line.contains(unit)).expect(&noted);
        assert!(line.contains("=/workspace ") && !line.starts_with("--"), "{line}");
    }
    let (code, _, stderr) = build();
    assert_eq!((code, compiled(&stderr)), (Some(0), 0), "{stderr}");
}

#[test]
fn a_command_that_makes_nothing_and_a_wrong_call_say_what_to_do() {
    let fixture = fixture();
    for command in ["run", "check", "fmt"] {
        let (code, _, stderr) = text(&mut fixture.cutile(&[command, "--reproducible"]));
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("cargo cutile build --release --reproducible"), "{stderr}");
    }
    built(&fixture, &[]);
    let mut rustc = Command::new(fixture.path("target/reproducible/cargo-cutile-rustc"));
    let (code, _, stderr) = text(rustc.arg("rustc").env_remove("CARGO_CUTILE_REMAP"));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("call that"), "{stderr}");
}
