//! Overrides, and the sets of constants that are declared for them.

use crate::fixture::{Crate, has};
use cutile_build::{BuildError, Builder, Emit, ShaderOptions};
use std::collections::BTreeMap;

const TILED: &str = "
override TILE: u32 = 8u;
@id(7) override SCALE: f32 = 1.5;
override ON: bool = true;
override OFFSET: i32;
var<workgroup> cache: array<f32, TILE>;
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(TILE) fn main(@builtin(local_invocation_index) at: u32) {
    cache[at] = data[at] * SCALE + f32(OFFSET);
    workgroupBarrier();
    if ON { data[at] = cache[TILE - 1u - at]; }
}
";

fn options() -> ShaderOptions {
    ShaderOptions::new("shaders/tiled.wgsl")
}

fn build(options: ShaderOptions) -> (Crate, Result<(), BuildError>) {
    let crate_ = Crate::with([("tiled.wgsl", TILED)]);
    let result = crate_.build_by(Builder::from_metadata().shader(options));
    (crate_, result)
}

fn error(constants: &[(&str, f64)]) -> String {
    build(options().constants(constants.iter().copied())).1.unwrap_err().to_string()
}

#[test]
fn s30_overrides_size_workgroups_and_arrays_and_are_given_by_id() {
    let (crate_, result) = build(
        options()
            .constants([("TILE", 8.0), ("OFFSET", -3.0)])
            .constants([("OFFSET", 0.0), ("TILE", 16.0), ("7", 2.0), ("ON", 0.0)])
            .emit(Emit::SpirV)
            .emit(Emit::Wgsl),
    );
    result.unwrap();
    let row = crate_.row("shaders/tiled.wgsl");
    let found: Vec<(&str, f64)> = row
        .artifacts
        .iter()
        .map(|artifact| {
            (artifact.kind.as_str(), artifact.constants.get("TILE").copied().unwrap_or(0.0))
        })
        .collect();
    let expected = [("ir", 0.0), ("spirv", 8.0), ("spirv", 16.0), ("wgsl", 8.0), ("wgsl", 16.0)];
    assert_eq!(found, expected);
    let keys: BTreeMap<&str, u64> =
        row.artifacts.iter().map(|artifact| (artifact.key.as_str(), artifact.bytes)).collect();
    assert_eq!(keys.len(), 5);
    assert!(keys.values().all(|bytes| *bytes > 0));
}

#[test]
fn s30_a_value_that_naga_would_round_or_cut_is_an_error() {
    let offset = ("OFFSET", 0.0);
    has(&error(&[offset, ("TILE", 16.5)]), &["16.5", "`TILE`", "u32", "fraction"]);
    has(&error(&[offset, ("TILE", -1.0)]), &["-1", "`TILE`", "out of range"]);
    has(&error(&[offset, ("TILE", 4294967296.0)]), &["`TILE`", "out of range"]);
    has(&error(&[offset, ("7", f64::NAN)]), &["NaN", "`SCALE`", "not finite"]);
    has(&error(&[offset, ("7", 1e300)]), &["`SCALE`", "out of range"]);
    has(&error(&[offset, ("ON", 2.0)]), &["`ON`", "neither 0 nor 1"]);
}

#[test]
fn s30_an_override_without_default_needs_a_value() {
    has(&error(&[("TILE", 8.0)]), &["`OFFSET`", "neither a value nor a default"]);
    // What is emitted without a set of constants has the defaults.
    let (_, result) = build(options().emit(Emit::SpirV));
    has(&result.unwrap_err().to_string(), &["`OFFSET`", "neither a value nor a default"]);
    // IR gets its values from the program.
    build(options()).1.unwrap();
}

#[test]
fn s30_a_constant_that_no_override_has_names_the_nearest() {
    let offset = ("OFFSET", 0.0);
    has(&error(&[offset, ("TIEL", 8.0)]), &["no override `TIEL`", "did you mean `TILE`?"]);
    has(&error(&[offset, ("SCALE", 8.0)]), &["@id(7)", "write \"7\" in place of \"SCALE\""]);
}

#[test]
fn s30_values_that_break_a_rule_of_the_shader_stop_the_build() {
    // No workgroup has 0 invocations, and no array 0 elements.
    has(&error(&[("OFFSET", 0.0), ("TILE", 0.0)]), &["shaders/tiled.wgsl", "TILE"]);
}

#[test]
fn every_set_of_constants_is_tried() {
    let (_, result) = build(
        options()
            .constants([("OFFSET", 0.5)])
            .constants([("OFFSET", 1.0)])
            .constants([("OFFSET", 0.0), ("TIEL", 8.0)]),
    );
    has(&result.unwrap_err().to_string(), &["1 of 1 shaders", "0.5", "`TIEL`"]);
}

#[test]
fn two_equal_sets_of_constants_are_an_error() {
    let (_, result) = build(
        options()
            .constants([("OFFSET", 0.0), ("TILE", 8.0)])
            .constants([("TILE", 8.0), ("OFFSET", 0.0)]),
    );
    has(&result.unwrap_err().to_string(), &["`shaders/tiled.wgsl`", "TILE = 8", "twice"]);
}

#[test]
fn the_manifest_lists_overrides() {
    let (crate_, result) = build(options());
    result.unwrap();
    let rows = crate_.row("shaders/tiled.wgsl").overrides;
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.name.as_str(), row.id, row.ty.as_str(), row.has_default, row.default))
        .collect();
    assert_eq!(
        shown,
        [
            ("TILE", None, "u32", true, Some(8.0)),
            ("SCALE", Some(7), "f32", true, Some(1.5)),
            ("ON", None, "bool", true, Some(1.0)),
            ("OFFSET", None, "i32", false, None),
        ]
    );
}

#[test]
fn constants_of_the_metadata_are_those_of_the_builder() {
    let crate_ = Crate::with([("tiled.wgsl", TILED)]);
    crate_.metadata(
        "[[package.metadata.cutile.shader]]\npath = \"shaders/tiled.wgsl\"\n\
         constants = [{ TILE = 8, OFFSET = 1, \"7\" = 0.5 }]\nemit = [\"spirv\"]\n",
    );
    crate_.build().unwrap();
    let by_metadata = crate_.files();
    crate_.metadata("");
    let options =
        options().constants([("OFFSET", 1.0), ("TILE", 8.0), ("7", 0.5)]).emit(Emit::SpirV);
    crate_.build_by(Builder::from_metadata().shader(options)).unwrap();
    assert_eq!(crate_.files(), by_metadata);
}
