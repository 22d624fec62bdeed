//! What the entry of a shader says about itself: its metadata is what its key is the digest of, so
//! the key is worked out again from it, without naga.
//!
//! | field | layout |
//! |---|---|
//! | domain `cutile-embed shader`, kind, version of naga, emitter options, SHA-256 of the text | each its length, u64 LE, and the bytes; behind the domain a version, u32, 1 |
//! | entry points | their number, u64 LE, and each as above |
//! | constants | their number, and each a name as above and the bits of an f64 |
//! | capabilities, adapter | not read here |

use cutile_embed::shader_entry::{ENTRY_MAGIC, EntryError, split_entry};
use sha2::{Digest, Sha256};

const DOMAIN: &[u8] = b"cutile-embed shader";
const KEY_VERSION: u32 = 1;

/// An entry of a shader, its digest checked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ShaderEntry<'a> {
    /// The key that follows from the metadata.
    pub key: [u8; 32],
    /// `ir`, `spirv`, `wgsl`, `text` or a kind of an adapter's own; `None` where the metadata is of
    /// another version.
    pub request: Option<ShaderRequest<'a>>,
    /// What is stored.
    pub payload: &'a [u8],
}

/// The request that an entry answers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ShaderRequest<'a> {
    /// `ir`, `spirv`, `wgsl` or `text`.
    pub kind: &'a str,
    /// Version of naga, empty for a text.
    pub naga: &'a str,
    /// SHA-256 of the text.
    pub text_sha256: [u8; 32],
    /// The entry points; empty: all.
    pub entry_points: Vec<&'a str>,
    /// Override to value.
    pub constants: Vec<(&'a str, f64)>,
}

/// Whether bytes start as the entry of a shader.
#[must_use]
pub fn is_shader_entry(bytes: &[u8]) -> bool {
    bytes.starts_with(&ENTRY_MAGIC)
}

impl<'a> ShaderEntry<'a> {
    /// Takes an entry apart.
    ///
    /// # Errors
    ///
    /// [`EntryError`], for what is not a whole entry.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EntryError> {
        let (metadata, payload) = split_entry(bytes)?;
        let key = Sha256::digest(metadata).into();
        Ok(Self { key, request: request(metadata), payload })
    }
}

fn request(metadata: &[u8]) -> Option<ShaderRequest<'_>> {
    let mut fields = Fields(metadata);
    (fields.bytes()? == DOMAIN).then_some(())?;
    (fields.take::<4>()? == &KEY_VERSION.to_le_bytes()).then_some(())?;
    let kind = fields.text()?;
    let naga = fields.text()?;
    let _options = fields.bytes()?;
    let text_sha256 = fields.bytes()?.try_into().ok()?;
    // Collected up to what is there: a number alone reserves nothing.
    let mut entry_points = Vec::new();
    for _ in 0..fields.length()? {
        entry_points.push(fields.text()?);
    }
    let mut constants = Vec::new();
    for _ in 0..fields.length()? {
        let name = fields.text()?;
        constants.push((name, f64::from_bits(u64::from_le_bytes(*fields.take()?))));
    }
    Some(ShaderRequest { kind, naga, text_sha256, entry_points, constants })
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    fn length(&mut self) -> Option<u64> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.length()?).ok()?;
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::shader_preimage;
    use super::*;
    use cutile_embed::shader_entry::encode_entry;

    #[test]
    fn key_and_request_follow_from_the_metadata() {
        let mut preimage = shader_preimage("wgsl", "30.0.2", [9; 32], &["main", "other"]);
        // One constant in place of none.
        preimage.truncate(preimage.len() - 24);
        preimage.extend_from_slice(&1u64.to_le_bytes());
        preimage.extend_from_slice(&1u64.to_le_bytes());
        preimage.push(b'n');
        preimage.extend_from_slice(&2.5f64.to_bits().to_le_bytes());
        preimage.extend_from_slice(&[0; 16]);
        let bytes = encode_entry(&preimage, b"text").unwrap();
        let entry = ShaderEntry::parse(&bytes).unwrap();
        assert_eq!(entry.key, <[u8; 32]>::from(Sha256::digest(&preimage)));
        assert_eq!(entry.payload, b"text");
        let request = entry.request.unwrap();
        assert_eq!((request.kind, request.naga), ("wgsl", "30.0.2"));
        assert_eq!(request.text_sha256, [9; 32]);
        assert_eq!(request.entry_points, ["main", "other"]);
        assert_eq!(request.constants, [("n", 2.5)]);
    }

    #[test]
    fn metadata_that_lies_about_its_lengths_is_no_request() {
        let preimage = shader_preimage("ir", "30.0.2", [9; 32], &["main"]);
        for at in 0..preimage.len() - 24 {
            let mut lying = preimage.clone();
            lying[at] = 0xff;
            let bytes = encode_entry(&lying, b"").unwrap();
            // Whatever it says, no panic and no memory for what is not there.
            let _ = ShaderEntry::parse(&bytes).unwrap().request;
        }
        for len in 0..preimage.len() - 24 {
            let bytes = encode_entry(&preimage[..len], b"").unwrap();
            assert_eq!(ShaderEntry::parse(&bytes).unwrap().request, None);
        }
    }
}
