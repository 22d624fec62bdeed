//! The rows: index against manifest, and each row against the packs.

use super::super::bundle::{EmbeddedBundle, EmbeddedTarget};
use super::Problem;
use cutile_embed::index::Index;
use cutile_embed::key::key_text;
use cutile_embed::manifest::{ImageRow, Manifest, Specialization};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(bundle: &EmbeddedBundle<'_>, problems: &mut Vec<Problem>) {
    let mut say = |what: String| problems.push(Problem { what, ..Problem::default() });
    match &bundle.index {
        None => say("there is no index that can be read: `install` finds none of this".into()),
        Some(index) => {
            if let Some(manifest) = &bundle.manifest {
                headers(&index.part, &manifest.part, &mut say);
            }
        }
    }
    if bundle.manifest.is_none() {
        say("there is no manifest that can be read".into());
    }
    for target in &bundle.targets {
        packed(bundle, target, problems);
    }
    if let (Some(_), Some(manifest)) = (&bundle.index, &bundle.manifest) {
        against_manifest(bundle, &manifest.part, problems);
    }
}

/// What index and manifest both say of the whole bundle.
fn headers(index: &Index<'_>, manifest: &Manifest, say: &mut dyn FnMut(String)) {
    let mut same = |what: &str, index: String, manifest: String| {
        if index != manifest {
            say(format!("the index says {what} {index}, the manifest {manifest}"));
        }
    };
    same("cutile", index.cutile.to_owned(), manifest.cutile.clone());
    same("debug level", format!("{:?}", index.codegen), format!("{:?}", manifest.codegen));
    let targets: Vec<&str> = index.targets.iter().map(|target| target.target).collect();
    same("targets", targets.join(", "), manifest.targets.join(", "));
    let skipped = |reason: Option<&str>| reason.unwrap_or("nothing").to_owned();
    same("skipped:", skipped(index.skipped), skipped(manifest.skipped.as_deref()));
    let kernels = format!("{} kernels", index.kernels);
    same("it has", kernels, format!("{} kernels", manifest.kernels.len()));
}

/// Whether each row of a target has its entry.
fn packed(bundle: &EmbeddedBundle<'_>, target: &EmbeddedTarget<'_>, problems: &mut Vec<Problem>) {
    let name = Some(target.name.clone());
    let rows = match &target.rows {
        Ok(rows) => rows,
        Err(error) => {
            let what = error.clone();
            return problems.push(Problem { target: name, what, ..Problem::default() });
        }
    };
    let images: BTreeSet<_> = rows.iter().map(|row| row.image).collect();
    if target.pack.is_none() {
        // Packs without an entry are one constant to a linker.
        if !rows.is_empty() {
            let what = format!("no pack that can be read has its {} images", images.len());
            problems.push(Problem { target: name, what, ..Problem::default() });
        }
        return;
    }
    if !target.in_index && bundle.index.is_some() {
        let what = "there is a pack for it, and the index does not name it".to_owned();
        problems.push(Problem { target: name.clone(), what, ..Problem::default() });
    }
    for row in rows {
        if bundle.entry(&target.name, &row.image).is_none() {
            problems.push(Problem {
                kernel: Some(row.specialization.name()),
                target: name.clone(),
                what: format!("the pack has no entry {}", key_text(&row.image)),
                ..Problem::default()
            });
        }
    }
}

/// Row by row: both sides have the same kernels for the same targets with the same images.
fn against_manifest(bundle: &EmbeddedBundle<'_>, manifest: &Manifest, problems: &mut Vec<Problem>) {
    let mut written: BTreeMap<(&Specialization, &str), &ImageRow> = BTreeMap::new();
    for row in &manifest.kernels {
        for (target, image) in &row.images {
            written.insert((&row.specialization, target), image);
        }
    }
    let mut differ = |row: &Specialization, target: &str, what: String| {
        problems.push(Problem {
            kernel: Some(row.name()),
            target: Some(target.to_owned()),
            what,
            ..Problem::default()
        });
    };
    for target in &bundle.targets {
        for row in target.rows.as_deref().unwrap_or_default() {
            let Some(image) = written.remove(&(&row.specialization, target.name.as_str())) else {
                differ(&row.specialization, &target.name, "the manifest has no such row".into());
                continue;
            };
            let key = key_text(&row.image);
            if image.key != key {
                let what =
                    format!("its key is {key} in the index and {} in the manifest", image.key);
                differ(&row.specialization, &target.name, what);
            }
            if image.validator != row.validator {
                let what = "its launch checks are not those of the manifest".to_owned();
                differ(&row.specialization, &target.name, what);
            }
        }
    }
    for ((row, target), _) in written {
        differ(row, target, "the manifest has this row, and the index has none".into());
    }
}
