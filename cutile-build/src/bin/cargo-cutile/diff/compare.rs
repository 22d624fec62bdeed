//! What differs between the bundles of two files. Where the parts lie does not count.

use crate::embedded::bundle::{Embedded, EmbeddedBundle, number};
use crate::embedded::kernel::{EmbeddedImage, EmbeddedKernel, cubin_of};
use crate::embedded::words::{codegen, words};
use crate::toolkit::release;
use cutile_embed::manifest::{Codegen, ShaderRow, Specialization};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Of which side something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Added,
    Removed,
    Changed,
}

/// A bundle that is not the same in both files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct BundleDiff {
    pub(crate) package: String,
    pub(crate) status: Status,
    pub(crate) fields: Vec<Field>,
    pub(crate) kernels: Vec<KernelDiff>,
    pub(crate) shaders: Vec<ShaderDiff>,
    /// Of all images and shaders, in the first file and in the second.
    pub(crate) bytes: [u64; 2],
}

/// What is said once a bundle.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Field {
    pub(crate) field: &'static str,
    pub(crate) a: String,
    pub(crate) b: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct KernelDiff {
    pub(crate) kernel: String,
    pub(crate) words: String,
    pub(crate) status: Status,
    /// Beside its images.
    pub(crate) why: Vec<&'static str>,
    pub(crate) images: Vec<ImageDiff>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ImageDiff {
    pub(crate) target: String,
    pub(crate) status: Status,
    /// In the first file and in the second.
    pub(crate) bytes: [Option<u64>; 2],
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ShaderDiff {
    pub(crate) path: String,
    pub(crate) status: Status,
    pub(crate) why: Vec<&'static str>,
}

/// The bundles that differ.
pub(crate) fn compare(a: &Embedded<'_>, b: &Embedded<'_>) -> Vec<BundleDiff> {
    let (a, b) = (by_package(a), by_package(b));
    let names: BTreeSet<_> = a.keys().chain(b.keys()).copied().collect();
    let diffs = names.into_iter().filter_map(|name| bundle(name.0, a.get(&name), b.get(&name)));
    diffs.collect()
}

/// By name; the number tells those of a universal binary apart.
fn by_package<'e, 'a>(
    embedded: &'e Embedded<'a>,
) -> BTreeMap<(&'e str, usize), &'e EmbeddedBundle<'a>> {
    let mut out = BTreeMap::new();
    for bundle in &embedded.bundles {
        let name = bundle.package.name.as_str();
        let number = (0..).find(|number| !out.contains_key(&(name, *number))).unwrap_or(0);
        out.insert((name, number), bundle);
    }
    out
}

fn bundle(
    package: &str,
    a: Option<&&EmbeddedBundle<'_>>,
    b: Option<&&EmbeddedBundle<'_>>,
) -> Option<BundleDiff> {
    let status = status(a.is_some(), b.is_some());
    let fields = match (a, b) {
        (Some(a), Some(b)) => fields(a, b),
        _ => Vec::new(),
    };
    let kernels = kernels(
        &a.map(|bundle| bundle.kernels()).unwrap_or_default(),
        &b.map(|bundle| bundle.kernels()).unwrap_or_default(),
    );
    let shaders = shaders(shader_rows(a), shader_rows(b));
    let same =
        status == Status::Changed && fields.is_empty() && kernels.is_empty() && shaders.is_empty();
    let bytes = [a, b].map(|side| side.map_or(0, |bundle| bytes(bundle)));
    let package = package.to_owned();
    (!same).then_some(BundleDiff { package, status, fields, kernels, shaders, bytes })
}

fn status(a: bool, b: bool) -> Status {
    match (a, b) {
        (false, true) => Status::Added,
        (true, false) => Status::Removed,
        _ => Status::Changed,
    }
}

fn bytes(bundle: &EmbeddedBundle<'_>) -> u64 {
    let packs = bundle.targets.iter().filter_map(|target| target.pack.as_ref());
    packs.chain(&bundle.shaders).map(|pack| pack.bytes as u64).sum()
}

fn fields(a: &EmbeddedBundle<'_>, b: &EmbeddedBundle<'_>) -> Vec<Field> {
    let of = |bundle: &EmbeddedBundle<'_>| {
        let manifest = bundle.manifest.as_ref().map(|manifest| &manifest.part);
        let index = bundle.index.as_ref().map(|index| &index.part);
        let toolkit = manifest.and_then(|manifest| manifest.toolkit.as_ref());
        let none = || "none".to_owned();
        let mut targets: Vec<&str> =
            bundle.targets.iter().map(|target| target.name.as_str()).collect();
        targets.sort_by_key(|target| number(target));
        let level = index.map(|index| index.codegen).or(manifest.map(|found| found.codegen));
        let cutile = index.map(|index| index.cutile.to_owned());
        let skipped = index.and_then(|index| index.skipped.map(str::to_owned));
        [
            ("version", bundle.package.version.clone()),
            ("cutile", cutile.or(manifest.map(|found| found.cutile.clone())).unwrap_or_else(none)),
            ("debug level", level.map_or_else(none, codegen)),
            ("tileiras", toolkit.map_or_else(none, |toolkit| release(&toolkit.tileiras))),
            ("ptxas", toolkit.map_or_else(none, |toolkit| release(&toolkit.ptxas))),
            ("libnvvm", toolkit.map_or_else(none, |toolkit| toolkit.nvvm.clone())),
            ("Tile IR", toolkit.map_or_else(none, |toolkit| toolkit.bytecode.clone())),
            ("targets", targets.join(" ")),
            ("skipped", skipped.unwrap_or_else(none)),
        ]
    };
    let pairs = of(a).into_iter().zip(of(b)).filter(|((_, a), (_, b))| a != b);
    pairs.map(|((field, a), (_, b))| Field { field, a, b }).collect()
}

fn kernels(a: &[EmbeddedKernel<'_>], b: &[EmbeddedKernel<'_>]) -> Vec<KernelDiff> {
    let pairs = pairs(a, b);
    let mut diffs: Vec<KernelDiff> = pairs.into_iter().filter_map(|(a, b)| kernel(a, b)).collect();
    diffs.sort_by(|a, b| (&a.kernel, &a.words).cmp(&(&b.kernel, &b.words)));
    diffs
}

/// A kernel of the first file and what it is in the second.
pub(crate) type Pair<'p, 'a> = (Option<&'p EmbeddedKernel<'a>>, Option<&'p EmbeddedKernel<'a>>);

/// Every kernel of both files, once. A kernel whose text changed is the same kernel: first those that
/// are equal in all are matched, then those that are equal in all but their sources, then in all but
/// those and the debug level.
pub(crate) fn pairs<'p, 'a>(
    a: &'p [EmbeddedKernel<'a>],
    b: &'p [EmbeddedKernel<'a>],
) -> Vec<Pair<'p, 'a>> {
    let mut rest: Vec<&EmbeddedKernel<'_>> = b.iter().collect();
    let mut take = |wanted: &dyn Fn(&Specialization) -> bool| {
        let at = rest.iter().position(|kernel| wanted(kernel.specialization))?;
        Some(rest.remove(at))
    };
    let mut pairs = Vec::new();
    let mut unmatched = Vec::new();
    for kernel in a {
        match take(&|other| *other == *kernel.specialization) {
            Some(other) => pairs.push((Some(kernel), Some(other))),
            None => unmatched.push(kernel),
        }
    }
    // A build of another level changes every row.
    for level in [None, Some(Codegen::Debug)] {
        let wanted = |row: &Specialization| without_sources(row, level);
        unmatched.retain(|kernel: &&EmbeddedKernel<'_>| {
            let same = wanted(kernel.specialization);
            let other = take(&|other| wanted(other) == same);
            let is_unmatched = other.is_none();
            pairs.extend(other.map(|other| (Some(*kernel), Some(other))));
            is_unmatched
        });
    }
    pairs.extend(unmatched.into_iter().map(|kernel| (Some(kernel), None)));
    pairs.extend(rest.into_iter().map(|kernel| (None, Some(kernel))));
    pairs
}

