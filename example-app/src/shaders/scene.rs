//! The picture of `shaders/scene.wgsl`: one vertex and one fragment shader.

mod reference;
mod vector;

use super::built::shaders::scene::{BindGroup0, LAYOUT_0, Overrides, entry};
use super::case::Case;
use super::gpu::{Failure, Gpu, bytes_of};
use crate::reference::relative_error;
use reference::View;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use vector::{Vec3, vec3};
use wgpu::{
    BufferUsages, Color, ColorTargetState, Extent3d, FragmentState, LoadOp, MultisampleState,
    Operations, PipelineCompilationOptions, PrimitiveState, RenderPassColorAttachment,
    RenderPassDescriptor, RenderPipeline, RenderPipelineDescriptor, ShaderModule, StoreOp,
    TexelCopyBufferInfo, TexelCopyBufferLayout, TextureDescriptor, TextureDimension, TextureFormat,
    TextureUsages, VertexState,
};

/// Pixels of the picture. A row of them is a multiple of 256 bytes, as copies of textures have it.
const SIZE: [u32; 2] = [512, 384];
/// From one pixel that the CPU computes to the next, along both axes: odd, so that they meet every
/// place of the tiles that drivers render in.
const STEP: usize = 11;
/// What a pixel is where no triangle was.
const BARE: Color = Color { r: 1.0, g: 0.0, b: 1.0, a: 0.0 };

fn view() -> View {
    let [width, height] = SIZE;
    View {
        eye: vec3(0.9, 2.3, 5.4),
        half_height: 0.42,
        at: vec3(0.05, 0.5, 0.0),
        sun: vec3(-0.62, 0.66, 0.10).normalized(),
        size: [width as f32, height as f32],
    }
}

/// The vertex shader, whose error is the share of the picture that it leaves bare, and the fragment
/// shader with each number of samples, which is compared to the same on the CPU. The bound of the
/// latter is a few pixels on edges, which a rounding may move to the other side.
///
/// `png` is where the last picture is written to.
pub(crate) fn cases(png: Option<&Path>) -> Vec<Case<'_>> {
    let cover = Case::new(&entry::COVER, 0.0, cover);
    let shade = |overrides: Overrides| {
        Case::new(&entry::SHADE, 3e-3, move |gpu, module| shade(gpu, module, overrides, png))
            .with(overrides.constants())
    };
    [cover].into_iter().chain(Overrides::SPECIALIZATIONS.into_iter().map(shade)).collect()
}

fn cover(gpu: &Gpu, module: &ShaderModule) -> Result<Option<f64>, Failure> {
    // What is in the pixels does not matter here.
    let Some(pixels) = picture(gpu, module, Overrides { SAMPLES: 1 })? else { return Ok(None) };
    let (pixels, _) = pixels.as_chunks::<4>();
    let bare = pixels.iter().filter(|[.., alpha]| *alpha != u8::MAX).count();
    Ok(Some(bare as f64 / pixels.len() as f64))
}

