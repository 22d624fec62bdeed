//! Entry points for memory: allocation, pools, host memory, copies, fills.

use crate::memory::{self, Kind};
use crate::table::Table;
use crate::work::Work;
use crate::{CUresult, Checked, Handle, answer, context, device, errors, lock, put, stream, work};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

const ATTRIBUTES: usize = 16;

struct Pool {
    device: c_int,
    attributes: [u64; ATTRIBUTES],
}

static POOLS: Table<Pool> = Table::new();
/// The default pool and the current pool of each device that was asked for one.
static POOLS_OF_DEVICES: Mutex<BTreeMap<c_int, [Handle; 2]>> = Mutex::new(BTreeMap::new());

fn new_pool(device: c_int) -> Handle {
    // Reuse policies are on, all else is 0.
    let mut attributes = [0; ATTRIBUTES];
    attributes[1..=3].fill(1);
    POOLS.insert(Pool { device, attributes })
}

/// The default pool and the current pool of a device.
fn pools_of(device: c_int) -> Checked<[Handle; 2]> {
    device::get(device)?;
    Ok(*lock(&POOLS_OF_DEVICES).entry(device).or_insert_with(|| [new_pool(device); 2]))
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
unsafe fn allocate<T>(
    at: *mut T,
    bytes: usize,
    kind: Kind,
    flags: u32,
    address: impl FnOnce(usize) -> T,
) -> Checked<()> {
    let device = context::current_device()?;
    if at.is_null() {
        return Err(errors::INVALID_VALUE);
    }
    let allocated = memory::allocate(bytes, kind, device, 0, flags)?;
    // SAFETY: forwarded from this function's contract.
    unsafe { put(at, address(allocated)) }
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(at: *mut usize, bytes: usize) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { allocate(at, bytes, Kind::Device, 0, |address| address) })
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocManaged(at: *mut usize, bytes: usize, flags: u32) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { allocate(at, bytes, Kind::Managed, flags, |address| address) })
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, flags: u32) -> CUresult {
    let address = std::ptr::with_exposed_provenance_mut;
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { allocate(at, bytes, Kind::Host, flags, address) })
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocHost_v2(at: *mut *mut c_void, bytes: usize) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    unsafe { cuMemHostAlloc(at, bytes, 0) }
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
unsafe fn allocate_in_order(
    at: *mut usize,
    bytes: usize,
    pool: Option<Handle>,
    stream: Handle,
) -> Checked<()> {
    let device = stream::device_of(stream)?;
    let pool = match pool {
        Some(pool) => pool,
        None => pools_of(device)?[1],
    };
    let device = POOLS.with(pool, |pool| pool.device)?;
    let kind = match stream::capture_of(stream)? {
        Some(_) => Kind::Graph,
        None => Kind::Device,
    };
    if at.is_null() {
        return Err(errors::INVALID_VALUE);
    }
    // SAFETY: forwarded from this function's contract.
    unsafe { put(at, memory::allocate(bytes, kind, device, pool, 0)?) }
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(at: *mut usize, bytes: usize, stream: Handle) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { allocate_in_order(at, bytes, None, stream) })
}

/// # Safety
/// As the CUDA driver API: `at` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocFromPoolAsync(
    at: *mut usize,
    bytes: usize,
    pool: Handle,
    stream: Handle,
) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { allocate_in_order(at, bytes, Some(pool), stream) })
}

fn is_of_device(kind: Kind) -> bool {
    matches!(kind, Kind::Device | Kind::Managed | Kind::Graph)
}

