//! The value that is stored under the key of a shader, in packs and on disk.
//!
//! Integers are little-endian.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 16 | magic `CUTILE-SHADER\0\0\0` |
//! | 16 | 4 | version, u32, [`ENTRY_VERSION`] |
//! | 20 | 4 | length of the metadata, u32, at most [`MAX_METADATA_BYTES`] |
//! | 24 | 8 | length of the payload, u64, at most [`MAX_PAYLOAD_BYTES`] |
//! | 32 | 32 | SHA-256 of bytes 0 to 32, the metadata and the payload |
//! | 64 | .. | metadata: the preimage of the key, every field of the request |
//! | .. | .. | payload: IR in postcard, SPIR-V words, or text |
//!
//! The digest is checked before anything is decoded.

use sha2::{Digest, Sha256};
use std::fmt;

/// The first 16 bytes of an entry.
pub const ENTRY_MAGIC: [u8; 16] = *b"CUTILE-SHADER\0\0\0";

/// Version of the layout.
pub const ENTRY_VERSION: u32 = 1;

/// Longest payload that is written or read: 16 MiB.
pub const MAX_PAYLOAD_BYTES: u64 = 16 << 20;

/// Longest metadata that is written or read: 64 KiB.
pub const MAX_METADATA_BYTES: u64 = 64 << 10;

const HEADER_LEN: usize = 64;

/// Longest entry that is read.
#[cfg(feature = "wgsl")]
pub(super) const MAX_ENTRY_BYTES: u64 = HEADER_LEN as u64 + MAX_METADATA_BYTES + MAX_PAYLOAD_BYTES;

/// Why bytes are not the entry of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryError {
    /// Not an entry, or cut short.
    Malformed,
    /// Another version of the layout.
    Version(u32),
    /// Longer than the bounds.
    TooLong,
    /// It does not match its digest.
    Damaged,
    /// The entry of another request.
    OtherRequest,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not a shader entry, or cut short"),
            Self::Version(found) => {
                write!(f, "a shader entry of version {found}; this code reads {ENTRY_VERSION}")
            }
            Self::TooLong => f.write_str("a shader entry longer than its bounds"),
            Self::Damaged => f.write_str("a shader entry that does not match its digest"),
            Self::OtherRequest => f.write_str("the shader entry of another request"),
        }
    }
}

impl std::error::Error for EntryError {}

/// An entry; `None` where it is longer than the bounds: then it is not stored.
#[must_use]
pub fn encode_entry(preimage: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
    if preimage.len() as u64 > MAX_METADATA_BYTES || payload.len() as u64 > MAX_PAYLOAD_BYTES {
        return None;
    }
    let mut out = Vec::with_capacity(HEADER_LEN + preimage.len() + payload.len());
    out.extend_from_slice(&ENTRY_MAGIC);
    out.extend_from_slice(&ENTRY_VERSION.to_le_bytes());
    out.extend_from_slice(&u32::try_from(preimage.len()).ok()?.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    let digest = digest(&out, preimage, payload);
    out.extend_from_slice(&digest);
    out.extend_from_slice(preimage);
    out.extend_from_slice(payload);
    Some(out)
}

/// The payload of the entry of a request, given by its preimage.
///
/// # Errors
///
/// [`EntryError`], for anything that [`encode_entry`] did not make for this preimage. To the caller
/// it is a miss.
pub fn decode_entry<'e>(bytes: &'e [u8], preimage: &[u8]) -> Result<&'e [u8], EntryError> {
    let (metadata, payload) = split_entry(bytes)?;
    if metadata != preimage { Err(EntryError::OtherRequest) } else { Ok(payload) }
}

/// Metadata and payload of an entry, whatever the request. For tools: the key of the entry is the
/// SHA-256 of the metadata.
///
/// # Errors
///
/// [`EntryError`], for anything that [`encode_entry`] did not make.
pub fn split_entry(bytes: &[u8]) -> Result<(&[u8], &[u8]), EntryError> {
    let header = bytes.first_chunk::<HEADER_LEN>().ok_or(EntryError::Malformed)?;
    if header[..16] != ENTRY_MAGIC {
        return Err(EntryError::Malformed);
    }
    let version = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
    if version != ENTRY_VERSION {
        return Err(EntryError::Version(version));
    }
    let metadata_len = u32::from_le_bytes([header[20], header[21], header[22], header[23]]);
    let mut payload_len = [0; 8];
    payload_len.copy_from_slice(&header[24..32]);
    let payload_len = u64::from_le_bytes(payload_len);
    if u64::from(metadata_len) > MAX_METADATA_BYTES || payload_len > MAX_PAYLOAD_BYTES {
        return Err(EntryError::TooLong);
    }
    let body = &bytes[HEADER_LEN..];
    // Neither is above its bound, so the sum fits.
    if body.len() as u64 != u64::from(metadata_len) + payload_len {
        return Err(EntryError::Malformed);
    }
    let (metadata, payload) =
        body.split_at_checked(metadata_len as usize).ok_or(EntryError::Malformed)?;
    if digest(&header[..32], metadata, payload) != header[32..] {
        return Err(EntryError::Damaged);
    }
    Ok((metadata, payload))
}

fn digest(header: &[u8], metadata: &[u8], payload: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(header);
    digest.update(metadata);
    digest.update(payload);
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Vec<u8> {
        encode_entry(b"preimage", b"payload of some bytes").unwrap()
    }

    #[test]
    fn an_entry_reads_back() {
        assert_eq!(decode_entry(&entry(), b"preimage").unwrap(), b"payload of some bytes");
        let empty = encode_entry(b"", b"").unwrap();
        assert_eq!(decode_entry(&empty, b"").unwrap(), b"");
        assert_eq!(
            split_entry(&entry()).unwrap(),
            (&b"preimage"[..], &b"payload of some bytes"[..])
        );
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let entry = entry();
        for at in 0..entry.len() {
            for bit in 0..8 {
                let mut damaged = entry.clone();
                damaged[at] ^= 1 << bit;
                assert!(decode_entry(&damaged, b"preimage").is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn every_other_length_is_refused() {
        let entry = entry();
        for len in 0..entry.len() {
            assert_eq!(decode_entry(&entry[..len], b"preimage"), Err(EntryError::Malformed));
        }
        let mut longer = entry;
        longer.push(0);
        assert_eq!(decode_entry(&longer, b"preimage"), Err(EntryError::Malformed));
    }

    #[test]
    fn the_entry_of_another_request_is_refused() {
        assert_eq!(decode_entry(&entry(), b"preimagf"), Err(EntryError::OtherRequest));
        assert_eq!(decode_entry(&entry(), b""), Err(EntryError::OtherRequest));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = entry();
        bytes[16] = 9;
        assert_eq!(decode_entry(&bytes, b"preimage"), Err(EntryError::Version(9)));
    }

    #[test]
    fn what_is_longer_than_the_bounds_is_neither_written_nor_read() {
        let long = vec![0; MAX_METADATA_BYTES as usize + 1];
        assert!(encode_entry(&long, b"").is_none());
        assert!(encode_entry(&long[1..], b"").is_some());
        let long = vec![0; MAX_PAYLOAD_BYTES as usize + 1];
        assert!(encode_entry(b"", &long).is_none());
        assert!(encode_entry(b"", &long[1..]).is_some());
        // A length that is stated, not there: refused before anything is reserved for it.
        let mut bytes = entry();
        bytes[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(decode_entry(&bytes, b"preimage"), Err(EntryError::TooLong));
        let mut bytes = entry();
        bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode_entry(&bytes, b"preimage"), Err(EntryError::TooLong));
    }
}
