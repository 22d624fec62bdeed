//! What a file embeds against what its sources make: kernel by kernel, image by image.

use crate::diff::compare::{Field, Pair, ShaderDiff, compare, cubin, pairs, reasons};
use crate::embedded::bundle::{Embedded, EmbeddedBundle, number};
use crate::embedded::kernel::EmbeddedKernel;
use crate::embedded::scan::Located;
use crate::embedded::words::words;
use serde::Serialize;

/// Of which side something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Side {
    #[serde(rename = "same")]
    Same,
    #[serde(rename = "differs")]
    Differs,
    #[serde(rename = "only in the file")]
    File,
    #[serde(rename = "only from the sources")]
    Sources,
}

/// A bundle against what was rebuilt of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Against {
    pub(super) package: String,
    pub(super) version: String,
    /// Whether all of it is the same.
    pub(super) same: bool,
    /// Whether its parts are, to the byte.
    pub(super) bytes: bool,
    pub(super) fields: Vec<Field>,
    pub(super) kernels: Vec<Row>,
    pub(super) shaders: Vec<ShaderDiff>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) kernel: String,
    pub(super) words: String,
    pub(super) status: Side,
    /// What differs.
    pub(super) why: Vec<String>,
    pub(super) targets: Vec<String>,
    /// Whether nothing differs but keys.
    #[serde(skip)]
    pub(super) only_keys: bool,
}

