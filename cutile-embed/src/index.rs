//! `index.bin`: what `install` reads, per target, so that the rows of targets that are not on the
//! machine are never looked at.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 16 | magic `CUTILE-INDEX\0\0\0\0` |
//! | 16 | 4 | schema, u32 LE, [`INDEX_SCHEMA`] |
//! | 20 | 4 | reserved, 0 |
//! | 24 | 8 | length of the body, u64 LE |
//! | 32 | 32 | SHA-256 of the body |
//! | 64 | 16 | version of cutile that lowered the kernels, padded with 0: checked at compile time; all 0 where there are only shaders |
//! | 80 | .. | body, postcard: [`Index`], each target's rows a byte string of their own |
//!
//! The digest is an integrity check and covers the validators; that the bytes are the ones that
//! were built follows from their being part of the binary.

use crate::manifest::{Codegen, Specialization, Validator};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Magic of `index.bin`.
pub const INDEX_MAGIC: [u8; 16] = *b"CUTILE-INDEX\0\0\0\0";

/// Version of the layout of `index.bin`.
///
/// 2 has [`Index::prebuilt`].
pub const INDEX_SCHEMA: u32 = 2;

/// The version of cutile that this crate is made for.
pub const CUTILE_VERSION: &str = "0.5.0";

const HEADER_LEN: usize = 80;

/// An index, borrowed from its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index<'a> {
    /// Package that embeds.
    pub package: &'a str,
    /// Its version.
    pub package_version: &'a str,
    /// Version of the cutile crates that lowered the kernels; empty in a crate with shaders only.
    pub cutile: &'a str,
    /// The debug level given to keys without one of their own.
    pub codegen: Codegen,
    /// Whether the images were compiled before the build that embeds them: then the program's modules
    /// can differ from those of the rows, and `install` compares them.
    pub prebuilt: bool,
    /// Why nothing was built, if nothing was.
    pub skipped: Option<&'a str>,
    /// How many specializations, whatever the number of targets.
    pub kernels: u32,
    /// By `sm` number.
    #[serde(borrow)]
    pub targets: Vec<IndexTarget<'a>>,
}

/// The rows of one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexTarget<'a> {
    /// `sm_XX`; its images are in `images-<target>.pack`.
    pub target: &'a str,
    /// How many rows.
    pub kernels: u32,
    /// How many images they share.
    pub images: u32,
    /// The rows, postcard.
    rows: &'a [u8],
}

/// A specialization and where its image is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRow {
    /// The specialization.
    pub specialization: Specialization,
    /// Key in the target's pack.
    pub image: [u8; 32],
    /// What the launcher checks before it launches.
    pub validator: Validator,
}

/// Why an index cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexError {
    /// Not an index, or cut short.
    Malformed(&'static str),
    /// Written by another version of `cutile-build`.
    Schema {
        /// The schema in the header.
        found: u32,
    },
    /// The body is not what was written.
    Damaged,
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "not an index: {what}; build the crate again"),
            Self::Schema { found } => write!(
                f,
                "the index has schema {found}, this cutile-embed reads {INDEX_SCHEMA}: use the \
                 same version of cutile-build and cutile-embed"
            ),
            Self::Damaged => {
                f.write_str("the index does not match its digest; build the crate again")
            }
        }
    }
}

impl std::error::Error for IndexError {}