/// With `level` as the debug level, if it is one.
fn without_sources(row: &Specialization, level: Option<Codegen>) -> Specialization {
    let mut row = Specialization { source_hash: String::new(), modules: Vec::new(), ..row.clone() };
    row.options.codegen = level.unwrap_or(row.options.codegen);
    row
}

fn kernel(a: Option<&EmbeddedKernel<'_>>, b: Option<&EmbeddedKernel<'_>>) -> Option<KernelDiff> {
    let row = a.or(b)?.specialization;
    let why = match (a, b) {
        (Some(a), Some(b)) => reasons(a, b),
        _ => Vec::new(),
    };
    let none = BTreeMap::new();
    let images = images(a.map_or(&none, |a| &a.images), b.map_or(&none, |b| &b.images));
    let status = status(a.is_some(), b.is_some());
    let same = status == Status::Changed && why.is_empty() && images.is_empty();
    (!same).then(|| KernelDiff { kernel: row.name(), words: words(row), status, why, images })
}

/// What of a kernel is not the same, beside its images.
pub(crate) fn reasons(a: &EmbeddedKernel<'_>, b: &EmbeddedKernel<'_>) -> Vec<&'static str> {
    let mut why = Vec::new();
    if a.specialization.source_hash != b.specialization.source_hash {
        why.push("its module's text");
    } else if a.specialization.modules != b.specialization.modules {
        why.push("the text of a module it uses");
    }
    if a.specialization.options.codegen != b.specialization.options.codegen {
        why.push("its debug level");
    }
    let both = a.images.iter().filter_map(|(target, image)| Some((image, b.images.get(target)?)));
    if both.into_iter().any(|(a, b)| a.validator != b.validator) {
        why.push("its launch checks");
    }
    why
}

