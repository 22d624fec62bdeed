//! Entries that are part of the binary.

use super::JitStore;
use crate::key::key_bytes;
use crate::pack::Pack;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::{LazyLock, PoisonError, RwLock};

/// A read-only [`JitStore`] over packs.
///
/// `delete` hides a key from this process, which is what upstream asks for when the driver rejects
/// an image; nothing is written. `put` is an error: put it behind a
/// [`TieredJitStore`](super::TieredJitStore).
pub struct EmbeddedJitStore {
    packs: LazyLock<Vec<Pack<'static>>, Read>,
    hidden: RwLock<Hidden>,
}

type Read = Box<dyn FnOnce() -> Vec<Pack<'static>> + Send>;

impl fmt::Debug for EmbeddedJitStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Packs that nobody asked for yet are not read for this.
        f.debug_struct("EmbeddedJitStore").field("hidden", &self.hidden).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Hidden {
    all: bool,
    keys: HashSet<[u8; 32]>,
}

impl EmbeddedJitStore {
    /// A store over `packs`. Of equal keys the first pack's is served: keys are of contents, so
    /// they do not differ.
    pub fn new(packs: impl IntoIterator<Item = Pack<'static>>) -> Self {
        let packs: Vec<_> = packs.into_iter().collect();
        Self::on_demand(move || packs)
    }

    /// A store over the packs that `read` gives when the first key is looked up. To parse a pack is
    /// to hash its index, and a program whose kernels were all put into memory never asks.
    pub fn on_demand(read: impl FnOnce() -> Vec<Pack<'static>> + Send + 'static) -> Self {
        Self { packs: LazyLock::new(Box::new(read)), hidden: RwLock::default() }
    }

    fn is_hidden(&self, key: &[u8; 32]) -> bool {
        let hidden = self.hidden.read().unwrap_or_else(PoisonError::into_inner);
        hidden.all || hidden.keys.contains(key)
    }
}

fn checked(key: &str) -> io::Result<[u8; 32]> {
    key_bytes(key).ok_or_else(|| super::file_system::invalid_key(key))
}

impl JitStore for EmbeddedJitStore {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let key = checked(key)?;
        if self.is_hidden(&key) {
            return Ok(None);
        }
        let Some(entry) = self.packs.iter().find_map(|pack| pack.get(&key)) else {
            return Ok(None);
        };
        match entry.payload() {
            Ok(payload) => Ok(Some(payload.into_owned())),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    fn put(&self, key: &str, _: &[u8]) -> io::Result<()> {
        checked(key)?;
        Err(io::Error::new(
            io::ErrorKind::ReadOnlyFilesystem,
            "embedded entries are part of the binary and cannot be written",
        ))
    }

    fn contains(&self, key: &str) -> io::Result<bool> {
        let key = checked(key)?;
        Ok(!self.is_hidden(&key) && self.packs.iter().any(|pack| pack.get(&key).is_some()))
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        let key = checked(key)?;
        self.hidden.write().unwrap_or_else(PoisonError::into_inner).keys.insert(key);
        Ok(())
    }

    fn clear(&self) -> io::Result<()> {
        self.hidden.write().unwrap_or_else(PoisonError::into_inner).all = true;
        Ok(())
    }
}
