//! The GPU kernels of the app, and the launches it makes of them.
//!
//! Each kernel has a file of its own, with the same parts: the kernel, its table of launches
//! (`CASES`), the one expression that calls it (`launch`), and `warmup`. The app and the warm-up
//! both go through `CASES` and `launch`, so that what is compiled ahead of time is what is
//! launched: the app hands `launch` tensors on the device, the warm-up hands it tensors of the
//! same shapes without memory.
//!
//! Nothing here names the rest of the app: a build script takes this module in with `#[path]`.
#![allow(dead_code, reason = "the build script and the app each use their part")]

use cutile::DType;
use cutile::api;
use cutile::error::Error;
use cutile::prelude::{DeviceOp, Tensor};

/// Ends the call expression of a kernel whose output is its first argument.
macro_rules! finish {
    ($launcher:expr, $end:expr) => {{
        let launcher = $launcher;
        match $end {
            End::Compile => {
                launcher.compile()?;
                Ok(None)
            }
            End::Launch => {
                let (output, ..) = launcher.sync()?;
                Ok(Some(output.unpartition()))
            }
        }
    }};
}

pub(crate) mod fill;
pub(crate) mod flash_attention;
pub(crate) mod gemm;
pub(crate) mod rms_norm;
pub(crate) mod saxpy;
pub(crate) mod softmax;

/// What a call expression ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Compile the specialization and keep it; there is no output.
    Compile,
    /// Launch it on the default device and wait until its output is there.
    Launch,
}

/// Makes every specialization the app launches, its own and the library's, on tensors without
/// memory.
///
/// # Errors
///
/// The first specialization that does not compile.
pub(crate) fn warmup() -> Result<(), Error> {
    saxpy::warmup()?;
    rms_norm::warmup()?;
    softmax::warmup()?;
    gemm::warmup()?;
    flash_attention::warmup()
}

/// A tensor that has a shape and no memory.
fn meta<T: DType>(shape: &[usize]) -> Result<Tensor<T>, Error> {
    Ok(api::meta::<T>(shape).sync()?)
}

/// Generic arguments as the launchers take them and the reports print them.
fn numbers<const N: usize>(values: [usize; N]) -> Vec<String> {
    values.iter().map(usize::to_string).collect()
}
