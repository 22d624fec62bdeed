//! A pack: many entries in one file, found by key, checked when read.
//!
//! The images of one target are a pack. It is read where it lies, in the binary, at any alignment;
//! nothing is copied and nothing outside the header and the index is touched until an entry is
//! asked for. Integers are little-endian, offsets count from the start of the pack.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 16 | magic |
//! | 16 | 4 | version, u32, 1 |
//! | 20 | 4 | number of entries, u32 |
//! | 24 | 8 | total length, u64 |
//! | 32 | 2 | length of the package name, u16 |
//! | 34 | 2 | length of the package version, u16 |
//! | 36 | 12 | reserved, 0 |
//! | 48 | 32 | SHA-256 of bytes 0 to 48, the names, and the index |
//! | 80 | .. | package name, package version |
//! | .. | 88 each | index, by key: key 32, offset u64, length u64, codec u32, 0 u32, SHA-256 32 |
//! | .. | .. | payloads, each at a multiple of 16 |
//!
//! Codec 0 is raw, 1 is zstd; the SHA-256 is of the payload as stored. A payload is an entry
//! ([`entry`](mod@crate::entry)), so that a pack can be written out as a disk cache.
//!
//! Tools find packs in any file by the magic ([`find_packs`]); it is put together at run time so
//! that this code does not hold it itself.

use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Version of the layout.
pub const PACK_VERSION: u32 = 1;

const HEADER_LEN: usize = 80;
const ROW_LEN: usize = 88;
const ALIGN: usize = 16;
const CODEC_RAW: u32 = 0;

/// The magic with its first byte changed, see the module's text.
const MASKED_MAGIC: [u8; 16] = *b"\x00CUTILE-PACK\r\n\x1a\n";

/// The first 16 bytes of every pack: 0xC7, `CUTILE-PACK`, CR, LF, 0x1A, LF.
#[must_use]
pub fn magic() -> [u8; 16] {
    let mut magic = std::hint::black_box(MASKED_MAGIC);
    magic[0] = 0xC7;
    magic
}

/// Why bytes are no pack, or an entry cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PackError {
    /// Not a pack, or cut short, with what is wrong.
    Malformed(&'static str),
    /// A version of the layout that this code does not read.
    Version(u32),
    /// Header or index do not match their digest.
    Damaged,
    /// The payload of this key does not match its digest.
    DamagedEntry([u8; 32]),
    /// The payload is compressed in a way that this build does not read.
    Codec(u32),
    /// Two payloads for one key.
    Conflict([u8; 32]),
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::key::key_text;
        match self {
            Self::Malformed(what) => write!(f, "not a pack: {what}; build the crate again"),
            Self::Version(found) => write!(
                f,
                "pack of version {found}, this code reads {PACK_VERSION}: use one version of \
                 cutile-build and cutile-embed"
            ),
            Self::Damaged => f.write_str("the pack's index does not match its digest; build again"),
            Self::DamagedEntry(key) => {
                write!(f, "the payload of {} does not match its digest; build again", key_text(key))
            }
            Self::Codec(codec) => write!(
                f,
                "the payload has codec {codec}, this build reads 0: use one version of \
                 cutile-build and cutile-embed"
            ),
            Self::Conflict(key) => write!(f, "two different payloads for {}", key_text(key)),
        }
    }
}

impl std::error::Error for PackError {}

/// Makes a pack. The same entries give the same bytes, in whatever order they are put in.
#[derive(Debug, Clone)]
pub struct PackWriter {
    package: String,
    version: String,
    entries: BTreeMap<[u8; 32], Vec<u8>>,
}

impl PackWriter {
    /// An empty pack of a package. Names are cut at 65,535 bytes.
    #[must_use]
    pub fn new(package: &str, version: &str) -> Self {
        let cut = |text: &str| {
            let longest = text.len().min(usize::from(u16::MAX));
            let end = (0..=longest).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text[..end].to_owned()
        };
        Self { package: cut(package), version: cut(version), entries: BTreeMap::new() }
    }

    /// Puts an entry in. The same one again is one entry.
    ///
    /// # Errors
    ///
    /// [`PackError::Conflict`] for another payload under the same key.
    pub fn insert(&mut self, key: [u8; 32], payload: Vec<u8>) -> Result<(), PackError> {
        match self.entries.get(&key) {
            Some(known) if *known != payload => Err(PackError::Conflict(key)),
            Some(_) => Ok(()),
            None => {
                self.entries.insert(key, payload);
                Ok(())
            }
        }
    }