impl<'a> Index<'a> {
    /// Reads an index and checks its digest. Rows are left alone.
    ///
    /// What decodes and is not written so by [`Index::write`], as a number that is longer than it
    /// need be, is taken here and refused by [`Index::parse_exact`]: to tell is to encode all of it
    /// again, and `install` has the digest.
    ///
    /// # Errors
    ///
    /// [`IndexError`], for what is damaged, cut short or of another version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, IndexError> {
        let header = bytes.get(..HEADER_LEN).ok_or(IndexError::Malformed("too short"))?;
        if header[..16] != INDEX_MAGIC {
            return Err(IndexError::Malformed("no magic"));
        }
        let found = schema_of(header);
        if found != INDEX_SCHEMA {
            return Err(IndexError::Schema { found });
        }
        if header[20..24] != [0; 4] {
            return Err(IndexError::Malformed("reserved bytes are not 0"));
        }
        let mut length = [0; 8];
        length.copy_from_slice(&header[24..32]);
        let body = &bytes[HEADER_LEN..];
        if u64::from_le_bytes(length) != body.len() as u64 {
            return Err(IndexError::Malformed("its length is not the one it states"));
        }
        if Sha256::digest(body).as_slice() != &header[32..64] {
            return Err(IndexError::Damaged);
        }
        let index: Self = postcard::from_bytes(body)
            .map_err(|_| IndexError::Malformed("the body does not decode"))?;
        if header[64..80] != padded(index.cutile) {
            return Err(IndexError::Damaged);
        }
        Ok(index)
    }

    /// The same for tools: what [`Index::write`] does not write is an error.
    ///
    /// # Errors
    ///
    /// [`IndexError`], for any byte string that [`Index::write`] did not make.
    pub fn parse_exact(bytes: &'a [u8]) -> Result<Self, IndexError> {
        let index = Self::parse(bytes)?;
        // postcard takes numbers that are longer than they need be, and bytes behind the end.
        if !is_written_as(&index, &bytes[HEADER_LEN..]) {
            return Err(IndexError::Malformed("it is not what this version writes"));
        }
        Ok(index)
    }

    /// The bytes of `index.bin`.
    ///
    /// # Panics
    ///
    /// Never: the types have no state that postcard refuses.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).expect("plain data serializes");
        let mut out = Vec::with_capacity(HEADER_LEN + body.len());
        out.extend_from_slice(&INDEX_MAGIC);
        out.extend_from_slice(&INDEX_SCHEMA.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(body.len() as u64).to_le_bytes());
        out.extend_from_slice(&Sha256::digest(&body));
        out.extend_from_slice(&padded(self.cutile));
        out.extend_from_slice(&body);
        out
    }

    /// The rows of `target`, if it was compiled for.
    #[must_use]
    pub fn target(&self, target: &str) -> Option<&IndexTarget<'a>> {
        self.targets.iter().find(|rows| rows.target == target)
    }
}

impl<'a> IndexTarget<'a> {
    /// A target's section; `encoded` comes from [`encode_rows`].
    #[must_use]
    pub fn new(target: &'a str, rows: &[IndexRow], encoded: &'a [u8]) -> Self {
        let mut images: Vec<&[u8; 32]> = rows.iter().map(|row| &row.image).collect();
        images.sort_unstable();
        images.dedup();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { target, kernels: count(rows.len()), images: count(images.len()), rows: encoded }
    }

    /// Decodes the rows. They lie under the digest that [`Index::parse`] compares.
    ///
    /// # Errors
    ///
    /// [`IndexError::Malformed`] when they do not decode.
    pub fn rows(&self) -> Result<Vec<IndexRow>, IndexError> {
        postcard::from_bytes(self.rows).map_err(|_| IndexError::Malformed("a row does not decode"))
    }

    /// The same for tools: rows that [`encode_rows`] does not write, and counts that are not
    /// theirs, are errors.
    ///
    /// # Errors
    ///
    /// [`IndexError::Malformed`].
    pub fn rows_exact(&self) -> Result<Vec<IndexRow>, IndexError> {
        let rows = self.rows()?;
        let counted = Self::new(self.target, &rows, self.rows);
        if *self != counted || !is_written_as(&rows, self.rows) {
            return Err(IndexError::Malformed("rows are not what this version writes"));
        }
        Ok(rows)
    }
}

/// Whether `bytes` are the ones that postcard writes for a value.
fn is_written_as(value: &(impl Serialize + ?Sized), bytes: &[u8]) -> bool {
    postcard::to_stdvec(value).is_ok_and(|written| written == bytes)
}

/// The rows of a target as [`IndexTarget`] holds them.
///
/// # Panics
///
/// Never: the types have no state that postcard refuses.
#[must_use]
pub fn encode_rows(rows: &[IndexRow]) -> Vec<u8> {
    postcard::to_stdvec(rows).expect("plain data serializes")
}

