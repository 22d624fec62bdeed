//! Embedded, then disk, then lowered.
//!
//! A disk that is full, read-only or not to be trusted never fails a request: it is counted, said in
//! the notes of the answer, and passed over. What was lowered is put on disk for the next process.
//! Threads that ask for one thing at once lower it once.

use super::NAGA_VERSION;
use super::constants::{check_constants, resolve};
use super::emit::{decode_ir, emit_spirv, emit_wgsl, encode_ir};
use super::entry::{MAX_ENTRY_BYTES, decode_entry, encode_entry};
use super::error::{ShaderError, Stage};
use super::front::{Checked, front_end_calls, parse, validate};
use super::key::preimage;
use super::request::{Kind, Request};
use super::text::{BuiltAs, text_in};
use crate::bundle::bundles;
use crate::key::key_text;
use crate::pack::{Pack, PackError};
use crate::store::{FileSystemJitStore, JitStore, user_cache_of_process};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
#[cfg(unix)]
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Where the disk tier is on Unix, from the values of `XDG_CACHE_HOME` and `HOME`:
/// `cutile/shaders` below the first, or below `.cache` of the second. `None` where neither is an
/// absolute path: then there is no disk tier, and never one in the working directory.
#[cfg(unix)]
#[must_use]
pub fn cache_dir(xdg_cache_home: Option<&OsStr>, home: Option<&OsStr>) -> Option<PathBuf> {
    crate::store::user_cache(xdg_cache_home, home).ok().map(|cache| shaders(&cache))
}

fn shaders(cache: &Path) -> PathBuf {
    cache.join("cutile").join("shaders")
}

/// Which tiers are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Config {
    embedded: bool,
    disk: Option<PathBuf>,
}

impl Default for Config {
    /// Both tiers; the disk tier at the user's cache folder.
    fn default() -> Self {
        let disk = user_cache_of_process().ok().map(|cache| shaders(&cache));
        Self { embedded: true, disk }
    }
}

impl Config {
    /// Whether embedded shaders are served.
    ///
    /// Default: they are.
    pub fn embedded(mut self, on: bool) -> Self {
        self.embedded = on;
        self
    }

    /// Folder of the disk tier, `None` for no such tier. It is made where it is missing, 0700; one
    /// that others can enter is not used.
    ///
    /// Default: `cutile/shaders` in the user's cache folder, see [`cache_dir`].
    pub fn disk(mut self, dir: Option<PathBuf>) -> Self {
        self.disk = dir;
        self
    }

    #[cfg(feature = "wgpu")]
    pub(super) fn disk_dir(&self) -> Option<&Path> {
        self.disk.as_deref()
    }
}

/// Where an artifact came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The binary.
    Embedded,
    /// The disk tier.
    Disk,
    /// naga, just now.
    Lowered,
}

impl Source {
    /// `embedded`, `disk` or `lowered`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Disk => "disk",
            Self::Lowered => "lowered",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A lowered shader.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Artifact {
    /// naga's module, overrides unresolved.
    Ir(Box<naga::Module>),
    /// SPIR-V words, whatever the alignment of what they were read from.
    SpirV(Vec<u32>),
    /// WGSL.
    Wgsl(String),
}

impl Artifact {
    fn decode(kind: Kind, payload: &[u8]) -> Option<Self> {
        match kind {
            Kind::Ir => decode_ir(payload).map(|module| Self::Ir(Box::new(module))),
            Kind::SpirV => {
                let (words, rest) = payload.as_chunks::<4>();
                let words = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
                rest.is_empty().then_some(Self::SpirV(words))
            }
            Kind::Wgsl => String::from_utf8(payload.to_vec()).ok().map(Self::Wgsl),
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ir(module) => encode_ir(module),
            Self::SpirV(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Self::Wgsl(text) => text.clone().into_bytes(),
        }
    }
}

/// What a program should know beside the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A bundle's pack cannot be used.
    UnusablePack(PackError),
    /// An entry was there and could not be used; the text was lowered instead, or a lower tier
    /// asked.
    DamagedEntry {
        /// The tier that had it.
        tier: Source,
        /// What is wrong with it.
        why: String,
    },
    /// The shader is embedded as IR of another naga, which this one would misread.
    OtherNaga {
        /// The version that made it.
        found: String,
    },
    /// The shader is embedded, and not as it was asked for.
    OtherwiseBuilt(Vec<BuiltAs>),
    /// The disk tier was not used.
    NoDisk(String),
    /// What was lowered could not be put on disk.
    NotStored(String),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusablePack(error) => write!(f, "the shaders of a bundle are not used: {error}"),
            Self::DamagedEntry { tier, why } => {
                write!(f, "the {tier} entry was not used: {why}")
            }
            Self::OtherNaga { found } => write!(
                f,
                "it is embedded as IR of naga {found} and this program has naga {NAGA_VERSION}: \
                 its text is used. Build the crate that embeds it again"
            ),
            Self::OtherwiseBuilt(built) => {
                f.write_str("it is embedded, but not as it was asked for; embedded:")?;
                for BuiltAs { path, entry_points, features } in built {
                    let of = |names: &[String]| match names {
                        [] => "default".to_owned(),
                        names => names.join(", "),
                    };
                    write!(
                        f,
                        " {path} (entry points: {}; features: {})",
                        of(entry_points),
                        of(features)
                    )?;
                }
                Ok(())
            }
            Self::NoDisk(why) => write!(f, "the disk cache is not used: {why}"),
            Self::NotStored(why) => write!(f, "it was not put into the disk cache: {why}"),
        }
    }
}

