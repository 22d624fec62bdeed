//! Filling cutile's in-memory cache for one device.
//!
//! The driver loads one module after the other, whatever the number of threads. Meanwhile a second
//! thread compares the digests of the images that are next, and decompresses them, and a third makes
//! the keys and puts what is loaded into the cache.

use super::modules::{LinkedModule, has_namesakes, linked_modules};
use super::report::{DeviceReport, LeftOut};
use super::row::{Machine, key_of, validator_of};
use super::watch;
use crate::entry::EntryHeader;
use crate::index::IndexRow;
use crate::pack::{Decoder, Pack};
use cutile::cuda_async::device_context::{CompiledKernel, load_module_from_bytes};
use cutile::cuda_core::{Function, Module};
use cutile::tile_kernel::{
    TileFunctionKey, contains_cuda_function, kernel_cache_slot, retain_kernels,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, SendError};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;

/// A row, and the pack that has its image.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) row: IndexRow,
    pub(super) pack: Pack<'static>,
}

/// Images that are handed over at one time: to wake a thread takes as long as to read a small one. No
/// further one after so many bytes, so that few are in memory beside those that are loaded.
const BATCH: usize = 16;
const BATCH_BYTES: usize = 1 << 20;

/// Puts every candidate into cutile's in-memory cache that can be served without doubt. One module
/// an image, however many keys share it.
pub(super) fn fill(
    device: usize,
    candidates: &[Candidate],
    left_out: &mut Vec<LeftOut>,
) -> DeviceReport {
    let machine = Machine::of_device(device);
    let images = by_image(candidates);
    let has_kernels = has_kernels();
    let filling =
        LazyLock::new(|| Mutex::new(Filling::new(device, &machine, candidates, has_kernels)));
    let lock = || filling.lock().unwrap_or_else(PoisonError::into_inner);
    // What is there is not loaded again. Where nothing is, the keys are made while the driver loads: an
    // image that none of them is for is dropped.
    let keys: Option<Vec<bool>> =
        has_kernels.then(|| lock().keys.iter().map(Option::is_some).collect());
    let is_wanted =
        |rows: &Vec<usize>| keys.as_ref().is_none_or(|keys| rows.iter().any(|row| keys[*row]));
    // Those behind the last that is wanted are not waited for.
    let end = images.iter().rposition(is_wanted).map_or(0, |last| last + 1);
    let images = &images[..end];
    let firsts: Vec<&Candidate> = images.iter().map(|rows| &candidates[rows[0]]).collect();
    let put = |batch: Vec<Loaded<'_>>| {
        let mut filling = lock();
        batch.into_iter().for_each(|loaded| filling.put(loaded));
    };
    finishing(images.len() > BATCH, put, |finish| {
        with_payloads(&firsts, |next| {
            for rows in images {
                let payload = next();
                if is_wanted(rows) {
                    let module = payload.and_then(|payload| load(device, &payload, &machine));
                    finish(Loaded::new(rows, module, candidates));
                }
            }
        });
    });
    let mut filling = lock();
    left_out.append(&mut filling.left_out);
    filling.report.clone()
}

/// The rows that share an image, in the order of the first of each.
fn by_image(candidates: &[Candidate]) -> Vec<Vec<usize>> {
    let mut images: Vec<Vec<usize>> = Vec::new();
    let mut places: HashMap<[u8; 32], usize> = HashMap::with_capacity(candidates.len());
    for (at, candidate) in candidates.iter().enumerate() {
        let place = *places.entry(candidate.row.image).or_insert_with(|| {
            images.push(Vec::new());
            images.len() - 1
        });
        images[place].push(at);
    }
    images
}

/// Whether anything is in cutile's in-memory cache. To ask for a key is to hash all of it.
fn has_kernels() -> bool {
    let mut any = false;
    // SAFETY: the predicate keeps every kernel, so nothing is evicted.
    unsafe {
        retain_kernels(|_| {
            any = true;
            true
        })
    };
    any
}

type Payload = Result<Cow<'static, [u8]>, String>;

