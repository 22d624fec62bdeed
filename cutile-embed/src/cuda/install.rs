//! `install`: what a program calls first.

use super::fill::{Candidate, fill};
use super::report::{BundleReport, BundleState, LeftOut, Report, StoreState};
use super::stale::{Sources, sources};
use super::{rehearse, row, store, watch};
use crate::bundle::{Bundle, bundles};
use crate::index::{Index, IndexRow};
use crate::key::CODEGEN_VARIABLES;
use crate::store::{EmbeddedJitStore, FileSystemJitStore, JitStore, Tier, TieredJitStore};
use cutile::cuda_async::device_context::get_default_device;
use cutile::cuda_core::{Context, sys};
use cutile::cutile_compiler::cuda_tile_runtime_utils::{
    ToolkitCapabilities, get_compiler_version, get_gpu_name,
};
use cutile::tile_kernel::CompileOptions;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes every embedded kernel ready to launch on the current device, and installs embedded images
/// and the disk cache as the process's store.
///
/// Call it first thing, before the first launch. It never fails a program that would have run
/// without it: no driver, no device, an unknown architecture, another version, a damaged bundle —
/// all of that is in the [`Report`], and launches go to the JIT as before. Calling it again is
/// harmless, and fills again what was evicted.
///
/// A launch with programmatic dependent launch asks upstream for the toolkit's capabilities every
/// time, and so needs a tileiras on the machine whatever is embedded.
///
/// # Security
///
/// Embedded images are as trusted as the binary; the disk cache as its directory, see
/// [`JitStore`].
pub fn install() -> Report {
    Installer::new().install()
}

/// Which devices to fill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Devices {
    /// The default device of the calling thread.
    #[default]
    Current,
    /// Every device.
    All,
    /// These ordinals. One that does not exist is reported, one that stands twice is filled once.
    Ids(Vec<usize>),
}

/// Where to keep what is not embedded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Disk {
    /// The user's cache folder, where upstream's own disk cache is.
    #[default]
    Default,
    /// This folder.
    At(PathBuf),
    /// Nowhere.
    Off,
}

/// [`install`] with choices.
///
/// ```no_run
/// use cutile_embed::{Devices, Disk, Installer};
///
/// let report = Installer::new()
///     .only("kernels::gemm")
///     .devices(Devices::All)
///     .disk(Disk::Off)
///     .install();
/// eprintln!("{report}");
/// ```
#[derive(Debug, Clone)]
pub struct Installer {
    bundles: &'static [Bundle],
    only: Vec<String>,
    devices: Devices,
    disk: Disk,
    memory: bool,
    embedded: bool,
    strict: bool,
    record: Option<PathBuf>,
}

impl Default for Installer {
    fn default() -> Self {
        Self::new()
    }
}

