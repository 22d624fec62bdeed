//! cutile's launcher keys and launch validators, to the types of [`manifest`](crate::manifest) and
//! back.
//!
//! What a key holds, and where a row has it. A key is rebuilt from its row and compared whole, so a
//! field that this table lacks is an error of the build and never a wrong hit.
//!
//! | key field | row |
//! |---|---|
//! | module, function, generics, strides, specialization bits, scalar hints, grid | the same |
//! | compile options | the same; tile libraries: not embedded |
//! | source hash | the same |
//! | device ordinal, gpu name | of the running process |
//! | compiler version, tileiras fingerprint | of the running process |
//! | `CUTILE_BYTECODE_VERSION` | must be unset |
//! | tile library digest | must be absent |

use crate::manifest::{
    Atom, Codegen, Divisibility, LaunchCheck, ModuleDigest, Options, Param, Predicate, ScalarHint,
    Specialization, Strides, TensorSpec, Term, Validator,
};
use cutile::cuda_async::device_context as upstream;
use cutile::cuda_async::predicate;
use cutile::cutile_compiler::cuda_tile_runtime_utils::{
    get_compiler_version, get_gpu_name, tileiras_fingerprint,
};
use cutile::cutile_compiler::kernel_naming::KernelNaming;
use cutile::cutile_compiler::specialization::{DivHint, SpecializationBits};
use cutile::tile_kernel::{CodegenMode, CompileOptions, TileFunctionKey};
use std::fmt;

/// Why a key has no row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowError {
    /// The kernel links tile libraries: its key holds digests of files of this machine.
    TileLibraries,
    /// The row does not give the same key back.
    NotReproduced,
    /// A validator holds what this version does not know.
    Validator,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TileLibraries => {
                "it links tile libraries, and its key holds digests of their files"
            }
            Self::NotReproduced => {
                "its key cannot be rebuilt from what is known of it; is this the cutile that this \
                 crate was made for?"
            }
            Self::Validator => "its launch checks hold a number that is out of range",
        })
    }
}

impl std::error::Error for RowError {}

/// The part of a key that belongs to a device of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// CUDA ordinal.
    pub device: usize,
    /// `sm_XX` of that device.
    pub gpu_name: String,
    compiler_version: String,
    tileiras_fingerprint: String,
}

impl Machine {
    /// What upstream says of `device` in this process. Runs `tileiras --version` once per process
    /// where there is a tileiras, as the first launch would.
    ///
    /// # Panics
    ///
    /// Upstream panics without a driver or without that device: check first.
    #[must_use]
    pub fn of_device(device: usize) -> Self {
        Self {
            device,
            gpu_name: get_gpu_name(device),
            compiler_version: get_compiler_version(),
            tileiras_fingerprint: tileiras_fingerprint().to_owned(),
        }
    }
}

/// The key that the launcher of `row` asks for on `machine`.
#[must_use]
pub fn key_of(row: &Specialization, machine: &Machine) -> TileFunctionKey {
    let strides = row.strides.iter().map(|arg| (arg.param.clone(), arg.strides.clone()));
    let specs = row.specs.iter().map(|arg| (arg.param.clone(), bits_of(arg)));
    let hints = row.scalar_hints.iter().map(|arg| (arg.param.clone(), hint_of(arg.divisibility)));
    let builder = TileFunctionKey::builder(&row.module, &row.function)
        .generics(row.generics.clone())
        .stride_args(strides.collect())
        .spec_args(specs.collect())
        .scalar_hints(hints.collect())
        .compile_options(options_of(&row.options))
        .source_hash(&row.source_hash)
        .device_id(machine.device)
        .gpu_name(&machine.gpu_name)
        .compiler_version(&machine.compiler_version)
        .tileiras_fingerprint(&machine.tileiras_fingerprint);
    match row.grid {
        Some(grid) => builder.grid(grid).build(),
        None => builder.build(),
    }
}

