//! Several stores, asked in order.

use super::JitStore;
use super::file_system::invalid_key;
use super::switch::soft_error;
use crate::key::key_bytes;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A store and its place in a [`TieredJitStore`].
pub struct Tier {
    name: &'static str,
    store: Arc<dyn JitStore>,
    writable: bool,
    hits: AtomicU64,
    misses: AtomicU64,
    puts: AtomicU64,
    errors: AtomicU64,
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier")
            .field("name", &self.name)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

impl Tier {
    /// A tier that is only read.
    #[must_use]
    pub fn read_only(name: &'static str, store: Arc<dyn JitStore>) -> Self {
        Self::new(name, store, false)
    }

    /// A tier that is also written.
    #[must_use]
    pub fn writable(name: &'static str, store: Arc<dyn JitStore>) -> Self {
        Self::new(name, store, true)
    }

    fn new(name: &'static str, store: Arc<dyn JitStore>, writable: bool) -> Self {
        let [hits, misses, puts, errors] = [const { AtomicU64::new(0) }; 4];
        Self { name, store, writable, hits, misses, puts, errors }
    }

    /// Counts a failure of which the caller learns.
    fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts, and logs, a failure that ends here.
    fn passed_over(&self, doing: &str, error: &io::Error) {
        self.failed();
        soft_error(&format!("{} tier: {doing}", self.name), error);
    }
}

/// Counters of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Its name.
    pub name: &'static str,
    /// Values it gave.
    pub hits: u64,
    /// Times it was asked and had none.
    pub misses: u64,
    /// Values it took.
    pub puts: u64,
    /// Times it failed.
    pub errors: u64,
}

/// Stores that are asked in order.
///
/// A tier that fails to give a value is passed over. `put` goes to the first writable tier, and is
/// `Ok` where there is none: that nothing is to be kept was the caller's choice. `delete` and
/// `clear` go to all, so that a value which turned out bad is not served by the next.
///
/// A failure that is returned is counted by the tier, and in [`stats`](super::stats) by whoever
/// receives it; one that is passed over is counted in both here.
#[derive(Debug)]
pub struct TieredJitStore {
    tiers: Vec<Tier>,
}

impl TieredJitStore {
    /// A store over `tiers`, the first asked first.
    #[must_use]
    pub fn new(tiers: Vec<Tier>) -> Self {
        Self { tiers }
    }

    /// The counters, a row a tier.
    #[must_use]
    pub fn tier_stats(&self) -> Vec<TierStats> {
        let row = |tier: &Tier| TierStats {
            name: tier.name,
            hits: tier.hits.load(Ordering::Relaxed),
            misses: tier.misses.load(Ordering::Relaxed),
            puts: tier.puts.load(Ordering::Relaxed),
            errors: tier.errors.load(Ordering::Relaxed),
        };
        self.tiers.iter().map(row).collect()
    }

    /// [`get`](JitStore::get), with the name of the tier that has it.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn get_from(&self, key: &str) -> io::Result<Option<(&'static str, Vec<u8>)>> {
        check(key)?;
        for tier in &self.tiers {
            match tier.store.get(key) {
                Ok(Some(value)) => {
                    tier.hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(Some((tier.name, value)));
                }
                Ok(None) => {
                    tier.misses.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => tier.passed_over("an entry cannot be read", &error),
            }
        }
        Ok(None)
    }

    /// Does `one` to every tier, and returns the first error after all of them.
    fn each(&self, doing: &str, one: impl Fn(&dyn JitStore) -> io::Result<()>) -> io::Result<()> {
        let mut first = Ok(());
        for tier in &self.tiers {
            if let Err(error) = one(&*tier.store) {
                if first.is_ok() {
                    tier.failed();
                    first = Err(error);
                } else {
                    tier.passed_over(doing, &error);
                }
            }
        }
        first
    }
}

/// Asked before the tiers are: what is no key is the caller's fault, and nothing to pass over.
fn check(key: &str) -> io::Result<()> {
    key_bytes(key).map(|_| ()).ok_or_else(|| invalid_key(key))
}

impl JitStore for TieredJitStore {
    fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.get_from(key)?.map(|(_, value)| value))
    }

    fn put(&self, key: &str, value: &[u8]) -> io::Result<()> {
        check(key)?;
        let Some(tier) = self.tiers.iter().find(|tier| tier.writable) else {
            return Ok(());
        };
        tier.store.put(key, value).inspect_err(|_| tier.failed())?;
        tier.puts.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn contains(&self, key: &str) -> io::Result<bool> {
        check(key)?;
        let mut error = None;
        for tier in &self.tiers {
            match tier.store.contains(key) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(found) => {
                    error.get_or_insert(found);
                }
            }
        }
        error.map_or(Ok(false), Err)
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        check(key)?;
        self.each("an entry cannot be deleted", |store| store.delete(key))
    }

    fn clear(&self) -> io::Result<()> {
        self.each("it cannot be cleared", JitStore::clear)
    }
}