/// Runs `consume` with a function that gives the payload of each candidate's image, in order.
fn with_payloads(candidates: &[&Candidate], consume: impl FnOnce(&mut dyn FnMut() -> Payload)) {
    let mut decoder = Decoder::new();
    let mut payloads = candidates.iter().map(move |candidate| {
        let entry = candidate.pack.get(&candidate.row.image);
        let entry = entry.ok_or("its image is not in the pack; build again")?;
        decoder.owned(&entry).map_err(|error| error.to_string())
    });
    // Never asked for: there is one for each.
    let none = || Err("it was not read".to_owned());
    if candidates.len() < 2 {
        return consume(&mut || payloads.next().unwrap_or_else(none));
    }
    let (sender, receiver) = mpsc::sync_channel::<Vec<Payload>>(1);
    let payloads = Mutex::new(payloads);
    let next = || payloads.lock().unwrap_or_else(PoisonError::into_inner).next();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Dropped in here, also when `consume` panics: the thread ends with it.
        let receiver = receiver;
        // Where no thread is to be had, the next payload is made when it is wanted.
        let _ = thread::Builder::new().name("cutile-embed".into()).spawn_scoped(scope, || {
            let sender = sender;
            // The first is waited for.
            let mut size = 1;
            loop {
                let mut bytes = 0;
                let mut batch = Vec::new();
                while batch.len() < size && bytes < BATCH_BYTES && !is_over.load(Relaxed) {
                    let Some(payload) = next() else { break };
                    bytes += payload.as_ref().map_or(0, |payload| payload.len());
                    batch.push(payload);
                }
                if batch.is_empty() || sender.send(batch).is_err() {
                    break;
                }
                size = BATCH.min(size * 2);
            }
        });
        let mut batch = Vec::new().into_iter();
        consume(&mut || {
            if batch.len() == 0 {
                batch = receiver.recv().unwrap_or_default().into_iter();
            }
            batch.next().or_else(next).unwrap_or_else(none)
        });
        is_over.store(true, Relaxed);
    });
}

/// What the driver made of an image, for each of its rows.
struct Loaded<'c> {
    rows: &'c [usize],
    is_loaded: bool,
    functions: Vec<Result<(Arc<Module>, Function), String>>,
}

impl<'c> Loaded<'c> {
    fn new(
        rows: &'c [usize],
        module: Result<Arc<Module>, String>,
        candidates: &[Candidate],
    ) -> Self {
        let function = |row: &usize| {
            let module = module.clone()?;
            let symbol = &candidates[*row].row.specialization.symbol;
            match module.load_function(symbol) {
                Ok(function) => Ok((module, function)),
                Err(error) => Err(format!("the image has no symbol {symbol}: {error}")),
            }
        };
        let functions = rows.iter().map(function).collect();
        Self { rows, is_loaded: module.is_ok(), functions }
    }
}

/// The keys of a device's kernels, and what became of those that were loaded.
struct Filling<'c> {
    candidates: &'c [Candidate],
    /// Of each candidate, until it is put: none where it is left out or there already.
    keys: Vec<Option<TileFunctionKey>>,
    left_out: Vec<LeftOut>,
    report: DeviceReport,
}

impl<'c> Filling<'c> {
    fn new(
        device: usize,
        machine: &Machine,
        candidates: &'c [Candidate],
        has_kernels: bool,
    ) -> Self {
        let mut left_out = Vec::new();
        let mut keys = unambiguous(machine, candidates, &mut left_out);
        let mut present = 0;
        if has_kernels {
            for key in &mut keys {
                present += usize::from(key.take_if(|key| contains_cuda_function(key)).is_some());
            }
        }
        let report = DeviceReport {
            device,
            target: machine.gpu_name.clone(),
            filled: 0,
            present,
            images: 0,
            failed: Vec::new(),
        };
        Self { candidates, keys, left_out, report }
    }

    /// Puts the functions of an image under their keys.
    fn put(&mut self, loaded: Loaded<'_>) {
        let mut is_wanted = false;
        for (row, function) in loaded.rows.iter().zip(loaded.functions) {
            let Some(key) = self.keys[*row].take() else { continue };
            is_wanted = true;
            let row = &self.candidates[*row].row;
            let kernel = function.and_then(|(module, function)| {
                let validator = validator_of(&row.validator).map_err(|error| error.to_string())?;
                let (function, validator) = (Arc::new(function), Arc::new(validator));
                Ok(CompiledKernel { module, function, validator })
            });
            match kernel {
                Ok(kernel) => self.put_under(&key, kernel),
                Err(what) => {
                    let (name, target) = (row.specialization.name(), &self.report.target);
                    self.report.failed.push(format!("{name} for {target}: {what}"));
                }
            }
        }
        self.report.images += usize::from(is_wanted && loaded.is_loaded);
    }

