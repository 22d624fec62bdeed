//! Entries on disk.
//!
//! The layout, the lock and the default place are upstream's: both sides share one cache.
//!
//! ```text
//! <root>/.eviction.lock                                      held by the one that evicts
//! <root>/<first 2 digits>/<key>.cubin                        an entry
//! <root>/<first 2 digits>/<key>.tmp.<pid>.<counter>.<uuid>   an entry being written
//! ```

use super::JitStore;
use super::log::log;
use super::switch::soft_error;
use crate::key::key_bytes;
use std::fs::{self, FileTimes, Metadata, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

mod platform;

/// Total size that a store aims at unless told otherwise: 2 GiB.
pub const DEFAULT_CAPACITY_BYTES: u64 = 2 << 30;

/// Name of the file below the root that the one who evicts has locked. It is never evicted itself.
pub const EVICTION_LOCK_FILE_NAME: &str = ".eviction.lock";

/// Longest entry that is read, in bytes. The largest cubin measured is 1 MB.
pub const MAX_ENTRY_BYTES: u64 = 256 << 20;

/// A file that is being written is that for milliseconds. One as old as this was left by a process
/// that died.
const STALE_TEMP: Duration = Duration::from_secs(3600);

/// Tells the temporary files of one process apart.
static TEMP_COUNTER: AtomicU64 = AtomicU64::new(0);

/// A [`JitStore`] of files.
///
/// A value is written to a temporary file beside its place and renamed into it, so readers see all
/// of it or nothing. It is not synced: what a power cut tears fails its digest and is a miss.
///
/// The capacity is soft. An entry's mtime is when it was last read; `put` removes the entries that
/// were read longest ago, when the total is above the high watermark, down to the low one. It looks
/// at the total with a probability of entry size ÷ (capacity ÷ 16), so that all processes together
/// look once per capacity ÷ 16 written, and none has to count.
///
/// Reads are bounded by [`MAX_ENTRY_BYTES`]; links, folders and other things that are no plain
/// file are refused, and so are files of another user, and whatever lies behind a link in place of
/// a folder of the store.
///
/// # Security
///
/// See [`JitStore`]: whoever can write the root can plant device code.
#[derive(Debug)]
pub struct FileSystemJitStore {
    root: PathBuf,
    /// 0: no bound.
    capacity: u64,
    high: f64,
    low: f64,
    /// Longest entry that is read or written.
    longest: u64,
    /// Owner of the root: of a folder that the caller chose, the entries may belong to its owner.
    owner: Option<u32>,
}

/// Builder of a [`FileSystemJitStore`].
#[derive(Debug, Clone)]
#[must_use]
pub struct FileSystemJitStoreBuilder {
    root: PathBuf,
    capacity: u64,
    high: f64,
    low: f64,
}

/// The user's cache folder, from the environment of this process.
pub(crate) fn user_cache_of_process() -> io::Result<PathBuf> {
    platform::user_cache_of_process()
}

impl FileSystemJitStoreBuilder {
    /// Total size to aim at in bytes; 0 for no bound.
    ///
    /// Default: [`DEFAULT_CAPACITY_BYTES`].
    pub fn capacity_bytes(mut self, capacity: u64) -> Self {
        self.capacity = capacity;
        self
    }

    /// Fractions of the capacity: entries are removed when the total is above `high`, until it is
    /// at most `low`.
    ///
    /// Default: 1.0 and 0.8.
    pub fn eviction_watermarks(mut self, high: f64, low: f64) -> Self {
        (self.high, self.low) = (high, low);
        self
    }

    /// Makes the root with its parents where they are missing, and opens the store.
    ///
    /// # Errors
    ///
    /// `InvalidInput` unless `0 < low ≤ high` and both are finite; what the file system says.
    pub fn open(self) -> io::Result<FileSystemJitStore> {
        let Self { root, capacity, high, low } = self;
        if !(0.0 < low && low <= high && high.is_finite()) {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!("eviction watermarks need 0 < low <= high, both finite: {low} and {high}"),
            ));
        }
        fs::create_dir_all(&root)?;
        let owner = platform::owner(&fs::metadata(&root)?);
        Ok(FileSystemJitStore { root, capacity, high, low, longest: MAX_ENTRY_BYTES, owner })
    }
}

