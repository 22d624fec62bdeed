//! `doctor`, as a process, on machines that have nothing, a toolkit, or a driver made here.
#![cfg(all(feature = "cli", unix))]

mod embedded;

use cutile_build::virtual_gpu::VirtualGpu;
use embedded::{Called, Home, call};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

fn checks(called: &Called) -> Vec<(String, String, String)> {
    let value = called.json();
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let checks = value["checks"].as_array().unwrap().iter();
    checks.map(|check| (text(check, "name"), text(check, "status"), text(check, "found"))).collect()
}

#[track_caller]
fn status(checks: &[(String, String, String)], name: &str) -> String {
    let found = checks.iter().find(|(found, ..)| found == name);
    found.unwrap_or_else(|| panic!("no {name} in {checks:#?}")).1.clone()
}

/// Whether this machine has what the tests below say that it has not.
fn has(program: &str) -> bool {
    Path::new("/usr/bin").join(program).exists() || Path::new("/bin").join(program).exists()
}

/// A program that another process writes, so that none that this one starts has it open.
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

fn toolkit(root: &Path, ptxas: &str) {
    let answer =
        |release: &str| format!("#!/bin/sh\necho 'tools, release {release}, V{release}.37'\n");
    program(&root.join("bin/tileiras"), &answer("13.5"));
    program(&root.join("bin/ptxas"), &answer(ptxas));
    for file in ["lib/libnvvm.so.4", "include/cuda.h"] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), "").unwrap();
    }
}

