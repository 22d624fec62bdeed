//! Bindings of a shader in wgpu's types, as Rust text.
//!
//! What is chosen is what wgpu itself derives for a pipeline without a layout, in
//! `wgpu_core::validation`: a texture is filterable where it is read through a sampler, and a
//! sampler filters unless it compares.

use super::error::ShaderConfigError as Problem;
use super::names::identifier;
use super::reflect::Binding;
use naga::{
    AddressSpace, ArraySize, ImageClass, ImageDimension, ScalarKind, ShaderStage, StorageAccess,
    StorageFormat, TypeInner,
};
use std::fmt::Write;

/// The struct and the layout of each bind group, as items.
pub(crate) fn groups(path: &str, bindings: &[Binding], problems: &mut Vec<Problem>) -> String {
    let mut out = String::new();
    for group in bindings.chunk_by(|a, b| a.row.group == b.row.group) {
        match items(group) {
            Ok(items) => out.push_str(&items),
            Err(reason) => problems.push(Problem::NoLayout { path: path.to_owned(), reason }),
        }
    }
    out
}

fn items(group: &[Binding]) -> Result<String, String> {
    let Some(number) = group.first().map(|binding| binding.row.group) else {
        return Ok(String::new());
    };
    let same = |pair: &&[Binding]| pair[0].row.binding == pair[1].row.binding;
    if let Some([a, b]) = group.windows(2).find(same) {
        return Err(format!(
            "`{}` and `{}` are both at @group({number}) @binding({}), for different entry points; \
             choose those of one layout with `entry-points`",
            a.row.name, b.row.name, a.row.binding
        ));
    }
    let mut fields = String::new();
    let mut entries = String::new();
    let mut layout = String::new();
    for binding in group {
        let row = &binding.row;
        let name = identifier(&row.name);
        let buffer = match (row.space.as_str(), row.access.as_str()) {
            ("handle", _) => String::new(),
            ("storage", access) => format!("<storage, {access}>"),
            (space, _) => format!("<{space}>"),
        };
        let _ = writeln!(
            fields,
            "    /// `@binding({}) var{buffer} {}: {}`\n    pub {name}: ::wgpu::BindingResource<'a>,",
            row.binding, row.name, row.ty
        );
        let _ = writeln!(
            entries,
            "            ::wgpu::BindGroupEntry {{ binding: {}, resource: self.{name} }},",
            row.binding
        );
        let _ = writeln!(
            layout,
            "    ::wgpu::BindGroupLayoutEntry {{\n        binding: {},\n        visibility: {},\n\
             \x20       ty: {},\n        count: {},\n    }},",
            row.binding,
            visibility(&binding.stages),
            binding_type(binding)?,
            count(binding)?,
        );
    }
    let length = group.len();
    Ok(format!(
        "/// What is bound as `@group({number})`.\n\
         #[derive(Clone, Debug)]\n\
         pub struct BindGroup{number}<'a> {{\n{fields}}}\n\
         impl<'a> BindGroup{number}<'a> {{\n\
         \x20   /// For `wgpu::BindGroupDescriptor::entries`.\n\
         \x20   #[must_use]\n\
         \x20   pub fn entries(self) -> [::wgpu::BindGroupEntry<'a>; {length}] {{\n\
         \x20       [\n{entries}        ]\n    }}\n}}\n\
         /// The layout of `@group({number})`, for `wgpu::BindGroupLayoutDescriptor::entries`.\n\
         pub const LAYOUT_{number}: [::wgpu::BindGroupLayoutEntry; {length}] = [\n{layout}];\n"
    ))
}

/// The stages that use the binding.
fn visibility(stages: &[ShaderStage]) -> String {
    let name = |stage: &ShaderStage| match stage {
        ShaderStage::Vertex => "VERTEX",
        ShaderStage::Task => "TASK",
        ShaderStage::Mesh => "MESH",
        ShaderStage::Fragment => "FRAGMENT",
        ShaderStage::Compute => "COMPUTE",
        ShaderStage::RayGeneration => "RAY_GENERATION",
        ShaderStage::Miss => "MISS",
        ShaderStage::AnyHit => "ANY_HIT",
        ShaderStage::ClosestHit => "CLOSEST_HIT",
    };
    let mut out = String::new();
    for (at, stage) in stages.iter().enumerate() {
        let stage = format!("::wgpu::ShaderStages::{}", name(stage));
        out = if at == 0 { stage } else { format!("{out}.union({stage})") };
    }
    out
}

