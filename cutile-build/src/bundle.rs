//! Writes what `cutile_embed::embed!` includes: packs, index, manifest.
//!
//! ```text
//! OUT_DIR/cutile/
//!   manifest.json            for people and tools
//!   index.bin                for install: per target, its specializations
//!   images-<target>.pack     one a target
//!   shaders.pack             where there are shaders
//! OUT_DIR/cutile_shaders.rs  the generated module, where it is asked for: not embedded
//! ```
//!
//! The same contents give the same bytes. A file whose bytes do not change is not written again,
//! and one that no longer belongs there is removed. A build that fails removes what `embed!` and the
//! program would take, so that neither takes the one before.

use crate::error::BuildError;
use cutile_embed::index::{Index, IndexRow, IndexTarget, encode_rows};
use cutile_embed::key::{key_bytes, key_text};
use cutile_embed::manifest::{
    Codegen, ImageRow, LeftOut, MANIFEST_SCHEMA, Manifest, ManifestRow, Package, ShaderRow,
    Specialization, ToolkitIdentity, Validator,
};
use cutile_embed::pack::PackWriter;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

/// An image of a specialization for one target.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// The key of the entry, 64 hex.
    pub(crate) key: String,
    /// Header and cubin, as upstream's disk cache holds them.
    pub(crate) entry: Vec<u8>,
    /// The cubin's length and digest.
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    pub(crate) validator: Validator,
}

/// What a bundle is made of.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) package: Package,
    pub(crate) cutile: String,
    pub(crate) toolkit: Option<ToolkitIdentity>,
    pub(crate) codegen: Codegen,
    /// Whether the images come from the crate's `prebuilt` folder.
    pub(crate) prebuilt: bool,
    pub(crate) skipped: Option<String>,
    pub(crate) left_out: Vec<LeftOut>,
    /// By target, in the order of their numbers.
    pub(crate) targets: Vec<(String, BTreeMap<Specialization, Image>)>,
    pub(crate) shaders: Shaders,
}

impl Contents {
    /// Those of a crate without kernels: nothing in them depends on CUDA, nor on the profile.
    pub(crate) fn without_kernels(package: Package) -> Self {
        Self {
            package,
            cutile: String::new(),
            toolkit: None,
            codegen: Codegen::Optimized { level: 3, lineinfo: false },
            prebuilt: false,
            skipped: None,
            left_out: Vec::new(),
            targets: Vec::new(),
            shaders: Shaders::default(),
        }
    }
}

/// The shaders of a bundle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shaders {
    /// By path.
    pub(crate) rows: Vec<ShaderRow>,
    /// Entries of the pack, by key.
    pub(crate) entries: BTreeMap<[u8; 32], Vec<u8>>,
}

/// Counts for the summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) kernels: usize,
    pub(crate) images: usize,
    pub(crate) bytes: u64,
    pub(crate) shaders: usize,
    pub(crate) shader_bytes: u64,
}

/// Of the images. A first launch waits for the decoder, so that speed counts: of the release images of
/// example-app, 26 kB on average, level -1 leaves 33 % and decodes a fifth faster than 3, which leaves
/// 29 %, and than 19, which leaves 25 %; BENCHMARKS.md has the table. Shaders are stored raw: they are
/// short, and a program without kernels needs no decoder so.
const ZSTD_LEVEL: i32 = -1;

/// The name of the shaders' pack.
const SHADERS: &str = "shaders.pack";
/// The name of the generated module, beside the bundle.
const MODULE: &str = "cutile_shaders.rs";

/// Name of the folder in a crate that has its prebuilt bundle.
pub(crate) const PREBUILT: &str = "prebuilt";
/// Name of the index, which is not part of a prebuilt bundle: it is made of the others.
pub(crate) const INDEX: &str = "index.bin";
/// Name of the manifest.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The name of a target's pack.
pub(crate) fn pack_name(target: &str) -> String {
    format!("images-{target}.pack")
}

/// The files of a bundle, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Writes the bundle into `dir`.
pub(crate) fn write(dir: &Path, contents: &Contents) -> Result<Written, BuildError> {
    let failed = |error: io::Error| BuildError::io("the bundle cannot be written", dir, error);
    let (files, written) = files(contents).map_err(failed)?;
    write_files(dir, &files).map_err(failed)?;
    Ok(written)
}

