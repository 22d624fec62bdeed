//! Rehearsing: what a process launches on a virtual GPU, as rows for a bundle.
//!
//! A build script does it with its warm-ups, and a program in [`install`](fn@super::install) where
//! `cargo cutile prebuild` runs it. Each specialization that comes into cutile's in-memory cache is
//! matched with the job that the recording assembler stored for it, and with upstream's L2 key.

use super::declared::{declared_kernels, location};
use super::modules::{LinkedModule, linked_modules};
use super::row::{Machine, codegen_row, row_of, validator_row};
use crate::entry::EntryHeader;
use crate::key::key_text;
use crate::manifest::{Codegen, ModuleDigest};
use crate::rehearsal::{
    DIR_ENV, Keep, Line, PROGRAM_PASS_ENV, Pass, ROWS_FILE, Row, placeholder_digest,
};
use cutile::cuda_core::{Context, sys};
use cutile::cutile_compiler::ast::Module;
use cutile::cutile_compiler::compile_api::KernelCompiler;
use cutile::cutile_compiler::cuda_tile_runtime_utils::{ToolkitCapabilities, get_compiler_version};
use cutile::jit_cache::JitStore;
use cutile::tile_kernel::{CompileOptions, TileFunctionKey, kernel_cache_slot, retain_kernels};
use std::collections::{HashMap, HashSet};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Builds a module's syntax tree.
type Build = fn() -> Module;

/// Writes the rows of a rehearsal.
pub struct Recorder {
    pass: Pass,
    out: File,
    machine: Machine,
    script: CompileOptions,
    store: Arc<RecordingStore>,
    seen: HashSet<TileFunctionKey>,
    linked: HashMap<String, Vec<(LinkedModule, Build)>>,
    last: Option<String>,
    explicit: bool,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("pass", &self.pass).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts to record what this process launches. Its store becomes upstream's.
    ///
    /// # Errors
    ///
    /// Where the process is not on a virtual GPU of the pass's target, or the folder cannot be
    /// written.
    pub fn start(dir: &Path, pass: Pass) -> Result<Self, String> {
        on_the_virtual_gpu(&pass.target)?;
        let out = File::create(dir.join(ROWS_FILE)).map_err(|error| error.to_string())?;
        let store = Arc::new(RecordingStore::default());
        cutile::jit_cache::enable(Arc::clone(&store) as Arc<dyn JitStore>);
        let capabilities =
            ToolkitCapabilities::for_device(0).map_err(|error| format!("{error}"))?;
        let version = capabilities.target.bytecode_version;
        let script = CompileOptions::default();
        let mut recorder = Self {
            pass,
            out,
            machine: Machine::of_device(0),
            script,
            store,
            seen: HashSet::new(),
            linked: HashMap::new(),
            last: None,
            explicit: false,
        };
        recorder.write(&Line::Start {
            cutile: get_compiler_version(),
            bytecode: (version.major, version.minor, version.tag),
        })?;
        for kernel in declared_kernels() {
            recorder.write(&Line::Declared(kernel))?;
        }
        Ok(recorder)
    }

    /// The level that a launch of this process has by default.
    #[must_use]
    pub fn default_codegen(&self) -> Codegen {
        codegen_row(self.script.codegen)
    }

    /// The virtual GPU, as keys have it.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The kernel that was compiled last.
    #[must_use]
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub fn write(&mut self, line: &Line) -> Result<(), String> {
        let mut text = serde_json::to_string(line).map_err(|error| error.to_string())?;
        text.push('\n');
        self.out.write_all(text.as_bytes()).map_err(|error| error.to_string())
    }

