//! What a build writes.

use crate::fixture::{Crate, GOOD};
use cutile_build::{Builder, Emit, ShaderOptions};
use cutile_embed::index::Index;
use cutile_embed::key::{key_bytes, key_text};
use cutile_embed::pack::Pack;
use cutile_embed::shader::{
    Artifact, Config, Request, Source, cache_key, decode_entry, decode_ir, encode_ir,
    load_or_lower_with, preimage, text_key,
};
use sha2::{Digest, Sha256};
use std::fs;
use std::time::SystemTime;

const ADD: &str = "
struct Sizes { length: u32, scale: vec3<f32> }
@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(4) var<storage, read> a: array<vec4<f32>>;
@group(2) @binding(1) var<storage, read_write> out: array<f32>;
@group(2) @binding(9) var image: texture_storage_2d<rgba8unorm, write>;
@compute @workgroup_size(8, 4) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < sizes.length { out[id.x] = a[id.x].x * sizes.scale.x; }
}
@compute @workgroup_size(1) fn paint() { textureStore(image, vec2<i32>(0), vec4<f32>(1.0)); }
";

#[test]
fn a_bundle_of_shaders_has_index_manifest_and_pack_and_needs_no_toolkit() {
    let crate_ = Crate::with([("add.wgsl", ADD)]);
    crate_.build().unwrap();
    let names: Vec<String> = crate_.files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["cutile/index.bin", "cutile/manifest.json", "cutile/shaders.pack"]);
    let index = fs::read(crate_.bundled("index.bin")).unwrap();
    let index = Index::parse(&index).unwrap();
    assert_eq!((index.package, index.cutile, index.skipped), ("app", "", None));
    assert!(index.targets.is_empty());
    // `embed!` takes it, whatever the version of cutile.
    cutile_embed::__private::assert_schema(&fs::read(crate_.bundled("index.bin")).unwrap());
}

#[test]
fn what_a_program_asks_for_is_in_the_pack_under_its_key() {
    let crate_ = Crate::with([("add.wgsl", ADD)]);
    let options = ShaderOptions::new("shaders/add.wgsl").emit(Emit::SpirV).emit(Emit::Wgsl);
    crate_.build_by(Builder::from_metadata().shader(options)).unwrap();
    let bytes = fs::read(crate_.bundled("shaders.pack")).unwrap();
    let pack = Pack::parse(&bytes).unwrap();
    assert_eq!((pack.package(), pack.version(), pack.len()), ("app", "1.2.3", 4));
    let request = Request::new("other/path.wgsl", ADD);
    let nowhere = Config::default().embedded(false).disk(None);
    let lowered = load_or_lower_with(&request, &nowhere).unwrap();
    assert_eq!(lowered.source, Source::Lowered);
    let Artifact::Ir(module) = lowered.artifact else { panic!() };
    let entry = pack.get(&cache_key(&request).unwrap()).unwrap().payload().unwrap();
    let payload = decode_entry(&entry, &preimage(&request).unwrap()).unwrap();
    assert!(decode_ir(payload).is_some());
    assert_eq!(payload, encode_ir(&module));
    assert!(pack.get(&text_key(&Sha256::digest(ADD).into())).is_some());
    for artifact in crate_.row("shaders/add.wgsl").artifacts {
        assert!(pack.get(&key_bytes(&artifact.key).unwrap()).is_some());
    }
}

#[test]
fn the_manifest_says_what_a_shader_declares() {
    let crate_ = Crate::with([("add.wgsl", ADD)]);
    crate_.build().unwrap();
    let row = crate_.row("shaders/add.wgsl");
    assert_eq!(row.sha256, key_text(&Sha256::digest(ADD).into()));
    assert_eq!(row.naga, cutile_embed::shader::NAGA_VERSION);
    let entries: Vec<_> = row
        .entry_points
        .iter()
        .map(|entry| (entry.name.as_str(), entry.stage.as_str(), entry.workgroup_size))
        .collect();
    assert_eq!(
        entries,
        [("main", "compute", Some([8, 4, 1])), ("paint", "compute", Some([1, 1, 1]))]
    );
    let bindings: Vec<String> = row
        .bindings
        .iter()
        .map(|row| {
            format!(
                "{}.{} {} {} {} {} {:?}",
                row.group, row.binding, row.name, row.space, row.access, row.ty, row.min_size
            )
        })
        .collect();
    assert_eq!(
        bindings,
        [
            "0.0 sizes uniform read Sizes Some(32)",
            "0.4 a storage read array<vec4<f32>> Some(16)",
            "2.1 out storage read_write array<f32> Some(4)",
            "2.9 image handle write texture_storage_2d<rgba8unorm,write> None",
        ]
    );
}

