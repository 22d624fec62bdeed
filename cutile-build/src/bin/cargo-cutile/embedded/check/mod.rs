//! Everything that has to hold of what is embedded.
//!
//! | what | against |
//! |---|---|
//! | header, index and payloads of each pack | their digests |
//! | index | its digest; that its rows decode, and are as many as it says |
//! | manifest | the index, row by row: kernels, targets, keys, launch checks |
//! | header of an entry | the digest of its cubin; target, level and flags of its rows; the toolkit of the manifest |
//! | cubin | a whole ELF file; its architecture is the target; it has the entry symbol of each row; length and digest in the manifest |
//! | entry of a shader | its digest; its key, worked out again; length, digest and kind in the manifest |
//! | rows | each has an entry, and each entry a row |
//!
//! The key of an image is not worked out again: it is the digest of the Tile IR bytecode among other
//! things, and an entry has only the digest of that. What guards it is the digest of the pack's
//! index.

mod image;
mod rows;
mod shaders;

use super::bundle::{Embedded, EmbeddedBundle};
use cutile_embed::manifest::Package;

/// Something that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Problem {
    /// `module::function<generics>`, or the path of a shader.
    pub kernel: Option<String>,
    /// The `sm_XX`.
    pub target: Option<String>,
    /// Where in the file.
    pub offset: Option<usize>,
    /// What was found, and what was expected.
    pub what: String,
}

/// What came out for one bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The crate.
    pub package: Package,
    /// Why nothing was built, if nothing was.
    pub skipped: Option<String>,
    /// Rows of all targets.
    pub rows: usize,
    /// Entries of all packs.
    pub entries: usize,
    /// What does not hold.
    pub problems: Vec<Problem>,
}

/// What came out for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Per bundle.
    pub bundles: Vec<Checked>,
    /// Parts that cannot be read and so belong to no bundle.
    pub unreadable: Vec<Problem>,
}

impl Verdict {
    /// Whether all holds.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unreadable.is_empty() && self.bundles.iter().all(|checked| checked.problems.is_empty())
    }

    /// All problems.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let bundles = self.bundles.iter().flat_map(|checked| &checked.problems);
        self.unreadable.iter().chain(bundles)
    }
}

/// Checks all that is embedded. `step` is called with how many entries are checked, and of how many.
pub fn check(embedded: &Embedded<'_>, step: &mut dyn FnMut(usize, usize)) -> Verdict {
    let all = embedded.bundles.iter().map(entries).sum();
    let mut done = 0;
    let mut step = || {
        done += 1;
        step(done, all);
    };
    let unreadable = embedded.unreadable.iter().map(|part| Problem {
        offset: Some(part.offset),
        what: part.why.clone(),
        ..Problem::default()
    });
    Verdict {
        bundles: embedded.bundles.iter().map(|bundle| check_bundle(bundle, &mut step)).collect(),
        unreadable: unreadable.collect(),
    }
}

fn entries(bundle: &EmbeddedBundle<'_>) -> usize {
    let packs = bundle.targets.iter().filter_map(|target| target.pack.as_ref());
    packs.chain(&bundle.shaders).map(|pack| pack.part.len()).sum()
}

fn check_bundle(bundle: &EmbeddedBundle<'_>, step: &mut dyn FnMut()) -> Checked {
    let mut problems = Vec::new();
    rows::check(bundle, &mut problems);
    for target in &bundle.targets {
        image::check(bundle, target, &mut problems, step);
    }
    shaders::check(bundle, &mut problems, step);
    Checked {
        package: bundle.package.clone(),
        skipped: bundle.index.as_ref().and_then(|index| index.part.skipped.map(str::to_owned)),
        rows: bundle.kernels().iter().map(|kernel| kernel.images.len()).sum(),
        entries: entries(bundle),
        problems,
    }
}

#[cfg(test)]
mod tests;
