//! What the driver records: counters, and a log that other processes read.

use crate::{CUresult, answer, complain, put};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of this process, as `cutile_virtual_gpu_counters` writes them.
#[repr(C)]
struct Counters {
    modules_loaded: u64,
    functions_resolved: u64,
    launches: u64,
    allocations: u64,
    bytes_allocated: u64,
}

static MODULES_LOADED: AtomicU64 = AtomicU64::new(0);
static FUNCTIONS_RESOLVED: AtomicU64 = AtomicU64::new(0);
static LAUNCHES: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES_ALLOCATED: AtomicU64 = AtomicU64::new(0);

/// Counts and logs a module load: `load sm_90 cubin 4562` or `load sm_90 job <digest>`.
pub(crate) fn module_loaded(target: &str, what: &str) {
    MODULES_LOADED.fetch_add(1, Relaxed);
    log(&format!("load {target} {what}\n"));
}

pub(crate) fn function_resolved() {
    FUNCTIONS_RESOLVED.fetch_add(1, Relaxed);
}

/// Counts and logs a launch, when it would have been executed: `launch sm_90 kernel_name`.
pub(crate) fn launched(target: &str, function: &str) {
    LAUNCHES.fetch_add(1, Relaxed);
    log(&format!("launch {target} {function}\n"));
}

pub(crate) fn allocated(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    BYTES_ALLOCATED.fetch_add(bytes as u64, Relaxed);
}

/// Appends a line in a single write, so that lines of several processes do not mix.
fn log(line: &str) {
    static FILE: OnceLock<Option<OsString>> = OnceLock::new();
    let file = FILE
        .get_or_init(|| std::env::var_os("CUTILE_VIRTUAL_GPU_LOG").filter(|file| !file.is_empty()));
    let Some(file) = file else { return };
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        complain(format_args!("virtual GPU: cannot append to {}: {error}", file.display()));
    }
}

/// # Safety
/// `counters` is null, which is refused, or valid for writing a `Counters`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cutile_virtual_gpu_counters(counters: *mut Counters) -> CUresult {
    let now = Counters {
        modules_loaded: MODULES_LOADED.load(Relaxed),
        functions_resolved: FUNCTIONS_RESOLVED.load(Relaxed),
        launches: LAUNCHES.load(Relaxed),
        allocations: ALLOCATIONS.load(Relaxed),
        bytes_allocated: BYTES_ALLOCATED.load(Relaxed),
    };
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { put(counters, now) })
}
