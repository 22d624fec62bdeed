//! The child: a build script on a virtual GPU.

use super::replay::SourceHashes;
use super::{DIR_ENV, Declared, Keep, Line, PASS_ENV, Pass, REPLAY_FILE, Row};
use crate::coverage::{declared_kernels, location};
use crate::environment::BuildEnv;
use crate::virtual_gpu::placeholder_digest;
use cutile::cuda_core::{Context, sys};
use cutile::cutile_compiler::ast::Module;
use cutile::cutile_compiler::compile_api::KernelCompiler;
use cutile::cutile_compiler::cuda_tile_runtime_utils::{ToolkitCapabilities, get_compiler_version};
use cutile::jit_cache::JitStore;
use cutile::tile_kernel::{CompileOptions, TileFunctionKey, kernel_cache_slot, retain_kernels};
use cutile_embed::cuda::modules::{LinkedModule, linked_modules};
use cutile_embed::cuda::row::{Machine, codegen_row, row_of, validator_row};
use cutile_embed::entry::EntryHeader;
use cutile_embed::key::key_text;
use cutile_embed::manifest::Codegen;
use cutile_embed::recording::Recorded;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A named piece of code that makes the launches an app will make.
pub(crate) struct Warmup {
    pub(crate) name: String,
    pub(crate) run: Box<dyn Fn() -> Result<(), String>>,
}

/// Upstream's own tests give the front end this much; its recursion follows the kernel's nesting.
const STACK: usize = 8 << 20;

/// In a child, runs the warm-ups and ends the process; elsewhere does nothing.
pub(crate) fn run_if_child(warmups: &mut Vec<Warmup>) {
    let Some(dir) = BuildEnv::internal(DIR_ENV) else { return };
    let pass = BuildEnv::internal(PASS_ENV).unwrap_or_default();
    let pass = pass.to_str().and_then(|pass| serde_json::from_str(pass).ok());
    let status = match pass {
        Some(pass) => {
            let warmups = SendWarmups(std::mem::take(warmups));
            let run = move || rehearse(&PathBuf::from(dir), &pass, warmups);
            match std::thread::Builder::new().stack_size(STACK).spawn(run).map(|run| run.join()) {
                Ok(Ok(Ok(()))) => 0,
                Ok(Ok(Err(error))) => {
                    eprintln!("{error}");
                    1
                }
                _ => 1,
            }
        }
        None => {
            eprintln!("{PASS_ENV} is not what cutile-build passes to its rehearsals");
            1
        }
    };
    std::process::exit(status);
}

/// The warm-ups move to a thread with a larger stack while this one only waits for it.
struct SendWarmups(Vec<Warmup>);

// SAFETY: the value is used by one thread at a time: the spawning thread gives it away and joins.
unsafe impl Send for SendWarmups {}

fn rehearse(dir: &Path, pass: &Pass, warmups: SendWarmups) -> Result<(), String> {
    let SendWarmups(warmups) = { warmups };
    on_the_virtual_gpu(&pass.target)?;
    let mut child = Child::start(dir, pass)?;
    for warmup in &warmups {
        // A launcher panics where a generic cannot be inferred; the other warm-ups still run.
        let outcome = catch_unwind(AssertUnwindSafe(|| (warmup.run)()));
        child.collect(&warmup.name)?;
        let what = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error,
            Err(panic) => format!("it panicked: {}", panic_text(panic.as_ref())),
        };
        let failed = Line::Failed { warmup: warmup.name.clone(), what, after: child.last.clone() };
        child.write(&failed)?;
    }
    let (rows, hashes) = replay_of(dir)?;
    child.replay(&rows, &hashes)?;
    child.write(&Line::End)
}

/// The rows to replay and the hashes of their modules, where the parent left some.
fn replay_of(dir: &Path) -> Result<(Vec<Recorded>, SourceHashes), String> {
    match std::fs::read(dir.join(REPLAY_FILE)) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
        Err(error) => Err(error.to_string()),
    }
}

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
         loaded before the virtual one; is it linked into the build script, or preloaded?"
    ))
}

/// Builds a module's syntax tree.
pub(super) type Build = fn() -> Module;

