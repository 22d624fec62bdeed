//! A pack: many entries in one file, found by key, checked when read.
//!
//! The images of one target are a pack. It is read where it lies, in the binary, at any alignment;
//! nothing is copied and nothing outside the header and the index is touched until an entry is
//! asked for. Integers are little-endian, offsets count from the start of the pack.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 16 | magic |
//! | 16 | 4 | version, u32, 2 |
//! | 20 | 4 | number of entries, u32 |
//! | 24 | 8 | total length, u64 |
//! | 32 | 2 | length of the package name, u16 |
//! | 34 | 2 | length of the package version, u16 |
//! | 36 | 12 | reserved, 0 |
//! | 48 | 32 | SHA-256 of bytes 0 to 48, the names, and the index |
//! | 80 | .. | package name, package version |
//! | .. | 88 each | index, by key: key 32, offset u64, length u64, codec u32, plain length u32, SHA-256 32 |
//! | .. | .. | payloads, each at a multiple of 16 |
//!
//! | codec | stored | plain length |
//! |---|---|---|
//! | 0 raw | the payload | 0 |
//! | 1 zstd | one frame that states its length, without a dictionary | of the payload in bytes: more than is stored, at most [`MAX_PLAIN_LEN`] |
//!
//! The SHA-256 is of what is stored, so that no decoder sees a byte that was not compared, and a
//! third of the bytes is hashed. The plain length lies under the digest of the index and is checked
//! by [`Pack::parse`]: it is all that decoding allocates, and a frame that says or gives another is
//! an error. A payload is an entry ([`entry`](mod@crate::entry)), so that a pack can be written out
//! as a disk cache.
//!
//! Feature `zstd` (part of `cuda`) reads and writes codec 1; without it a writer leaves all raw.
//!
//! Tools find packs in any file by the magic ([`find_packs`]); it is put together at run time so
//! that this code does not hold it itself.

use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

/// Version of the layout.
pub const PACK_VERSION: u32 = 2;

/// Longest payload that is stored as codec 1, in bytes: 64 MiB. A longer one is stored raw.
pub const MAX_PLAIN_LEN: usize = 64 << 20;

const HEADER_LEN: usize = 80;
const ROW_LEN: usize = 88;
const ALIGN: usize = 16;
const CODEC_RAW: u32 = 0;
const CODEC_ZSTD: u32 = 1;

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
    /// The payload of this key does not decompress to the length in the index.
    Frame([u8; 32]),
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
                "the payload has codec {codec}, this build reads {}: use one version of \
                 cutile-build and cutile-embed",
                if cfg!(feature = "zstd") { "0 and 1" } else { "0, and 1 with feature zstd" }
            ),
            Self::Frame(key) => write!(
                f,
                "the payload of {} is not a zstd frame of the length in the index; build again",
                key_text(key)
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
    level: Option<i32>,
    entries: BTreeMap<[u8; 32], Vec<u8>>,
}

/// An entry as it is stored.
struct Stored<'a> {
    codec: u32,
    plain_len: u32,
    bytes: Cow<'a, [u8]>,
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
        Self { package: cut(package), version: cut(version), level: None, entries: BTreeMap::new() }
    }

    /// Compresses with zstd at `level`, -7 to 22, what gets at least an eighth shorter by it; the rest
    /// stays raw. The bytes of a pack then depend on the version of zstd that is linked.
    ///
    /// Default: all is raw, as it is without the feature `zstd`.
    #[must_use]
    pub fn compress(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
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
        let stored: Vec<Stored<'_>> =
            self.entries.values().map(|payload| stored(payload, self.level)).collect();
        for (key, Stored { codec, plain_len, bytes }) in self.entries.keys().zip(&stored) {
            index.extend_from_slice(key);
            index.extend_from_slice(&(offset as u64).to_le_bytes());
            index.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            index.extend_from_slice(&codec.to_le_bytes());
            index.extend_from_slice(&plain_len.to_le_bytes());
            index.extend_from_slice(&Sha256::digest(bytes));
            end = offset + bytes.len();
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
        for Stored { bytes, .. } in &stored {
            out.resize(out.len().next_multiple_of(ALIGN), 0);
            out.extend_from_slice(bytes);
        }
        out.resize(end, 0);
        out
    }
}

