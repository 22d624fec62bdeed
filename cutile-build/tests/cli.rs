//! The command, as a process, on a small crate with a toolkit whose programs only answer.
#![cfg(all(feature = "cli", unix))]

#[path = "cli/report.rs"]
mod report;
#[path = "cli/reproducible.rs"]
mod reproducible;

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const CUTILE: &str = env!("CARGO_BIN_EXE_cargo-cutile");
const CARGO: &str = env!("CARGO");

/// What could stand in the environment of this test and is not to reach the fixture.
const NOT_INHERITED: [&str; 14] = [
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_NET_OFFLINE",
    "CARGO_PKG_NAME",
    "CARGO_TARGET_DIR",
    "CUDA_HOME",
    "CUDA_TOOLKIT_PATH",
    "CUTILE_VIRTUAL_GPU",
    "LD_LIBRARY_PATH",
    "LIBCLANG_PATH",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
];

/// A workspace of one crate. Its build script prints what the CUDA crates' read.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    /// Its `.cargo` includes `.cutile/cargo.toml`, which is not there yet.
    fn new() -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap() };
        fixture.write(
            "Cargo.toml",
            "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [package.metadata.cutile]\ntargets = [\"sm_89\", \"sm_90\"]\n[workspace]\n",
        );
        fixture.write(
            "build.rs",
            "fn main() {\n\
             for name in [\"CUDA_TOOLKIT_PATH\", \"CUDA_HOME\", \"LIBCLANG_PATH\"] {\n\
             println!(\"cargo:rerun-if-env-changed={name}\");\n\
             println!(\"cargo:warning={name}={:?}\", std::env::var_os(name));\n}\n}\n",
        );
        fixture.write(
            "src/main.rs",
            "fn main() {\n\
             for name in [\"CARGO_CUTILE\", \"CUTILE_VIRTUAL_GPU\", \"CUTILE_TILEIRAS_PATH\"] {\n\
             println!(\"{name}={:?}\", std::env::var_os(name));\n}\n\
             std::process::exit(7);\n}\n\
             #[test]\nfn no_virtual_gpu() {\n\
             assert_eq!(std::env::var_os(\"CUTILE_VIRTUAL_GPU\"), None);\n}\n",
        );
        // As in this repository.
        fixture.write(".cargo/config.toml", "include = [\"toolkit.toml\"]\n");
        fixture.write(".cargo/toolkit.toml", include_str!("../../.cargo/toolkit.toml"));
        fixture
    }

    fn with_toolkit() -> Self {
        let fixture = Self::new();
        toolkit(&fixture.path(".cutile/toolkit"));
        fixture.write(".cutile/libclang/libclang.so", "");
        fixture
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        command.current_dir(self.dir.path()).env("CARGO", CARGO).args(arguments);
        command
    }

    fn cutile(&self, arguments: &[&str]) -> Command {
        self.command(CUTILE, arguments)
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        self.command(CARGO, arguments)
    }
}

/// Another process writes it, so that none that this one starts at the same time inherits it open
/// for writing, which the system refuses to run.
fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut shell = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
}

fn toolkit(root: &Path) {
    for name in ["tileiras", "ptxas"] {
        program(&root.join("bin").join(name), "#!/bin/sh\necho 'tools, release 13.5, V13.5.37'\n");
    }
    for file in ["lib/libnvvm.so.4", "include/cuda.h"] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "").unwrap();
    }
}

fn text(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let string = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), string(stdout), string(stderr))
}

fn compiled(stderr: &str) -> usize {
    stderr.lines().filter(|line| line.trim_start().starts_with("Compiling")).count()
}

