//! A program linked with `libcuda.so.1`: `program SCENARIO [FILE [FUNCTION]]`. It prints what the
//! driver answered, for `virtual_gpu.rs` to judge, or asserts and prints `ok`.
#![allow(non_snake_case, reason = "entry points are spelled as in cuda.h")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::time::Duration;

type Handle = *mut c_void;

unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
    fn cuDriverGetVersion(version: *mut c_int) -> u32;
    fn cuGetErrorName(error: u32, name: *mut *const c_char) -> u32;
    fn cuDeviceGetCount(count: *mut c_int) -> u32;
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> u32;
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> u32;
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> u32;
    fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int) -> u32;
    fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: *mut c_void) -> u32;
    fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: *mut c_void) -> u32;
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> u32;
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32;
    fn cuCtxSetCurrent(context: Handle) -> u32;
    fn cuCtxGetCurrent(context: *mut Handle) -> u32;
    fn cuCtxPushCurrent_v2(context: Handle) -> u32;
    fn cuCtxPopCurrent_v2(context: *mut Handle) -> u32;
    fn cuCtxGetDevice(device: *mut c_int) -> u32;
    fn cuMemCreate() -> i32;
    fn cuCtxSynchronize() -> u32;
    fn cuStreamCreate(stream: *mut Handle, flags: u32) -> u32;
    fn cuStreamDestroy_v2(stream: Handle) -> u32;
    fn cuStreamSynchronize(stream: Handle) -> u32;
    fn cuStreamQuery(stream: Handle) -> u32;
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) -> u32;
    fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> u32;
    fn cuStreamIsCapturing(stream: Handle, status: *mut u32) -> u32;
    fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> u32;
    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64) -> u32;
    fn cuGraphLaunch(exec: Handle, stream: Handle) -> u32;
    fn cuGraphExecDestroy(exec: Handle) -> u32;
    fn cuGraphDestroy(graph: Handle) -> u32;
    fn cuEventCreate(event: *mut Handle, flags: u32) -> u32;
    fn cuEventDestroy_v2(event: Handle) -> u32;
    fn cuEventRecord(event: Handle, stream: Handle) -> u32;
    fn cuEventQuery(event: Handle) -> u32;
    fn cuEventSynchronize(event: Handle) -> u32;
    fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) -> u32;
    fn cuMemAlloc_v2(at: *mut u64, bytes: usize) -> u32;
    fn cuMemFree_v2(at: u64) -> u32;
    fn cuMemAllocAsync(at: *mut u64, bytes: usize, stream: Handle) -> u32;
    fn cuMemFreeAsync(at: u64, stream: Handle) -> u32;
    fn cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, flags: u32) -> u32;
    fn cuMemFreeHost(at: *mut c_void) -> u32;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> u32;
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) -> u32;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> u32;
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> u32;
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> u32;
    fn cuMemsetD32_v2(at: u64, value: u32, count: usize) -> u32;
    fn cuMemsetD8Async(at: u64, value: u8, count: usize, stream: Handle) -> u32;
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> u32;
    fn cuModuleUnload(module: Handle) -> u32;
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> u32;
    fn cuModuleGetGlobal_v2(
        at: *mut u64,
        bytes: *mut usize,
        module: Handle,
        name: *const c_char,
    ) -> u32;
    fn cuLaunchKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared: u32,
        stream: Handle,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> u32;
    fn cuLaunchHostFunc(
        stream: Handle,
        function: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> u32;
    fn cutile_virtual_gpu_abi() -> u32;
    fn cutile_virtual_gpu_module_image(
        module: Handle,
        bytes: *mut *const u8,
        length: *mut usize,
    ) -> u32;
    fn cutile_virtual_gpu_counters(counters: *mut [u64; 5]) -> u32;
}

/// Calls an entry point that must succeed.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: every pointer given is valid for what the entry point reads and writes.
        assert_eq!(unsafe { $call }, 0, stringify!($call))
    };
}

/// Calls an entry point that must answer with an error.
macro_rules! fails {
    ($code:literal, $call:expr) => {
        // SAFETY: as in `ok`; handles that are none are what is tried.
        assert_eq!(unsafe { $call }, $code, stringify!($call))
    };
}