fn images(
    a: &BTreeMap<&str, EmbeddedImage<'_>>,
    b: &BTreeMap<&str, EmbeddedImage<'_>>,
) -> Vec<ImageDiff> {
    let mut targets: Vec<&str> = a.keys().chain(b.keys()).copied().collect();
    targets.sort_by_key(|target| (number(target), *target));
    targets.dedup();
    let diff = |target: &str| {
        let (a, b) = (a.get(target), b.get(target));
        let status = status(a.is_some(), b.is_some());
        if status == Status::Changed && cubin(a) == cubin(b) {
            return None;
        }
        let bytes = [a, b].map(|image| image.map(EmbeddedImage::bytes));
        Some(ImageDiff { target: target.to_owned(), status, bytes })
    };
    targets.into_iter().filter_map(diff).collect()
}

/// The code of an image.
pub(crate) fn cubin(image: Option<&EmbeddedImage<'_>>) -> Option<Vec<u8>> {
    let (_, entry) = image?.entry.as_ref()?;
    entry.unchecked().map(|payload| cubin_of(&payload).to_vec())
}

fn shader_rows<'b>(bundle: Option<&&'b EmbeddedBundle<'_>>) -> &'b [ShaderRow] {
    let manifest = bundle.and_then(|bundle| bundle.manifest.as_ref());
    manifest.map_or(&[], |manifest| &manifest.part.shaders)
}

fn shaders(a: &[ShaderRow], b: &[ShaderRow]) -> Vec<ShaderDiff> {
    let paths: BTreeSet<&str> = a.iter().chain(b).map(|row| row.path.as_str()).collect();
    let find =
        |rows: &'_ [ShaderRow], path: &str| rows.iter().find(|row| row.path == path).cloned();
    let diff = |path: &str| {
        let (a, b) = (find(a, path), find(b, path));
        let status = status(a.is_some(), b.is_some());
        let mut why = Vec::new();
        if let (Some(a), Some(b)) = (&a, &b) {
            for (what, differs) in [
                ("its text", a.sha256 != b.sha256),
                ("the naga that lowered it", a.naga != b.naga),
                ("its features", a.features != b.features),
                ("its entry points", a.entry_points != b.entry_points),
                ("its overrides", a.overrides != b.overrides),
                ("its bindings", a.bindings != b.bindings),
                ("what it was lowered to", a.artifacts != b.artifacts),
            ] {
                why.extend(differs.then_some(what));
            }
        }
        let same = status == Status::Changed && why.is_empty();
        (!same).then(|| ShaderDiff { path: path.to_owned(), status, why })
    };
    paths.into_iter().filter_map(diff).collect()
}

#[cfg(test)]
mod tests;
