//! Contexts: the primary one of each device, and each thread's stack of current ones.

use crate::{CUresult, Checked, Handle, answer, device, errors, lock, put, work};
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

const LIMITS: usize = 11;
const DEPTH: usize = 32;

/// A device's primary context; it lives as long as the process.
struct Context {
    device: c_int,
    users: Mutex<u32>,
    flags: AtomicU32,
    limits: [AtomicUsize; LIMITS],
}

thread_local! {
    /// Plain cells: a destructor of another thread-local may still call the driver.
    static STACK: Cell<[Handle; DEPTH]> = const { Cell::new([0; DEPTH]) };
    static TOP: Cell<usize> = const { Cell::new(0) };
}

fn contexts() -> Checked<&'static [Context]> {
    static CONTEXTS: OnceLock<Vec<Context>> = OnceLock::new();
    let devices = device::all()?;
    Ok(CONTEXTS.get_or_init(|| {
        (0..)
            .zip(devices)
            .map(|(device, _)| Context {
                device,
                users: Mutex::new(0),
                flags: AtomicU32::new(0),
                // Stack, printf and heap sizes, depth, pending launches, L2 granularity, then 0.
                limits: [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0, 0, 0].map(AtomicUsize::new),
            })
            .collect()
    }))
}

fn handle_of(context: &'static Context) -> Handle {
    (&raw const *context).addr()
}

fn context(handle: Handle) -> Checked<&'static Context> {
    let mut contexts = contexts()?.iter();
    contexts.find(|context| handle_of(context) == handle).ok_or(errors::INVALID_CONTEXT)
}

fn context_of_device(device: c_int) -> Checked<&'static Context> {
    device::get(device)?;
    contexts()?.iter().find(|context| context.device == device).ok_or(errors::INVALID_DEVICE)
}

fn current_handle() -> Handle {
    TOP.get().checked_sub(1).map_or(0, |top| STACK.get()[top])
}

fn current() -> Checked<&'static Context> {
    device::all()?;
    context(current_handle())
}

/// The device of the calling thread's current context.
pub(crate) fn current_device() -> Checked<c_int> {
    current().map(|context| context.device)
}

/// The handle of the primary context of a device.
pub(crate) fn primary(device: c_int) -> Checked<Handle> {
    context_of_device(device).map(handle_of)
}

fn set_top(depth: usize, handle: Handle) {
    let mut stack = STACK.get();
    stack[depth - 1] = handle;
    STACK.set(stack);
    TOP.set(depth);
}

/// # Safety
/// As the CUDA driver API: `handle` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(handle: *mut Handle, device: c_int) -> CUresult {
    answer(context_of_device(device).and_then(|context| {
        // SAFETY: forwarded from this function's contract.
        unsafe { put(handle, handle_of(context)) }?;
        *lock(&context.users) += 1;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> CUresult {
    answer(context_of_device(device).and_then(|context| {
        let mut users = lock(&context.users);
        *users = users.checked_sub(1).ok_or(errors::INVALID_CONTEXT)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: u32) -> CUresult {
    answer(context_of_device(device).map(|context| context.flags.store(flags, Relaxed)))
}

/// # Safety
/// As the CUDA driver API: `flags` and `active` are null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: c_int,
    flags: *mut u32,
    active: *mut c_int,
) -> CUresult {
    answer(context_of_device(device).and_then(|context| {
        // SAFETY: forwarded from this function's contract.
        unsafe { put(flags, context.flags.load(Relaxed)) }?;
        // SAFETY: likewise.
        unsafe { put(active, c_int::from(*lock(&context.users) > 0)) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(handle: Handle) -> CUresult {
    if handle == 0 {
        // Pops, as the real driver does.
        return answer(device::all().map(|_| TOP.set(TOP.get().saturating_sub(1))));
    }
    answer(context(handle).map(|_| set_top(TOP.get().max(1), handle)))
}

/// # Safety
/// As the CUDA driver API: `handle` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(handle: *mut Handle) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(device::all().and_then(|_| unsafe { put(handle, current_handle()) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> CUresult {
    answer(context(handle).and_then(|_| {
        if TOP.get() == DEPTH {
            return Err(errors::INVALID_VALUE);
        }
        set_top(TOP.get() + 1, handle);
        Ok(())
    }))
}

/// # Safety
/// As the CUDA driver API: `handle` is null (the popped one is not asked for) or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(handle: *mut Handle) -> CUresult {
    answer(current().and_then(|context| {
        TOP.set(TOP.get() - 1);
        if handle.is_null() {
            return Ok(());
        }
        // SAFETY: forwarded from this function's contract.
        unsafe { put(handle, handle_of(context)) }
    }))
}

/// # Safety
/// As the CUDA driver API: `device` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(current().and_then(|context| unsafe { put(device, context.device) }))
}

/// # Safety
/// As the CUDA driver API: `flags` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetFlags(flags: *mut u32) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(current().and_then(|context| unsafe { put(flags, context.flags.load(Relaxed)) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetFlags(flags: u32) -> CUresult {
    answer(current().map(|context| context.flags.store(flags, Relaxed)))
}

/// # Safety
/// As the CUDA driver API: `id` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetId(handle: Handle, id: *mut u64) -> CUresult {
    let context = if handle == 0 { current() } else { context(handle) };
    // SAFETY: forwarded from this function's contract.
    answer(context.and_then(|context| unsafe { put(id, 1 + context.device as u64) }))
}

/// # Safety
/// As the CUDA driver API: `version` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetApiVersion(handle: Handle, version: *mut u32) -> CUresult {
    let context = if handle == 0 { current() } else { context(handle) };
    // SAFETY: forwarded from this function's contract. 3020 is what CUDA 13 drivers answer.
    answer(context.and_then(|_| unsafe { put(version, 3020) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> CUresult {
    answer(current().and_then(|_| work::wait_for_all()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetLimit(limit: u32, value: usize) -> CUresult {
    answer(current().and_then(|context| {
        let limit = context.limits.get(limit as usize).ok_or(errors::UNSUPPORTED_LIMIT)?;
        limit.store(value, Relaxed);
        Ok(())
    }))
}

/// # Safety
/// As the CUDA driver API: `value` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetLimit(value: *mut usize, limit: u32) -> CUresult {
    answer(current().and_then(|context| {
        let limit = context.limits.get(limit as usize).ok_or(errors::UNSUPPORTED_LIMIT)?;
        // SAFETY: forwarded from this function's contract.
        unsafe { put(value, limit.load(Relaxed)) }
    }))
}

/// # Safety
/// As the CUDA driver API: `least` and `greatest` are null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetStreamPriorityRange(
    least: *mut c_int,
    greatest: *mut c_int,
) -> CUresult {
    answer(current().and_then(|_| {
        for (out, priority) in [(least, 0), (greatest, -5)] {
            if !out.is_null() {
                // SAFETY: forwarded from this function's contract.
                unsafe { put(out, priority) }?;
            }
        }
        Ok(())
    }))
}
