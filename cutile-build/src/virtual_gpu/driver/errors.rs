//! Result codes, their names and their texts.

use crate::{CUresult, answer, put};
use std::ffi::{CStr, c_char};

macro_rules! errors {
    ($($name:ident = $code:literal, $c_name:literal, $text:literal;)*) => {
        $(pub(crate) const $name: CUresult = $code;)*
        const TABLE: &[(CUresult, &CStr, &CStr)] = &[$(($code, $c_name, $text)),*];
    };
}

errors! {
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"cuInit was not called or failed";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no virtual GPU: CUTILE_VIRTUAL_GPU is not set";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    NO_BINARY_FOR_GPU = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"the image is for another architecture than this device";
    UNSUPPORTED_LIMIT = 215, c"CUDA_ERROR_UNSUPPORTED_LIMIT", c"limit is not supported";
    FILE_NOT_FOUND = 301, c"CUDA_ERROR_FILE_NOT_FOUND", c"file not found";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    ILLEGAL_STATE = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"operation not permitted in this state";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"memory is already registered";
    HOST_MEMORY_NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"memory is not registered";
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"operation not permitted when the stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"the capture failed due to a previous error";
    STREAM_CAPTURE_MERGE = 902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE",
        c"operation would merge two independent captures";
    STREAM_CAPTURE_UNMATCHED = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        c"the capture was not begun in this stream";
    CAPTURED_EVENT = 907, c"CUDA_ERROR_CAPTURED_EVENT",
        c"the event was last recorded in a capturing stream";
}

/// # Safety
/// `text` is null or valid for writing a pointer.
unsafe fn put_text(text: *mut *const c_char, of: Option<&'static CStr>) -> CUresult {
    let pointer = of.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: forwarded from this function's contract.
    let written = unsafe { put(text, pointer) };
    answer(written.and(of.map(|_| ()).ok_or(INVALID_VALUE)))
}

fn row(error: CUresult) -> Option<&'static (CUresult, &'static CStr, &'static CStr)> {
    TABLE.iter().find(|row| row.0 == error)
}

/// # Safety
/// As the CUDA driver API: `text` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    unsafe { put_text(text, row(error).map(|row| row.2)) }
}

/// # Safety
/// As the CUDA driver API: `name` is null or valid for writing a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: CUresult, name: *mut *const c_char) -> CUresult {
    // SAFETY: forwarded from this function's contract.
    unsafe { put_text(name, row(error).map(|row| row.1)) }
}
