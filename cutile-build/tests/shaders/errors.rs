//! What stops a build, and with which words.

use crate::fixture::{Crate, GOOD, has};
use cutile_build::{BuildError, Builder, Emit, ShaderOptions};
use std::fs;

#[test]
fn s29_syntax_type_and_validation_errors_stop_the_build_with_place_and_marked_source() {
    let crate_ = Crate::with([
        ("syntax.wgsl", "fn f() {\n    let = 1;\n}\n"),
        ("types.wgsl", "fn f() -> u32 {\n    return 1.5;\n}\n"),
        // WGSL that breaks a rule which only the validator knows.
        (
            "rules.wgsl",
            "@group(0) @binding(0) var<storage, read> a: array<u32>;\n\
             @compute @workgroup_size(1) fn main() {\n    a[0] = 1u;\n}\n",
        ),
        ("good.wgsl", GOOD),
    ]);
    let error = crate_.build().unwrap_err();
    let BuildError::Shaders { failed, ok, .. } = &error else { panic!("{error}") };
    assert_eq!((failed.len(), *ok), (3, 1));
    has(
        &error.to_string(),
        &[
            "crate app: 3 of 4 shaders cannot be built",
            "shaders/syntax.wgsl:2:9",
            "let = 1;",
            "shaders/types.wgsl:2:12",
            "return 1.5;",
            "shaders/rules.wgsl:3:5",
            "a[0] = 1u;",
            // naga marks the place.
            "^",
        ],
    );
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let crate_ = Crate::with([("a.wgsl", "a"), ("b.wgsl", "b"), ("c.wgsl", GOOD)]);
    crate_.file("shaders/latin.wgsl", b"// caf\xe9\n");
    crate_.metadata(
        "[package.metadata.cutile]\nshaders = [\"shaders/*.wgsl\", \"nowhere/*.wgsl\"]\n\
         [[package.metadata.cutile.shader]]\npath = \"shaders/d.wgsl\"\n\
         [[package.metadata.cutile.shader]]\npath = \"shaders/c.wgsl\"\nentry-points = [\"man\"]\n",
    );
    has(
        &crate_.error(),
        &[
            "3 of 3 shaders",
            "shaders/a.wgsl:1:1",
            "shaders/b.wgsl:1:1",
            "there is no entry point `man`; the shader has `main`",
            "shaders/latin.wgsl:1",
            "`nowhere/*.wgsl`",
            "`shaders/d.wgsl`",
        ],
    );
}

#[test]
fn a_glob_that_matches_nothing_is_an_error() {
    let crate_ = Crate::with([]);
    has(&crate_.error(), &["`shaders/**/*.wgsl` matches no file below `shaders`"]);
    crate_.file("shaders/fx/blur.wgsl", GOOD);
    crate_.build().unwrap();
    // `*` stays within a folder.
    crate_.metadata("[package.metadata.cutile]\nshaders = [\"shaders/*.wgsl\"]\n");
    has(&crate_.error(), &["`shaders/*.wgsl` matches no file"]);
}

#[test]
fn a_glob_that_is_none_says_why() {
    let crate_ = Crate::new("[package.metadata.cutile]\nshaders = [\"shaders/[.wgsl\"]\n");
    has(&crate_.error(), &["`shaders/[.wgsl` is not a glob: ", "shaders/**/*.wgsl"]);
}

#[test]
fn a_glob_at_the_root_is_refused_for_cargo_would_watch_what_it_builds() {
    for glob in ["*.wgsl", "**/*.wgsl", "./*.wgsl", "{a,b}/*.wgsl"] {
        let crate_ = Crate::new("");
        crate_.file("a.wgsl", GOOD);
        let error = crate_.build_by(Builder::from_metadata().shaders([glob])).unwrap_err();
        has(&error.to_string(), &["no folder to start in", glob]);
    }
}