    /// Writes a row for every kernel that came into cutile's in-memory cache since the last call.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub fn collect(&mut self, warmup: &str) -> Result<(), String> {
        let mut keys = Vec::new();
        // SAFETY: the predicate keeps every kernel, so nothing is evicted.
        unsafe {
            retain_kernels(|key| {
                keys.push(key.clone());
                true
            })
        };
        // The cache has no order; jobs have that of the launches.
        let mut rows: Vec<(usize, Row)> = Vec::new();
        for key in keys {
            if !self.seen.insert(key.clone()) {
                continue;
            }
            let is_default = key.compile_options.codegen == self.script.codegen;
            match (self.pass.keep, is_default) {
                (Keep::All, _) | (Keep::Default, true) | (Keep::Explicit, false) => {}
                (Keep::Explicit, true) => continue,
                (Keep::Default, false) => {
                    if !std::mem::replace(&mut self.explicit, true) {
                        self.write(&Line::Explicit)?;
                    }
                    continue;
                }
            }
            match self.row(&key, warmup) {
                Ok(Some(row)) => rows.push(row),
                // It is being compiled on another thread, or that failed.
                Ok(None) => {
                    self.seen.remove(&key);
                }
                Err(reason) => {
                    let kernel = format!("{}::{}", key.module_name(), key.function_name());
                    self.write(&Line::LeftOut { kernel, reason })?;
                }
            }
        }
        rows.sort_by_key(|(number, _)| *number);
        for (_, row) in rows {
            self.last = Some(row.specialization.name());
            self.write(&Line::Row(Box::new(row)))?;
        }
        Ok(())
    }

    /// The row of a key, and the number of its job.
    fn row(&mut self, key: &TileFunctionKey, warmup: &str) -> Result<Option<(usize, Row)>, String> {
        let slot = kernel_cache_slot(key);
        let Some((kernel, _)) = slot.get() else { return Ok(None) };
        let image = loaded_image(kernel.module.cu_module())?;
        let job = placeholder_digest(image).ok_or("its image is not the rehearsal's")?;
        let (number, l2_key) =
            self.store.key_of(&job).ok_or("it was never offered to the store")?;
        let (modules, location) = self.text_of(key, &l2_key)?;
        let mut specialization =
            row_of(key, &self.machine, modules).map_err(|error| error.to_string())?;
        match self.pass.keep {
            Keep::All => {}
            Keep::Default => specialization.options.codegen = self.pass.program,
            Keep::Explicit => {
                // `.opt_level(2)` keeps the line tables that the default has, so what the program
                // would ask for cannot be told from what the build script asked for.
                let has_lines =
                    |codegen| matches!(codegen, Codegen::Optimized { lineinfo: true, .. });
                if has_lines(self.pass.program) || has_lines(codegen_row(self.script.codegen)) {
                    return Err(
                        "it sets an optimization or debug level of its own, and the build script \
                         and the program have different default levels; set CUDA_RUST_DEBUG to \
                         none, line or full for the whole build"
                            .to_owned(),
                    );
                }
            }
        }
        let row = Row {
            specialization,
            validator: validator_row(&kernel.validator).map_err(|error| error.to_string())?,
            job: key_text(&job),
            l2_key,
            location,
            warmup: warmup.to_owned(),
        };
        Ok(Some((number, row)))
    }

    /// The modules behind a key, and where its kernel stands.
    fn text_of(
        &mut self,
        key: &TileFunctionKey,
        l2_key: &str,
    ) -> Result<(Vec<ModuleDigest>, String), String> {
        let name = key.module_name();
        let linked = self.linked.entry(name.to_owned()).or_insert_with(|| linked_modules(name));
        let with_kernel: Vec<_> = linked
            .iter()
            .filter_map(|(module, build)| {
                Some((module, *build, location(&build(), key.function_name())?))
            })
            .collect();
        let chosen = match with_kernel.as_slice() {
            [] => return Err(format!("no linked module {name} declares it")),
            [only] => only,
            // Short names repeat. The one that was compiled is the one that lowers to the same key.
            several => several
                .iter()
                .find(|(_, build, _)| compiles_to(*build, key).as_deref() == Some(l2_key))
                .ok_or_else(|| {
                    format!("several modules are called {name}, and none gives its key")
                })?,
        };
        Ok((chosen.0.graph.clone(), chosen.2.clone()))
    }
}

fn compiles_to(build: Build, key: &TileFunctionKey) -> Option<String> {
    let strides: Vec<_> =
        key.stride_args.iter().map(|(name, all)| (name.as_str(), all.as_slice())).collect();
    let specs: Vec<_> =
        key.spec_args.iter().map(|(name, bits)| (name.as_str(), bits.clone())).collect();
    let hints: Vec<_> =
        key.scalar_hints.iter().map(|(name, hint)| (name.as_str(), *hint)).collect();
    let capabilities = ToolkitCapabilities::for_device(0).ok()?;
    let mut compiler = KernelCompiler::new(build, key.module_name(), key.function_name())
        .target(&capabilities.target.architecture)
        .generics(key.function_generics.clone())
        .strides(&strides)
        .spec_args(&specs)
        .scalar_hints(&hints)
        .options(key.compile_options.clone());
    if let Some(grid) = key.grid {
        compiler = compiler.grid(grid);
    }
    compiler.l2_cache_key().ok()
}

/// The bytes that the virtual driver was given for a module.
fn loaded_image(module: sys::CUmodule) -> Result<&'static [u8], String> {
    type ModuleImage = unsafe extern "C" fn(sys::CUmodule, *mut *const u8, *mut usize) -> i32;
    // SAFETY: a lookup by name in the libraries that are loaded; the name ends in NUL.
    let symbol = unsafe {
        let driver = dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW);
        if driver.is_null() {
            return Err("the virtual GPU is not loaded".to_owned());
        }
        dlsym(driver, c"cutile_virtual_gpu_module_image".as_ptr())
    };
    if symbol.is_null() {
        return Err("the driver is not the virtual one".to_owned());
    }
    // SAFETY: the virtual driver exports the function with this signature.
    let module_image: ModuleImage = unsafe { std::mem::transmute(symbol) };
    let (mut start, mut len) = (std::ptr::null(), 0);
    // SAFETY: both pointers are to locals; the handle was given out by the same driver.
    let result = unsafe { module_image(module, &mut start, &mut len) };
    if result != 0 || start.is_null() {
        return Err(format!("the virtual GPU does not know the module (error {result})"));
    }
    // SAFETY: the driver keeps the image while the module is loaded, and modules stay loaded here:
    // cutile's in-memory cache holds them and nothing is evicted before the process ends.
    Ok(unsafe { std::slice::from_raw_parts(start, len) })
}