/// Frees in queue order: what was submitted before may still use the memory.
fn free(at: usize, is_right_kind: impl FnOnce(Kind) -> bool) -> Checked<()> {
    device::all()?;
    if at == 0 {
        return Ok(());
    }
    memory::begin_free(at, is_right_kind)?;
    work::submit(Work::Free { at });
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(at: usize) -> CUresult {
    answer(free(at, is_of_device))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(at: usize, stream: Handle) -> CUresult {
    // Outside the graph also where the stream is capturing: memory of a graph is kept anyway.
    answer(stream::device_of(stream).and_then(|_| free(at, is_of_device)))
}

/// # Safety
/// As the CUDA driver API: nothing uses the memory any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(at: *mut c_void) -> CUresult {
    answer(free(at.addr(), |kind| kind == Kind::Host))
}

/// # Safety
/// As the CUDA driver API: the memory stays until it is unregistered.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostRegister_v2(at: *mut c_void, bytes: usize, flags: u32) -> CUresult {
    let at = at.expose_provenance();
    answer(context::current_device().and_then(|_| memory::register(at, bytes, flags)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(at: *mut c_void) -> CUresult {
    let freed = free(at.addr(), |kind| kind == Kind::Registered);
    answer(freed.map_err(|_| errors::HOST_MEMORY_NOT_REGISTERED))
}

fn is_of_host(kind: Kind) -> bool {
    matches!(kind, Kind::Host | Kind::Registered)
}

/// # Safety
/// As the CUDA driver API: `device_address` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    device_address: *mut usize,
    at: *mut c_void,
    _flags: u32,
) -> CUresult {
    let found = memory::with(at.addr(), 0, |_, of| is_of_host(of.kind));
    answer(found.filter(|found| *found).ok_or(errors::INVALID_VALUE).and_then(|_| {
        // SAFETY: forwarded from this function's contract.
        unsafe { put(device_address, at.addr()) }
    }))
}

/// # Safety
/// As the CUDA driver API: `flags` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostGetFlags(flags: *mut u32, at: *mut c_void) -> CUresult {
    let found = memory::with(at.addr(), 0, |_, of| is_of_host(of.kind).then_some(of.flags));
    answer(found.flatten().ok_or(errors::INVALID_VALUE).and_then(|found| {
        // SAFETY: forwarded from this function's contract.
        unsafe { put(flags, found) }
    }))
}

/// # Safety
/// As the CUDA driver API: `free` and `total` are null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CUresult {
    answer(context::current_device().and_then(|device| {
        let unused = device::TOTAL_MEMORY.saturating_sub(memory::used(device));
        // SAFETY: forwarded from this function's contract.
        unsafe { put(free, unused) }?;
        // SAFETY: likewise.
        unsafe { put(total, device::TOTAL_MEMORY) }
    }))
}

/// # Safety
/// As the CUDA driver API: `start` and `bytes` are null (not asked for) or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAddressRange_v2(
    start: *mut usize,
    bytes: *mut usize,
    at: usize,
) -> CUresult {
    let found = memory::with(at, 0, |start, of| (start, of.size)).ok_or(errors::NOT_FOUND);
    answer(found.and_then(|found| {
        for (out, value) in [(start, found.0), (bytes, found.1)] {
            if !out.is_null() {
                // SAFETY: forwarded from this function's contract.
                unsafe { put(out, value) }?;
            }
        }
        Ok(())
    }))
}

/// # Safety
/// As the CUDA driver API: `data` is null or valid for writing what the attribute is.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(
    data: *mut c_void,
    attribute: u32,
    at: usize,
) -> CUresult {
    let found = memory::with(at, 0, |start, of| (start, of.size, of.kind, of.device, of.pool));
    answer(found.ok_or(errors::INVALID_VALUE).and_then(|(start, size, kind, device, pool)| {
        let memory_type = if is_of_host(kind) { 1 } else { 2 };
        // SAFETY: forwarded from this function's contract; the widths are those of cuda.h.
        unsafe {
            match attribute {
                1 => put(data.cast(), context::primary(device)?),
                2 => put(data.cast(), memory_type as u32),
                3 => put(data.cast(), at),
                4 if kind != Kind::Device => put(data.cast(), at),
                8 => put(data.cast(), u32::from(kind == Kind::Managed)),
                9 => put(data.cast(), device),
                11 => put(data.cast(), start),
                12 => put(data.cast(), size),
                13 => put(data.cast(), 1u32),
                17 => put(data.cast(), pool),
                _ => Err(errors::INVALID_VALUE),
            }
        }
    }))
}

