//! Our stores behind upstream's trait, and the one that `install` put there.

use super::watch;
use crate::store::{JitStore, TierStats, TieredJitStore};
use std::io;
use std::sync::{Arc, OnceLock};

/// One of our stores as upstream's. Same contract, same trust: a hit runs device code.
#[derive(Debug)]
pub struct Upstream<S>(pub S);

impl<S: JitStore> cutile::jit_cache::JitStore for Upstream<Arc<S>> {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.0.get(key)
    }

    fn put(&self, key: &str, value: &[u8]) -> io::Result<()> {
        self.0.put(key, value)
    }

    fn contains(&self, key: &str) -> io::Result<bool> {
        self.0.contains(key)
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        self.0.delete(key)
    }

    fn clear(&self) -> io::Result<()> {
        self.0.clear()
    }
}

static INSTALLED: OnceLock<Arc<TieredJitStore>> = OnceLock::new();

/// Ours as upstream's, with an eye on what is asked for.
#[derive(Debug)]
struct Watching(Arc<TieredJitStore>);

impl cutile::jit_cache::JitStore for Watching {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        watch::look();
        let found = self.0.get_from(key)?;
        if found.as_ref().is_none_or(|(tier, _)| *tier != EMBEDDED_TIER) {
            watch::missed_in_store();
        }
        Ok(found.map(|(_, value)| value))
    }

    fn put(&self, key: &str, value: &[u8]) -> io::Result<()> {
        self.0.put(key, value)
    }

    fn contains(&self, key: &str) -> io::Result<bool> {
        self.0.contains(key)
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        self.0.delete(key)
    }

    fn clear(&self) -> io::Result<()> {
        self.0.clear()
    }
}

/// Name of the tier that serves what is embedded.
pub(super) const EMBEDDED_TIER: &str = "embedded";

/// Makes `store` the store of the process, unless this crate has installed one before. Says whether
/// it did.
pub(super) fn install(store: TieredJitStore) -> bool {
    let store = Arc::new(store);
    if INSTALLED.set(Arc::clone(&store)).is_err() {
        return false;
    }
    cutile::jit_cache::enable(Arc::new(Watching(store)));
    true
}

pub(super) fn is_installed() -> bool {
    INSTALLED.get().is_some()
}

/// Counters of the store that [`install`](fn@super::install) put into the process, a row a tier,
/// in the order they are asked. Empty when it installed none.
#[must_use]
pub fn tier_stats() -> Vec<TierStats> {
    INSTALLED.get().map(|store| store.tier_stats()).unwrap_or_default()
}