/// Starts a rehearsal where the environment of this process, a program, asks for one. `None` where
/// it does not.
pub(super) fn start_in_program() -> Option<Result<String, String>> {
    let (dir, pass) = asked_for()?;
    Some(run_in_program(&dir, pass))
}

#[allow(clippy::disallowed_methods, reason = "what cargo cutile prebuild passes to a program")]
fn asked_for() -> Option<(PathBuf, Option<Pass>)> {
    let pass = std::env::var_os(PROGRAM_PASS_ENV)?;
    let dir = std::env::var_os(DIR_ENV)?;
    Some((dir.into(), pass.to_str().and_then(|pass| serde_json::from_str(pass).ok())))
}

static IN_PROGRAM: Mutex<Option<Recorder>> = Mutex::new(None);

fn run_in_program(dir: &Path, pass: Option<Pass>) -> Result<String, String> {
    let pass = pass.ok_or_else(|| format!("{PROGRAM_PASS_ENV} is not what cutile-build passes"))?;
    let target = pass.target.clone();
    let mut recorder = IN_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    if recorder.is_some() {
        return Ok(target);
    }
    *recorder = Some(Recorder::start(dir, pass)?);
    drop(recorder);
    std::thread::spawn(write_down);
    // SAFETY: registers a function without arguments that does not unwind.
    unsafe { atexit(at_exit) };
    Ok(target)
}

/// How far the program is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// It is about to end, and waits for the last lines.
    Ending,
    Ended,
}

static PHASE: (Mutex<Phase>, Condvar) = (Mutex::new(Phase::Running), Condvar::new());

/// Writes rows as they come, on a thread of its own. Where a program is killed, those that it had
/// made until then are there, without an end.
fn write_down() {
    let (phase, changed) = &PHASE;
    loop {
        let now = phase.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = changed.wait_timeout_while(now, BETWEEN, |phase| *phase == Phase::Running);
        let ends = *wait.unwrap_or_else(PoisonError::into_inner).0 == Phase::Ending;
        let mut recorder = IN_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(recorder) = &mut *recorder else { return };
        let mut written = recorder.collect("");
        if ends {
            written = written.and_then(|()| recorder.write(&Line::End));
        }
        if let Err(error) = &written {
            // The build misses the end of the rows and says so, with this.
            eprintln!("cutile-embed: the rehearsal cannot be written down: {error}");
        }
        if ends || written.is_err() {
            *phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Ended;
            changed.notify_all();
            return;
        }
    }
}

/// The main thread has no thread-local values any more, and cutile's cache needs them: so the other
/// thread writes, and this one waits.
extern "C" fn at_exit() {
    let (phase, changed) = &PHASE;
    let mut now = phase.lock().unwrap_or_else(PoisonError::into_inner);
    if *now == Phase::Running {
        *now = Phase::Ending;
        changed.notify_all();
    }
    drop(changed.wait_timeout_while(now, AT_EXIT, |phase| *phase != Phase::Ended));
}

/// How often rows are looked for.
const BETWEEN: Duration = Duration::from_millis(50);
/// How long the end of the program waits for the last of them.
const AT_EXIT: Duration = Duration::from_secs(60);

unsafe extern "C" {
    fn atexit(callback: extern "C" fn()) -> c_int;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Linux's value.
const RTLD_NOW: c_int = 2;

/// Stops where a real driver was loaded before the virtual one, or another one was found first.
fn on_the_virtual_gpu(target: &str) -> Result<(), String> {
    if !sys::is_cuda_driver_available() {
        return Err(match sys::cuda_driver_load_error() {
            Some(error) => format!("the virtual GPU does not load: {error}"),
            None => "the virtual GPU does not load".to_owned(),
        });
    }
    let name = Context::new(0)
        .and_then(|context| context.device_name())
        .map_err(|error| format!("the virtual GPU does not start: {error}"))?;
    let expected = format!("cuTile virtual GPU {target}");
    if name == expected {
        return Ok(());
    }
    Err(format!(
        "the rehearsal found the device {name:?} and expected {expected:?}: a real driver was \
         loaded before the virtual one; is it linked into the program, or preloaded?"
    ))
}

/// Learns upstream's L2 key of every job. It never has an entry, so that every job is recorded.
#[derive(Debug, Default)]
struct RecordingStore {
    /// With their numbers, in the order of the launches.
    keys: Mutex<HashMap<[u8; 32], (usize, String)>>,
}

impl RecordingStore {
    fn key_of(&self, job: &[u8; 32]) -> Option<(usize, String)> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(job).cloned()
    }
}

impl JitStore for RecordingStore {
    fn get(&self, _: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn put(&self, key: &str, value: &[u8]) -> io::Result<()> {
        let job = EntryHeader::parse(value)
            .ok()
            .and_then(|entry| placeholder_digest(entry.cubin()))
            .ok_or_else(|| io::Error::other("not an entry of the rehearsal"))?;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let number = keys.len();
        keys.entry(job).or_insert_with(|| (number, key.to_owned()));
        Ok(())
    }

    fn delete(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        Ok(())
    }
}
