//! Where entries are kept: the trait, the stores, and the switch of the process.
//!
//! The stores are upstream's in layout and behaviour, so that both sides share one cache; they are
//! ours because a crate with shaders only must build where no CUDA header exists.
//!
//! The cache never turns a working launch into a failing one: what a store cannot do is counted,
//! logged under `CUTILE_JIT_LOG`, and passed over.

mod compile;
mod embedded;
mod file_system;
mod log;
#[cfg(unix)]
mod root;
mod switch;
mod tiered;

pub use compile::{
    CompileError, backend_compile_count, compile_count, disk_hit_count, load_or_compile,
};
pub use embedded::EmbeddedJitStore;
#[cfg(feature = "wgsl")]
pub(crate) use file_system::user_cache_of_process;
pub use file_system::{
    DEFAULT_CAPACITY_BYTES, EVICTION_LOCK_FILE_NAME, FileRole, FileSystemJitStore,
    FileSystemJitStoreBuilder, MAX_ENTRY_BYTES,
};
#[cfg(unix)]
pub use root::default_root;
#[cfg(all(unix, feature = "wgsl"))]
pub(crate) use root::user_cache;
pub use switch::{JitCacheStats, disable, enable, enable_default, is_enabled, stats};
pub use tiered::{Tier, TierStats, TieredJitStore};

use std::io;

/// A store of entries under keys of 64 lowercase hex digits. The value is opaque here.
///
/// `put` of one key from several processes at once is safe: a reader sees nothing, or one whole
/// value.
///
/// # Security
///
/// A hit is device code that is loaded and run. The digest in an entry finds what was torn, not who
/// wrote it: whoever can write where a store keeps its values can plant a valid entry. Back a store
/// with nothing that others can write. [`FileSystemJitStore::default_location`] sees to that on
/// Unix; on Windows it relies on the permissions of `%LOCALAPPDATA%`. What is embedded is as
/// trusted as the binary.
pub trait JitStore: Send + Sync + 'static {
    /// The value of a key, `None` when there is none.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for what is no key; whatever the storage says.
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>>;

    /// Stores a value, in place of any other.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    fn put(&self, key: &str, value: &[u8]) -> io::Result<()>;

    /// Whether there is a value. Reads it, where a store knows nothing cheaper.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get): what cannot be asked is an error and not `false`.
    fn contains(&self, key: &str) -> io::Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Removes a value. That there is none is no error.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    fn delete(&self, key: &str) -> io::Result<()>;

    /// Removes every value.
    ///
    /// # Errors
    ///
    /// Whatever the storage says.
    fn clear(&self) -> io::Result<()>;
}