/// Makes a folder hold these files and no others.
pub(crate) fn write_files(dir: &Path, files: &Files) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_none_or(|name| !files.contains_key(name)) {
            fs::remove_file(entry.path())?;
        }
    }
    for (name, bytes) in files {
        write_if_changed(&dir.join(name), bytes)?;
    }
    Ok(())
}

/// What a bundle is on disk.
pub(crate) fn files(contents: &Contents) -> io::Result<(Files, Written)> {
    let mut written = Written::default();
    let mut files = Files::new();
    let mut sections = Vec::new();
    let mut specializations = BTreeSet::new();
    for (target, images) in &contents.targets {
        let mut pack =
            PackWriter::new(&contents.package.name, &contents.package.version).compress(ZSTD_LEVEL);
        let mut rows = Vec::new();
        let mut keys = BTreeSet::new();
        for (specialization, image) in images {
            let key = key_bytes(&image.key)
                .ok_or_else(|| io::Error::other("a key is not 64 hex digits"))?;
            pack.insert(key, image.entry.clone())
                .map_err(|error| io::Error::other(error.to_string()))?;
            if keys.insert(key) {
                written.images += 1;
                written.bytes += image.bytes;
            }
            specializations.insert(specialization);
            rows.push(IndexRow {
                specialization: specialization.clone(),
                image: key,
                validator: image.validator.clone(),
            });
        }
        files.insert(pack_name(target), pack.finish());
        sections.push((target.as_str(), encode_rows(&rows), rows));
    }
    written.kernels = specializations.len();
    if !contents.shaders.entries.is_empty() {
        let mut pack = PackWriter::new(&contents.package.name, &contents.package.version);
        for (key, entry) in &contents.shaders.entries {
            pack.insert(*key, entry.clone())
                .map_err(|error| io::Error::other(error.to_string()))?;
        }
        let pack = pack.finish();
        written.shaders = contents.shaders.rows.len();
        written.shader_bytes = pack.len() as u64;
        files.insert(SHADERS.to_owned(), pack);
    }
    let index = Index {
        package: &contents.package.name,
        package_version: &contents.package.version,
        cutile: &contents.cutile,
        codegen: contents.codegen,
        prebuilt: contents.prebuilt,
        skipped: contents.skipped.as_deref(),
        kernels: u32::try_from(written.kernels).unwrap_or(u32::MAX),
        targets: sections
            .iter()
            .map(|(target, encoded, rows)| IndexTarget::new(target, rows, encoded))
            .collect(),
    };
    files.insert(INDEX.to_owned(), index.write());
    let mut manifest = serde_json::to_vec_pretty(&manifest(contents)).map_err(io::Error::other)?;
    manifest.push(b'\n');
    files.insert(MANIFEST.to_owned(), manifest);
    Ok((files, written))
}

/// Writes the generated module, or removes the one of a build that asked for it.
#[cfg(feature = "wgsl")]
pub(crate) fn write_module(out_dir: &Path, text: Option<&str>) -> Result<(), BuildError> {
    let path = out_dir.join(MODULE);
    match text {
        Some(text) => write_if_changed(&path, text.as_bytes()),
        None => remove(&path),
    }
    .map_err(|error| BuildError::io("the module of the shaders cannot be written", &path, error))
}

