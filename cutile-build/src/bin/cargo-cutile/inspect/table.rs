//! The table for people, within 80 columns.

use crate::embedded::bundle::{Embedded, EmbeddedBundle};
use crate::embedded::kernel::EmbeddedKernel;
use crate::embedded::words::{codegen, words};
use crate::output::{Paint, WIDTH, cell, clean, count, painted, size, wrap};
use crate::subject::title;
use crate::toolkit::release;
use cutile_embed::key::key_text;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// Width of a target's column.
const COLUMN: usize = 8;
/// More targets than this are summed up.
const COLUMNS: usize = 5;

pub(super) fn of(
    file: &Path,
    bytes: usize,
    embedded: &Embedded<'_>,
    keys: bool,
    paint: Paint,
) -> String {
    let mut out = String::new();
    for (at, bundle) in embedded.bundles.iter().enumerate() {
        if at > 0 {
            out.push('\n');
        }
        let _ = writeln!(out, "{}", paint.bold(&title(bundle)));
        head(&mut out, bundle);
        if !bundle.targets.is_empty() {
            targets(&mut out, bundle, paint);
        }
        kernels(&mut out, bundle, keys, paint);
        shaders(&mut out, bundle, keys, paint);
        left_out(&mut out, bundle, paint);
    }
    for part in &embedded.unreadable {
        let mut lines = String::new();
        wrap(
            &mut lines,
            "",
            0,
            &clean(&format!("{} at {:#x}: {}", part.part, part.offset, part.why)),
        );
        out.push('\n');
        painted(&mut out, &lines, |line| paint.red(line));
    }
    if embedded.bundles.len() > 1 {
        let all: u64 = embedded.bundles.iter().map(total).sum();
        let _ = writeln!(
            out,
            "\n{} with {} of {} in {}",
            count(embedded.bundles.len(), "bundle"),
            size(all),
            size(bytes as u64),
            file.display()
        );
    }
    out
}

/// Bytes of all parts of a bundle.
fn total(bundle: &EmbeddedBundle<'_>) -> u64 {
    let packs = bundle.targets.iter().filter_map(|target| target.pack.as_ref());
    let packs: usize = packs.chain(&bundle.shaders).map(|pack| pack.bytes).sum();
    let index = bundle.index.as_ref().map_or(0, |index| index.bytes);
    let manifest = bundle.manifest.as_ref().map_or(0, |manifest| manifest.bytes);
    (packs + index + manifest) as u64
}

fn head(out: &mut String, bundle: &EmbeddedBundle<'_>) {
    let manifest = bundle.manifest.as_ref().map(|manifest| &manifest.part);
    let index = bundle.index.as_ref().map(|index| &index.part);
    let cutile = index.map(|index| index.cutile).or(manifest.map(|found| found.cutile.as_str()));
    let level = index.map(|index| index.codegen).or(manifest.map(|manifest| manifest.codegen));
    if let (Some(cutile), Some(level)) = (cutile.filter(|cutile| !cutile.is_empty()), level) {
        row(out, "cutile", &format!("{}, {}", clean(cutile), codegen(level)));
    }
    if let Some(toolkit) = manifest.and_then(|manifest| manifest.toolkit.as_ref()) {
        let versions = [
            format!("tileiras {}", release(&toolkit.tileiras)),
            format!("ptxas {}", release(&toolkit.ptxas)),
            format!("Tile IR {}", toolkit.bytecode),
        ];
        row(out, "toolkit", &clean(&versions.join("; ")));
    }
    let skipped = index.map_or(manifest.and_then(|found| found.skipped.as_deref()), |i| i.skipped);
    if let Some(reason) = skipped {
        row(out, "skipped", &clean(reason));
    }
    let place = |offset: usize, bytes: usize| format!("at {offset:#x}, {}", size(bytes as u64));
    let none = || "none that can be read".to_owned();
    let index = bundle.index.as_ref().map_or_else(none, |part| place(part.offset, part.bytes));
    row(out, "index", &index);
    let part = bundle.manifest.as_ref();
    row(out, "manifest", &part.map_or_else(none, |part| place(part.offset, part.bytes)));
    row(out, "in all", &size(total(bundle)));
}

fn row(out: &mut String, name: &str, value: &str) {
    wrap(out, &format!("  {name}"), 12, value);
}

fn targets(out: &mut String, bundle: &EmbeddedBundle<'_>, paint: Paint) {
    let line = |name: &str, kernels: &str, images: &str, bytes: &str, place: &str| {
        format!("  {name:<10}{kernels:>8}{images:>9}{bytes:>11}{place:>15}")
    };
    let title = line("target", "kernels", "images", "bytes", "pack at");
    let _ = writeln!(out, "\n{}", paint.dim(&title));
    let (mut images, mut bytes) = (0, 0);
    let kernels = bundle.kernels();
    for target in &bundle.targets {
        let rows = kernels.iter().filter(|kernel| kernel.images.contains_key(&*target.name));
        let rows = rows.count().to_string();
        let (count, sum, place) = match &target.pack {
            Some(pack) => (pack.part.len(), pack.bytes as u64, format!("{:#x}", pack.offset)),
            None => (0, 0, "none".to_owned()),
        };
        images += count;
        bytes += sum;
        let name = clean(&target.name);
        let _ = writeln!(out, "{}", line(&name, &rows, &count.to_string(), &size(sum), &place));
    }
    if bundle.targets.len() > 1 {
        let kernels = kernels.len().to_string();
        let all = line("all", &kernels, &images.to_string(), &size(bytes), "");
        let _ = writeln!(out, "{}", all.trim_end());
    }
}

