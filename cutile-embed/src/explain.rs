//! Why a launch is not covered: the nearest embedded specialization, and what differs, in words.
//!
//! Names no cutile type, so that tools and tests have it without CUDA.

use crate::manifest::{Codegen, Divisibility, Options, Specialization, TensorSpec};
use std::fmt::{self, Write};

/// A field in which two specializations of one kernel differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Difference {
    /// The field, as `x.shape[0]`.
    pub field: String,
    /// What the launch has, in words.
    pub asked: String,
    /// What is embedded, in words.
    pub embedded: String,
    /// What to do about it.
    pub remedy: Remedy,
}

/// What makes a launch covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Remedy {
    /// A length or an integer: `any_length` covers every value.
    AnyLength,
    /// The alignment of a pointer: a view that starts inside an allocation has less of it.
    Alignment,
    /// Another launch: warm it up as the program makes it, or record the run.
    WarmUp,
    /// The sources differ: build again.
    Rebuild,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}; embedded: {}", self.field, self.asked, self.embedded)
    }
}

/// Why a specialization is not embedded, as far as the rows tell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nearest {
    /// There is one of the same kernel, with these differences; the fewest of all.
    Differs {
        /// Its name.
        kernel: String,
        /// What differs.
        differences: Vec<Difference>,
    },
    /// No specialization of this kernel is embedded; the kernel with the most similar name, if any
    /// is embedded at all.
    OtherKernel(Option<String>),
}

impl Nearest {
    /// The nearest of `embedded` to what was asked.
    #[must_use]
    pub fn find<'s>(
        asked: &Specialization,
        embedded: impl IntoIterator<Item = &'s Specialization>,
    ) -> Self {
        let mut nearest: Option<(usize, &Specialization, Vec<Difference>)> = None;
        let mut names: Vec<String> = Vec::new();
        for row in embedded {
            if (&row.module, &row.function) != (&asked.module, &asked.function) {
                names.push(format!("{}::{}", row.module, row.function));
                continue;
            }
            let differences = differences(asked, row);
            let far = differences.iter().map(weight).sum();
            // Rows come sorted, so the first of equally near ones is the same in every run.
            if nearest.as_ref().is_none_or(|(least, ..)| far < *least) {
                nearest = Some((far, row, differences));
            }
        }
        match nearest {
            Some((_, row, differences)) => Self::Differs { kernel: row.name(), differences },
            None => {
                let asked = format!("{}::{}", asked.module, asked.function);
                Self::OtherKernel(
                    names.into_iter().min_by_key(|name| strsim::levenshtein(name, &asked)),
                )
            }
        }
    }
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { kernel, differences } => {
                write!(f, "the nearest embedded is {kernel}: ")?;
                for (at, difference) in differences.iter().enumerate() {
                    write!(f, "{}{difference}", if at == 0 { "" } else { "; " })?;
                }
                if differences.is_empty() {
                    f.write_str("it is the same")?;
                }
                f.write_str(". ")?;
                f.write_str(advice(differences))
            }
            Self::OtherKernel(Some(name)) => write!(
                f,
                "no specialization of this kernel is embedded; the most similar name is {name}. \
                 Launch it in a warm-up, or record this run"
            ),
            Self::OtherKernel(None) => f.write_str(
                "no kernel is embedded for this target. Launch it in a warm-up, or record this run",
            ),
        }
    }
}

fn advice(differences: &[Difference]) -> &'static str {
    match differences.iter().map(|difference| difference.remedy).max() {
        Some(Remedy::AnyLength) => "Cover it with `any_length`, or record this run",
        Some(Remedy::Alignment) => {
            "A view that starts inside an allocation is aligned to less than the allocation, which \
             `any_length` does not cover: record this run"
        }
        Some(Remedy::Rebuild) => "The kernel was edited after it was embedded: build again",
        Some(Remedy::WarmUp) | None => {
            "Make this launch in a warm-up, with the same options, or record this run"
        }
    }
}

