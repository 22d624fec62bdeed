//! The value that upstream's disk cache stores under a key: a header, and the cubin.
//!
//! Equal to cutile 0.5.0 byte for byte, so that both sides read what the other wrote. Integers are
//! little-endian.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 12 | magic `CUTILECUBIN\0` |
//! | 12 | 2 | format version, u16, 1 |
//! | 14 | 2 | reserved, written 0, not read |
//! | 16 | 32 | SHA-256 of the cubin |
//! | 48 | 32 | SHA-256 of the Tile IR bytecode |
//! | 80 | 2 | length of the gpu name, u16 |
//! | 82 | 2 | length of the tileiras fingerprint, u16 |
//! | 84 | 1 | optimization level |
//! | 85 | 1 | flags: 1 device debug, 2 line tables, 4 memcheck |
//! | 86 | 2 | reserved, written 0, not read |
//! | 88 | 8 | length of the cubin, u64 |
//! | 96 | .. | gpu name, fingerprint, cubin |
//!
//! # Security
//!
//! The digest finds what was torn or mixed up. It does not say who wrote the entry: see
//! [`JitStore`](crate::store::JitStore).

use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;

const MAGIC: &[u8; 12] = b"CUTILECUBIN\0";
const FORMAT_VERSION: u16 = 1;

/// Length of the fixed part of an entry in bytes.
pub const ENTRY_HEADER_LEN: usize = 96;

/// What an entry has to agree with to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryParams<'a> {
    /// SHA-256 of the Tile IR bytecode.
    pub bc_sha256: [u8; 32],
    /// `sm_XX`.
    pub gpu_name: &'a str,
    /// 0 to 3.
    pub opt_level: u8,
    /// 1 device debug, 2 line tables, 4 memcheck.
    pub flags: u8,
    /// What `tileiras --version` prints, trimmed; with tile libraries, [`entry_fingerprint`].
    pub tileiras_fp: &'a str,
}

/// The fingerprint that an entry holds: that of tileiras, and behind it the digest of the tile
/// libraries where the kernel links some ([`tile_libraries_digest`](crate::key::tile_libraries_digest)).
/// The key keeps the two apart; the entry has one field for both.
#[must_use]
pub fn entry_fingerprint<'a>(tileiras_fp: &'a str, tilelib_digest: Option<&str>) -> Cow<'a, str> {
    match tilelib_digest {
        Some(digest) => Cow::Owned(format!("{tileiras_fp}+tilelibs:{digest}")),
        None => Cow::Borrowed(tileiras_fp),
    }
}

/// The entry of a cubin, or `None` where a name is longer than 65,535 bytes: that compile is not
/// cached.
#[must_use]
pub fn encode_entry(params: &EntryParams<'_>, cubin: &[u8]) -> Option<Vec<u8>> {
    // Without `..`: a field that is added must be written.
    let EntryParams { bc_sha256, gpu_name, opt_level, flags, tileiras_fp } = *params;
    let gpu_len = u16::try_from(gpu_name.len()).ok()?;
    let fp_len = u16::try_from(tileiras_fp.len()).ok()?;
    let names = gpu_name.len() + tileiras_fp.len();
    let mut out = Vec::with_capacity(ENTRY_HEADER_LEN + names + cubin.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&Sha256::digest(cubin));
    out.extend_from_slice(&bc_sha256);
    out.extend_from_slice(&gpu_len.to_le_bytes());
    out.extend_from_slice(&fp_len.to_le_bytes());
    out.extend_from_slice(&[opt_level, flags, 0, 0]);
    out.extend_from_slice(&(cubin.len() as u64).to_le_bytes());
    out.extend_from_slice(gpu_name.as_bytes());
    out.extend_from_slice(tileiras_fp.as_bytes());
    out.extend_from_slice(cubin);
    Some(out)
}

/// The cubin of an entry that agrees with `params` in every field, or `None`: then it is a miss,
/// and the caller deletes the entry.
#[must_use]
pub fn decode_entry<'a>(bytes: &'a [u8], params: &EntryParams<'_>) -> Option<&'a [u8]> {
    let header = EntryHeader::parse(bytes).ok()?;
    let found = EntryParams {
        bc_sha256: header.bc_sha256,
        gpu_name: header.gpu_name,
        opt_level: header.opt_level,
        flags: header.flags,
        tileiras_fp: header.tileiras_fp,
    };
    (found == *params).then_some(header.cubin)
}