/// Removes what a crate would embed or include of a build before this one, which failed. A build
/// script can pass over an error; without these files the crate does not compile.
pub(crate) fn discard(out_dir: &Path) -> Result<(), BuildError> {
    let dir = out_dir.join("cutile");
    let [index, manifest, shaders] = [INDEX, MANIFEST, SHADERS].map(|name| dir.join(name));
    for path in [index, manifest, shaders, out_dir.join(MODULE)] {
        remove(&path).map_err(|error| {
            BuildError::io("what a build before this one made cannot be removed", &path, error)
        })?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::read(path) {
        Ok(old) if old == bytes => Ok(()),
        _ => fs::write(path, bytes),
    }
}

fn manifest(contents: &Contents) -> Manifest {
    let mut kernels: BTreeMap<&Specialization, BTreeMap<String, ImageRow>> = BTreeMap::new();
    for (target, images) in &contents.targets {
        for (specialization, image) in images {
            kernels.entry(specialization).or_default().insert(
                target.clone(),
                ImageRow {
                    key: image.key.clone(),
                    bytes: image.bytes,
                    sha256: image.sha256.clone(),
                    validator: image.validator.clone(),
                },
            );
        }
    }
    let mut left_out = contents.left_out.clone();
    left_out.sort();
    left_out.dedup();
    Manifest {
        schema: MANIFEST_SCHEMA,
        package: contents.package.clone(),
        cutile: contents.cutile.clone(),
        toolkit: contents.toolkit.clone(),
        targets: contents.targets.iter().map(|(target, _)| target.clone()).collect(),
        codegen: contents.codegen,
        skipped: contents.skipped.clone(),
        left_out,
        kernels: kernels
            .into_iter()
            .map(|(specialization, images)| ManifestRow {
                specialization: specialization.clone(),
                images,
            })
            .collect(),
        shaders: contents.shaders.rows.clone(),
    }
}

/// SHA-256 as 64 hex digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    key_text(&Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutile_embed::manifest::Options;
    use cutile_embed::pack::Pack;

    fn specialization(function: &str) -> Specialization {
        Specialization {
            source_hash: "00".into(),
            ..Specialization::new("kernels", function, Options::new(Codegen::Debug))
        }
    }

    fn contents(targets: &[&str]) -> Contents {
        let image = |byte: u8| Image {
            key: key_text(&[byte; 32]),
            entry: vec![byte; 40],
            bytes: 40,
            sha256: sha256(&[byte; 40]),
            validator: Validator { params: vec![], launch_checks: vec![] },
        };
        let images = |byte| {
            BTreeMap::from([
                (specialization("a"), image(byte)),
                (specialization("b"), image(byte)),
                (specialization("c"), image(byte + 1)),
            ])
        };
        Contents {
            package: Package { name: "p".into(), version: "1.2.3".into() },
            cutile: "0.5.0".into(),
            toolkit: None,
            codegen: Codegen::Debug,
            prebuilt: false,
            skipped: None,
            left_out: vec![],
            targets: targets.iter().map(|target| ((*target).to_owned(), images(1))).collect(),
            shaders: Shaders::default(),
        }
    }

    #[test]
    fn specializations_share_an_image() {
        let dir = tempfile::tempdir().unwrap();
        let written = write(dir.path(), &contents(&["sm_90"])).unwrap();
        assert_eq!(written, Written { kernels: 3, images: 2, bytes: 80, ..Written::default() });
        let pack = fs::read(dir.path().join("images-sm_90.pack")).unwrap();
        assert_eq!(Pack::parse(&pack).unwrap().len(), 2);
    }

    #[test]
    fn a_target_that_is_gone_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &contents(&["sm_80", "sm_90"])).unwrap();
        write(dir.path(), &contents(&["sm_90"])).unwrap();
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["images-sm_90.pack", "index.bin", "manifest.json"]);
        let index = fs::read(dir.path().join("index.bin")).unwrap();
        assert!(Index::parse(&index).unwrap().target("sm_80").is_none());
    }

    #[test]
    fn unchanged_files_are_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &contents(&["sm_90"])).unwrap();
        let file = dir.path().join("manifest.json");
        let old = std::time::SystemTime::UNIX_EPOCH;
        let handle = fs::File::options().write(true).open(&file).unwrap();
        handle.set_modified(old).unwrap();
        write(dir.path(), &contents(&["sm_90"])).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), old);
    }

    #[test]
    fn the_manifest_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &contents(&["sm_80", "sm_90"])).unwrap();
        let text = fs::read_to_string(dir.path().join("manifest.json")).unwrap();
        let back: Manifest = serde_json::from_str(&text).unwrap();
        assert_eq!(back.targets, ["sm_80", "sm_90"]);
        assert_eq!(back.kernels.len(), 3);
        assert_eq!(back.kernels[0].images.len(), 2);
    }
}
