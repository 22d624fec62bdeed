//! From what the rehearsals found to the contents of a bundle.

use crate::assemble::{
    Assembled, Assembler, Job, Outcomes, Pool, PoolOptions, Progress, Report, has_function,
};
use crate::bundle::{Contents, Image, Shaders, sha256};
use crate::environment::BuildEnv;
use crate::error::{BuildError, FailedJob};
use crate::events::{Event, Events, JobOutcome};
use crate::package::PackageError;
use crate::rehearsal::{self, Process, Rehearsal, Setup};
use crate::restricted::Restricted;
use crate::reuse::Reuse;
use crate::targets::Target;
use crate::toolkit::{Identity, Toolkit};
use crate::virtual_gpu::{RecordedJob, VirtualGpu};
use cutile_embed::entry::{EntryParams, encode_entry};
use cutile_embed::key::{BytecodeVersion, KeyInput, key_bytes, key_text, l2_key};
use cutile_embed::manifest::{
    Codegen, LeftOut, Package, Specialization, ToolkitIdentity, Validator,
};
use cutile_embed::rehearsal::Row;
use sha2::{Digest, Sha256};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The jobs as they were recorded, by digest.
type Recorded = BTreeMap<[u8; 32], RecordedJob>;

/// Launches to rehearse, and what compiles them.
pub(crate) struct Work<'a> {
    pub(crate) env: &'a BuildEnv,
    pub(crate) toolkit: &'a Toolkit,
    pub(crate) identity: &'a Identity,
    pub(crate) process: Process<'a>,
    pub(crate) targets: &'a [Target],
    pub(crate) restricted: &'a Restricted,
    /// What is compiled beside the launches of the process.
    pub(crate) replay: &'a [cutile_embed::recording::Recorded],
    /// Hashes of the modules that it names, by path.
    pub(crate) source_hashes: &'a BTreeMap<String, String>,
    /// Images that need not be compiled.
    pub(crate) reuse: Reuse,
    /// Folder for the folders of the children.
    pub(crate) scratch: &'a Path,
    /// Whether a module is of the crate, by the first name of its path.
    pub(crate) is_own: &'a dyn Fn(&str) -> bool,
    /// Whether a kernel of the crate that nothing launched is an error.
    pub(crate) deny_uncovered: bool,
    pub(crate) progress: fn(&Progress),
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) contents: Contents,
    /// Kernels of the crate that nothing launched.
    pub(crate) uncovered: Vec<String>,
    /// How often tileiras ran.
    pub(crate) processes: usize,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "for build scripts"))]
    pub(crate) reused: Reused,
}

/// What became of the images that were there before the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reused {
    /// Nothing asked for them.
    pub(crate) stale: usize,
    /// Asked for, and not among them.
    pub(crate) missing: usize,
}

impl Work<'_> {
    /// Rehearses and compiles. `note` gets what the build goes on without.
    pub(crate) fn run(self, note: &mut dyn FnMut(&str)) -> Result<Made, BuildError> {
        let Self { env, identity, targets, .. } = self;
        let directory = env.out_dir().join("cutile-virtual-gpu");
        let rustc = env.rustc().as_os_str();
        let virtual_gpu = VirtualGpu::at(&directory, rustc)?;
        let program = env.device_debug_level()?;
        let jobs = Jobs::start(env, self.toolkit, identity, self.reuse, self.progress);
        let found = rehearsal::rehearse(
            &Setup {
                process: self.process,
                scratch: self.scratch,
                virtual_gpu: &virtual_gpu,
                rustc,
                cache: env.cache_dir().map(|cache| (cache, env.manifest_dir.clone())),
                identity,
                program,
                replay: self.replay,
                source_hashes: self.source_hashes,
                restricted: self.restricted,
                library_path: env.library_path(),
                parallel: env.parallel_jobs(),
                timeout: env.timeout(),
            },
            targets,
            &|digest, job| jobs.submit(digest, job),
        );
        // Also when a launch failed: what compiles stays in the build cache.
        let (recorded, report, reused) = jobs.finish();
        report.notes.iter().for_each(|text| note(text));
        let gathered = Gathered {
            package: env.package(),
            manifest_dir: env.manifest_dir.clone(),
            identity,
            recorded,
            outcomes: report.outcomes,
            reported: BTreeSet::new(),
        };
        let found = found?;
        // They went into the memory of a cutile that the rehearsal does not see.
        if found.is_empty() && !gathered.recorded.is_empty() && self.restricted.is_empty() {
            return Err(PackageError::OtherCutile { linked: found.cutile }.into());
        }
        self.restricted.check_names(&found)?;
        let uncovered = found.uncovered(self.is_own);
        if self.deny_uncovered && !uncovered.is_empty() {
            return Err(BuildError::Uncovered { kernels: uncovered });
        }
        let contents = gathered.contents(found, targets, program)?;
        Ok(Made { contents, uncovered, processes: report.processes, reused })
    }
}

