//! What a first launch costs, beside what the driver alone costs for the same images.
//!
//! Both sides run in turn in one process, on modules that were unloaded before:
//!
//! | side | what is timed |
//! |---|---|
//! | ours | `install` ÷ kernels it loaded, and the first launch of one of them |
//! | raw | `cuModuleLoadData` and `cuModuleGetFunction` of every image ÷ images, and a launch of the same kernel when everything is warm |

use crate::inputs::Generator;
use crate::kernels::{End, saxpy};
use crate::pipeline::upload;
use cutile::cuda_async::device_context::load_module_from_bytes;
use cutile::error::Error;
use cutile::prelude::Tensor;
use cutile::tile_kernel::clear_kernel_cache;
use cutile_embed::entry::EntryHeader;
use cutile_embed::{Disk, Installer, bundles};
use std::fmt;
use std::hint::black_box;
use std::time::Instant;

/// Medians over the rounds, in microseconds, and of the ratio round by round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstLaunch {
    rounds: usize,
    kernels: usize,
    install_per_kernel: f64,
    first_launch: f64,
    raw_per_image: f64,
    steady_launch: f64,
    ratio: f64,
}

impl fmt::Display for FirstLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "medians of {} rounds, {} kernels, in us", self.rounds, self.kernels)?;
        writeln!(f, "install / kernel   {:>9.1}", self.install_per_kernel)?;
        writeln!(f, "first launch       {:>9.1}", self.first_launch)?;
        writeln!(f, "raw load / image   {:>9.1}", self.raw_per_image)?;
        writeln!(f, "steady launch      {:>9.1}", self.steady_launch)?;
        writeln!(f, "(install + first) / (raw + steady), paired: {:.3}", self.ratio)
    }
}

/// Measures on the default device, which has the architecture `target`, and leaves the kernels
/// ready to launch.
///
/// # Errors
///
/// The first load or launch that fails.
pub(crate) fn first_launch(target: &str, rounds: usize) -> Result<FirstLaunch, Error> {
    let case = &saxpy::CASES[0];
    let mut random = Generator::new(1);
    let x = random.values::<f32>(case.len, 1.0);
    let operands = || -> Result<(Tensor<f32>, Tensor<f32>), Error> {
        Ok((upload(&x, &case.shape())?, upload(&x, &case.shape())?))
    };
    let packs: Vec<_> = bundles().iter().filter_map(|bundle| bundle.images(target)?.ok()).collect();
    let payloads: Vec<_> = packs
        .iter()
        .flat_map(|pack| pack.entries())
        .filter_map(|entry| entry.payload().ok())
        .collect();
    let index: Vec<_> = bundles().iter().filter_map(|bundle| bundle.index().ok()).collect();
    let symbols: Vec<_> = index
        .iter()
        .filter_map(|index| index.target(target)?.rows().ok())
        .flatten()
        .map(|row| (row.image, row.specialization.symbol))
        .collect();
    let images: Vec<(&[u8], &str)> = packs
        .iter()
        .flat_map(|pack| pack.entries())
        .zip(&payloads)
        .filter_map(|(entry, payload)| {
            let (_, symbol) = symbols.iter().find(|(image, _)| *image == entry.key)?;
            Some((EntryHeader::parse(payload).ok()?.cubin(), symbol.as_str()))
        })
        .collect();
    let us = |since: Instant| since.elapsed().as_secs_f64() * 1e6;
    let mut samples = Vec::new();
    let mut kernels = 0;
    // The first round pays for what a process pays once, and is not counted.
    for _ in 0..=rounds {
        // SAFETY: every launch was waited for.
        unsafe { clear_kernel_cache() };
        let (first_x, first_y) = operands()?;
        let (warm_x, warm_y) = operands()?;
        let start = Instant::now();
        let report = Installer::new().disk(Disk::Off).install();
        let install = us(start);
        kernels = report.kernels();
        let start = Instant::now();
        black_box(saxpy::launch(case, first_y, first_x, End::Launch)?);
        let first = us(start);
        let start = Instant::now();
        black_box(saxpy::launch(case, warm_y, warm_x, End::Launch)?);
        let steady = us(start);
        // SAFETY: both launches were waited for.
        unsafe { clear_kernel_cache() };
        let start = Instant::now();
        let mut loaded = Vec::with_capacity(images.len());
        for (cubin, symbol) in &images {
            // SAFETY: the digest of the image was checked when its payload was read.
            let module = unsafe { load_module_from_bytes(cubin, 0) }?;
            loaded.push(module.load_function(symbol)?);
        }
        let raw = us(start);
        drop(black_box(loaded));
        samples.push([
            install / kernels.max(1) as f64,
            first,
            raw / images.len().max(1) as f64,
            steady,
        ]);
    }
    let _ = Installer::new().disk(Disk::Off).install();
    samples.remove(0);
    let column = |at: usize| median(samples.iter().map(|sample| sample[at]).collect());
    Ok(FirstLaunch {
        rounds,
        kernels,
        install_per_kernel: column(0),
        first_launch: column(1),
        raw_per_image: column(2),
        steady_launch: column(3),
        ratio: median(samples.iter().map(|[a, b, c, d]| (a + b) / (c + d)).collect()),
    })
}

/// The middle value, or what is between the two; not a number where there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[len / 2],
        len => (values[len / 2 - 1] + values[len / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn a_median_is_between_the_middle_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
