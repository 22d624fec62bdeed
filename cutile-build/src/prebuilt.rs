//! The folder `prebuilt` of a crate: a bundle that `cargo cutile prebuild` made, to be committed and
//! published with the sources. A build takes it where it has no toolkit, or no kernels in its script;
//! where it has both, it takes what is still as the sources have it and compiles the rest.
//!
//! It is as trusted as the sources it lies among. That it is whole is checked here, and that the
//! program has the modules it was made from, in `cutile_embed::install`.
//!
//! | file | what |
//! |---|---|
//! | `manifest.json` | as in a bundle, [`cutile_embed::manifest`] |
//! | `images-<target>.pack` | as in a bundle, [`cutile_embed::pack`] |
//!
//! The index and the packs that are embedded are made of these anew, so what is in a folder and not
//! in its manifest is not embedded.

use crate::bundle::{Contents, Image, MANIFEST, PREBUILT, Shaders, pack_name, sha256};
use crate::environment::BuildEnv;
use crate::error::BuildError;
use crate::package::MetadataConfig;
use crate::targets::{Target, chosen_targets};
#[cfg(feature = "cuda")]
use crate::{reuse::Reuse, toolkit::Identity};
use cutile_embed::entry::EntryHeader;
use cutile_embed::index::CUTILE_VERSION;
use cutile_embed::key::key_bytes;
use cutile_embed::manifest::{Codegen, ImageRow, MANIFEST_SCHEMA, Manifest};
use cutile_embed::pack::Pack;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Nothing that a crate ships is longer.
const MAX_FILE: u64 = 1 << 30;

/// A prebuilt bundle, whole and of this crate.
#[derive(Debug)]
pub(crate) struct Prebuilt {
    folder: PathBuf,
    manifest: Manifest,
    /// The packs' bytes, by target.
    packs: BTreeMap<String, Vec<u8>>,
}

/// The prebuilt bundle of the crate; `None` where it has none, or it is to be ignored.
pub(crate) fn find(env: &BuildEnv) -> Result<Option<Prebuilt>, BuildError> {
    let folder = env.manifest_dir.join(PREBUILT);
    // In a build that skips kernels it is not looked at, so that a damaged one can be made anew.
    if env.ignore_prebuilt || env.skip_reason().is_some() || !is_there(env) {
        return Ok(None);
    }
    println!("cargo::rerun-if-changed={PREBUILT}");
    let read = || {
        let prebuilt = Prebuilt::read(&folder)?;
        prebuilt.check(&env.package_name)?;
        Ok(prebuilt)
    };
    read().map(Some).map_err(|what| BuildError::Prebuilt { path: folder.clone(), what })
}

/// Where a crate that launches nothing has none: Cargo runs the script each time until there is one.
pub(crate) fn watch() {
    println!("cargo::rerun-if-changed={PREBUILT}/{MANIFEST}");
}

/// Whether the crate has one, whatever is in it.
pub(crate) fn is_there(env: &BuildEnv) -> bool {
    env.manifest_dir.join(PREBUILT).join(MANIFEST).is_file()
}

/// The contents of a bundle for the chosen targets, or for all that there are.
pub(crate) fn embed(
    env: &BuildEnv,
    metadata: &MetadataConfig,
    prebuilt: &Prebuilt,
    targets: Option<&[String]>,
) -> Result<Contents, BuildError> {
    let targets = chosen_targets(env, metadata, targets)?;
    let (contents, missing) = prebuilt.contents(env, targets.as_deref())?;
    for target in missing {
        println!(
            "cargo::warning=nothing is embedded for {target}: the folder {PREBUILT} has images for {} \
             only; run cargo cutile prebuild -p {}",
            prebuilt.manifest.targets.join(", "),
            env.package_name
        );
    }
    Ok(contents)
}

