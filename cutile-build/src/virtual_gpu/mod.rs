//! The virtual GPU: a driver of chosen compute capability, and the recording assembler.
//!
//! With both, an unmodified program that launches cutile kernels runs on a machine without a GPU
//! up to the point where its kernels would be assembled and executed. **They record and never
//! pretend to compute**: a launch leaves memory as it is, an assembled kernel is a placeholder.
//! What the driver does not implement it does not export, and cutile reports it as missing.
//!
//! Both are Rust programs without dependencies that [`VirtualGpu::build`] compiles with the
//! `rustc` of the build. Device memory is zeroed host memory, copies are real, so that a program
//! reads back what it wrote, and zeros where a kernel would have written. A loop that waits for
//! a kernel to change a value does not end.
//!
//! # Environment of a program on virtual GPUs
//!
//! | variable | meaning |
//! |---|---|
//! | `LD_LIBRARY_PATH` | [`VirtualGpu::library_dir`] first |
//! | `CUTILE_VIRTUAL_GPU` | `sm_80[,sm_90 …]`: one device ordinal each |
//! | `CUTILE_TILEIRAS_PATH` | [`VirtualGpu::assembler`] |
//! | `CUTILE_BUILD_REHEARSAL_DIR` | where the recording assembler reads its answers and stores jobs |
//! | `CUTILE_VIRTUAL_GPU_LOG` | optional: a file to which each module load and launch adds a line |
//!
//! The first three come from [`VirtualGpu::environment`]. In the rehearsal directory,
//! `tileiras-version` and `tileiras-list-versions` hold what the real tileiras prints.
//!
//! # A recorded job: `jobs/<SHA-256 of the file, 64 hexadecimal digits>.job`
//!
//! | part | content |
//! |---|---|
//! | line | `cutile-rehearsal-job 1` |
//! | line | number of options, decimal |
//! | a line for each option | its length in bytes, decimal; a space; the option |
//! | line | length of the bytecode, decimal |
//! | rest | the bytecode |
//!
//! The options are every argument in its order, except `-o OUT` and the input file.
//!
//! # A placeholder: what stands where a cubin would
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | `\x7fELF`, which upstream's loader asks for |
//! | 4 | 12 | 0 |
//! | 16 | 16 | `cutile-rehearsal` |
//! | 32 | 32 | SHA-256 of the job |
//! | 64 | 8 | 72: the length of all this, little endian |
//!
//! # Exports of the driver that a real one has not
//!
//! | symbol | |
//! |---|---|
//! | `cutile_virtual_gpu_abi() -> u32` | [`ABI`]: the driver that was loaded is this one |
//! | `cutile_virtual_gpu_module_image(CUmodule, *mut *const u8, *mut usize) -> CUresult` | the bytes that were loaded for a module |
//! | `cutile_virtual_gpu_counters(*mut [u64; 5]) -> CUresult` | modules loaded, functions resolved, launches, allocations, bytes allocated |

mod error;
mod job;

pub use cutile_embed::rehearsal::placeholder_digest;
pub use error::VirtualGpuError;
pub use job::{MalformedJob, RecordedJob};

use sha2::{Digest as _, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What `cutile_virtual_gpu_abi` answers.
pub const ABI: u32 = 1;

const LIBRARY: &str = "libcuda.so.1";
const ASSEMBLER: &str = "tileiras";

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!($path))),*]
    };
}

/// The sources of both programs; they are no modules of this crate.
const SOURCES: &[(&str, &str)] = sources![
    "assembler/main.rs",
    "assembler/sha256.rs",
    "driver/context.rs",
    "driver/device.rs",
    "driver/errors.rs",
    "driver/graph.rs",
    "driver/image.rs",
    "driver/lacking.rs",
    "driver/lib.rs",
    "driver/memory.rs",
    "driver/memory_entry_points.rs",
    "driver/module.rs",
    "driver/record.rs",
    "driver/stream.rs",
    "driver/table.rs",
    "driver/work.rs",
];

/// Warnings of a newer compiler must not be in the way of a build.
const COMMON: &[&str] =
    &["--edition=2024", "--cap-lints=allow", "-Copt-level=1", "-Cpanic=abort", "-Cstrip=symbols"];
const DRIVER: &[&str] =
    &["--crate-name=cuda", "--crate-type=cdylib", "-Clink-arg=-Wl,-soname,libcuda.so.1"];
const RECORDER: &[&str] = &["--crate-name=tileiras", "--crate-type=bin"];

/// Cargo gives these to build scripts; `rustc`, or a program that stands for it, may read them.
const NOT_INHERITED: &[&str] = &[
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_MAKEFLAGS",
    "LD_PRELOAD",
    "MAKEFLAGS",
    "MFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
];

/// The compiled driver and recording assembler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualGpu {
    /// Its last name is a digest of sources, options and compiler.
    directory: PathBuf,
}

impl VirtualGpu {
    /// Compiles the driver and the assembler into a directory below `directory`, or finds them
    /// there. Its name is a digest of the sources, the options and the compiler, and it appears
    /// whole, so that any number of processes may call this at once.
    ///
    /// `rustc` is the compiler: in a build script, the value of `RUSTC`.
    ///
    /// # Errors
    /// Where the compiler cannot be run or fails, where `directory` cannot be written to, and
    /// where its path has a colon, which a library path cannot hold.
    ///
    /// # Security
    /// What is found is run as it is: `directory` must be one that only this user can write to.
    pub fn build(directory: &Path, rustc: &OsStr) -> Result<Self, VirtualGpuError> {
        let built = Self::at(directory, rustc)?;
        built.compile(rustc)?;
        Ok(built)
    }

