use super::*;
use crate::shader::parse;

const TEXT: &str = "
    override on: bool = true;
    override size: u32 = 8u;
    override offset: i32 = -1i;
    override scale: f32;
    @id(7) override tile: u32 = 4u;
    override twice: u32 = size * 2u;
    var<workgroup> block: array<f32, twice>;
    @compute @workgroup_size(size) fn main() {
        block[0] = f32(tile) * scale + f32(offset);
        if on { block[1] = 0.0; }
    }";

fn module() -> Checked {
    parse("a.wgsl", TEXT, Capabilities::empty()).unwrap()
}

fn refused(constants: &[(&str, f64)]) -> String {
    check_constants("a.wgsl", &module().module, constants).unwrap_err().to_string()
}

fn resolved(constants: &[(&str, f64)]) -> Result<Checked, ShaderError> {
    resolve("a.wgsl", TEXT, &module(), constants, Capabilities::empty())
}

#[test]
fn overrides_are_listed_with_type_id_and_default() {
    let found = overrides(&module().module);
    let rows: Vec<_> =
        found.iter().map(|o| (o.key(), o.ty.name(), o.has_default, o.default)).collect();
    assert_eq!(
        rows,
        [
            ("on".to_owned(), "bool", true, Some(1.0)),
            ("size".to_owned(), "u32", true, Some(8.0)),
            ("offset".to_owned(), "i32", true, Some(-1.0)),
            ("scale".to_owned(), "f32", false, None),
            ("7".to_owned(), "u32", true, Some(4.0)),
            // An expression over another override has no value before that has.
            ("twice".to_owned(), "u32", true, None),
        ]
    );
}

#[test]
fn what_naga_would_round_or_cut_is_refused() {
    for (name, value, why) in [
        ("size", 16.5, "it has a fraction"),
        ("size", -1.0, "it is out of range"),
        ("size", 4294967296.0, "it is out of range"),
        ("offset", 2147483648.0, "it is out of range"),
        ("offset", 0.5, "it has a fraction"),
        ("size", f64::NAN, "it is not finite"),
        ("scale", f64::INFINITY, "it is not finite"),
        ("scale", f64::NAN, "it is not finite"),
        ("scale", 1e39, "it is out of range"),
        ("on", 2.0, "it is neither 0 nor 1"),
        ("on", f64::NAN, "it is neither 0 nor 1"),
    ] {
        let shown = refused(&[(name, value)]);
        assert!(shown.contains(why) && shown.contains(name), "{name} {value}: {shown}");
    }
    for (name, value) in [
        ("size", 4294967295.0),
        ("offset", -2147483648.0),
        ("scale", 0.1),
        ("on", 0.0),
        ("on", 1.0),
        ("7", 16.0),
    ] {
        check_constants("a.wgsl", &module().module, &[(name, value)]).unwrap();
    }
}

#[test]
fn an_override_with_an_id_is_known_by_its_number() {
    let shown = refused(&[("tile", 16.0)]);
    assert!(shown.contains("@id(7)") && shown.contains("\"7\""), "{shown}");
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest() {
    let shown = refused(&[("sise", 16.0)]);
    assert!(shown.contains("`sise`") && shown.contains("did you mean `size`?"), "{shown}");
}

#[test]
fn one_override_has_one_value() {
    let shown = refused(&[("size", 16.0), ("size", 8.0)]);
    assert!(shown.contains("two values"), "{shown}");
}

#[test]
fn an_override_without_default_needs_a_value() {
    let shown = resolved(&[]).unwrap_err().to_string();
    assert!(shown.contains("`scale`") && shown.contains("neither a value nor"), "{shown}");
    resolved(&[("scale", 1.0)]).unwrap();
}

#[test]
fn a_resolved_module_has_no_overrides_and_resolves_to_itself() {
    let text = "
        override size: u32;
        override twice: u32 = size * 2u;
        @compute @workgroup_size(size) fn main() { _ = twice; }";
    let checked = parse("a.wgsl", text, Capabilities::empty()).unwrap();
    let constants = [("size", 16.0)];
    let once = resolve("a.wgsl", text, &checked, &constants, Capabilities::empty()).unwrap();
    assert!(once.module.overrides.is_empty());
    assert_eq!(once.module.entry_points[0].workgroup_size, [16, 1, 1]);
    let again = resolve("a.wgsl", text, &once, &[], Capabilities::empty()).unwrap();
    let spirv = |checked| crate::shader::emit_spirv("a.wgsl", checked).unwrap();
    assert_eq!(spirv(&once), spirv(&again));
}

#[test]
fn an_array_takes_its_length_from_the_value() {
    let spirv = |size| {
        let checked = resolved(&[("scale", 2.0), ("size", size)]).unwrap();
        crate::shader::emit_spirv("a.wgsl", &checked).unwrap()
    };
    let words = spirv(16.0);
    assert!(words.contains(&32), "no constant 32, the length of the array");
    assert_ne!(words, spirv(8.0));
    let checked = resolved(&[("scale", 2.0), ("size", 16.0)]).unwrap();
    let wgsl = crate::shader::emit_wgsl("a.wgsl", &checked).unwrap();
    parse("emitted.wgsl", &wgsl, Capabilities::empty()).unwrap();
    assert!(wgsl.contains("array<f32,32>"), "{wgsl}");
}

#[test]
fn a_value_that_breaks_a_rule_is_an_error_and_no_panic() {
    // A workgroup of no size, an array of no length, one longer than 2^32.
    for size in [0.0, 4294967295.0] {
        let error = resolved(&[("scale", 1.0), ("size", size)]).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