/// Jobs on their way through tileiras.
struct Jobs {
    pool: Pool,
    recorded: Mutex<Recorded>,
    reuse: Reuse,
    reused: Mutex<Outcomes>,
    events: Events,
}

impl Jobs {
    fn start(
        env: &BuildEnv,
        toolkit: &Toolkit,
        identity: &Identity,
        reuse: Reuse,
        progress: fn(&Progress),
    ) -> Self {
        let toolkit = toolkit.clone();
        let assembler = Assembler::new(identity.digest(), move |tmp| toolkit.command(tmp));
        let mut options = PoolOptions::from_env(env);
        options.progress = Some(Arc::new(progress));
        options.events = Events::of_process();
        let events = options.events.clone();
        Self {
            pool: Pool::start(assembler, options),
            recorded: Mutex::default(),
            reuse,
            reused: Mutex::default(),
            events,
        }
    }

    fn submit(&self, digest: [u8; 32], job: RecordedJob) {
        if let Some(cubin) = self.reuse.cubin(&job) {
            let image = Assembled { cubin: cubin.to_vec(), from_cache: true, seconds: 0.0 };
            let job_name = key_text(&digest);
            let target = job.gpu_name().unwrap_or_default().to_owned();
            self.events.say(Event::JobQueued { job: job_name.clone(), target });
            let outcome = JobOutcome::Cached { bytes: cubin.len() as u64 };
            self.events.say(Event::JobEnded { job: job_name, slot: 0, outcome });
            lock(&self.reused).insert(digest, Ok(image));
        } else {
            self.pool.submit(Job {
                digest,
                gpu: job.gpu_name().unwrap_or_default().to_owned(),
                label: String::new(),
                args: job.args.clone(),
                bytecode: job.bytecode.clone(),
            });
        }
        lock(&self.recorded).insert(digest, job);
    }

    fn finish(self) -> (Recorded, Report, Reused) {
        let mut report = self.pool.finish();
        let reused = self.reused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let recorded = self.recorded.into_inner().unwrap_or_else(PoisonError::into_inner);
        let counts = Reused {
            stale: self.reuse.len().saturating_sub(reused.len()),
            missing: recorded.len() - reused.len(),
        };
        report.outcomes.extend(reused);
        (recorded, report, counts)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that a bundle is made of, once every job has an outcome.
struct Gathered<'a> {
    package: Package,
    manifest_dir: PathBuf,
    identity: &'a Identity,
    recorded: Recorded,
    outcomes: Outcomes,
    /// Jobs whose failure has its kernel.
    reported: BTreeSet<[u8; 32]>,
}

impl Gathered<'_> {
    /// Images for the rows, or every job that failed with the kernel it belongs to.
    fn contents(
        mut self,
        found: Rehearsal,
        targets: &[Target],
        program: Codegen,
    ) -> Result<Contents, BuildError> {
        let (major, minor, tag) = found.bytecode;
        let version = BytecodeVersion { major, minor, tag };
        let mut left_out = found.left_out;
        let mut failed = Vec::new();
        let mut by_target = Vec::new();
        for target in targets {
            let rows = found.rows.get(target).map_or(&[][..], Vec::as_slice);
            let mut images: BTreeMap<Specialization, Option<Image>> = BTreeMap::new();
            for row in rows {
                let image = match self.image(row, *target, version) {
                    Ok(image) => image,
                    Err(Fault::Job(job)) => {
                        failed.extend(job.map(|job| *job));
                        continue;
                    }
                    Err(Fault::LeftOut(reason)) => {
                        left_out.push(left(row, *target, reason));
                        continue;
                    }
                };
                match images.entry(row.specialization.clone()) {
                    Entry::Vacant(place) => {
                        place.insert(Some(image));
                    }
                    Entry::Occupied(mut place) => {
                        let same = place.get().as_ref().is_some_and(|known| {
                            known.key == image.key && known.validator == image.validator
                        });
                        if !same {
                            place.insert(None);
                            let reason = "two images have one key of cutile's; rename one of the \
                                          modules that declare it";
                            left_out.push(left(row, *target, reason.to_owned()));
                        }
                    }
                }
            }
            let images = images.into_iter().filter_map(|(row, image)| Some((row, image?)));
            by_target.push((target.to_string(), images.collect()));
        }
        if !failed.is_empty() {
            let compiled = self.outcomes.values().filter(|outcome| outcome.is_ok()).count();
            return Err(BuildError::Jobs { package: self.package.name, failed, compiled });
        }
        Ok(Contents {
            package: self.package,
            cutile: found.cutile,
            toolkit: Some(ToolkitIdentity {
                tileiras: self.identity.fingerprint().to_owned(),
                ptxas: self.identity.ptxas.trim().to_owned(),
                nvvm: self.identity.nvvm_digest.clone(),
                bytecode: format!("{major}.{minor}"),
            }),
            codegen: program,
            prebuilt: false,
            skipped: None,
            left_out,
            targets: by_target,
            shaders: Shaders::default(),
        })
    }