#[test]
fn s32_only_the_entry_points_that_are_asked_for_are_embedded() {
    let crate_ = Crate::with([("add.wgsl", ADD)]);
    let options = ShaderOptions::new("shaders/add.wgsl").entry_points(["paint"]);
    crate_.build_by(Builder::from_metadata().shader(options)).unwrap();
    let row = crate_.row("shaders/add.wgsl");
    assert_eq!(row.entry_points.len(), 1);
    assert_eq!(row.artifacts[0].entry_points, ["paint"]);
    let names: Vec<&str> = row.bindings.iter().map(|binding| binding.name.as_str()).collect();
    assert_eq!(names, ["image"]);
    let request = Request::new("shaders/add.wgsl", ADD).entry_points(["paint"]);
    assert_eq!(row.artifacts[0].key, key_text(&cache_key(&request).unwrap()));
}

#[test]
fn s32_names_that_are_keywords_elsewhere_and_shaders_of_one_name_are_no_trouble() {
    // `kernel` and `half` are words of MSL, `cbuffer` of HLSL.
    let text = |name: &str| {
        format!(
            "@group(3) @binding(11) var<storage, read_write> cbuffer: array<u32>;\n\
             @compute @workgroup_size(1) fn {name}() {{ cbuffer[0] = 1u; }}\n\
             @vertex fn vertex_() -> @builtin(position) vec4<f32> {{ return vec4<f32>(); }}\n"
        )
    };
    let (one, two) = (text("kernel"), text("half"));
    let crate_ = Crate::with([("a/blur.wgsl", one.as_str()), ("b/blur.wgsl", two.as_str())]);
    crate_.build_by(Builder::from_metadata().shader_module_for_wgpu()).unwrap();
    let paths: Vec<String> = crate_.manifest().shaders.into_iter().map(|row| row.path).collect();
    assert_eq!(paths, ["shaders/a/blur.wgsl", "shaders/b/blur.wgsl"]);
    for (path, name) in [("a", "kernel"), ("b", "half")] {
        let row = crate_.row(&format!("shaders/{path}/blur.wgsl"));
        assert_eq!(row.entry_points[0].name, name);
        assert_eq!((row.bindings[0].group, row.bindings[0].binding), (3, 11));
    }
}

#[test]
fn one_text_in_two_files_is_one_text_in_the_pack() {
    let crate_ = Crate::with([("a.wgsl", GOOD), ("b.wgsl", GOOD)]);
    crate_.build().unwrap();
    let bytes = fs::read(crate_.bundled("shaders.pack")).unwrap();
    // IR and text.
    assert_eq!(Pack::parse(&bytes).unwrap().len(), 2);
    assert_eq!(crate_.manifest().shaders.len(), 2);
}

#[test]
fn the_same_shaders_give_the_same_bytes_in_any_folder_order_and_profile() {
    let files = [("add.wgsl", ADD), ("fx/a.wgsl", GOOD), ("z.wgsl", GOOD)];
    let first = Crate::with(files);
    let add = || {
        ShaderOptions::new("shaders/add.wgsl")
            .features(["SUBGROUP", "SHADER_F16"])
            .entry_points(["main", "paint"])
            .emit(Emit::SpirV)
            .emit(Emit::Wgsl)
    };
    let z = || ShaderOptions::new("shaders/z.wgsl").emit(Emit::Wgsl);
    let builder = Builder::from_metadata().shader_module().shader(add()).shader(z());
    first.build_by(builder).unwrap();

    let mut second = Crate::with(files.into_iter().rev());
    second.variable("DEBUG", "false");
    second.metadata("");
    let add = ShaderOptions::new("./shaders/add.wgsl")
        .features(["SHADER_F16", "SUBGROUP"])
        .entry_points(["paint", "main"])
        .emit(Emit::Wgsl)
        .emit(Emit::SpirV);
    let builder = Builder::from_metadata()
        .shaders(["shaders/z.wgsl", "shaders/fx/*.wgsl", "./shaders/*.wgsl"])
        .shader(z())
        .shader(add)
        .shader_module();
    second.build_by(builder).unwrap();
    assert_eq!(first.files(), second.files());
}