/// Calls an entry point that writes its result to its first parameter.
macro_rules! get {
    ($name:ident($($argument:expr),*): $of:ty) => {{
        let mut value: $of = unsafe { std::mem::zeroed() };
        ok!($name(&raw mut value $(, $argument)*));
        value
    }};
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        // SAFETY: no pointers.
        ["init"] => return println!("{}", unsafe { cuInit(0) }),
        // SAFETY: the virtual driver takes no parameter of what it lacks.
        ["lacking"] => return println!("{}", unsafe { [cuMemCreate(), cuMemCreate()] }[0]),
        ["init", "twice"] => return println!("{} {}", unsafe { cuInit(0) }, unsafe { cuInit(0) }),
        ["early"] => {
            ok!(cuDriverGetVersion(&mut 0));
            fails!(3, cuDeviceGetCount(&mut 0));
            fails!(3, cuCtxSynchronize());
            return println!("ok");
        }
        _ => {}
    }
    ok!(cuInit(0));
    match arguments[..] {
        ["devices"] => return devices(),
        ["contexts"] => contexts(),
        _ => {}
    }
    let context = get!(cuDevicePrimaryCtxRetain(0): Handle);
    ok!(cuCtxSetCurrent(context));
    match arguments[..] {
        ["contexts"] => {}
        ["memory"] => memory(),
        ["handles"] => handles(),
        ["order"] => order(),
        ["graph", file] => graph(file),
        ["threads", file] => threads(file),
        ["load", file] => return load(file),
        ["launch", file, function, times] => return launch(file, function, times.parse().unwrap()),
        ["global", file, name] => return global(file, name),
        _ => panic!("no such scenario: {arguments:?}"),
    }
    println!("ok");
}

fn devices() {
    for ordinal in 0..get!(cuDeviceGetCount(): c_int) {
        let device = get!(cuDeviceGet(ordinal): c_int);
        let mut name = [0u8; 256];
        ok!(cuDeviceGetName(name.as_mut_ptr().cast(), 256, device));
        let name = CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
        let attribute = |attribute| get!(cuDeviceGetAttribute(attribute, device): c_int);
        let (major, minor) = (attribute(75), attribute(76));
        println!("{name}: {major}.{minor}, warps of {}, pools {}", attribute(10), attribute(115));
        assert!(attribute(16) > 0 && attribute(1) == 1024 && attribute(97) >= attribute(8));
        fails!(1, cuDeviceGetAttribute(&mut 0, 100_000, device));
        let mut short = [1u8; 4];
        ok!(cuDeviceGetName(short.as_mut_ptr().cast(), 4, device));
        assert_eq!(&short, b"cuT\0");
    }
    fails!(101, cuDeviceGet(&mut 0, 99));
}

fn contexts() {
    let device = || get!(cuCtxGetDevice(): c_int);
    fails!(201, cuCtxGetDevice(&mut 0));
    let [first, second] = [0, 1].map(|device| get!(cuDevicePrimaryCtxRetain(device): Handle));
    assert_eq!(first, get!(cuDevicePrimaryCtxRetain(0): Handle));
    assert_ne!(first, second);
    ok!(cuCtxSetCurrent(first));
    ok!(cuCtxPushCurrent_v2(second));
    assert_eq!((device(), get!(cuCtxGetCurrent(): Handle)), (1, second));
    // SAFETY: `of_other` is this thread's.
    let of_other = std::thread::spawn(|| unsafe { cuCtxSynchronize() }).join().unwrap();
    assert_eq!(of_other, 201, "a current context is of one thread");
    assert_eq!((get!(cuCtxPopCurrent_v2(): Handle), device()), (second, 0));
    fails!(201, cuCtxSetCurrent(0x1234 as Handle));
    ok!(cuDevicePrimaryCtxRelease_v2(1));
    fails!(201, cuDevicePrimaryCtxRelease_v2(1));
    ok!(cuCtxSetCurrent(null_mut()));
    fails!(201, cuCtxSynchronize());
}