#[test]
fn on_a_machine_with_nothing_every_line_says_what_to_do_and_nothing_fails() {
    let home = Home::new();
    let empty = home.path("empty");
    fs::create_dir(&empty).unwrap();
    let doctor = |arguments: &[&str]| {
        call(home.command(&[&["doctor"], arguments].concat()).env("PATH", &empty))
    };
    let found = doctor(&["--json"]).expect(0);
    let checks = checks(&found);
    for name in ["rustc", "cargo"] {
        assert_eq!(status(&checks, name), "warn");
    }
    for name in ["cache kernels", "cache shaders", "cache build", "variables"] {
        assert_eq!(status(&checks, name), "ok");
    }
    for check in found.json()["checks"].as_array().unwrap() {
        let has_advice = check["advice"].is_string();
        assert_eq!(has_advice, check["status"] != "ok", "{check}");
    }
    doctor(&[]).expect(0).fits().says(&["rustup.rs", "not there yet", "none is set"]);
    // Nothing is broken, only absent, unless this machine has a driver that does not work.
    if status(&checks, "driver") == "warn" {
        doctor(&["--strict"]).expect(0);
    }
    assert_eq!(fs::read_dir(home.root()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_toolkit_is_named_and_one_of_two_releases_is_a_warning() {
    let home = Home::new();
    let root = home.path("cuda");
    toolkit(&root, "13.5");
    let with = |name: &str, value: &Path| {
        let found = call(home.command(&["doctor", "--json"]).env(name, value)).expect(0);
        checks(&found)
    };
    let found = with("CUDA_TOOLKIT_PATH", &root);
    assert_eq!(status(&found, "toolkit"), "ok");
    assert!(found[0].2.contains("tileiras 13.5, V13.5.37"), "{found:?}");
    assert_eq!(status(&found, "variable"), "ok");
    toolkit(&root, "12.9");
    assert_eq!(status(&with("CUDA_TOOLKIT_PATH", &root), "toolkit"), "warn");
    assert_eq!(status(&with("CUDA_TOOLKIT_PATH", &home.path("none")), "toolkit"), "fail");
    call(home.command(&["doctor", "--strict"]).env("CUDA_TOOLKIT_PATH", home.path("none")))
        .expect(1)
        .fits()
        .says(&["fail toolkit", "unset it"]);
}

#[test]
fn variables_that_change_code_are_a_warning_with_what_to_do() {
    let home = Home::new();
    let mut command = home.command(&["doctor"]);
    command.env("CUTILE_JIT_OPT_LEVEL", "1").env("CUTILE_BUILD_JOBS", "many");
    call(&mut command).expect(0).fits().says(&[
        "warn variable CUTILE_JIT_OPT_LEVEL=1 changes the code",
        "fail variable CUTILE_BUILD_JOBS=\"many\" cannot be used",
    ]);
}

#[test]
fn devices_are_compared_with_what_a_program_embeds() {
    let home = Home::new();
    let app = home.app("app");
    let driver = VirtualGpu::build(&home.path("virtual-gpu"), "rustc".as_ref()).unwrap();
    let mut command = home.command(&["doctor", app.to_str().unwrap(), "--json"]);
    command.env("LD_LIBRARY_PATH", driver.library_dir()).env("CUTILE_VIRTUAL_GPU", "sm_90,sm_86");
    let found = checks(&call(&mut command).expect(0));
    assert_eq!(status(&found, "driver"), "warn");
    let embedded = found.iter().find(|(name, ..)| name == "embedded").unwrap();
    assert_eq!(embedded.2, "app 1.2.3: 3 kernels for sm_80, sm_90, 1 shader");
    assert_eq!(status(&found, "device 0"), "ok");
    // Without a toolkit nothing could compile what is missing.
    let has_toolkit = status(&found, "toolkit") == "ok";
    assert_eq!(status(&found, "device 1"), if has_toolkit { "warn" } else { "fail" });
}

#[test]
fn a_virtual_gpu_that_has_no_device_says_which_variable_gives_it_some() {
    let home = Home::new();
    let driver = VirtualGpu::build(&home.path("virtual-gpu"), "rustc".as_ref()).unwrap();
    let mut command = home.command(&["doctor"]);
    command.env("LD_LIBRARY_PATH", driver.library_dir()).env("CUTILE_VIRTUAL_GPU", "bogus");
    call(&mut command)
        .expect(0)
        .says(&["fail driver the virtual GPU", "let CUTILE_VIRTUAL_GPU name its devices"]);
}

#[test]
fn a_program_whose_images_are_damaged_fails() {
    let home = Home::new();
    let app = home.app("app");
    let json = home.cutile(&["inspect", app.to_str().unwrap(), "--json"]).expect(0).json();
    let image = &json["bundles"][0]["kernels"][0]["images"][0];
    let at = image["offset"].as_u64().unwrap() + image["stored"].as_u64().unwrap() / 2;
    let mut bytes = fs::read(&app).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 1;
    fs::write(&app, bytes).unwrap();
    let called = home.cutile(&["doctor", app.to_str().unwrap(), "--strict"]).expect(1);
    called.says(&["fail embedded", "does not match its digest", "cargo cutile verify"]);
}

#[test]
fn a_driver_that_does_not_load_or_ends_its_process_is_a_failure_and_not_the_end() {
    let home = Home::new();
    let folder = home.path("broken");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("libcuda.so.1"), "no library").unwrap();
    let doctor = || {
        let mut command = home.command(&["doctor", "--json"]);
        checks(&call(command.env("LD_LIBRARY_PATH", &folder)).expect(0))
    };
    assert_eq!(status(&doctor(), "driver"), "fail");
    if !has("cc") {
        return;
    }
    let source = home.write(
        "crash.c",
        "#include <stdlib.h>\nint cuInit(unsigned f) { abort(); }\n\
        int cuDriverGetVersion(int *v) { *v = 13050; return 0; }\n\
        int cuDeviceGetCount(int *c) { return 1; }\nint cuDeviceGet(int *d, int o) { return 1; }\n\
        int cuDeviceGetAttribute(int *v, int a, int d) { return 1; }\n\
        int cuDeviceGetName(char *n, int l, int d) { return 1; }\n",
    );
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libcuda.so.1"))
        .arg(source)
        .status();
    assert!(built.unwrap().success());
    let found = doctor();
    assert_eq!(status(&found, "driver"), "fail");
    let driver = found.iter().find(|(name, ..)| name == "driver").unwrap();
    assert!(driver.2.contains("it ended the process that loaded it"), "{driver:?}");
}
