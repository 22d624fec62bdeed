//! A first launch, beside the driver, the disk cache and the compiler.

use super::{Figure, paired, timed};
use crate::kernels::{End, saxpy};
use crate::measure::{self, median};
use crate::pipeline::{self, upload};
use cutile::cutile_compiler::cuda_tile_runtime_utils::ToolkitCapabilities;
use cutile::error::Error;
use cutile::jit_cache::{self, FileSystemJitStore, jit_backend_compile_count, jit_disk_hit_count};
use cutile::tile_kernel::clear_kernel_cache;
use cutile_embed::{Disk, Installer, bundles};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

const RAW: &str = "first-launch-vs-raw";
const RAW_BAR: &str = "<= 1.25";
const DISK: &str = "first-launch-vs-disk";
const DISK_BAR: &str = ">= 300";
const JIT: &str = "first-launch-vs-jit";
const JIT_BAR: &str = ">= 3000";
const STEADY: &str = "steady-launch";
const STEADY_BAR: &str = "1.00 +- 0.02";

/// `install` ÷ kernels and a first launch, beside load, get function and launch by the driver.
pub(super) fn beside_raw(
    target: &str,
    device: usize,
    computes: bool,
    rounds: usize,
) -> Result<Figure, Error> {
    let found = measure::first_launch(target, device, rounds)?;
    if !found.is_right && computes {
        return Ok(no_raw("the launch by the driver alone computed something else"));
    }
    let ours = found.install_per_kernel + found.first_launch;
    let theirs = found.raw_per_image + found.raw_first_launch;
    Ok(Figure::of(RAW, "us", RAW_BAR, [ours, theirs, found.ratio], |ratio| ratio <= 1.25).note(
        format!(
            "{} kernels, {} rounds; install/kernel {:.1} us, first launch {:.1} us; raw load {:.1} \
             us, first launch {:.1} us; a steady launch of ours {:.1} us",
            found.kernels,
            found.rounds,
            found.install_per_kernel,
            found.first_launch,
            found.raw_per_image,
            found.raw_first_launch,
            found.steady_launch
        ),
    ))
}

pub(super) fn no_raw(why: &str) -> Figure {
    Figure::none(RAW, "us", RAW_BAR, why)
}

pub(super) fn no_jit(why: &str) -> Figure {
    Figure::none(JIT, "us", JIT_BAR, why)
}

/// The two figures of the process with the stub, without it.
pub(super) fn without_stub(why: &str) -> Vec<Figure> {
    vec![Figure::none(DISK, "us", DISK_BAR, why), Figure::none(STEADY, "us", STEADY_BAR, why)]
}

/// Cold JIT of the gemm kernels beside ours. Takes a tileiras that compiles.
pub(super) fn beside_jit(device: usize, rounds: usize) -> Result<Figure, Error> {
    if let Err(error) = ToolkitCapabilities::for_device(device) {
        return Ok(no_jit(&format!("no tileiras on this machine ({error})")));
    }
    // Each takes seconds; what the process pays once was paid by the figures before.
    let pairs: Vec<(f64, f64)> = (0..rounds.min(3))
        .map(|_| {
            let (theirs, ours) = (cold(true)?, cold(false)?);
            Ok((ours, theirs))
        })
        .collect::<Result<_, Error>>()?;
    Ok(Figure::of(JIT, "us", JIT_BAR, paired(&pairs, |ours, theirs| theirs / ours), |ratio| {
        ratio >= 3000.0
    })
    .note("median first launch of the gemm kernels; ours with its share of install"))
}

/// The median first launch of a gemm, compiled or installed.
fn cold(compiled: bool) -> Result<f64, Error> {
    // SAFETY: every launch was waited for.
    unsafe { clear_kernel_cache() };
    let mut share = 0.0;
    if compiled {
        jit_cache::disable();
    } else {
        let (us, report) = timed(|| Installer::new().disk(Disk::Off).install());
        share = us / report.kernels().max(1) as f64;
    }
    let launches = pipeline::run(false, || ())?;
    let gemm = launches.iter().filter(|launch| launch.kernel == crate::kernels::gemm::KERNEL);
    Ok(share + median(gemm.map(|launch| launch.first_launch_us).collect()))
}