fn memory() {
    const N: usize = 1000;
    let (free, total) = info();
    let a = get!(cuMemAlloc_v2(4 * N): u64);
    assert_eq!(a % 256, 0);
    assert_eq!(info(), (free - 4 * N, total));
    let mut read = vec![7u32; N];
    ok!(cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), a, 4 * N));
    assert!(read.iter().all(|value| *value == 0), "memory is zeroed");

    let written: Vec<u32> = (0..N as u32).collect();
    ok!(cuMemcpyHtoD_v2(a, written.as_ptr().cast(), 4 * N));
    let b = get!(cuMemAllocAsync(4 * N, null_mut()): u64);
    ok!(cuMemcpyDtoDAsync_v2(b, a, 4 * N, null_mut()));
    ok!(cuMemsetD32_v2(b + 4, 0xaabb_ccdd, 2));
    ok!(cuMemsetD8Async(b + 12, 0x11, 2, null_mut()));
    ok!(cuMemcpyDtoHAsync_v2(read.as_mut_ptr().cast(), b, 4 * N, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));
    assert_eq!(read[..5], [0, 0xaabb_ccdd, 0xaabb_ccdd, 0x1111, 4]);
    assert_eq!(read[5..], written[5..]);

    // Past the end, before the beginning, overflowing, nowhere, unaligned, null.
    fails!(1, cuMemcpyHtoD_v2(a + 8, written.as_ptr().cast(), 4 * N));
    fails!(1, cuMemcpyHtoD_v2(a - 4, written.as_ptr().cast(), 8));
    fails!(1, cuMemcpyHtoD_v2(a, written.as_ptr().cast(), usize::MAX));
    fails!(1, cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), 0x1000, 4));
    fails!(1, cuMemcpyDtoH_v2(null_mut(), a, 4));
    fails!(1, cuMemsetD32_v2(a + 2, 0, 1));
    fails!(1, cuMemAlloc_v2(null_mut(), 4));
    fails!(1, cuMemAlloc_v2(&mut 0, 0));
    fails!(2, cuMemAlloc_v2(&mut 0, usize::MAX));
    fails!(2, cuMemAlloc_v2(&mut 0, total));

    fails!(1, cuMemFree_v2(a + 4));
    fails!(1, cuMemFreeHost(a as *mut c_void));
    ok!(cuMemFree_v2(a));
    fails!(1, cuMemFree_v2(a));
    ok!(cuMemFreeAsync(b, null_mut()));
    fails!(1, cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), b, 4));
    ok!(cuMemFree_v2(0));
    assert_eq!(info(), (free, total));

    // Room for large tensors of which nothing is touched.
    let large = get!(cuMemAlloc_v2(1 << 30): u64);
    ok!(cuMemFree_v2(large));

    let pinned = get!(cuMemHostAlloc(64, 0): *mut c_void);
    ok!(cuMemFreeHost(pinned));

    let pool = get!(cuDeviceGetDefaultMemPool(0): Handle);
    let (mut threshold, mut read) = (u64::MAX, 0u64);
    ok!(cuMemPoolSetAttribute(pool, 4, (&raw mut threshold).cast()));
    ok!(cuMemPoolGetAttribute(pool, 4, (&raw mut read).cast()));
    assert_eq!(read, threshold);

    let counters = get!(cutile_virtual_gpu_counters(): [u64; 5]);
    assert_eq!(counters, [0, 0, 0, 4, 8 * N as u64 + (1 << 30) + 64]);
}

fn info() -> (usize, usize) {
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    (free, total)
}

fn handles() {
    let wrong = 0x5678 as Handle;
    fails!(400, cuStreamSynchronize(wrong));
    fails!(400, cuStreamDestroy_v2(wrong));
    fails!(400, cuStreamDestroy_v2(null_mut()));
    fails!(400, cuEventRecord(wrong, null_mut()));
    fails!(400, cuModuleUnload(wrong));
    fails!(400, cuModuleGetFunction(&mut null_mut(), wrong, c"f".as_ptr()));
    fails!(400, cuGraphLaunch(wrong, null_mut()));
    let stream = get!(cuStreamCreate(1): Handle);
    fails!(400, cuEventSynchronize(stream));
    let launched =
        // SAFETY: a stream is no function, which must be noticed.
        unsafe { cuLaunchKernel(stream, 1, 1, 1, 1, 1, 1, 0, stream, null_mut(), null_mut()) };
    assert_eq!(launched, 400);
    ok!(cuStreamDestroy_v2(stream));
    fails!(400, cuStreamDestroy_v2(stream));
    assert_eq!(name_of(400), "CUDA_ERROR_INVALID_HANDLE");
    fails!(1, cuGetErrorName(123_456, &mut std::ptr::null()));

    let [start, end] = [0, 0].map(|flags| get!(cuEventCreate(flags): Handle));
    let mut milliseconds = -1f32;
    fails!(400, cuEventElapsedTime_v2(&raw mut milliseconds, start, end));
    ok!(cuEventRecord(start, null_mut()));
    ok!(cuEventRecord(end, null_mut()));
    ok!(cuEventElapsedTime_v2(&raw mut milliseconds, start, end));
    assert!(milliseconds >= 0.0);
    ok!(cuEventDestroy_v2(start));
    fails!(400, cuEventQuery(start));
}

