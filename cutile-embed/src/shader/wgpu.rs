//! A `wgpu::ShaderModule` of a request, and the driver's pipeline cache.

use super::NAGA_VERSION;
use super::entry::{MAX_ENTRY_BYTES, decode_entry, encode_entry};
use super::error::{ShaderError, Stage};
use super::key::Fields;
use super::load::{Artifact, Config, Note, Source, load_or_lower_with};
use super::request::{Kind, Request};
use crate::key::key_text;
use crate::store::{FileSystemJitStore, JitStore};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::io;
use wgpu::{AdapterInfo, Device, Features, PipelineCache, PipelineCacheDescriptor};

/// A shader module, and where it came from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadedModule {
    /// The module. Its overrides get their values where a pipeline is made.
    pub module: wgpu::ShaderModule,
    /// The key of the request.
    pub key: [u8; 32],
    /// Where it came from.
    pub source: Source,
    /// What was passed over on the way.
    pub notes: Vec<Note>,
}

/// The module of a request, without its text being parsed where it is embedded or on disk.
///
/// wgpu validates it and keeps every check, as for text. What it does not accept on this device (a
/// feature that the device lacks) is reported by wgpu, through the device's error scopes.
///
/// # Errors
///
/// As [`load_or_lower`](super::load_or_lower).
pub fn shader_module(device: &Device, request: &Request<'_>) -> Result<LoadedModule, ShaderError> {
    shader_module_with(device, request, &Config::default())
}

/// [`shader_module`] with chosen tiers.
///
/// # Errors
///
/// As there.
pub fn shader_module_with(
    device: &Device,
    request: &Request<'_>,
    config: &Config,
) -> Result<LoadedModule, ShaderError> {
    let lowered = load_or_lower_with(&request.with_kind(Kind::Ir), config)?;
    let Artifact::Ir(module) = lowered.artifact else {
        return Err(ShaderError::new(
            request.path(),
            Stage::Request,
            "the shader was not loaded as IR",
            "this is a fault of cutile-embed; please report it",
        ));
    };
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(request.path()),
        source: wgpu::ShaderSource::Naga(Cow::Owned(*module)),
    });
    Ok(LoadedModule { module, key: lowered.key, source: lowered.source, notes: lowered.notes })
}

/// What tells an adapter and its driver, for what only they can read.
fn identity(adapter: &AdapterInfo) -> String {
    // Without `..`: whether a field that is added tells adapters apart must be decided.
    let AdapterInfo {
        name,
        vendor,
        device,
        device_type,
        // The same card in another slot is the same card.
        device_pci_bus_id: _,
        driver,
        driver_info,
        backend,
        subgroup_min_size,
        subgroup_max_size,
        transient_saves_memory: _,
        // What the application chose, not the adapter.
        limit_bucket: _,
    } = adapter;
    format!(
        "{backend:?} {vendor:#x} {device:#x} {device_type:?} {name:?} {driver:?} {driver_info:?} \
         {subgroup_min_size} {subgroup_max_size}"
    )
}

/// The preimage of the key of a pipeline cache.
fn preimage(adapter: &AdapterInfo, name: &str) -> Vec<u8> {
    let fields = Fields {
        kind: "pipeline-cache",
        naga: NAGA_VERSION,
        options: [0; 32],
        text_sha256: Sha256::digest(name).into(),
        entry_points: &[],
        constants: &[],
        capabilities: 0,
        adapter: Some(&identity(adapter)),
    };
    fields.preimage()
}

/// The key of the pipeline cache of this name on disk: it changes with the adapter and its driver,
/// as they are, and with no environment variable.
#[must_use]
pub fn pipeline_cache_key(adapter: &AdapterInfo, name: &str) -> [u8; 32] {
    Sha256::digest(preimage(adapter, name)).into()
}

fn store(config: &Config) -> Option<io::Result<FileSystemJitStore>> {
    let dir = config.disk_dir()?;
    Some(FileSystemJitStore::private(dir).map(|store| store.longest_entry(MAX_ENTRY_BYTES)))
}

/// The driver's pipeline cache of this name, from the disk tier, or an empty one. `None` where the
/// device was made without `Features::PIPELINE_CACHE`.
///
/// What is on disk is the driver's own form of pipelines, so its key holds the adapter and the
/// version of its driver: after either changes, the cache starts empty. Give it to the descriptors
/// of pipelines, and to [`store_pipeline_cache`] when they are made.
///
/// # Security
///
/// Drivers do not check this data as wgpu checks shaders. It is read from the disk tier only, whose
/// folder is the user's alone, and only whole; who can write there is trusted.
#[must_use]
pub fn pipeline_cache(
    device: &Device,
    adapter: &AdapterInfo,
    name: &str,
    config: &Config,
) -> Option<PipelineCache> {
    if !device.features().contains(Features::PIPELINE_CACHE) {
        return None;
    }
    let data = stored(adapter, name, config);
    let descriptor =
        PipelineCacheDescriptor { label: Some(name), data: data.as_deref(), fallback: true };
    // SAFETY: the data is what `PipelineCache::get_data` returned for an adapter and driver of this
    // identity: it comes from a folder that only this user can write, and its digest holds.
    Some(unsafe { device.create_pipeline_cache(&descriptor) })
}

fn stored(adapter: &AdapterInfo, name: &str, config: &Config) -> Option<Vec<u8>> {
    let preimage = preimage(adapter, name);
    let key = key_text(&Sha256::digest(&preimage).into());
    let entry = store(config)?.ok()?.get(&key).ok()??;
    decode_entry(&entry, &preimage).ok().map(<[u8]>::to_vec)
}

/// Puts what a pipeline cache holds by now on disk, for the next process. Does nothing where there
/// is no disk tier, or the driver gives nothing.
///
/// # Errors
///
/// What the file system says; passing over it loses nothing but time in the next process.
pub fn store_pipeline_cache(
    cache: &PipelineCache,
    adapter: &AdapterInfo,
    name: &str,
    config: &Config,
) -> io::Result<()> {
    let (Some(store), Some(data)) = (store(config), cache.get_data()) else { return Ok(()) };
    put(&store?, &preimage(adapter, name), &data)
}

fn put(store: &FileSystemJitStore, preimage: &[u8], data: &[u8]) -> io::Result<()> {
    let Some(entry) = encode_entry(preimage, data) else { return Ok(()) };
    store.put(&key_text(&Sha256::digest(preimage).into()), &entry)
}

#[cfg(test)]
mod tests;
