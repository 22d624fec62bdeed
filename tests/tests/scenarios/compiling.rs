//! tileiras does something else than compile.

use crate::{IN_MEMORY, with_toolkit};
use cutile_tests::{FakeToolkit, Fault, Fixture};

#[test]
fn s08_tileiras_fails_for_one_target() {
    let probe = Fixture::new("probe", "s08");
    probe.cargo_toml(&["sm_90", "sm_100"], "");
    let (toolkit, cache) = (FakeToolkit::new(), cutile_tests::scratch());
    let build = || with_toolkit(probe.build().env("CUTILE_BUILD_CACHE", cache.path()), &toolkit);
    toolkit.set(&[("sm_100", Fault::Fails)]);
    let said = build().fails();
    for text in [
        "crate s08: 2 of 4 GPU images",
        "kernel small::double<64> for sm_100 (src/kernels.rs:",
        "kernel small::square<64> for sm_100 (src/kernels.rs:",
        "failed to compile Tile IR program",
        "its input is kept in ",
        "env -i ",
        "--gpu-name",
    ] {
        assert!(said.contains(text), "{text:?} is not in\n{said}");
    }
    let kept = said.split("its input is kept in ").nth(1).unwrap().lines().next().unwrap();
    assert!(std::path::Path::new(kept).is_file(), "{kept}");
    toolkit.set(&[]);
    assert_eq!(build().ok().tileiras_runs(), 2, "those for sm_90 are kept");
}

#[test]
fn s09_tileiras_is_killed_hangs_or_writes_too_little() {
    let probe = Fixture::new("probe", "s09");
    let (toolkit, cache) = (FakeToolkit::new(), cutile_tests::scratch());
    let build = |timeout: &str| {
        let build = probe
            .build()
            .env("CUTILE_BUILD_CACHE", cache.path())
            .env("CUTILE_BUILD_TIMEOUT", timeout);
        with_toolkit(build, &toolkit)
    };
    for (fault, timeout, text) in [
        (Fault::IsKilled, "60", "tileiras was killed by signal 9"),
        (Fault::WritesEmpty, "60", "tileiras ended well and wrote no image"),
        (Fault::WritesHalf, "60", "tileiras ended well and wrote only a part of the image"),
        // Rehearsals have the same limit.
        (Fault::Hangs, "15", "tileiras ran longer than 15 s and was killed"),
    ] {
        toolkit.set(&[("", fault)]);
        let said = build(timeout).fails();
        assert!(said.contains(text), "{fault:?}: {text:?} is not in\n{said}");
        assert!(said.contains("crate s09: 2 of 2 GPU images"), "{said}");
    }
    toolkit.set(&[]);
    let built = build("60").ok();
    assert_eq!(built.tileiras_runs(), 2, "nothing of the failures was kept");
    let run = built.program().on("sm_90").arguments(["install", "double"]).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
}

#[test]
fn s40_a_kernel_that_calls_a_tile_library_is_left_out() {
    let probe = Fixture::new("probe", "s40");
    let text = std::fs::read_to_string(probe.dir().join("src/kernels.rs")).unwrap();
    let text = text.replace(
        "/// The launches of the program.",
        "#[cutile::module]\npub mod linked {\n    use cutile::core::*;\n\n    \
         #[cutile::foreign]\n    \
         pub unsafe fn add_one(#[inout] x: Tile<f32, { [64] }>) -> Tile<f32, { [64] }>;\n\n    \
         #[cutile::entry()]\n    \
         pub fn plus_one(z: &mut Tensor<f32, { [64] }>) {\n        \
         let tile = z.load();\n        z.store(unsafe { add_one(tile) });\n    }\n}\n\n\
         /// The launches of the program.",
    );
    let text = text.replace(
        "    Ok(())\n",
        "    let library = concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/add_one.tilelib\");\n    \
         let library = cutile::tile_kernel::TileLibrarySpec::new(library);\n    \
         let options = cutile::tile_kernel::CompileOptions::new().tile_library(library);\n    \
         linked::plus_one(vector()?.partition([64])).compile_options(options).compile()?;\n    \
         Ok(())\n",
    );
    probe.write("src/kernels.rs", &text);
    // The rehearsal hashes it and does not link it.
    probe.write("add_one.tilelib", "not read");
    let built = probe.build().ok();
    let reason = "it links tile libraries, and its key holds digests of their files";
    let warning = format!("linked::plus_one for sm_90 is not embedded: {reason}");
    assert!(built.stderr.contains(&warning), "{}", built.stderr);
    let manifest = built.manifest();
    assert_eq!(
        manifest.0["left_out"],
        serde_json::json!([
            {"kernel": "linked::plus_one", "target": "sm_90", "reason": reason}
        ])
    );
    assert_eq!(manifest.kernels().len(), 2, "the others are embedded");
    let run = built.program().on("sm_90").arguments(["install", "double"]).ok();
    assert_eq!(run.line("1:double"), IN_MEMORY);
}