impl Against {
    /// A bundle of a file, and all that the sources of its package made; each with the bytes that it
    /// lies in.
    pub(super) fn of(
        (shipped, file): (&EmbeddedBundle<'_>, &[u8]),
        (rebuilt, built): (&Embedded<'_>, &[u8]),
    ) -> Self {
        let alone = Embedded { bundles: vec![shipped.clone()], unreadable: Vec::new() };
        let diffs = compare(&alone, rebuilt);
        let fields = diffs.iter().flat_map(|diff| diff.fields.clone()).collect::<Vec<_>>();
        let shaders = diffs.iter().flat_map(|diff| diff.shaders.clone()).collect::<Vec<_>>();
        let made: Vec<EmbeddedKernel<'_>> =
            rebuilt.bundles.iter().flat_map(EmbeddedBundle::kernels).collect();
        let had = shipped.kernels();
        let mut kernels: Vec<Row> = pairs(&had, &made).into_iter().filter_map(row).collect();
        kernels.sort_by(|a, b| (&a.kernel, &a.words).cmp(&(&b.kernel, &b.words)));
        let same = fields.is_empty()
            && shaders.is_empty()
            && rebuilt.unreadable.is_empty()
            && kernels.iter().all(|row| row.status == Side::Same);
        let made = rebuilt.bundles.iter().flat_map(|bundle| parts(bundle, built));
        let bytes = same && made.eq(parts(shipped, file));
        Self {
            package: shipped.package.name.clone(),
            version: shipped.package.version.clone(),
            same,
            bytes,
            fields,
            kernels,
            shaders,
        }
    }

    /// Whether all that differs are keys.
    pub(super) fn only_keys(&self) -> bool {
        let rows = self.kernels.iter().filter(|row| row.status != Side::Same);
        let others = rows.collect::<Vec<_>>();
        let no_more = self.fields.is_empty() && self.shaders.is_empty() && !others.is_empty();
        no_more && others.iter().all(|row| row.only_keys)
    }
}

fn row((shipped, made): Pair<'_, '_>) -> Option<Row> {
    let kernel = shipped.or(made)?;
    let mut why: Vec<String> = Vec::new();
    let mut only_keys = false;
    let status = match (shipped, made) {
        (Some(shipped), Some(made)) => {
            why.extend(reasons(shipped, made).into_iter().map(str::to_owned));
            let code = why.is_empty();
            let images = images(shipped, made);
            only_keys = code && images.iter().all(|(_, key)| *key);
            why.extend(images.into_iter().map(|(text, _)| text));
            if why.is_empty() { Side::Same } else { Side::Differs }
        }
        (Some(_), None) => Side::File,
        (None, _) => Side::Sources,
    };
    let targets = kernel.by_number().into_iter().map(|(target, _)| target.to_owned()).collect();
    let (name, words) = (kernel.specialization.name(), words(kernel.specialization));
    Some(Row { kernel: name, words, status, why, targets, only_keys })
}

/// What differs of the images, and whether that is the key alone.
fn images(shipped: &EmbeddedKernel<'_>, made: &EmbeddedKernel<'_>) -> Vec<(String, bool)> {
    let mut targets: Vec<&str> = shipped.images.keys().chain(made.images.keys()).copied().collect();
    targets.sort_by_key(|target| (number(target), *target));
    targets.dedup();
    let difference = |target: &str| match (shipped.images.get(target), made.images.get(target)) {
        (Some(a), Some(b)) if cubin(Some(a)) != cubin(Some(b)) => {
            Some((format!("its code for {target}"), false))
        }
        (Some(a), Some(b)) if a.key != b.key => Some((format!("its key for {target}"), true)),
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some((format!("the sources make none for {target}"), false)),
        (None, _) => Some((format!("the file has none for {target}"), false)),
    };
    targets.into_iter().filter_map(difference).collect()
}

/// The bytes of all parts of a bundle.
fn parts<'f>(bundle: &EmbeddedBundle<'_>, file: &'f [u8]) -> Vec<&'f [u8]> {
    fn place<T>(part: &Located<T>) -> (usize, usize) {
        (part.offset, part.bytes)
    }
    let packs = bundle.targets.iter().filter_map(|target| target.pack.as_ref());
    let index = bundle.index.iter().map(place);
    let manifest = bundle.manifest.iter().map(place);
    let places = index.chain(manifest).chain(packs.chain(&bundle.shaders).map(place));
    places.map(|(at, len)| file.get(at..at + len).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::fixture::{Bundle, Plan, bundle, file};

    fn against(shipped: &Bundle, made: &Bundle) -> Against {
        let (shipped, made) = (file(shipped, 7), file(made, 0));
        let (embedded, rebuilt) = (Embedded::read(&shipped), Embedded::read(&made));
        Against::of((&embedded.bundles[0], &shipped), (&rebuilt, &made))
    }

    fn rows(against: &Against) -> Vec<(&str, Side, Vec<&str>)> {
        let rows = against.kernels.iter();
        rows.map(|row| {
            (row.kernel.as_str(), row.status, row.why.iter().map(String::as_str).collect())
        })
        .collect()
    }

    const GEMM: &str = "gemm::matmul<f16, 64, 64>";
    const ADD: &str = "vector::add<f32, 128>";

    #[test]
    fn the_same_bundle_is_the_same_to_the_byte() {
        let built = bundle("app", &["sm_80", "sm_100"]);
        let found = against(&built, &built);
        assert!(found.same && found.bytes, "{found:?}");
        assert_eq!(found.kernels[0].targets, ["sm_80", "sm_100"]);
        assert_eq!(rows(&found), [GEMM, ADD, ADD].map(|kernel| (kernel, Side::Same, vec![])));
    }

    #[test]
    fn each_thing_that_differs_is_named() {
        let plan = Plan::new("app", &["sm_80", "sm_90"]);
        let gemm_of = |target: &'static str| {
            move |image: &crate::embedded::fixture::Image| {
                image.kernel.starts_with("gemm") && image.target == target
            }
        };
        let is_gemm = gemm_of("sm_90");
        let code = plan.build_with(|image| {
            if is_gemm(image) {
                image.code.push(1);
            }
        });
        let found = against(&plan.build(), &code);
        assert_eq!(rows(&found)[0], (GEMM, Side::Differs, vec!["its code for sm_90"]));
        assert_eq!(rows(&found)[1].1, Side::Same);
        assert!(!found.same && !found.bytes && !found.only_keys());

        let key = plan.build_with(|image| {
            if is_gemm(image) {
                image.key[0] ^= 1;
            }
        });
        let found = against(&plan.build(), &key);
        assert_eq!(rows(&found)[0], (GEMM, Side::Differs, vec!["its key for sm_90"]));
        assert!(found.only_keys());

        let less = plan.build_with(|image| {
            let is_there = !is_gemm(image);
            (image.in_pack, image.in_index, image.in_manifest) = (is_there, is_there, is_there);
        });
        let found = against(&plan.build(), &less);
        assert_eq!(rows(&found)[0].2, ["the sources make none for sm_90"]);
        assert_eq!(rows(&against(&less, &plan.build()))[0].2, ["the file has none for sm_90"]);
    }

    #[test]
    fn a_kernel_of_one_side_and_one_of_another_text() {
        let plan = Plan::new("app", &["sm_90"]);
        let mut other = plan.clone();
        let gemm = other.kernels.iter().position(|row| row.function == "matmul").unwrap();
        other.kernels.remove(gemm);
        other.kernels[0].source_hash = "f".repeat(64);
        other.kernels.sort();
        let found = against(&plan.build(), &other.build());
        assert_eq!(rows(&found)[0], (GEMM, Side::File, vec![]));
        let texts =
            rows(&found).into_iter().filter(|row| row.2.first() == Some(&"its module's text"));
        assert_eq!(texts.count(), 1, "{found:?}");
        assert_eq!(rows(&against(&other.build(), &plan.build()))[0].1, Side::Sources);
        assert!(!found.same && !found.only_keys());
    }

    #[test]
    fn nothing_made_is_not_the_same() {
        let shipped = file(&bundle("app", &["sm_90"]), 0);
        let embedded = Embedded::read(&shipped);
        let found = Against::of((&embedded.bundles[0], &shipped), (&Embedded::default(), b""));
        assert!(!found.same && found.kernels.iter().all(|row| row.status == Side::File));
    }
}
