//! In few words, what a specialization is specialized for: `x 16×8, y 16, n 4`.
//!
//! A number behind a parameter is what its length is divisible by, one number a dimension; behind an
//! integer, what the integer is. What else differs from the usual follows in brackets.

use cutile_embed::manifest::{Codegen, Divisibility, Options, Specialization, TensorSpec};

/// The words; empty where there is nothing to say.
#[must_use]
pub fn words(specialization: &Specialization) -> String {
    // Without `..`: a field that is added must be shown, or be said here not to be.
    let Specialization {
        module: _,
        function: _,
        symbol: _,
        source_hash: _,
        modules: _,
        generics: _,
        // What they say is in `specs`.
        strides: _,
        specs,
        scalar_hints,
        grid,
        options,
    } = specialization;
    let mut out: Vec<String> = specs.iter().map(tensor).collect();
    for hint in scalar_hints {
        out.push(format!("{} {}", hint.param, hint.divisibility.divisor));
    }
    if let Some((x, y, z)) = grid {
        out.push(format!("grid {x}×{y}×{z}"));
    }
    out.extend(set_options(options));
    out.join(", ")
}

/// How code was generated: `O3`, `O3 with line tables`, `debug`.
#[must_use]
pub fn codegen(codegen: Codegen) -> String {
    match codegen {
        Codegen::Debug => "debug".to_owned(),
        Codegen::Optimized { level, lineinfo: false } => format!("O{level}"),
        Codegen::Optimized { level, lineinfo: true } => format!("O{level} with line tables"),
    }
}

fn tensor(spec: &TensorSpec) -> String {
    let TensorSpec { param, shape_div, stride_div, stride_one, base_ptr_div, elements_disjoint } =
        spec;
    let product = |axes: &[Divisibility]| {
        axes.iter().map(|axis| axis.divisor.to_string()).collect::<Vec<_>>().join("×")
    };
    let mut more = Vec::new();
    if stride_one.last() == Some(&false) {
        more.push("strided".to_owned());
    }
    let is_full = |hint: &Divisibility| hint.divisor >= hint.max;
    let others = stride_div.iter().zip(stride_one).filter(|(_, one)| !**one);
    if others.clone().any(|(axis, _)| !is_full(axis)) {
        let axes: Vec<_> = others.map(|(axis, _)| *axis).collect();
        more.push(format!("strides {}", product(&axes)));
    }
    if !is_full(base_ptr_div) {
        more.push(format!("pointer {}", base_ptr_div.divisor));
    }
    if !elements_disjoint {
        more.push("shared elements".to_owned());
    }
    let lengths = if shape_div.is_empty() { "scalar".to_owned() } else { product(shape_div) };
    match more.as_slice() {
        [] => format!("{param} {lengths}"),
        more => format!("{param} {lengths} [{}]", more.join(", ")),
    }
}

fn set_options(options: &Options) -> Vec<String> {
    let Options {
        occupancy,
        num_cta_in_cga,
        max_divisibility,
        num_worker_warps_per_cta,
        min_ctas_per_sm,
        // Shown once a bundle.
        codegen: _,
        sanitize_memcheck,
    } = options;
    let numbers = [
        ("occupancy", occupancy),
        ("num_cta_in_cga", num_cta_in_cga),
        ("max_divisibility", max_divisibility),
        ("num_worker_warps_per_cta", num_worker_warps_per_cta),
        ("min_ctas_per_sm", min_ctas_per_sm),
    ];
    let set = numbers.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", (*value)?)));
    set.chain(sanitize_memcheck.then(|| "memcheck".to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::specialization;
    use super::*;
    use cutile_embed::manifest::ScalarHint;

    fn div(divisor: i32) -> Divisibility {
        Divisibility { divisor, max: 16 }
    }

    #[test]
    fn the_usual_is_a_number_a_dimension() {
        let mut row = specialization("m", "f", &[], &[("x", &[16, 8]), ("y", &[1])]);
        assert_eq!(words(&row), "x 16×8, y 1");
        row.scalar_hints = vec![ScalarHint { param: "n".into(), divisibility: div(4) }];
        row.grid = Some((4, 2, 1));
        row.options.occupancy = Some(2);
        row.options.sanitize_memcheck = true;
        assert_eq!(words(&row), "x 16×8, y 1, n 4, grid 4×2×1, occupancy 2, memcheck");
        assert_eq!(words(&specialization("m", "f", &[], &[])), "");
    }

    #[test]
    fn what_is_unusual_stands_in_brackets() {
        let mut row = specialization("m", "f", &[], &[("x", &[16, 8])]);
        let spec = &mut row.specs[0];
        spec.base_ptr_div = div(4);
        spec.stride_div = vec![div(8), div(1)];
        spec.elements_disjoint = false;
        assert_eq!(words(&row), "x 16×8 [strides 8, pointer 4, shared elements]");
        row.specs[0] = TensorSpec {
            stride_one: vec![true, false],
            stride_div: vec![div(1), div(2)],
            base_ptr_div: div(16),
            elements_disjoint: true,
            ..row.specs[0].clone()
        };
        assert_eq!(words(&row), "x 16×8 [strided, strides 2]");
    }

    #[test]
    fn levels_have_short_names() {
        assert_eq!(codegen(Codegen::Debug), "debug");
        assert_eq!(codegen(Codegen::Optimized { level: 3, lineinfo: false }), "O3");
        assert_eq!(codegen(Codegen::Optimized { level: 2, lineinfo: true }), "O2 with line tables");
    }
}