fn kernels(out: &mut String, bundle: &EmbeddedBundle<'_>, keys: bool, paint: Paint) {
    let kernels = bundle.kernels();
    if kernels.is_empty() {
        return;
    }
    let targets: Vec<&str> = bundle.targets.iter().map(|target| target.name.as_str()).collect();
    let columns: Vec<String> = match targets.len() {
        ..=COLUMNS => targets.iter().map(|target| clean(target)).collect(),
        _ => ["images", "least", "most"].map(str::to_owned).into(),
    };
    let room = WIDTH - 2 - COLUMN * columns.len();
    let heading = "kernel, and what its lengths are divisible by";
    let heading = if heading.len() <= room { heading } else { "kernel" };
    let cells = |cells: &[String]| cells.iter().map(|cell| format!("{cell:>COLUMN$}")).collect();
    let titles: String = cells(&columns);
    let _ = writeln!(out, "\n{}", paint.dim(&format!("  {heading:<room$}{titles}")));
    for kernel in &kernels {
        let sizes: String = cells(&sizes(kernel, &targets));
        let name = clean(&kernel.specialization.name());
        if name.chars().count() < room {
            let _ = writeln!(out, "  {name:<room$}{sizes}");
        } else {
            wrap(out, "  ", 2, &name);
            let _ = writeln!(out, "  {:<room$}{sizes}", "");
        }
        let words = clean(&words(kernel.specialization));
        if !words.is_empty() {
            let mut lines = String::new();
            wrap(&mut lines, "    ", 4, &words);
            painted(out, &lines, |line| paint.dim(line));
        }
        if keys {
            key_lines(out, kernel, paint);
        }
    }
}

/// A cell a target, or with many of them: how many images, the smallest and the largest.
fn sizes(kernel: &EmbeddedKernel<'_>, targets: &[&str]) -> Vec<String> {
    let bytes: BTreeMap<&str, u64> =
        kernel.images.iter().map(|(target, image)| (*target, image.bytes())).collect();
    if targets.len() <= COLUMNS {
        let of = |target: &&str| bytes.get(target).map_or("-".to_owned(), |bytes| cell(*bytes));
        return targets.iter().map(of).collect();
    }
    let least = bytes.values().min().copied().unwrap_or(0);
    let most = bytes.values().max().copied().unwrap_or(0);
    vec![bytes.len().to_string(), cell(least), cell(most)]
}

fn key_lines(out: &mut String, kernel: &EmbeddedKernel<'_>, paint: Paint) {
    for (target, image) in kernel.by_number() {
        let _ = writeln!(out, "    {:<8}{}", clean(target), key_text(&image.key));
        let place = match &image.entry {
            Some((offset, _)) => format!("at {offset:#x}, a cubin of {} bytes", image.bytes()),
            None => "in no pack".to_owned(),
        };
        let _ = writeln!(out, "{}", paint.dim(&format!("{:12}{place}", "")));
    }
}

fn shaders(out: &mut String, bundle: &EmbeddedBundle<'_>, keys: bool, paint: Paint) {
    let rows = bundle.manifest.as_ref().map_or(&[][..], |manifest| &manifest.part.shaders);
    if rows.is_empty() && bundle.shaders.is_empty() {
        return;
    }
    let room = WIDTH - 2 - COLUMN;
    let title = format!("  {:<room$}{:>COLUMN$}", "shader, its entry points, its forms", "bytes");
    let _ = writeln!(out, "\n{}", paint.dim(&title));
    for shader in rows {
        wrap(out, "  ", 2, &clean(&shader.path));
        let points = shader.entry_points.iter().map(|point| match point.workgroup_size {
            Some([x, y, z]) => format!("{} ({} {x}×{y}×{z})", point.name, point.stage),
            None => format!("{} ({})", point.name, point.stage),
        });
        wrap(out, "    ", 4, &clean(&points.collect::<Vec<_>>().join(", ")));
        for artifact in &shader.artifacts {
            let constants =
                artifact.constants.iter().map(|(name, value)| format!("{name} = {value}"));
            let constants: Vec<String> = constants.collect();
            let form = clean(&format!("{} {}", artifact.kind, constants.join(", ")));
            let form: String = form.chars().take(room - 4).collect();
            let place = cell(artifact.bytes);
            let _ = writeln!(out, "    {form:<width$}{place:>COLUMN$}", width = room - 2);
            if keys {
                let mut lines = String::new();
                wrap(&mut lines, "", 12, &clean(&artifact.key));
                painted(out, &lines, |line| paint.dim(line));
            }
        }
    }
    let known: BTreeSet<&str> =
        rows.iter().flat_map(|row| &row.artifacts).map(|row| row.key.as_str()).collect();
    for pack in &bundle.shaders {
        let others =
            pack.part.entries().filter(|entry| !known.contains(key_text(&entry.key).as_str()));
        let text = format!(
            "pack at {:#x}, {} in {}, of them {} of text",
            pack.offset,
            size(pack.bytes as u64),
            count(pack.part.len(), "part"),
            others.count()
        );
        let _ = writeln!(out, "  {text}");
    }
}

fn left_out(out: &mut String, bundle: &EmbeddedBundle<'_>, paint: Paint) {
    let rows = bundle.manifest.as_ref().map_or(&[][..], |manifest| &manifest.part.left_out);
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", paint.dim("  seen at build, and not embedded"));
    for row in rows {
        wrap(out, "  ", 2, &clean(&format!("{} for {}", row.kernel, row.target)));
        wrap(out, "    ", 4, &clean(&row.reason));
    }
}