impl Prebuilt {
    fn read(folder: &Path) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        struct Schema {
            schema: u32,
        }
        let text = bounded(&folder.join(MANIFEST))?;
        let malformed = |error: serde_json::Error| format!("{MANIFEST} is no manifest: {error}");
        let Schema { schema } = serde_json::from_slice(&text).map_err(malformed)?;
        if schema != MANIFEST_SCHEMA {
            return Err(format!(
                "{MANIFEST} has schema {schema}, and this cutile-build reads {MANIFEST_SCHEMA}"
            ));
        }
        let manifest: Manifest = serde_json::from_slice(&text).map_err(malformed)?;
        let mut packs = BTreeMap::new();
        for target in &manifest.targets {
            // It becomes the name of a file.
            Target::parse_list(MANIFEST, &[target]).map_err(|error| error.to_string())?;
            packs.insert(target.clone(), bounded(&folder.join(pack_name(target)))?);
        }
        Ok(Self { folder: folder.to_owned(), manifest, packs })
    }

    /// Whether every image that the manifest names is in its pack, as the manifest has it.
    fn check(&self, package: &str) -> Result<(), String> {
        let own = &self.manifest.package.name;
        if own != package {
            return Err(format!("it is that of the package {own}, and this one is {package}"));
        }
        if let Some(why) = &self.manifest.skipped {
            return Err(format!("it has no kernels: {why}"));
        }
        let cutile = &self.manifest.cutile;
        if cutile != CUTILE_VERSION {
            return Err(format!(
                "cutile {cutile} made it, and this cutile-embed is for {CUTILE_VERSION}"
            ));
        }
        for (target, pack) in self.parsed()? {
            for row in &self.manifest.kernels {
                let Some(image) = row.images.get(target) else { continue };
                check_image(&pack, target, image).map_err(|what| {
                    format!("{} for {target}: {what}", row.specialization.name())
                })?;
            }
        }
        Ok(())
    }

    fn parsed(&self) -> Result<Vec<(&str, Pack<'_>)>, String> {
        let mut packs = Vec::new();
        for (target, bytes) in &self.packs {
            let pack = Pack::parse(bytes);
            packs.push((
                target.as_str(),
                pack.map_err(|error| format!("{}: {error}", pack_name(target)))?,
            ));
        }
        Ok(packs)
    }

    /// The contents of a bundle with the images for `targets`, or for all that there are; with what
    /// it lacks of these.
    fn contents(
        &self,
        env: &BuildEnv,
        targets: Option<&[Target]>,
    ) -> Result<(Contents, Vec<Target>), BuildError> {
        let unusable = |what| BuildError::Prebuilt { path: self.folder.clone(), what };
        let (here, made) = (env.device_debug_level()?, self.manifest.codegen);
        if made != here {
            // Not an error: where there is a toolkit, the program runs without the bundle.
            println!(
                "cargo::warning=the folder {PREBUILT} is for launches with the debug level {}, and \
                 in this profile they have {}: nothing of it will be used. Set CUDA_RUST_DEBUG = \
                 {:?} under [env] in .cargo/config.toml, or prebuild with --debug-level {}",
                level(made),
                level(here),
                level(made),
                level(here)
            );
        }
        let wanted = |name: &str| {
            targets.is_none_or(|targets| targets.iter().any(|target| target.as_str() == name))
        };
        let mut by_target = Vec::new();
        for (target, pack) in self.parsed().map_err(unusable)? {
            if !wanted(target) {
                continue;
            }
            let mut images = BTreeMap::new();
            for row in &self.manifest.kernels {
                let Some(image) = row.images.get(target) else { continue };
                let entry = check_image(&pack, target, image).map_err(unusable)?;
                images.insert(
                    row.specialization.clone(),
                    Image {
                        key: image.key.clone(),
                        entry,
                        bytes: image.bytes,
                        sha256: image.sha256.clone(),
                        validator: image.validator.clone(),
                    },
                );
            }
            by_target.push((target.to_owned(), images));
        }
        by_target.sort_by_key(|(target, _)| (target.len(), target.clone()));
        let has = |target: &&Target| !self.packs.contains_key(target.as_str());
        let missing = targets.unwrap_or_default().iter().filter(has).copied().collect();
        let left_out = self.manifest.left_out.iter().filter(|left| wanted(&left.target));
        let contents = Contents {
            package: env.package(),
            cutile: self.manifest.cutile.clone(),
            toolkit: self.manifest.toolkit.clone(),
            codegen: made,
            prebuilt: true,
            skipped: None,
            left_out: left_out.cloned().collect(),
            targets: by_target,
            shaders: Shaders::default(),
        };
        Ok((contents, missing))
    }

    /// Its images for `targets`, where this toolkit made them; with another toolkit, none.
    #[cfg(feature = "cuda")]
    pub(crate) fn reuse(&self, identity: &Identity, targets: &[Target]) -> Reuse {
        let same_toolkit = self.manifest.toolkit.as_ref().is_some_and(|made| {
            made.tileiras == identity.fingerprint()
                && made.ptxas == identity.ptxas.trim()
                && made.nvvm == identity.nvvm_digest
        });
        let mut packs = self.parsed().unwrap_or_default();
        packs.retain(|(target, _)| {
            same_toolkit && targets.iter().any(|wanted| wanted.as_str() == *target)
        });
        Reuse::new(&packs, identity.fingerprint())
    }
}

/// The entry of an image.
fn check_image(pack: &Pack<'_>, target: &str, row: &ImageRow) -> Result<Vec<u8>, String> {
    let key = key_bytes(&row.key).ok_or("its key is not 64 hex digits")?;
    let entry = pack.get(&key).ok_or("its image is not in the pack")?;
    let payload = entry.payload().map_err(|error| error.to_string())?;
    let header = EntryHeader::parse(&payload).map_err(|error| error.to_string())?;
    if header.gpu_name() != target {
        return Err(format!("its image is for {}", header.gpu_name()));
    }
    if header.cubin().len() as u64 != row.bytes || sha256(header.cubin()) != row.sha256 {
        return Err("its image is not the one of the manifest".to_owned());
    }
    Ok(payload.into_owned())
}

/// As `CUDA_RUST_DEBUG` and `CUTILE_JIT_DEBUG` take it. The default of a program is always one of the three.
pub(crate) fn level(codegen: Codegen) -> &'static str {
    match codegen {
        Codegen::Debug => "full",
        Codegen::Optimized { lineinfo: true, .. } => "line",
        Codegen::Optimized { lineinfo: false, .. } => "none",
    }
}

fn bounded(path: &Path) -> Result<Vec<u8>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut bytes = Vec::new();
    let read = |bytes: &mut Vec<u8>| -> io::Result<u64> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        file.take(MAX_FILE + 1).read_to_end(bytes).map(|length| length as u64)
    };
    match read(&mut bytes) {
        Ok(length) if length <= MAX_FILE => Ok(bytes),
        Ok(_) => Err(format!("{name} is longer than {MAX_FILE} bytes")),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}
