//! The launches of the app, in order, each timed and checked against a reference.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use cutile::api;
use cutile::error::Error;
use cutile::half::{bf16, f16};
use cutile::prelude::{DeviceOp, Reshape, Tensor, ToHostVec};

use crate::inputs::{Element, Generator, widened};
use crate::kernels::{End, fill, flash_attention, gemm, rms_norm, saxpy, softmax};
use crate::reference;

/// One specialization, launched once.
#[derive(Clone, Debug)]
pub(crate) struct LaunchResult<S> {
    /// Module and function, `matmul::gemm`.
    pub(crate) kernel: String,
    /// Generic arguments in the order the kernel declares them.
    pub(crate) generics: Vec<String>,
    /// Extents of the launch: `64x256`; M × N × K for a matrix product; heads × length × columns
    /// for attention.
    pub(crate) problem: String,
    /// Host wall time of the call in microseconds, from building it to the result being on the
    /// device: the compilation or the load of the kernel, its launch, its run, and the wait for
    /// it. The copies of inputs and output are outside.
    pub(crate) first_launch_us: f64,
    /// What the caller's sampler gave just before the launch.
    pub(crate) before: S,
    /// What it gave just after.
    pub(crate) after: S,
    /// ‖output − reference‖ / ‖reference‖; `None` where nothing was computed.
    pub(crate) relative_error: Option<f64>,
    /// Largest `relative_error` that is accepted.
    pub(crate) bound: f64,
}

impl<S> LaunchResult<S> {
    /// Whether the result is within its bound, where there is one to judge. Not a number is not.
    #[must_use]
    pub(crate) fn within_bound(&self) -> bool {
        self.relative_error.is_none_or(|error| error <= self.bound)
    }
}

/// Makes every launch of the app on the default device: one result for each specialization, the
/// app's own and the library's.
///
/// `compute_errors` is false where a device executes nothing. `sample` is called right before and
/// right after each launch, outside the time measured: the difference of two samples of a counter
/// tells what one launch did.
///
/// # Errors
///
/// The first launch or copy that fails.
pub(crate) fn run<S>(
    compute_errors: bool,
    sample: impl FnMut() -> S,
) -> Result<Vec<LaunchResult<S>>, Error> {
    let mut pipeline =
        Pipeline { compute_errors, sample, filled: HashSet::new(), results: Vec::new() };
    pipeline.saxpy()?;
    pipeline.rms_norm()?;
    pipeline.softmax::<f32>(softmax::CASES_F32)?;
    pipeline.softmax::<f16>(softmax::CASES_F16)?;
    pipeline.gemm::<f16>(gemm::CASES_F16)?;
    pipeline.gemm::<bf16>(gemm::CASES_BF16)?;
    pipeline.flash_attention()?;
    Ok(pipeline.results)
}

struct Pipeline<S, F: FnMut() -> S> {
    compute_errors: bool,
    sample: F,
    /// Specializations of the library's fill kernel that have their row.
    filled: HashSet<(Vec<String>, usize)>,
    results: Vec<LaunchResult<S>>,
}

/// What a row says besides what is measured.
struct Row {
    kernel: &'static str,
    generics: Vec<String>,
    problem: String,
}

/// A call that has returned, and what was seen around it.
struct Measured<T, S> {
    output: T,
    before: S,
    after: S,
    first_launch_us: f64,
}

impl<S, F: FnMut() -> S> Pipeline<S, F> {
    fn saxpy(&mut self) -> Result<(), Error> {
        for (case, mut random) in saxpy::CASES.iter().zip(generators("saxpy")) {
            let x = random.values::<f32>(case.len, 1.0);
            let y = random.values::<f32>(case.len, 1.0);
            let (x_tensor, y_tensor) = (upload(&x, &case.shape())?, upload(&y, &case.shape())?);
            let measured = self.measure(|| saxpy::launch(case, y_tensor, x_tensor, End::Launch))?;
            let row = Row {
                kernel: saxpy::KERNEL,
                generics: case.generics(),
                problem: extents(&case.shape()),
            };
            self.record(row, measured, || {
                reference::saxpy(f64::from(saxpy::A), &widened(&x), &widened(&y))
            })?;
        }
        Ok(())
    }

    fn rms_norm(&mut self) -> Result<(), Error> {
        for (case, mut random) in rms_norm::CASES.iter().zip(generators("rms_norm")) {
            let shape = case.shape();
            let x = random.values::<f16>(case.rows * case.columns, 2.0);
            let weight = random.values::<f16>(case.columns, 1.0);
            let out = self.zeros(&shape)?;
            let (x_tensor, weight_tensor) =
                (upload(&x, &shape)?, upload(&weight, &case.weight_shape())?);
            let measured =
                self.measure(|| rms_norm::launch(case, out, x_tensor, weight_tensor, End::Launch))?;
            let row = Row {
                kernel: rms_norm::KERNEL,
                generics: case.generics(),
                problem: extents(&shape),
            };
            self.record(row, measured, || {
                reference::rms_norm(&widened(&x), &widened(&weight), f64::from(rms_norm::EPS))
            })?;
        }
        Ok(())
    }