/// The row of a key that a launcher made in this process.
///
/// # Errors
///
/// [`RowError`] when the key depends on files of this machine, or is not what comes back from the
/// row.
pub fn row_of(
    key: &TileFunctionKey,
    machine: &Machine,
    modules: Vec<ModuleDigest>,
) -> Result<Specialization, RowError> {
    let options = options_row(&key.compile_options).ok_or(RowError::TileLibraries)?;
    let row = Specialization {
        module: key.module_name().to_owned(),
        function: key.function_name().to_owned(),
        symbol: KernelNaming::new(key.function_name()).entry_name(),
        source_hash: source_hash_of(key).ok_or(RowError::NotReproduced)?,
        modules,
        generics: key.function_generics.clone(),
        strides: key
            .stride_args
            .iter()
            .map(|(param, strides)| Strides { param: param.clone(), strides: strides.clone() })
            .collect(),
        specs: key.spec_args.iter().map(|(param, bits)| spec_row(param, bits)).collect(),
        scalar_hints: key
            .scalar_hints
            .iter()
            .map(|(param, hint)| ScalarHint { param: param.clone(), divisibility: hint_row(*hint) })
            .collect(),
        grid: key.grid,
        options,
    };
    if key_of(&row, machine) == *key { Ok(row) } else { Err(RowError::NotReproduced) }
}

/// Upstream has no getter for the source hash; it stands in the derived debug text. Quotes inside a
/// string are escaped there, so the text between the two marks cannot be another field's, and
/// [`row_of`] compares the whole key anyway.
fn source_hash_of(key: &TileFunctionKey) -> Option<String> {
    let text = format!("{key:?}");
    let (_, rest) = text.split_once(", source_hash: \"")?;
    let (hash, _) = rest.split_once("\", device_id: ")?;
    Some(hash.to_owned())
}