/// How a payload is stored by a writer that compresses at `level`.
fn stored(payload: &[u8], level: Option<i32>) -> Stored<'_> {
    let raw = Stored { codec: CODEC_RAW, plain_len: 0, bytes: Cow::Borrowed(payload) };
    let (Some(level), Some(plain_len)) = (level, plain_len(payload.len())) else { return raw };
    match zstd::compress(payload, level) {
        Some(frame) if frame.len() <= payload.len() / 8 * 7 => {
            Stored { codec: CODEC_ZSTD, plain_len, bytes: Cow::Owned(frame) }
        }
        _ => raw,
    }
}

/// The length of a payload as codec 1 states it, if it can.
fn plain_len(len: usize) -> Option<u32> {
    (len <= MAX_PLAIN_LEN).then(|| u32::try_from(len).ok())?
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
            let plain_len = u64::from(u32_at(row, 52));
            match u32_at(row, 48) {
                CODEC_RAW if plain_len != 0 => return malformed("a raw entry has a plain length"),
                CODEC_ZSTD if plain_len <= u64_at(row, 40) || plain_len > MAX_PLAIN_LEN as u64 => {
                    return malformed("a plain length is out of range");
                }
                // Of a codec of another build nothing is known.
                _ => {}
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
        self.find(|found| found.cmp(key))
    }

    /// The entry whose key `compare` calls equal. Asks at most 15 times among 10,000.
    fn find(&self, mut compare: impl FnMut(&[u8; 32]) -> Ordering) -> Option<PackEntry<'a>> {
        let key = |row: &'a [u8; ROW_LEN]| row.first_chunk().expect("a row starts with its key");
        let at = self.index.binary_search_by(|row| compare(key(row))).ok()?;
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
        let codec = u32_at(row, 48);
        let plain_len = if codec == CODEC_RAW { end - start } else { u32_at(row, 52) as usize };
        Some(PackEntry {
            key: digest_at(row, 0),
            offset: start,
            codec,
            stored: &self.bytes[start..end],
            plain_len,
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
    /// What is stored.
    pub stored: &'a [u8],
    /// Length of the payload in bytes.
    pub plain_len: usize,
    /// SHA-256 of what is stored.
    pub sha256: [u8; 32],
}

impl<'a> PackEntry<'a> {
    /// The payload, with its digest checked first. For many of them, see [`Decoder`].
    ///
    /// # Errors
    ///
    /// [`PackError::DamagedEntry`], [`PackError::Codec`] and [`PackError::Frame`].
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, PackError> {
        Decoder::new().owned(self)
    }

    /// The payload with its digest unchecked, to show what is left of one that is damaged. `None`
    /// where nothing comes out of it.
    #[must_use]
    pub fn unchecked(&self) -> Option<Cow<'a, [u8]>> {
        Decoder::new().unpack(self).ok()
    }

    /// Compares the digest of what is stored.
    fn check(&self) -> Result<(), PackError> {
        if Sha256::digest(self.stored).as_slice() == self.sha256 {
            Ok(())
        } else {
            Err(PackError::DamagedEntry(self.key))
        }
    }
}

/// Reads many payloads with the memory of one: what zstd needs, about 150 kB, and a buffer as long
/// as the longest of them.
#[derive(Debug, Default)]
pub struct Decoder {
    context: zstd::Context,
    plain: Vec<u8>,
}

impl Decoder {
    /// One that has allocated nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The payload of `entry`, with its digest checked first.
    ///
    /// # Errors
    ///
    /// As [`PackEntry::payload`].
    pub fn payload<'a>(&'a mut self, entry: &PackEntry<'a>) -> Result<&'a [u8], PackError> {
        entry.check()?;
        match entry.codec {
            CODEC_RAW => Ok(entry.stored),
            CODEC_ZSTD => {
                self.decompress(entry)?;
                Ok(&self.plain)
            }
            other => Err(PackError::Codec(other)),
        }
    }

    /// The same, to keep: what is not borrowed from the pack has memory of its own.
    ///
    /// # Errors
    ///
    /// As [`PackEntry::payload`].
    pub fn owned<'a>(&mut self, entry: &PackEntry<'a>) -> Result<Cow<'a, [u8]>, PackError> {
        entry.check()?;
        self.unpack(entry)
    }

    /// The payload with its digest unchecked, as [`PackEntry::unchecked`].
    pub fn unchecked<'a>(&'a mut self, entry: &PackEntry<'a>) -> Option<&'a [u8]> {
        match entry.codec {
            CODEC_RAW => Some(entry.stored),
            CODEC_ZSTD => self.decompress(entry).ok().map(|()| &*self.plain),
            _ => None,
        }
    }

    fn unpack<'a>(&mut self, entry: &PackEntry<'a>) -> Result<Cow<'a, [u8]>, PackError> {
        match entry.codec {
            CODEC_RAW => Ok(Cow::Borrowed(entry.stored)),
            CODEC_ZSTD => {
                self.decompress(entry)?;
                Ok(Cow::Owned(std::mem::take(&mut self.plain)))
            }
            other => Err(PackError::Codec(other)),
        }
    }

    fn decompress(&mut self, entry: &PackEntry<'_>) -> Result<(), PackError> {
        self.plain.clear();
        // Not `reserve`: twice the length would be more than the bound.
        self.plain.reserve_exact(entry.plain_len);
        self.context.decompress(entry, &mut self.plain)
    }
}

