//! The NVIDIA driver: loaded and asked in a process of its own, with a time limit. It is other
//! people's code, and where it is broken it hangs, or ends the process that loads it.
//!
//! Nothing is linked: `libcuda.so.1` is opened as a program would find it.

use crate::failure::Failure;
use crate::output;
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A driver that starts at all does so in seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the driver says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Driver {
    /// `None` where there is no library, with what the loader said in `fault`.
    pub(super) library: Option<String>,
    /// The CUDA that it supports, `13050` for 13.5.
    pub(super) cuda: Option<i32>,
    /// Why it cannot be used.
    pub(super) fault: Option<String>,
    pub(super) devices: Vec<Device>,
    /// It is the virtual one.
    pub(super) is_virtual: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Device {
    pub(super) name: String,
    /// `sm_90`.
    pub(super) target: String,
}

/// Asks the driver in another process.
pub(super) fn ask() -> Driver {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return broken(format!("this program does not find itself: {error}")),
    };
    let mut command = Command::new(own);
    command.args(["doctor", "--ask-driver"]);
    ask_with(&mut command, PATIENCE)
}

fn broken(fault: String) -> Driver {
    // That there is one is all that is known of it.
    Driver { library: Some("libcuda.so.1".into()), fault: Some(fault), ..Driver::default() }
}

fn ask_with(command: &mut Command, patience: Duration) -> Driver {
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return broken(format!("the process that asks it does not start: {error}")),
    };
    let end = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return broken(format!("it did not answer within {} s", patience.as_secs()));
            }
        }
    };
    let mut answer = String::new();
    if let Some(out) = &mut child.stdout {
        // What it says fits into a pipe, so it has not been waiting for a reader.
        let _ = out.take(1 << 16).read_to_string(&mut answer);
    }
    // A driver can print, too.
    match serde_json::from_str(answer.lines().last().unwrap_or_default()) {
        Ok(driver) if status.success() => driver,
        _ => broken(format!("it ended the process that loaded it ({status})")),
    }
}