/// The ordinal of a key's device, from the same text: its last field of that name.
pub(super) fn device_of(key: &TileFunctionKey) -> Option<usize> {
    let text = format!("{key:?}");
    let (_, rest) = text.rsplit_once(", device_id: ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Compile options, or `None` where tile libraries are among them.
#[must_use]
pub fn options_row(options: &CompileOptions) -> Option<Options> {
    // Without `..`: an option that upstream adds must not go missing from the key.
    let CompileOptions {
        occupancy,
        num_cta_in_cga,
        max_divisibility,
        num_worker_warps_per_cta,
        min_ctas_per_sm,
        codegen,
        sanitize_memcheck,
        tile_libraries,
    } = options;
    tile_libraries.is_empty().then_some(Options {
        occupancy: *occupancy,
        num_cta_in_cga: *num_cta_in_cga,
        max_divisibility: *max_divisibility,
        num_worker_warps_per_cta: *num_worker_warps_per_cta,
        min_ctas_per_sm: *min_ctas_per_sm,
        codegen: codegen_row(*codegen),
        sanitize_memcheck: *sanitize_memcheck,
    })
}

/// How device code is generated, for a row.
#[must_use]
pub fn codegen_row(codegen: CodegenMode) -> Codegen {
    match codegen {
        CodegenMode::Debug => Codegen::Debug,
        CodegenMode::Optimized { level, lineinfo } => Codegen::Optimized { level, lineinfo },
    }
}

fn options_of(row: &Options) -> CompileOptions {
    let Options {
        occupancy,
        num_cta_in_cga,
        max_divisibility,
        num_worker_warps_per_cta,
        min_ctas_per_sm,
        codegen,
        sanitize_memcheck,
    } = row.clone();
    CompileOptions {
        occupancy,
        num_cta_in_cga,
        max_divisibility,
        num_worker_warps_per_cta,
        min_ctas_per_sm,
        codegen: match codegen {
            Codegen::Debug => CodegenMode::Debug,
            Codegen::Optimized { level, lineinfo } => CodegenMode::Optimized { level, lineinfo },
        },
        sanitize_memcheck,
        tile_libraries: Vec::new(),
    }
}

fn spec_row(param: &str, bits: &SpecializationBits) -> TensorSpec {
    let SpecializationBits { shape_div, stride_div, stride_one, base_ptr_div, elements_disjoint } =
        bits;
    TensorSpec {
        param: param.to_owned(),
        shape_div: shape_div.iter().copied().map(hint_row).collect(),
        stride_div: stride_div.iter().copied().map(hint_row).collect(),
        stride_one: stride_one.clone(),
        base_ptr_div: hint_row(*base_ptr_div),
        elements_disjoint: *elements_disjoint,
    }
}

fn bits_of(row: &TensorSpec) -> SpecializationBits {
    SpecializationBits {
        shape_div: row.shape_div.iter().copied().map(hint_of).collect(),
        stride_div: row.stride_div.iter().copied().map(hint_of).collect(),
        stride_one: row.stride_one.clone(),
        base_ptr_div: hint_of(row.base_ptr_div),
        elements_disjoint: row.elements_disjoint,
    }
}

fn hint_row(hint: DivHint) -> Divisibility {
    let DivHint { divisor, max } = hint;
    Divisibility { divisor, max }
}

fn hint_of(row: Divisibility) -> DivHint {
    let Divisibility { divisor, max } = row;
    DivHint { divisor, max }
}

/// The row of a validator.
///
/// # Errors
///
/// [`RowError::Validator`] when a parameter number does not fit.
pub fn validator_row(validator: &upstream::Validator) -> Result<Validator, RowError> {
    let upstream::Validator { params, launch_checks } = validator;
    let params = params.iter().map(|param| match param {
        upstream::ValidParamType::Scalar(upstream::ScalarParamType { element_type }) => {
            Param::Scalar { element_type: element_type.clone() }
        }
        upstream::ValidParamType::Pointer(upstream::PointerParamType { mutable, element_type }) => {
            Param::Pointer { mutable: *mutable, element_type: element_type.clone() }
        }
        upstream::ValidParamType::Tensor(upstream::TensorParamType { element_type, shape }) => {
            Param::Tensor { element_type: element_type.clone(), shape: shape.clone() }
        }
    });
    let launch_checks = launch_checks.iter().map(|check| {
        let predicate::LaunchCheck { predicate, cause } = check;
        Some(LaunchCheck { predicate: predicate_row(predicate)?, cause: cause.clone() })
    });
    Ok(Validator {
        params: params.collect(),
        launch_checks: launch_checks.collect::<Option<_>>().ok_or(RowError::Validator)?,
    })
}

/// The validator of a row.
///
/// # Errors
///
/// [`RowError::Validator`] when the numbers overflow upstream's terms.
pub fn validator_of(row: &Validator) -> Result<upstream::Validator, RowError> {
    let params = row.params.iter().cloned().map(|param| match param {
        Param::Scalar { element_type } => {
            upstream::ValidParamType::Scalar(upstream::ScalarParamType { element_type })
        }
        Param::Pointer { mutable, element_type } => {
            upstream::ValidParamType::Pointer(upstream::PointerParamType { mutable, element_type })
        }
        Param::Tensor { element_type, shape } => {
            upstream::ValidParamType::Tensor(upstream::TensorParamType { element_type, shape })
        }
    });
    let launch_checks = row.launch_checks.iter().map(|check| {
        Some(predicate::LaunchCheck {
            predicate: predicate_of(&check.predicate)?,
            cause: check.cause.clone(),
        })
    });
    Ok(upstream::Validator {
        params: params.collect(),
        launch_checks: launch_checks.collect::<Option<_>>().ok_or(RowError::Validator)?,
    })
}

fn predicate_row(predicate: &predicate::Predicate) -> Option<Predicate> {
    Some(match predicate {
        predicate::Predicate::Zero(term) => Predicate::Zero(term_row(term)?),
        predicate::Predicate::Nonzero(term) => Predicate::Nonzero(term_row(term)?),
        predicate::Predicate::Positive(term) => Predicate::Positive(term_row(term)?),
        predicate::Predicate::DivisibleBy { term, divisor } => {
            Predicate::DivisibleBy { term: term_row(term)?, divisor: *divisor }
        }
    })
}

// The variants are built as they are read: the constructors would bring them into normal form
// again, which they are in.
fn predicate_of(row: &Predicate) -> Option<predicate::Predicate> {
    Some(match row {
        Predicate::Zero(term) => predicate::Predicate::Zero(term_of(term)?),
        Predicate::Nonzero(term) => predicate::Predicate::Nonzero(term_of(term)?),
        Predicate::Positive(term) => predicate::Predicate::Positive(term_of(term)?),
        Predicate::DivisibleBy { term, divisor } => {
            predicate::Predicate::DivisibleBy { term: term_of(term)?, divisor: *divisor }
        }
    })
}

fn term_row(term: &predicate::Term) -> Option<Term> {
    let coefficients = term.coeffs().iter().map(|(atom, by)| Some((atom_row(*atom)?, *by)));
    Some(Term {
        coefficients: coefficients.collect::<Option<_>>()?,
        constant: term.constant_part(),
    })
}

fn term_of(row: &Term) -> Option<predicate::Term> {
    row.coefficients.iter().try_fold(predicate::Term::constant(row.constant), |sum, (atom, by)| {
        sum.add(&predicate::Term::affine(atom_of(*atom)?, *by, 0))
    })
}

fn atom_row(atom: predicate::Atom) -> Option<Atom> {
    let small = |n: usize| u32::try_from(n).ok();
    Some(match atom {
        predicate::Atom::Dim { param, axis } => {
            Atom::Dim { param: small(param)?, axis: small(axis)? }
        }
        predicate::Atom::Iv(id) => Atom::Iv(id),
        predicate::Atom::TileBlockId(axis) => Atom::TileBlockId(small(axis)?),
        predicate::Atom::NumTileBlocks(axis) => Atom::NumTileBlocks(small(axis)?),
        predicate::Atom::ViewExtent { param, axis } => {
            Atom::ViewExtent { param: small(param)?, axis: small(axis)? }
        }
        predicate::Atom::TileCount { param, axis, tile } => {
            Atom::TileCount { param: small(param)?, axis: small(axis)?, tile }
        }
    })
}

fn atom_of(row: Atom) -> Option<predicate::Atom> {
    let wide = |n: u32| usize::try_from(n).ok();
    Some(match row {
        Atom::Dim { param, axis } => {
            predicate::Atom::Dim { param: wide(param)?, axis: wide(axis)? }
        }
        Atom::Iv(id) => predicate::Atom::Iv(id),
        Atom::TileBlockId(axis) => predicate::Atom::TileBlockId(wide(axis)?),
        Atom::NumTileBlocks(axis) => predicate::Atom::NumTileBlocks(wide(axis)?),
        Atom::ViewExtent { param, axis } => {
            predicate::Atom::ViewExtent { param: wide(param)?, axis: wide(axis)? }
        }
        Atom::TileCount { param, axis, tile } => {
            predicate::Atom::TileCount { param: wide(param)?, axis: wide(axis)?, tile }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutile::tile_kernel::DebugInfoLevel;

    fn machine() -> Machine {
        Machine {
            device: 1,
            gpu_name: "sm_90".into(),
            compiler_version: "0.5.0".into(),
            tileiras_fingerprint: "a \"quoted\" fingerprint".into(),
        }
    }

    fn key(options: CompileOptions) -> TileFunctionKey {
        let hint = DivHint { divisor: 4, max: 16 };
        let bits = SpecializationBits {
            shape_div: vec![hint, DivHint::default()],
            stride_div: vec![hint, hint],
            stride_one: vec![false, true],
            base_ptr_div: hint,
            elements_disjoint: false,
        };
        TileFunctionKey::builder("kernels", "gemm")
            .generics(vec!["f16".into(), ", source_hash: \"x\", device_id: ".into()])
            .stride_args(vec![("a".into(), vec![-1, 1])])
            .spec_args(vec![("a".into(), bits)])
            .scalar_hints(vec![("n".into(), hint)])
            .grid((7, 8, 9))
            .compile_options(options)
            .source_hash("0123abcd")
            .device_id(1)
            .gpu_name("sm_90")
            .compiler_version("0.5.0")
            .tileiras_fingerprint("a \"quoted\" fingerprint")
            .build()
    }

    #[test]
    fn a_key_comes_back_from_its_row_whatever_its_options() {
        let options = CompileOptions::new;
        for options in [
            options(),
            options().occupancy(2),
            options().num_cta_in_cga(2),
            options().max_divisibility(8),
            options().num_worker_warps_per_cta(4),
            options().min_ctas_per_sm(1),
            options().opt_level(1),
            options().debug_info(DebugInfoLevel::Line),
            options().debug_info(DebugInfoLevel::Full),
            options().sanitize_memcheck(true),
        ] {
            let key = key(options);
            let row = row_of(&key, &machine(), vec![]).unwrap();
            assert_eq!(key_of(&row, &machine()), key);
            assert_eq!(row.symbol, "gemm_entry");
            assert_eq!(row.source_hash, "0123abcd");
            assert_eq!(device_of(&key), Some(1));
        }
    }

    #[test]
    fn a_key_of_another_machine_is_refused() {
        let other = Machine { gpu_name: "sm_80".into(), ..machine() };
        let key = key(CompileOptions::new());
        assert_eq!(row_of(&key, &other, vec![]), Err(RowError::NotReproduced));
    }

    #[test]
    fn what_links_a_tile_library_has_no_row() {
        let library = cutile::tile_kernel::TileLibrarySpec::new("/nowhere.tilelib");
        let key = key(CompileOptions::new().tile_library(library));
        assert_eq!(row_of(&key, &machine(), vec![]), Err(RowError::TileLibraries));
    }

    #[test]
    fn a_validator_comes_back_from_its_row() {
        use predicate::{Atom, LaunchCheck, Predicate, Term};
        let atoms = [
            Atom::Dim { param: 1, axis: 2 },
            Atom::Iv(3),
            Atom::TileBlockId(0),
            Atom::NumTileBlocks(1),
            Atom::ViewExtent { param: 0, axis: 1 },
            Atom::TileCount { param: 0, axis: 1, tile: 64 },
        ];
        let term = atoms.iter().enumerate().fold(Term::constant(-5), |sum, (i, atom)| {
            sum.add(&Term::affine(*atom, i as i64 + 2, 0)).unwrap()
        });
        let launch_checks = vec![
            LaunchCheck { predicate: Predicate::Zero(term.clone()), cause: "a".into() },
            LaunchCheck { predicate: Predicate::Nonzero(term.clone()), cause: "b".into() },
            LaunchCheck { predicate: Predicate::Positive(term.clone()), cause: "c".into() },
            LaunchCheck {
                predicate: Predicate::DivisibleBy { term, divisor: 16 },
                cause: "d".into(),
            },
        ];
        let params = vec![
            upstream::ValidParamType::Scalar(upstream::ScalarParamType {
                element_type: "i32".into(),
            }),
            upstream::ValidParamType::Pointer(upstream::PointerParamType {
                mutable: true,
                element_type: "f16".into(),
            }),
            upstream::ValidParamType::Tensor(upstream::TensorParamType {
                element_type: "f32".into(),
                shape: vec![-1, 128],
            }),
        ];
        let validator = upstream::Validator { params, launch_checks };
        let back = validator_of(&validator_row(&validator).unwrap()).unwrap();
        assert_eq!(back.launch_checks, validator.launch_checks);
        assert_eq!(format!("{back:?}"), format!("{validator:?}"));
    }
}
