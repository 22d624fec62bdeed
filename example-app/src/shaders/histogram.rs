//! The histogram of `shaders/histogram.wgsl`.

use super::built::shaders::histogram::{BindGroup0, LAYOUT_0, Overrides, entry};
use super::case::Case;
use super::gpu::{Failure, Gpu, bytes_of, numbers};
use crate::inputs::Generator;
use crate::reference::relative_error;
use wgpu::{BufferUsages, ShaderModule};

/// Numbers that a workgroup counts: 16 an invocation, as the shader has it.
const PER_GROUP: usize = match entry::COUNT.workgroup_size {
    Some([size, 1, 1]) => 16 * size as usize,
    _ => panic!("a workgroup is a row of invocations"),
};
/// No multiple of that.
const LEN: usize = 200_001;

/// A histogram with each number of bins. Counts are right, or wrong.
pub(crate) fn cases() -> Vec<Case<'static>> {
    let case = |overrides: Overrides| {
        Case::new(&entry::COUNT, 0.0, move |gpu, module| histogram(gpu, module, overrides))
            .with(overrides.constants())
    };
    Overrides::SPECIALIZATIONS.into_iter().map(case).collect()
}

fn histogram(
    gpu: &Gpu,
    module: &ShaderModule,
    overrides: Overrides,
) -> Result<Option<f64>, Failure> {
    let constants = overrides.constants();
    let pipeline = gpu.compute_pipeline(module, entry::COUNT.name, &constants, &LAYOUT_0)?;
    if !gpu.executes() {
        return Ok(None);
    }
    let bins = overrides.BINS as usize;
    let mut random = Generator::new(8);
    // Squares crowd towards zero: some bins are met far more often than others.
    let inputs: Vec<f32> = (0..LEN).map(|_| random.unit().powi(2).min(1.0 - 1e-7)).collect();
    let output = gpu.run(|encoder| {
        let values = gpu.buffer(&bytes_of(&inputs, f32::to_ne_bytes), BufferUsages::STORAGE);
        let counts = gpu.zeros(bins * 4, BufferUsages::STORAGE | BufferUsages::COPY_SRC);
        let group =
            BindGroup0 { values: values.as_entire_binding(), bins: counts.as_entire_binding() };
        let groups = [LEN.div_ceil(PER_GROUP) as u32, 1, 1];
        gpu.dispatch(encoder, &pipeline, &group.entries(), groups);
        counts
    })?;
    let counts = numbers(&output, |bytes| f64::from(u32::from_ne_bytes(bytes)));
    let mut expected = vec![0.0; bins];
    for input in inputs {
        // In f32, as the shader: the bin of a number is what its product is rounded to.
        expected[((input * bins as f32) as usize).min(bins - 1)] += 1.0;
    }
    Ok(Some(relative_error(&counts, &expected)))
}
