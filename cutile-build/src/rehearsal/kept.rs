//! Rehearsals that need not run again.
//!
//! A rehearsal is most of what is left of a build when all images are in the build cache. What it
//! finds follows from the build script, to the byte, and from what the script's warm-ups read. So it
//! is kept in the [build cache](crate::assemble::cache) as well, and there it ends where it succeeded.
//!
//! What warm-ups read, cargo has to know already, or it would not run the script again: a script
//! prints `cargo::rerun-if-changed` and `cargo::rerun-if-env-changed`. A rehearsal is the script run
//! again, so those lines are in what it prints, and what they name is compared before a kept one is
//! taken. Lines that a script prints after [`build`](crate::Builder::build) it does not get to.
//!
//! # Key
//!
//! SHA-256, as 64 hex digits, over the items below, each with its length before it.
//!
//! | input | in the key? | why |
//! |---|---|---|
//! | `cutile-build rehearsal 2` | yes | another version of this table is another cache |
//! | BLAKE3 of the build script | yes | kernels, front end and warm-ups are in it |
//! | target | yes | it is what is rehearsed |
//! | debug levels of script and program | yes | they decide which passes there are, and change bytecode |
//! | what tileiras answers | yes | the front end asks it for its newest bytecode version |
//! | virtual driver and recording assembler | yes | they answer the launches |
//! | recordings, hashes of the modules that they name | yes | they are replayed |
//! | variables of cargo on the crate, features and target; `CUDA_RUST_DEBUG`; those of cutile that change the code | yes | a warm-up may read them |
//! | files and variables that the script names to cargo | no | compared when it is read: they are known only then |
//! | `OUT_DIR`, `NUM_JOBS`, the jobserver, `PATH`, all other variables | no | where and how fast it is built; what else counts, cargo has to be told of |
//!
//! # Value
//!
//! 1. 16 bytes, `cutile-build-reh`
//! 2. 4 bytes little endian, version 1
//! 3. 32 bytes, SHA-256 over the 32 bytes of the key and all that follows
//! 4. 8 bytes little endian, length of the next part
//! 5. JSON: what was named to cargo, and the lines of the rehearsal
//! 6. for each job its length, 8 bytes little endian, and the job as the recording assembler writes it
//!
//! A value that differs in any of it is a miss.

use super::parent::{OUTPUT, Process, Setup};
use crate::digest;
use crate::environment::BuildEnv;
use crate::targets::Target;
use crate::virtual_gpu::RecordedJob;
use cutile_embed::key::key_text;
use cutile_embed::manifest::Codegen;
use cutile_embed::recording::Recorded;
use cutile_embed::rehearsal::Line;
use cutile_embed::store::{FileSystemJitStore, JitStore};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DOMAIN: &[u8] = b"cutile-build rehearsal 2";
const MAGIC: &[u8; 16] = b"cutile-build-reh";
const VERSION: u32 = 1;

/// The kept rehearsals of one build script.
pub(super) struct Kept {
    store: FileSystemJitStore,
    script: [u8; 32],
    /// What the paths that a script names are relative to.
    folder: PathBuf,
}

/// A rehearsal as it is kept.
#[derive(Debug, PartialEq)]
pub(super) struct Rehearsed {
    pub(super) lines: Vec<Line>,
    /// Each with its digest.
    pub(super) jobs: Vec<([u8; 32], RecordedJob)>,
}

/// The part of a value that is JSON.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Found {
    named: Vec<Named>,
    lines: Vec<Line>,
}

/// What a script named to cargo, as it was.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Named {
    /// A file or folder, with a digest of its contents; without one where there is none.
    Path(String, Option<String>),
    /// A variable.
    Variable(String, Option<String>),
}

