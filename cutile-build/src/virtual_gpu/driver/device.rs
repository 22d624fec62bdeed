//! The devices: what `CUTILE_VIRTUAL_GPU` asks for, and the attributes of each.
//!
//! Compute capability is exact. The other attributes are those of a usual product of that
//! architecture: plausible, for programs that size a grid by them, and no promise.

use crate::{CUresult, Checked, answer, complain, errors, put};
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a driver of CUDA 13.0 answers.
const DRIVER_VERSION: c_int = 13000;
/// Memory of each device. It is host memory, taken as it is written to.
pub(crate) const TOTAL_MEMORY: usize = 80 << 30;

/// A device of one architecture.
pub(crate) struct Device {
    /// `sm_90`
    pub(crate) target: String,
    /// 90
    pub(crate) sm: u32,
}

static DEVICES: OnceLock<Checked<Vec<Device>>> = OnceLock::new();
static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// The devices, once `cuInit` has succeeded.
pub(crate) fn all() -> Checked<&'static [Device]> {
    if !INITIALIZED.load(Ordering::Acquire) {
        return Err(errors::NOT_INITIALIZED);
    }
    requested()
}

/// The device of an ordinal, which is also what a `CUdevice` is.
pub(crate) fn get(ordinal: c_int) -> Checked<&'static Device> {
    let devices = all()?;
    let index = usize::try_from(ordinal).map_err(|_| errors::INVALID_DEVICE)?;
    devices.get(index).ok_or(errors::INVALID_DEVICE)
}

/// Reads the variable once, and says once what is wrong with it.
fn requested() -> Checked<&'static [Device]> {
    let devices = DEVICES.get_or_init(|| match std::env::var_os("CUTILE_VIRTUAL_GPU") {
        Some(list) if !list.is_empty() => parse(&list.to_string_lossy()).map_err(|message| {
            complain(format_args!("virtual GPU: {message}"));
            errors::INVALID_VALUE
        }),
        _ => {
            complain(format_args!(
                "virtual GPU: CUTILE_VIRTUAL_GPU is not set, so there is no device; set it to \
                 sm_XX[,sm_YY …], or take this libcuda.so.1 off the library path"
            ));
            Err(errors::NO_DEVICE)
        }
    });
    devices.as_deref().map_err(|code| *code)
}

fn parse(list: &str) -> Result<Vec<Device>, String> {
    list.split(',')
        .map(str::trim)
        .map(|target| {
            let digits = target.strip_prefix("sm_").unwrap_or_default();
            let known = matches!(digits.len(), 2 | 3)
                && !digits.starts_with('0')
                && digits.bytes().all(|digit| digit.is_ascii_digit());
            match digits.parse() {
                Ok(sm) if known => Ok(Device { target: target.to_owned(), sm }),
                _ => Err(format!(
                    "CUTILE_VIRTUAL_GPU={list}: found {target:?}, expected sm_ and a compute \
                     capability of two or three digits, such as sm_90 or sm_120"
                )),
            }
        })
        .collect()
}

impl Device {
    pub(crate) fn major(&self) -> u32 {
        self.sm / 10
    }

    pub(crate) fn minor(&self) -> u32 {
        self.sm % 10
    }

    pub(crate) fn multiprocessors(&self) -> c_int {
        match self.sm {
            80 => 108,
            86 => 84,
            87 => 16,
            90 => 132,
            100 => 148,
            103 => 160,
            110 => 20,
            120 => 188,
            121 => 48,
            _ => 128,
        }
    }

    /// Whether it is a part of the data centre line of its generation.
    fn is_large(&self) -> bool {
        matches!(self.sm, 80 | 90 | 100 | 103 | 107 | 110)
    }

    pub(crate) fn threads_per_multiprocessor(&self) -> c_int {
        if self.is_large() { 2048 } else { 1536 }
    }

    /// The most shared memory a block may opt in to.
    pub(crate) fn shared_memory_opt_in(&self) -> c_int {
        let kib = match self.sm {
            80 | 87 => 163,
            _ if self.is_large() => 227,
            _ => 99,
        };
        kib * 1024
    }

