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
use std::ffi::OsString;
use std::fs::{self, FileTimes, Metadata, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

mod folder;
mod platform;

use folder::Folder;

/// Total size that a store aims at unless told otherwise: 2 GiB.
pub const DEFAULT_CAPACITY_BYTES: u64 = 2 << 30;

/// Name of the file below the root that the one who evicts has locked. It is never evicted itself.
pub const EVICTION_LOCK_FILE_NAME: &str = ".eviction.lock";

/// Longest entry that is read, in bytes. The largest cubin measured is 1 MB.
pub const MAX_ENTRY_BYTES: u64 = 256 << 20;

/// A file that is being written is that for milliseconds. One as old as this was left by a process
/// that died.
const STALE_TEMP: Duration = Duration::from_secs(3600);

/// How often a `put` begins again that another process gets in the way of.
const ATTEMPTS: u32 = 8;

/// What tells a temporary file by its name.
const TEMP: &str = ".tmp.";

/// How much longer than the root the path of an entry is: a shard, a key, `.cubin`.
const LONGEST_NAME: usize = "/ab/".len() + 64 + ".cubin".len();

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
/// a folder of the store. On Unix each of these is asked of what was opened, and what follows goes
/// through that handle: replacing a folder between the question and the use gains nothing.
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
    /// Whether the root has to be the user's alone.
    private: bool,
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
        let (longest, private) = (MAX_ENTRY_BYTES, false);
        Ok(FileSystemJitStore { root, capacity, high, low, longest, private, owner })
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
        Ok(Self { private: true, owner: None, ..Self::new(root)? })
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

    fn belongs(&self, found: &Metadata) -> bool {
        platform::is_own(found) || self.owner.is_some() && self.owner == platform::owner(found)
    }

    fn open_root(&self) -> io::Result<Folder> {
        let root = Folder::open(&self.root, !self.private, LONGEST_NAME)?;
        let found = root.metadata()?;
        if self.private {
            platform::check_root(&self.root, &found)?;
        }
        self.check_folder(&self.root, &found)?;
        Ok(root)
    }

    /// The shard of a key; `NotFound` where there is none yet.
    fn open_shard(&self, root: &Folder, key: &str) -> io::Result<Folder> {
        let path = || self.root.join(&key[..2]);
        let shard = root.folder(&key[..2]).map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => io::Error::new(
                ErrorKind::NotADirectory,
                format!("{} is no folder; delete it", path().display()),
            ),
            _ => error,
        })?;
        self.check_folder(&path(), &shard.metadata()?)?;
        Ok(shard)
    }

    /// The shard of a key, made with the root where it is missing.
    fn make_shard(&self, key: &str) -> io::Result<Folder> {
        let root = match self.open_root() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                platform::make_root(&self.root, self.private)?;
                self.open_root()?
            }
            root => root?,
        };
        match self.open_shard(&root, key) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                root.make_folder(&key[..2])?;
                self.open_shard(&root, key)
            }
            shard => shard,
        }
    }

    fn check_folder(&self, path: &Path, found: &Metadata) -> io::Result<()> {
        if self.belongs(found) {
            return Ok(());
        }
        Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("{} belongs to somebody else; delete it", path.display()),
        ))
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
        let opened = self.open_root().and_then(|root| {
            let lock = root.open_lock(EVICTION_LOCK_FILE_NAME)?;
            Ok((root, lock))
        });
        let (root, lock) = match opened {
            Ok(opened) => opened,
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
        let mut entries = match entries(&root) {
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
            let removal =
                root.folder(&entry.shard).and_then(|shard| shard.remove_file(&entry.name));
            if passed_over("an entry cannot be evicted", removal).is_some() {
                total -= entry.len;
                removed += 1;
            }
        }
        log(format_args!("evicted {removed} entries; {total} bytes of {} left", self.capacity));
    }
}

/// The entries, without temporary files; of those the stale ones are removed. What cannot be looked
/// at is counted and passed over: the rest can still be evicted.
fn entries(root: &Folder) -> io::Result<Vec<EntryFile>> {
    let mut entries = Vec::new();
    for shard in root.names()?.iter().filter_map(shard_name) {
        let folder = match root.folder(shard) {
            // What is no folder has none.
            Err(error) if error.kind() == ErrorKind::NotADirectory => continue,
            folder => folder,
        };
        let listed = || {
            let folder = folder?;
            let names = folder.names()?;
            Ok((folder, names))
        };
        let Some((folder, names)) = passed_over("a shard cannot be listed", listed()) else {
            continue;
        };
        for (name, role) in own(shard, &names) {
            if role == FileRole::Temporary {
                remove_stale(&folder, name);
                continue;
            }
            let looked = passed_over("an entry cannot be looked at", folder.look_at(name));
            if let Some(Some(meta)) = looked {
                let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let (shard, name) = (shard.to_owned(), name.to_owned());
                entries.push(EntryFile { shard, name, len: meta.len(), used });
            }
        }
    }
    Ok(entries)
}

/// Removes the stale temporary files of a shard. Eviction does so in all of them, but a store that
/// never fills looks too rarely.
fn tidy(name: &str, shard: &Folder) {
    let names = passed_over("a shard cannot be listed", shard.names()).unwrap_or_default();
    for (name, _) in own(name, &names).filter(|(_, role)| *role == FileRole::Temporary) {
        remove_stale(shard, name);
    }
}