/// Stops the build of a crate whose bundle another version of `cutile-build` wrote. Called by
/// [`embed!`](crate::embed) at compile time.
///
/// # Panics
///
/// When the bytes are no index of [`INDEX_SCHEMA`].
#[doc(hidden)]
pub const fn assert_schema(bytes: &[u8]) {
    assert!(bytes.len() >= HEADER_LEN, "OUT_DIR/cutile/index.bin is cut short: build again");
    let mut i = 0;
    while i < INDEX_MAGIC.len() {
        assert!(bytes[i] == INDEX_MAGIC[i], "OUT_DIR/cutile/index.bin is not a kernel index");
        i += 1;
    }
    assert!(
        schema_of(bytes) == INDEX_SCHEMA,
        "cutile-build and cutile-embed differ in version: depend on the same version of both"
    );
    let expected = padded(CUTILE_VERSION);
    // A crate with shaders only links no cutile.
    let has_kernels = bytes[64] != 0;
    let mut i = 0;
    while has_kernels && i < expected.len() {
        assert!(
            bytes[64 + i] == expected[i],
            "cutile of build-dependencies is not the one cutile-embed is for: depend on one version"
        );
        i += 1;
    }
}

const fn padded(version: &str) -> [u8; 16] {
    let mut out = [0; 16];
    let mut i = 0;
    while i < version.len() && i < out.len() {
        out[i] = version.as_bytes()[i];
        i += 1;
    }
    out
}

