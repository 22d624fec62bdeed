//! The device that the shaders run on, and how each of them is run.
//!
//! Every call of wgpu that can find something wrong is made within error scopes: a fault is the
//! error of one row, and never the panic that wgpu answers with where nobody asks.

use super::adapter::AdapterName;
use std::sync::mpsc;
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor,
    BindGroupLayoutEntry, Buffer, BufferDescriptor, BufferUsages, CommandEncoder, ComputePipeline,
    ComputePipelineDescriptor, Device, ErrorFilter, Features, MapMode, PipelineCompilationOptions,
    PipelineLayout, PipelineLayoutDescriptor, PollType, Queue, ShaderModule,
};

/// Why a shader gave no result.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A device of wgpu.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: Device,
    pub(crate) queue: Queue,
    /// `None` where there is no adapter, and wgpu's noop backend stands in: it takes modules and
    /// pipelines, checks them, and executes nothing.
    pub(crate) adapter: Option<AdapterName>,
}

impl Gpu {
    /// Whether the device computes.
    pub(crate) fn executes(&self) -> bool {
        self.adapter.is_some()
    }

    /// Whether shaders may use the operations of subgroups.
    pub(crate) fn has_subgroups(&self) -> bool {
        self.device.features().contains(Features::SUBGROUP)
    }

    /// What `work` gives, unless wgpu finds something wrong in it.
    ///
    /// # Errors
    ///
    /// What wgpu found: a fault in what it was told, no memory, or a fault of the driver.
    pub(crate) fn checked<T>(&self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        let filters = [ErrorFilter::Internal, ErrorFilter::OutOfMemory, ErrorFilter::Validation];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        let output = work();
        let mut found = None;
        // The last one pushed is the first one popped.
        for scope in scopes.into_iter().rev() {
            let error = pollster::block_on(scope.pop());
            found = found.or(error);
        }
        match found {
            None => Ok(output),
            Some(error) => Err(error.into()),
        }
    }

    /// The layout of a pipeline with one bind group. Call it within [`Self::checked`].
    pub(crate) fn layout(&self, group: &[BindGroupLayoutEntry]) -> PipelineLayout {
        let group = self
            .device
            .create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: group });
        self.device.create_pipeline_layout(&PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        })
    }

    /// The pipeline of an entry point with its constants and the layout of group 0.
    ///
    /// # Errors
    ///
    /// As [`Self::checked`].
    pub(crate) fn compute_pipeline(
        &self,
        module: &ShaderModule,
        entry_point: &str,
        constants: &[(&str, f64)],
        group: &[BindGroupLayoutEntry],
    ) -> Result<ComputePipeline, Failure> {
        self.checked(|| {
            self.device.create_compute_pipeline(&ComputePipelineDescriptor {
                label: Some(entry_point),
                layout: Some(&self.layout(group)),
                module,
                entry_point: Some(entry_point),
                compilation_options: PipelineCompilationOptions { constants, ..Default::default() },
                cache: None,
            })
        })
    }

    /// A buffer with these bytes. Call it within [`Self::checked`].
    pub(crate) fn buffer(&self, contents: &[u8], usage: BufferUsages) -> Buffer {
        let buffer = self.zeros(contents.len(), usage | BufferUsages::COPY_DST);
        self.queue.write_buffer(&buffer, 0, contents);
        buffer
    }

    /// A buffer of zeros. Call it within [`Self::checked`].
    pub(crate) fn zeros(&self, bytes: usize, usage: BufferUsages) -> Buffer {
        self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: bytes as u64,
            usage,
            mapped_at_creation: false,
        })
    }

    /// A bind group. Call it within [`Self::checked`].
    pub(crate) fn bind_group(
        &self,
        layout: &BindGroupLayout,
        entries: &[BindGroupEntry<'_>],
    ) -> BindGroup {
        self.device.create_bind_group(&BindGroupDescriptor { label: None, layout, entries })
    }

    /// Adds a dispatch with this as group 0. Call it within [`Self::run`].
    pub(crate) fn dispatch(
        &self,
        encoder: &mut CommandEncoder,
        pipeline: &ComputePipeline,
        entries: &[BindGroupEntry<'_>],
        [x, y, z]: [u32; 3],
    ) {
        let group = self.bind_group(&pipeline.get_bind_group_layout(0), entries);
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(x, y, z);
    }

    /// Runs the commands that `record` adds, and reads back the buffer that it gives.
    ///
    /// # Errors
    ///
    /// As [`Self::checked`], and where the device is lost.
    pub(crate) fn run(
        &self,
        record: impl FnOnce(&mut CommandEncoder) -> Buffer,
    ) -> Result<Vec<u8>, Failure> {
        let (sender, receiver) = mpsc::channel();
        let read_back = self.checked(|| {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            let output = record(&mut encoder);
            let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
            let read_back = self.zeros(output.size() as usize, usage);
            encoder.copy_buffer_to_buffer(&output, 0, &read_back, 0, output.size());
            self.queue.submit([encoder.finish()]);
            read_back.map_async(MapMode::Read, .., move |mapped| {
                // Nobody waits for it where an error was found meanwhile.
                let _ = sender.send(mapped);
            });
            read_back
        })?;
        self.device.poll(PollType::wait_indefinitely())?;
        receiver.recv()??;
        Ok(read_back.get_mapped_range(..)?.to_vec())
    }
}

/// The bytes of numbers, as a shader reads them.
pub(crate) fn bytes_of<const N: usize, T: Copy>(
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) -> Vec<u8> {
    values.iter().flat_map(|&value| bytes(value)).collect()
}

/// The numbers that a shader wrote.
pub(crate) fn numbers<T>(bytes: &[u8], number: impl Fn([u8; 4]) -> T) -> Vec<T> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| number(bytes)).collect()
}