    /// The bytes of the pack.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let names = self.package.len() + self.version.len();
        let mut offset =
            (HEADER_LEN + names + self.entries.len() * ROW_LEN).next_multiple_of(ALIGN);
        let mut index = Vec::with_capacity(self.entries.len() * ROW_LEN);
        let mut end = offset;
        for (key, payload) in &self.entries {
            index.extend_from_slice(key);
            index.extend_from_slice(&(offset as u64).to_le_bytes());
            index.extend_from_slice(&(payload.len() as u64).to_le_bytes());
            index.extend_from_slice(&CODEC_RAW.to_le_bytes());
            index.extend_from_slice(&[0; 4]);
            index.extend_from_slice(&Sha256::digest(payload));
            end = offset + payload.len();
            offset = end.next_multiple_of(ALIGN);
        }
        let mut out = Vec::with_capacity(end);
        out.extend_from_slice(&magic());
        out.extend_from_slice(&PACK_VERSION.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend_from_slice(&(end as u64).to_le_bytes());
        out.extend_from_slice(&(self.package.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.version.len() as u16).to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        let mut digest = Sha256::new();
        digest.update(&out);
        digest.update(self.package.as_bytes());
        digest.update(self.version.as_bytes());
        digest.update(&index);
        out.extend_from_slice(&digest.finalize());
        out.extend_from_slice(self.package.as_bytes());
        out.extend_from_slice(self.version.as_bytes());
        out.extend_from_slice(&index);
        for payload in self.entries.values() {
            out.resize(out.len().next_multiple_of(ALIGN), 0);
            out.extend_from_slice(payload);
        }
        out.resize(end, 0);
        out
    }
}

/// A pack, read where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pack<'a> {
    bytes: &'a [u8],
    package: &'a str,
    version: &'a str,
    index: &'a [[u8; ROW_LEN]],
}