impl Installer {
    /// As [`install`] does it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bundles: bundles(),
            only: Vec::new(),
            devices: Devices::Current,
            disk: Disk::Default,
            memory: true,
            embedded: true,
            strict: false,
            record: None,
        }
    }

    /// Fills the kernels of this name only: `module` or `module::function`. May be called several
    /// times. A loaded kernel takes device memory, 6 to 55 kB each as measured.
    ///
    /// Default: all of them.
    #[must_use]
    pub fn only(mut self, kernel: impl Into<String>) -> Self {
        self.only.push(kernel.into());
        self
    }

    /// The devices to fill.
    ///
    /// Default: [`Devices::Current`].
    #[must_use]
    pub fn devices(mut self, devices: Devices) -> Self {
        self.devices = devices;
        self
    }

    /// Where to keep what is not embedded. Upstream keeps nothing on disk unless asked to; this is
    /// the asking.
    ///
    /// Default: [`Disk::Default`].
    #[must_use]
    pub fn disk(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }

    /// Whether to fill cutile's in-memory cache. Without, a first launch runs the compiler's front
    /// end and finds the image in the store, if the build's tileiras is on the machine.
    ///
    /// Default: `true`.
    #[must_use]
    pub fn fill_memory(mut self, fill: bool) -> Self {
        self.memory = fill;
        self
    }

    /// Whether to use what is embedded at all. Without, what is left is upstream with its disk
    /// cache on, to compare with.
    ///
    /// Default: `true`.
    #[must_use]
    pub fn embedded(mut self, embedded: bool) -> Self {
        self.embedded = embedded;
        self
    }

    /// Nothing is compiled: no tileiras is ever started, even where one is installed. A launch of
    /// what is not embedded fails, with upstream's error and the name of a tileiras that is not
    /// there; [`launch!`](crate::launch) fails with one that says which embedded specialization is
    /// the nearest.
    ///
    /// Default: what is not embedded is compiled.
    ///
    /// # Safety
    ///
    /// `install` then sets `CUTILE_TILEIRAS_PATH` of this process, before it computes a key. No other
    /// thread may read or write the environment meanwhile: call it first thing in `main`.
    #[must_use]
    pub unsafe fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Records what is launched from here on, see [`record_to`](super::record_to). Kernels are not
    /// filled where a tileiras can compile them, so that each launch is seen as it is made.
    ///
    /// Default: the value of `CUTILE_EMBED_RECORD`, and nothing where it is not set.
    #[must_use]
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Other bundles than those of the program, for tests and benchmarks.
    #[doc(hidden)]
    #[must_use]
    pub fn bundles(mut self, bundles: &'static [Bundle]) -> Self {
        self.bundles = bundles;
        self
    }

    /// Does it.
    pub fn install(self) -> Report {
        let report = self.run();
        *last().lock().unwrap_or_else(PoisonError::into_inner) = Some(report.clone());
        report
    }

    fn run(mut self) -> Report {
        let mut report = Report { rehearsal: rehearse::start_in_program(), ..Report::default() };
        if matches!(report.rehearsal, Some(Ok(_))) {
            // Its launches are to be compiled, and their store is there.
            return report;
        }
        if self.strict {
            // SAFETY: the contract of `strict`: no other thread touches the environment.
            unsafe { std::env::set_var(TILEIRAS_ENV, NO_TILEIRAS) };
        }
        self.record = self.record.take().or_else(record_path);
        let used = if self.embedded { self.read_bundles(&mut report) } else { Vec::new() };
        report.overrides = overrides();
        match self.device_ids() {
            Ok((devices, absent)) => {
                report.absent = absent;
                if self.record.is_some() && devices.iter().any(|id| can_compile(*id)) {
                    self.memory = false;
                }
                let fills = self.memory && report.overrides.is_empty();
                // Devices of one architecture share their rows.
                let mut by_target: HashMap<String, Vec<Candidate>> = HashMap::new();
                for device in devices {
                    let candidates = match fills {
                        true => {
                            by_target.entry(get_gpu_name(device)).or_insert_with_key(|target| {
                                self.candidates(target, &used, &mut report.left_out)
                            })
                        }
                        false => &mut Vec::new(),
                    };
                    report.devices.push(fill(device, candidates, &mut report.left_out));
                }
            }
            Err(why) => report.no_device = Some(why),
        }
        // Each device says it anew.
        let mut told = HashSet::new();
        report.left_out.retain(|row| told.insert(row.clone()));
        // Where nothing can be launched nothing asks a store, and to look for its folder is to open
        // files.
        if has_device() {
            report.store = self.install_store(&used);
        }
        if let Some(path) = &self.record {
            report.recording = Some(match watch::record_to(path) {
                Ok(()) => Ok(path.clone()),
                Err(error) => Err(error.to_string()),
            });
        }
        report
    }

    fn read_bundles(&self, report: &mut Report) -> Vec<(&'static Bundle, Index<'static>)> {
        let mut used = Vec::new();
        for bundle in self.bundles {
            let mut row = BundleReport {
                package: String::new(),
                targets: Vec::new(),
                kernels: 0,
                images: 0,
                bytes: bundle.bytes(),
                state: BundleState::Used,
            };
            match bundle.index() {
                Err(error) => row.state = BundleState::Unusable(error.to_string()),
                Ok(index) => {
                    row.package = format!("{} {}", index.package, index.package_version);
                    row.targets =
                        index.targets.iter().map(|target| target.target.to_owned()).collect();
                    row.kernels = index.kernels as usize;
                    row.images = index.targets.iter().map(|target| target.images as usize).sum();
                    if let Some(why) = index.skipped {
                        row.state = BundleState::Skipped(why.to_owned());
                    } else if let Some(why) = mismatch(&index) {
                        row.state = BundleState::Unusable(why);
                    } else {
                        used.push((bundle, index));
                    }
                }
            }
            report.bundles.push(row);
        }
        used
    }

    /// The devices that were chosen and are there, and what to say of the others.
    fn device_ids(&self) -> Result<(Vec<usize>, Option<String>), String> {
        if !sys::is_cuda_driver_available() {
            return Err(match sys::cuda_driver_load_error() {
                Some(error) => format!("no NVIDIA driver ({error})"),
                None => "no NVIDIA driver".to_owned(),
            });
        }
        let count = match Context::device_count() {
            Ok(count) if count > 0 => usize::try_from(count).unwrap_or(0),
            Ok(_) => return Err("the driver has no device".to_owned()),
            Err(error) => return Err(format!("the driver does not start ({error})")),
        };
        let mut chosen = match &self.devices {
            Devices::Current => vec![get_default_device()],
            Devices::All => (0..count).collect(),
            Devices::Ids(ids) => ids.clone(),
        };
        chosen.sort_unstable();
        chosen.dedup();
        let absent = chosen.split_off(chosen.partition_point(|id| *id < count));
        let absent = absent
            .first()
            .map(|id| format!("there is no device {id}, only {count} of them, from 0"));
        match (chosen.is_empty(), absent) {
            (true, Some(absent)) => Err(absent),
            (_, absent) => Ok((chosen, absent)),
        }
    }

    fn candidates(
        &self,
        target: &str,
        used: &[(&'static Bundle, Index<'static>)],
        left_out: &mut Vec<LeftOut>,
    ) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (bundle, index) in used {
            let Some(section) = index.target(target) else { continue };
            let unreadable = |what: String| LeftOut {
                kernel: format!("{} for {target}", index.package),
                reason: what,
            };
            let pack = match bundle.images(target) {
                Some(Ok(pack)) => pack,
                Some(Err(error)) => {
                    left_out.push(unreadable(error.to_string()));
                    continue;
                }
                None => {
                    left_out.push(unreadable("the bundle has no pack for it".to_owned()));
                    continue;
                }
            };
            match section.rows() {
                Ok(rows) => candidates.extend(
                    rows.into_iter()
                        .filter(|row| self.wanted(&row.specialization))
                        .filter(|row| !index.prebuilt || is_current(row, index.package, left_out))
                        .map(|row| Candidate { row, pack }),
                ),
                Err(error) => left_out.push(unreadable(error.to_string())),
            }
        }
        candidates
    }

    fn wanted(&self, row: &crate::manifest::Specialization) -> bool {
        self.only.is_empty()
            || self.only.iter().any(|name| {
                *name == row.module || *name == format!("{}::{}", row.module, row.function)
            })
    }

    fn install_store(&self, used: &[(&'static Bundle, Index<'static>)]) -> StoreState {
        if store::is_installed() {
            return StoreState::Kept;
        }
        if cutile::jit_cache::is_enabled() {
            return StoreState::Foreign;
        }
        let mut tiers = Vec::new();
        let packs: Vec<(&'static Bundle, &'static str)> = used
            .iter()
            .flat_map(|(bundle, index)| index.targets.iter().map(|target| (*bundle, target.target)))
            .collect();
        if !packs.is_empty() {
            // A pack that cannot be read is passed over: that of a device is in the report.
            let read = move || {
                let packs = packs.iter();
                packs.filter_map(|(bundle, target)| bundle.images(target)?.ok()).collect()
            };
            let embedded: Arc<dyn JitStore> = Arc::new(EmbeddedJitStore::on_demand(read));
            tiers.push(Tier::read_only(store::EMBEDDED_TIER, embedded));
        }
        let opened = match &self.disk {
            Disk::Off => None,
            Disk::Default => Some(FileSystemJitStore::default_location()),
            Disk::At(root) => Some(FileSystemJitStore::new(root)),
        };
        let (disk, refused) = match opened {
            None => (None, None),
            Some(Err(error)) => (None, Some(error.to_string())),
            Some(Ok(disk)) => {
                let root = disk.root().to_owned();
                tiers.push(Tier::writable("disk", Arc::new(disk)));
                (Some(root), None)
            }
        };
        if tiers.is_empty() && refused.is_none() {
            return StoreState::None;
        }
        if !tiers.is_empty() {
            store::install(TieredJitStore::new(tiers));
        }
        StoreState::Installed { disk, refused }
    }
}