fn count(binding: &Binding) -> Result<String, String> {
    match binding.count {
        None => Ok("None".to_owned()),
        Some(ArraySize::Constant(length)) => Ok(format!("::core::num::NonZeroU32::new({length})")),
        Some(ArraySize::Pending(_) | ArraySize::Dynamic) => Err(format!(
            "the binding array `{}` has no length in its text; write one",
            binding.row.name
        )),
    }
}

fn binding_type(binding: &Binding) -> Result<String, String> {
    let ty = match binding.ty {
        TypeInner::Image { dim, arrayed, class } => {
            return image(binding, view_dimension(dim, arrayed), class);
        }
        TypeInner::Sampler { comparison } => {
            let kind = if comparison { "Comparison" } else { "Filtering" };
            format!("Sampler(::wgpu::SamplerBindingType::{kind})")
        }
        TypeInner::AccelerationStructure { vertex_return } => {
            format!("AccelerationStructure {{ vertex_return: {vertex_return} }}")
        }
        _ => {
            let kind = match binding.space {
                AddressSpace::Storage { access } => {
                    // As wgpu has it: read, or all of it.
                    let read_only = access == StorageAccess::LOAD;
                    format!("Storage {{ read_only: {read_only} }}")
                }
                _ => "Uniform".to_owned(),
            };
            let size = binding.row.min_size.ok_or_else(|| {
                format!("the size of `{}`, a {}, is not known", binding.row.name, binding.row.ty)
            })?;
            format!(
                "Buffer {{\n\
                 \x20           ty: ::wgpu::BufferBindingType::{kind},\n\
                 \x20           has_dynamic_offset: false,\n\
                 \x20           min_binding_size: ::core::num::NonZeroU64::new({size}),\n\
                 \x20       }}"
            )
        }
    };
    Ok(format!("::wgpu::BindingType::{ty}"))
}

fn image(binding: &Binding, dimension: &str, class: ImageClass) -> Result<String, String> {
    let view = format!("view_dimension: ::wgpu::TextureViewDimension::{dimension}");
    let sampled = |sample_type: String, multi: bool| {
        format!(
            "::wgpu::BindingType::Texture {{\n\
             \x20           sample_type: ::wgpu::TextureSampleType::{sample_type},\n\
             \x20           {view},\n\
             \x20           multisampled: {multi},\n\
             \x20       }}"
        )
    };
    Ok(match class {
        ImageClass::Sampled { kind, multi } => {
            let sample_type = match kind {
                ScalarKind::Sint => "Sint".to_owned(),
                ScalarKind::Uint => "Uint".to_owned(),
                _ => format!("Float {{ filterable: {} }}", binding.sampled),
            };
            sampled(sample_type, multi)
        }
        ImageClass::Depth { multi } => sampled("Depth".to_owned(), multi),
        ImageClass::Storage { format, .. } => {
            let access = match binding.row.access.as_str() {
                "read" => "ReadOnly",
                "write" => "WriteOnly",
                "atomic" => "Atomic",
                _ => "ReadWrite",
            };
            format!(
                "::wgpu::BindingType::StorageTexture {{\n\
                 \x20           access: ::wgpu::StorageTextureAccess::{access},\n\
                 \x20           format: ::wgpu::TextureFormat::{},\n\
                 \x20           {view},\n\
                 \x20       }}",
                texture_format(format)
            )
        }
        ImageClass::External => "::wgpu::BindingType::ExternalTexture".to_owned(),
    })
}

fn view_dimension(dim: ImageDimension, arrayed: bool) -> &'static str {
    match (dim, arrayed) {
        (ImageDimension::D1, _) => "D1",
        (ImageDimension::D2, false) => "D2",
        (ImageDimension::D2, true) => "D2Array",
        (ImageDimension::D3, _) => "D3",
        (ImageDimension::Cube, false) => "Cube",
        (ImageDimension::Cube, true) => "CubeArray",
    }
}

/// The variant of wgpu's `TextureFormat`: naga names its own alike, as `Rgba8Unorm`. Generated code
/// that names another one would not compile.
fn texture_format(format: StorageFormat) -> String {
    format!("{format:?}")
}