    fn softmax<E: Element>(&mut self, cases: &[softmax::Case]) -> Result<(), Error> {
        for (case, mut random) in cases.iter().zip(generators("softmax")) {
            let shape = case.shape();
            let x = random.values::<E>(case.rows * case.columns, 4.0);
            let out = self.zeros(&shape)?;
            let x_tensor = upload(&x, &shape)?;
            let measured =
                self.measure(|| softmax::launch::<E>(case, out, x_tensor, End::Launch))?;
            let row = Row {
                kernel: softmax::KERNEL,
                generics: case.generics::<E>(),
                problem: extents(&shape),
            };
            self.record(row, measured, || reference::softmax(&widened(&x), case.columns))?;
        }
        Ok(())
    }

    fn gemm<E: Element>(&mut self, cases: &[gemm::Case]) -> Result<(), Error> {
        for (case, mut random) in cases.iter().zip(generators("gemm")) {
            let x = random.values::<E>(case.m * case.k, 1.0);
            let y = random.values::<E>(case.k * case.n, 1.0);
            let out = self.zeros(&case.z_shape())?;
            let (x_tensor, y_tensor) = (upload(&x, &case.x_shape())?, upload(&y, &case.y_shape())?);
            let measured =
                self.measure(|| gemm::launch::<E>(case, out, x_tensor, y_tensor, End::Launch))?;
            let row = Row {
                kernel: gemm::KERNEL,
                generics: case.generics::<E>(),
                problem: extents(&[case.m, case.n, case.k]),
            };
            self.record(row, measured, || {
                reference::gemm(&widened(&x), &widened(&y), case.k, case.n)
            })?;
        }
        Ok(())
    }

    fn flash_attention(&mut self) -> Result<(), Error> {
        for (case, mut random) in flash_attention::CASES.iter().zip(generators("attention")) {
            let shape = case.shape();
            let mut values = || random.values::<f16>(shape.iter().product(), 2.0);
            let (q, k, v) = (values(), values(), values());
            let out = self.zeros(&shape)?;
            let inputs = [upload(&q, &shape)?, upload(&k, &shape)?, upload(&v, &shape)?];
            let measured =
                self.measure(|| flash_attention::launch(case, out, inputs, End::Launch))?;
            let row = Row {
                kernel: flash_attention::KERNEL,
                generics: case.generics(),
                problem: extents(&shape),
            };
            let of = reference::Attention {
                length: case.length,
                columns: case.columns,
                causal: case.causal,
                scale: f64::from(case.scale()),
            };
            self.record(row, measured, || {
                reference::attention(of, &widened(&q), &widened(&k), &widened(&v))
            })?;
        }
        Ok(())
    }

    /// An output buffer; the first of a specialization of the fill kernel makes a row.
    fn zeros<E: Element>(&mut self, shape: &[usize]) -> Result<Tensor<E>, Error> {
        let generics = fill::generics::<E>();
        if !self.filled.insert((generics.clone(), fill::divisor(shape))) {
            return fill::launch(shape);
        }
        let measured = self.measure(|| fill::launch::<E>(shape).map(Some))?;
        let len = shape.iter().product();
        let row = Row { kernel: fill::KERNEL, generics, problem: extents(&[len]) };
        self.record(row, measured, || vec![0.0; len])
    }

    /// Makes one call, timed, between two samples.
    fn measure<T>(
        &mut self,
        call: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Measured<T, S>, Error> {
        let before = (self.sample)();
        let start = Instant::now();
        let output = call()?;
        let first_launch_us = start.elapsed().as_secs_f64() * 1e6;
        let after = (self.sample)();
        Ok(Measured { output, before, after, first_launch_us })
    }

    /// Reads a result back and adds its row.
    fn record<E: Element>(
        &mut self,
        row: Row,
        measured: Measured<Option<Tensor<E>>, S>,
        reference: impl FnOnce() -> Vec<f64>,
    ) -> Result<Tensor<E>, Error> {
        let Measured { output, before, after, first_launch_us } = measured;
        let tensor = Arc::new(output.expect("a call that ends in a launch has an output"));
        let output = widened(&(&tensor).to_host_vec().sync()?);
        let relative_error =
            self.compute_errors.then(|| reference::relative_error(&output, &reference()));
        let Row { kernel, generics, problem } = row;
        self.results.push(LaunchResult {
            kernel: kernel.to_owned(),
            generics,
            problem,
            first_launch_us,
            before,
            after,
            relative_error,
            bound: E::BOUND,
        });
        Ok(Arc::into_inner(tensor).expect("the copy that shared it has ended"))
    }
}

/// One generator for each case of a kernel; a case that is added does not move the others.
fn generators(kernel: &str) -> impl Iterator<Item = Generator> {
    let seed = kernel.bytes().fold(0u64, |seed, byte| seed * 31 + u64::from(byte));
    (0..).map(move |case| Generator::new((seed << 16) + case))
}

/// A row-major tensor of this shape on the default device.
pub(crate) fn upload<E: Element>(values: &[E], shape: &[usize]) -> Result<Tensor<E>, Error> {
    api::copy_host_vec_to_device(&Arc::new(values.to_vec())).sync()?.reshape(shape)
}

fn extents(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}