impl<'a> Pack<'a> {
    /// Reads header and index and checks their digest, the order of the keys, and that every
    /// payload lies where it belongs. Bytes between payloads and behind the pack's total length are
    /// not looked at. Allocates nothing.
    ///
    /// # Errors
    ///
    /// [`PackError`], for bytes that [`PackWriter::finish`] would not write.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PackError> {
        let header = bytes.get(..HEADER_LEN).ok_or(PackError::Malformed("too short"))?;
        if header[..16] != magic() {
            return Err(PackError::Malformed("no magic"));
        }
        if u32_at(header, 16) != PACK_VERSION {
            return Err(PackError::Version(u32_at(header, 16)));
        }
        let total = usize::try_from(u64_at(header, 24))
            .ok()
            .filter(|total| *total >= HEADER_LEN)
            .ok_or(PackError::Malformed("a length is out of range"))?;
        let bytes = bytes.get(..total).ok_or(PackError::Malformed("it is cut short"))?;
        let rest = &bytes[HEADER_LEN..];
        let short = PackError::Malformed("the index is cut short");
        let (package, rest) =
            rest.split_at_checked(u16_at(header, 32).into()).ok_or(short.clone())?;
        let (version, rest) =
            rest.split_at_checked(u16_at(header, 34).into()).ok_or(short.clone())?;
        let index_len = usize::try_from(u32_at(header, 20))
            .ok()
            .and_then(|count| count.checked_mul(ROW_LEN))
            .ok_or(short.clone())?;
        let index = rest.get(..index_len).ok_or(short)?;
        let text = |bytes| {
            std::str::from_utf8(bytes).map_err(|_| PackError::Malformed("a name is not UTF-8"))
        };
        let pack = Self {
            bytes,
            package: text(package)?,
            version: text(version)?,
            index: index.as_chunks::<ROW_LEN>().0,
        };
        // Before the digest: in a file that is full of magics, each could claim all of the rest as
        // its index, and have it hashed.
        pack.check_layout(header)?;
        let mut digest = Sha256::new();
        digest.update(&header[..48]);
        digest.update(package);
        digest.update(version);
        digest.update(index);
        if digest.finalize().as_slice() != &header[48..80] {
            return Err(PackError::Damaged);
        }
        Ok(pack)
    }

    /// Whether all is where [`PackWriter::finish`] puts it.
    fn check_layout(&self, header: &[u8]) -> Result<(), PackError> {
        let malformed = |what| Err(PackError::Malformed(what));
        if header[36..48] != [0; 12] {
            return malformed("reserved bytes are not 0");
        }
        let names = self.package.len() + self.version.len();
        let payloads = HEADER_LEN + names + self.index.len() * ROW_LEN;
        let mut end = payloads.next_multiple_of(ALIGN);
        let mut before = None;
        for row in self.index {
            if before.is_some_and(|before: &[u8]| *before >= row[..32]) {
                return malformed("the index is not sorted");
            }
            before = Some(&row[..32]);
            match self.range(row) {
                // An entry that reaches into header or index is outside, too.
                Some((start, _)) if start < payloads => return malformed("an entry lies outside"),
                Some((start, _)) if start % ALIGN != 0 => {
                    return malformed("an entry is not aligned");
                }
                Some((start, _)) if start != end.next_multiple_of(ALIGN) => {
                    return malformed("an entry is not behind the one before it");
                }
                Some((_, entry_end)) => end = entry_end,
                None => return malformed("an entry lies outside"),
            }
            if row[52..56] != [0; 4] {
                return malformed("reserved bytes are not 0");
            }
        }
        if end != self.bytes.len() {
            return malformed("it does not end with its last entry");
        }
        Ok(())
    }

    /// Name of the package that embeds it.
    #[must_use]
    pub fn package(&self) -> &'a str {
        self.package
    }

    /// Version of that package.
    #[must_use]
    pub fn version(&self) -> &'a str {
        self.version
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Length in bytes.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// The entry under a key. A binary search; allocates nothing.
    #[must_use]
    pub fn get(&self, key: &[u8; 32]) -> Option<PackEntry<'a>> {
        let at = self.index.binary_search_by(|row| row[..32].cmp(key)).ok()?;
        self.entry(&self.index[at])
    }

    /// All entries, by key.
    pub fn entries(&self) -> impl Iterator<Item = PackEntry<'a>> + use<'a> {
        let pack = *self;
        pack.index.iter().filter_map(move |row| pack.entry(row))
    }

    fn range(&self, row: &[u8; ROW_LEN]) -> Option<(usize, usize)> {
        let start = usize::try_from(u64_at(row, 32)).ok()?;
        let end = start.checked_add(usize::try_from(u64_at(row, 40)).ok()?)?;
        (end <= self.bytes.len()).then_some((start, end))
    }

    fn entry(&self, row: &'a [u8; ROW_LEN]) -> Option<PackEntry<'a>> {
        let (start, end) = self.range(row)?;
        Some(PackEntry {
            key: digest_at(row, 0),
            offset: start,
            codec: u32_at(row, 48),
            stored: &self.bytes[start..end],
            sha256: digest_at(row, 56),
        })
    }
}

/// An entry of a pack, not checked yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackEntry<'a> {
    /// Its key.
    pub key: [u8; 32],
    /// Where it starts, from the start of the pack.
    pub offset: usize,
    /// 0 raw, 1 zstd.
    pub codec: u32,
    /// The payload as stored.
    pub stored: &'a [u8],
    /// SHA-256 of the payload as stored.
    pub sha256: [u8; 32],
}

impl<'a> PackEntry<'a> {
    /// The payload, with its digest checked first.
    ///
    /// # Errors
    ///
    /// [`PackError::DamagedEntry`] and [`PackError::Codec`].
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, PackError> {
        if Sha256::digest(self.stored).as_slice() != self.sha256 {
            return Err(PackError::DamagedEntry(self.key));
        }
        match self.codec {
            CODEC_RAW => Ok(Cow::Borrowed(self.stored)),
            other => Err(PackError::Codec(other)),
        }
    }
}

/// Every pack in a file of any kind, with its offset. What has the magic and is no pack comes as an
/// error.
pub fn find_packs(bytes: &[u8]) -> impl Iterator<Item = (usize, Result<Pack<'_>, PackError>)> {
    let magic = magic();
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(found) = bytes.get(at..)?.iter().position(|byte| *byte == magic[0]) {
            let start = at + found;
            at = start + 1;
            if bytes[start..].starts_with(&magic) {
                let pack = Pack::parse(&bytes[start..]);
                if let Ok(pack) = &pack {
                    at = start + pack.total_len();
                }
                return Some((start, pack));
            }
        }
        None
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn digest_at(bytes: &[u8], at: usize) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(&bytes[at..at + 32]);
    digest
}

#[cfg(test)]
mod tests;
