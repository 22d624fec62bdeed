//! `[package.metadata.cutile]` of the crate that is being built.
//!
//! | key | type | what it is |
//! |---|---|---|
//! | `targets` | array of strings | the `sm_XX` to compile for |
//! | `targets-for` | table of arrays of strings | kernel to targets, where they are fewer |
//! | `shaders` | array of strings | globs of WGSL files |
//! | `shader` | array of tables | options of single shaders |
//!
//! Cargo reads the manifest, with `--no-deps --offline`: a build script never resolves a graph. For
//! a crate from a registry it would see another one than the build that it is part of.

use crate::environment::BuildEnv;
use crate::error::nearest;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, semver::Version};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// The keys of `[package.metadata.cutile]`.
pub const KEYS: [&str; 4] = ["targets", "targets-for", "shaders", "shader"];

/// What `[package.metadata.cutile]` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetadataConfig {
    /// `targets`, as they are written.
    pub targets: Option<Vec<String>>,
    /// `targets-for`: kernel to targets.
    pub targets_for: BTreeMap<String, Vec<String>>,
    /// `shaders`: globs.
    pub shaders: Vec<String>,
    /// `shader`: tables, as they are written.
    pub shader: Vec<Map<String, Value>>,
    /// What `[dependencies]` and `[build-dependencies]` ask of cutile.
    pub cutile: Vec<CutileRequirement>,
}

/// A dependency on cutile, as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutileRequirement {
    /// The table, as `[dependencies]`.
    pub table: &'static str,
    /// The version requirement, as `^0.5`.
    pub requirement: cargo_metadata::semver::VersionReq,
}

/// Why `[package.metadata.cutile]` cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum PackageError {
    /// The path of the crate is not UTF-8.
    PathNotUtf8 {
        /// The folder of the crate.
        path: PathBuf,
    },
    /// Cargo cannot read the manifest.
    Cargo {
        /// The manifest.
        manifest: PathBuf,
        /// What cargo says.
        source: cargo_metadata::Error,
    },
    /// Cargo lists no package with this manifest.
    NotFound {
        /// The manifest.
        manifest: PathBuf,
    },
    /// A key that does not exist.
    UnknownKey {
        /// The manifest.
        manifest: PathBuf,
        /// The table.
        table: &'static str,
        /// The key.
        key: String,
        /// The keys that it can have.
        valid: &'static [&'static str],
    },
    /// A value of another type.
    WrongType {
        /// The manifest.
        manifest: PathBuf,
        /// The key.
        key: String,
        /// What is valid.
        expected: &'static str,
        /// The value, as JSON.
        found: String,
    },
    /// The crate asks for another cutile than the one that this crate was made for.
    UnequalCutile {
        /// The version that this crate links.
        linked: String,
        /// The table, as `[dependencies]`.
        table: &'static str,
        /// What the table asks for.
        required: String,
    },
    /// The warm-ups launched kernels, and not through the cutile that this crate links.
    OtherCutile {
        /// The version that this crate links.
        linked: String,
    },
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathNotUtf8 { path } => write!(
                f,
                "the path of the crate is not UTF-8, which Cargo's metadata cannot express: {}. \
                 Rename or move the folder",
                path.display()
            ),
            Self::Cargo { manifest, source } => {
                write!(f, "cargo cannot read {}: {source}", manifest.display())
            }
            Self::NotFound { manifest } => write!(
                f,
                "cargo lists no package for {}; is CARGO_MANIFEST_DIR that of a package?",
                manifest.display()
            ),
            Self::UnknownKey { manifest, table, key, valid } => write!(
                f,
                "{}: {table} has the unknown key `{key}`; did you mean `{}`? Valid keys: {}",
                manifest.display(),
                nearest(key, valid).unwrap_or_default(),
                valid.join(", ")
            ),
            Self::WrongType { manifest, key, expected, found } => write!(
                f,
                "{}: `{key}` of [package.metadata.cutile] is {found}; expected {expected}",
                manifest.display()
            ),
            Self::UnequalCutile { linked, table, required } => write!(
                f,
                "cutile-build links cutile {linked}, but {table} asks for cutile {required}; write \
                 cutile = \"{linked}\" into [dependencies] and [build-dependencies]"
            ),
            Self::OtherCutile { linked } => write!(
                f,
                "cutile-build links cutile {linked}, but the warm-ups launch kernels of another \
                 cutile (`cargo tree -i cutile` lists them); write cutile = \"{linked}\" into \
                 [dependencies] and [build-dependencies]"
            ),
        }
    }
}

