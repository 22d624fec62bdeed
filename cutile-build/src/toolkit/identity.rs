//! Which toolkit it is.

use super::{Toolkit, ToolkitError};
use crate::digest;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::Path;

/// A release of the toolkit, `13.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 13 in 13.5.
    pub major: u32,
    /// 5 in 13.5.
    pub minor: u32,
}

impl Version {
    /// The release in what a program of the toolkit prints for `--version`, as
    /// `… release 13.5, V13.5.37`.
    #[must_use]
    pub fn in_text(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("release ")?;
        let release = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let (major, minor) = release.split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Everything of a toolkit that can change an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// What `tileiras --version` prints, to the byte.
    pub tileiras: String,
    /// What `tileiras --list-versions` prints, to the byte.
    pub list_versions: String,
    /// What `ptxas --version` prints, to the byte.
    pub ptxas: String,
    /// BLAKE3 of libnvvm, as `blake3:` and 64 hex digits.
    pub nvvm_digest: String,
    /// The same of tileiras: a patched one prints the same version.
    pub tileiras_digest: String,
    /// The same of ptxas.
    pub ptxas_digest: String,
}

impl Identity {
    pub(super) fn of(toolkit: &Toolkit) -> Result<Self, ToolkitError> {
        Ok(Self {
            tileiras: toolkit.answer(&toolkit.tileiras, "--version")?,
            list_versions: toolkit.answer(&toolkit.tileiras, "--list-versions")?,
            ptxas: toolkit.answer(&toolkit.ptxas, "--version")?,
            nvvm_digest: file_digest(&toolkit.libnvvm)?,
            tileiras_digest: file_digest(&toolkit.tileiras)?,
            ptxas_digest: file_digest(&toolkit.ptxas)?,
        })
    }

    /// The fingerprint that upstream puts into its keys: `--version`, trimmed.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        self.tileiras.trim()
    }

    /// One digest of all of it.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        // Without `..`: what is added must be hashed.
        let Self { tileiras, list_versions, ptxas, nvvm_digest, tileiras_digest, ptxas_digest } =
            self;
        let mut hash = Sha256::new();
        hash.update(b"cutile-build-toolkit-v2\0");
        let digests = [nvvm_digest, tileiras_digest, ptxas_digest];
        for field in [tileiras, list_versions, ptxas].into_iter().chain(digests) {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field.as_bytes());
        }
        hash.finalize().into()
    }
}

fn file_digest(path: &Path) -> Result<String, ToolkitError> {
    let digest = digest::of_file(path)
        .map_err(|source| ToolkitError::Unreadable { path: path.to_owned(), source })?;
    Ok(format!("blake3:{digest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_what_the_programs_print() {
        let text = "Cuda compilation tools, release 13.5, V13.5.37\nBuild local";
        assert_eq!(Version::in_text(text), Some(Version { major: 13, minor: 5 }));
        assert_eq!(Version::in_text("tileiras 13.5"), None);
        assert!(Version { major: 13, minor: 10 } > Version { major: 13, minor: 3 });
    }

    #[test]
    fn each_part_moves_the_digest() {
        let identity = Identity {
            tileiras: "t".into(),
            list_versions: "l".into(),
            ptxas: "p".into(),
            nvvm_digest: "n".into(),
            tileiras_digest: "s".into(),
            ptxas_digest: "q".into(),
        };
        let moved: [fn(&mut Identity); 6] = [
            |identity| identity.tileiras.push('x'),
            |identity| identity.list_versions.push('x'),
            |identity| identity.ptxas.push('x'),
            |identity| identity.nvvm_digest.push('x'),
            |identity| identity.tileiras_digest.push('x'),
            |identity| identity.ptxas_digest.push('x'),
        ];
        for change in moved {
            let mut other = identity.clone();
            change(&mut other);
            assert_ne!(other.digest(), identity.digest());
        }
    }
}
