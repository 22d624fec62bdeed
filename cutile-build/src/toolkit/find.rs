//! A toolkit: what makes a folder one, and which of several is taken.

use super::places::{Candidate, OWN};
use super::{Chosen, Identity, SearchPlaces, ToolkitError, Version};
use std::path::{Path, PathBuf};

/// The oldest release that compiles what cutile 0.5 writes.
pub const MIN_TILEIRAS: Version = Version { major: 13, minor: 3 };

/// Where the programs and libraries of a toolkit are, below its root.
const LIBNVVM: [&str; 3] = ["lib/libnvvm.so.4", "nvvm/lib64/libnvvm.so", "nvvm/lib/libnvvm.so"];
const INCLUDE: [&str; 3] =
    ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"];

/// A toolkit with a tileiras that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Toolkit {
    /// Its folder, as it was named.
    pub root: PathBuf,
    /// The Tile IR assembler.
    pub tileiras: PathBuf,
    /// The PTX assembler that it calls.
    pub ptxas: PathBuf,
    /// The compiler library that it calls.
    pub libnvvm: PathBuf,
    /// The folder with `cuda.h`, if it has one.
    pub include: Option<PathBuf>,
    /// Release of tileiras.
    pub version: Version,
    /// Why this one; its text is for people.
    pub why: Chosen,
}

impl Toolkit {
    /// The first toolkit of `places` that can be used.
    ///
    /// # Errors
    ///
    /// [`ToolkitError`] says what was looked at and how to install one.
    pub fn find(places: &SearchPlaces) -> Result<Self, ToolkitError> {
        let mut tried = Vec::new();
        for Candidate { root, chosen, named } in places.candidates() {
            let why = match Self::at(&root, chosen) {
                Ok(toolkit) => return Ok(toolkit),
                Err(why) => why,
            };
            if let Some(variable) = named {
                return Err(ToolkitError::Named { variable, path: root, why });
            }
            // Of the folders above, only those that have one say something.
            if chosen != Chosen::Own || root.is_dir() {
                tried.push((root, why));
            }
        }
        let below = places.below.as_ref().filter(|_| !tried.iter().any(|(root, _)| is_own(root)));
        if let Some(below) = below {
            let none = "there is none, nor in a folder above it".to_owned();
            tried.insert(0, (below.join(OWN), none));
        }
        Err(ToolkitError::Missing { tried })
    }

    /// The toolkit in a folder, in either of the layouts that there are.
    ///
    /// # Errors
    ///
    /// What is missing, in words that follow a folder's name and a colon.
    pub fn at(root: &Path, why: Chosen) -> Result<Self, String> {
        let mut toolkit = Self::locate(root, why)?;
        let text =
            toolkit.answer(&toolkit.tileiras, "--version").map_err(|error| error.to_string())?;
        toolkit.version = Version::in_text(&text)
            .ok_or_else(|| format!("its tileiras does not say its release: {:?}", text.trim()))?;
        if toolkit.version < MIN_TILEIRAS {
            return Err(format!("its tileiras is {}", toolkit.version));
        }
        Ok(toolkit)
    }

    /// Its files; no program is run.
    pub(super) fn locate(root: &Path, why: Chosen) -> Result<Self, String> {
        if !root.is_dir() {
            return Err("there is no such folder".to_owned());
        }
        let program = |name: &str| {
            let path = root.join("bin").join(name);
            if path.is_file() { Ok(path) } else { Err(format!("it has no bin/{name}")) }
        };
        let libnvvm = LIBNVVM.map(|path| root.join(path)).into_iter().find(|path| path.is_file());
        let include = INCLUDE.map(|path| root.join(path));
        Ok(Self {
            root: root.to_owned(),
            tileiras: program("tileiras")?,
            ptxas: program("ptxas")?,
            libnvvm: libnvvm.ok_or("it has neither lib/libnvvm.so.4 nor nvvm/lib64/libnvvm.so")?,
            include: include.into_iter().find(|path| path.join("cuda.h").is_file()),
            version: MIN_TILEIRAS,
            why,
        })
    }

    /// Which toolkit it is.
    ///
    /// # Errors
    ///
    /// [`ToolkitError::Silent`] and [`ToolkitError::Unreadable`].
    pub fn identity(&self) -> Result<Identity, ToolkitError> {
        Identity::of(self)
    }
}

fn is_own(root: &Path) -> bool {
    root.ends_with(OWN)
}
