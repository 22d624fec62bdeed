//! The library's kernel behind [`api::zeros`], from which every output buffer comes.
//!
//! It is not the app's, and it is launched all the same: a warm-up that leaves it out leaves a
//! compile for run time.

use cutile::api;
use cutile::cuda_core::DeviceCopy;
use cutile::error::Error;
use cutile::kernels::creation;
use cutile::prelude::{DeviceOp, IntoPartition, Tensor, value};
use cutile::{DType, half};

use super::meta;

/// Module and function of the kernel.
pub(crate) const KERNEL: &str = "creation::full";

/// Elements per tile block, as [`api::zeros`] has it.
const TILE: usize = 128;

/// An element type the app allocates outputs of.
pub(crate) trait Zeroed: DType + DeviceCopy {}
impl Zeroed for f32 {}
impl Zeroed for half::f16 {}
impl Zeroed for half::bf16 {}

/// Generic arguments of the kernel for elements of type `T`.
#[must_use]
pub(crate) fn generics<T: DType>() -> Vec<String> {
    vec![T::DTYPE.as_str().to_owned(), TILE.to_string()]
}

/// The part of the specialization that the length of a buffer decides: the largest power of two,
/// at most 16, that divides it.
#[must_use]
pub(crate) fn divisor(shape: &[usize]) -> usize {
    let len: usize = shape.iter().product();
    1 << len.trailing_zeros().min(4)
}

/// A zeroed tensor on the device.
///
/// # Errors
///
/// Where the device has no memory left, or the kernel does not compile or launch.
pub(crate) fn launch<T: Zeroed>(shape: &[usize]) -> Result<Tensor<T>, Error> {
    Ok(api::zeros::<T>(shape).sync()?)
}

/// Compiles what [`launch`] of this shape launches: the kernel sees the buffer flat.
///
/// # Errors
///
/// Where it does not compile.
pub(crate) fn warmup<T: Zeroed>(shape: &[usize]) -> Result<(), Error> {
    let flat = meta::<T>(&[shape.iter().product()])?.partition([TILE]);
    creation::full(value(T::zero()), flat).compile()?;
    Ok(())
}
