//! The driver of the virtual GPU: a `libcuda.so.1` that records and executes nothing.
//!
//! An unmodified CUDA program allocates, copies, loads modules and launches on it. Memory is
//! zeroed host memory and copies are real, so that a program reads back what it wrote; a launch
//! is checked, counted and logged, and changes no memory. What is not implemented answers that it is
//! not supported, and is named on standard error.
//!
//! | variable | meaning |
//! |---|---|
//! | `CUTILE_VIRTUAL_GPU` | `sm_80[,sm_90 …]`: one device ordinal each, in this order |
//! | `CUTILE_VIRTUAL_GPU_LOG` | a file to which each module load and launch appends one line |
//!
//! This crate is compiled by the `rustc` of the build that uses it and depends on nothing but
//! `std`. Handles travel as `usize`, which has the ABI of the pointers in `cuda.h`.
#![allow(non_snake_case, reason = "entry points are spelled as in cuda.h")]
#![allow(
    clippy::too_many_arguments,
    reason = "entry points have the parameters that cuda.h gives them"
)]
#![deny(unsafe_op_in_unsafe_fn)]

mod context;
mod device;
mod errors;
mod graph;
mod image;
mod lacking;
mod memory;
mod memory_entry_points;
mod module;
mod record;
mod stream;
mod table;
mod work;

use std::fmt;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A `CUresult`.
type CUresult = u32;
/// Any of `CUcontext`, `CUstream`, `CUmodule` …: the address of an object of ours.
type Handle = usize;
/// What an entry point computes before it is turned into a `CUresult`.
type Checked<T> = Result<T, CUresult>;

/// A line on standard error. Not `eprintln!`: a panic, where that is full or closed, would end the
/// program that called.
fn complain(text: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Turns the outcome of an entry point into its return value.
fn answer(outcome: Checked<()>) -> CUresult {
    outcome.err().unwrap_or(errors::SUCCESS)
}

/// Writes an entry point's result.
///
/// # Safety
/// `out` is null, which is refused, or valid for writing a `T`.
unsafe fn put<T>(out: *mut T, value: T) -> Checked<()> {
    if out.is_null() {
        return Err(errors::INVALID_VALUE);
    }
    // SAFETY: not null, so valid for writing by this function's contract.
    unsafe { out.write(value) };
    Ok(())
}

/// Locks; a poisoned lock is impossible here (a panic aborts the process).
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// By this symbol a loader knows that the driver is a virtual one; the value is the version of
/// the three exports that a real driver has not.
#[unsafe(no_mangle)]
extern "C" fn cutile_virtual_gpu_abi() -> u32 {
    1
}
