//! What a module declares: entry points, bindings, overrides, and the capabilities it needs.

use cutile_embed::manifest::{BindingRow, EntryPointRow, OverrideRow};
use cutile_embed::shader::{Checked, Override, overrides};
use naga::common::wgsl::TypeContext;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{
    AddressSpace, ArraySize, EntryPoint, GlobalVariable, Handle, ImageClass, Module, ShaderStage,
    StorageAccess, TypeInner,
};

/// A module as manifests and generated code describe it.
#[derive(Debug, Clone)]
pub(crate) struct Reflection {
    /// In the order of the text.
    pub(crate) entry_points: Vec<Entry>,
    /// In the order of the text.
    pub(crate) overrides: Vec<Override>,
    /// By group and binding.
    pub(crate) bindings: Vec<Binding>,
    /// naga's names.
    pub(crate) capabilities: Vec<String>,
}

/// An entry point.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) stage: ShaderStage,
    /// `None` where the stage has none, or an override decides.
    pub(crate) workgroup_size: Option<[u32; 3]>,
}

/// A variable that an entry point uses and a program binds something to.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub(crate) row: BindingRow,
    /// The stages that use it, each once.
    pub(crate) stages: Vec<ShaderStage>,
    pub(crate) space: AddressSpace,
    /// The type, of a binding array that of its elements.
    pub(crate) ty: TypeInner,
    /// Of a binding array how many.
    pub(crate) count: Option<ArraySize>,
    /// Whether an entry point reads it through a sampler.
    pub(crate) sampled: bool,
}

/// Describes a module that was validated under these capabilities.
pub(crate) fn reflect(checked: &Checked, capabilities: Capabilities) -> Reflection {
    let module = &checked.module;
    let mut bindings: Vec<Binding> = module
        .global_variables
        .iter()
        .filter_map(|(handle, variable)| binding(checked, handle, variable))
        .collect();
    bindings.sort_by(|a, b| {
        let place = |row: &BindingRow| (row.group, row.binding);
        place(&a.row).cmp(&place(&b.row)).then_with(|| a.row.name.cmp(&b.row.name))
    });
    Reflection {
        entry_points: module.entry_points.iter().map(entry).collect(),
        overrides: overrides(module),
        bindings,
        capabilities: needed(module, capabilities),
    }
}

impl Reflection {
    pub(crate) fn entry_point_rows(&self) -> Vec<EntryPointRow> {
        let row = |entry: &Entry| EntryPointRow {
            name: entry.name.clone(),
            stage: stage_name(entry.stage).to_owned(),
            workgroup_size: entry.workgroup_size,
        };
        self.entry_points.iter().map(row).collect()
    }

    pub(crate) fn override_rows(&self) -> Vec<OverrideRow> {
        let row = |found: &Override| OverrideRow {
            name: found.name.clone(),
            id: found.id,
            ty: found.ty.to_string(),
            has_default: found.has_default,
            default: found.default,
        };
        self.overrides.iter().map(row).collect()
    }

    pub(crate) fn binding_rows(&self) -> Vec<BindingRow> {
        self.bindings.iter().map(|binding| binding.row.clone()).collect()
    }
}

fn entry(entry: &EntryPoint) -> Entry {
    let overridden =
        entry.workgroup_size_overrides.is_some_and(|sizes| sizes.iter().any(Option::is_some));
    let sized = entry.stage.compute_like() && !overridden;
    Entry {
        name: entry.name.clone(),
        stage: entry.stage,
        workgroup_size: sized.then_some(entry.workgroup_size),
    }
}

/// As WGSL's attributes spell it.
pub(crate) fn stage_name(stage: ShaderStage) -> &'static str {
    match stage {
        ShaderStage::Vertex => "vertex",
        ShaderStage::Task => "task",
        ShaderStage::Mesh => "mesh",
        ShaderStage::Fragment => "fragment",
        ShaderStage::Compute => "compute",
        ShaderStage::RayGeneration => "ray_generation",
        ShaderStage::Miss => "miss",
        ShaderStage::AnyHit => "any_hit",
        ShaderStage::ClosestHit => "closest_hit",
    }
}

/// A variable with a place in a bind group that an entry point uses, itself or in what it calls.
fn binding(
    checked: &Checked,
    handle: Handle<GlobalVariable>,
    variable: &GlobalVariable,
) -> Option<Binding> {
    let module = &checked.module;
    let place = variable.binding?;
    let mut stages = Vec::new();
    let mut sampled = false;
    for (at, entry) in module.entry_points.iter().enumerate() {
        let info = checked.info.get_entry_point(at);
        if !info[handle].is_empty() && !stages.contains(&entry.stage) {
            stages.push(entry.stage);
        }
        sampled |= info.sampling_set.iter().any(|pair| pair.image == handle);
    }
    if stages.is_empty() {
        return None;
    }
    stages.sort();
    let (ty, count) = match module.types[variable.ty].inner {
        TypeInner::BindingArray { base, size } => (&module.types[base].inner, Some(size)),
        ref inner => (inner, None),
    };
    let buffer = matches!(variable.space, AddressSpace::Uniform | AddressSpace::Storage { .. });
    let row = BindingRow {
        group: place.group,
        binding: place.binding,
        name: variable.name.clone().unwrap_or_default(),
        space: match variable.space {
            AddressSpace::Uniform => "uniform",
            AddressSpace::Storage { .. } => "storage",
            _ => "handle",
        }
        .to_owned(),
        ty: module.to_ctx().type_to_string(variable.ty),
        access: access(variable.space, ty).to_owned(),
        // As wgpu and WebGPU count: a runtime-sized array has one element.
        min_size: buffer.then(|| ty.try_size(module.to_ctx())).flatten().map(u64::from),
    };
    Some(Binding { row, stages, space: variable.space, ty: ty.clone(), count, sampled })
}

fn access(space: AddressSpace, ty: &TypeInner) -> &'static str {
    let access = match (space, ty) {
        (AddressSpace::Storage { access }, _) => access,
        (_, TypeInner::Image { class: ImageClass::Storage { access, .. }, .. }) => *access,
        _ => StorageAccess::LOAD,
    };
    if access.contains(StorageAccess::ATOMIC) {
        "atomic"
    } else if access.contains(StorageAccess::LOAD | StorageAccess::STORE) {
        "read_write"
    } else if access.contains(StorageAccess::STORE) {
        "write"
    } else {
        "read"
    }
}

/// Those of the allowed capabilities that the module is not valid without. naga does not say which
/// it met, so each is taken away in turn, and stays away where nothing needs it.
fn needed(module: &Module, allowed: Capabilities) -> Vec<String> {
    let mut needed = allowed;
    // From the last: of two that allow the same, the earlier one allows less.
    for bit in allowed.iter().collect::<Vec<_>>().into_iter().rev() {
        let fewer = needed - bit;
        if Validator::new(ValidationFlags::all(), fewer).validate(module).is_ok() {
            needed = fewer;
        }
    }
    needed.iter_names().map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
#[path = "reflect/tests.rs"]
mod tests;