/// An entry taken apart, with its digest checked, and not yet compared with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader<'a> {
    bc_sha256: [u8; 32],
    gpu_name: &'a str,
    opt_level: u8,
    flags: u8,
    tileiras_fp: &'a str,
    cubin: &'a [u8],
}

/// Why bytes are no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryError {
    /// Shorter than a header, or without its magic.
    NotAnEntry,
    /// Another format version.
    Version(u16),
    /// The lengths in the header do not add up to the length of the entry.
    Length,
    /// A name is not UTF-8.
    Name,
    /// The cubin does not match its digest.
    Digest,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnEntry => f.write_str("not a cache entry"),
            Self::Version(found) => {
                write!(f, "entry of format {found}, expected {FORMAT_VERSION}")
            }
            Self::Length => f.write_str("the entry is not as long as its header says"),
            Self::Name => f.write_str("a name in the entry is not UTF-8"),
            Self::Digest => f.write_str("the cubin does not match the digest in its entry"),
        }
    }
}

impl std::error::Error for EntryError {}

impl<'a> EntryHeader<'a> {
    /// Takes an entry apart. Borrows, and allocates nothing.
    ///
    /// # Errors
    ///
    /// [`EntryError`], for bytes that [`encode_entry`] would not write.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EntryError> {
        let header = Self::parse_verified(bytes)?;
        if Sha256::digest(header.cubin).as_slice() != &bytes[16..48] {
            return Err(EntryError::Digest);
        }
        Ok(header)
    }

    /// The same for bytes that were compared with a digest just now, as
    /// [`PackEntry::payload`](crate::pack::PackEntry::payload) does: the cubin is not hashed again.
    ///
    /// # Errors
    ///
    /// [`EntryError`], but [`EntryError::Digest`].
    pub fn parse_verified(bytes: &'a [u8]) -> Result<Self, EntryError> {
        let (header, rest) =
            bytes.split_at_checked(ENTRY_HEADER_LEN).ok_or(EntryError::NotAnEntry)?;
        if &header[..12] != MAGIC {
            return Err(EntryError::NotAnEntry);
        }
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        if u16_at(12) != FORMAT_VERSION {
            return Err(EntryError::Version(u16_at(12)));
        }
        let mut cubin_len = [0; 8];
        cubin_len.copy_from_slice(&header[88..96]);
        let (gpu_name, rest) =
            rest.split_at_checked(u16_at(80).into()).ok_or(EntryError::Length)?;
        let (tileiras_fp, cubin) =
            rest.split_at_checked(u16_at(82).into()).ok_or(EntryError::Length)?;
        if u64::from_le_bytes(cubin_len) != cubin.len() as u64 {
            return Err(EntryError::Length);
        }
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| EntryError::Name);
        let (gpu_name, tileiras_fp) = (text(gpu_name)?, text(tileiras_fp)?);
        let mut bc_sha256 = [0; 32];
        bc_sha256.copy_from_slice(&header[48..80]);
        let (opt_level, flags) = (header[84], header[85]);
        Ok(Self { bc_sha256, gpu_name, opt_level, flags, tileiras_fp, cubin })
    }

    /// SHA-256 of the Tile IR bytecode.
    #[must_use]
    pub fn bc_sha256(&self) -> [u8; 32] {
        self.bc_sha256
    }

    /// `sm_XX`.
    #[must_use]
    pub fn gpu_name(&self) -> &'a str {
        self.gpu_name
    }

    /// 0 to 3.
    #[must_use]
    pub fn opt_level(&self) -> u8 {
        self.opt_level
    }

    /// 1 device debug, 2 line tables, 4 memcheck.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// What `tileiras --version` printed.
    #[must_use]
    pub fn tileiras_fp(&self) -> &'a str {
        self.tileiras_fp
    }

    /// The image.
    #[must_use]
    pub fn cubin(&self) -> &'a [u8] {
        self.cubin
    }
}

#[cfg(test)]
mod tests;