fn name_of(error: u32) -> &'static str {
    let mut name = std::ptr::null();
    ok!(cuGetErrorName(error, &raw mut name));
    // SAFETY: the driver's names are static strings.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap()
}

static HELD: Mutex<()> = Mutex::new(());
static RECORDED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Waits until the submitting thread lets it go on, then writes a 9. It may not wait for work.
unsafe extern "C" fn write_nine(data: *mut c_void) {
    drop(HELD.lock().unwrap());
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: `order` gives a live u32.
    unsafe { data.cast::<u32>().write(9) };
    fails!(800, cuEventSynchronize(RECORDED.load(Relaxed)));
}

fn order() {
    let stream = get!(cuStreamCreate(1): Handle);
    let event = get!(cuEventCreate(2): Handle);
    let pinned = get!(cuMemHostAlloc(4, 0): *mut c_void);
    let [a, b] = [4, 4].map(|bytes| get!(cuMemAlloc_v2(bytes): u64));
    // Must not run here: the lock is held, as a program may hold one that its function takes.
    let held = HELD.lock().unwrap();
    ok!(cuLaunchHostFunc(stream, write_nine, pinned));
    ok!(cuEventRecord(event, stream));
    RECORDED.store(event, Relaxed);
    ok!(cuMemcpyHtoDAsync_v2(a, pinned, 4, stream));
    ok!(cuMemcpyDtoDAsync_v2(b, a, 4, stream));
    ok!(cuMemFreeAsync(a, stream));
    fails!(600, cuEventQuery(event));
    fails!(600, cuStreamQuery(stream));
    drop(held);
    ok!(cuStreamSynchronize(stream));
    ok!(cuEventQuery(event));
    let mut read = 0u32;
    ok!(cuMemcpyDtoH_v2((&raw mut read).cast(), b, 4));
    assert_eq!(read, 9, "the copy waits for the host function before it");
}

fn load(file: &str) {
    // The image as a program has it, and zeros behind.
    let mut image = std::fs::read(file).unwrap();
    let length = image.len();
    image.resize(length + 65536, 0);
    let mut module = null_mut();
    // SAFETY: whatever the image is, there is memory enough behind it.
    let code = unsafe { cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
    if code == 0 {
        let (mut bytes, mut loaded) = (std::ptr::null(), 0);
        ok!(cutile_virtual_gpu_module_image(module, &raw mut bytes, &raw mut loaded));
        assert_eq!(loaded, length);
        // SAFETY: the driver keeps the image while the module lives.
        assert_eq!(unsafe { std::slice::from_raw_parts(bytes, loaded) }, &image[..length]);
        ok!(cuModuleUnload(module));
        fails!(400, cutile_virtual_gpu_module_image(module, &raw mut bytes, &raw mut loaded));
    }
    println!("{code}");
}

fn module_of(file: &str) -> Handle {
    let image = std::fs::read(file).unwrap();
    get!(cuModuleLoadData(image.as_ptr().cast()): Handle)
}

fn launch(file: &str, function: &str, times: u32) {
    let module = module_of(file);
    let name = CString::new(function).unwrap();
    let mut function = null_mut();
    // SAFETY: a module, and a name of it or none.
    let code = unsafe { cuModuleGetFunction(&raw mut function, module, name.as_ptr()) };
    if code != 0 {
        return println!("{code}");
    }
    assert_eq!(function, get!(cuModuleGetFunction(module, name.as_ptr()): Handle));
    let launch = |grid| {
        // SAFETY: a function; the driver reads no parameters.
        unsafe {
            cuLaunchKernel(function, grid, 1, 1, 128, 1, 1, 0, null_mut(), null_mut(), null_mut())
        }
    };
    assert_eq!(launch(0), 1, "an empty grid");
    (0..times).for_each(|_| assert_eq!(launch(4), 0));
    assert_eq!(unsafe { cutile_virtual_gpu_abi() }, 1);
    let counters = get!(cutile_virtual_gpu_counters(): [u64; 5]);
    assert_eq!(counters, [1, 2, times.into(), 0, 0]);
    println!("0");
}

fn global(file: &str, name: &str) {
    let module = module_of(file);
    let name = CString::new(name).unwrap();
    let (mut at, mut bytes) = (0, 0);
    // SAFETY: a module, and a name of it or none.
    let code = unsafe { cuModuleGetGlobal_v2(&raw mut at, &raw mut bytes, module, name.as_ptr()) };
    let mut value = 0u32;
    if code == 0 {
        ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), at, 4));
    }
    println!("{code} {bytes} {value}");
}

