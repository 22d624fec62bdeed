//! Filling cutile's in-memory cache for one device.
//!
//! The driver loads one module after the other, whatever the number of threads. Meanwhile a second
//! thread compares the digests of the images that are next, and decompresses them, and a third puts
//! those that are loaded into the cache.

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
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, SendError};
use std::sync::{Arc, Mutex, PoisonError};
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
    let mut report = DeviceReport {
        device,
        target: machine.gpu_name.clone(),
        filled: 0,
        present: 0,
        images: 0,
        failed: Vec::new(),
    };
    // The images, in the order of the rows, and where each is among them.
    let mut images: Vec<&Candidate> = Vec::new();
    let mut places: HashMap<[u8; 32], usize> = HashMap::new();
    for candidate in candidates {
        places.entry(candidate.row.image).or_insert_with(|| {
            images.push(candidate);
            images.len() - 1
        });
    }
    let has_kernels = has_kernels();
    let finished = finishing(images.len() > BATCH, |finish| {
        // The first are read while the keys are made: which of them are wanted is known only then.
        with_payloads(&images, |next| {
            let mut wanted: Vec<Vec<(TileFunctionKey, &IndexRow)>> = vec![Vec::new(); images.len()];
            for (key, candidate) in unambiguous(&machine, candidates, left_out) {
                if has_kernels && contains_cuda_function(&key) {
                    report.present += 1;
                } else {
                    wanted[places[&candidate.row.image]].push((key, &candidate.row));
                }
            }
            // Those behind the last that is wanted are not waited for.
            let end = wanted.iter().rposition(|rows| !rows.is_empty()).map_or(0, |last| last + 1);
            for (candidate, rows) in images.iter().zip(wanted).take(end) {
                let payload = next();
                if rows.is_empty() {
                    continue;
                }
                let module = match payload.and_then(|payload| load(device, &payload, &machine)) {
                    Ok(module) => module,
                    Err(what) => {
                        let name = candidate.row.specialization.name();
                        report.failed.push(format!("{name} for {}: {what}", machine.gpu_name));
                        continue;
                    }
                };
                report.images += 1;
                for (key, row) in rows {
                    match Loaded::new(key, row, &module) {
                        Ok(loaded) => finish(loaded),
                        Err(what) => report.failed.push(what),
                    }
                }
            }
        });
    });
    let Finished { filled, present, failed } = finished;
    report.filled += filled;
    report.present += present;
    report.failed.extend(failed);
    report
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

/// A function of a loaded module, and the key that it is for.
struct Loaded<'c> {
    key: TileFunctionKey,
    row: &'c IndexRow,
    module: Arc<Module>,
    function: Function,
}

impl<'c> Loaded<'c> {
    fn new(key: TileFunctionKey, row: &'c IndexRow, module: &Arc<Module>) -> Result<Self, String> {
        let (name, symbol) = (|| row.specialization.name(), &row.specialization.symbol);
        let function = module
            .load_function(symbol)
            .map_err(|error| format!("{}: the image has no symbol {symbol}: {error}", name()))?;
        Ok(Self { key, row, module: Arc::clone(module), function })
    }
}

/// What became of kernels that were loaded.
#[derive(Default)]
struct Finished {
    filled: usize,
    present: usize,
    failed: Vec<String>,
}

impl Finished {
    /// Puts a kernel under its key.
    fn put(&mut self, loaded: Loaded<'_>) {
        let Loaded { key, row, module, function } = loaded;
        let validator = match validator_of(&row.validator) {
            Ok(validator) => Arc::new(validator),
            Err(error) => {
                return self.failed.push(format!("{}: {error}", row.specialization.name()));
            }
        };
        let address = Arc::as_ptr(&validator) as usize;
        let kernel = CompiledKernel { module, function: Arc::new(function), validator };
        // Before it is there, or it would be taken for one that was launched.
        watch::filling(address);
        match kernel_cache_slot(&key).set((kernel, false)) {
            Ok(()) => self.filled += 1,
            // A launch on another thread was faster. What was refused is there until here.
            Err(_refused) => {
                watch::not_filled(address);
                self.present += 1;
            }
        }
    }
}

/// Runs `load` with a function that takes what is loaded and puts it under its key: beside the driver,
/// where there are many, since cutile's cache takes a fifth of the time that loading does.
fn finishing<'c>(many: bool, load: impl FnOnce(&mut dyn FnMut(Loaded<'c>))) -> Finished {
    let mut here = Finished::default();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel::<Vec<Loaded<'c>>>();
        let finish = || {
            let mut finished = Finished::default();
            receiver.into_iter().flatten().for_each(|loaded| finished.put(loaded));
            finished
        };
        // Where there is no thread for it the receiver is gone, and it is done here.
        let beside = match many {
            true => thread::Builder::new().spawn_scoped(scope, finish).ok(),
            false => {
                drop(finish);
                None
            }
        };
        let mut hand_over = |batch| {
            if let Err(SendError(batch)) = sender.send(batch) {
                batch.into_iter().for_each(|loaded| here.put(loaded));
            }
        };
        let mut batch = Vec::new();
        load(&mut |loaded| {
            batch.push(loaded);
            if batch.len() == BATCH {
                hand_over(std::mem::take(&mut batch));
            }
        });
        hand_over(batch);
        drop(sender);
        if let Some(beside) = beside {
            let Finished { filled, present, failed } =
                beside.join().unwrap_or_else(|panic| resume_unwind(panic));
            here.filled += filled;
            here.present += present;
            here.failed.extend(failed);
        }
    });
    here
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

/// The keys of the candidates on this machine. Left out are keys with more than one image, and
/// kernels that this program has under the same name with another text behind it: upstream's key
/// does not tell those apart, so neither is served.
fn unambiguous<'c>(
    machine: &Machine,
    candidates: &'c [Candidate],
    left_out: &mut Vec<LeftOut>,
) -> Vec<(TileFunctionKey, &'c Candidate)> {
    // With the place of the first of a key, so that images are loaded in the order of the rows.
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
    let mut found: Vec<_> = by_key
        .into_iter()
        .filter_map(|(key, (at, candidate))| Some((at, key, candidate?)))
        .collect();
    found.sort_unstable_by_key(|(at, ..)| *at);
    found.into_iter().map(|(_, key, candidate)| (key, candidate)).collect()
}
