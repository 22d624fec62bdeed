//! A module to IR bytes, SPIR-V or WGSL.
//!
//! Every options struct of naga is written out, field by field: its defaults depend on how naga was
//! compiled and leave bounds checks off, and a field that a new version adds must be decided here.

use super::error::{ShaderError, Stage};
use super::front::{Checked, parse};
use super::interface::interface;
use naga::back::{spv, wgsl};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{ArraySize, Expression, ImageClass, ImageDimension, Literal, Module, Type, TypeInner};
use sha2::{Digest, Sha256};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// Every access is kept inside its array, buffer, texture or binding array.
const BOUNDS: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Restrict,
    buffer: BoundsCheckPolicy::Restrict,
    image_load: BoundsCheckPolicy::Restrict,
    binding_array: BoundsCheckPolicy::Restrict,
};

const WGSL_FLAGS: wgsl::WriterFlags = wgsl::WriterFlags::empty();

fn spirv_options() -> spv::Options<'static> {
    spv::Options {
        // The first that has subgroup operations; Vulkan 1.1 takes it.
        lang_version: (1, 3),
        // `DEBUG` would put names in, and by default depends on the profile naga is built in.
        flags: spv::WriterFlags::ADJUST_COORDINATE_SPACE
            | spv::WriterFlags::LABEL_VARYINGS
            | spv::WriterFlags::CLAMP_FRAG_DEPTH,
        // Nothing is faked: without a map, a binding keeps the group and number it has in the text.
        fake_missing_bindings: true,
        binding_map: spv::BindingMap::default(),
        // What the validator let through may be used.
        capabilities: None,
        bounds_check_policies: BOUNDS,
        // `Native` needs an extension of the device.
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::Polyfill,
        force_loop_bounding: true,
        ray_query_initialization_tracking: true,
        trace_ray_argument_validation: true,
        // As above: polyfilled by f32, which every device has.
        use_storage_input_output_16: false,
        debug_info: None,
        task_dispatch_limits: None,
        mesh_shader_primitive_indices_clamp: true,
        emit_int_div_checks: true,
    }
}

/// SHA-256 of the options: part of every key.
pub(super) fn options_digest() -> [u8; 32] {
    static DIGEST: OnceLock<[u8; 32]> = OnceLock::new();
    *DIGEST.get_or_init(|| digest_of(&spirv_options(), WGSL_FLAGS))
}

fn digest_of(spirv: &spv::Options<'_>, wgsl: wgsl::WriterFlags) -> [u8; 32] {
    // The names of all fields are part of it, so that a new field is another digest.
    Sha256::digest(format!("{spirv:?} {wgsl:?}")).into()
}

/// A module as bytes, in the layout of this naga's structs.
///
/// # Panics
///
/// Never: the types have no state that postcard refuses.
#[must_use]
pub fn encode_ir(module: &Module) -> Vec<u8> {
    postcard::to_stdvec(module).expect("plain data serializes")
}

/// A module from bytes that [`encode_ir`] of the same naga made, and whose digest was checked:
/// others can decode to a module on which naga's validator panics. Places in the text are gone.
#[must_use]
pub fn decode_ir(bytes: &[u8]) -> Option<Module> {
    match postcard::take_from_bytes(bytes) {
        Ok((module, [])) => Some(module),
        _ => None,
    }
}

/// SPIR-V 1.3 with all entry points, for Vulkan's coordinates, with every check that WGSL asks for.
///
/// # Errors
///
/// For what naga cannot express in SPIR-V. Overrides must be resolved before.
pub fn emit_spirv(path: &str, checked: &Checked) -> Result<Vec<u32>, ShaderError> {
    let failed = |why: &str| {
        ShaderError::new(
            path,
            Stage::Emit,
            format!("naga cannot write it as SPIR-V: {why}"),
            "leave \"spirv\" out of `emit`, and load the shader as IR",
        )
    };
    let external =
        TypeInner::Image { dim: ImageDimension::D2, arrayed: false, class: ImageClass::External };
    if checked.module.types.iter().any(|(_, ty)| ty.inner == external) {
        return Err(failed("it has no external textures"));
    }
    without_panic(|| {
        spv::write_vec(&checked.module, &checked.info, &spirv_options(), None)
            .map_err(|error| error.to_string())
    })
    .map_err(|why| failed(&why))
}

/// naga promises that its writers do not panic on a module that its validator accepts, and they do,
/// on combinations that they do not know. `a_panic_of_a_writer_is_an_error`.
fn without_panic<T>(write: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|_| Err("its writer panicked".to_owned()))
}

