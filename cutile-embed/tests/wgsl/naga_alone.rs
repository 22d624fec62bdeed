//! The way from text to SPIR-V through naga, without anything of `cutile_embed` but its list of
//! capabilities: what the crate is compared with.

use crate::corpus::{File, Variant};
use cutile_embed::shader::capabilities;
use cutile_embed::shader::naga;
use naga::back::pipeline_constants::process_overrides;
use naga::back::spv;
use naga::compact::{KeepUnused, compact};
use naga::front::wgsl::{Frontend, Options};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationError, ValidationFlags, Validator};
use naga::{Module, SourceLocation, WithSpan};
use std::error::Error;

/// Why naga refuses a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// As naga shows it to people.
    pub(crate) shown: String,
    /// Where, if it has a place.
    pub(crate) place: Option<SourceLocation>,
    /// Message, labels and notes.
    pub(crate) parts: Vec<String>,
}

/// Parses and validates, by all rules.
pub(crate) fn check(
    path: &str,
    text: &str,
    capabilities: Capabilities,
) -> Result<(Module, ModuleInfo), Refusal> {
    let options = Options { parse_doc_comments: false, capabilities };
    let module = Frontend::new_with_options(options).parse(text).map_err(|error| {
        let mut parts = vec![error.message().to_owned()];
        parts.extend(error.notes().map(String::from));
        let labels: Vec<_> = error.labels().filter(|(span, _)| span.is_defined()).collect();
        parts.extend(labels.iter().map(|(_, label)| (*label).to_owned()));
        Refusal {
            shown: error.emit_to_string_with_path(text, path),
            place: labels.first().map(|(span, _)| span.location(text)),
            parts,
        }
    })?;
    let info = validate(&module, capabilities).map_err(|error| refusal(path, text, &error))?;
    Ok((module, info))
}

fn refusal(path: &str, text: &str, error: &WithSpan<ValidationError>) -> Refusal {
    let mut parts = vec![error.as_inner().to_string()];
    let mut cause: Option<&dyn Error> = error.as_inner().source();
    while let Some(found) = cause {
        parts.push(found.to_string());
        cause = found.source();
    }
    parts.extend(error.spans().map(|(_, label)| label.clone()));
    Refusal {
        shown: error.emit_to_string_with_path(text, path),
        place: error.location(text),
        parts,
    }
}

fn validate(
    module: &Module,
    capabilities: Capabilities,
) -> Result<ModuleInfo, Box<WithSpan<ValidationError>>> {
    Validator::new(ValidationFlags::all(), capabilities).validate(module).map_err(Box::new)
}

/// What may be used in a file.
pub(crate) fn of(file: &File) -> Capabilities {
    capabilities(&file.features).unwrap_or_else(|error| panic!("{}: {error}", file.path))
}

/// SPIR-V of a request, or what naga says instead.
pub(crate) fn spirv(variant: Variant<'_>) -> Result<Vec<u32>, String> {
    let Variant { file, entry_points, constants } = variant;
    let capabilities = of(file);
    let (parsed, _) = check(&file.path, &file.text, capabilities).map_err(|error| error.shown)?;
    let kept = |keep| {
        let mut module = parsed.clone();
        if !entry_points.is_empty() {
            module.entry_points.retain(|entry| entry_points.contains(&entry.name));
        }
        compact(&mut module, keep);
        module
    };
    let mut module = kept(KeepUnused::No);
    if module.overrides.len() < parsed.overrides.len() {
        module = kept(KeepUnused::Yes);
    }
    let info = validate(&module, capabilities).map_err(|error| error.as_inner().to_string())?;
    let values = constants.iter().cloned().collect();
    let (module, info) =
        process_overrides(&module, &info, None, &values).map_err(|error| error.to_string())?;
    // Of what the values make invalid naga says nothing where no override was replaced.
    validate(&module, capabilities).map_err(|error| error.as_inner().to_string())?;
    spv::write_vec(&module, &info, &spirv_options(), None).map_err(|error| error.to_string())
}

/// Written out again: a change of the crate's options is one of every shader that it emits.
fn spirv_options() -> spv::Options<'static> {
    const RESTRICT: BoundsCheckPolicy = BoundsCheckPolicy::Restrict;
    spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::ADJUST_COORDINATE_SPACE
            | spv::WriterFlags::LABEL_VARYINGS
            | spv::WriterFlags::CLAMP_FRAG_DEPTH,
        fake_missing_bindings: true,
        binding_map: spv::BindingMap::default(),
        capabilities: None,
        bounds_check_policies: BoundsCheckPolicies {
            index: RESTRICT,
            buffer: RESTRICT,
            image_load: RESTRICT,
            binding_array: RESTRICT,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::Polyfill,
        force_loop_bounding: true,
        ray_query_initialization_tracking: true,
        trace_ray_argument_validation: true,
        use_storage_input_output_16: false,
        debug_info: None,
        task_dispatch_limits: None,
        mesh_shader_primitive_indices_clamp: true,
        emit_int_div_checks: true,
    }
}
