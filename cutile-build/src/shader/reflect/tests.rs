use super::*;
use cutile_embed::shader::{capabilities, parse};

fn reflected(text: &str, features: &[&str], entry_points: &[&str]) -> Reflection {
    let capabilities = capabilities(features).unwrap();
    let checked = parse("a.wgsl", text, capabilities)
        .unwrap()
        .select("a.wgsl", text, entry_points, capabilities)
        .unwrap();
    reflect(&checked, capabilities)
}

#[test]
fn a_binding_is_seen_through_the_functions_that_use_it() {
    let text = "
        @group(0) @binding(0) var<uniform> scale: vec2<f32>;
        @group(0) @binding(1) var image: texture_2d<f32>;
        @group(0) @binding(2) var reader: sampler;
        @group(0) @binding(3) var other: texture_2d<f32>;
        @group(1) @binding(7) var<storage, read_write> never: array<u32>;
        fn read(t: texture_2d<f32>, s: sampler) -> vec4<f32> {
            return textureSample(t, s, scale);
        }
        @vertex fn vs() -> @builtin(position) vec4<f32> { return vec4<f32>(scale, 0.0, 1.0); }
        @fragment fn fs() -> @location(0) vec4<f32> {
            return read(image, reader) + textureLoad(other, vec2<i32>(0), 0);
        }";
    let found = reflected(text, &[], &[]);
    let shown: Vec<_> = found
        .bindings
        .iter()
        .map(|binding| (binding.row.name.as_str(), binding.stages.as_slice(), binding.sampled))
        .collect();
    let fragment = [ShaderStage::Fragment].as_slice();
    assert_eq!(
        shown,
        [
            ("scale", [ShaderStage::Vertex, ShaderStage::Fragment].as_slice(), false),
            ("image", fragment, true),
            ("reader", fragment, false),
            ("other", fragment, false),
        ]
    );
    // Overrides that nothing uses keep what nothing uses in the module: it is not listed.
    let one = reflected(&format!("override x: u32 = 1u;\n{text}"), &[], &["vs"]);
    let names: Vec<&str> = one.bindings.iter().map(|binding| binding.row.name.as_str()).collect();
    assert_eq!(names, ["scale"]);
}

#[test]
fn types_and_access_are_wgsls_words() {
    let text = "
        struct Item { at: vec3<f32>, weight: f32 }
        @group(0) @binding(0) var<storage, read_write> counts: array<atomic<u32>>;
        @group(0) @binding(1) var<storage, read> items: array<Item, 4>;
        @group(0) @binding(2) var image: texture_storage_2d_array<r32float, read_write>;
        @group(0) @binding(3) var frames: texture_multisampled_2d<f32>;
        @compute @workgroup_size(1) fn main() {
            atomicAdd(&counts[0], u32(items[0].weight));
            textureStore(image, vec2<i32>(0), 0, textureLoad(frames, vec2<i32>(0), 0));
        }";
    let shown: Vec<String> = reflected(text, &[], &[])
        .bindings
        .iter()
        .map(|Binding { row, .. }| {
            format!("{} {} {} {:?}", row.space, row.access, row.ty, row.min_size)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "storage read_write array<atomic<u32>> Some(4)",
            "storage read array<Item, 4> Some(64)",
            "handle read_write texture_storage_2d_array<r32float,read_write> None",
            "handle read texture_multisampled_2d<f32> None",
        ]
    );
}

#[test]
fn a_size_that_an_override_decides_is_none() {
    let text = "
        override X: u32 = 4u;
        @compute @workgroup_size(X, 2) fn some() {}
        @compute @workgroup_size(4, 2) fn all() {}
        @fragment fn none() {}";
    let found = reflected(text, &[], &[]);
    let sizes: Vec<_> = found.entry_points.iter().map(|entry| entry.workgroup_size).collect();
    assert_eq!(sizes, [None, Some([4, 2, 1]), None]);
}

#[test]
fn of_two_capabilities_that_allow_the_same_the_smaller_is_needed() {
    let text = "
        @group(0) @binding(0) var<storage, read_write> a: atomic<u64>;
        @compute @workgroup_size(1) fn main() { atomicMax(&a, 1lu); }";
    let found = reflected(text, &["SHADER_INT64_ATOMIC_ALL_OPS", "SHADER_INT64", "SUBGROUP"], &[]);
    assert_eq!(found.capabilities, ["SHADER_INT64", "SHADER_INT64_ATOMIC_MIN_MAX"]);
}

#[test]
fn a_binding_array_is_that_of_its_elements() {
    let text = "
        enable wgpu_binding_array;
        @group(0) @binding(0) var images: binding_array<texture_2d<f32>, 5>;
        @group(0) @binding(1) var<storage, read> parts: binding_array<Part, 3>;
        struct Part { data: array<u32> }
        @compute @workgroup_size(1) fn main() {
            _ = textureLoad(images[0], vec2<i32>(0), 0);
            _ = parts[1].data[0];
        }";
    let features =
        ["TEXTURE_BINDING_ARRAY", "BUFFER_BINDING_ARRAY", "STORAGE_RESOURCE_BINDING_ARRAY"];
    let found = reflected(text, &features, &[]);
    let [images, parts] = found.bindings.as_slice() else { panic!("{found:?}") };
    assert!(matches!(images.ty, TypeInner::Image { .. }));
    assert!(matches!(images.count, Some(ArraySize::Constant(count)) if count.get() == 5));
    assert_eq!((images.row.min_size, parts.row.min_size), (None, Some(4)));
}