/// A kernel of other sources is far away, whatever else is equal.
fn weight(difference: &Difference) -> usize {
    match difference.remedy {
        Remedy::AnyLength => 1,
        Remedy::Alignment => 2,
        Remedy::WarmUp => 8,
        Remedy::Rebuild => 64,
    }
}

/// In which fields two specializations of one kernel differ, in the order of the fields.
#[must_use]
pub fn differences(asked: &Specialization, embedded: &Specialization) -> Vec<Difference> {
    let mut out = Found(Vec::new());
    // Without `..`: a field that is added must be compared.
    let Specialization {
        module: _,
        function: _,
        // Follows from the function.
        symbol: _,
        source_hash,
        modules,
        generics,
        strides,
        specs,
        scalar_hints,
        grid,
        options,
    } = asked;
    if *source_hash != embedded.source_hash {
        out.add(
            "source",
            "another text".into(),
            "the text it was built from".into(),
            Remedy::Rebuild,
        );
    } else if *modules != embedded.modules {
        // A path begins with the name of the crate, which is another one in a build script.
        for module in modules {
            if embedded.modules.iter().all(|known| known.sha256 != module.sha256) {
                let field = format!("module {}", module.path);
                out.add(
                    field,
                    "another text".into(),
                    "the text it was built from".into(),
                    Remedy::Rebuild,
                );
            }
        }
    }
    out.list("generic", generics, &embedded.generics, |generic| generic.clone());
    for (asked, embedded) in paired(strides, &embedded.strides, |row| &row.param) {
        let words = |strides: &[i32]| {
            let one = |stride: &i32| if *stride == 1 { "1" } else { "not 1" };
            strides.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let field = format!("{}.strides", asked.param);
        out.changed(field, words(&asked.strides), words(&embedded.strides), Remedy::WarmUp);
    }
    for (asked, embedded) in paired(specs, &embedded.specs, |row| &row.param) {
        out.tensor(asked, embedded);
    }
    for (asked, embedded) in paired(scalar_hints, &embedded.scalar_hints, |row| &row.param) {
        out.divisibility(
            &asked.param,
            asked.divisibility,
            embedded.divisibility,
            Remedy::AnyLength,
        );
    }
    let grid_words = |grid: Option<(u32, u32, u32)>| {
        grid.map_or_else(|| "not a constant".to_owned(), |grid| format!("the constant {grid:?}"))
    };
    out.changed("grid", grid_words(*grid), grid_words(embedded.grid), Remedy::WarmUp);
    out.options(options, &embedded.options);
    out.0
}

/// Rows of both sides with one parameter name. A kernel has the same parameters on both sides,
/// unless its text differs, which is said before.
fn paired<'a, T>(
    asked: &'a [T],
    embedded: &'a [T],
    name: impl Fn(&T) -> &String,
) -> Vec<(&'a T, &'a T)> {
    asked
        .iter()
        .filter_map(|row| {
            let other = embedded.iter().find(|other| name(other) == name(row))?;
            Some((row, other))
        })
        .collect()
}

struct Found(Vec<Difference>);

impl Found {
    fn add(&mut self, field: impl Into<String>, asked: String, embedded: String, remedy: Remedy) {
        self.0.push(Difference { field: field.into(), asked, embedded, remedy });
    }

    fn changed(
        &mut self,
        field: impl Into<String>,
        asked: String,
        embedded: String,
        remedy: Remedy,
    ) {
        if asked != embedded {
            self.add(field, asked, embedded, remedy);
        }
    }

    fn list<T>(&mut self, what: &str, asked: &[T], embedded: &[T], words: impl Fn(&T) -> String) {
        for at in 0..asked.len().max(embedded.len()) {
            let word = |all: &[T]| all.get(at).map_or_else(|| "missing".to_owned(), &words);
            self.changed(format!("{what} {}", at + 1), word(asked), word(embedded), Remedy::WarmUp);
        }
    }