    pub(crate) fn attribute(&self, attribute: c_int, ordinal: c_int) -> Checked<c_int> {
        let clusters = c_int::from(self.major() >= 9);
        // By number of CU_DEVICE_ATTRIBUTE_*. What is not listed is not supported: 0.
        Ok(match attribute {
            1..=3 => 1024,                           // threads per block, block x, block y
            4 => 64,                                 // block z
            5 => c_int::MAX,                         // grid x
            6 | 7 => 65535,                          // grid y, z
            8 => 48 * 1024,                          // shared memory per block
            9 => 65536,                              // constant memory
            10 => 32,                                // warp size
            11 => c_int::MAX,                        // pitch
            12 | 82 => 65536,                        // registers per block, multiprocessor
            13 => 1_410_000,                         // clock, kHz
            14 | 30 => 512,                          // texture, surface alignment
            15 | 31 => 1,                            // copies and kernels overlap
            16 => self.multiprocessors(),            // multiprocessors
            19 | 41 => 1,                            // mapped host memory, unified addresses
            32 => c_int::from(self.is_large()),      // ECC
            33 => ordinal + 1,                       // PCI bus
            36 => 1_593_000,                         // memory clock, kHz
            37 => 384,                               // memory bus, bits
            38 => 40 << 20,                          // L2 cache
            39 => self.threads_per_multiprocessor(), // threads per multiprocessor
            40 => 3,                                 // copy engines
            51 => 32,                                // texture pitch alignment
            75 => c_int::try_from(self.major()).unwrap_or(0), // compute capability
            76 => c_int::try_from(self.minor()).unwrap_or(0),
            78..=80 => 1,                             // stream priorities, L1 caches
            81 => self.shared_memory_opt_in() + 1024, // shared memory per multiprocessor
            83 | 89 => 1,                             // managed memory
            87 => {
                if self.is_large() {
                    2
                } else {
                    64
                }
            } // single to double precision
            90 | 91 | 95 | 99 => 1,                   // preemption, registered, cooperative
            97 => self.shared_memory_opt_in(),
            106 => {
                if self.is_large() {
                    32
                } else {
                    24
                }
            } // blocks per multiprocessor
            108 => 30 << 20,       // persisting L2
            109 => 128 << 20,      // access policy window
            111 => 1024,           // reserved shared memory per block
            115 => 1,              // memory pools
            120 | 127 => clusters, // cluster launch, tensor maps
            126 => 1,              // memory synchronization domains
            17
            | 18
            | 20..=29
            | 34
            | 35
            | 42..=50
            | 52..=74
            | 77
            | 84..=86
            | 88
            | 92..=94
            | 96
            | 98
            | 100..=105
            | 107
            | 110
            | 112..=114
            | 116..=119
            | 121..=125
            | 128..=161 => 0,
            _ => return Err(errors::INVALID_VALUE),
        })
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> CUresult {
    if flags != 0 {
        return errors::INVALID_VALUE;
    }
    answer(requested().map(|_| INITIALIZED.store(true, Ordering::Release)))
}

/// # Safety
/// As the CUDA driver API: `version` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(unsafe { put(version, DRIVER_VERSION) })
}

/// # Safety
/// As the CUDA driver API: `count` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(all().and_then(|all| unsafe { put(count, c_int::try_from(all.len()).unwrap_or(0)) }))
}

/// # Safety
/// As the CUDA driver API: `device` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(get(ordinal).and_then(|_| unsafe { put(device, ordinal) }))
}

/// # Safety
/// As the CUDA driver API: `name` is null or valid for writing `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> CUresult {
    answer(get(device).and_then(|device| {
        let length = usize::try_from(length).unwrap_or(0);
        if name.is_null() || length == 0 {
            return Err(errors::INVALID_VALUE);
        }
        let text = format!("cuTile virtual GPU {}", device.target);
        let text = &text.as_bytes()[..text.len().min(length - 1)];
        // SAFETY: `name` is not null and has `length` bytes; the text is cut to one less.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            name.add(text.len()).write(0);
        }
        Ok(())
    }))
}

/// # Safety
/// As the CUDA driver API: `uuid` is null or valid for writing 16 bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], ordinal: c_int) -> CUresult {
    answer(get(ordinal).and_then(|device| {
        let mut bytes = *b"cutile-virtual\0\0";
        bytes[14] = device.sm as u8;
        bytes[15] = ordinal as u8;
        // SAFETY: forwarded from this function's contract.
        unsafe { put(uuid, bytes) }
    }))
}

/// # Safety
/// As the CUDA driver API: `bytes` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(get(device).and_then(|_| unsafe { put(bytes, TOTAL_MEMORY) }))
}

/// # Safety
/// As the CUDA driver API: `value` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    ordinal: c_int,
) -> CUresult {
    let found = get(ordinal).and_then(|device| device.attribute(attribute, ordinal));
    // SAFETY: forwarded from this function's contract.
    answer(found.and_then(|found| unsafe { put(value, found) }))
}

/// # Safety
/// As the CUDA driver API: `can` is null or valid for writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(
    can: *mut c_int,
    device: c_int,
    peer: c_int,
) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    answer(get(device).and(get(peer)).and_then(|_| unsafe { put(can, 0) }))
}