pub(super) struct Child<'a> {
    pass: &'a Pass,
    out: File,
    machine: Machine,
    script: CompileOptions,
    store: Arc<RecordingStore>,
    seen: HashSet<TileFunctionKey>,
    linked: HashMap<String, Vec<(LinkedModule, Build)>>,
    last: Option<String>,
    explicit: bool,
}

impl<'a> Child<'a> {
    fn start(dir: &Path, pass: &'a Pass) -> Result<Self, String> {
        let out = File::create(dir.join("rows.jsonl")).map_err(|error| error.to_string())?;
        let store = Arc::new(RecordingStore::default());
        cutile::jit_cache::enable(Arc::clone(&store) as Arc<dyn JitStore>);
        let capabilities =
            ToolkitCapabilities::for_device(0).map_err(|error| format!("{error}"))?;
        let version = capabilities.target.bytecode_version;
        let script = CompileOptions::default();
        let mut child = Self {
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
        child.write(&Line::Start {
            cutile: get_compiler_version(),
            bytecode: (version.major, version.minor, version.tag),
            script: codegen_row(child.script.codegen),
        })?;
        for Declared { module, function, own } in declared_kernels() {
            child.write(&Line::Declared(Declared { module, function, own }))?;
        }
        Ok(child)
    }

    pub(super) fn script_codegen(&self) -> Codegen {
        codegen_row(self.script.codegen)
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(super) fn write(&mut self, line: &Line) -> Result<(), String> {
        let mut text = serde_json::to_string(line).map_err(|error| error.to_string())?;
        text.push('\n');
        self.out.write_all(text.as_bytes()).map_err(|error| error.to_string())
    }

    /// Writes a row for every kernel that came into cutile's in-memory cache since the last call.
    pub(super) fn collect(&mut self, warmup: &str) -> Result<(), String> {
        let mut keys = Vec::new();
        // SAFETY: the predicate keeps every kernel, so nothing is evicted.
        unsafe {
            retain_kernels(|key| {
                keys.push(key.clone());
                true
            })
        };
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
            let line = match self.row(&key, warmup) {
                Ok(Some(row)) => {
                    self.last = Some(row.specialization.name());
                    Line::Row(Box::new(row))
                }
                // A compile that failed leaves an empty cell behind only for a moment.
                Ok(None) => continue,
                Err(reason) => Line::LeftOut {
                    kernel: format!("{}::{}", key.module_name(), key.function_name()),
                    reason,
                },
            };
            self.write(&line)?;
        }
        Ok(())
    }

    fn row(&mut self, key: &TileFunctionKey, warmup: &str) -> Result<Option<Row>, String> {
        let slot = kernel_cache_slot(key);
        let Some((kernel, _)) = slot.get() else { return Ok(None) };
        let image = loaded_image(kernel.module.cu_module())?;
        let job = placeholder_digest(image).ok_or("its image is not the rehearsal's")?;
        let l2_key = self.store.key_of(&job).ok_or("it was never offered to the store")?;
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
        Ok(Some(Row {
            specialization,
            validator: validator_row(&kernel.validator).map_err(|error| error.to_string())?,
            job: key_text(&job),
            l2_key,
            location,
            warmup: warmup.to_owned(),
        }))
    }

    /// The modules behind a key, and where its kernel stands.
    fn text_of(
        &mut self,
        key: &TileFunctionKey,
        l2_key: &str,
    ) -> Result<(Vec<cutile_embed::manifest::ModuleDigest>, String), String> {
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
        let driver = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        if driver.is_null() {
            return Err("the virtual GPU is not loaded".to_owned());
        }
        libc::dlsym(driver, c"cutile_virtual_gpu_module_image".as_ptr())
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

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Learns upstream's L2 key of every job. It never has an entry, so that every job is recorded.
#[derive(Debug, Default)]
struct RecordingStore {
    keys: Mutex<HashMap<[u8; 32], String>>,
}

impl RecordingStore {
    fn key_of(&self, job: &[u8; 32]) -> Option<String> {
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
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(job, key.to_owned());
        Ok(())
    }

    fn delete(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        Ok(())
    }
}