/// Whether a prebuilt row is as the program's sources are. Where it is not, it is left out.
fn is_current(row: &IndexRow, package: &str, left_out: &mut Vec<LeftOut>) -> bool {
    match sources(&row.specialization, package) {
        Sources::Same => true,
        Sources::NotLinked => false,
        Sources::Stale(reason) => {
            left_out.push(LeftOut { kernel: row.specialization.name(), reason });
            false
        }
    }
}

fn has_device() -> bool {
    sys::is_cuda_driver_available() && Context::device_count().is_ok_and(|count| count > 0)
}

/// What the latest call of `install` found.
fn last() -> &'static Mutex<Option<Report>> {
    static LAST: Mutex<Option<Report>> = Mutex::new(None);
    &LAST
}

pub(super) fn last_report() -> Option<Report> {
    last().lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Where upstream looks for tileiras first.
const TILEIRAS_ENV: &str = "CUTILE_TILEIRAS_PATH";

/// What it finds there in strict mode. It stands in the error of a launch that is not embedded.
const NO_TILEIRAS: &str = "/cutile-embed-is-strict/nothing-is-compiled/see-cutile_embed-misses";

/// Whether a launch can be compiled for a device.
fn can_compile(device: usize) -> bool {
    ToolkitCapabilities::for_device(device).is_ok()
}

#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads variables")]
fn record_path() -> Option<PathBuf> {
    std::env::var_os("CUTILE_EMBED_RECORD").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Why a bundle was made for another program than this one.
fn mismatch(index: &Index<'_>) -> Option<String> {
    // A crate with shaders only was made by no cutile.
    if index.cutile.is_empty() && index.targets.is_empty() {
        return None;
    }
    let running = get_compiler_version();
    if index.cutile != running {
        return Some(format!(
            "it was built by cutile {} and this program has {running}: use one version of cutile \
             for dependencies and build-dependencies",
            index.cutile
        ));
    }
    let here = row::codegen_row(CompileOptions::default().codegen);
    (index.codegen != here).then(|| {
        format!(
            "it was built with device debug level {:?} and this program launches with {here:?}: \
             set CUDA_RUST_DEBUG to none, line or full for the whole build",
            index.codegen
        )
    })
}

#[allow(clippy::disallowed_methods, reason = "the one place of this crate that reads variables")]
fn overrides() -> Vec<&'static str> {
    CODEGEN_VARIABLES
        .into_iter()
        .filter(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_the_build_checks_is_the_linked_one() {
        assert_eq!(crate::index::CUTILE_VERSION, get_compiler_version());
    }
}