#[cfg(feature = "zstd")]
mod zstd {
    use super::{PackEntry, PackError};
    use std::fmt;
    use zstd_safe::{DCtx, compress_bound, find_frame_compressed_size, get_frame_content_size};

    /// One frame, or `None` where zstd has no memory.
    pub(super) fn compress(payload: &[u8], level: i32) -> Option<Vec<u8>> {
        let mut frame = Vec::with_capacity(compress_bound(payload.len()));
        zstd_safe::compress(&mut frame, payload, level).ok()?;
        Some(frame)
    }

    /// What decoding needs, kept from one frame to the next.
    #[derive(Default)]
    pub(super) struct Context(Option<DCtx<'static>>);

    impl fmt::Debug for Context {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Context")
        }
    }

    impl Context {
        /// Fills `plain`, which has the room that the index names and is empty.
        pub(super) fn decompress(
            &mut self,
            entry: &PackEntry<'_>,
            plain: &mut Vec<u8>,
        ) -> Result<(), PackError> {
            let wrong = PackError::Frame(entry.key);
            // One frame and nothing behind it: zstd takes several, and frames that it skips.
            let Ok(Some(stated)) = get_frame_content_size(entry.stored) else { return Err(wrong) };
            let length = find_frame_compressed_size(entry.stored);
            if stated != entry.plain_len as u64 || length != Ok(entry.stored.len()) {
                return Err(wrong);
            }
            let context = match &mut self.0 {
                Some(context) => context,
                none => none.insert(DCtx::try_create().ok_or(wrong.clone())?),
            };
            match context.decompress(plain, entry.stored) {
                Ok(length) if length == entry.plain_len && plain.len() == length => Ok(()),
                _ => Err(wrong),
            }
        }
    }
}

/// Without the feature nothing is compressed, and nothing that is can be read.
#[cfg(not(feature = "zstd"))]
mod zstd {
    use super::{CODEC_ZSTD, PackEntry, PackError};

    pub(super) fn compress(_: &[u8], _: i32) -> Option<Vec<u8>> {
        None
    }

    #[derive(Debug, Default)]
    pub(super) struct Context;

    impl Context {
        pub(super) fn decompress(
            &mut self,
            _: &PackEntry<'_>,
            _: &mut Vec<u8>,
        ) -> Result<(), PackError> {
            Err(PackError::Codec(CODEC_ZSTD))
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
