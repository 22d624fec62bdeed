//! The kernels of a crate: rehearsed, compiled, and made into the contents of a bundle.

use crate::assemble::{JOB_SCRATCH, Progress};
use crate::bundle::{Contents, Shaders};
use crate::compile::{Reused, Work};
use crate::environment::BuildEnv;
use crate::error::BuildError;
use crate::events::{Event, Events};
use crate::package::MetadataConfig;
use crate::prebuilt::Prebuilt;
use crate::rehearsal::{self, Process};
use crate::restricted::Restricted;
use crate::targets::chosen_targets;
use crate::toolkit::Toolkit;
use cutile::cutile_compiler::cuda_tile_runtime_utils::get_compiler_version;
use cutile::tile_kernel::CompileOptions;
use cutile_embed::cuda::row::codegen_row;
use cutile_embed::recording::{Recorded, Recording};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the builder was told of kernels, but for the warm-ups.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) targets: Option<Vec<String>>,
    /// By kernel.
    pub(crate) targets_for: BTreeMap<String, Vec<String>>,
    /// Files of recordings.
    pub(crate) replay: Vec<PathBuf>,
    pub(crate) deny_uncovered: bool,
}

/// Compiles the kernels for the chosen targets. The second is how often tileiras ran.
pub(crate) fn build(
    env: &BuildEnv,
    metadata: &MetadataConfig,
    asked: &Asked,
    toolkit: &Toolkit,
    prebuilt: Option<&Prebuilt>,
) -> Result<(Contents, usize), BuildError> {
    env.refuse_overrides()?;
    metadata.check_cutile(&get_compiler_version())?;
    let targets =
        chosen_targets(env, metadata, asked.targets.as_deref())?.ok_or(BuildError::NoTargets)?;
    let names = targets.iter().map(ToString::to_string).collect();
    Events::of_process().say(Event::Targets { targets: names });
    let restricted = Restricted::new(&[&metadata.targets_for, &asked.targets_for])?;
    let recording = read_recordings(env, &asked.replay)?;
    for file in toolkit.files() {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let identity = toolkit.identity()?;
    let out = env.out_dir();
    remove_left_behind(out);
    let scratch = tempfile::Builder::new()
        .prefix(SCRATCH)
        .tempdir_in(out)
        .map_err(|error| BuildError::io("no folder for the rehearsals", out, error))?;
    let replay: Vec<Recorded> = recording.kernels.into_iter().collect();
    let reuse = prebuilt.map(|known| known.reuse(&identity, &targets)).unwrap_or_default();
    let reusable = reuse.len();
    let work = Work {
        env,
        toolkit,
        identity: &identity,
        process: Process::BuildScript { codegen: codegen_row(CompileOptions::default().codegen) },
        targets: &targets,
        restricted: &restricted,
        replay: &replay,
        source_hashes: &source_hashes(env, &replay, scratch.path()),
        reuse,
        scratch: scratch.path(),
        is_own: &|name| name.starts_with("build_script_"),
        deny_uncovered: asked.deny_uncovered,
        progress: show,
    };
    let made = work.run(&mut |note| println!("cargo::warning={note}"))?;
    for kernel in &made.uncovered {
        println!("cargo::warning=no warm-up launches {kernel}: it is not embedded");
    }
    for left_out in &made.contents.left_out {
        println!(
            "cargo::warning={} for {} is not embedded: {}",
            left_out.kernel, left_out.target, left_out.reason
        );
    }
    let Reused { stale, missing, .. } = made.reused;
    // By another toolkit, all images are others, and the folder may still be as the sources are.
    if reusable > 0 && stale + missing > 0 {
        println!(
            "cargo::warning=the folder {} is not as the sources are: {stale} of its images are \
             stale, {missing} are missing; run cargo cutile prebuild -p {}",
            crate::bundle::PREBUILT,
            env.package_name
        );
    }
    Ok((made.contents, made.processes))
}

/// No kernels, with the reason, so that the crate compiles and the program says it.
pub(crate) fn skipped(env: &BuildEnv, reason: &str) -> Result<Contents, BuildError> {
    println!("cargo::warning=no GPU kernels are embedded: {reason}");
    Ok(Contents {
        package: env.package(),
        cutile: get_compiler_version(),
        toolkit: None,
        codegen: env.device_debug_level()?,
        prebuilt: false,
        skipped: Some(reason.to_owned()),
        left_out: Vec::new(),
        targets: Vec::new(),
        shaders: Shaders::default(),
    })
}

/// Start of the name of the folder of rehearsals.
const SCRATCH: &str = "cutile-rehearsal-";

/// Removes what builds left that were killed. Cargo runs one script at a time for an `OUT_DIR`.
fn remove_left_behind(out: &Path) {
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = |start: &str| name.as_encoded_bytes().starts_with(start.as_bytes());
        if is_ours(SCRATCH) || is_ours(JOB_SCRATCH) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The rows of all recordings. Each file is watched, also where it is missing.
fn read_recordings(env: &BuildEnv, files: &[PathBuf]) -> Result<Recording, BuildError> {
    let mut all = Recording::default();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let path = env.manifest_dir.join(file);
        all.merge(Recording::read(&path).map_err(BuildError::Recording)?);
    }
    Ok(all)
}

fn source_hashes(env: &BuildEnv, rows: &[Recorded], scratch: &Path) -> BTreeMap<String, String> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.specialization.module.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    rehearsal::source_hash::of_modules(&names, &env.manifest_dir, env.rustc(), scratch)
}

/// Where a person can see it: cargo keeps what a build script prints to itself.
pub(crate) fn show(progress: &Progress) {
    eprintln!("{progress}");
    if !Events::of_process().have_bar()
        && let Ok(mut terminal) = std::fs::File::options().write(true).open("/dev/tty")
    {
        let _ = writeln!(terminal, "cutile-build: {progress}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_build_left_is_removed_and_nothing_else() {
        let out = tempfile::tempdir().unwrap();
        for folder in
            ["cutile-rehearsal-a/sm_90/jobs", "cutile-job-b/tmp", "cutile", "cutile-failed"]
        {
            fs::create_dir_all(out.path().join(folder)).unwrap();
        }
        remove_left_behind(out.path());
        let mut left: Vec<_> =
            fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["cutile", "cutile-failed"]);
    }
}