    fn image(
        &mut self,
        row: &Row,
        target: Target,
        version: BytecodeVersion,
    ) -> Result<Image, Fault> {
        let lost = || Fault::LeftOut("its job was not recorded; this is a bug".to_owned());
        let digest = key_bytes(&row.job).ok_or_else(lost)?;
        let job = self.recorded.get(&digest).ok_or_else(lost)?;
        let params = EntryParams {
            bc_sha256: Sha256::digest(&job.bytecode).into(),
            gpu_name: job.gpu_name().ok_or_else(lost)?,
            opt_level: job.opt_level().ok_or_else(lost)?,
            flags: job.flags(),
            tileiras_fp: self.identity.fingerprint(),
        };
        let key = l2_key(&KeyInput {
            bytecode: &job.bytecode,
            version,
            gpu_name: params.gpu_name,
            opt_level: params.opt_level,
            flags: params.flags,
            tileiras_fp: params.tileiras_fp,
            tilelib_digest: None,
        });
        // Ours and upstream's way to the key have to end in the same place.
        if key != row.l2_key || params.gpu_name != target.as_str() {
            return Err(Fault::LeftOut(format!(
                "its key is {} for cutile and {key} for this crate; is this the cutile that this \
                 crate was made for?",
                row.l2_key
            )));
        }
        let failed = |error| {
            let location = Some(row.location.clone());
            FailedJob::new(row.specialization.name(), target.as_str(), location, error)
        };
        if self.reported.contains(&digest) {
            return Err(Fault::Job(None));
        }
        let outcome = match self.outcomes.entry(digest) {
            Entry::Vacant(_) => return Err(lost()),
            Entry::Occupied(outcome) if outcome.get().is_ok() => outcome.into_mut(),
            // A failure is reported with the first kernel that meets it.
            Entry::Occupied(outcome) => {
                self.reported.insert(digest);
                return Err(Fault::Job(
                    outcome.remove().err().map(|error| Box::new(failed(error))),
                ));
            }
        };
        let Ok(outcome) = outcome else { return Err(lost()) };
        let symbol = &row.specialization.symbol;
        if !has_function(&outcome.cubin, symbol).unwrap_or(false) {
            return Err(Fault::LeftOut(format!("its image has no function {symbol}")));
        }
        let entry = encode_entry(&params, &outcome.cubin)
            .ok_or_else(|| Fault::LeftOut("the toolkit's version text is too long".to_owned()))?;
        Ok(Image {
            key,
            entry,
            bytes: outcome.cubin.len() as u64,
            sha256: sha256(&outcome.cubin),
            validator: portable(&row.validator, &self.manifest_dir),
        })
    }
}

enum Fault {
    /// A job failed; `None` where it was reported already.
    Job(Option<Box<FailedJob>>),
    LeftOut(String),
}

fn left(row: &Row, target: Target, reason: String) -> LeftOut {
    LeftOut { kernel: row.specialization.name(), target: target.to_string(), reason }
}

/// The validator without absolute paths: upstream writes the place of a check into its text, and
/// the same sources have to give the same bundle in any folder.
fn portable(validator: &Validator, manifest_dir: &Path) -> Validator {
    let mut validator = validator.clone();
    for check in &mut validator.launch_checks {
        check.cause = portable_text(&check.cause, manifest_dir);
    }
    validator
}

fn portable_text(text: &str, manifest_dir: &Path) -> String {
    let own = format!("{}/", manifest_dir.display());
    let text = text.replace(&own, "");
    // `…/registry/src/<index>/crate-1.0.0/src/lib.rs` of a dependency.
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("/registry/src/") {
        let start = rest[..at].rfind(|c: char| c.is_whitespace() || "\"'`(".contains(c));
        let start = start.map_or(0, |before| before + 1);
        let behind = &rest[at + "/registry/src/".len()..];
        let index = behind.find('/').map_or(behind.len(), |slash| slash + 1);
        out.push_str(&rest[..start]);
        rest = &behind[index..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_launch_checks_name_no_folder_of_this_machine() {
        let text = "check failed at /home/me/app/src/kernels.rs:12:5 (from \
                    /home/me/.cargo/registry/src/index-1a2b/helpers-0.1.0/src/lib.rs:3:1)";
        assert_eq!(
            portable_text(text, Path::new("/home/me/app")),
            "check failed at src/kernels.rs:12:5 (from helpers-0.1.0/src/lib.rs:3:1)"
        );
        assert_eq!(portable_text("no path", Path::new("/x")), "no path");
    }
}
