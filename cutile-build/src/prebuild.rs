//! Makes the bundle in a crate's folder `prebuilt`: what `cargo cutile prebuild` does once it has
//! built a program of the crate.
//!
//! The program runs on a virtual GPU, once per target, and what it launches is compiled with the
//! toolkit of this machine. It has to call `cutile_embed::install`.

use crate::assemble::Progress;
use crate::bundle::{self, Files, INDEX, Written};
use crate::compile::{Made, Work};
use crate::environment::BuildEnv;
use crate::error::BuildError;
use crate::package::MetadataConfig;
use crate::rehearsal::Process;
use crate::restricted::Restricted;
use crate::reuse::Reuse;
use crate::targets::chosen_targets;
use crate::toolkit::Toolkit;
use cutile_embed::manifest::LeftOut;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A program of a crate, and what to compile its launches with.
#[derive(Debug, Clone, Copy)]
pub struct Prebuild<'a> {
    /// As a build script of the crate would see it.
    pub env: &'a BuildEnv,
    /// The toolkit.
    pub toolkit: &'a Toolkit,
    /// The program. It runs in the crate's folder.
    pub program: &'a Path,
    /// Names by which the crate's own modules begin: its library's, and the program's.
    pub own: &'a [String],
    /// Gets what is being done, now and then.
    pub progress: fn(&Progress),
}

/// A prebuilt bundle, not written yet.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prebuilt {
    files: Files,
    /// The targets it is for.
    pub targets: Vec<String>,
    /// Specializations, whatever the number of targets.
    pub kernels: usize,
    /// Images, over all targets.
    pub images: usize,
    /// How often tileiras ran.
    pub processes: usize,
    /// Kernels of the crate that the program did not launch.
    pub uncovered: Vec<String>,
    /// Specializations that were launched and cannot be embedded.
    pub left_out: Vec<LeftOut>,
    /// What it was made without.
    pub notes: Vec<String>,
}

impl Prebuild<'_> {
    /// Runs the program for every target, and compiles.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says what was found, what was expected and what to do next.
    pub fn run(&self) -> Result<Prebuilt, BuildError> {
        let Self { env, toolkit, program, own, progress } = *self;
        env.refuse_overrides()?;
        let metadata = MetadataConfig::read(env)?;
        let targets = chosen_targets(env, &metadata, None)?.ok_or(BuildError::NoTargets)?;
        let restricted = Restricted::new(&[&metadata.targets_for])?;
        let identity = toolkit.identity()?;
        let out = env.out_dir();
        let scratch = tempfile::tempdir_in(out)
            .map_err(|error| BuildError::io("no folder for the rehearsals", out, error))?;
        let mut notes = Vec::new();
        let work = Work {
            env,
            toolkit,
            identity: &identity,
            process: Process::Program { path: program, folder: &env.manifest_dir },
            targets: &targets,
            restricted: &restricted,
            replay: &[],
            source_hashes: &BTreeMap::new(),
            reuse: Reuse::default(),
            scratch: scratch.path(),
            is_own: &|name| own.iter().any(|own| own == name),
            deny_uncovered: false,
            progress,
        };
        let Made { contents, uncovered, processes, .. } =
            work.run(&mut |note| notes.push(note.to_owned()))?;
        let (mut files, Written { kernels, images, .. }) = bundle::files(&contents)
            .map_err(|error| BuildError::io("no bundle can be made", out, error))?;
        if kernels == 0 && contents.left_out.is_empty() {
            return Err(BuildError::NothingLaunched { program: program.to_owned() });
        }
        files.remove(INDEX);
        Ok(Prebuilt {
            files,
            targets: targets.iter().map(ToString::to_string).collect(),
            kernels,
            images,
            processes,
            uncovered,
            left_out: contents.left_out,
            notes,
        })
    }
}

impl Prebuilt {
    /// The folder of a crate.
    #[must_use]
    pub fn folder(manifest_dir: &Path) -> PathBuf {
        manifest_dir.join(crate::bundle::PREBUILT)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// Makes the folder hold this bundle and nothing else. A file with the same bytes is not written
    /// again.
    ///
    /// # Errors
    ///
    /// [`BuildError::Io`] where it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), BuildError> {
        bundle::write_files(folder, &self.files)
            .map_err(|error| BuildError::io("the bundle cannot be written", folder, error))
    }

    /// What a folder has otherwise, a line each; nothing where it holds this bundle.
    ///
    /// # Errors
    ///
    /// [`BuildError::Io`] where it cannot be read.
    pub fn differences(&self, folder: &Path) -> Result<Vec<String>, BuildError> {
        let unreadable = |error| BuildError::io("cannot be read", folder, error);
        let mut found = BTreeMap::new();
        if folder.is_dir() {
            for file in fs::read_dir(folder).map_err(unreadable)? {
                let file = file.map_err(unreadable)?;
                let name = file.file_name().to_string_lossy().into_owned();
                found.insert(name, fs::read(file.path()).map_err(unreadable)?);
            }
        }
        let mut lines = Vec::new();
        for (name, bytes) in &self.files {
            match found.remove(name) {
                None => lines.push(format!("{name} is missing")),
                Some(old) if old == *bytes => {}
                Some(old) => lines.push(format!(
                    "{name} differs: {} bytes, and the sources make {}",
                    old.len(),
                    bytes.len()
                )),
            }
        }
        lines.extend(found.into_keys().map(|name| format!("{name} does not belong there")));
        Ok(lines)
    }
}