#[test]
fn after_the_wrapper_plain_cargo_compiles_nothing_and_has_the_same_bytes() {
    let fixture = Fixture::with_toolkit();
    let (code, _, first) = text(&mut fixture.cutile(&["cutile", "build"]));
    assert_eq!(code, Some(0), "{first}");
    assert_eq!(compiled(&first), 1, "{first}");
    let root = fixture.dir.path().canonicalize().unwrap();
    for (name, path) in
        [("CUDA_TOOLKIT_PATH", ".cutile/toolkit"), ("LIBCLANG_PATH", ".cutile/libclang")]
    {
        let line = format!("{name}=Some({:?})", root.join(path));
        assert!(first.contains(&line), "{line}: {first}");
    }

    let (code, _, plain) = text(&mut fixture.cargo(&["build"]));
    assert_eq!((code, compiled(&plain)), (Some(0), 0), "{plain}");
    let (_, _, again) = text(&mut fixture.cutile(&["build"]));
    assert_eq!(compiled(&again), 0, "{again}");

    // The other way round, too.
    text(&mut fixture.cargo(&["clean"]));
    let (_, _, plain) = text(&mut fixture.cargo(&["build"]));
    assert_eq!(compiled(&plain), 1, "{plain}");
    let (_, _, wrapper) = text(&mut fixture.cutile(&["build"]));
    assert_eq!(compiled(&wrapper), 0, "{wrapper}");
}

#[test]
fn a_valid_cuda_home_is_left_as_it_is_where_nothing_is_installed() {
    let fixture = Fixture::new();
    let home = fixture.path("cuda");
    toolkit(&home);
    let with_home = |mut command: Command| {
        text(command.env("CUDA_HOME", &home).env("LIBCLANG_PATH", "/libclang"))
    };
    let (code, _, first) = with_home(fixture.cutile(&["build"]));
    assert_eq!((code, compiled(&first)), (Some(0), 1), "{first}");
    assert!(first.contains("CUDA_TOOLKIT_PATH=None"), "{first}");
    assert!(!fixture.path(".cutile").exists());
    let (_, _, plain) = with_home(fixture.cargo(&["build"]));
    assert_eq!(compiled(&plain), 0, "{plain}");
}

#[test]
fn s07_an_installed_toolkit_goes_before_a_foreign_cuda_home_for_wrapper_and_cargo() {
    let fixture = Fixture::with_toolkit();
    let with_home = |mut command: Command| text(command.env("CUDA_HOME", "/another/cuda"));
    let (_, _, first) = with_home(fixture.cutile(&["build"]));
    assert!(first.contains(".cutile/toolkit\")"), "{first}");
    let (_, _, plain) = with_home(fixture.cargo(&["build"]));
    assert_eq!(compiled(&plain), 0, "{plain}");
}

#[test]
fn what_an_earlier_run_recorded_is_not_taken_for_the_users_wish() {
    let fixture = Fixture::with_toolkit();
    text(&mut fixture.cutile(&["build"]));
    let record = fixture.path(".cutile/cargo.toml");
    let right = fs::read_to_string(&record).unwrap();
    // As after the workspace was moved; the alias hands this program what the file says.
    let root = fixture.dir.path().canonicalize().unwrap();
    fs::write(&record, right.replace(root.to_str().unwrap(), "/was/here")).unwrap();
    let (code, _, stderr) = text(
        fixture
            .cutile(&["build"])
            .env("CUDA_TOOLKIT_PATH", "/was/here/.cutile/toolkit")
            .env("LIBCLANG_PATH", "/was/here/.cutile/libclang"),
    );
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(fs::read_to_string(&record).unwrap(), right);
    let (_, _, plain) = text(&mut fixture.cargo(&["build"]));
    assert_eq!(compiled(&plain), 0, "{plain}");
}

