//! Modules, functions and launches.

use crate::image::{Content, Image};
use crate::memory::{self, Kind};
use crate::table::Table;
use crate::work::{self, Work};
use crate::{CUresult, Checked, Handle, answer, context, device, errors, put, record, stream};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// `CUfunction_attribute_enum` of CUDA 13.
const FUNCTION_ATTRIBUTES: usize = 18;

struct Module {
    device: c_int,
    image: Image,
    functions: BTreeMap<String, Handle>,
    variables: BTreeMap<String, (usize, usize)>,
}

struct Function {
    device: c_int,
    module: Handle,
    name: Arc<str>,
    attributes: [c_int; FUNCTION_ATTRIBUTES],
}

static MODULES: Table<Module> = Table::new();
static FUNCTIONS: Table<Function> = Table::new();

fn load(image: Image) -> Checked<Handle> {
    let device = context::current_device()?;
    let target = &device::get(device)?.target;
    let what = match &image.content {
        // A real driver also takes an older minor version of the same generation. Here each
        // target is asked for by name, and another one's image is a mistake to be seen.
        Content::Cubin { sm, .. } if *sm != device::get(device)?.sm => {
            return Err(errors::NO_BINARY_FOR_GPU);
        }
        Content::Cubin { .. } => format!("cubin {}", image.bytes.len()),
        Content::Placeholder { job } => format!("job {job}"),
    };
    let (functions, variables) = Default::default();
    let module = MODULES.insert(Module { device, image, functions, variables });
    record::module_loaded(target, &what);
    Ok(module)
}

/// # Safety
/// As the CUDA driver API: `module` is null or valid for writing, `image` null or a whole image.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> CUresult {
    answer(context::current_device().and_then(|_| {
        if module.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: forwarded from this function's contract.
        let image = unsafe { Image::read(image.cast()) }?;
        // SAFETY: likewise.
        unsafe { put(module, load(image)?) }
    }))
}

/// # Safety
/// As [`cuModuleLoadData`]; the options, which are for the PTX compiler, are not read.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    _count: u32,
    _options: *mut u32,
    _values: *mut *mut c_void,
) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    unsafe { cuModuleLoadData(module, image) }
}

/// # Safety
/// As the CUDA driver API: `module` is null or valid for writing, `file` a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoad(module: *mut Handle, file: *const c_char) -> CUresult {
    answer(context::current_device().and_then(|_| {
        if module.is_null() || file.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: not null, so a string by this function's contract.
        let file = std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(file) }.to_bytes());
        let image = std::fs::read(file).map_err(|_| errors::FILE_NOT_FOUND)?;
        // SAFETY: forwarded from this function's contract.
        unsafe { put(module, load(Image::parse(&image)?)?) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> CUresult {
    answer(MODULES.remove(module).map(|module| {
        for function in module.functions.into_values() {
            let _ = FUNCTIONS.remove(function);
        }
        for (at, _) in module.variables.into_values() {
            if memory::begin_free(at, |_| true).is_ok() {
                work::submit(Work::Free { at });
            }
        }
    }))
}

/// # Safety
/// As the CUDA driver API: `function` is null or valid for writing, `name` null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> CUresult {
    let find = |name: &str, of: &mut Module| -> Checked<Handle> {
        if let Some(known) = of.functions.get(name) {
            return Ok(*known);
        }
        if let Content::Cubin { functions, .. } = &of.image.content {
            functions.iter().find(|function| *function == name).ok_or(errors::NOT_FOUND)?;
        }
        let device = device::get(of.device)?;
        let mut attributes = [0; FUNCTION_ATTRIBUTES];
        // Threads, registers, PTX and binary version, dynamic shared memory.
        attributes[0] = 1024;
        attributes[4] = 32;
        attributes[5..=6].fill(c_int::try_from(device.sm).unwrap_or(0));
        attributes[8] = 48 * 1024;
        let handle =
            FUNCTIONS.insert(Function { device: of.device, module, name: name.into(), attributes });
        of.functions.insert(name.to_owned(), handle);
        Ok(handle)
    };
    answer(device::all().and_then(|_| {
        if function.is_null() || name.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: not null, so a string by this function's contract.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let handle = MODULES.with(module, |module| find(&name, module))??;
        record::function_resolved();
        // SAFETY: forwarded from this function's contract.
        unsafe { put(function, handle) }
    }))
}

/// # Safety
/// As the CUDA driver API: `at` and `bytes` are null (not asked for) or valid for writing, `name`
/// is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetGlobal_v2(
    at: *mut usize,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
) -> CUresult {
    let find = |name: &str, module: &mut Module| -> Checked<(usize, usize)> {
        if let Some(known) = module.variables.get(name) {
            return Ok(*known);
        }
        // A placeholder has no variables, and a variable's size cannot be invented.
        let Content::Cubin { variables, .. } = &module.image.content else {
            return Err(errors::NOT_FOUND);
        };
        let found = variables.iter().find(|variable| variable.0 == name);
        let (_, content) = found.ok_or(errors::NOT_FOUND)?;
        let at = memory::allocate(content.len(), Kind::Device, module.device, 0, 0)?;
        memory::copy(at, content.as_ptr().expose_provenance(), content.len());
        module.variables.insert(name.to_owned(), (at, content.len()));
        Ok((at, content.len()))
    };
    answer(device::all().and_then(|_| {
        if name.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: not null, so a string by this function's contract.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let found = MODULES.with(module, |module| find(&name, module))??;
        for (out, value) in [(at, found.0), (bytes, found.1)] {
            if !out.is_null() {
                // SAFETY: forwarded from this function's contract.
                unsafe { put(out, value) }?;
            }
        }
        Ok(())
    }))
}

