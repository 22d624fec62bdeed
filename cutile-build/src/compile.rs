//! From what the rehearsals found to the contents of a bundle.

use crate::assemble::{Assembler, Job, Outcomes, Pool, PoolOptions, Report, has_function};
use crate::bundle::{Contents, Image, Shaders, sha256};
use crate::environment::BuildEnv;
use crate::error::{BuildError, FailedJob};
use crate::rehearsal::{Rehearsal, Row};
use crate::targets::Target;
use crate::toolkit::{Identity, Toolkit};
use crate::virtual_gpu::RecordedJob;
use cutile_embed::entry::{EntryParams, encode_entry};
use cutile_embed::key::{BytecodeVersion, KeyInput, key_bytes, l2_key};
use cutile_embed::manifest::{
    Codegen, LeftOut, Package, Specialization, ToolkitIdentity, Validator,
};
use sha2::{Digest, Sha256};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The jobs as they were recorded, by digest.
pub(crate) type Recorded = BTreeMap<[u8; 32], RecordedJob>;

/// Jobs on their way through tileiras.
pub(crate) struct Jobs {
    pool: Pool,
    recorded: Mutex<Recorded>,
}

impl Jobs {
    pub(crate) fn start(env: &BuildEnv, toolkit: &Toolkit, identity: &Identity) -> Self {
        let toolkit = toolkit.clone();
        let assembler = Assembler::new(identity.digest(), move |tmp| toolkit.command(tmp));
        let mut options = PoolOptions::from_env(env);
        options.progress = Some(Arc::new(crate::kernels::show));
        Self { pool: Pool::start(assembler, options), recorded: Mutex::default() }
    }

    pub(crate) fn submit(&self, digest: [u8; 32], job: RecordedJob) {
        self.pool.submit(Job {
            digest,
            gpu: job.gpu_name().unwrap_or_default().to_owned(),
            label: String::new(),
            args: job.args.clone(),
            bytecode: job.bytecode.clone(),
        });
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, job);
    }

    pub(crate) fn finish(self) -> (Recorded, Report) {
        let recorded = self.recorded.into_inner().unwrap_or_else(PoisonError::into_inner);
        (recorded, self.pool.finish())
    }
}

/// All that a bundle is made of, once every job has an outcome.
pub(crate) struct Gathered<'a> {
    pub(crate) package: Package,
    pub(crate) manifest_dir: PathBuf,
    pub(crate) identity: &'a Identity,
    pub(crate) recorded: Recorded,
    pub(crate) outcomes: Outcomes,
    /// Jobs whose failure has its kernel.
    pub(crate) reported: BTreeSet<[u8; 32]>,
}

impl Gathered<'_> {
    /// Images for the rows, or every job that failed with the kernel it belongs to.
    pub(crate) fn contents(
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
                nvvm: self.identity.nvvm_sha256.clone(),
                bytecode: format!("{major}.{minor}"),
            }),
            codegen: program,
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
            flags: flags(job),
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

/// The flags as header and key hold them.
fn flags(job: &RecordedJob) -> u8 {
    u8::from(job.device_debug())
        | u8::from(job.lineinfo()) << 1
        | u8::from(job.sanitize_memcheck()) << 2
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