/// WGSL without comments and needless space.
///
/// naga's writer leaves out what it does not know, without a word. So what it wrote is parsed, and
/// compared with the module by what a caller sees of it.
///
/// # Errors
///
/// For what naga cannot express in WGSL: ray queries, `@early_depth_test`, and `@size` or `@align`
/// that move a member. Overrides must be resolved before.
pub fn emit_wgsl(path: &str, checked: &Checked) -> Result<String, ShaderError> {
    let failed = |why: &str| {
        ShaderError::new(
            path,
            Stage::Emit,
            format!("naga cannot write it as WGSL: {why}"),
            "leave \"wgsl\" out of `emit`, and load the shader as IR",
        )
    };
    let ray = |inner: &TypeInner| {
        matches!(inner, TypeInner::RayQuery { .. } | TypeInner::AccelerationStructure { .. })
    };
    if checked.module.types.iter().any(|(_, ty)| ray(&ty.inner)) {
        return Err(failed("it has no rays"));
    }
    let module = with_known_lengths(&checked.module);
    // What it may use was checked before.
    let capabilities = Capabilities::all();
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .map_err(|error| failed(&error.as_inner().to_string()))?;
    let written = without_panic(|| {
        wgsl::write_string(&module, &info, WGSL_FLAGS).map_err(|error| error.to_string())
    });
    let mut text = minify(&written.map_err(|why| failed(&why))?);
    let read = |text: &str| {
        parse(path, text, capabilities)
            .map_err(|error| failed(&format!("it is not WGSL what it writes:\n{}", error.message)))
    };
    let mut found = read(&text)?;
    if let Some(named) = with_names(&text, &found.module, &module) {
        found = read(&named)?;
        text = named;
    }
    let (expected, found) = (interface(&Checked { module, info }), interface(&found));
    if expected == found {
        return Ok(text);
    }
    let lost: Vec<&str> =
        expected.iter().filter(|line| !found.contains(line)).map(String::as_str).collect();
    Err(failed(&format!("it would lose a part of this: {}", lost.join("; "))))
}

/// The text in which the entry points have the names that they have in `module`: naga's writer
/// renames those that end in a digit or that are named as a built-in. `None` where all have. That
/// a name is taken shows when the text is read again: nothing calls an entry point.
fn with_names(text: &str, found: &Module, module: &Module) -> Option<String> {
    let mut named = text.to_owned();
    for (has, wanted) in found.entry_points.iter().zip(&module.entry_points) {
        if has.name != wanted.name {
            let (old, new) = (format!("fn {}(", has.name), format!("fn {}(", wanted.name));
            named = named.replacen(&old, &new, 1);
        }
    }
    (named != text).then_some(named)
}

/// A resolved module in which the lengths of arrays are numbers and no longer overrides: naga's
/// writer leaves the second kind out.
fn with_known_lengths(module: &Module) -> Module {
    let mut out = module.clone();
    let length = |size| match size {
        ArraySize::Pending(length) => match module.overrides[length].init {
            Some(init) => match module.global_expressions[init] {
                Expression::Literal(Literal::U32(length)) => NonZeroU32::new(length),
                Expression::Literal(Literal::I32(length)) => {
                    u32::try_from(length).ok().and_then(NonZeroU32::new)
                }
                _ => None,
            },
            None => None,
        },
        _ => None,
    };
    for (handle, ty) in module.types.iter() {
        let mut inner = ty.inner.clone();
        let (TypeInner::Array { size, .. } | TypeInner::BindingArray { size, .. }) = &mut inner
        else {
            continue;
        };
        let Some(length) = length(*size) else { continue };
        *size = ArraySize::Constant(length);
        let mut known = Type { name: ty.name.clone(), inner };
        if out.types.get(&known).is_some() {
            // An arena holds a type once. Only names of structs are written.
            known.name = Some(format!("resolved{}", handle.index()));
        }
        out.types.replace(handle, known);
    }
    out.overrides.clear();
    out
}

