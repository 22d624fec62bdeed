//! A test for each row of the table in the module's text.

use super::*;
use crate::shader::entry_of;

const TEXT: &str = "
    override a: u32 = 1u;
    override b: u32 = 1u;
    @compute @workgroup_size(1) fn first() { _ = a; }
    @compute @workgroup_size(1) fn second() { _ = b; }";

fn request() -> Request<'static> {
    Request::new("a.wgsl", TEXT).kind(Kind::SpirV)
}

fn key(request: &Request<'_>) -> [u8; 32] {
    cache_key(request).unwrap()
}

fn fields() -> Fields<'static> {
    Fields {
        kind: "ir",
        naga: "1.2.3",
        options: [1; 32],
        text_sha256: [2; 32],
        entry_points: &["main"],
        constants: &[("A", 1.0)],
        capabilities: 3,
        adapter: None,
    }
}

fn moved(change: impl Fn(&mut Fields<'static>)) -> bool {
    let mut changed = fields();
    change(&mut changed);
    changed.preimage() != fields().preimage()
}

#[test]
fn key_kind_moves_it() {
    let keys = [Kind::Ir, Kind::SpirV, Kind::Wgsl].map(|kind| key(&request().kind(kind)));
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
}

#[test]
fn key_naga_version_moves_it() {
    assert!(moved(|fields| fields.naga = "1.2.4"));
    let preimage = preimage(&request()).unwrap();
    let version = NAGA_VERSION.as_bytes();
    assert!(preimage.windows(version.len()).any(|window| window == version));
}

#[test]
fn key_emitter_options_move_it() {
    assert!(moved(|fields| fields.options = [9; 32]));
    let preimage = preimage(&request()).unwrap();
    assert!(preimage.windows(32).any(|window| window == options_digest()));
}

#[test]
fn key_text_moves_it() {
    let other = TEXT.replace("1u", "2u");
    assert_ne!(key(&request()), key(&Request::new("a.wgsl", &other).kind(Kind::SpirV)));
}

#[test]
fn key_entry_points_move_it_and_their_order_does_not() {
    let all = key(&request());
    let first = key(&request().entry_points(["first"]));
    let both = key(&request().entry_points(["first", "second"]));
    assert!(all != first && first != both && all != both);
    assert_eq!(both, key(&request().entry_points(["second", "first", "second"])));
}

#[test]
fn key_constants_move_it_and_their_order_does_not() {
    let none = key(&request());
    let one = key(&request().constants([("a", 1.0)]));
    let two = key(&request().constants([("a", 1.0), ("b", 2.0)]));
    assert!(none != one && one != two);
    assert_ne!(one, key(&request().constants([("a", 2.0)])));
    assert_ne!(one, key(&request().constants([("b", 1.0)])));
    assert_eq!(two, key(&request().constants([("b", 2.0), ("a", 1.0)])));
}

#[test]
fn key_constants_are_taken_by_their_value() {
    let bits = |value| key(&request().constants([("a", value)]));
    assert_eq!(bits(0.0), bits(-0.0));
    assert_eq!(bits(f64::NAN), bits(-f64::NAN));
    assert_ne!(bits(1.0), bits(1.0 + f64::EPSILON));
}

#[test]
fn key_constants_do_not_move_that_of_ir_which_keeps_its_overrides() {
    let ir = request().kind(Kind::Ir);
    let with = ir.clone().constants([("a", 5.0)]);
    assert_eq!(key(&ir), key(&with));
    // And rightly so: the bytes are the same.
    assert_eq!(entry_of(&ir).unwrap(), entry_of(&with).unwrap());
}

#[test]
fn key_capabilities_move_it() {
    assert_ne!(key(&request()), key(&request().features(["SHADER_F16"])));
    let two = request().features(["SHADER_F16", "SUBGROUP"]);
    assert_eq!(key(&two), key(&request().features(["SUBGROUP", "SHADER_F16"])));
}

#[test]
fn key_adapter_moves_it() {
    assert!(moved(|fields| fields.adapter = Some("")));
    assert!(moved(|fields| fields.adapter = Some("card")));
}

#[test]
fn key_path_does_not_move_it() {
    assert_eq!(key(&request()), key(&Request::new("b.wgsl", TEXT).kind(Kind::SpirV)));
}

#[test]
fn key_layout_is_pinned_by_its_version() {
    let preimage = fields().preimage();
    let mut expected = 19u64.to_le_bytes().to_vec();
    expected.extend_from_slice(b"cutile-embed shader");
    expected.extend_from_slice(&1u32.to_le_bytes());
    for (length, bytes) in
        [(2, &b"ir"[..]), (5, b"1.2.3"), (32, &[1; 32]), (32, &[2; 32])] as [(u64, &[u8]); 4]
    {
        expected.extend_from_slice(&length.to_le_bytes());
        expected.extend_from_slice(bytes);
    }
    expected.extend_from_slice(&1u64.to_le_bytes());
    expected.extend_from_slice(&4u64.to_le_bytes());
    expected.extend_from_slice(b"main");
    expected.extend_from_slice(&1u64.to_le_bytes());
    expected.extend_from_slice(&1u64.to_le_bytes());
    expected.extend_from_slice(b"A");
    expected.extend_from_slice(&1f64.to_bits().to_le_bytes());
    expected.extend_from_slice(&3u64.to_le_bytes());
    expected.extend_from_slice(&0u64.to_le_bytes());
    assert_eq!(preimage, expected, "another layout needs another KEY_VERSION");
}

#[test]
fn key_fields_cannot_run_into_each_other() {
    let names = |names: &'static [&'static str]| {
        let mut fields = fields();
        fields.entry_points = names;
        fields.preimage()
    };
    assert_ne!(names(&["ab", "c"]), names(&["a", "bc"]));
    assert_ne!(names(&["abc"]), names(&["ab", "c"]));
}

#[test]
fn the_fingerprint_names_naga_and_the_options() {
    let fingerprint = fingerprint();
    assert!(fingerprint.contains(NAGA_VERSION), "{fingerprint}");
    assert!(fingerprint.contains(&key_text(&options_digest())), "{fingerprint}");
}

#[test]
fn an_unknown_feature_has_no_key() {
    let error = cache_key(&request().features(["SUBGROUPS"])).unwrap_err();
    assert!(error.to_string().contains("`SUBGROUP`"), "{error}");
}
