//! What this process launched: for `kernels.json`, and for [`misses`].
//!
//! A launch that is compiled asks the store, and while it does, its key is in cutile's in-memory
//! cache with an empty cell. So every call of the store is an occasion to look at that cache; no
//! other hook is needed, and none sees a launch of a kernel that was filled. Of those a launch site
//! keeps a reference to the function, which is counted.

use super::modules::linked_modules;
use super::row::{Machine, codegen_row, device_of, row_of};
use crate::manifest::{ModuleDigest, Specialization};
use crate::recording::{Recorded, Recording, RecordingError};
use cutile::tile_kernel::{
    CompileOptions, TileFunctionKey, contains_cuda_function, kernel_cache_slot, retain_kernels,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Records every specialization that this process launches from now on, and those it has launched,
/// into a `kernels.json` for `Builder::replay`. The file is written anew whenever one comes up, so
/// that a program which dies leaves what it had launched so far.
///
/// Where `path` is a folder, the file in it is named by the process, so that several can record.
///
/// Call it after [`install`](fn@super::install). What is recorded is what was compiled, or was filled
/// and then launched; it is looked for 20 times a second, and whenever our store is asked. Of
/// embedded specializations of one kernel that are launched within one such time only the last is
/// sure to be seen, but for those that [`launch!`](crate::launch) launches.
///
/// With the path of the call before, that recording goes on.
///
/// # Errors
///
/// Where the file cannot be written.
pub fn record_to(path: impl Into<PathBuf>) -> Result<(), RecordingError> {
    let mut path = path.into();
    if path.is_dir() {
        path.push(format!("kernels-{}.json", std::process::id()));
    }
    let mut watched = lock();
    if watched.recorder.as_ref().is_none_or(|recorder| recorder.path != path) {
        Recording::default().write(&path)?;
        let (known, recording) = (HashSet::new(), Recording::default());
        watched.recorder = Some(Recorder { path, known, recording });
    }
    drop(watched);
    static FINISH: Once = Once::new();
    FINISH.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(50));
                look();
            }
        });
        // SAFETY: registers a function without arguments that does not unwind.
        unsafe { atexit(at_exit) };
    });
    look();
    Ok(())
}

unsafe extern "C" {
    fn atexit(callback: extern "C" fn()) -> i32;
}

extern "C" fn at_exit() {
    // A panic must not leave it; what was recorded before is in the file.
    let _ = std::panic::catch_unwind(look);
}

/// Specializations that were launched and not embedded, as far as this crate's calls and its store
/// have seen them, for `Builder::replay`. In [strict](super::Installer::strict) mode a bare launch
/// fails before any store is asked: those are seen by [`launch!`](crate::launch) and
/// [`require`](super::require) only.
#[must_use]
pub fn misses() -> Recording {
    let mut recording = Recording::default();
    recording.kernels.clone_from(&lock().missed);
    recording
}

#[derive(Default)]
struct Watched {
    /// Kernels that `install` put into the cache, by the address of their validator: that stays
    /// where it is while the kernel is there.
    filled: HashSet<usize>,
    missed: BTreeSet<Recorded>,
    recorder: Option<Recorder>,
    machines: HashMap<usize, Machine>,
    graphs: HashMap<String, Vec<ModuleDigest>>,
}

struct Recorder {
    path: PathBuf,
    known: HashSet<TileFunctionKey>,
    recording: Recording,
}

static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

