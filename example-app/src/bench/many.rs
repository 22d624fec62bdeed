//! 1 to 1,000 kernels: the app's images under as many keys, in bundles that are made here.

use super::raw::{Loaded, bind};
use super::{Figure, paired, timed};
use cutile::cuda_core::{IntoResult as _, sys};
use cutile::error::Error;
use cutile::tile_kernel::clear_kernel_cache;
use cutile_embed::entry::EntryHeader;
use cutile_embed::index::{Index, IndexRow, IndexTarget, encode_rows};
use cutile_embed::pack::PackWriter;
use cutile_embed::{Bundle, Devices, Disk, Installer, bundles};
use include_dir::{Dir, DirEntry, File};
use std::ffi::CString;
use std::hint::black_box;

/// How many, with the name of the figure and its bar.
const SIZES: [(usize, &str, &str); 4] = [
    (1, "install-1-vs-raw", "none"),
    (10, "install-10-vs-raw", "none"),
    (100, "install-100-vs-raw", "none"),
    (1000, "install-1000-vs-raw", "<= 1.3"),
];
const MEMORY: &str = "device-memory-1000";
const MEMORY_BAR: &str = "measured";

pub(super) fn none(why: &str) -> Vec<Figure> {
    let mut figures: Vec<Figure> =
        SIZES.iter().map(|(_, name, bar)| Figure::none(name, "us", bar, why)).collect();
    figures.push(Figure::none(MEMORY, "MB", MEMORY_BAR, why));
    figures
}

/// `install` of so many kernels beside as many loads of the same images, and the memory that the
/// last take.
pub(super) fn figures(target: &str, device: usize, rounds: usize) -> Result<Vec<Figure>, Error> {
    bind(device)?;
    let mut figures = Vec::new();
    for (kernels, name, bar) in SIZES {
        let Some((bundle, images)) = bundle_of(kernels, target) else {
            return Ok(none("no image is embedded for this GPU"));
        };
        let of_bundle =
            || Installer::new().bundles(bundle).devices(Devices::Ids(vec![device])).disk(Disk::Off);
        clear();
        let before = (free(), resident());
        let report = of_bundle().install();
        let after = (free(), resident());
        if report.kernels() != kernels {
            return Ok(none(&format!("{} of {kernels} are ready:\n{report}", report.kernels())));
        }
        let bytes = images.iter().map(|(cubin, _)| cubin.len()).sum::<usize>() as f64 / 1e6;
        // A small one is over so soon that it takes more of them.
        let rounds = rounds.min(10) * if kernels < 1000 { 3 } else { 1 };
        let pairs = beside_raw(&of_bundle, kernels, &images, rounds)?;
        let figure =
            Figure::of(name, "us", bar, paired(&pairs, |ours, theirs| ours / theirs), |ratio| {
                kernels < 1000 || ratio <= 1.3
            });
        figures.push(figure.note(format!("{bytes:.1} MB of cubins, {rounds} rounds")));
        if kernels == 1000 {
            let taken = |more: usize, less: usize| more.saturating_sub(less) as f64 / 1e6;
            let (on_device, on_host) = (taken(before.0, after.0), taken(after.1, before.1));
            let mut memory = Figure::none(
                MEMORY,
                "MB",
                MEMORY_BAR,
                format!(
                    "device {on_device:.1} MB, host {on_host:.1} MB for {bytes:.1} MB of cubins; \
                     Installer::only loads fewer"
                ),
            );
            (memory.ours, memory.met) = (Some(on_device), Some(true));
            figures.push(memory);
        }
    }
    clear();
    Ok(figures)
}

fn clear() {
    // SAFETY: every launch was waited for.
    unsafe { clear_kernel_cache() };
}

/// Microseconds of `install` and of as many loads by the driver, round by round.
fn beside_raw(
    of_bundle: &dyn Fn() -> Installer,
    kernels: usize,
    images: &Images,
    rounds: usize,
) -> Result<Vec<(f64, f64)>, Error> {
    let ours = || {
        clear();
        let (us, report) = timed(|| of_bundle().install());
        assert_eq!(report.kernels(), kernels, "{report}");
        clear();
        us
    };
    let raw = || -> Result<f64, Error> {
        let (us, loaded) = timed(|| {
            let load = |(cubin, symbol): &(Vec<u8>, CString)| Loaded::load(cubin, symbol);
            images.iter().map(load).collect::<Result<Vec<_>, _>>()
        });
        drop(black_box(loaded?));
        Ok(us)
    };
    let mut pairs = Vec::new();
    // The first round pays for what a process pays once.
    for round in 0..=rounds {
        pairs.push(if round % 2 == 0 {
            let ours = ours();
            (ours, raw()?)
        } else {
            let raw = raw()?;
            (ours(), raw)
        });
    }
    pairs.remove(0);
    Ok(pairs)
}

type Images = Vec<(Vec<u8>, CString)>;

/// A bundle of so many specializations with an image each, and the images. The specializations differ
/// in a generic argument that no kernel has.
fn bundle_of(kernels: usize, target: &str) -> Option<(&'static [Bundle], Images)> {
    let mut sources = Vec::new();
    for bundle in bundles() {
        let (Ok(index), Some(Ok(pack))) = (bundle.index(), bundle.images(target)) else { continue };
        for row in index.target(target)?.rows().ok()? {
            let payload = pack.get(&row.image)?.payload().ok()?.into_owned();
            sources.push((row, payload, index.cutile, index.codegen));
        }
    }
    let (_, _, cutile, codegen) = *sources.first()?;
    let mut pack = PackWriter::new("copies", "0.0.0").compress(-1);
    let mut rows = Vec::new();
    let mut images = Vec::new();
    for (at, (row, payload, ..)) in sources.iter().cycle().take(kernels).enumerate() {
        let mut image = row.image;
        image[..8].copy_from_slice(&(at as u64).to_be_bytes());
        pack.insert(image, payload.clone()).ok()?;
        let cubin = EntryHeader::parse(payload).ok()?.cubin().to_vec();
        images.push((cubin, CString::new(&*row.specialization.symbol).ok()?));
        let mut row = IndexRow { image, ..row.clone() };
        row.specialization.generics.push(at.to_string());
        rows.push(row);
    }
    let encoded = encode_rows(&rows);
    let index = Index {
        package: "copies",
        package_version: "0.0.0",
        cutile,
        codegen,
        prebuilt: false,
        skipped: None,
        kernels: kernels as u32,
        targets: vec![IndexTarget::new(target, &rows, &encoded)],
    };
    // Bundles are part of the program and live as long.
    let file = |name: String, bytes: Vec<u8>| {
        DirEntry::File(File::new(String::leak(name), Vec::leak(bytes)))
    };
    let files = vec![
        file("index.bin".to_owned(), index.write()),
        file(format!("images-{target}.pack"), pack.finish()),
    ];
    let dir: &'static Dir<'static> = Box::leak(Box::new(Dir::new("", files.leak())));
    Some((vec![Bundle::new(dir)].leak(), images))
}

/// Free memory of the current device in bytes.
fn free() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: two numbers of this function.
    let asked = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }.result();
    asked.map_or(0, |()| free)
}

/// Memory of this process in bytes, as far as the system says.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