#[test]
fn a_path_outside_the_crate_is_an_error() {
    let crate_ = Crate::new("");
    crate_.file("../elsewhere/a.wgsl", GOOD);
    let absolute = crate_.root().join("../elsewhere/a.wgsl");
    let absolute = absolute.to_str().unwrap();
    for path in ["../elsewhere/a.wgsl", "shaders/../../elsewhere/a.wgsl", absolute] {
        let by_glob = Builder::from_metadata().shaders([path]);
        let by_options = Builder::from_metadata().shader(ShaderOptions::new(path));
        for builder in [by_glob, by_options] {
            let error = crate_.build_by(builder).unwrap_err().to_string();
            has(&error, &[path, "outside the crate", "Move or copy"]);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_outside_is_an_error() {
    use std::os::unix::fs::symlink;
    let crate_ = Crate::with([("good.wgsl", GOOD)]);
    crate_.file("../elsewhere/a.wgsl", GOOD);
    let elsewhere = crate_.root().join("../elsewhere");
    let file = crate_.root().join("shaders/linked.wgsl");
    symlink(elsewhere.join("a.wgsl"), &file).unwrap();
    has(&crate_.error(), &["`shaders/linked.wgsl` leads outside the crate", "elsewhere/a.wgsl"]);

    fs::remove_file(&file).unwrap();
    let folder = crate_.root().join("shaders/linked");
    symlink(&elsewhere, &folder).unwrap();
    has(&crate_.error(), &["`shaders/linked` leads outside the crate"]);
    // Where no glob looks into it, it does no harm.
    crate_.metadata("[package.metadata.cutile]\nshaders = [\"shaders/*.wgsl\"]\n");
    crate_.build().unwrap();
    let named = Builder::from_metadata().shader(ShaderOptions::new("shaders/linked/a.wgsl"));
    has(&crate_.build_by(named).unwrap_err().to_string(), &["leads outside the crate"]);

    // A link within the crate is a shader like others.
    fs::remove_file(&folder).unwrap();
    symlink("good.wgsl", &file).unwrap();
    crate_.build().unwrap();
    assert_eq!(crate_.manifest().shaders.len(), 2);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_an_error_only_where_a_shader_should_be() {
    use std::os::unix::fs::symlink;
    let crate_ = Crate::with([("good.wgsl", GOOD)]);
    symlink("gone", crate_.root().join("shaders/notes.txt")).unwrap();
    crate_.build().unwrap();
    symlink("gone", crate_.root().join("shaders/lost.wgsl")).unwrap();
    has(&crate_.error(), &["`shaders/lost.wgsl` cannot be read"]);
}

#[test]
fn a_file_that_is_not_utf8_is_named_with_the_line() {
    let crate_ = Crate::with([]);
    crate_.file("shaders/latin.wgsl", b"// one\n// caf\xe9\n");
    has(&crate_.error(), &["shaders/latin.wgsl:2: the file is not UTF-8"]);
}

#[test]
fn options_of_a_file_that_does_not_exist_name_the_nearest() {
    let crate_ = Crate::with([("matmul.wgsl", GOOD), ("scan.wgsl", GOOD)]);
    let options = ShaderOptions::new("shaders/matmull.wgsl");
    let error = crate_.build_by(Builder::from_metadata().shader(options)).unwrap_err();
    has(&error.to_string(), &["`shaders/matmull.wgsl`", "did you mean `shaders/matmul.wgsl`?"]);
}

#[test]
fn two_options_of_one_shader_are_an_error_wherever_they_are() {
    let crate_ = Crate::with([("a.wgsl", GOOD)]);
    let options = || ShaderOptions::new("./shaders/a.wgsl");
    let twice = Builder::from_metadata().shader(options()).shader(options());
    has(&crate_.build_by(twice).unwrap_err().to_string(), &["`shaders/a.wgsl` has options twice"]);
    crate_.metadata("[[package.metadata.cutile.shader]]\npath = \"shaders/a.wgsl\"\n");
    crate_.build().unwrap();
    let both = Builder::from_metadata().shader(options());
    has(&crate_.build_by(both).unwrap_err().to_string(), &["`shaders/a.wgsl` has options twice"]);
}

#[test]
fn two_shaders_with_one_module_are_an_error() {
    let crate_ = Crate::with([("a-b.wgsl", GOOD), ("a_b.wgsl", GOOD)]);
    has(
        &crate_.error(),
        &["`shaders/a-b.wgsl` and `shaders/a_b.wgsl` would both be `shaders::a_b`", "rename"],
    );
    let crate_ = Crate::with([("fx.wgsl", GOOD), ("fx/entry.wgsl", GOOD)]);
    has(&crate_.error(), &["an item for `shaders/fx.wgsl`", "`shaders::fx::entry`"]);
    // Such a folder alone hides nothing.
    Crate::with([("fx/entry.wgsl", GOOD), ("fx/a.wgsl", GOOD)]).build().unwrap();
}

#[test]
fn tables_are_checked() {
    for (table, parts) in [
        ("pth = \"a\"", &["`pth`; did you mean `path`?", "[[package.metadata.cutile.shader]]"][..]),
        ("path = 1", &["`shader[0].path`", "is 1", "expected a string"]),
        ("features = []", &["`shader[0]`", "a table with `path`"]),
        ("path = \"a\"\nfeatures = \"F\"", &["`shader[0].features`", "an array of strings"]),
        ("path = \"a\"\nentry-points = [1]", &["`shader[0].entry-points`", "array of strings"]),
        ("path = \"a\"\nconstants = { A = 1 }", &["`shader[0].constants`", "array of tables"]),
        ("path = \"a\"\nconstants = [1]", &["`shader[0].constants[0]`", "names and numbers"]),
        ("path = \"a\"\nconstants = [{ A = \"1\" }]", &["`shader[0].constants[0].A`", "number"]),
        ("path = \"a\"\nconstants = [{ A = nan }]", &["`shader[0].constants[0].A`", "finite"]),
        ("path = \"a\"\nemit = [\"hlsl\"]", &["`shader[0].emit`", "\"spirv\", \"wgsl\" or both"]),
    ] {
        let crate_ = Crate::new(&format!("[[package.metadata.cutile.shader]]\n{table}\n"));
        let error = crate_.error();
        has(&error, parts);
        has(&error, &["Cargo.toml"]);
    }
}

#[test]
fn a_failing_build_leaves_nothing_that_could_be_embedded() {
    let crate_ = Crate::with([("a.wgsl", GOOD)]);
    let builder =
        || Builder::from_metadata().shader_module().shader(ShaderOptions::new("shaders/a.wgsl"));
    crate_.build_by(builder()).unwrap();
    assert_eq!(crate_.files().len(), 4);
    crate_.file("shaders/a.wgsl", "broken");
    // As a build script that passes over the error.
    let _ = crate_.build_by(builder());
    assert_eq!(crate_.files(), []);
    // What is wrong before any shader is read does the same.
    crate_.file("shaders/a.wgsl", GOOD);
    crate_.build_by(builder()).unwrap();
    crate_.metadata("[package.metadata.cutile]\nshadres = []\n");
    let _ = crate_.build_by(builder());
    assert_eq!(crate_.files(), []);
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_crate_without_shaders_is_told_where_to_name_them() {
    let error = Crate::new("").error();
    has(&error, &["no shader is named", "shaders = [\"shaders/**/*.wgsl\"]", "`cuda`"]);
}

#[test]
fn an_unused_emit_is_no_second_output() {
    let crate_ = Crate::with([("a.wgsl", GOOD)]);
    let options = ShaderOptions::new("shaders/a.wgsl").emit(Emit::SpirV).emit(Emit::SpirV);
    crate_.build_by(Builder::from_metadata().shader(options)).unwrap();
    assert_eq!(crate_.row("shaders/a.wgsl").artifacts.len(), 2);
}
