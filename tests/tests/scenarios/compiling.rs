//! tileiras does something else than compile.

use crate::{IN_MEMORY, with_toolkit};
use cutile_tests::{Built, FakeToolkit, Fault, Fixture};

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

/// The probe for sm_90 and sm_100 with a kernel that begins with sm_100, launched `before` or after
/// the others of its warm-up.
fn with_scaled(name: &str, before: bool) -> Fixture {
    let probe = Fixture::new("probe", name);
    probe.cargo_toml(&["sm_90", "sm_100"], "");
    // Block-scaled matrix multiplication.
    probe.edit(
        "src/kernels.rs",
        "/// The launches of the program.",
        "#[cutile::module]\npub mod scaled {\n    use cutile::core::*;\n\n    \
         #[cutile::entry()]\n    \
         pub fn multiply(z: &mut Tensor<f32, { [16, 16] }>) {\n        \
         let x: Tile<f4e2m1fn, { [16, 16] }> = constant(f4e2m1fn::ZERO, shape![16, 16]);\n        \
         let sum: Tile<f32, { [16, 16] }> = constant(0.0, shape![16, 16]);\n        \
         let left: Tile<f8e4m3fn, { [16, 1] }> = constant(f8e4m3fn::ZERO, shape![16, 1]);\n        \
         let right: Tile<f8e4m3fn, { [1, 16] }> = constant(f8e4m3fn::ZERO, shape![1, 16]);\n        \
         z.store(mmaf_scaled(x, x, sum, left, right));\n    }\n}\n\n\
         /// The launches of the program.",
    );
    let launch = "    let matrix = api::meta::<f32>(&[64, 64]).sync()?;\n    \
                  scaled::multiply(matrix.partition([16, 16])).compile()?;\n";
    let at = if before { "    let vector = || api::meta" } else { "    Ok(())\n" };
    probe.edit("src/kernels.rs", at, &format!("{launch}{at}"));
    probe
}

const KEPT: &str = "[package.metadata.cutile]\n\
                    targets-for = { \"scaled::multiply\" = [\"sm_100\"] }\n";

fn targets(built: &Built, function: &str) -> Vec<String> {
    let manifest = built.manifest();
    let row = manifest.kernels().iter().find(|row| row["function"] == function).unwrap();
    row["images"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn s10_a_kernel_that_one_target_lacks_stops_the_build_until_it_is_kept_from_it() {
    let probe = with_scaled("s10", false);
    let said = probe.build().fails();
    let text =
        "cuda_tile.mmaf_scaled requires sm_100 or newer; selected Tile IR 13.5, target sm_90";
    assert!(said.contains("warm-up \"probe\" failed for sm_90"), "{said}");
    assert!(said.contains(text) && said.contains("src/kernels.rs:"), "{said}");
    probe.edit("Cargo.toml", "[package.metadata.cutile]\n", KEPT);
    let built = probe.build().ok();
    assert_eq!(targets(&built, "multiply"), ["sm_100"]);
    assert_eq!(targets(&built, "double"), ["sm_100", "sm_90"]);
    for gpu in ["sm_90", "sm_100"] {
        let run = built.program().on(gpu).arguments(["install", "double"]).ok();
        assert_eq!(run.line("1:double"), IN_MEMORY);
    }
}

/// A warm-up ends where a launch fails. On the target that lacks the kernel, what would have come
/// behind it is either embedded all the same, or named.
#[test]
fn s10_what_comes_behind_a_kernel_that_a_target_lacks_is_not_lost() {
    let probe = with_scaled("s10-before", true);
    probe.edit("Cargo.toml", "[package.metadata.cutile]\n", KEPT);
    match probe.build().try_ok() {
        Ok(built) => assert_eq!(targets(&built, "double"), ["sm_100", "sm_90"]),
        Err(said) => {
            assert!(said.contains("small::double") && said.contains("sm_90"), "{said}");
        }
    }
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