/// Copies between device addresses.
fn copy(to: usize, from: usize, bytes: usize, stream: Handle) -> Checked<Option<u64>> {
    memory::check(to, bytes)?;
    memory::check(from, bytes)?;
    stream::submit(stream, Work::Copy { to, from, bytes })
}

/// Copies from or to host memory. It is waited for where that memory is not pinned, or where
/// `wait` asks for it: a program may reuse pageable memory when the call returns.
fn copy_with_host(
    to: usize,
    from: usize,
    bytes: usize,
    host: usize,
    wait: bool,
    stream: Handle,
) -> Checked<()> {
    memory::check(if host == to { from } else { to }, bytes)?;
    if bytes == 0 {
        return stream::device_of(stream).map(|_| ());
    }
    if host == 0 {
        return Err(errors::INVALID_VALUE);
    }
    let work = Work::Copy { to, from, bytes };
    if wait || !memory::is_pinned(host) {
        return stream::submit_and_wait(stream, work);
    }
    stream::submit(stream, work).map(|_| ())
}

/// # Safety
/// As the CUDA driver API: `from` is readable for `bytes`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoD_v2(to: usize, from: *const c_void, bytes: usize) -> CUresult {
    let from = from.expose_provenance();
    answer(copy_with_host(to, from, bytes, from, true, 0))
}

/// # Safety
/// As the CUDA driver API: `from` is readable for `bytes` until the work is done.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: usize,
    from: *const c_void,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    let from = from.expose_provenance();
    answer(copy_with_host(to, from, bytes, from, false, stream))
}

/// # Safety
/// As the CUDA driver API: `to` is writable for `bytes`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: usize, bytes: usize) -> CUresult {
    let to = to.expose_provenance();
    answer(copy_with_host(to, from, bytes, to, true, 0))
}

