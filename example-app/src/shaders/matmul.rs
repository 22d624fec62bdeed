//! The tiled matrix product of `shaders/matmul.wgsl`.

use super::built::shaders::matmul::{BindGroup0, LAYOUT_0, Overrides, entry};
use super::case::Case;
use super::gpu::{Failure, Gpu, bytes_of, numbers};
use crate::inputs::{Generator, widened};
use crate::reference;
use wgpu::{BufferUsages, ShaderModule};

/// Rows and columns of the result, and what is summed over: multiples of no tile.
const M: usize = 197;
const N: usize = 139;
const K: usize = 251;

/// One product, by each size of the tile.
pub(crate) fn cases() -> Vec<Case<'static>> {
    let case = |overrides: Overrides| {
        Case::new(&entry::MULTIPLY, 1e-5, move |gpu, module| product(gpu, module, overrides))
            .with(overrides.constants())
    };
    Overrides::SPECIALIZATIONS.into_iter().map(case).collect()
}

fn product(gpu: &Gpu, module: &ShaderModule, overrides: Overrides) -> Result<Option<f64>, Failure> {
    let constants = overrides.constants();
    let pipeline = gpu.compute_pipeline(module, entry::MULTIPLY.name, &constants, &LAYOUT_0)?;
    if !gpu.executes() {
        return Ok(None);
    }
    let mut random = Generator::new(6);
    let x = random.values::<f32>(M * K, 1.0);
    let y = random.values::<f32>(K * N, 1.0);
    let output = gpu.run(|encoder| {
        let upload =
            |values: &[f32]| gpu.buffer(&bytes_of(values, f32::to_ne_bytes), BufferUsages::STORAGE);
        let shape = bytes_of(&[M, N, K].map(|extent| extent as u32), u32::to_ne_bytes);
        let shape = gpu.buffer(&shape, BufferUsages::UNIFORM);
        let (a, b) = (upload(&x), upload(&y));
        let c = gpu.zeros(M * N * 4, BufferUsages::STORAGE | BufferUsages::COPY_SRC);
        let group = BindGroup0 {
            shape: shape.as_entire_binding(),
            a: a.as_entire_binding(),
            b: b.as_entire_binding(),
            c: c.as_entire_binding(),
        };
        let groups = [N, M].map(|extent| (extent as u32).div_ceil(overrides.TILE));
        gpu.dispatch(encoder, &pipeline, &group.entries(), [groups[0], groups[1], 1]);
        c
    })?;
    let z = numbers(&output, f32::from_ne_bytes);
    let expected = reference::gemm(&widened(&x), &widened(&y), K, N);
    Ok(Some(reference::relative_error(&widened(&z), &expected)))
}