/// The answer to a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Lowered {
    /// The shader in the form that was asked for.
    pub artifact: Artifact,
    /// The key of the request.
    pub key: [u8; 32],
    /// Where it came from.
    pub source: Source,
    /// What was passed over on the way.
    pub notes: Vec<Note>,
}

impl Lowered {
    /// Whether nothing had to be lowered.
    #[must_use]
    pub fn cache_hit(&self) -> bool {
        self.source != Source::Lowered
    }
}

/// Counters of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that the binary answered.
    pub embedded: u64,
    /// Requests that the disk tier answered.
    pub disk: u64,
    /// Requests for which naga ran.
    pub lowered: u64,
    /// Requests that got what another thread lowered meanwhile.
    pub coalesced: u64,
    /// Times that the disk tier failed.
    pub disk_errors: u64,
    /// Runs of naga's WGSL front end.
    pub front_end_calls: u64,
}

static EMBEDDED: AtomicU64 = AtomicU64::new(0);
static DISK: AtomicU64 = AtomicU64::new(0);
static LOWERED: AtomicU64 = AtomicU64::new(0);
static COALESCED: AtomicU64 = AtomicU64::new(0);
static DISK_ERRORS: AtomicU64 = AtomicU64::new(0);

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The counters now.
#[must_use]
pub fn stats() -> Stats {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Stats {
        embedded: read(&EMBEDDED),
        disk: read(&DISK),
        lowered: read(&LOWERED),
        coalesced: read(&COALESCED),
        disk_errors: read(&DISK_ERRORS),
        front_end_calls: front_end_calls(),
    }
}

/// The shader of a request: embedded, from disk, or lowered by naga.
///
/// # Errors
///
/// Where the shader or the request is wrong: with place, source and what to do. Never for a disk.
pub fn load_or_lower(request: &Request<'_>) -> Result<Lowered, ShaderError> {
    load_or_lower_with(request, &Config::default())
}

/// [`load_or_lower`] with chosen tiers.
///
/// # Errors
///
/// As there.
pub fn load_or_lower_with(request: &Request<'_>, config: &Config) -> Result<Lowered, ShaderError> {
    load_from(request, config, packs())
}

/// The shaders of all bundles. Each pack's index is checked once in a process.
pub(super) fn packs() -> &'static [Result<Pack<'static>, PackError>] {
    static PACKS: OnceLock<Vec<Result<Pack<'static>, PackError>>> = OnceLock::new();
    PACKS.get_or_init(|| bundles().iter().filter_map(|bundle| bundle.shaders()).collect())
}

type Packs<'p> = [Result<Pack<'p>, PackError>];

