//! The generated Rust module: its text, that it compiles, and what it is worth.

use crate::fixture::{Crate, GOOD, has};
use cutile_build::{Builder, ShaderOptions};
use cutile_embed::shader::naga::ShaderStage;
use cutile_embed::shader::{Request, cache_key};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// As a crate takes it in. The other one, with wgpu's types, is compiled by a test of
/// `cutile-embed`, which has wgpu.
mod plain {
    #![deny(warnings)]
    include!("golden/plain.rs");
}

use plain::shaders::{fx::lit_scene, r#match};

const MATCH: &str = include_str!("wgsl/match.wgsl");
const LIT_SCENE: &str = include_str!("wgsl/fx/lit-scene.wgsl");

fn golden(name: &str, module: impl Fn(Builder) -> Builder) {
    let crate_ = Crate::with([("match.wgsl", MATCH), ("fx/lit-scene.wgsl", LIT_SCENE)]);
    let options = ShaderOptions::new("shaders/match.wgsl")
        .constants([("TILE", 8.0), ("SHADER", -1.0)])
        .constants([("SHADER", 0.0), ("7", 0.3), ("TILE", 16.0), ("area", 12.0)])
        .entry_points(["main", "clearAll"]);
    crate_.build_by(module(Builder::from_metadata().shader(options))).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shaders/golden").join(name);
    #[allow(clippy::disallowed_methods, reason = "a switch of this test and of nothing else")]
    if std::env::var_os("CUTILE_TEST_OVERWRITE_GOLDEN").is_some() {
        fs::write(&path, crate_.module()).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    assert!(
        crate_.module() == expected,
        "{} is another text; if it should be, set CUTILE_TEST_OVERWRITE_GOLDEN=1 once and read \
         the difference:\n{}",
        path.display(),
        crate_.module()
    );
}

#[test]
fn the_text_of_the_module_is_the_golden_one() {
    golden("plain.rs", Builder::shader_module);
}

#[test]
fn the_text_of_the_module_for_wgpu_is_the_golden_one() {
    golden("wgpu.rs", Builder::shader_module_for_wgpu);
}

#[test]
fn a_module_names_wgpu_only_where_it_is_asked_to() {
    let crate_ = Crate::with([("match.wgsl", MATCH)]);
    crate_.build_by(Builder::from_metadata().shader_module()).unwrap();
    assert!(!crate_.module().contains("::wgpu::"));
    crate_.build_by(Builder::from_metadata().shader_module_for_wgpu()).unwrap();
    assert!(crate_.module().contains("::wgpu::"));
    crate_.build().unwrap();
    assert!(!crate_.out_dir().join("cutile_shaders.rs").exists());
}

#[test]
fn a_shader_of_the_module_asks_for_what_the_build_embedded() {
    assert_eq!(r#match::SHADER.path, "shaders/match.wgsl");
    assert_eq!(lit_scene::SHADER.path, "shaders/fx/lit-scene.wgsl");
    assert_eq!(r#match::SHADER.sha256, <[u8; 32]>::from(Sha256::digest(MATCH)));
    let by_module = cache_key(&Request::of(&r#match::SHADER)).unwrap();
    let by_text = Request::new("match.wgsl", MATCH).entry_points(["clearAll", "main"]);
    assert_eq!(by_module, cache_key(&by_text).unwrap());
}

#[test]
fn entry_points_have_stage_and_workgroup_size() {
    let main = r#match::entry::MAIN;
    assert_eq!((main.name, main.stage, main.workgroup_size), ("main", ShaderStage::Compute, None));
    assert_eq!(r#match::entry::CLEAR_ALL.workgroup_size, Some([4, 2, 1]));
    let vertex = lit_scene::entry::VS_MAIN;
    assert_eq!(
        (vertex.name, vertex.stage, vertex.workgroup_size),
        ("vsMain", ShaderStage::Vertex, None)
    );
}

#[test]
fn overrides_are_fields_of_their_own_types() {
    let mut overrides = r#match::Overrides::new(5);
    let r#match::Overrides { TILE, scale, type_, SHADER, area } = overrides;
    let _: (u32, f32, bool, i32, Option<u32>) = (TILE, scale, type_, SHADER, area);
    assert_eq!((TILE, scale, type_, SHADER, area), (8, 0.1, true, 5, None));
    assert_eq!(
        overrides.constants(),
        [("TILE", 8.0), ("7", f64::from(0.1f32)), ("type_", 1.0), ("SHADER", 5.0)]
    );
    overrides.area = Some(9);
    assert_eq!(overrides.constants().last(), Some(&("area", 9.0)));
}

#[test]
fn a_set_that_the_build_was_given_is_asked_for_as_it_was_given() {
    let [first, second] = r#match::Overrides::SPECIALIZATIONS;
    assert_eq!(first, r#match::Overrides { TILE: 8, ..r#match::Overrides::new(-1) });
    assert_eq!(first.constants(), [("SHADER", -1.0), ("TILE", 8.0)]);
    assert_eq!(second.area, Some(12));
    // 0.3 and not the nearest f32: the key has the bits.
    assert_eq!(second.constants(), [("7", 0.3), ("SHADER", 0.0), ("TILE", 16.0), ("area", 12.0)]);
}

#[test]
fn two_entry_points_with_one_constant_are_an_error() {
    let text = "@compute @workgroup_size(1) fn runAll() {}\n\
                @compute @workgroup_size(1) fn run_all() {}\n";
    let crate_ = Crate::with([("a.wgsl", text)]);
    crate_.build().unwrap();
    let error = crate_.build_by(Builder::from_metadata().shader_module()).unwrap_err();
    has(&error.to_string(), &["shaders/a.wgsl", "`runAll` and `run_all`", "`RUN_ALL`"]);
}

#[test]
fn two_variables_at_one_place_have_no_layout() {
    let text = "@group(0) @binding(1) var<storage, read_write> a: array<u32>;\n\
                @group(0) @binding(1) var<storage, read_write> b: array<f32>;\n\
                @compute @workgroup_size(1) fn one() { a[0] = 1u; }\n\
                @compute @workgroup_size(1) fn two() { b[0] = 1.0; }\n";
    let crate_ = Crate::with([("a.wgsl", text)]);
    crate_.build_by(Builder::from_metadata().shader_module()).unwrap();
    let error = crate_.build_by(Builder::from_metadata().shader_module_for_wgpu()).unwrap_err();
    has(&error.to_string(), &["`a` and `b` are both at @group(0) @binding(1)", "entry-points"]);
    let one = ShaderOptions::new("shaders/a.wgsl").entry_points(["one"]);
    crate_.build_by(Builder::from_metadata().shader(one).shader_module_for_wgpu()).unwrap();
}

#[test]
fn a_binding_array_has_its_length_in_the_layout_or_no_layout() {
    let text = |length: &str| {
        format!(
            "enable wgpu_binding_array;\n\
             @group(0) @binding(0) var images: binding_array<texture_2d<f32>{length}>;\n\
             @compute @workgroup_size(1) fn main() {{\n\
                 _ = textureLoad(images[0], vec2<i32>(0), 0);\n}}\n"
        )
    };
    let build = |text: &str| {
        let crate_ = Crate::with([("a.wgsl", text)]);
        let options = ShaderOptions::new("shaders/a.wgsl").features(["TEXTURE_BINDING_ARRAY"]);
        let builder = Builder::from_metadata().shader(options).shader_module_for_wgpu();
        crate_.build_by(builder).map(|()| crate_.module())
    };
    has(&build(&text(", 5")).unwrap(), &["count: ::core::num::NonZeroU32::new(5)"]);
    has(
        &build(&text("")).unwrap_err().to_string(),
        &["the binding array `images` has no length", "Builder::shader_module,"],
    );
}

#[test]
fn names_that_are_not_ascii_or_odd_are_written_so_that_they_compile() {
    let crate_ =
        Crate::with([("größe \"1\".wgsl", GOOD), ("self.wgsl", GOOD), ("2d/a.wgsl", GOOD)]);
    crate_.build_by(Builder::from_metadata().shader_module()).unwrap();
    has(
        &crate_.module(),
        &["pub mod gr_uf6__udf_e__1_ {", "pub mod self_ {", "pub mod _2d {", "größe \\\"1\\\""],
    );
}