fn shade(
    gpu: &Gpu,
    module: &ShaderModule,
    overrides: Overrides,
    png: Option<&Path>,
) -> Result<Option<f64>, Failure> {
    let Some(pixels) = picture(gpu, module, overrides)? else {
        if let Some(path) = png {
            eprintln!("{} is not written: nothing was rendered", path.display());
        }
        return Ok(None);
    };
    if let Some(path) = png {
        write(path, &pixels)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    let (pixels, _) = pixels.as_chunks::<4>();
    let (mut output, mut expected) = (Vec::new(), Vec::new());
    for (row, pixels) in (0..).zip(pixels.chunks(SIZE[0] as usize)).step_by(STEP) {
        for (column, [red, green, blue, _]) in (0..).zip(pixels).step_by(STEP) {
            let Vec3 { x, y, z } = reference::shade(&view(), overrides.SAMPLES, [column, row]);
            output.extend([red, green, blue].map(|&level| f64::from(level)));
            expected.extend([x, y, z].map(|level| f64::from((level * 255.0).round())));
        }
    }
    Ok(Some(relative_error(&output, &expected)))
}

/// Rows of red, green, blue and alpha; `None` where nothing executes.
fn picture(
    gpu: &Gpu,
    module: &ShaderModule,
    overrides: Overrides,
) -> Result<Option<Vec<u8>>, Failure> {
    let pipeline = gpu.checked(|| pipeline(gpu, module, &overrides.constants()))?;
    if gpu.executes() { render(gpu, &pipeline).map(Some) } else { Ok(None) }
}

fn pipeline(gpu: &Gpu, module: &ShaderModule, constants: &[(&str, f64)]) -> RenderPipeline {
    gpu.device.create_render_pipeline(&RenderPipelineDescriptor {
        label: Some("scene"),
        layout: Some(&gpu.layout(&LAYOUT_0)),
        vertex: VertexState {
            module,
            entry_point: Some(entry::COVER.name),
            compilation_options: Default::default(),
            buffers: &[],
        },
        primitive: PrimitiveState::default(),
        depth_stencil: None,
        multisample: MultisampleState::default(),
        fragment: Some(FragmentState {
            module,
            entry_point: Some(entry::SHADE.name),
            compilation_options: PipelineCompilationOptions { constants, ..Default::default() },
            targets: &[Some(ColorTargetState::from(TextureFormat::Rgba8Unorm))],
        }),
        multiview_mask: None,
        cache: None,
    })
}

fn render(gpu: &Gpu, pipeline: &RenderPipeline) -> Result<Vec<u8>, Failure> {
    let [width, height] = SIZE;
    let extent = Extent3d { width, height, depth_or_array_layers: 1 };
    gpu.run(|encoder| {
        let texture = gpu.device.create_texture(&TextureDescriptor {
            label: Some("picture"),
            size: extent,
            mip_level_count: 1,
            sample_count: 1,
            dimension: TextureDimension::D2,
            format: TextureFormat::Rgba8Unorm,
            usage: TextureUsages::RENDER_ATTACHMENT | TextureUsages::COPY_SRC,
            view_formats: &[],
        });
        let view = gpu.buffer(&uniform(&view()), BufferUsages::UNIFORM);
        let group = BindGroup0 { view: view.as_entire_binding() };
        let group = gpu.bind_group(&pipeline.get_bind_group_layout(0), &group.entries());
        let mut pass = encoder.begin_render_pass(&RenderPassDescriptor {
            color_attachments: &[Some(RenderPassColorAttachment {
                view: &texture.create_view(&Default::default()),
                depth_slice: None,
                resolve_target: None,
                ops: Operations { load: LoadOp::Clear(BARE), store: StoreOp::Store },
            })],
            ..Default::default()
        });
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.draw(0..3, 0..1);
        drop(pass);
        let usage = BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let pixels = gpu.zeros((width * height * 4) as usize, usage);
        let layout = TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(width * 4),
            rows_per_image: None,
        };
        let to = TexelCopyBufferInfo { buffer: &pixels, layout };
        encoder.copy_texture_to_buffer(texture.as_image_copy(), to, extent);
        pixels
    })
}

/// `View` as the shader reads it: a `vec3` is followed by the number that fills up its row, or by
/// nothing.
fn uniform(view: &View) -> Vec<u8> {
    let View { eye, half_height, at, sun, size: [width, height] } = *view;
    let rows = [
        [eye.x, eye.y, eye.z, half_height],
        [at.x, at.y, at.z, 0.0],
        [sun.x, sun.y, sun.z, 0.0],
        [width, height, 0.0, 0.0],
    ];
    bytes_of(rows.as_flattened(), f32::to_ne_bytes)
}

fn write(path: &Path, pixels: &[u8]) -> Result<(), Failure> {
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), SIZE[0], SIZE[1]);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_source_srgb(png::SrgbRenderingIntent::Perceptual);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(())
}