/// First launches and steady ones out of upstream's disk cache, beside ours. This process has a
/// tileiras that says it is the build's, so that upstream's keys are those of the embedded entries.
pub(super) fn beside_disk(
    target: &str,
    folder: &Path,
    rounds: usize,
) -> Result<Vec<Figure>, Error> {
    let store = FileSystemJitStore::new(folder).expect("the folder of this bench is its own");
    for bundle in bundles() {
        let Some(Ok(pack)) = bundle.images(target) else { continue };
        for entry in pack.entries() {
            let key = cutile_embed::key::key_text(&entry.key);
            if let Ok(payload) = entry.payload() {
                jit_cache::JitStore::put(&store, &key, &payload)
                    .expect("it takes what it is given");
            }
        }
    }
    jit_cache::enable(Arc::new(store));
    let mut first = Vec::new();
    for round in 0..=rounds.min(9) {
        let (ours, theirs) = if round % 2 == 0 {
            let ours = first_launches(true)?;
            (ours, first_launches(false)?)
        } else {
            let theirs = first_launches(false)?;
            (first_launches(true)?, theirs)
        };
        first.push((ours, theirs));
    }
    if jit_backend_compile_count() > 0 || jit_disk_hit_count() == 0 {
        let why = "upstream's disk cache did not have what is embedded: other keys";
        return Ok(without_stub(why));
    }
    // The first round pays for what a process pays once.
    first.remove(0);
    let first =
        Figure::of(DISK, "us", DISK_BAR, paired(&first, |ours, theirs| theirs / ours), |ratio| {
            ratio >= 300.0
        })
        .note("median over the app's kernels; ours with its share of install");
    let steady: Vec<(f64, f64)> = (0..rounds.min(20))
        .map(|round| {
            Ok(if round % 2 == 0 {
                let ours = steady(true)?;
                (ours, steady(false)?)
            } else {
                let theirs = steady(false)?;
                (steady(true)?, theirs)
            })
        })
        .collect::<Result<_, Error>>()?;
    let steady = Figure::of(
        STEADY,
        "us",
        STEADY_BAR,
        paired(&steady, |ours, theirs| ours / theirs),
        |ratio| (ratio - 1.0).abs() <= 0.02,
    )
    .note("saxpy, launch and wait; installed beside loaded from the disk cache by upstream");
    Ok(vec![first, steady])
}

/// The median first launch of the app's kernels, the first of them left out; with its share of
/// `install` where they are installed, out of the store of the process where not.
fn first_launches(installed: bool) -> Result<f64, Error> {
    // SAFETY: every launch was waited for.
    unsafe { clear_kernel_cache() };
    let mut share = 0.0;
    if installed {
        let (us, report) = timed(|| Installer::new().disk(Disk::Off).install());
        share = us / report.kernels().max(1) as f64;
    }
    let launches = pipeline::run(false, || ())?;
    Ok(share + median(launches.iter().skip(1).map(|launch| launch.first_launch_us).collect()))
}

/// Launches that are timed in one state.
const LAUNCHES: usize = 300;

/// The median of warm launches of one kernel.
fn steady(installed: bool) -> Result<f64, Error> {
    // SAFETY: every launch was waited for.
    unsafe { clear_kernel_cache() };
    if installed {
        let _ = Installer::new().disk(Disk::Off).install();
    }
    let case = &saxpy::CASES[0];
    let values = vec![0.5f32; case.len];
    let mut times = Vec::with_capacity(LAUNCHES);
    // The first few are not steady yet.
    for at in 0..LAUNCHES + 10 {
        let (y, x) = (upload(&values, &case.shape())?, upload(&values, &case.shape())?);
        let (us, output) = timed(|| saxpy::launch(case, y, x, End::Launch));
        black_box(output?);
        if at >= 10 {
            times.push(us);
        }
    }
    Ok(median(times))
}
