//! The store of the process, and its counters.

use super::log::log;
use super::{FileSystemJitStore, JitStore};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

static STORE: RwLock<Option<Arc<dyn JitStore>>> = RwLock::new(None);

/// Makes `store` the store of the process, in place of any other.
///
/// # Security
///
/// A hit runs device code, see [`JitStore`].
pub fn enable(store: Arc<dyn JitStore>) {
    *STORE.write().unwrap_or_else(PoisonError::into_inner) = Some(store);
}

/// [`enable`] with [`FileSystemJitStore::default_location`].
///
/// # Errors
///
/// Where there is no folder of the user's own; a shared temporary folder is never used instead.
pub fn enable_default() -> io::Result<()> {
    enable(Arc::new(FileSystemJitStore::default_location()?));
    Ok(())
}

/// Takes the store of the process away. Kernels in memory stay.
pub fn disable() {
    *STORE.write().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Whether the process has a store.
#[must_use]
pub fn is_enabled() -> bool {
    installed().is_some()
}

pub(super) fn installed() -> Option<Arc<dyn JitStore>> {
    STORE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Counters of this process since it started. They are not to be added up across processes that
/// share a store: two that compile the same key at once count two compiles for one entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JitCacheStats {
    /// Entries that were found, agreed with the request, and were returned.
    pub hits: u64,
    /// Requests that found nothing that could be used.
    pub misses: u64,
    /// Entries written.
    pub puts: u64,
    /// Bytes given to `put`.
    pub bytes_written: u64,
    /// Reads, writes and deletes that failed. None of them failed a launch.
    pub io_errors: u64,
}

/// The counters, one at a time.
#[derive(Debug)]
pub(super) enum Count {
    Hit,
    Miss,
    Put(u64),
    IoError,
}

static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);
static PUTS: AtomicU64 = AtomicU64::new(0);
static BYTES_WRITTEN: AtomicU64 = AtomicU64::new(0);
static IO_ERRORS: AtomicU64 = AtomicU64::new(0);

pub(super) fn count(what: Count) {
    let (counter, by) = match what {
        Count::Hit => (&HITS, 1),
        Count::Miss => (&MISSES, 1),
        Count::Put(bytes) => {
            BYTES_WRITTEN.fetch_add(bytes, Ordering::Relaxed);
            (&PUTS, 1)
        }
        Count::IoError => (&IO_ERRORS, 1),
    };
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Counts and logs a failure that is passed over.
pub(super) fn soft_error(doing: &str, error: &io::Error) {
    count(Count::IoError);
    log(format_args!("{doing}: {error}"));
}

/// The counters now.
#[must_use]
pub fn stats() -> JitCacheStats {
    JitCacheStats {
        hits: HITS.load(Ordering::Relaxed),
        misses: MISSES.load(Ordering::Relaxed),
        puts: PUTS.load(Ordering::Relaxed),
        bytes_written: BYTES_WRITTEN.load(Ordering::Relaxed),
        io_errors: IO_ERRORS.load(Ordering::Relaxed),
    }
}
