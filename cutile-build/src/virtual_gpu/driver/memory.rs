//! Memory: what is allocated where. Device memory is zeroed host memory, aligned to 256 bytes,
//! and every address that is handed in is looked up here before anything is read or written.

use crate::{Checked, Handle, device, errors, lock, record};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

const ALIGNMENT: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    Managed,
    /// Pinned host memory of ours.
    Host,
    /// Host memory of the program, made known by `cuMemHostRegister`.
    Registered,
    /// Allocated while a stream was capturing: it stays as long as the process, so that a graph
    /// can be replayed however often.
    Graph,
}

pub(crate) struct Allocation {
    /// What the allocator gave; 0 for registered memory.
    block: usize,
    pub(crate) size: usize,
    pub(crate) kind: Kind,
    pub(crate) device: c_int,
    pub(crate) pool: Handle,
    pub(crate) flags: u32,
    /// Freed in stream order, which is still to happen.
    is_leaving: bool,
}

static ALLOCATIONS: Mutex<BTreeMap<usize, Allocation>> = Mutex::new(BTreeMap::new());

fn layout(size: usize) -> Checked<Layout> {
    let bytes = size.checked_add(ALIGNMENT).ok_or(errors::OUT_OF_MEMORY)?;
    // An alignment of 16 reaches `calloc`, which gives untouched pages for large blocks.
    Layout::from_size_align(bytes, 16).map_err(|_| errors::OUT_OF_MEMORY)
}

fn uses_device(kind: Kind) -> bool {
    matches!(kind, Kind::Device | Kind::Managed | Kind::Graph)
}

pub(crate) fn allocate(
    size: usize,
    kind: Kind,
    device: c_int,
    pool: Handle,
    flags: u32,
) -> Checked<usize> {
    if size == 0 {
        return Err(errors::INVALID_VALUE);
    }
    if uses_device(kind) && size > device::TOTAL_MEMORY.saturating_sub(used(device)) {
        return Err(errors::OUT_OF_MEMORY);
    }
    // SAFETY: the layout has a size above zero.
    let block = unsafe { std::alloc::alloc_zeroed(layout(size)?) }.expose_provenance();
    if block == 0 {
        return Err(errors::OUT_OF_MEMORY);
    }
    let at = block.next_multiple_of(ALIGNMENT);
    let allocation = Allocation { block, size, kind, device, pool, flags, is_leaving: false };
    lock(&ALLOCATIONS).insert(at, allocation);
    record::allocated(size);
    Ok(at)
}

pub(crate) fn register(at: usize, size: usize, flags: u32) -> Checked<()> {
    if at == 0 || size == 0 {
        return Err(errors::INVALID_VALUE);
    }
    let mut allocations = lock(&ALLOCATIONS);
    let (block, kind, device, pool) = (0, Kind::Registered, 0, 0);
    if allocations.contains_key(&at) {
        return Err(errors::HOST_MEMORY_ALREADY_REGISTERED);
    }
    allocations
        .insert(at, Allocation { block, size, kind, device, pool, flags, is_leaving: false });
    Ok(())
}

/// Accepts a free: an address that was handed out, of the right kind, and not freed before.
pub(crate) fn begin_free(at: usize, is_right_kind: impl FnOnce(Kind) -> bool) -> Checked<()> {
    match lock(&ALLOCATIONS).get_mut(&at) {
        Some(of) if is_right_kind(of.kind) && !of.is_leaving => {
            of.is_leaving = of.kind != Kind::Graph;
            Ok(())
        }
        _ => Err(errors::INVALID_VALUE),
    }
}

/// Frees what [`begin_free`] accepted, once everything before it in the queue is done.
pub(crate) fn free_now(at: usize) {
    let mut allocations = lock(&ALLOCATIONS);
    if !allocations.get(&at).is_some_and(|of| of.is_leaving) {
        return;
    }
    let Some(of) = allocations.remove(&at) else { return };
    if let (true, Ok(layout)) = (of.block != 0, layout(of.size)) {
        let block = std::ptr::with_exposed_provenance_mut(of.block);
        // SAFETY: `allocate` took this block with this layout, and it left the table just now.
        unsafe { std::alloc::dealloc(block, layout) };
    }
}

/// Bytes of device memory in use.
pub(crate) fn used(device: c_int) -> usize {
    let allocations = lock(&ALLOCATIONS);
    let on_device = allocations.values().filter(|of| uses_device(of.kind) && of.device == device);
    on_device.map(|of| of.size).sum()
}

/// Bytes of a pool in use.
pub(crate) fn used_of_pool(pool: Handle) -> u64 {
    let allocations = lock(&ALLOCATIONS);
    allocations.values().filter(|of| of.pool == pool).map(|of| of.size as u64).sum()
}

/// Runs `use_it` on the allocation that holds all of `bytes` at `at`.
pub(crate) fn with<R>(
    at: usize,
    bytes: usize,
    use_it: impl FnOnce(usize, &Allocation) -> R,
) -> Option<R> {
    let allocations = lock(&ALLOCATIONS);
    let (start, of) = allocations.range(..=at).next_back()?;
    let fits = (at - start).checked_add(bytes.max(1)).is_some_and(|end| end <= of.size);
    fits.then(|| use_it(*start, of))
}

/// Refuses a range that no allocation holds.
pub(crate) fn check(at: usize, bytes: usize) -> Checked<()> {
    if bytes == 0 {
        return Ok(());
    }
    let is_live = with(at, bytes, |_, of| !of.is_leaving);
    if is_live == Some(true) { Ok(()) } else { Err(errors::INVALID_VALUE) }
}

/// Whether a host address is pinned: work with other host memory is waited for.
pub(crate) fn is_pinned(at: usize) -> bool {
    with(at, 0, |_, _| ()).is_some()
}

/// Copies; the ranges were checked when the work was submitted.
pub(crate) fn copy(to: usize, from: usize, bytes: usize) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
    let from = std::ptr::with_exposed_provenance::<u8>(from);
    // SAFETY: device ranges were checked at submission and are freed in queue order only; host
    // ranges are the program's promise, as with the real driver.
    unsafe { std::ptr::copy(from, to, bytes) };
}

/// Fills `count` elements of `width` bytes; the range was checked when the work was submitted.
pub(crate) fn fill(at: usize, pattern: u32, width: usize, count: usize) {
    let pattern = pattern.to_le_bytes();
    let at = std::ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: as in `copy`; the range has `width * count` bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(at, width * count) };
    match width {
        1 => bytes.fill(pattern[0]),
        _ => bytes.chunks_exact_mut(width).for_each(|e| e.copy_from_slice(&pattern[..width])),
    }
}