fn load_from(
    request: &Request<'_>,
    config: &Config,
    packs: &Packs<'_>,
) -> Result<Lowered, ShaderError> {
    let asked = Asked { request, preimage: preimage(request)? };
    let mut notes = Vec::new();
    if config.embedded {
        if let Some(artifact) = asked.embedded(packs, &mut notes) {
            check_unkeyed(request, &artifact)?;
            count(&EMBEDDED);
            return Ok(asked.answer(artifact, Source::Embedded, notes));
        }
        notes.extend(asked.why_not_embedded(packs));
    }
    let run = || {
        let mut notes = Vec::new();
        let (artifact, source) = asked.disk_or_lower(config, packs, &mut notes)?;
        Ok(asked.answer(artifact, source, notes))
    };
    let (shared, led) = single_flight((asked.key(), config.clone()), run);
    if !led {
        count(&COALESCED);
    }
    let mut lowered = match shared {
        // It is of another request, and has its path.
        Err(_) if !led => run(),
        shared => shared,
    }?;
    check_unkeyed(request, &lowered.artifact)?;
    notes.append(&mut lowered.notes);
    Ok(Lowered { notes, ..lowered })
}

/// What is wrong with a request though its key says nothing of it: values that a module in IR is not
/// made with.
fn check_unkeyed(request: &Request<'_>, artifact: &Artifact) -> Result<(), ShaderError> {
    match artifact {
        Artifact::Ir(module) => {
            check_constants(request.path(), module, &request.sorted_constants())
        }
        Artifact::SpirV(_) | Artifact::Wgsl(_) => Ok(()),
    }
}

type Flight = Arc<OnceLock<Result<Lowered, ShaderError>>>;

/// By key, folder of the disk tier, and whether embedded shaders are served.
type Flights = HashMap<([u8; 32], PathBuf, bool), Flight>;

/// Runs `run` once for all threads that ask for `what` at the same time; says whether it was this
/// thread that ran it. A panic in it is that thread's, and another one takes over.
fn single_flight(
    what: ([u8; 32], Config),
    run: impl FnOnce() -> Result<Lowered, ShaderError>,
) -> (Result<Lowered, ShaderError>, bool) {
    static FLIGHTS: OnceLock<Mutex<Flights>> = OnceLock::new();
    let flights = FLIGHTS.get_or_init(Mutex::default);
    let (key, Config { embedded, disk }) = what;
    let what = (key, disk.unwrap_or_default(), embedded);
    let lock = || flights.lock().unwrap_or_else(PoisonError::into_inner);
    let flight = lock().entry(what.clone()).or_default().clone();
    let mut led = false;
    let result = flight
        .get_or_init(|| {
            led = true;
            run()
        })
        .clone();
    if led {
        lock().remove(&what);
    }
    (result, led)
}

struct Asked<'r, 'a> {
    request: &'r Request<'a>,
    preimage: Vec<u8>,
}

impl Asked<'_, '_> {
    fn key(&self) -> [u8; 32] {
        Sha256::digest(&self.preimage).into()
    }

    fn answer(&self, artifact: Artifact, source: Source, notes: Vec<Note>) -> Lowered {
        Lowered { artifact, key: self.key(), source, notes }
    }

    fn decode(&self, entry: &[u8]) -> Result<Artifact, String> {
        let payload = decode_entry(entry, &self.preimage).map_err(|error| error.to_string())?;
        Artifact::decode(self.request.requested_kind(), payload)
            .ok_or_else(|| "its payload does not decode".to_owned())
    }

    fn embedded(&self, packs: &Packs<'_>, notes: &mut Vec<Note>) -> Option<Artifact> {
        let key = self.key();
        for pack in packs {
            let pack = match pack {
                Ok(pack) => pack,
                Err(error) => {
                    notes.push(Note::UnusablePack(error.clone()));
                    continue;
                }
            };
            let Some(entry) = pack.get(&key) else { continue };
            let decoded = entry
                .payload()
                .map_err(|error| error.to_string())
                .and_then(|entry| self.decode(&entry));
            match decoded {
                Ok(artifact) => return Some(artifact),
                Err(why) => notes.push(Note::DamagedEntry { tier: Source::Embedded, why }),
            }
        }
        None
    }

    /// What the bundles have of this shader instead.
    fn why_not_embedded(&self, packs: &Packs<'_>) -> Option<Note> {
        let text = text_in(packs, &self.request.text_sha256())?;
        if text.naga != NAGA_VERSION {
            return Some(Note::OtherNaga { found: text.naga });
        }
        let asked = |built: &BuiltAs| {
            let names = |names: &[String]| {
                let mut names = names.to_vec();
                names.sort();
                names
            };
            names(&built.entry_points) == self.request.sorted_entry_points()
                && names(&built.features) == self.request.sorted_features()
        };
        (!text.built.iter().any(asked)).then_some(Note::OtherwiseBuilt(text.built))
    }

