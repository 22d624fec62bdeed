use super::*;
use crate::manifest::{ModuleDigest, ScalarHint, Strides};

fn div(divisor: i32) -> Divisibility {
    Divisibility { divisor, max: 16 }
}

fn gemm() -> Specialization {
    Specialization {
        source_hash: "aa".into(),
        modules: vec![ModuleDigest { path: "crate::kernels".into(), sha256: "01".into() }],
        generics: vec!["f16".into(), "128".into()],
        strides: vec![Strides { param: "x".into(), strides: vec![-1, 1] }],
        specs: vec![TensorSpec {
            param: "x".into(),
            shape_div: vec![div(16), div(16)],
            stride_div: vec![div(16), div(1)],
            stride_one: vec![false, true],
            base_ptr_div: div(16),
            elements_disjoint: true,
        }],
        scalar_hints: vec![ScalarHint { param: "n".into(), divisibility: div(8) }],
        ..Specialization::new(
            "kernels",
            "gemm",
            Options::new(Codegen::Optimized { level: 3, lineinfo: false }),
        )
    }
}

fn changed(change: impl Fn(&mut Specialization)) -> Specialization {
    let mut row = gemm();
    change(&mut row);
    row
}

fn shown(change: impl Fn(&mut Specialization)) -> String {
    Nearest::find(&changed(change), [&gemm()]).to_string()
}

#[test]
fn a_length_that_is_no_multiple_of_16_is_told_in_words() {
    assert_eq!(
        shown(|row| row.specs[0].shape_div[0] = div(1)),
        "the nearest embedded is kernels::gemm<f16, 128>: `x.shape[0]` is divisible by 1 and not \
         by 2; embedded: divisible by 16. Cover it with `any_length`, or record this run"
    );
}

/// Something that changes a specialization, with a part of what is said about it.
type Change = (fn(&mut Specialization), &'static str);

#[test]
fn every_field_that_can_differ_is_told() {
    let changes: [Change; 20] = [
        (|row| row.source_hash = "bb".into(), "`source` is another text"),
        (|row| row.modules[0].sha256 = "02".into(), "`module crate::kernels` is another text"),
        (|row| row.generics[1] = "64".into(), "`generic 2` is 64; embedded: 128"),
        (|row| row.generics.push("8".into()), "`generic 3` is 8; embedded: missing"),
        (|row| row.strides[0].strides = vec![-1, -1], "`x.strides` is not 1, not 1"),
        (|row| row.specs[0].shape_div[1] = div(4), "`x.shape[1]` is divisible by 4"),
        (|row| row.specs[0].shape_div.push(div(1)), "`x` is of 3 dimensions"),
        (|row| row.specs[0].stride_div[0] = div(2), "`x.stride[0]` is divisible by 2"),
        (|row| row.specs[0].stride_one[1] = false, "`x.stride[1]` is not 1; embedded: 1"),
        (|row| row.specs[0].base_ptr_div = div(4), "`x.pointer` is divisible by 4"),
        (|row| row.specs[0].elements_disjoint = false, "`x` is with shared elements"),
        (|row| row.scalar_hints[0].divisibility = div(1), "`n` is divisible by 1"),
        (|row| row.grid = Some((1, 2, 3)), "`grid` is the constant (1, 2, 3)"),
        (|row| row.options.occupancy = Some(2), "`occupancy` is 2; embedded: not set"),
        (|row| row.options.num_cta_in_cga = Some(2), "`num_cta_in_cga` is 2"),
        (|row| row.options.max_divisibility = Some(8), "`max_divisibility` is 8"),
        (|row| row.options.num_worker_warps_per_cta = Some(4), "`num_worker_warps_per_cta` is 4"),
        (|row| row.options.min_ctas_per_sm = Some(1), "`min_ctas_per_sm` is 1"),
        (|row| row.options.codegen = Codegen::Debug, "`optimization level` is full debug"),
        (|row| row.options.sanitize_memcheck = true, "`sanitize_memcheck` is on"),
    ];
    for (change, expected) in changes {
        let shown = shown(change);
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn the_same_text_in_another_crate_is_the_same() {
    let asked = changed(|row| row.modules[0].path = "app::kernels".into());
    assert_eq!(differences(&asked, &gemm()), []);
}

#[test]
fn the_one_with_the_fewest_differences_is_the_nearest() {
    let asked = changed(|row| row.specs[0].shape_div = vec![div(1), div(16)]);
    let far = changed(|row| row.generics[0] = "f32".into());
    let near = changed(|row| row.specs[0].shape_div = vec![div(2), div(16)]);
    let Nearest::Differs { differences, .. } = Nearest::find(&asked, [&far, &near]) else {
        panic!("no kernel of this name");
    };
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].embedded, "divisible by 2 and not by 4");
}

#[test]
fn alignment_is_not_promised_to_any_length() {
    let shown = shown(|row| row.specs[0].base_ptr_div = div(4));
    assert!(shown.contains("`any_length` does not cover"), "{shown}");
}

#[test]
fn a_kernel_that_is_not_embedded_is_answered_with_the_most_similar_name() {
    let asked = changed(|row| row.function = "gem".into());
    let other = changed(|row| row.function = "softmax".into());
    assert_eq!(
        Nearest::find(&asked, [&other, &gemm()]),
        Nearest::OtherKernel(Some("kernels::gemm".into()))
    );
    assert_eq!(Nearest::find(&asked, []), Nearest::OtherKernel(None));
}
