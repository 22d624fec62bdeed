//! The build cache: images by everything that can change them.
//!
//! It is not the run-time cache, reads nothing from it and writes nothing to it: what any process
//! of the user can plant there must not ship in a release.
//!
//! # Key
//!
//! SHA-256, as 64 hex digits, over the items below, each with its length before it.
//!
//! | input | in the key? | why |
//! |---|---|---|
//! | `cutile-build image 1` | yes | another version of this table is another cache |
//! | digest of the toolkit | yes | a tileiras with another ptxas or libnvvm makes another image |
//! | digest of the job | yes | what the caller takes it for |
//! | target, options | yes | they change the image |
//! | bytecode | yes | it is what is compiled |
//! | label, folder, file names, environment | no | the run is hermetic, the image does not change |
//! | time limit, number of processes | no | they decide whether there is an image, not which |
//!
//! # Value
//!
//! 1. 16 bytes, `cutile-build-img`
//! 2. 4 bytes little endian, version 1
//! 3. 8 bytes little endian, length of the image
//! 4. 32 bytes, SHA-256 over the 32 bytes of the key and the image
//! 5. the image
//!
//! A value that differs in any of it, or whose image is not a whole ELF file, is a miss and is
//! deleted.
//!
//! # Security
//!
//! The folder is the user's own, 0700, as the store demands it; another one is refused, and the
//! build goes on without a cache. The digest finds damage, not malice.

use super::elf::check_cubin;
use super::{Job, hex};
use cutile_embed::store::{FileSystemJitStore, JitStore};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const DOMAIN: &[u8] = b"cutile-build image 1";
const MAGIC: &[u8; 16] = b"cutile-build-img";
const VERSION: u32 = 1;
const HEADER: usize = 16 + 4 + 8 + 32;

/// How often the holder of a lock shows that it lives.
const BEAT: Duration = Duration::from_secs(2);
/// After how long without a sign of life a job is compiled without the lock.
const STALE: Duration = Duration::from_secs(10);

/// The images of one toolkit.
#[derive(Debug)]
pub struct BuildCache {
    store: FileSystemJitStore,
    locks: PathBuf,
    identity: [u8; 32],
}

/// Whether a job may be compiled here and now.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nobody else compiles it while this lives.
    Ours(JobLock),
    /// Another build compiles it.
    Theirs,
    /// It cannot be found out: compile it.
    Unknown,
}

/// How long another build has been waited for.
#[derive(Debug, Default)]
pub(super) struct Patience {
    seen: Option<(Option<SystemTime>, Instant)>,
}

/// The right to compile a job, across processes; the system takes it back from one that dies.
#[derive(Debug)]
pub(super) struct JobLock {
    file: File,
    path: PathBuf,
    beat: Instant,
}

impl BuildCache {
    /// Opens the cache in a folder, for the toolkit with this identity.
    ///
    /// # Errors
    ///
    /// The store's: the folder cannot be made, or is open to others.
    pub fn open(root: &Path, identity: [u8; 32]) -> io::Result<Self> {
        let store = FileSystemJitStore::private(root)?;
        let locks = root.join("locks");
        DirBuilder::new().recursive(true).mode(0o700).create(&locks)?;
        Ok(Self { store, locks, identity })
    }

    /// The key of a job.
    #[must_use]
    pub fn key(&self, job: &Job) -> [u8; 32] {
        let Job { digest, gpu, label: _, args, bytecode } = job;
        let mut sha = Sha256::new();
        let mut item = |bytes: &[u8]| {
            sha.update((bytes.len() as u64).to_le_bytes());
            sha.update(bytes);
        };
        item(DOMAIN);
        item(&self.identity);
        item(digest);
        item(gpu.as_bytes());
        item(&(args.len() as u64).to_le_bytes());
        args.iter().for_each(|arg| item(arg.as_bytes()));
        item(bytecode);
        sha.finalize().into()
    }

    /// The image of a key.
    ///
    /// # Errors
    ///
    /// The store's. A damaged value is a miss.
    pub fn get(&self, key: &[u8; 32]) -> io::Result<Option<Vec<u8>>> {
        let name = hex(key);
        let Some(value) = self.store.get(&name)? else { return Ok(None) };
        match decode(key, &value) {
            Some(image) => Ok(Some(image.to_vec())),
            None => self.store.delete(&name).map(|()| None),
        }
    }

    /// Stores an image.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn put(&self, key: &[u8; 32], image: &[u8]) -> io::Result<()> {
        self.store.put(&hex(key), &encode(key, image))
    }

    /// Asks for the right to compile a job. Never blocks.
    pub(super) fn turn(&self, key: &[u8; 32], patience: &mut Patience) -> Turn {
        let path = self.locks.join(format!("{}.lock", hex(key)));
        // One round a file that its holder removed between our two looks at it.
        for _ in 0..16 {
            let open = File::options().create(true).truncate(false).write(true).open(&path);
            let Ok(file) = open else { return Turn::Unknown };
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    let mut lock = JobLock { file, path, beat: Instant::now() };
                    lock.show_life();
                    return Turn::Ours(lock);
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return match patience.is_over(file.metadata().and_then(|m| m.modified()).ok()) {
                        true => Turn::Unknown,
                        false => Turn::Theirs,
                    };
                }
                Err(TryLockError::Error(_)) => return Turn::Unknown,
            }
        }
        Turn::Unknown
    }
}

impl Patience {
    /// Ages are measured with this process's clock alone: the file's may be another machine's.
    fn is_over(&mut self, modified: Option<SystemTime>) -> bool {
        match self.seen {
            Some((seen, since)) if seen == modified => since.elapsed() > STALE,
            _ => {
                self.seen = Some((modified, Instant::now()));
                false
            }
        }
    }
}

impl JobLock {
    /// To be called every now and then.
    pub(super) fn beat(&mut self) {
        if self.beat.elapsed() >= BEAT {
            self.show_life();
        }
    }

    fn show_life(&mut self) {
        self.beat = Instant::now();
        let _ = self.file.set_modified(SystemTime::now());
    }
}

impl Drop for JobLock {
    fn drop(&mut self) {
        // Before the lock is given up: whoever holds it next sees that its file is gone.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let id = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => id(open) == id(named),
        _ => false,
    }
}

fn digest(key: &[u8; 32], image: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(key).chain_update(image).finalize().into()
}

fn encode(key: &[u8; 32], image: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER + image.len());
    value.extend_from_slice(MAGIC);
    value.extend_from_slice(&VERSION.to_le_bytes());
    value.extend_from_slice(&(image.len() as u64).to_le_bytes());
    value.extend_from_slice(&digest(key, image));
    value.extend_from_slice(image);
    value
}

fn decode<'v>(key: &[u8; 32], value: &'v [u8]) -> Option<&'v [u8]> {
    let rest = value.strip_prefix(MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
    let (len, rest) = rest.split_first_chunk::<8>()?;
    let (sum, image) = rest.split_first_chunk::<32>()?;
    let whole = u64::from_le_bytes(*len) == image.len() as u64
        && *sum == digest(key, image)
        && check_cubin(image).is_ok();
    whole.then_some(image)
}

#[cfg(test)]
#[path = "cache/tests.rs"]
mod tests;