    fn divisibility(
        &mut self,
        field: &str,
        asked: Divisibility,
        embedded: Divisibility,
        remedy: Remedy,
    ) {
        let words = |hint: Divisibility| {
            let mut words = format!("divisible by {}", hint.divisor);
            if hint.divisor < hint.max {
                let _ = write!(words, " and not by {}", hint.divisor * 2);
            }
            words
        };
        self.changed(field, words(asked), words(embedded), remedy);
    }

    fn tensor(&mut self, asked: &TensorSpec, embedded: &TensorSpec) {
        let TensorSpec {
            param,
            shape_div,
            stride_div,
            stride_one,
            base_ptr_div,
            elements_disjoint,
        } = asked;
        let axes =
            |what: &str, asked: &[Divisibility], embedded: &[Divisibility], out: &mut Self| {
                if asked.len() != embedded.len() {
                    let rank = |axes: &[Divisibility]| format!("of {} dimensions", axes.len());
                    out.changed(param.as_str(), rank(asked), rank(embedded), Remedy::WarmUp);
                }
                for (at, (asked, embedded)) in asked.iter().zip(embedded).enumerate() {
                    let field = format!("{param}.{what}[{at}]");
                    out.divisibility(&field, *asked, *embedded, Remedy::AnyLength);
                }
            };
        axes("shape", shape_div, &embedded.shape_div, self);
        axes("stride", stride_div, &embedded.stride_div, self);
        for (at, (asked, embedded)) in stride_one.iter().zip(&embedded.stride_one).enumerate() {
            let words = |one: bool| if one { "1" } else { "not 1" }.to_owned();
            let field = format!("{param}.stride[{at}]");
            self.changed(field, words(*asked), words(*embedded), Remedy::AnyLength);
        }
        let field = format!("{param}.pointer");
        self.divisibility(&field, *base_ptr_div, embedded.base_ptr_div, Remedy::Alignment);
        let words = |disjoint: bool| {
            if disjoint { "without" } else { "with" }.to_owned() + " shared elements"
        };
        let (asked, embedded) = (words(*elements_disjoint), words(embedded.elements_disjoint));
        self.changed(param.as_str(), asked, embedded, Remedy::WarmUp);
    }

    fn options(&mut self, asked: &Options, embedded: &Options) {
        let Options {
            occupancy,
            num_cta_in_cga,
            max_divisibility,
            num_worker_warps_per_cta,
            min_ctas_per_sm,
            codegen,
            sanitize_memcheck,
        } = asked;
        let number = |value: Option<i32>| {
            value.map_or_else(|| "not set".to_owned(), |value| value.to_string())
        };
        for (name, asked, embedded) in [
            ("occupancy", occupancy, embedded.occupancy),
            ("num_cta_in_cga", num_cta_in_cga, embedded.num_cta_in_cga),
            ("max_divisibility", max_divisibility, embedded.max_divisibility),
            (
                "num_worker_warps_per_cta",
                num_worker_warps_per_cta,
                embedded.num_worker_warps_per_cta,
            ),
            ("min_ctas_per_sm", min_ctas_per_sm, embedded.min_ctas_per_sm),
        ] {
            self.changed(name, number(*asked), number(embedded), Remedy::WarmUp);
        }
        let level = |codegen: Codegen| match codegen {
            Codegen::Debug => "full debug".to_owned(),
            Codegen::Optimized { level, lineinfo: true } => format!("{level} with line tables"),
            Codegen::Optimized { level, lineinfo: false } => level.to_string(),
        };
        let (asked, found) = (level(*codegen), level(embedded.codegen));
        self.changed("optimization level", asked, found, Remedy::WarmUp);
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        let (asked, found) = (on(*sanitize_memcheck), on(embedded.sanitize_memcheck));
        self.changed("sanitize_memcheck", asked, found, Remedy::WarmUp);
    }
}

#[cfg(test)]
mod tests;
