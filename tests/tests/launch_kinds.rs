//! Every kind of launch, from kernels that were compiled by the build: on a virtual GPU, without a
//! tileiras, and without a compile; and the same rows from a recorded run.

use cutile_tests::{Built, Fixture, Printed, scratch, toolkit};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

fn built() -> &'static Built {
    static BUILT: OnceLock<Result<Built, String>> = OnceLock::new();
    let build = || Fixture::new("launch-kinds", "launch-kinds").build().try_ok();
    BUILT.get_or_init(build).as_ref().unwrap_or_else(|what| panic!("{what}"))
}

/// The program of the fixture, run once for all tests.
fn printed() -> &'static Printed {
    static PRINTED: OnceLock<Printed> = OnceLock::new();
    PRINTED.get_or_init(|| built().program().on("sm_90").run())
}

/// A kind, the specialization that only launches of this kind have, and how many such rows.
type Kind = (&'static str, &'static str, usize);

macro_rules! kinds {
    ($($name:ident: $specialization:literal $(x $rows:literal)?),* $(,)?) => {
        const KINDS: &[Kind] = &[$((stringify!($name), $specialization, 1 $(- 1 + $rows)?)),*];

        $(
            #[test]
            fn $name() {
                assert_eq!(printed().line(stringify!($name)), "jit=0 backend=0 stored=0 ok");
            }
        )*
    };
}

kinds! {
    async_on_another_thread: "kinds::add<8>",
    borrowed_and_shared: "kinds::add<16>",
    classes_of_a_scalar: "arguments::every_scalar<32>" x 5,
    compile_options: "kinds::add<128>",
    const_grid: "kinds::add<64>",
    cuda_graph: "kinds::add<256>",
    each_option: "arguments::rank_1<256>" x 8,
    every_scalar: "arguments::every_scalar<64>",
    generics_explicit: "kinds::add<32>",
    generics_inferred: "kinds::inferred<f32, 64>",
    generics_inferred_f16: "kinds::inferred<f16, 64>",
    helper_kernel: "creation::full<f32, 128>",
    launch_check: "kinds::checked<64, 64>",
    // A length of 1 is as any odd one in a vector.
    lengths: "arguments::rank_1<32>" x 5,
    mapped_partitions: "kinds::mapped<f32, 64, 1>",
    operations: "arguments::rank_1<128>",
    owned_axis_borrowed: "arguments::owned_axis<16, 1, 0>",
    partition_prefix: "arguments::rank_1<8>",
    pointers_to_const: "arguments::pointer_to_const<i32, 64>" x 2,
    rank_1: "arguments::rank_1<64>",
    rank_2: "arguments::rank_2<32, 32>",
    rank_3: "arguments::rank_3<4, 4, 4>",
    rank_4: "arguments::rank_4<64>",
    raw_pointers: "kinds::by_pointer<f32>",
    scalars: "kinds::scale<64>",
    slice_of_columns: "arguments::rank_2<16, 16>",
    slice_that_starts_anywhere: "arguments::rank_1<16>",
    slices: "kinds::add<4>",
    static_shape: "arguments::static_shape<64>",
    strides_of_columns: "arguments::rank_2<4, 4>",
    strides_of_zero: "arguments::rank_2<2, 2>",
    view: "arguments::rank_2<8, 8>",
}

#[test]
fn launch_check_violated() {
    let line = printed().line("launch_check_violated");
    assert!(line.starts_with("jit=0 backend=0 stored=0 error: "), "{line}");
    assert!(line.contains("% 64 == 0 failed"), "{line}");
}

/// A row as both sides have it, and the name of its specialization.
type Row = (String, String);

fn row(row: &Value, default: &Value) -> Row {
    let text = |name: &str| row[name].as_str().expect("a text").to_owned();
    let generics = row["generics"].as_array().expect("generics");
    let generics: Vec<&str> = generics.iter().map(|generic| generic.as_str().unwrap()).collect();
    let name = format!("{}::{}<{}>", text("module"), text("function"), generics.join(", "));
    let mut row = row.clone();
    // A launch that sets no level has its program's, which a recording leaves open.
    if row["default_codegen"] == true {
        row["options"]["codegen"].clone_from(default);
    }
    // The path of a module begins with the name of the crate, which a build script has not.
    for module in row["modules"].as_array_mut().expect("modules") {
        let path = module["path"].as_str().expect("a path");
        let (_, path) = path.split_once("::").expect("a path in a crate");
        module["path"] = path.to_owned().into();
    }
    let members = row.as_object_mut().expect("a row");
    for of_one_side in ["images", "default_codegen"] {
        members.remove(of_one_side);
    }
    (name, row.to_string())
}

fn rows(file: &Path, default: &Value) -> BTreeSet<Row> {
    let text = std::fs::read_to_string(file).expect("a recording");
    let recording: Value = serde_json::from_str(&text).expect("a recording is JSON");
    let kernels = recording["kernels"].as_array().expect("rows");
    kernels.iter().map(|kernel| row(kernel, default)).collect()
}

/// Launches of real tensors, which are compiled and recorded, against the warm-ups of the build, on
/// tensors without memory.
#[test]
fn recorded_and_warmed_up_launches_give_equal_keys() {
    let manifest = built().manifest();
    let default = &manifest.0["codegen"];
    let warmed_up: BTreeSet<Row> =
        manifest.kernels().iter().map(|kernel| row(kernel, default)).collect();
    let (cache, out) = (scratch(), scratch());
    let file = out.path().join("kernels.json");
    let _ = built()
        .program()
        .on("sm_90")
        .env("CUTILE_TILEIRAS_PATH", toolkit().tileiras.as_os_str())
        .env("XDG_CACHE_HOME", cache.path())
        .env("CUTILE_EMBED_RECORD", &file)
        .ok();

    // Copies that the program makes after each kind, the shortest first: each has the rows of the
    // kinds before it.
    let mut recorded: Vec<(&str, BTreeSet<Row>)> = KINDS
        .iter()
        .map(|(kind, ..)| (*kind, rows(&out.path().join(format!("kernels.json.{kind}")), default)))
        .collect();
    recorded.sort_by_key(|(_, rows)| rows.len());
    let mut known = BTreeSet::new();
    for (kind, rows) in &recorded {
        let new: BTreeSet<Row> = rows.difference(&known).cloned().collect();
        known.extend(rows.iter().cloned());
        let (_, name, count) = KINDS.iter().find(|(other, ..)| other == kind).unwrap();
        let expected: BTreeSet<Row> =
            warmed_up.iter().filter(|(other, _)| other == name).cloned().collect();
        assert_eq!(new, expected, "{kind}: launched on the left, warmed up on the right");
        assert_eq!(new.len(), *count, "{kind}: specializations of {name}");
    }
    assert_eq!(rows(&file, default), warmed_up, "a launch is of no kind of the list");
    assert_eq!(known, warmed_up, "a launch is of no kind of the list");
}