#[test]
fn no_byte_of_a_bundle_comes_from_the_folder_it_was_built_in() {
    let crate_ = Crate::with([("add.wgsl", ADD)]);
    crate_.build_by(Builder::from_metadata().shader_module()).unwrap();
    let root = crate_.root();
    let root = root.to_str().unwrap().as_bytes();
    for (name, bytes) in crate_.files() {
        assert!(!bytes.windows(root.len()).any(|part| part == root), "{name}");
    }
}

#[test]
fn unchanged_files_are_not_written_again() {
    let crate_ = Crate::with([("add.wgsl", ADD), ("z.wgsl", GOOD)]);
    let build = || crate_.build_by(Builder::from_metadata().shader_module()).unwrap();
    build();
    let old = SystemTime::UNIX_EPOCH;
    let paths: Vec<_> =
        crate_.files().into_iter().map(|(name, _)| crate_.out_dir().join(name)).collect();
    assert_eq!(paths.len(), 4);
    for path in &paths {
        fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    build();
    for path in &paths {
        assert_eq!(fs::metadata(path).unwrap().modified().unwrap(), old, "{}", path.display());
    }
}

#[test]
fn a_shader_that_is_gone_leaves_nothing_behind() {
    let crate_ = Crate::with([("add.wgsl", ADD), ("z.wgsl", GOOD)]);
    crate_.build_by(Builder::from_metadata().shader_module()).unwrap();
    fs::remove_file(crate_.root().join("shaders/add.wgsl")).unwrap();
    crate_.build().unwrap();
    let names: Vec<String> = crate_.files().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["cutile/index.bin", "cutile/manifest.json", "cutile/shaders.pack"]);
    let bytes = fs::read(crate_.bundled("shaders.pack")).unwrap();
    let pack = Pack::parse(&bytes).unwrap();
    assert_eq!(pack.len(), 2);
    assert!(pack.get(&text_key(&Sha256::digest(ADD).into())).is_none());
}

#[test]
fn a_build_that_leaves_kernels_out_lowers_shaders_all_the_same() {
    for variable in [("CUTILE_BUILD", "skip"), ("DOCS_RS", "1")] {
        let mut crate_ = Crate::with([("a.wgsl", GOOD)]);
        crate_.variable(variable.0, variable.1);
        crate_.build().unwrap();
        assert_eq!(crate_.manifest().shaders.len(), 1);
        assert_eq!(crate_.manifest().skipped, None);
        crate_.file("shaders/a.wgsl", "broken");
        crate_.build().unwrap_err();
    }
}

#[test]
fn targets_of_the_environment_make_no_kernels_of_a_crate_with_shaders_only() {
    let mut crate_ = Crate::with([("a.wgsl", GOOD)]);
    crate_.variable("CUTILE_BUILD_TARGETS", "sm_90");
    crate_.build().unwrap();
    assert_eq!(crate_.manifest().targets, Vec::<String>::new());
}

#[cfg(feature = "cuda")]
#[test]
fn a_crate_with_kernels_and_shaders_that_skips_kernels_says_so_and_has_its_shaders() {
    let mut crate_ = Crate::with([("a.wgsl", GOOD)]);
    crate_.variable("CUTILE_BUILD", "skip");
    let warmup = || Ok::<(), String>(());
    crate_.build_by(Builder::from_metadata().warmup("app", warmup)).unwrap();
    let manifest = crate_.manifest();
    assert_eq!(manifest.skipped.as_deref(), Some("CUTILE_BUILD=skip is set"));
    assert!(!manifest.cutile.is_empty());
    assert_eq!(manifest.shaders.len(), 1);
}

#[cfg(not(feature = "cuda"))]
#[test]
fn kernels_that_this_build_cannot_make_are_named_in_the_bundle() {
    let crate_ = Crate::with([("a.wgsl", GOOD)]);
    crate_.metadata(
        "[package.metadata.cutile]\ntargets = [\"sm_90\"]\nshaders = [\"shaders/*.wgsl\"]\n",
    );
    crate_.build().unwrap();
    assert!(crate_.manifest().skipped.unwrap().contains("`cuda`"));
}