/// What the other process does.
pub(super) fn answer() -> Result<ExitCode, Failure> {
    let driver = load();
    output::print(&format!("\n{}\n", serde_json::to_string(&driver).unwrap_or_default()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(unix))]
fn load() -> Driver {
    Driver { fault: Some("on this system it is not looked for".into()), ..Driver::default() }
}

#[cfg(unix)]
use library::load;

#[cfg(unix)]
mod library {
    use super::{Device, Driver};
    use std::ffi::{CStr, c_char, c_int, c_void};

    /// `CUdevice_attribute` for the two parts of the compute capability.
    const MAJOR: c_int = 75;
    const MINOR: c_int = 76;

    type Init = unsafe extern "C" fn(u32) -> c_int;
    type OneInt = unsafe extern "C" fn(*mut c_int) -> c_int;
    type Get = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
    type Attribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
    type Name = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    type ErrorName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

    pub(super) fn load() -> Driver {
        let Some(library) = Library::open(c"libcuda.so.1") else {
            let fault = Library::error();
            // As glibc, musl and Apple's loader say it, in their letters.
            let library = (!fault.contains("o such file")).then(|| "libcuda.so.1".to_owned());
            return Driver { library, fault: Some(fault), ..Driver::default() };
        };
        let mut driver = Driver {
            library: Some(loaded_path().unwrap_or_else(|| "libcuda.so.1".into())),
            is_virtual: library.symbol(c"cutile_virtual_gpu_abi").is_some(),
            ..Driver::default()
        };
        if let Err(fault) = library.ask(&mut driver) {
            driver.fault = Some(fault);
        }
        driver
    }

    /// Never closed: what the driver has started may run on to the end of the process.
    struct Library(*mut c_void);

    impl Library {
        fn open(name: &CStr) -> Option<Self> {
            // SAFETY: the name is a C string. Loading runs the library's initializers, which is
            // what every CUDA program does with this name; this process is there for nothing else.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            (!handle.is_null()).then_some(Self(handle))
        }

        fn error() -> String {
            // SAFETY: it returns null or a C string that lives until the next call of dl*, and this
            // process has one thread.
            let text = unsafe {
                let text = libc::dlerror();
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
            };
            text.unwrap_or_else(|| "the loader does not say why".into())
        }

        fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
            // SAFETY: the handle comes from dlopen and is never closed; the name is a C string.
            let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        }

        /// A function of the driver.
        ///
        /// # Safety
        ///
        /// `F` is the type of the function pointer that cuda.h declares under this name.
        unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
            assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
            let found = self.symbol(name);
            let found = found.ok_or_else(|| format!("it has no {}", name.to_string_lossy()))?;
            // SAFETY: a function pointer has the size of an object pointer on every system with
            // dlsym, and the caller vouches for its type.
            Ok(unsafe { std::mem::transmute_copy(&found) })
        }

        fn ask(&self, driver: &mut Driver) -> Result<(), String> {
            // SAFETY: the types are those of cuda.h, which are the same in every release.
            let (version, init, count, get, attribute, name) = unsafe {
                (
                    self.function::<OneInt>(c"cuDriverGetVersion")?,
                    self.function::<Init>(c"cuInit")?,
                    self.function::<OneInt>(c"cuDeviceGetCount")?,
                    self.function::<Get>(c"cuDeviceGet")?,
                    self.function::<Attribute>(c"cuDeviceGetAttribute")?,
                    self.function::<Name>(c"cuDeviceGetName")?,
                )
            };
            let mut value = 0;
            // SAFETY: it writes one int, before cuInit too.
            self.done("cuDriverGetVersion", unsafe { version(&raw mut value) })?;
            driver.cuda = Some(value);
            // SAFETY: 0 is the only flag there is.
            self.done("cuInit", unsafe { init(0) })?;
            let mut devices = 0;
            // SAFETY: it writes one int.
            self.done("cuDeviceGetCount", unsafe { count(&raw mut devices) })?;
            for ordinal in 0..devices {
                let mut device = 0;
                // SAFETY: it writes a handle, which is an int.
                self.done("cuDeviceGet", unsafe { get(&raw mut device, ordinal) })?;
                let number = |which| {
                    let mut value = 0;
                    // SAFETY: it writes one int; the attribute and the device exist.
                    let code = unsafe { attribute(&raw mut value, which, device) };
                    self.done("cuDeviceGetAttribute", code).map(|()| value)
                };
                let target = format!("sm_{}{}", number(MAJOR)?, number(MINOR)?);
                let mut text = [0u8; 256];
                // SAFETY: it writes at most 255 bytes and a zero.
                let code = unsafe { name(text.as_mut_ptr().cast(), 255, device) };
                self.done("cuDeviceGetName", code)?;
                let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
                let name = text.to_string_lossy().into_owned();
                driver.devices.push(Device { name, target });
            }
            Ok(())
        }

        fn done(&self, what: &str, code: c_int) -> Result<(), String> {
            if code == 0 {
                return Ok(());
            }
            // SAFETY: the type is that of cuda.h.
            let name = unsafe { self.function::<ErrorName>(c"cuGetErrorName") }.ok();
            let name = name.and_then(|name| {
                let mut text = std::ptr::null();
                // SAFETY: it writes a pointer to a constant string, or null.
                unsafe {
                    name(code, &raw mut text);
                    (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
                }
            });
            Err(format!("{what} says {}", name.unwrap_or_else(|| format!("error {code}"))))
        }
    }

    /// Which file the name led to.
    fn loaded_path() -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
        paths.into_iter().find(|path| path.contains("/libcuda.so")).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Driver {
        ask_with(Command::new("sh").args(["-c", script]), patience)
    }

    #[test]
    #[cfg(unix)]
    fn a_driver_that_hangs_or_ends_its_process_is_told() {
        let long = Duration::from_secs(60);
        let fault = shell("kill -SEGV $$", long).fault.unwrap();
        assert!(fault.contains("it ended the process that loaded it"), "{fault}");
        let fault = shell("exit 3", long).fault.unwrap();
        assert!(fault.contains('3'), "{fault}");
        let fault = shell("sleep 600", Duration::from_millis(50)).fault.unwrap();
        assert!(fault.contains("did not answer"), "{fault}");
    }

    #[test]
    #[cfg(unix)]
    fn what_the_other_process_says_is_taken() {
        let driver = Driver {
            library: Some("/lib/libcuda.so.1".into()),
            cuda: Some(13_050),
            devices: vec![Device { name: "H200".into(), target: "sm_90".into() }],
            ..Driver::default()
        };
        let text = serde_json::to_string(&driver).unwrap();
        assert_eq!(
            shell(&format!("printf 'noise\\n%s\\n' '{text}'"), Duration::from_secs(60)),
            driver
        );
    }
}