    fn put_under(&mut self, key: &TileFunctionKey, kernel: CompiledKernel) {
        let address = Arc::as_ptr(&kernel.validator) as usize;
        // Before it is there, or it would be taken for one that was launched.
        watch::filling(address);
        match kernel_cache_slot(key).set((kernel, false)) {
            Ok(()) => self.report.filled += 1,
            // A launch on another thread was faster. What was refused is there until here.
            Err(_refused) => {
                watch::not_filled(address);
                self.report.present += 1;
            }
        }
    }
}

/// Runs `load` with a function that takes what is loaded, for `put`: beside the driver, where there are
/// many, since keys and cutile's cache take a fourth of the time that loading does.
fn finishing<'c>(
    many: bool,
    put: impl Fn(Vec<Loaded<'c>>) + Copy + Send,
    load: impl FnOnce(&mut dyn FnMut(Loaded<'c>)),
) {
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let beside = move || {
            // The keys, which are made at the first call.
            put(Vec::new());
            receiver.into_iter().for_each(put);
        };
        // Where there is no thread for it the receiver is gone, and it is done here.
        match many {
            true => drop(thread::Builder::new().spawn_scoped(scope, beside)),
            false => drop(beside),
        }
        let hand_over = |batch| sender.send(batch).unwrap_or_else(|SendError(batch)| put(batch));
        let mut batch = Vec::new();
        load(&mut |loaded| {
            batch.push(loaded);
            if batch.len() == BATCH {
                hand_over(std::mem::take(&mut batch));
            }
        });
        hand_over(batch);
        drop(sender);
    });
}

/// Upstream's loader takes no length, so the image was verified before: its digest by the pack. Here
/// it is that its header is of the device it is loaded on.
fn load(device: usize, payload: &[u8], machine: &Machine) -> Result<Arc<Module>, String> {
    // Not hashed twice: the payload was compared with its digest.
    let header = EntryHeader::parse_verified(payload).map_err(|error| error.to_string())?;
    if header.gpu_name() != machine.gpu_name {
        return Err(format!("its image is for {}; build again", header.gpu_name()));
    }
    // SAFETY: the bytes are those that tileiras wrote: the pack's digest was compared just now,
    // and the pack is part of this binary.
    unsafe { load_module_from_bytes(header.cubin(), device) }.map_err(|error| {
        format!("the driver refused its image ({error}); launches of it are compiled at run time")
    })
}

/// The key of each candidate on this machine, none where another one has it. Left out are keys with
/// more than one image, and kernels that this program has under the same name with another text behind
/// it: upstream's key does not tell those apart, so neither is served.
fn unambiguous(
    machine: &Machine,
    candidates: &[Candidate],
    left_out: &mut Vec<LeftOut>,
) -> Vec<Option<TileFunctionKey>> {
    // With the place of the first of a key.
    let mut by_key: HashMap<TileFunctionKey, (usize, Option<&Candidate>)> =
        HashMap::with_capacity(candidates.len());
    let mut linked: HashMap<String, Vec<LinkedModule>> = HashMap::new();
    for (at, candidate) in candidates.iter().enumerate() {
        let row = &candidate.row.specialization;
        let namesakes = linked.entry(row.module.clone()).or_insert_with(|| {
            if !has_namesakes(&row.module) {
                return Vec::new();
            }
            linked_modules(&row.module).into_iter().map(|(module, _)| module).collect()
        });
        let doubtful = |module: &LinkedModule| {
            row.modules.iter().any(|known| known.sha256 == module.sha256)
                && !module.same_text(&row.modules)
        };
        if namesakes.len() > 1
            && let Some(other) = namesakes.iter().find(|module| doubtful(module))
        {
            left_out.push(LeftOut {
                kernel: row.name(),
                reason: format!(
                    "{} has the same text and calls other helpers, and cutile's key does not tell \
                     the two apart; rename one of the modules",
                    other.path
                ),
            });
            continue;
        }
        let key = key_of(row, machine);
        match by_key.entry(key) {
            Entry::Vacant(none) => {
                none.insert((at, Some(candidate)));
            }
            Entry::Occupied(mut known) => match known.get_mut() {
                (_, Some(known))
                    if known.row.image == candidate.row.image
                        && known.row.validator == candidate.row.validator => {}
                (_, known) => {
                    *known = None;
                    left_out.push(LeftOut {
                        kernel: row.name(),
                        reason: "two images are embedded under one key; rename one of the modules \
                             that declare it"
                            .to_owned(),
                    });
                }
            },
        }
    }
    let mut keys: Vec<Option<TileFunctionKey>> = vec![None; candidates.len()];
    for (key, (at, candidate)) in by_key {
        if candidate.is_some() {
            keys[at] = Some(key);
        }
    }
    keys
}