impl FileSystemJitStore {
    /// A store at `root`, which is made where it is missing.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<Self> {
        Self::builder(root).open()
    }

    /// A builder of a store at `root`.
    pub fn builder(root: impl Into<PathBuf>) -> FileSystemJitStoreBuilder {
        FileSystemJitStoreBuilder {
            root: root.into(),
            capacity: DEFAULT_CAPACITY_BYTES,
            high: 1.0,
            low: 0.8,
        }
    }

    /// The store of the user that runs this, where upstream's is: `$XDG_CACHE_HOME/cutile/kernels`,
    /// else `~/.cache/cutile/kernels`.
    ///
    /// A new root is 0700, and so are parents that are missing.
    ///
    /// # Errors
    ///
    /// Where there is no such place; where the root is no directory, belongs to somebody else, or
    /// lets group or others in; where everybody can write one of its parents. Nothing is changed
    /// then.
    ///
    /// # Security
    ///
    /// On Windows (`%LOCALAPPDATA%\cutile\kernels`) the permissions of that folder are relied on.
    pub fn default_location() -> io::Result<Self> {
        Self::private(&user_cache_of_process()?.join("cutile").join("kernels"))
    }

    /// A store whose root is made or checked as [`default_location`](Self::default_location) does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn private(root: &Path) -> io::Result<Self> {
        platform::prepare(root)?;
        Ok(Self { owner: None, ..Self::new(root)? })
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The same store with a lower bound than [`MAX_ENTRY_BYTES`] on what is read and written.
    #[cfg(feature = "wgsl")]
    pub(crate) fn longest_entry(mut self, bytes: u64) -> Self {
        self.longest = bytes.min(MAX_ENTRY_BYTES);
        self
    }

    fn entry_path(&self, key: &str) -> io::Result<PathBuf> {
        // A key becomes a path: nothing but a key may.
        key_bytes(key).ok_or_else(|| invalid_key(key))?;
        let shard = self.root.join(&key[..2]);
        self.check_shard(&shard)?;
        Ok(shard.join(format!("{key}.cubin")))
    }

    fn belongs(&self, found: &Metadata) -> bool {
        platform::is_own(found) || self.owner.is_some() && self.owner == platform::owner(found)
    }

    /// Whether a shard is a folder of the store, or nothing yet. Opening an entry says nothing
    /// about links on the way to it.
    fn check_shard(&self, shard: &Path) -> io::Result<()> {
        let found = match fs::symlink_metadata(shard) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if !found.is_dir() {
            return Err(io::Error::new(
                ErrorKind::NotADirectory,
                format!("{} is no folder; delete it", shard.display()),
            ));
        }
        if !self.belongs(&found) {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                format!("{} belongs to somebody else; delete it", shard.display()),
            ));
        }
        Ok(())
    }

    /// Whether a file may be served: by what was opened, not by what a path says.
    fn check(&self, file: &Metadata) -> io::Result<()> {
        let refused = |why: String| Err(io::Error::new(ErrorKind::InvalidData, why));
        if !file.is_file() {
            return refused("the entry is no plain file".to_owned());
        }
        if !self.belongs(file) {
            let owner = platform::owner(file).map_or_else(String::new, |owner| owner.to_string());
            return refused(format!("the entry belongs to user {owner}"));
        }
        if file.len() > self.longest {
            return refused(format!("the entry has {} bytes", file.len()));
        }
        Ok(())
    }

    /// Removes what was read longest ago, if the total is above the high watermark. Failures are
    /// passed over: it must not fail a `put`.
    fn evict(&self) {
        let lock = match platform::open_lock(&self.root.join(EVICTION_LOCK_FILE_NAME)) {
            Ok(lock) => lock,
            Err(error) => return soft_error("the eviction lock cannot be opened", &error),
        };
        match lock.try_lock() {
            Ok(()) => {}
            // Another process is at it, and sees what this one wrote.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Error(error)) => {
                return soft_error("the eviction lock cannot be taken", &error);
            }
        }
        let mut entries = match self.entries() {
            Ok(entries) => entries,
            Err(error) => return soft_error("the store cannot be listed", &error),
        };
        let mut total: u64 = entries.iter().map(|entry| entry.len).sum();
        let capacity = self.capacity as f64;
        if total as f64 <= capacity * self.high {
            return;
        }
        entries.sort_by_key(|entry| entry.used);
        let mut removed = 0;
        for entry in entries {
            if total as f64 <= capacity * self.low {
                break;
            }
            if fs::remove_file(&entry.path).is_ok() {
                total -= entry.len;
                removed += 1;
            }
        }
        log(format_args!("evicted {removed} entries; {total} bytes of {} left", self.capacity));
    }

    /// The entries, without temporary files; of those the stale ones are removed.
    fn entries(&self) -> io::Result<Vec<EntryFile>> {
        let now = SystemTime::now();
        let mut entries = Vec::new();
        for shard in fs::read_dir(&self.root)?.flatten().filter(is_shard) {
            for file in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
                let Ok(meta) = file.metadata() else { continue };
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let name = file.file_name();
                let name = name.to_string_lossy();
                if name.contains(".tmp.") {
                    if now.duration_since(used).is_ok_and(|age| age > STALE_TEMP) {
                        let _ = fs::remove_file(file.path());
                    }
                } else if name.ends_with(".cubin") {
                    entries.push(EntryFile { path: file.path(), len: meta.len(), used });
                }
            }
        }
        Ok(entries)
    }
}