impl Kept {
    /// Nothing is kept of programs, which may read whatever they want, nor without a build cache. One
    /// that cannot be opened was told already, by those who compile.
    pub(super) fn open(setup: &Setup<'_>) -> Option<Self> {
        let Process::BuildScript { .. } = setup.process else { return None };
        let (cache, folder) = setup.cache.as_ref()?;
        let script = std::env::current_exe().and_then(|path| digest::of_file(&path)).ok()?;
        Some(Self {
            store: FileSystemJitStore::private(cache).ok()?,
            script: script.into(),
            folder: folder.clone(),
        })
    }

    fn key(&self, setup: &Setup<'_>, target: Target) -> Option<[u8; 32]> {
        let Process::BuildScript { codegen } = setup.process else { return None };
        let inputs = Inputs {
            script: self.script,
            target: target.as_str(),
            levels: (codegen, setup.program),
            answers: [&setup.identity.tileiras, &setup.identity.list_versions],
            virtual_gpu: setup.virtual_gpu.digest(),
            replay: setup.replay,
            source_hashes: setup.source_hashes,
            variables: BuildEnv::of_crate(),
        };
        inputs.key().ok()
    }

    /// The rehearsal for a target, where there is one and all that it read is the same.
    pub(super) fn get(&self, setup: &Setup<'_>, target: Target) -> Option<Rehearsed> {
        let key = self.key(setup, target)?;
        let value = self.store.get(&key_text(&key)).ok()??;
        let (found, jobs) = decode(&key, &value)?;
        let is_same = |named: &Named| named.now(&self.folder).is_ok_and(|now| now == *named);
        found.named.iter().all(is_same).then_some(Rehearsed { lines: found.lines, jobs })
    }

    /// Keeps what a rehearsal found, from the folders of its passes. It is only kept for later: what
    /// is in the way of that is in the way of nothing else. Where something that the script names
    /// changed since it `started`, what the rehearsal read of it is not known.
    pub(super) fn put(
        &self,
        setup: &Setup<'_>,
        target: Target,
        lines: &[Line],
        dirs: &[PathBuf],
        started: SystemTime,
    ) {
        let is_failure = |line: &Line| matches!(line, Line::Failed { .. } | Line::Stale { .. });
        if lines.iter().any(is_failure) {
            return;
        }
        let Some(key) = self.key(setup, target) else { return };
        let kept = || -> io::Result<()> {
            let mut found = Found { named: Vec::new(), lines: lines.to_vec() };
            let mut jobs = Vec::new();
            for dir in dirs {
                let printed = fs::read(dir.join(OUTPUT))?;
                found.named.extend(named(&String::from_utf8_lossy(&printed), &self.folder)?);
                let mut files: Vec<PathBuf> = fs::read_dir(dir.join("jobs"))?
                    .map(|file| file.map(|file| file.path()))
                    .collect::<io::Result<_>>()?;
                files.retain(|file| file.extension().is_some_and(|extension| extension == "job"));
                files.sort_unstable();
                for file in files {
                    jobs.push(fs::read(file)?);
                }
            }
            if found.named.iter().any(|named| named.changed_since(started, &self.folder)) {
                return Ok(());
            }
            self.store.put(&key_text(&key), &encode(&key, &found, &jobs)?)
        };
        let _ = kept();
    }
}

/// What the key is made of, in the order of the table.
struct Inputs<'a> {
    script: [u8; 32],
    target: &'a str,
    /// Of the build script and of the program.
    levels: (Codegen, Codegen),
    answers: [&'a str; 2],
    virtual_gpu: &'a OsStr,
    replay: &'a [Recorded],
    source_hashes: &'a BTreeMap<String, String>,
    variables: BTreeMap<OsString, OsString>,
}