/// Takes out space that separates nothing. Not around operators: `a - -b` is not `a--b`. naga's
/// writer makes no comments, and WGSL has no strings.
fn minify(text: &str) -> String {
    const PUNCTUATION: &str = "{}()[];,:";
    let mut out = String::with_capacity(text.len());
    for word in text.split_ascii_whitespace() {
        let parts = |c: Option<char>| c.is_none_or(|c| PUNCTUATION.contains(c));
        if !parts(out.chars().next_back()) && !parts(word.chars().next()) {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shader::parse;

    #[test]
    fn only_space_that_separates_nothing_is_taken_out() {
        assert_eq!(
            minify("fn f( a : u32 ) {\n    let x = a - -1i;\n}\n"),
            "fn f(a:u32){let x = a - -1i;}"
        );
    }

    #[test]
    fn a_panic_of_a_writer_is_an_error() {
        let error = without_panic(|| -> Result<(), String> { panic!("as naga does") }).unwrap_err();
        assert_eq!(error, "its writer panicked");
        assert_eq!(without_panic(|| Ok(3)), Ok(3));
    }

    #[test]
    fn entry_points_keep_their_names_in_wgsl() {
        let text = "
            fn blur() {}
            @compute @workgroup_size(1) fn blur1() { blur(); }
            @compute @workgroup_size(1) fn blur_1() { blur(); }
            @compute @workgroup_size(1) fn min() {}
            @compute @workgroup_size(1) fn trailing_() {}
            @compute @workgroup_size(1) fn größe2() {}";
        let checked = parse("a", text, Capabilities::empty()).unwrap();
        let written = emit_wgsl("a", &checked).unwrap();
        for entry in &checked.module.entry_points {
            assert!(written.contains(&format!("fn {}(", entry.name)), "{}: {written}", entry.name);
        }
    }

    #[test]
    fn wgsl_that_would_move_a_member_is_an_error() {
        let text = "
            struct Block { first: u32, @align(16) second: u32 }
            @group(0) @binding(0) var<storage, read_write> block: Block;
            @compute @workgroup_size(1) fn main() { block.first = block.second; }";
        let checked = parse("a", text, Capabilities::empty()).unwrap();
        let error = emit_wgsl("a", &checked).unwrap_err();
        assert_eq!(error.stage, Stage::Emit);
        assert!(error.message.contains("16 None"), "{error}");
        let checked = parse("a", &text.replace("@align(16)", ""), Capabilities::empty()).unwrap();
        emit_wgsl("a", &checked).unwrap();
    }

    #[test]
    fn bytes_behind_the_module_are_no_module() {
        let text = "@compute @workgroup_size(1) fn main() {}";
        let checked = parse("a", text, Capabilities::empty()).unwrap();
        let mut bytes = encode_ir(&checked.module);
        assert!(decode_ir(&bytes).is_some());
        bytes.push(0);
        assert!(decode_ir(&bytes).is_none());
        assert!(decode_ir(&[]).is_none());
    }

    #[test]
    fn every_option_moves_the_digest() {
        let known = options_digest();
        let changes: [fn(&mut spv::Options<'_>); 8] = [
            |options| options.lang_version = (1, 4),
            |options| options.flags |= spv::WriterFlags::DEBUG,
            |options| options.bounds_check_policies.buffer = BoundsCheckPolicy::Unchecked,
            |options| {
                options.zero_initialize_workgroup_memory =
                    spv::ZeroInitializeWorkgroupMemoryMode::None;
            },
            |options| options.force_loop_bounding = false,
            |options| options.emit_int_div_checks = false,
            |options| options.use_storage_input_output_16 = true,
            |options| options.fake_missing_bindings = false,
        ];
        for change in changes {
            let mut options = spirv_options();
            change(&mut options);
            assert_ne!(digest_of(&options, WGSL_FLAGS), known);
        }
        let explicit = wgsl::WriterFlags::EXPLICIT_TYPES;
        assert_ne!(digest_of(&spirv_options(), explicit), known);
    }

    #[test]
    fn spirv_has_the_checks_whatever_profile_naga_is_built_in() {
        let text = "
            @group(0) @binding(0) var<storage, read_write> data: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                data[id.x] = 7u;
            }";
        let checked = parse("a", text, Capabilities::empty()).unwrap();
        let words = emit_spirv("a", &checked).unwrap();
        let opcodes: Vec<u32> = instructions(&words).collect();
        const OP_NAME: u32 = 5;
        const OP_ARRAY_LENGTH: u32 = 68;
        assert!(opcodes.contains(&OP_ARRAY_LENGTH), "the index is not kept in the buffer");
        assert!(!opcodes.contains(&OP_NAME), "there are names in it");
    }

    /// The opcodes of a module: behind five words of header, each instruction tells its length.
    fn instructions(words: &[u32]) -> impl Iterator<Item = u32> {
        let mut at = 5;
        std::iter::from_fn(move || {
            let first = *words.get(at)?;
            at += (first >> 16) as usize;
            Some(first & 0xffff)
        })
    }
}