struct EntryFile {
    path: PathBuf,
    len: u64,
    used: SystemTime,
}

/// A folder of two hex digits.
fn is_shard(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let hex = name
        .to_str()
        .is_some_and(|name| name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

pub(super) fn invalid_key(key: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("not 64 lowercase hex digits: {key:?}"))
}

/// The pid tells processes apart, the counter what one process writes; containers that share a
/// folder are all pid 1 and start at 0, so there is a uuid.
fn temp_name(key: &str, nonce: &Uuid) -> String {
    let counter = TEMP_COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{key}.tmp.{}.{counter}.{nonce}", process::id())
}

/// 64 uniform bits from a random uuid. Six of its bits are fixed, in bytes 6 and 8; folding the
/// halves lays each of them on a random one.
fn draw(nonce: &Uuid) -> u64 {
    let (high, low) = nonce.as_u64_pair();
    high ^ low
}

/// Whether `put` of `len` bytes looks at the total: with a probability of `len` ÷ `threshold`,
/// exactly, and always from `len` = `threshold` on.
fn looks(draw: u64, len: u64, capacity: u64) -> bool {
    let threshold = (capacity / 16).max(1);
    u128::from(draw) * u128::from(threshold) < u128::from(len) << 64
}

impl JitStore for FileSystemJitStore {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.entry_path(key)?;
        let mut file = match platform::open_entry(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let meta = file.metadata()?;
        self.check(&meta)?;
        let mut value = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
        (&mut file).take(self.longest + 1).read_to_end(&mut value)?;
        if value.len() as u64 > self.longest {
            return Err(io::Error::new(ErrorKind::InvalidData, "the entry grew while it was read"));
        }
        if self.capacity > 0 {
            // At best: an entry that cannot be touched only ages faster.
            let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        }
        Ok(Some(value))
    }

    fn put(&self, key: &str, value: &[u8]) -> io::Result<()> {
        let path = self.entry_path(key)?;
        if value.len() as u64 > self.longest {
            // It would never be read.
            log(format_args!("{key} is not cached: {} bytes of {}", value.len(), self.longest));
            return Ok(());
        }
        let retained = self.capacity as f64 * self.low;
        if self.capacity > 0 && value.len() as f64 > retained {
            // Evicting down to the low watermark would remove it last, after all others.
            log(format_args!("{key} is not cached: {} bytes of {retained}", value.len()));
            return Ok(());
        }
        let shard = self.root.join(&key[..2]);
        let nonce = Uuid::new_v4();
        let temp = shard.join(temp_name(key, &nonce));
        let write = || {
            platform::create_shard(&shard)?;
            platform::create_temp(&temp)?.write_all(value)?;
            fs::rename(&temp, &path)
        };
        let mut written = write();
        // `clear` of another process can take the shard away in between.
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            written = write();
        }
        if written.is_err() {
            // While writes fail, nothing else would remove it.
            let _ = fs::remove_file(&temp);
        }
        written?;
        if self.capacity > 0 && looks(draw(&nonce), value.len() as u64, self.capacity) {
            self.evict();
        }
        Ok(())
    }

    fn contains(&self, key: &str) -> io::Result<bool> {
        match fs::symlink_metadata(self.entry_path(key)?) {
            Ok(meta) => Ok(meta.is_file()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.entry_path(key)?) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            if !is_shard(&entry) {
                continue;
            }
            match fs::remove_dir_all(entry.path()) {
                // Another process clears it, too.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
