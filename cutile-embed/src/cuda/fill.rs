//! Filling cutile's in-memory cache for one device.

use super::modules::{LinkedModule, has_namesakes, linked_modules};
use super::report::{DeviceReport, LeftOut};
use super::row::{Machine, key_of, validator_of};
use super::watch;
use crate::entry::EntryHeader;
use crate::index::IndexRow;
use crate::pack::Pack;
use cutile::cuda_async::device_context::{CompiledKernel, load_module_from_bytes};
use cutile::cuda_core::Module;
use cutile::tile_kernel::{TileFunctionKey, contains_cuda_function, kernel_cache_slot};
use std::collections::HashMap;
use std::sync::Arc;

/// A row, and the pack that has its image.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) row: IndexRow,
    pub(super) pack: Pack<'static>,
}

/// Puts every candidate into cutile's in-memory cache that can be served without doubt. One module
/// an image, however many keys share it.
pub(super) fn fill(
    device: usize,
    candidates: Vec<Candidate>,
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
    let mut validators = Vec::new();
    let mut loaded: HashMap<[u8; 32], Result<Arc<Module>, ()>> = HashMap::new();
    for (key, candidate) in unambiguous(&machine, candidates, left_out) {
        if contains_cuda_function(&key) {
            report.present += 1;
            continue;
        }
        let Candidate { row, pack } = candidate;
        let module = loaded.entry(row.image).or_insert_with(|| {
            load(device, &pack, &row, &machine).map_err(|what| {
                let name = row.specialization.name();
                report.failed.push(format!("{name} for {}: {what}", machine.gpu_name));
            })
        });
        let Ok(module) = module else { continue };
        let function = match module.load_function(&row.specialization.symbol) {
            Ok(function) => Arc::new(function),
            Err(error) => {
                let name = row.specialization.name();
                report.failed.push(format!(
                    "{name}: the image has no symbol {}: {error}",
                    row.specialization.symbol
                ));
                continue;
            }
        };
        let validator = match validator_of(&row.validator) {
            Ok(validator) => Arc::new(validator),
            Err(error) => {
                report.failed.push(format!("{}: {error}", row.specialization.name()));
                continue;
            }
        };
        let address = Arc::as_ptr(&validator) as usize;
        let kernel = CompiledKernel { module: Arc::clone(module), function, validator };
        match kernel_cache_slot(&key).set((kernel, false)) {
            Ok(()) => {
                validators.push(address);
                report.filled += 1;
            }
            // A launch on another thread was faster.
            Err(_) => report.present += 1,
        }
    }
    watch::filled(validators);
    report.images = loaded.values().filter(|module| module.is_ok()).count();
    report
}

/// Upstream's loader takes no length, so the image is verified first: its digest, and that its
/// header is of the device it is loaded on.
fn load(
    device: usize,
    pack: &Pack<'static>,
    row: &IndexRow,
    machine: &Machine,
) -> Result<Arc<Module>, String> {
    let entry = pack.get(&row.image).ok_or("its image is not in the pack; build again")?;
    let payload = entry.payload().map_err(|error| error.to_string())?;
    let header = EntryHeader::parse(&payload).map_err(|error| error.to_string())?;
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
fn unambiguous(
    machine: &Machine,
    candidates: Vec<Candidate>,
    left_out: &mut Vec<LeftOut>,
) -> Vec<(TileFunctionKey, Candidate)> {
    let mut order = Vec::new();
    let mut by_key: HashMap<TileFunctionKey, Option<Candidate>> = HashMap::new();
    let mut linked: HashMap<String, Vec<LinkedModule>> = HashMap::new();
    for candidate in candidates {
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
        match by_key.get_mut(&key) {
            None => {
                order.push(key.clone());
                by_key.insert(key, Some(candidate));
            }
            Some(Some(known))
                if known.row.image == candidate.row.image
                    && known.row.validator == candidate.row.validator => {}
            Some(known) => {
                *known = None;
                left_out.push(LeftOut {
                    kernel: row.name(),
                    reason: "two images are embedded under one key; rename one of the modules \
                             that declare it"
                        .to_owned(),
                });
            }
        }
    }
    order
        .into_iter()
        .filter_map(|key| by_key.remove(&key).flatten().map(|candidate| (key, candidate)))
        .collect()
}
