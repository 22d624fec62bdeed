//! `verify --rebuild`, on a crate whose build script makes a bundle without compiling anything.
#![cfg(all(feature = "cli", unix))]

mod embedded;

use cutile_embed::manifest::Manifest;
use embedded::fixture::{self, Bundle, Plan};
use embedded::{Called, GEMM, Home, call};
use std::fs;
use std::path::{Path, PathBuf};

/// What a build script leaves, and what it was asked for.
const SCRIPT: &str = r#"
use std::{env, fs, path::Path};
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = Path::new(&env::var_os("OUT_DIR").unwrap()).join("cutile");
    fs::create_dir_all(&out).unwrap();
    for file in fs::read_dir("bundle").unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), out.join(file.file_name())).unwrap();
    }
    let names = ["CUTILE_BUILD_CACHE", "CUTILE_BUILD_TARGETS", "CUTILE_BUILD_PREBUILT",
                 "CUDA_RUST_DEBUG", "CUTILE_BUILD", "CARGO_FEATURE_LARGE"];
    let values = names.map(|name| env::var(name).unwrap_or_default()).join(" ");
    fs::write("asked", values).unwrap();
}
"#;

/// A workspace with the package `app` 1.2.3.
fn workspace() -> Home {
    let home = Home::new();
    home.write(
        "Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"1.2.3\"\nedition = \"2024\"\n\
         [features]\nlarge = []\n[workspace]\n",
    );
    home.write("build.rs", SCRIPT);
    home.write("src/lib.rs", "");
    home
}

fn plan() -> Plan {
    Plan::new("app", &["sm_80", "sm_90"])
}

/// Without the toolkit that made it, which these tests have not.
fn untooled(mut built: Bundle) -> Bundle {
    let mut manifest: Manifest = serde_json::from_slice(&built.manifest).unwrap();
    manifest.toolkit = None;
    built.manifest = serde_json::to_vec_pretty(&manifest).unwrap();
    built.manifest.push(b'\n');
    built
}

/// What the sources make from now on.
fn sources(home: &Home, built: &Bundle) {
    home.write("bundle/index.bin", &built.index);
    home.write("bundle/manifest.json", &built.manifest);
    for (target, pack) in &built.packs {
        home.write(&format!("bundle/images-{target}.pack"), pack);
    }
    home.write("bundle/shaders.pack", built.shaders.as_ref().unwrap());
}

/// A program with this bundle.
fn app(home: &Home, built: &Bundle) -> PathBuf {
    home.write("shipped", fixture::file(built, 1013))
}

fn rebuild(home: &Home, file: &Path, more: &[&str]) -> Called {
    let arguments = [&["verify", file.to_str().unwrap(), "--rebuild"], more].concat();
    let mut command = home.command(&arguments);
    let cargo = Path::new(env!("CARGO"));
    // Beside this cargo there is a rustc.
    let path = format!("{}:/usr/bin:/bin", cargo.parent().unwrap().display());
    command.env("CARGO", cargo).env("PATH", path).env("CUTILE_BUILD", "skip");
    call(&mut command)
}

#[test]
fn the_same_sources_are_the_same_to_the_byte_and_the_script_runs_each_time() {
    let home = workspace();
    let built = untooled(plan().build());
    sources(&home, &built);
    let file = app(&home, &built);
    for _ in 0..2 {
        let _ = fs::remove_file(home.path("asked"));
        rebuild(&home, &file, &[]).expect(0).fits().says(&[
            "app 1.2.3: 6 rows, 9 entries: all holds",
            "app 1.2.3 from ",
            &format!("same {GEMM}: sm_80, sm_90"),
            "same vector::add<f32, 128>: sm_80, sm_90, 2 times",
            "3 kernels, 6 images: what the sources make, to the byte",
        ]);
        let asked = fs::read_to_string(home.path("asked")).unwrap();
        assert_eq!(asked, "off sm_80,sm_90 ignore none  ");
    }
    let found = rebuild(&home, &file, &["-p", "app", "--json", "--", "--features", "large"]);
    let found = found.expect(0).json();
    assert_eq!(found["ok"], true);
    let rebuilt = &found["rebuilt"][0];
    assert_eq!((&rebuilt["package"], &rebuilt["bytes"]), (&"app".into(), &true.into()));
    for key in ["version", "same", "fields", "shaders"] {
        assert!(rebuilt.get(key).is_some(), "{key} in {rebuilt:#}");
    }
    for key in ["kernel", "words", "status", "why", "targets"] {
        assert!(rebuilt["kernels"][0].get(key).is_some(), "{key} in {rebuilt:#}");
    }
    let asked = fs::read_to_string(home.path("asked")).unwrap();
    assert!(asked.ends_with(" 1"), "{asked}");
    // Nothing of it lies where a build puts what it makes.
    assert!(!home.path("target/debug").exists() && home.path("target/rebuild/debug").exists());
}

