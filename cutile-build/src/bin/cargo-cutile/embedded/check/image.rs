//! The entries of a target's pack: header, cubin, and the rows that name them.

use super::super::bundle::{EmbeddedBundle, EmbeddedTarget};
use super::super::cubin::architecture;
use super::super::kernel::EmbeddedKernel;
use super::Problem;
use cutile_build::assemble::entry_symbols;
use cutile_embed::entry::EntryHeader;
use cutile_embed::key::key_text;
use cutile_embed::manifest::{Codegen, ImageRow, Options, Specialization};
use cutile_embed::pack::PackEntry;
use sha2::{Digest, Sha256};

pub(super) fn check(
    bundle: &EmbeddedBundle<'_>,
    target: &EmbeddedTarget<'_>,
    problems: &mut Vec<Problem>,
    step: &mut dyn FnMut(),
) {
    let Some(pack) = &target.pack else { return };
    let kernels = bundle.kernels();
    for entry in pack.part.entries() {
        let rows = rows_of(&kernels, &target.name, &entry.key);
        let mut names: Vec<String> = rows.iter().map(|row| row.name()).collect();
        names.dedup();
        let kernel = (!names.is_empty()).then(|| names.join(" and "));
        let mut say = |what: String| {
            problems.push(Problem {
                kernel: kernel.clone(),
                target: Some(target.name.clone()),
                offset: Some(pack.offset + entry.offset),
                what,
            });
        };
        if rows.is_empty() {
            say(format!("no row names the entry {}", key_text(&entry.key)));
        }
        one(bundle, target, &entry, &rows, &mut say);
        step();
    }
}

fn rows_of<'k>(
    kernels: &[EmbeddedKernel<'k>],
    target: &str,
    key: &[u8; 32],
) -> Vec<&'k Specialization> {
    let named = kernels
        .iter()
        .filter(|kernel| kernel.images.get(target).is_some_and(|image| image.key == *key));
    named.map(|kernel| kernel.specialization).collect()
}

fn one(
    bundle: &EmbeddedBundle<'_>,
    target: &EmbeddedTarget<'_>,
    entry: &PackEntry<'_>,
    rows: &[&Specialization],
    say: &mut dyn FnMut(String),
) {
    let payload = match entry.payload() {
        Ok(payload) => payload,
        Err(error) => return say(error.to_string()),
    };
    let header = match EntryHeader::parse(&payload) {
        Ok(header) => header,
        Err(error) => return say(error.to_string()),
    };
    if header.gpu_name() != target.name {
        say(format!("its header says that it is for {}", header.gpu_name()));
    }
    let manifest = bundle.manifest.as_ref().map(|manifest| &manifest.part);
    if let Some(toolkit) = manifest.and_then(|manifest| manifest.toolkit.as_ref())
        && header.tileiras_fp() != toolkit.tileiras
    {
        let found = header.tileiras_fp();
        say(format!(
            "its header names {found:?}, and the manifest {:?}, as the tileiras that made it",
            toolkit.tileiras
        ));
    }
    match architecture(header.cubin()) {
        Err(error) => say(format!("it is no cubin: {error}")),
        Ok(found) if found != target.name => say(format!("its cubin is for {found}")),
        Ok(_) => {}
    }
    let symbols = entry_symbols(header.cubin());
    for row in rows {
        match &symbols {
            // What is no ELF file was said above.
            Err(_) => {}
            Ok(symbols) if symbols.contains(&row.symbol) => {}
            Ok(symbols) => {
                let found = symbols.join(", ");
                say(format!("its cubin has no function {}, but: {found}", row.symbol));
            }
        }
        let (found, expected) = ((header.opt_level(), header.flags()), level(&row.options));
        if found != expected {
            say(format!(
                "its header says level {} and flags {}, its row {} and {}",
                found.0, found.1, expected.0, expected.1
            ));
        }
    }
    let images = manifest.into_iter().flat_map(|manifest| &manifest.kernels);
    let images = images.filter_map(|row| row.images.get(&target.name));
    let key = key_text(&entry.key);
    for image in images.filter(|image| image.key == key) {
        against_row(header.cubin(), image, say);
    }
}

fn against_row(cubin: &[u8], row: &ImageRow, say: &mut dyn FnMut(String)) {
    if row.bytes != cubin.len() as u64 {
        say(format!("its cubin has {} bytes, {} by the manifest", cubin.len(), row.bytes));
    }
    let sha256 = key_text(&Sha256::digest(cubin).into());
    if row.sha256 != sha256 {
        say(format!("the SHA-256 of its cubin is {sha256}, {} by the manifest", row.sha256));
    }
}

/// Level and flags of an entry's header that follow from the options of its row.
fn level(options: &Options) -> (u8, u8) {
    let memcheck = u8::from(options.sanitize_memcheck) << 2;
    match options.codegen {
        Codegen::Debug => (0, 1 | memcheck),
        Codegen::Optimized { level, lineinfo } => (level, u8::from(lineinfo) << 1 | memcheck),
    }
}