impl Inputs<'_> {
    fn key(&self) -> serde_json::Result<[u8; 32]> {
        let Self {
            script,
            target,
            levels,
            answers: [version, list],
            virtual_gpu,
            replay,
            source_hashes,
            variables,
        } = self;
        let mut sha = Sha256::new();
        let mut item = |bytes: &[u8]| {
            sha.update((bytes.len() as u64).to_le_bytes());
            sha.update(bytes);
        };
        item(DOMAIN);
        item(script);
        item(target.as_bytes());
        item(&serde_json::to_vec(levels)?);
        item(version.as_bytes());
        item(list.as_bytes());
        item(virtual_gpu.as_encoded_bytes());
        item(&serde_json::to_vec(&(replay, source_hashes))?);
        for (name, value) in variables {
            item(name.as_encoded_bytes());
            item(value.as_encoded_bytes());
        }
        Ok(sha.finalize().into())
    }
}

impl Named {
    /// The same path or variable as it is now.
    fn now(&self, folder: &Path) -> io::Result<Self> {
        match self {
            Self::Path(path, _) => Self::path(path, folder),
            Self::Variable(name, _) => Ok(Self::variable(name)),
        }
    }

    fn path(path: &str, folder: &Path) -> io::Result<Self> {
        let found = folder.join(path);
        let digest = match fs::symlink_metadata(&found) {
            Err(error) if is_absent(&error) => None,
            _ => Some(key_text(&digest_of_tree(&found)?)),
        };
        Ok(Self::Path(path.to_owned(), digest))
    }

    /// Whether it is a path where something was written, renamed or removed at this time or later, or
    /// may have been.
    fn changed_since(&self, time: SystemTime, folder: &Path) -> bool {
        let Self::Path(path, _) = self else { return false };
        let path = folder.join(path);
        // A folder on the way can be another by now; those above the crate are not its own.
        let above = path.ancestors().skip(1).take_while(|above| *above != folder);
        let above = above.filter(|above| above.starts_with(folder));
        let changed = above.chain([path.as_path()]).map(changed_itself).chain([changed(&path)]);
        // What was removed shows in its folder.
        let folder_of_it = path.parent().filter(|_| fs::symlink_metadata(&path).is_err());
        changed.chain(folder_of_it.map(changed_itself)).any(|changed| match changed {
            Ok(changed) => changed + clock_of(changed) >= time,
            Err(error) => !is_absent(&error),
        })
    }

    fn variable(name: &str) -> Self {
        let value = BuildEnv::internal(name);
        Self::Variable(name.to_owned(), value.map(|value| value.to_string_lossy().into_owned()))
    }
}

/// What a script named to cargo in what it printed, in either of cargo's spellings and as cargo reads
/// its lines.
fn named(printed: &str, folder: &Path) -> io::Result<Vec<Named>> {
    let instruction = |line: &str| {
        let line = line.trim().strip_prefix("cargo:")?;
        let (what, value) = line.strip_prefix(':').unwrap_or(line).split_once('=')?;
        match what {
            "rerun-if-changed" => Some(Named::path(value, folder)),
            "rerun-if-env-changed" => Some(Ok(Named::variable(value))),
            _ => None,
        }
    };
    printed.lines().filter_map(instruction).collect()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Digest of a file, or of all names and files in a folder. Links are followed, as cargo does.
fn digest_of_tree(path: &Path) -> io::Result<[u8; 32]> {
    let mut sha = Sha256::new();
    walk(path, &mut Vec::new(), &mut |path, what| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let (kind, contents) = match what {
            What::Folder(entries) => ("folder", (entries as u64).to_le_bytes().to_vec()),
            What::File => ("file", digest::of_file(path)?.as_bytes().to_vec()),
            What::DeadLink => ("link", fs::read_link(path)?.into_os_string().into_encoded_bytes()),
            What::Other => ("other", Vec::new()),
        };
        for part in [name, kind.as_bytes(), &contents] {
            sha.update((part.len() as u64).to_le_bytes());
            sha.update(part);
        }
        Ok(())
    })?;
    Ok(sha.finalize().into())
}

