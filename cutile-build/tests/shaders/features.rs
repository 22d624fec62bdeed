//! What a shader may use follows from the wgpu features that are declared for it, and from nothing
//! else.

use crate::fixture::{Crate, has};
use cutile_build::{Builder, ShaderOptions};

const SHADERS: [(&str, &str, &[&str], &str); 5] = [
    (
        "half",
        "enable f16;\n@group(0) @binding(0) var<storage, read_write> a: array<f16>;\n\
         @compute @workgroup_size(1) fn main() { a[0] = 1h; }",
        &["SHADER_F16"],
        "SHADER_FLOAT16",
    ),
    (
        "subgroups",
        "@group(0) @binding(0) var<storage, read_write> a: array<u32>;\n\
         @compute @workgroup_size(32) fn main(@builtin(local_invocation_index) i: u32) {\n\
             a[i] = subgroupAdd(a[i]);\n}",
        &["SUBGROUP"],
        "SUBGROUP",
    ),
    (
        "long",
        "@group(0) @binding(0) var<storage, read_write> a: array<u64>;\n\
         @compute @workgroup_size(1) fn main() { a[0] = a[1] + 1lu; }",
        &["SHADER_INT64"],
        "SHADER_INT64",
    ),
    (
        "long_atomics",
        "@group(0) @binding(0) var<storage, read_write> a: atomic<u64>;\n\
         @compute @workgroup_size(1) fn main() { atomicMax(&a, 1lu); }",
        &["SHADER_INT64", "SHADER_INT64_ATOMIC_ALL_OPS"],
        "SHADER_INT64_ATOMIC_MIN_MAX",
    ),
    (
        "float_atomics",
        "@group(0) @binding(0) var<storage, read_write> a: atomic<f32>;\n\
         @compute @workgroup_size(1) fn main() { let old = atomicAdd(&a, 1f); }",
        &["SHADER_FLOAT32_ATOMIC"],
        "SHADER_FLOAT32_ATOMIC",
    ),
];

#[test]
fn s31_a_shader_may_use_what_its_features_allow_and_nothing_else() {
    for (name, text, features, needed) in SHADERS {
        let path = format!("shaders/{name}.wgsl");
        let crate_ = Crate::with([(format!("{name}.wgsl").as_str(), text)]);
        has(&crate_.error(), &[&format!("{path}:"), "`features`", "SHADER_F16, SUBGROUP"]);
        // Each of them is needed.
        for at in 0..features.len() {
            let fewer =
                features.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, name)| *name);
            let options = ShaderOptions::new(&path).features(fewer);
            assert!(crate_.build_by(Builder::from_metadata().shader(options)).is_err(), "{name}");
        }
        let options = ShaderOptions::new(&path).features(features.iter().copied());
        crate_.build_by(Builder::from_metadata().shader(options)).unwrap();
        let row = crate_.row(&path);
        assert_eq!(row.features, features);
        assert!(row.capabilities.iter().any(|found| found == needed), "{:?}", row.capabilities);
    }
}

#[test]
fn s31_the_features_of_one_shader_are_not_those_of_another() {
    let crate_ = Crate::with([("a.wgsl", SHADERS[0].1), ("b.wgsl", SHADERS[0].1)]);
    crate_.metadata(
        "[package.metadata.cutile]\nshaders = [\"shaders/*.wgsl\"]\n\
         [[package.metadata.cutile.shader]]\npath = \"shaders/a.wgsl\"\n\
         features = [\"SHADER_F16\"]\n",
    );
    let error = crate_.error();
    has(&error, &["1 of 2 shaders", "shaders/b.wgsl:"]);
    assert!(!error.contains("shaders/a.wgsl"), "{error}");
}

#[test]
fn s31_what_is_declared_and_not_needed_is_not_listed_as_needed() {
    let crate_ = Crate::with([("a.wgsl", crate::fixture::GOOD)]);
    let options = ShaderOptions::new("shaders/a.wgsl").features(["SHADER_F16", "SUBGROUP"]);
    crate_.build_by(Builder::from_metadata().shader(options)).unwrap();
    let row = crate_.row("shaders/a.wgsl");
    assert_eq!(row.features, ["SHADER_F16", "SUBGROUP"]);
    assert_eq!(row.capabilities, Vec::<String>::new());
}

#[test]
fn s31_a_misspelt_feature_names_the_nearest() {
    let crate_ = Crate::with([("a.wgsl", SHADERS[0].1)]);
    let options = ShaderOptions::new("shaders/a.wgsl").features(["SHADER_FP16"]);
    let error = crate_.build_by(Builder::from_metadata().shader(options)).unwrap_err();
    has(&error.to_string(), &["no feature `SHADER_FP16`", "`SHADER_F16`"]);
}