/// The bytes that were loaded for a module, which stay until it is unloaded.
///
/// # Safety
/// `bytes` and `length` are null, which is refused, or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cutile_virtual_gpu_module_image(
    module: Handle,
    bytes: *mut *const u8,
    length: *mut usize,
) -> CUresult {
    let image = MODULES.with(module, |of| (of.image.bytes.as_ptr(), of.image.bytes.len()));
    answer(image.and_then(|image| {
        // SAFETY: forwarded from this function's contract.
        unsafe { put(bytes, image.0) }?;
        // SAFETY: likewise.
        unsafe { put(length, image.1) }
    }))
}

/// # Safety
/// As the CUDA driver API: `value` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: u32,
    function: Handle,
) -> CUresult {
    let found = FUNCTIONS.with(function, |of| of.attributes.get(attribute as usize).copied());
    answer(found.and_then(|found| {
        // SAFETY: forwarded from this function's contract.
        unsafe { put(value, found.ok_or(errors::INVALID_VALUE)?) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: Handle, attribute: u32, value: c_int) -> CUresult {
    let limit = FUNCTIONS.with(function, |of| of.device).and_then(device::get);
    answer(limit.map(device::Device::shared_memory_opt_in).and_then(|limit| match attribute {
        8 if !(0..=limit).contains(&value) => Err(errors::INVALID_VALUE),
        8..18 => FUNCTIONS.with(function, |of| of.attributes[attribute as usize] = value),
        _ => Err(errors::INVALID_VALUE),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetCacheConfig(function: Handle, _config: u32) -> CUresult {
    answer(FUNCTIONS.with(function, |_| ()))
}

/// # Safety
/// As the CUDA driver API: `module` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFuncGetModule(module: *mut Handle, function: Handle) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(FUNCTIONS.with(function, |of| of.module).and_then(|of| unsafe { put(module, of) }))
}

fn launch(
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    on: Handle,
) -> Checked<()> {
    device::all()?;
    let (device, name, dynamic) =
        FUNCTIONS.with(function, |of| (of.device, of.name.clone(), of.attributes[8]))?;
    if stream::device_of(on)? != device {
        return Err(errors::INVALID_HANDLE);
    }
    let threads: u64 = block.iter().map(|side| u64::from(*side)).product();
    let too_large = grid[1].max(grid[2]) > 65535 || threads > 1024 || block[2] > 64;
    let shared_fits = i64::from(shared) <= i64::from(dynamic);
    if grid.contains(&0) || threads == 0 || too_large || !shared_fits {
        return Err(errors::INVALID_VALUE);
    }
    let target = &device::get(device)?.target;
    stream::submit(on, Work::Launch { target, function: name }).map(|_| ())
}

/// # Safety
/// As the CUDA driver API; the parameters are not read.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: Handle,
    _parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> CUresult {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    answer(launch(function, grid, block, shared, stream))
}

/// `CUlaunchConfig`
#[repr(C)]
struct LaunchConfiguration {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    attributes: *mut c_void,
    attribute_count: u32,
}

/// # Safety
/// As the CUDA driver API: `configuration` is null or readable; the parameters are not read.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernelEx(
    configuration: *const LaunchConfiguration,
    function: Handle,
    _parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> CUresult {
    // SAFETY: null or readable by this function's contract.
    let configuration = unsafe { configuration.as_ref() };
    answer(configuration.ok_or(errors::INVALID_VALUE).and_then(|of| {
        if of.attribute_count > 0 && of.attributes.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        launch(function, of.grid, of.block, of.shared, of.stream)
    }))
}

fn device_of(function: Handle) -> Checked<&'static device::Device> {
    device::all()?;
    device::get(FUNCTIONS.with(function, |of| of.device)?)
}

/// # Safety
/// As the CUDA driver API: `blocks` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: Handle,
    block_size: c_int,
    _shared: usize,
) -> CUresult {
    answer(device_of(function).and_then(|device| {
        if !(1..=1024).contains(&block_size) {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: forwarded from this function's contract.
        unsafe { put(blocks, (device.threads_per_multiprocessor() / block_size).min(32)) }
    }))
}

/// Clusters exist from compute capability 9.0; 8 blocks is the portable limit.
fn clusters(function: Handle) -> Checked<&'static device::Device> {
    let device = device_of(function)?;
    if device.major() >= 9 { Ok(device) } else { Err(errors::NOT_SUPPORTED) }
}

/// # Safety
/// As the CUDA driver API: `size` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxPotentialClusterSize(
    size: *mut c_int,
    function: Handle,
    _configuration: *const LaunchConfiguration,
) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(clusters(function).and_then(|_| unsafe { put(size, 8) }))
}

/// # Safety
/// As the CUDA driver API: `count` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuOccupancyMaxActiveClusters(
    count: *mut c_int,
    function: Handle,
    _configuration: *const LaunchConfiguration,
) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(
        clusters(function).and_then(|device| unsafe { put(count, device.multiprocessors() / 8) }),
    )
}
