//! The prefix sum of `shaders/prefix_sum.wgsl`, and of `shaders/prefix_sum_subgroups.wgsl`, which
//! has the same bindings and entry points.

use super::built::shaders::prefix_sum::{BindGroup0, LAYOUT_0, entry};
use super::case::Case;
use super::gpu::{Failure, Gpu, bytes_of, numbers};
use crate::inputs::Generator;
use crate::reference::relative_error;
use cutile_embed::shader::EntryPoint;
use wgpu::{Buffer, BufferUsages, CommandEncoder, ComputePipeline, ShaderModule};

/// Numbers of a block: one an invocation.
const BLOCK: usize = match entry::SCAN.workgroup_size {
    Some([size, 1, 1]) => size as usize,
    _ => panic!("a block is a row of invocations"),
};
/// Three levels: 391 blocks, whose totals fill two, whose totals fit into one. No level is full.
const LEN: usize = 100_003;

/// A sum within blocks, and one over everything. Whole numbers: they are right, or wrong.
pub(crate) fn cases() -> Vec<Case<'static>> {
    vec![Case::new(&entry::SCAN, 0.0, within_blocks), Case::new(&entry::ADD_OFFSETS, 0.0, all)]
}

fn within_blocks(gpu: &Gpu, module: &ShaderModule) -> Result<Option<f64>, Failure> {
    let scan = pipeline(gpu, module, &entry::SCAN)?;
    if !gpu.executes() {
        return Ok(None);
    }
    let values = inputs();
    let output = gpu.run(|encoder| {
        let level = Level::new(gpu, &values);
        level.dispatch(gpu, encoder, &scan);
        level.values
    })?;
    Ok(Some(error(&output, &values.chunks(BLOCK).flat_map(sums).collect::<Vec<_>>())))
}

/// Scans level by level until one block is left, then adds on the way back.
fn all(gpu: &Gpu, module: &ShaderModule) -> Result<Option<f64>, Failure> {
    let scan = pipeline(gpu, module, &entry::SCAN)?;
    let add_offsets = pipeline(gpu, module, &entry::ADD_OFFSETS)?;
    if !gpu.executes() {
        return Ok(None);
    }
    let values = inputs();
    let output = gpu.run(|encoder| {
        let first = Level::new(gpu, &values);
        let output = first.values.clone();
        let mut levels = Vec::new();
        let mut next = Some(first);
        while let Some(level) = next {
            level.dispatch(gpu, encoder, &scan);
            next = level.next(gpu);
            levels.push(level);
        }
        for level in levels.iter().rev() {
            level.dispatch(gpu, encoder, &add_offsets);
        }
        output
    })?;
    Ok(Some(error(&output, &sums(&values))))
}

fn pipeline(
    gpu: &Gpu,
    module: &ShaderModule,
    entry_point: &EntryPoint,
) -> Result<ComputePipeline, Failure> {
    gpu.compute_pipeline(module, entry_point.name, &[], &LAYOUT_0)
}

/// Numbers to sum up, and room for the totals of their blocks.
struct Level {
    values: Buffer,
    totals: Buffer,
    blocks: usize,
}

impl Level {
    fn new(gpu: &Gpu, values: &[u32]) -> Self {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC;
        Self::of(gpu, gpu.buffer(&bytes_of(values, u32::to_ne_bytes), usage), values.len())
    }

    fn of(gpu: &Gpu, values: Buffer, len: usize) -> Self {
        let blocks = len.div_ceil(BLOCK);
        let totals = gpu.zeros(blocks * 4, BufferUsages::STORAGE);
        Self { values, totals, blocks }
    }

    /// The level of this one's totals; none where there is one.
    fn next(&self, gpu: &Gpu) -> Option<Self> {
        (self.blocks > 1).then(|| Self::of(gpu, self.totals.clone(), self.blocks))
    }

    fn dispatch(&self, gpu: &Gpu, encoder: &mut CommandEncoder, pipeline: &ComputePipeline) {
        let group = BindGroup0 {
            values: self.values.as_entire_binding(),
            totals: self.totals.as_entire_binding(),
        };
        gpu.dispatch(encoder, pipeline, &group.entries(), [self.blocks as u32, 1, 1]);
    }
}

/// 15 bits each: the sum of all fits into 32.
fn inputs() -> Vec<u32> {
    let mut random = Generator::new(7);
    (0..LEN).map(|_| (random.next_u64() >> 49) as u32).collect()
}

/// Each number with all before it.
fn sums(values: &[u32]) -> Vec<f64> {
    let mut sum = 0;
    let sums = values.iter().map(|value| {
        sum += value;
        f64::from(sum)
    });
    sums.collect()
}

fn error(output: &[u8], expected: &[f64]) -> f64 {
    relative_error(&numbers(output, |bytes| f64::from(u32::from_ne_bytes(bytes))), expected)
}