struct Locked(MutexGuard<'static, Option<Watched>>);

impl std::ops::Deref for Locked {
    type Target = Watched;

    fn deref(&self) -> &Watched {
        self.0.as_ref().expect("`lock` puts one there")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Watched {
        self.0.as_mut().expect("`lock` puts one there")
    }
}

fn lock() -> Locked {
    let mut guard = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    guard.get_or_insert_default();
    Locked(guard)
}

/// A kernel that `install` is about to put into the cache, by the address of its validator.
pub(super) fn filling(validator: usize) {
    lock().filled.insert(validator);
}

/// It was not put there: a launch on another thread was faster.
pub(super) fn not_filled(validator: usize) {
    lock().filled.remove(&validator);
}

/// What is in the cache under a key.
enum State {
    /// Nothing yet: it is being compiled, or its compile failed.
    Empty,
    /// A kernel that a launch took.
    Launched,
    /// A kernel that `install` put there and no launch took yet.
    Waiting,
}

fn state(key: &TileFunctionKey, filled: &HashSet<usize>) -> State {
    if !contains_cuda_function(key) {
        return State::Empty;
    }
    match kernel_cache_slot(key).get() {
        None => State::Empty,
        Some((kernel, _)) if filled.contains(&(Arc::as_ptr(&kernel.validator) as usize)) => {
            // The cache has one reference, and each place that launched it another.
            if Arc::strong_count(&kernel.function) > 1 { State::Launched } else { State::Waiting }
        }
        Some(_) => State::Launched,
    }
}

/// Looks for keys that came up, and writes them down.
pub(super) fn look() {
    if lock().recorder.is_none() {
        return;
    }
    let keys = all_keys();
    let mut watched = lock();
    let launched = keys
        .into_iter()
        .filter(|key| !matches!(state(key, &watched.filled), State::Waiting))
        .collect();
    watched.record(launched);
}

/// A key that is about to be launched, and is there.
pub(super) fn launching(key: &TileFunctionKey) {
    let mut watched = lock();
    // Before every launch: nothing is copied where nothing is to be written down.
    if watched.recorder.as_ref().is_some_and(|recorder| !recorder.known.contains(key)) {
        watched.record(vec![key.clone()]);
    }
}

/// The store was asked and had nothing embedded: keys without a kernel are being compiled.
pub(super) fn missed_in_store() {
    let keys = all_keys();
    let mut watched = lock();
    for key in keys {
        if matches!(state(&key, &watched.filled), State::Empty) {
            watched.miss(&key);
        }
    }
}

/// A key that is not embedded.
pub(super) fn missed(key: &TileFunctionKey) {
    lock().miss(key);
}

/// The specialization behind a key of this process.
pub(super) fn specialization(key: &TileFunctionKey) -> Option<Specialization> {
    lock().specialization(key)
}

fn all_keys() -> Vec<TileFunctionKey> {
    let mut keys = Vec::new();
    // SAFETY: the predicate keeps every kernel, so nothing is evicted.
    unsafe {
        retain_kernels(|key| {
            keys.push(key.clone());
            true
        })
    };
    keys
}

impl Watched {
    fn miss(&mut self, key: &TileFunctionKey) {
        if let Some(row) = self.recorded(key) {
            self.missed.insert(row);
        }
    }

    /// Writes down what is new of these.
    fn record(&mut self, mut launched: Vec<TileFunctionKey>) {
        let Some(recorder) = &self.recorder else { return };
        launched.retain(|key| !recorder.known.contains(key));
        if launched.is_empty() {
            return;
        }
        let rows: Vec<Recorded> = launched.iter().filter_map(|key| self.recorded(key)).collect();
        if let Some(recorder) = &mut self.recorder {
            recorder.known.extend(launched);
            recorder.recording.kernels.extend(rows);
            // The run goes on without the file: it is the program's, not ours.
            let _ = recorder.recording.write(&recorder.path);
        }
    }

    fn recorded(&mut self, key: &TileFunctionKey) -> Option<Recorded> {
        let default = codegen_row(CompileOptions::default().codegen);
        Some(Recorded::new(self.specialization(key)?, default))
    }

    /// `None` for what links tile libraries: it cannot be embedded.
    fn specialization(&mut self, key: &TileFunctionKey) -> Option<Specialization> {
        let device = device_of(key)?;
        let machine =
            self.machines.entry(device).or_insert_with(|| Machine::of_device(device)).clone();
        let name = key.module_name();
        let graph = self
            .graphs
            .entry(name.to_owned())
            .or_insert_with(|| match &linked_modules(name)[..] {
                [(only, _)] => only.graph.clone(),
                // Which of several it is only a compile tells; a build finds out.
                _ => Vec::new(),
            })
            .clone();
        row_of(key, &machine, graph).ok()
    }
}