/// Removes a shard with its entries and temporary files. Where there is something else in it, that
/// stays, and so does the shard.
fn clear_shard(root: &Folder, name: &str) -> io::Result<()> {
    let shard = root.folder(name)?;
    let names = shard.names()?;
    for (name, _) in own(name, &names) {
        match shard.remove_file(name) {
            // Another process clears it, too.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // A folder is not ours, whatever its name.
            Err(error) if error.kind() == ErrorKind::IsADirectory => {}
            removed => removed?,
        }
    }
    root.remove_empty_folder(name)
}

/// Removes a temporary file that no process can be writing any more.
fn remove_stale(folder: &Folder, name: &str) {
    let remove = || {
        let used = match folder.look_at(name)? {
            Some(meta) => meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            None => SystemTime::UNIX_EPOCH,
        };
        match SystemTime::now().duration_since(used) {
            Ok(age) if age > STALE_TEMP => folder.remove_file(name),
            _ => Ok(()),
        }
    };
    passed_over("a stale temporary file cannot be removed", remove());
}

/// What is there, where the store can do without. That something is gone is what other processes
/// do; other failures are counted.
fn passed_over<T>(doing: &str, result: io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => {
            soft_error(doing, &error);
            None
        }
    }
}

/// What a file of a shard is to the store, which leaves all others alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// An entry.
    Entry,
    /// An entry that is being written, or was by a process that died.
    Temporary,
}

impl FileRole {
    /// By the names of the shard and of the file.
    #[must_use]
    pub fn of(shard: &str, file: &str) -> Option<Self> {
        let (key, rest) = file.split_at_checked(64)?;
        key_bytes(key)?;
        match rest {
            _ if !key.starts_with(shard) => None,
            ".cubin" => Some(Self::Entry),
            _ => rest.starts_with(TEMP).then_some(Self::Temporary),
        }
    }
}

/// Those of the files in a shard that are the store's.
fn own<'n>(
    shard: &'n str,
    names: &'n [OsString],
) -> impl Iterator<Item = (&'n str, FileRole)> + use<'n> {
    // The store gives no name that is not UTF-8.
    let names = names.iter().filter_map(|name| name.to_str());
    names.filter_map(move |name| Some((name, FileRole::of(shard, name)?)))
}

struct EntryFile {
    shard: String,
    name: String,
    len: u64,
    used: SystemTime,
}

/// Two hex digits.
fn shard_name(name: &OsString) -> Option<&str> {
    let name = name.to_str()?;
    (name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

fn entry_name(key: &str) -> io::Result<String> {
    // A key becomes a path: nothing but a key may.
    key_bytes(key).ok_or_else(|| invalid_key(key))?;
    Ok(format!("{key}.cubin"))
}

/// What is not there is no error.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

pub(super) fn invalid_key(key: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("not 64 lowercase hex digits: {key:?}"))
}

/// The pid tells processes apart, the counter what one process writes; containers that share a
/// folder are all pid 1 and start at 0, so there is a uuid.
fn temp_name(key: &str, nonce: &Uuid) -> String {
    let counter = TEMP_COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{key}{TEMP}{}.{counter}.{nonce}", process::id())
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
        let name = entry_name(key)?;
        let opened = || self.open_shard(&self.open_root()?, key)?.open_entry(&name);
        let Some(mut file) = found(opened())? else { return Ok(None) };
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
        let name = entry_name(key)?;
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
        let nonce = Uuid::new_v4();
        let temp = temp_name(key, &nonce);
        let write = || {
            let shard = self.make_shard(key)?;
            let written = shard
                .create_temp(&temp)
                .and_then(|mut file| file.write_all(value))
                .and_then(|()| shard.rename(&temp, &name));
            if written.is_err() {
                // While writes fail, nothing else would remove it.
                let _ = shard.remove_file(&temp);
            }
            written.map(|()| shard)
        };
        // `clear` of another process can take the temporary file away, and then the shard.
        let mut attempts = 0;
        let shard = loop {
            attempts += 1;
            match write() {
                Err(error) if error.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {}
                written => break written?,
            }
        };
        tidy(&key[..2], &shard);
        if self.capacity > 0 && looks(draw(&nonce), value.len() as u64, self.capacity) {
            self.evict();
        }
        Ok(())
    }

    fn contains(&self, key: &str) -> io::Result<bool> {
        let name = entry_name(key)?;
        let looked = || self.open_shard(&self.open_root()?, key)?.look_at(&name);
        Ok(found(looked())?.flatten().is_some_and(|meta| self.check(&meta).is_ok()))
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        let name = entry_name(key)?;
        let removed = || self.open_shard(&self.open_root()?, key)?.remove_file(&name);
        found(removed()).map(|_| ())
    }

    fn clear(&self) -> io::Result<()> {
        let root = self.open_root()?;
        for shard in root.names()?.iter().filter_map(shard_name) {
            match clear_shard(&root, shard) {
                // Another process clears it, too.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // What is no folder is not ours.
                Err(error) if error.kind() == ErrorKind::NotADirectory => {}
                // Something was put meanwhile, or is not ours.
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
