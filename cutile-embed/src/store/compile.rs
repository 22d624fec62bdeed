//! The step between bytecode and a loaded module: the store is asked first, the compiler then.

use super::switch::{Count, count, installed, soft_error};
use super::{JitStore, log::log};
use crate::entry::{EntryParams, decode_entry, encode_entry};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

static COMPILES: AtomicU64 = AtomicU64::new(0);
static BACKEND_COMPILES: AtomicU64 = AtomicU64::new(0);

/// Successful calls of [`load_or_compile`] in this process.
///
/// Equal to [`backend_compile_count`] + [`disk_hit_count`], but for images from the store that the
/// driver rejected: each of those counts as a hit and as a compile, so the sum runs one ahead.
#[must_use]
pub fn compile_count() -> u64 {
    COMPILES.load(Ordering::Relaxed)
}

/// Successful runs of the compiler in this process.
#[must_use]
pub fn backend_compile_count() -> u64 {
    BACKEND_COMPILES.load(Ordering::Relaxed)
}

/// Images that the store gave in this process.
#[must_use]
pub fn disk_hit_count() -> u64 {
    super::stats().hits
}

/// Why there is no module.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompileError<E> {
    /// The compiler failed.
    Compile(E),
    /// The driver rejected what the compiler just made.
    Load(E),
}

impl<E: fmt::Display> fmt::Display for CompileError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(error) => write!(f, "the kernel does not compile: {error}"),
            Self::Load(error) => write!(
                f,
                "the driver rejected an image that was just compiled: {error}; is the driver older \
                 than the toolkit?"
            ),
        }
    }
}

impl<E: Error + 'static> Error for CompileError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Compile(error) | Self::Load(error) => Some(error),
        }
    }
}

/// Loads the image of `key`: from the store of the process if it has one that agrees with `params`,
/// else from `compile`, and then stores it.
///
/// What the store has and does not agree is deleted. An image from the store that `load` rejects
/// is deleted too, compiled once, and *not* stored: the next process meets whatever made the driver
/// reject it by itself.
///
/// # Errors
///
/// [`CompileError`]; what the store says is never one.
pub fn load_or_compile<T, E: fmt::Display>(
    key: &str,
    params: &EntryParams<'_>,
    mut compile: impl FnMut() -> Result<Vec<u8>, E>,
    mut load: impl FnMut(&[u8]) -> Result<T, E>,
) -> Result<T, CompileError<E>> {
    let mut compiled = || {
        let image = compile().map_err(CompileError::Compile)?;
        BACKEND_COMPILES.fetch_add(1, Ordering::Relaxed);
        Ok(image)
    };
    let store = installed();
    let loaded = match store.as_deref().and_then(|store| look_up(store, key, params)) {
        Some(image) => match load(&image) {
            Ok(loaded) => loaded,
            Err(error) => {
                log(format_args!("the driver rejected the stored image of {key}: {error}"));
                if let Some(store) = &store
                    && let Err(error) = store.delete(key)
                {
                    soft_error("a rejected entry cannot be deleted", &error);
                }
                load(&compiled()?).map_err(CompileError::Load)?
            }
        },
        None => {
            let image = compiled()?;
            let loaded = load(&image).map_err(CompileError::Load)?;
            if let Some(store) = store {
                put(&*store, key, params, &image);
            }
            loaded
        }
    };
    COMPILES.fetch_add(1, Ordering::Relaxed);
    Ok(loaded)
}

fn look_up(store: &dyn JitStore, key: &str, params: &EntryParams<'_>) -> Option<Vec<u8>> {
    let entry = store.get(key).unwrap_or_else(|error| {
        soft_error("an entry cannot be read", &error);
        None
    });
    let image = entry.as_deref().and_then(|entry| decode_entry(entry, params));
    if let Some(image) = image {
        count(Count::Hit);
        return Some(image.to_vec());
    }
    count(Count::Miss);
    if entry.is_some() {
        log(format_args!("the entry of {key} does not agree with the request; deleting it"));
        if let Err(error) = store.delete(key) {
            soft_error("a bad entry cannot be deleted", &error);
        }
    }
    None
}

fn put(store: &dyn JitStore, key: &str, params: &EntryParams<'_>, image: &[u8]) {
    let Some(entry) = encode_entry(params, image) else {
        log(format_args!("{key} is not cached: a name in its entry is too long"));
        return;
    };
    match store.put(key, &entry) {
        Ok(()) => count(Count::Put(entry.len() as u64)),
        Err(error) => soft_error("an entry cannot be written", &error),
    }
}