/// # Safety
/// As the CUDA driver API: `to` is writable for `bytes` until the work is done.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: usize,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    let to = to.expose_provenance();
    answer(copy_with_host(to, from, bytes, to, false, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) -> CUresult {
    answer(copy(to, from, bytes, 0).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(
    to: usize,
    from: usize,
    bytes: usize,
    stream: Handle,
) -> CUresult {
    answer(copy(to, from, bytes, stream).map(|_| ()))
}

fn fill(at: usize, pattern: u32, width: usize, count: usize, stream: Handle) -> Checked<()> {
    let bytes = width.checked_mul(count).ok_or(errors::INVALID_VALUE)?;
    memory::check(at, bytes)?;
    if !at.is_multiple_of(width) {
        return Err(errors::INVALID_VALUE);
    }
    let work = Work::Fill { at, pattern, width, count };
    if count == 0 {
        return stream::device_of(stream).map(|_| ());
    }
    stream::submit(stream, work).map(|_| ())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(at: usize, value: u8, count: usize) -> CUresult {
    answer(fill(at, value.into(), 1, count, 0))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16_v2(at: usize, value: u16, count: usize) -> CUresult {
    answer(fill(at, value.into(), 2, count, 0))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32_v2(at: usize, value: u32, count: usize) -> CUresult {
    answer(fill(at, value, 4, count, 0))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(at: usize, value: u8, count: usize, stream: Handle) -> CUresult {
    answer(fill(at, value.into(), 1, count, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(at: usize, value: u16, count: usize, stream: Handle) -> CUresult {
    answer(fill(at, value.into(), 2, count, stream))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(at: usize, value: u32, count: usize, stream: Handle) -> CUresult {
    answer(fill(at, value, 4, count, stream))
}

/// `CUmemLocation`, passed by value.
#[repr(C)]
struct Location {
    kind: u32,
    id: c_int,
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPrefetchAsync_v2(
    at: usize,
    bytes: usize,
    _to: Location,
    _flags: u32,
    stream: Handle,
) -> CUresult {
    answer(memory::check(at, bytes).and(stream::device_of(stream)).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAdvise_v2(at: usize, bytes: usize, _advice: u32, _to: Location) -> CUresult {
    answer(memory::check(at, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamAttachMemAsync(
    stream: Handle,
    at: usize,
    _bytes: usize,
    _flags: u32,
) -> CUresult {
    answer(memory::check(at, 1).and(stream::device_of(stream)).map(|_| ()))
}

/// # Safety
/// As the CUDA driver API: `pool` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(pools_of(device).and_then(|pools| unsafe { put(pool, pools[0]) }))
}

/// # Safety
/// As the CUDA driver API: `pool` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetMemPool(pool: *mut Handle, device: c_int) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(pools_of(device).and_then(|pools| unsafe { put(pool, pools[1]) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceSetMemPool(device: c_int, pool: Handle) -> CUresult {
    answer(pools_of(device).and_then(|[default, _]| {
        if POOLS.with(pool, |pool| pool.device)? != device {
            return Err(errors::INVALID_VALUE);
        }
        lock(&POOLS_OF_DEVICES).insert(device, [default, pool]);
        Ok(())
    }))
}

/// The beginning of `CUmemPoolProps`.
#[repr(C)]
struct PoolProperties {
    allocation: u32,
    handles: u32,
    location: Location,
}

/// # Safety
/// As the CUDA driver API: `pool` is null or valid for writing, `properties` null or readable.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolCreate(
    pool: *mut Handle,
    properties: *const PoolProperties,
) -> CUresult {
    answer(device::all().and_then(|_| {
        if pool.is_null() || properties.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: not null, so readable by this function's contract.
        let PoolProperties { allocation, handles, location } = unsafe { properties.read() };
        // Pinned memory of a device (1, 1); handles of pools are not exported.
        if allocation != 1 || location.kind != 1 || handles != 0 {
            return Err(errors::NOT_SUPPORTED);
        }
        device::get(location.id)?;
        // SAFETY: forwarded from this function's contract.
        unsafe { put(pool, new_pool(location.id)) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolDestroy(pool: Handle) -> CUresult {
    answer(device::all().and_then(|_| {
        let mut of_devices = lock(&POOLS_OF_DEVICES);
        if of_devices.values().any(|[default, _]| *default == pool) {
            return Err(errors::INVALID_VALUE);
        }
        let destroyed = POOLS.remove(pool)?;
        // The device's default one becomes current again.
        match of_devices.get_mut(&destroyed.device) {
            Some([default, current]) if *current == pool => *current = *default,
            _ => {}
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemPoolTrimTo(pool: Handle, _keep: usize) -> CUresult {
    answer(POOLS.with(pool, |_| ()))
}

/// Attributes 1 to 3 are `int`, 4 to 8 `cuuint64_t`; the others are read-only or newer.
fn attribute_index(attribute: u32) -> Checked<usize> {
    if (1..=8).contains(&attribute) { Ok(attribute as usize) } else { Err(errors::INVALID_VALUE) }
}

/// # Safety
/// As the CUDA driver API: `value` is null or readable as what the attribute is.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAttribute(
    pool: Handle,
    attribute: u32,
    value: *mut c_void,
) -> CUresult {
    answer(attribute_index(attribute).and_then(|index| {
        if value.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        let value = match index {
            // SAFETY: not null, so an `int` by this function's contract.
            1..=3 => u64::from(unsafe { value.cast::<u32>().read() }),
            // SAFETY: not null, so a `cuuint64_t` by this function's contract.
            _ => unsafe { value.cast::<u64>().read() },
        };
        POOLS.with(pool, |pool| pool.attributes[index] = value)
    }))
}

/// # Safety
/// As the CUDA driver API: `value` is null or valid for writing what the attribute is.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolGetAttribute(
    pool: Handle,
    attribute: u32,
    value: *mut c_void,
) -> CUresult {
    answer(attribute_index(attribute).and_then(|index| {
        let stored = POOLS.with(pool, |pool| pool.attributes[index])?;
        // SAFETY: forwarded from this function's contract.
        unsafe {
            match index {
                1..=3 => put(value.cast(), stored as u32),
                4 => put(value.cast(), stored),
                _ => put(value.cast(), memory::used_of_pool(pool)),
            }
        }
    }))
}
