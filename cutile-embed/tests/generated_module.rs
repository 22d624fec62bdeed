//! The module that `cutile-build` generates for a crate with wgpu compiles against wgpu, without a
//! warning. Its text is held by a test there, which writes the file that is included here.
#![cfg(feature = "wgpu")]

use wgpu::{BindingType, ShaderStages};

mod generated {
    #![deny(warnings)]
    include!("../../cutile-build/tests/shaders/golden/wgpu.rs");
}

use generated::shaders::{fx::lit_scene, r#match};

#[test]
fn a_layout_has_the_stages_and_the_smallest_size_of_each_binding() {
    let [camera, lights] = lit_scene::LAYOUT_0;
    assert_eq!((camera.binding, lights.binding), (0, 3));
    assert_eq!(camera.visibility, ShaderStages::VERTEX_FRAGMENT);
    assert_eq!(lights.visibility, ShaderStages::FRAGMENT);
    let BindingType::Buffer { min_binding_size, has_dynamic_offset, .. } = lights.ty else {
        panic!("{lights:?}")
    };
    // A count, padded, and one light.
    assert_eq!((min_binding_size.map(Into::into), has_dynamic_offset), (Some(32), false));
    let bindings: Vec<u32> = lit_scene::LAYOUT_2.iter().map(|entry| entry.binding).collect();
    assert_eq!(bindings, [0, 1, 2, 3, 4, 5, 9]);
}

/// What a program writes. With a binding renamed, added or taken out it does not compile.
#[allow(dead_code, reason = "a buffer needs a device")]
fn bound(buffer: &wgpu::Buffer) -> [wgpu::BindGroupEntry<'_>; 1] {
    r#match::BindGroup0 { self_: buffer.as_entire_binding() }.entries()
}
