//! What a first launch costs, beside what the driver alone costs for the same images.
//!
//! Both sides run in turn in one process, on modules that were unloaded before:
//!
//! | side | what is timed |
//! |---|---|
//! | ours | `install` ÷ kernels it loaded, and the first launch of one of them |
//! | raw | `cuModuleLoadData` and `cuModuleGetFunction` of every image ÷ images, and `cuLaunchKernel` of the same one with the wait for it |
//!
//! Both launches are the first of their module: what the driver puts off until then is in both. A
//! launch of ours when everything is warm stands beside them.

use crate::bench::raw::{Image, Loaded, bind, images};
use crate::inputs::{Generator, widened};
use crate::kernels::{End, saxpy};
use crate::pipeline::upload;
use crate::reference;
use cutile::error::Error;
use cutile::prelude::{DeviceOp, Tensor, ToHostVec};
use cutile::tile_kernel::clear_kernel_cache;
use cutile_embed::{Devices, Disk, Installer};
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Medians over the rounds, in microseconds, and of the ratio round by round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstLaunch {
    pub(crate) rounds: usize,
    pub(crate) kernels: usize,
    pub(crate) install_per_kernel: f64,
    pub(crate) first_launch: f64,
    pub(crate) raw_per_image: f64,
    pub(crate) raw_first_launch: f64,
    pub(crate) steady_launch: f64,
    pub(crate) ratio: f64,
    /// Whether the driver's launch computed what the kernel is for.
    pub(crate) is_right: bool,
}

impl fmt::Display for FirstLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "medians of {} rounds, {} kernels, in us", self.rounds, self.kernels)?;
        writeln!(f, "install / kernel   {:>9.1}", self.install_per_kernel)?;
        writeln!(f, "first launch       {:>9.1}", self.first_launch)?;
        writeln!(f, "raw load / image   {:>9.1}", self.raw_per_image)?;
        writeln!(f, "raw first launch   {:>9.1}", self.raw_first_launch)?;
        writeln!(f, "steady launch      {:>9.1}", self.steady_launch)?;
        writeln!(f, "(install + first) / (raw + raw first), paired: {:.3}", self.ratio)
    }
}

/// Operands of one launch of `saxpy`, and what comes out of it.
struct Operands {
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Operands {
    fn new(case: &saxpy::Case) -> Self {
        let mut random = Generator::new(1);
        Self { x: random.values(case.len, 1.0), y: random.values(case.len, 1.0) }
    }

    /// `y` and `x` on the device.
    fn upload(&self, case: &saxpy::Case) -> Result<(Tensor<f32>, Tensor<f32>), Error> {
        Ok((upload(&self.y, &case.shape())?, upload(&self.x, &case.shape())?))
    }

    /// Whether `output` is what the kernel is for.
    fn gives(&self, output: Tensor<f32>) -> Result<bool, Error> {
        let output = widened(&(&Arc::new(output)).to_host_vec().sync()?);
        let a = f64::from(saxpy::A);
        let reference = reference::saxpy(a, &widened(&self.x), &widened(&self.y));
        Ok(reference::relative_error(&output, &reference) < 1e-6)
    }
}

/// The image of `saxpy::CASES[0]`: of those with its generics the one whose lengths are divisible by
/// most.
fn saxpy_image(images: &[Image]) -> usize {
    let divisor = |image: &Image| {
        let specs = image.specialization.specs.iter();
        specs.flat_map(|spec| &spec.shape_div).map(|div| i64::from(div.divisor)).sum::<i64>()
    };
    let is_its = |image: &Image| {
        let row = &image.specialization;
        let name = format!("{}::{}", row.module, row.function);
        name == saxpy::KERNEL && row.generics == saxpy::CASES[0].generics()
    };
    let of_it = images.iter().enumerate().filter(|(_, image)| is_its(image));
    of_it.max_by_key(|(_, image)| divisor(image)).expect("the app embeds its kernels").0
}

/// Measures on the default device, `device`, which has the architecture `target`, and leaves the
/// kernels ready to launch.
///
/// # Errors
///
/// The first load or launch that fails.
pub(crate) fn first_launch(
    target: &str,
    device: usize,
    rounds: usize,
) -> Result<FirstLaunch, Error> {
    let case = &saxpy::CASES[0];
    let operands = Operands::new(case);
    let install = || Installer::new().devices(Devices::Ids(vec![device])).disk(Disk::Off).install();
    let images = images(target);
    // The context is the calling thread's from the first upload on.
    drop(operands.upload(case)?);
    bind(device)?;
    let saxpy = saxpy_image(&images);
    let is_right = {
        let (y, x) = operands.upload(case)?;
        let Image { cubin, symbol, .. } = &images[saxpy];
        Loaded::load(cubin, symbol)?.saxpy(case.tile, saxpy::A, &y, &x)?;
        operands.gives(y)?
    };
    let us = |since: Instant| since.elapsed().as_secs_f64() * 1e6;
    let ours = || -> Result<([f64; 3], usize), Error> {
        // SAFETY: every launch was waited for.
        unsafe { clear_kernel_cache() };
        let (first_y, first_x) = operands.upload(case)?;
        let (warm_y, warm_x) = operands.upload(case)?;
        let start = Instant::now();
        let report = install();
        let installed = us(start);
        let kernels = report.kernels().max(1);
        let start = Instant::now();
        black_box(saxpy::launch(case, first_y, first_x, End::Launch)?);
        let first = us(start);
        let start = Instant::now();
        black_box(saxpy::launch(case, warm_y, warm_x, End::Launch)?);
        let steady = us(start);
        // SAFETY: both launches were waited for.
        unsafe { clear_kernel_cache() };
        Ok(([installed / kernels as f64, first, steady], kernels))
    };
    let raw = || -> Result<[f64; 2], Error> {
        let (y, x) = operands.upload(case)?;
        let start = Instant::now();
        let mut loaded = Vec::with_capacity(images.len());
        for Image { cubin, symbol, .. } in &images {
            loaded.push(Loaded::load(cubin, symbol)?);
        }
        let load = us(start) / images.len().max(1) as f64;
        let start = Instant::now();
        loaded[saxpy].saxpy(case.tile, saxpy::A, &y, &x)?;
        Ok([load, us(start)])
    };
    let mut samples = Vec::new();
    let mut kernels = 0;
    // The first round pays for what a process pays once, and is not counted.
    for round in 0..=rounds {
        // Who goes first has the caches that the other left.
        let ((ours, in_memory), raw) = if round % 2 == 0 {
            let ours = ours()?;
            (ours, raw()?)
        } else {
            let raw = raw()?;
            (ours()?, raw)
        };
        kernels = in_memory;
        samples.push((ours, raw));
    }
    let _ = install();
    samples.remove(0);
    let column = |of: fn(&([f64; 3], [f64; 2])) -> f64| median(samples.iter().map(of).collect());
    Ok(FirstLaunch {
        rounds,
        kernels,
        install_per_kernel: column(|(ours, _)| ours[0]),
        first_launch: column(|(ours, _)| ours[1]),
        steady_launch: column(|(ours, _)| ours[2]),
        raw_per_image: column(|(_, raw)| raw[0]),
        raw_first_launch: column(|(_, raw)| raw[1]),
        ratio: column(|(ours, raw)| (ours[0] + ours[1]) / (raw[0] + raw[1])),
        is_right,
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
