//! `--report`: a build script that says what a kernel crate's says, without kernels.

use super::{Fixture, compiled, text};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Says what `events.jsonl` has, notes the folder that it was said in, and ends as `status` has it.
const SCRIPT: &str = r#"
use std::os::unix::fs::MetadataExt as _;
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(folder) = std::env::var_os("CUTILE_BUILD_EVENTS") else { return };
    let folder = std::path::Path::new(&folder);
    let mode = std::fs::symlink_metadata(folder).unwrap().mode() & 0o777;
    std::fs::write("folder", format!("{mode:o} {}", folder.display())).unwrap();
    std::fs::write(folder.join("fixture-1.jsonl"), include_str!("events.jsonl")).unwrap();
    std::process::exit(include!("status"));
}
"#;

const BEGIN: &str = r#"{"ms":0,"event":"script","package":"fixture","version":"0.1.0","unix_ms":1796041860000}
{"ms":1,"event":"targets","targets":["sm_90"]}
{"ms":2,"event":"rehearsal_started","target":"sm_90"}
{"ms":80,"event":"job_queued","job":"abcd","target":"sm_90"}
{"ms":81,"event":"job_started","job":"abcd","slot":0}
{"ms":90,"event":"job_named","job":"abcd","kernel":"kernels::gemm<f16>"}
{"ms":91,"event":"rehearsal_ended","target":"sm_90","error":null}
"#;

const WORKED: &str = r#"{"ms":900,"event":"job_ended","job":"abcd","slot":0,"outcome":{"compiled":{"bytes":12345}}}
{"ms":950,"event":"bundle","specializations":1,"images":1,"bytes":4000,"shaders":0}
{"ms":960,"event":"script_ended","error":null}
"#;

const FAILED: &str = r#"{"ms":900,"event":"job_ended","job":"abcd","slot":0,"outcome":{"failed":{"what":"tileiras failed with exit status 3"}}}
{"ms":960,"event":"script_ended","error":"1 kernel does not compile"}
"#;

fn fixture(end: &str, status: &str) -> Fixture {
    let fixture = Fixture::with_toolkit();
    fixture.write("build.rs", SCRIPT);
    fixture.write("events.jsonl", &format!("{BEGIN}{end}"));
    fixture.write("status", status);
    fixture
}

#[test]
fn a_build_is_summed_up_in_a_line_and_a_page_and_nothing_is_built_for_it() {
    let fixture = fixture(WORKED, "0");
    let page = || fs::read_to_string(fixture.path("kernels.html")).unwrap();
    let (code, _, stderr) =
        text(&mut fixture.cutile(&["build", "--report", "kernels.html", "-p", "fixture"]));
    assert_eq!((code, compiled(&stderr)), (Some(0), 1), "{stderr}");
    let line = "     Kernels fixture: 1 image, 4.0 kB, for sm_90 in 1.0 s; tileiras ran 1 time\n";
    assert!(stderr.contains(line), "{stderr}");
    // No terminal: nothing is drawn, nothing is coloured.
    assert!(!stderr.contains('\u{1b}'), "{stderr}");
    for words in ["kernels::<wbr>gemm&lt;f16&gt;", "12.3 kB", "It succeeded", "build -p fixture"] {
        assert!(page().contains(words), "{words}: {}", page());
    }
    // The channel was this user's only, and is gone.
    let folder = fs::read_to_string(fixture.path("folder")).unwrap();
    let (mode, folder) = folder.split_once(' ').unwrap();
    assert_eq!(mode, "700");
    assert!(!std::path::Path::new(folder).exists(), "{folder}");

    // With a channel elsewhere, and with none, nothing has changed.
    let (_, _, again) = text(&mut fixture.cutile(&["build", "--report=kernels.html"]));
    assert_eq!(compiled(&again), 0, "{again}");
    assert!(!again.contains("Kernels fixture"), "{again}");
    assert!(page().contains("everything was up to date") && !page().contains("<table"));
    let (_, _, plain) = text(&mut fixture.cargo(&["build"]));
    assert_eq!(compiled(&plain), 0, "{plain}");
}

#[test]
fn a_build_that_fails_has_a_page_that_says_which_job() {
    let fixture = fixture(FAILED, "1");
    let (code, _, stderr) = text(&mut fixture.cutile(&["check", "--report", "kernels.html"]));
    assert_eq!(code, Some(101), "{stderr}");
    let page = fs::read_to_string(fixture.path("kernels.html")).unwrap();
    for words in ["What failed", "gemm&lt;f16&gt;</code> for sm_90", "exit status 3"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(!stderr.contains("Kernels fixture"), "{stderr}");
}

#[test]
fn a_program_keeps_its_arguments_and_its_exit_status() {
    let fixture = fixture(WORKED, "0");
    let arguments = ["--virtual-gpu", "sm_90", "run", "--report", "kernels.html", "--", "--report"];
    let (code, stdout, stderr) = text(&mut fixture.cutile(&arguments));
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stdout.contains("CUTILE_VIRTUAL_GPU=Some(\"sm_90\")"), "{stdout}");
    let page = fs::read_to_string(fixture.path("kernels.html")).unwrap();
    assert!(page.contains("gemm&lt;f16&gt;") && page.contains("run -- --report</code>"), "{page}");
}

#[test]
fn a_wrong_report_is_an_error_before_anything_is_built() {
    let fixture = fixture(WORKED, "0");
    for (arguments, words) in [
        (&["build", "--report"][..], "--report needs the file"),
        (&["build", "--report", "--release"], "--report needs the file"),
        (&["build", "--report", "no/such/a.html"], "no/such is no folder"),
        (&["build", "--report", "src"], "it is a folder"),
        (&["fmt", "--report", "a.html"], "cargo fmt compiles no kernels"),
        (&["--report", "a.html", "build"], "cargo cutile build --report kernels.html"),
    ] {
        let (code, _, stderr) = text(&mut fixture.cutile(arguments));
        assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
        assert!(!fixture.path("target").exists(), "{arguments:?}");
    }
}

#[test]
fn a_build_that_is_ended_ends_cargo_and_says_what_it_was_doing() {
    let fixture = fixture("", "{ std::thread::sleep(std::time::Duration::from_secs(3)); 0 }");
    let mut command = fixture.cutile(&["build", "--report", "kernels.html"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while !fixture.path("folder").exists() {
        assert!(start.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(200));
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let page = fs::read_to_string(fixture.path("kernels.html")).unwrap();
    for words in ["It failed (signal: 15", "tileiras ran for kernels::gemm&lt;f16&gt;"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}