impl Error for PackageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cargo { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl MetadataConfig {
    /// Reads the manifest of the crate that is being built.
    ///
    /// # Errors
    ///
    /// [`PackageError`] names the manifest, the key and what is valid.
    pub fn read(env: &BuildEnv) -> Result<Self, PackageError> {
        Self::read_from(&env.manifest_dir, &env.cargo)
    }

    /// Reads the manifest in a folder, with this cargo.
    ///
    /// # Errors
    ///
    /// [`PackageError`] names the manifest, the key and what is valid.
    pub fn read_from(dir: &Path, cargo: &Path) -> Result<Self, PackageError> {
        if dir.to_str().is_none() {
            return Err(PackageError::PathNotUtf8 { path: dir.to_owned() });
        }
        let manifest = dir.join("Cargo.toml");
        let cargo_error = |source| PackageError::Cargo { manifest: manifest.clone(), source };
        let metadata = match metadata_of(&manifest, cargo) {
            Err(cargo_metadata::Error::CargoMetadata { stderr }) if stderr.contains(NO_MEMBER) => {
                return Self::read_alone(&manifest, cargo);
            }
            metadata => metadata.map_err(cargo_error)?,
        };
        Self::of_metadata(&metadata, &manifest, &manifest)
    }

    /// Reads a manifest below a workspace whose member it is not, as a vendored crate's: cargo builds
    /// it, and describes it only where that workspace is not above it.
    fn read_alone(manifest: &Path, cargo: &Path) -> Result<Self, PackageError> {
        let copied = || -> std::io::Result<_> {
            let folder = tempfile::tempdir()?;
            let mut text = std::fs::read_to_string(manifest)?;
            text.push_str("\n[workspace]\n");
            // A package has a target, and files that the manifest names are not looked for.
            std::fs::create_dir(folder.path().join("src"))?;
            std::fs::write(folder.path().join("src/lib.rs"), "")?;
            std::fs::write(folder.path().join("Cargo.toml"), text)?;
            Ok(folder)
        };
        let error = |source| PackageError::Cargo { manifest: manifest.to_owned(), source };
        let folder = copied().map_err(|source| error(source.into()))?;
        let copy = folder.path().join("Cargo.toml");
        let metadata = metadata_of(&copy, cargo).map_err(error)?;
        Self::of_metadata(&metadata, &copy, manifest)
    }

    /// The package of a manifest; `shown` is its path for messages.
    fn of_metadata(
        metadata: &Metadata,
        manifest: &Path,
        shown: &Path,
    ) -> Result<Self, PackageError> {
        let same = |path: &Path| {
            path == manifest
                || matches!((path.canonicalize(), manifest.canonicalize()), (Ok(a), Ok(b)) if a == b)
        };
        let package = metadata
            .packages
            .iter()
            .find(|package| same(package.manifest_path.as_std_path()))
            .ok_or_else(|| PackageError::NotFound { manifest: shown.to_owned() })?;
        let manifest = shown;
        let mut config = match package.metadata.get("cutile") {
            Some(table) => Self::parse(manifest, table)?,
            None => Self::default(),
        };
        config.cutile = cutile_requirements(package);
        Ok(config)
    }