    fn disk_or_lower(
        &self,
        config: &Config,
        packs: &Packs<'_>,
        notes: &mut Vec<Note>,
    ) -> Result<(Artifact, Source), ShaderError> {
        let key = key_text(&self.key());
        let disk = config.disk.as_deref().and_then(|dir| {
            FileSystemJitStore::private(dir)
                .map(|store| store.longest_entry(MAX_ENTRY_BYTES))
                .inspect_err(|error| {
                    count(&DISK_ERRORS);
                    notes.push(Note::NoDisk(error.to_string()));
                })
                .ok()
        });
        if let Some(disk) = &disk {
            match disk.get(&key) {
                Ok(None) => {}
                Ok(Some(entry)) => match self.decode(&entry) {
                    Ok(artifact) => {
                        count(&DISK);
                        return Ok((artifact, Source::Disk));
                    }
                    // The entry that is put below takes its place.
                    Err(why) => notes.push(Note::DamagedEntry { tier: Source::Disk, why }),
                },
                Err(error) => {
                    count(&DISK_ERRORS);
                    let why = error.to_string();
                    notes.push(Note::DamagedEntry { tier: Source::Disk, why });
                }
            }
        }
        let ir = if config.embedded { self.embedded_ir(packs) } else { None };
        let artifact = lower(self.request, ir)?;
        count(&LOWERED);
        if let Some(disk) = &disk
            && let Some(entry) = encode_entry(&self.preimage, &artifact.encode())
            && let Err(error) = disk.put(&key, &entry)
        {
            count(&DISK_ERRORS);
            notes.push(Note::NotStored(error.to_string()));
        }
        Ok((artifact, Source::Lowered))
    }

    /// The module that SPIR-V or WGSL is written from, without its text being parsed.
    fn embedded_ir(&self, packs: &Packs<'_>) -> Option<Checked> {
        if self.request.requested_kind() == Kind::Ir {
            return None;
        }
        let request = self.request.with_kind(Kind::Ir);
        let asked = Asked { preimage: preimage(&request).ok()?, request: &request };
        let Some(Artifact::Ir(module)) = asked.embedded(packs, &mut Vec::new()) else {
            return None;
        };
        // It was valid under these capabilities when it was put there, and its digest holds.
        let info = validate(request.path(), "", &module, request.capabilities().ok()?).ok()?;
        Some(Checked { module: *module, info })
    }
}

/// Lowers a request, from an already checked module where there is one.
fn lower(request: &Request<'_>, ir: Option<Checked>) -> Result<Artifact, ShaderError> {
    let path = request.path();
    let capabilities = request.capabilities()?;
    let constants = request.sorted_constants();
    let write = |text: &str, checked: Checked| match request.requested_kind() {
        Kind::Ir => Ok(Artifact::Ir(Box::new(checked.module))),
        Kind::SpirV => {
            let resolved = resolve(path, text, &checked, &constants, capabilities)?;
            emit_spirv(path, &resolved).map(Artifact::SpirV)
        }
        Kind::Wgsl => {
            let resolved = resolve(path, text, &checked, &constants, capabilities)?;
            emit_wgsl(path, &resolved).map(Artifact::Wgsl)
        }
    };
    if let Some(checked) = ir {
        // Its places in the text are gone: an error is told better from the text.
        if let Ok(artifact) = write("", checked) {
            return Ok(artifact);
        }
    }
    let text = request.text()?;
    let checked = parse(path, &text, capabilities)?.select(
        path,
        &text,
        &request.sorted_entry_points(),
        capabilities,
    )?;
    write(&text, checked)
}

/// Lowers a request and makes what a pack holds for it: its key, and the entry. For `cutile-build`.
///
/// # Errors
///
/// Where the shader or the request is wrong, and where the entry would be longer than the bounds.
pub fn entry_of(request: &Request<'_>) -> Result<([u8; 32], Vec<u8>), ShaderError> {
    let preimage = preimage(request)?;
    let artifact = lower(request, None)?;
    check_unkeyed(request, &artifact)?;
    let entry = encode_entry(&preimage, &artifact.encode()).ok_or_else(|| {
        ShaderError::new(
            request.path(),
            Stage::Emit,
            "the lowered shader is longer than an entry may be (16 MiB)",
            "split the shader",
        )
    })?;
    Ok((Sha256::digest(&preimage).into(), entry))
}

#[cfg(test)]
mod tests;