/// When a file, or anything in a folder, was changed last.
fn changed(path: &Path) -> io::Result<SystemTime> {
    let mut last = UNIX_EPOCH;
    walk(path, &mut Vec::new(), &mut |path, _| {
        last = last.max(changed_itself(path)?);
        // What a link leads to.
        if let Ok(path) = path.canonicalize() {
            last = last.max(changed_itself(&path)?);
        }
        Ok(())
    })?;
    Ok(last)
}

/// What stands at a path.
enum What {
    /// With so many entries.
    Folder(usize),
    File,
    /// A link to nothing, or to a folder that it is in.
    DeadLink,
    /// A pipe, a socket, a device: not opened.
    Other,
}

type Visit<'a> = dyn FnMut(&Path, What) -> io::Result<()> + 'a;

/// Visits a path, and all that is below it in the order of the names. `above` are the folders that it
/// is in.
fn walk(path: &Path, above: &mut Vec<PathBuf>, visit: &mut Visit<'_>) -> io::Result<()> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if is_absent(&error) && path.is_symlink() => {
            return visit(path, What::DeadLink);
        }
        Err(error) => return Err(error),
    };
    if !meta.is_dir() {
        return visit(path, if meta.is_file() { What::File } else { What::Other });
    }
    let here = path.canonicalize()?;
    if above.contains(&here) {
        return visit(path, What::DeadLink);
    }
    let mut entries = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable();
    visit(path, What::Folder(entries.len()))?;
    above.push(here);
    for entry in entries {
        walk(&entry, above, visit)?;
    }
    above.pop();
    Ok(())
}

/// How far the time of a file can lie before the time that it was written at: that of the kernel's
/// last tick, or in whole seconds where the file system keeps no more.
fn clock_of(time: SystemTime) -> Duration {
    let parts = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    if parts == 0 { Duration::from_secs(2) } else { Duration::from_millis(20) }
}

/// The later of its two times: a file that is moved here keeps the one of its last write.
fn changed_itself(path: &Path) -> io::Result<SystemTime> {
    let meta = fs::symlink_metadata(path)?;
    let nanoseconds = u32::try_from(meta.ctime_nsec()).unwrap_or(0);
    let ctime = Duration::new(u64::try_from(meta.ctime()).unwrap_or(0), nanoseconds);
    Ok(meta.modified()?.max(UNIX_EPOCH + ctime))
}

fn encode(key: &[u8; 32], found: &Found, jobs: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(found)?;
    let mut rest = Vec::new();
    for part in std::iter::once(&json).chain(jobs) {
        rest.extend_from_slice(&(part.len() as u64).to_le_bytes());
        rest.extend_from_slice(part);
    }
    let mut value = MAGIC.to_vec();
    value.extend_from_slice(&VERSION.to_le_bytes());
    value.extend_from_slice(&checksum(key, &rest));
    value.extend_from_slice(&rest);
    Ok(value)
}

type Jobs = Vec<([u8; 32], RecordedJob)>;

fn decode(key: &[u8; 32], value: &[u8]) -> Option<(Found, Jobs)> {
    let value = value.strip_prefix(MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (sum, mut rest) = value.split_first_chunk::<32>()?;
    if *sum != checksum(key, rest) {
        return None;
    }
    let mut part = || {
        let (len, behind) = rest.split_first_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (part, behind) = behind.split_at_checked(len)?;
        rest = behind;
        Some((part, behind.is_empty()))
    };
    let (json, mut is_last) = part()?;
    let found = serde_json::from_slice(json).ok()?;
    let mut jobs = Vec::new();
    while !is_last {
        let (job, last) = part()?;
        jobs.push((Sha256::digest(job).into(), RecordedJob::parse(job).ok()?));
        is_last = last;
    }
    Some((found, jobs))
}

fn checksum(key: &[u8; 32], rest: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(key).chain_update(rest).finalize().into()
}

#[cfg(test)]
#[path = "kept/tests.rs"]
mod tests;