    /// Reads the table as cargo hands it on, in JSON; `manifest` is its path for messages.
    ///
    /// # Errors
    ///
    /// [`PackageError`] names the manifest, the key and what is valid.
    pub fn parse(manifest: &Path, table: &Value) -> Result<Self, PackageError> {
        let wrong = |key: &str, expected, found: &Value| PackageError::WrongType {
            manifest: manifest.to_owned(),
            key: key.to_owned(),
            expected,
            found: found.to_string(),
        };
        const STRINGS: &str = "an array of strings";
        let table = table.as_object().ok_or_else(|| wrong("cutile", "a table", table))?;
        let mut config = Self::default();
        for (key, value) in table {
            match key.as_str() {
                "targets" => {
                    config.targets =
                        Some(strings(value).ok_or_else(|| wrong(key, STRINGS, value))?);
                }
                "shaders" => {
                    config.shaders = strings(value).ok_or_else(|| wrong(key, STRINGS, value))?;
                }
                "shader" => {
                    config.shader = value
                        .as_array()
                        .and_then(|all| all.iter().map(|one| one.as_object().cloned()).collect())
                        .ok_or_else(|| wrong(key, "an array of tables", value))?;
                }
                "targets-for" => {
                    let table = value.as_object().ok_or_else(|| {
                        wrong(key, "a table of arrays of strings, by kernel", value)
                    })?;
                    for (kernel, targets) in table {
                        let key = format!("targets-for.{kernel}");
                        let targets =
                            strings(targets).ok_or_else(|| wrong(&key, STRINGS, targets))?;
                        config.targets_for.insert(kernel.clone(), targets);
                    }
                }
                _ => {
                    return Err(PackageError::UnknownKey {
                        manifest: manifest.to_owned(),
                        table: "[package.metadata.cutile]",
                        key: key.clone(),
                        valid: &KEYS,
                    });
                }
            }
        }
        Ok(config)
    }

    /// `shader`, table by table; `manifest` is its path for messages.
    ///
    /// # Errors
    ///
    /// [`PackageError`] names the manifest, the table, the key and what is valid.
    #[cfg(feature = "wgsl")]
    pub fn shader_options(
        &self,
        manifest: &Path,
    ) -> Result<Vec<crate::ShaderOptions>, PackageError> {
        crate::shader::shader_options(manifest, self)
    }

    /// `targets`, as they are written.
    #[must_use]
    pub fn targets(&self) -> Option<&[String]> {
        self.targets.as_deref()
    }

    /// Checks what the crate asks of cutile against the version that this crate links.
    ///
    /// It sees the manifest only: a requirement that two versions satisfy can still be met by the
    /// other one. Then nothing that a warm-up launches is recorded, and the build stops for that.
    ///
    /// # Errors
    ///
    /// [`PackageError::UnequalCutile`].
    pub fn check_cutile(&self, linked: &str) -> Result<(), PackageError> {
        let Ok(version) = Version::parse(linked) else { return Ok(()) };
        match self.cutile.iter().find(|cutile| !cutile.requirement.matches(&version)) {
            None => Ok(()),
            Some(cutile) => Err(PackageError::UnequalCutile {
                linked: linked.to_owned(),
                table: cutile.table,
                required: cutile.requirement.to_string(),
            }),
        }
    }
}

/// What cargo says of a package below a workspace that does not list it.
const NO_MEMBER: &str = "believes it's in a workspace when it's not";

fn metadata_of(manifest: &Path, cargo: &Path) -> Result<Metadata, cargo_metadata::Error> {
    MetadataCommand::new()
        .cargo_path(cargo)
        .manifest_path(manifest)
        .current_dir(manifest.parent().unwrap_or(manifest))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
}

fn cutile_requirements(package: &Package) -> Vec<CutileRequirement> {
    let table = |kind| match kind {
        DependencyKind::Normal => Some("[dependencies]"),
        DependencyKind::Build => Some("[build-dependencies]"),
        _ => None,
    };
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.name == "cutile")
        .filter_map(|dependency| {
            Some(CutileRequirement {
                table: table(dependency.kind)?,
                requirement: dependency.req.clone(),
            })
        })
        .collect()
}

pub(crate) fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|one| one.as_str().map(Into::into)).collect()
}

#[cfg(test)]
#[path = "package/tests.rs"]
mod tests;