fn graph(file: &str) {
    let module = module_of(file);
    let function = get!(cuModuleGetFunction(module, c"k".as_ptr()): Handle);
    let [stream, joined] = [1, 1].map(|flags| get!(cuStreamCreate(flags): Handle));
    let event = get!(cuEventCreate(2): Handle);
    let a = get!(cuMemAlloc_v2(4): u64);
    let pinned = get!(cuMemHostAlloc(4, 0): *mut c_void).cast::<u32>();
    let launches = || get!(cutile_virtual_gpu_counters(): [u64; 5])[2];
    let read = || {
        let mut value = 0u32;
        ok!(cuMemcpyDtoH_v2((&raw mut value).cast(), a, 4));
        value
    };
    let launch = |on: Handle| {
        ok!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, on, null_mut(), null_mut()));
    };

    ok!(cuStreamBeginCapture_v2(stream, 2));
    fails!(401, cuStreamBeginCapture_v2(stream, 2));
    assert_eq!(get!(is_capturing(stream): u32), 1);
    ok!(cuMemcpyHtoDAsync_v2(a, pinned.cast(), 4, stream));
    launch(stream);
    ok!(cuEventRecord(event, stream));
    fails!(907, cuEventQuery(event));
    ok!(cuStreamWaitEvent(joined, event, 0));
    launch(joined);
    let b = get!(cuMemAllocAsync(4, stream): u64);
    ok!(cuMemFreeAsync(b, stream));
    let mut captured = null_mut();
    fails!(903, cuStreamEndCapture(joined, &raw mut captured));
    ok!(cuStreamEndCapture(stream, &raw mut captured));
    assert_eq!(get!(is_capturing(joined): u32), 0);
    assert_eq!((launches(), read()), (0, 0), "nothing is done while it is captured");

    let executable = get!(cuGraphInstantiateWithFlags(captured, 0): Handle);
    ok!(cuGraphDestroy(captured));
    for (round, value) in [(1, 5), (2, 6)] {
        // SAFETY: 4 bytes of pinned memory.
        unsafe { pinned.write(value) };
        ok!(cuGraphLaunch(executable, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!((launches(), read()), (2 * round, value));
    }
    ok!(cuGraphExecDestroy(executable));
    fails!(400, cuGraphLaunch(executable, stream));

    ok!(cuStreamBeginCapture_v2(stream, 0));
    fails!(900, cuStreamSynchronize(stream));
    fails!(901, cuStreamEndCapture(stream, &raw mut captured));
    assert!(captured.is_null());
    launch(stream);
    assert_eq!(launches(), 5, "the stream is usable after a failed capture");
}

/// With the result first, as `get!` expects it.
unsafe fn is_capturing(status: *mut u32, stream: Handle) -> u32 {
    // SAFETY: `get!` gives a place for the result.
    unsafe { cuStreamIsCapturing(stream, status) }
}

fn threads(file: &str) {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let context = get!(cuDevicePrimaryCtxRetain(0): Handle);
                ok!(cuCtxSetCurrent(context));
                let module = module_of(file);
                let function = get!(cuModuleGetFunction(module, c"k".as_ptr()): Handle);
                let stream = get!(cuStreamCreate(1): Handle);
                for round in 0..ROUNDS {
                    let value = thread * ROUNDS + round;
                    let a = get!(cuMemAllocAsync(8, stream): u64);
                    ok!(cuMemcpyHtoDAsync_v2(a, (&raw const value).cast(), 8, stream));
                    ok!(cuLaunchKernel(
                        function,
                        1,
                        1,
                        1,
                        1,
                        1,
                        1,
                        0,
                        stream,
                        null_mut(),
                        null_mut()
                    ));
                    let mut read = 0u64;
                    ok!(cuMemcpyDtoHAsync_v2((&raw mut read).cast(), a, 8, stream));
                    ok!(cuStreamSynchronize(stream));
                    assert_eq!(read, value);
                    ok!(cuMemFreeAsync(a, stream));
                }
                ok!(cuStreamDestroy_v2(stream));
                ok!(cuModuleUnload(module));
            });
        }
    });
    let (threads, rounds) = (THREADS, THREADS * ROUNDS);
    let counters = get!(cutile_virtual_gpu_counters(): [u64; 5]);
    assert_eq!(counters, [threads, threads, rounds, rounds, 8 * rounds]);
}