#[test]
fn what_differs_is_named() {
    let home = workspace();
    let file = app(&home, &untooled(plan().build()));
    let changed = |change: fn(&mut fixture::Image)| {
        untooled(plan().build_with(move |image| {
            if image.kernel.starts_with("gemm") && image.target == "sm_90" {
                change(image);
            }
        }))
    };
    sources(&home, &changed(|image| image.code.push(1)));
    rebuild(&home, &file, &[]).expect(1).fits().says(&[
        &format!("differs {GEMM}: its code for sm_90 a 16×8, b 8×16, n 4"),
        "same vector::add<f32, 128>: sm_80, sm_90, 2 times",
        "these sources do not make 1 of 3 kernels in",
        "check out those that it was built from",
    ]);
    let found = rebuild(&home, &file, &["--json"]).expect(1).json();
    assert_eq!(found["ok"], false);
    assert_eq!(found["rebuilt"][0]["kernels"][0]["status"], "differs");

    sources(&home, &changed(|image| image.key[0] ^= 1));
    rebuild(&home, &file, &[]).expect(1).fits().says(&[
        &format!("differs {GEMM}: its key for sm_90"),
        "the code of all kernels is what the sources make",
        "--reproducible",
    ]);

    let mut less = plan();
    less.kernels.retain(|kernel| kernel.function != "matmul");
    sources(&home, &untooled(less.build()));
    rebuild(&home, &file, &[]).expect(1).says(&[&format!("gone {GEMM}: the sources do not make")]);
    sources(&home, &untooled(plan().build()));
    let file = app(&home, &untooled(less.build()));
    rebuild(&home, &file, &[]).expect(1).says(&[&format!("missing {GEMM}: the file does not")]);
}

#[test]
fn what_cannot_be_rebuilt_is_trouble_and_nothing_is_compiled() {
    let home = workspace();
    let built = untooled(plan().build());
    let file = app(&home, &built);
    let trouble = |file: &Path, more: &[&str], says: &[&str]| {
        rebuild(&home, file, more).expect(2).says(says);
        assert!(!home.path("target").exists(), "{says:?}");
    };
    trouble(&file, &["-p", "other"], &["embeds nothing of other; it embeds app"]);
    let manifest = home.path("no/Cargo.toml");
    trouble(
        &file,
        &["--manifest-path", manifest.to_str().unwrap()],
        &["--manifest-path", "call it"],
    );

    let mut other = plan();
    other.package.name = "other".into();
    let other = home.write("other", fixture::file(&untooled(other.build()), 0));
    let says = "other 1.2.3 is embedded in";
    trouble(&other, &[], &[says, "is no package of the workspace", "which has app", "-p"]);

    let mut old = plan();
    old.package.version = "1.0.0".into();
    let old = home.write("old", fixture::file(&untooled(old.build()), 0));
    trouble(&old, &[], &["app 1.0.0", "the sources here are of 1.2.3", "check out"]);

    let mut bare = built.clone();
    bare.manifest.clear();
    let bare = home.write("bare", fixture::file(&bare, 0));
    trouble(&bare, &[], &["app 1.2.3 has no manifest"]);
    trouble(&home.write("none", "nothing"), &[], &["nothing is embedded in"]);

    // Those of the file are of a toolkit that is not here, and one is needed to find that out.
    let tooled = home.write("tooled", fixture::file(&plan().build(), 0));
    let called = rebuild(&home, &tooled, &["--offline"]).expect(2);
    assert!(called.stderr.contains("toolkit"), "{called:#?}");
    for name in ["tileiras", "ptxas"] {
        let path = home.write(
            &format!(".cutile/toolkit/bin/{name}"),
            "#!/bin/sh\necho 'tools, release 13.3, V13.3.36'\n",
        );
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode).unwrap();
    }
    home.write(".cutile/toolkit/lib/libnvvm.so.4", "");
    home.write(".cutile/toolkit/include/cuda.h", "");
    home.write(".cutile/libclang/libclang.so", "");
    trouble(
        &tooled,
        &[],
        &[
            "app 1.2.3 was built with tileiras 13.5, V13.5.37",
            "has 13.3, V13.3.36",
            "CUDA_TOOLKIT_PATH",
        ],
    );
}

#[test]
fn sources_that_do_not_build_are_trouble() {
    let home = workspace();
    let built = untooled(plan().build());
    sources(&home, &built);
    let file = app(&home, &built);
    home.write("src/lib.rs", "compile_error!(\"not this\");");
    let says = ["not this", "the sources of app do not build, and so nothing is compared"];
    rebuild(&home, &file, &[]).expect(2).says(&says);
    home.write("src/lib.rs", "");
    home.write("build.rs", "fn main() {}");
    rebuild(&home, &file, &[]).expect(2).says(&["made no bundle", "cutile_build::Builder"]);
    let called = home.cutile(&["verify", file.to_str().unwrap(), "-p", "app"]);
    called.expect(2).says(&["--rebuild"]);
}