const fn schema_of(header: &[u8]) -> u32 {
    u32::from_le_bytes([header[16], header[17], header[18], header[19]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Options;

    fn row(function: &str, image: u8) -> IndexRow {
        let options = Options::new(Codegen::Debug);
        let specialization = Specialization {
            source_hash: "ab".into(),
            generics: vec!["f32".into(), "128".into()],
            grid: Some((1, 2, 3)),
            ..Specialization::new("kernels", function, options)
        };
        let validator = Validator { params: vec![], launch_checks: vec![] };
        IndexRow { specialization, image: [image; 32], validator }
    }

    fn index_bytes() -> Vec<u8> {
        let rows = [row("a", 1), row("b", 1)];
        let encoded = encode_rows(&rows);
        let index = Index {
            package: "p",
            package_version: "1.0.0",
            cutile: "0.5.0",
            codegen: Codegen::Debug,
            prebuilt: false,
            skipped: None,
            kernels: 2,
            targets: vec![IndexTarget::new("sm_90", &rows, &encoded)],
        };
        index.write()
    }

    #[test]
    fn each_fault_says_what_was_found_and_what_to_do() {
        let texts = [
            (IndexError::Malformed("too short"), ["too short", "build the crate again"]),
            (IndexError::Schema { found: 77 }, ["has schema 77", "same version of cutile-build"]),
            (IndexError::Damaged, ["does not match its digest", "build the crate again"]),
        ];
        for (error, parts) in texts {
            let text = error.to_string();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
    }

    #[test]
    fn a_written_index_reads_back() {
        let bytes = index_bytes();
        let index = Index::parse(&bytes).unwrap();
        let target = index.target("sm_90").unwrap();
        assert_eq!((target.kernels, target.images), (2, 1));
        assert_eq!(target.rows().unwrap(), [row("a", 1), row("b", 1)]);
        assert!(index.target("sm_80").is_none());
    }

    #[test]
    fn every_single_flipped_byte_is_refused() {
        let bytes = index_bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Index::parse(&damaged).is_err(), "byte {at}");
        }
    }

    /// An index whose body was changed by somebody who also knows how to make its digest.
    fn forged(edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = index_bytes();
        let mut body = bytes.split_off(HEADER_LEN);
        edit(&mut body);
        bytes[24..32].copy_from_slice(&(body.len() as u64).to_le_bytes());
        bytes[32..64].copy_from_slice(&Sha256::digest(&body));
        bytes.extend_from_slice(&body);
        bytes
    }

    #[test]
    fn what_decodes_and_was_not_written_so_is_refused_by_tools() {
        assert!(Index::parse_exact(&forged(|_| {})).is_ok());
        let refused = Err(IndexError::Malformed("it is not what this version writes"));
        assert_eq!(Index::parse_exact(&forged(|body| body.push(0))), refused);
        // The length of the package's name, 1, in two bytes.
        assert_eq!(Index::parse_exact(&forged(|body| drop(body.splice(..1, [0x81, 0])))), refused);
        let other = Err(IndexError::Damaged);
        assert_eq!(
            Index::parse_exact(&forged(|body| body[9] ^= 1)).map(|index| index.cutile),
            other
        );
    }

    #[test]
    fn rows_that_decode_and_were_not_written_so_are_refused_by_tools() {
        let rows = [row("a", 1), row("b", 1)];
        let encoded = encode_rows(&rows);
        let good = IndexTarget::new("sm_90", &rows, &encoded);
        assert_eq!(good.rows_exact().unwrap(), rows);
        let mut longer = encoded.clone();
        longer.push(0);
        let mut wide = encoded.clone();
        wide.splice(..1, [0x82, 0]);
        let refused = Err(IndexError::Malformed("rows are not what this version writes"));
        for bad in [
            IndexTarget { rows: &longer, ..good.clone() },
            IndexTarget { rows: &wide, ..good.clone() },
            IndexTarget { kernels: 1, ..good.clone() },
            IndexTarget { images: 2, ..good.clone() },
        ] {
            assert_eq!(bad.rows_exact(), refused);
        }
        // What `install` decodes it does not encode again.
        let wide = IndexTarget { rows: &wide, ..good.clone() };
        assert_eq!(wide.rows().unwrap(), rows);
        let cut = IndexTarget { rows: &encoded[..encoded.len() - 1], ..good };
        assert_eq!(cut.rows(), Err(IndexError::Malformed("a row does not decode")));
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = index_bytes();
        for len in 0..bytes.len() {
            assert!(Index::parse(&bytes[..len]).is_err(), "length {len}");
        }
    }

    #[test]
    fn another_schema_is_named() {
        let mut bytes = index_bytes();
        bytes[16] = 9;
        assert_eq!(Index::parse(&bytes), Err(IndexError::Schema { found: 9 }));
    }

    #[test]
    fn each_fault_says_what_to_do() {
        let text = IndexError::Schema { found: 9 }.to_string();
        assert!(text.contains("schema 9") && text.contains("reads 2"), "{text}");
        for error in [IndexError::Malformed("too short"), IndexError::Damaged] {
            assert!(error.to_string().ends_with("build the crate again"), "{error}");
        }
        assert!(IndexError::Malformed("too short").to_string().contains("too short"));
    }

    #[test]
    #[should_panic(expected = "depend on one version")]
    fn another_cutile_stops_the_build() {
        let mut bytes = index_bytes();
        bytes[66] = b'6';
        assert_schema(&bytes);
    }

    #[test]
    fn a_bundle_of_shaders_only_names_no_cutile() {
        let mut bytes = index_bytes();
        bytes[64..80].fill(0);
        assert_schema(&bytes);
    }

    #[test]
    fn what_was_written_is_embedded() {
        assert_schema(&index_bytes());
    }

    #[test]
    fn a_version_in_the_header_is_padded_or_cut() {
        assert_eq!(padded("0.5.0"), *b"0.5.0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(padded("0.5.0-alpha.1+ab"), *b"0.5.0-alpha.1+ab");
        assert_eq!(padded("0.5.0-alpha.1+abc"), *b"0.5.0-alpha.1+ab");
    }

    #[test]
    #[should_panic(expected = "cut short")]
    fn a_file_without_a_whole_header_stops_the_build() {
        assert_schema(&index_bytes()[..HEADER_LEN - 1]);
    }

    #[test]
    fn another_magic_stops_the_build() {
        for at in 0..INDEX_MAGIC.len() {
            let mut bytes = index_bytes();
            bytes[at] ^= 1;
            assert!(std::panic::catch_unwind(|| assert_schema(&bytes)).is_err(), "byte {at}");
        }
    }

    #[test]
    #[should_panic(expected = "differ in version")]
    fn another_schema_stops_the_build() {
        let mut bytes = index_bytes();
        bytes[16] = 9;
        assert_schema(&bytes);
    }
}