    /// Where [`build`](Self::build) puts them, and what they are, without them.
    pub(crate) fn at(directory: &Path, rustc: &OsStr) -> Result<Self, VirtualGpuError> {
        fs::create_dir_all(directory).map_err(io("create", directory))?;
        let directory = directory.canonicalize().map_err(io("resolve", directory))?;
        if directory.as_os_str().as_encoded_bytes().contains(&b':') {
            return Err(VirtualGpuError::ColonInPath { path: directory });
        }
        Ok(Self { directory: directory.join(digest(&version_of(rustc)?)) })
    }

    /// Compiles them, where they are not there.
    pub(crate) fn compile(&self, rustc: &OsStr) -> Result<(), VirtualGpuError> {
        if self.is_complete() {
            return Ok(());
        }
        let directory = self.directory.parent().unwrap_or(&self.directory);
        let draft = tempfile::Builder::new()
            .prefix(".virtual-gpu-")
            .tempdir_in(directory)
            .map_err(io("create a directory in", directory))?;
        for (name, text) in SOURCES {
            let file = draft.path().join(name);
            let parent = file.parent().unwrap_or(draft.path());
            fs::create_dir_all(parent).map_err(io("create", parent))?;
            fs::write(&file, text).map_err(io("write", &file))?;
        }
        let out = draft.path().join("out");
        fs::create_dir(&out).map_err(io("create", &out))?;
        compile(rustc, &draft.path().join("driver/lib.rs"), DRIVER, &out.join(LIBRARY))?;
        compile(rustc, &draft.path().join("assembler/main.rs"), RECORDER, &out.join(ASSEMBLER))?;
        match fs::rename(&out, &self.directory) {
            // Another process was first; what it made is the same.
            Err(_) if self.is_complete() => Ok(()),
            renamed => renamed.map_err(io("publish", &self.directory)),
        }
    }

    /// Identifies what is compiled: a digest of sources, options and compiler.
    #[cfg(any(feature = "cuda", feature = "cli"))]
    pub(crate) fn digest(&self) -> &OsStr {
        self.directory.file_name().unwrap_or_default()
    }

    fn is_complete(&self) -> bool {
        self.library().is_file() && self.assembler().is_file()
    }

    /// The directory to put first on the library path. It holds `libcuda.so.1` and no other
    /// library.
    #[must_use]
    pub fn library_dir(&self) -> &Path {
        &self.directory
    }

    /// The driver: `libcuda.so.1`.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.directory.join(LIBRARY)
    }

    /// The recording assembler.
    #[must_use]
    pub fn assembler(&self) -> PathBuf {
        self.directory.join(ASSEMBLER)
    }

    /// The variables that put a process on virtual GPUs, one ordinal for each of `targets`, with
    /// the recording assembler as its tileiras. The library path that the process would have had
    /// is kept behind. `CUTILE_BUILD_REHEARSAL_DIR` is the caller's to set.
    pub fn environment(
        &self,
        targets: &[&str],
        existing_ld_library_path: Option<&OsStr>,
    ) -> Vec<(&'static str, OsString)> {
        let mut library_path = self.directory.clone().into_os_string();
        // An empty element would be the current directory.
        if let Some(existing) = existing_ld_library_path.filter(|path| !path.is_empty()) {
            library_path.push(":");
            library_path.push(existing);
        }
        vec![
            ("CUTILE_VIRTUAL_GPU", targets.join(",").into()),
            ("LD_LIBRARY_PATH", library_path),
            ("CUTILE_TILEIRAS_PATH", self.assembler().into_os_string()),
        ]
    }
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VirtualGpuError {
    let path = path.to_owned();
    move |source| VirtualGpuError::Io { action, path, source }
}

/// Runs the compiler in an environment that does not change what it makes.
fn run(rustc: &OsStr, configure: impl FnOnce(&mut Command)) -> Result<Output, VirtualGpuError> {
    let mut command = Command::new(rustc);
    for variable in NOT_INHERITED {
        command.env_remove(variable);
    }
    configure(&mut command);
    command
        .output()
        .map_err(|source| VirtualGpuError::CompilerNotRun { rustc: rustc.to_owned(), source })
}

fn version_of(rustc: &OsStr) -> Result<Vec<u8>, VirtualGpuError> {
    let output = run(rustc, |command| {
        command.arg("-vV");
    })?;
    checked(rustc, "-vV".as_ref(), output).map(|output| output.stdout)
}

fn compile(
    rustc: &OsStr,
    source: &Path,
    arguments: &[&str],
    output: &Path,
) -> Result<(), VirtualGpuError> {
    // No path of the draft stays in what is made. The working directory is left alone: with
    // rustup it can decide which compiler runs.
    let mut remap = OsString::from("--remap-path-prefix=");
    remap.push(source.parent().unwrap_or(source));
    remap.push("=/virtual-gpu");
    let compiled = run(rustc, |command| {
        command.arg(source).args(arguments).args(COMMON).arg(remap).arg("-o").arg(output);
    })?;
    checked(rustc, source.as_os_str(), compiled).map(|_| ())
}

fn checked(rustc: &OsStr, on: &OsStr, output: Output) -> Result<Output, VirtualGpuError> {
    if output.status.success() {
        return Ok(output);
    }
    Err(VirtualGpuError::CompilerFailed {
        rustc: rustc.to_owned(),
        on: on.to_owned(),
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Identifies what [`VirtualGpu::build`] makes: each part with its length before it.
fn digest(compiler: &[u8]) -> String {
    let mut hasher = Sha256::new();
    let options = COMMON.iter().chain(DRIVER).chain(RECORDER).map(|option| option.as_bytes());
    let sources = SOURCES.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
    for part in [compiler].into_iter().chain(options).chain(sources) {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
