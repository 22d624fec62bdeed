//! `cargo cutile export`: what is embedded, as a disk cache in cutile's layout.

use crate::embedded::bundle::{Embedded, EmbeddedBundle, number};
use crate::embedded::cubin::architecture;
use crate::failure::Failure;
use crate::output::{count, print, shown, size};
use crate::progress::Progress;
use crate::subject;
use clap::Args;
use cutile_embed::entry::EntryHeader;
use cutile_embed::key::key_text;
use cutile_embed::pack::PackEntry;
use cutile_embed::store::{FileSystemJitStore, JitStore as _};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The folder gets cutile's layout, <2 digits>/<key>.cubin: it can stand where a
machine has its cache ($XDG_CACHE_HOME/cutile/kernels, of mode 0700), be the
folder of a FileSystemJitStore, or be imported.

A machine looks its entries up by keys that name its own tileiras: one with
another tileiras, or with none, compiles or stops as before. What is embedded
and installed is served on any machine; this is for programs that embed
nothing, and for build machines.

Examples:
  cargo cutile export target/release/app /tmp/cache
  cargo cutile export app /tmp/cache --target sm_90 --target sm_100";

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Export {
    /// The program, library or archive
    file: PathBuf,

    /// The folder of the cache; what it has stays
    dir: PathBuf,

    /// Only the images of this target; may be repeated
    #[arg(long, value_name = "TARGET")]
    target: Vec<String>,
}

pub(crate) fn run(arguments: &Export) -> Result<ExitCode, Failure> {
    let Export { file, dir, target: only } = arguments;
    let bytes = subject::read(file)?;
    let embedded = subject::embedded(file, &bytes)?;
    let entries = entries(file, &embedded, only)?;
    // As the default cache demands it of its folder, whatever the umask.
    if dir.symlink_metadata().is_ok() && !dir.is_dir() {
        return Err(Failure(format!("{} is there, and is no folder", shown(dir))));
    }
    private_folder(dir).map_err(Failure::io("create", dir))?;
    // No bound: what is written first must not be evicted by what follows.
    let store = FileSystemJitStore::builder(dir)
        .capacity_bytes(0)
        .open()
        .map_err(Failure::io("use the folder", dir))?;
    let mut progress = Progress::of("written");
    let mut written = 0;
    for (at, (key, (target, entry))) in entries.iter().enumerate() {
        // It was whole a moment ago: the file is in memory.
        let payload = checked(entry, target)?;
        store.put(&key_text(key), &payload).map_err(|error| {
            Failure(format!(
                "cannot write an entry below {}: {error}; {at} of {} are written, and can be used. \
                 Call it again for the others",
                dir.display(),
                count(entries.len(), "image")
            ))
        })?;
        written += payload.len() as u64;
        progress.step(at + 1, entries.len());
    }
    drop(progress);
    let mut targets: Vec<&str> = entries.values().map(|(target, _)| *target).collect();
    targets.sort_by_key(|target| number(target));
    targets.dedup();
    print(&format!(
        "{} for {} ({}) in {}\n",
        count(entries.len(), "image"),
        targets.join(", "),
        size(written),
        dir.display()
    ))?;
    let shaders: usize =
        embedded.bundles.iter().flat_map(|bundle| &bundle.shaders).map(|p| p.part.len()).sum();
    if shaders > 0 {
        print("Shaders are not exported: a program lowers them in milliseconds.\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a folder that only this user can enter. One that is there stays as it is.
fn private_folder(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

type Entries<'e> = BTreeMap<[u8; 32], (&'e str, PackEntry<'e>)>;

/// The entries of the wanted targets, each checked: nothing is written where one is damaged. Their
/// payloads are not kept, since all of them together can be larger than memory.
fn entries<'e>(
    file: &Path,
    embedded: &'e Embedded<'_>,
    only: &[String],
) -> Result<Entries<'e>, Failure> {
    let mut found = Entries::new();
    let mut targets = BTreeSet::new();
    for bundle in &embedded.bundles {
        for target in &bundle.targets {
            let Some(pack) = &target.pack else { continue };
            targets.insert((number(&target.name), target.name.as_str()));
            if !only.is_empty() && !only.contains(&target.name) {
                continue;
            }
            for entry in pack.part.entries() {
                checked(&entry, &target.name)
                    .map_err(|why| damaged(file, bundle, &target.name, &entry, &why))?;
                found.insert(entry.key, (target.name.as_str(), entry));
            }
        }
    }
    let targets: Vec<&str> = targets.iter().map(|(_, name)| *name).collect();
    if let Some(unknown) = only.iter().find(|name| !targets.contains(&name.as_str())) {
        return Err(Failure(format!(
            "{} has no images for {unknown}; it has some for {}",
            file.display(),
            targets.join(", ")
        )));
    }
    if found.is_empty() {
        return Err(Failure(format!("{} has no images of kernels to export", file.display())));
    }
    Ok(found)
}

fn checked<'e>(entry: &PackEntry<'e>, target: &str) -> Result<Cow<'e, [u8]>, String> {
    let payload = entry.payload().map_err(|error| error.to_string())?;
    let header = EntryHeader::parse(&payload).map_err(|error| error.to_string())?;
    let found = architecture(header.cubin()).map_err(|error| error.to_string())?;
    match [header.gpu_name(), &found] {
        [name, cubin] if name == target && cubin == target => Ok(payload),
        [name, cubin] if name == target => Err(format!("its cubin is for {cubin}")),
        [other, _] => Err(format!("its header says that it is for {other}")),
    }
}

fn damaged(
    file: &Path,
    bundle: &EmbeddedBundle<'_>,
    target: &str,
    entry: &PackEntry<'_>,
    why: &str,
) -> Failure {
    let kernels = bundle.kernels();
    let is_its = |images: &BTreeMap<&str, crate::embedded::kernel::EmbeddedImage<'_>>| {
        images.get(target).is_some_and(|image| image.key == entry.key)
    };
    let kernel = kernels.iter().find(|kernel| is_its(&kernel.images));
    let name = kernel.map_or_else(|| key_text(&entry.key), |found| found.specialization.name());
    Failure(format!(
        "nothing was written: {name} for {target} in {}: {why}. `cargo cutile verify` lists all \
         that is wrong",
        file.display()
    ))
}