#[test]
fn a_wrong_path_of_the_user_is_an_error_and_nothing_is_installed() {
    let fixture = Fixture::with_toolkit();
    let (code, _, stderr) =
        text(fixture.cutile(&["build"]).env("CUDA_TOOLKIT_PATH", "/no/such/toolkit"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("CUDA_TOOLKIT_PATH=/no/such/toolkit"), "{stderr}");
    assert!(stderr.contains("there is no such folder"), "{stderr}");
    assert!(!fixture.path("target").exists());
}

#[test]
fn s12_without_a_driver_run_is_virtual_and_says_so_but_test_is_not() {
    let fixture = Fixture::with_toolkit();
    let (code, stdout, stderr) =
        text(&mut fixture.cutile(&["--virtual-gpu", "sm_80,sm_80", "run"]));
    assert_eq!(code, Some(7), "the program's own code: {stderr}");
    assert!(stdout.contains("CUTILE_VIRTUAL_GPU=Some(\"sm_80,sm_80\")"), "{stdout}");
    assert!(stdout.contains("CUTILE_TILEIRAS_PATH=None"), "{stdout}");
    assert!(stdout.contains(&format!("CARGO_CUTILE=Some({CUTILE:?})")), "{stdout}");
    assert!(!stderr.contains("computes NOTHING"), "{stderr}");

    let (_, folder, _) = text(&mut fixture.cutile(&["virtual-gpu", "--path"]));
    assert!(Path::new(folder.trim_end()).join("libcuda.so.1").is_file(), "{folder}");

    let (code, _, stderr) = text(&mut fixture.cutile(&["test"]));
    assert_eq!(code, Some(0), "{stderr}");

    let (code, stdout, stderr) = text(&mut fixture.cutile(&["run"]));
    assert_eq!(code, Some(7), "{stderr}");
    let banners = stderr.matches("sm_89, which records launches and computes NOTHING").count();
    // On a machine with a driver the program runs on that.
    if banners == 0 {
        assert!(stdout.contains("CUTILE_VIRTUAL_GPU=None"), "{stdout}");
    } else {
        assert_eq!(banners, 2, "{stderr}");
        assert!(stdout.contains("CUTILE_VIRTUAL_GPU=Some(\"sm_89\")"), "{stdout}");
    }
}

/// A folder with a `python3` that notes its arguments and downloads nothing.
fn python(fixture: &Fixture, text: &str) -> PathBuf {
    let folder = fixture.path("path");
    program(&folder.join("python3"), text);
    folder
}

#[test]
fn off_line_pip_is_never_called_and_both_commands_are_printed() {
    let fixture = Fixture::new();
    let path = python(&fixture, "#!/bin/sh\necho called > called\n");
    let run = |arguments: &[&str], variable: &str| {
        text(fixture.cutile(arguments).env("PATH", &path).env("CARGO_NET_OFFLINE", variable))
    };
    for (arguments, variable) in [
        (&["--offline", "build"][..], "false"),
        (&["build", "--offline"], "false"),
        (&["build", "--frozen"], "false"),
        (&["build"], "true"),
        (&["toolkit", "install"], "true"),
        (&["toolkit", "install", "--offline"], "false"),
    ] {
        let (code, _, stderr) = run(arguments, variable);
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cargo cutile toolkit fetch --to DIR"), "{stderr}");
        assert!(stderr.contains("cargo cutile toolkit install --from DIR"), "{stderr}");
        assert!(!fixture.path("called").exists(), "{arguments:?}");
        assert!(!fixture.path(".cutile").exists(), "{arguments:?}");
    }
}

#[test]
fn without_python_or_pip_there_is_one_sentence() {
    let fixture = Fixture::new();
    let empty = fixture.path("empty");
    let path = python(&fixture, "#!/bin/sh\n[ \"$1\" = --version ]\n");
    for (path, words) in [(&empty, "python3 was not found"), (&path, "python3 has no pip")] {
        let (code, _, stderr) = text(fixture.cutile(&["toolkit", "install"]).env("PATH", path));
        assert_eq!(code, Some(1));
        assert!(stderr.starts_with("error: ") && stderr.contains(words), "{stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    }
}

#[test]
fn the_download_is_announced_and_pinned_and_goes_on_after_a_failure() {
    let fixture = Fixture::new();
    let path = python(
        &fixture,
        "#!/bin/sh\n[ \"$*\" = '-m pip --version' ] && exit 0\n\
         echo \"$*\" > called\nfor last; do :; done\nwhile read -r line; do echo \"$line\" >> called\n\
         done < \"$last\" || :\n\
         while [ $# -gt 0 ]; do [ \"$1\" = --requirement ] && while read -r line; do\n\
         echo \"$line\" >> called; done < \"$2\"; shift; done\nexit 1\n",
    );
    let (code, _, stderr) = text(fixture.cutile(&["toolkit", "install"]).env("PATH", path));
    assert_eq!(code, Some(1));
    let announced = stderr.find("NVIDIA Software License").expect(&stderr);
    assert!(announced < stderr.find("Downloading nvidia-cuda-tileiras").expect(&stderr));
    assert!(stderr.contains("call this again to go on"), "{stderr}");
    let called = fs::read_to_string(fixture.path("called")).unwrap();
    for words in [
        "-m pip --disable-pip-version-check download --only-binary :all: --no-deps --require-hashes",
        "nvidia-cuda-tileiras==13.5.37 --hash=sha256:d1657aa0",
        "--hash=sha256:095bc8ab",
    ] {
        assert!(called.contains(words), "{words}: {called}");
    }
    assert!(!fixture.path(".cutile/toolkit").exists());
    assert_eq!(fs::read_to_string(fixture.path(".cutile/.gitignore")).unwrap(), "*\n");
}

#[test]
fn a_name_that_is_spelled_wrong_is_told_before_anything_is_downloaded() {
    let fixture = Fixture::new();
    let path = python(&fixture, "#!/bin/sh\nexit 1\n");
    for (name, meant) in [("recrod", "record"), ("inspekt", "inspect"), ("biuld", "build")] {
        let (code, _, stderr) = text(fixture.cutile(&[name, "--help"]).env("PATH", &path));
        assert_eq!(code, Some(1));
        let words = format!(
            "{name} is a command neither of cargo cutile nor of cargo; did you mean {meant}?"
        );
        assert!(stderr.contains(&words), "{stderr}");
        assert!(!fixture.path(".cutile").exists());
    }
}

#[test]
fn what_compiles_nothing_needs_no_toolkit() {
    let fixture = Fixture::new();
    let (code, stdout, stderr) =
        text(&mut fixture.cutile(&["--offline", "metadata", "--no-deps", "--format-version=1"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.starts_with('{'));
    assert!(!fixture.path(".cutile").exists());
}

#[test]
fn the_toolkit_report_says_which_and_why() {
    let fixture = Fixture::with_toolkit();
    let (code, stdout, stderr) = text(&mut fixture.cutile(&["toolkit"]));
    assert_eq!(code, Some(0), "{stderr}");
    for words in ["/.cutile/toolkit", "installed it here", "13.5, V13.5.37", "libnvvm.so.4"] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    assert!(!stdout.contains('\u{1b}'));
    assert!(stdout.lines().all(|line| line.chars().count() <= 80), "{stdout}");
}

#[test]
fn help_fits_and_an_unknown_target_is_refused() {
    let fixture = Fixture::new();
    for arguments in [&["--help"][..], &["cutile", "toolkit", "--help"], &["virtual-gpu", "-h"]] {
        let (code, stdout, _) = text(&mut fixture.cutile(arguments));
        assert_eq!(code, Some(0));
        assert!(stdout.lines().all(|line| line.chars().count() <= 80), "{stdout}");
    }
    let (code, _, stderr) = text(&mut fixture.cutile(&["--virtual-gpu", "sm_81", "run"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("sm_80"), "{stderr}");
}

#[test]
fn a_virtual_gpu_for_a_command_that_runs_nothing_is_refused() {
    let fixture = Fixture::new();
    for command in [&["doctor"][..], &["toolkit"], &["cache", "stats"]] {
        let (code, _, stderr) =
            text(&mut fixture.cutile(&[&["--virtual-gpu", "sm_90"], command].concat()));
        assert_eq!(code, Some(2));
        assert!(stderr.contains("leave --virtual-gpu out"), "{stderr}");
    }
}

#[test]
fn outside_of_a_workspace_the_error_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Fixture { dir };
    let (code, _, stderr) = text(&mut fixture.cutile(&["build"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("a folder with a Cargo.toml"), "{stderr}");
    assert_eq!(fixture.dir.path().read_dir().unwrap().count(), 0);
    assert_ne!(OsStr::new(CUTILE), OsStr::new(CARGO));
}
