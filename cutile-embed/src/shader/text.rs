//! The WGSL text of a shader in a bundle, by its digest.
//!
//! It is there once for each shader, whatever it was lowered to: for a program whose naga is
//! another one, for an entry that turns out damaged, and for programs on another wgpu.

use super::entry::{decode_entry, encode_entry};
use super::key::Fields;
use super::load::packs;
use crate::pack::{Pack, PackError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The text of a shader, and what the build made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedText {
    /// Version of the naga that lowered it.
    pub naga: String,
    /// The WGSL text.
    pub text: String,
    /// A row for each path with this text.
    pub built: Vec<BuiltAs>,
}

/// How a shader was declared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BuiltAs {
    /// Path below the crate.
    pub path: String,
    /// The entry points it was compacted to; empty: all.
    pub entry_points: Vec<String>,
    /// The wgpu features it may use.
    pub features: Vec<String>,
}

fn preimage(text_sha256: [u8; 32]) -> Vec<u8> {
    let fields = Fields {
        kind: "text",
        // So that a program with another naga finds it.
        naga: "",
        options: [0; 32],
        text_sha256,
        entry_points: &[],
        constants: &[],
        capabilities: 0,
        adapter: None,
    };
    fields.preimage()
}

/// The key of a text in a pack, from its SHA-256.
#[must_use]
pub fn text_key(text_sha256: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(preimage(*text_sha256)).into()
}

/// Key and entry of a text for a pack; `None` where it is too long to be embedded.
#[must_use]
pub fn text_entry(text: &EmbeddedText) -> Option<([u8; 32], Vec<u8>)> {
    let sha256 = Sha256::digest(&text.text).into();
    let payload = postcard::to_stdvec(text).ok()?;
    Some((text_key(&sha256), encode_entry(&preimage(sha256), &payload)?))
}

/// The first whole text of this digest in a bundle of this program.
pub(super) fn find_text(sha256: &[u8; 32]) -> Option<EmbeddedText> {
    text_in(packs(), sha256)
}

/// The first whole text of this digest in these packs.
pub(super) fn text_in(
    packs: &[Result<Pack<'_>, PackError>],
    sha256: &[u8; 32],
) -> Option<EmbeddedText> {
    let key = text_key(sha256);
    packs.iter().flatten().find_map(|pack| {
        let entry = pack.get(&key)?.payload().ok()?;
        read_text(&entry, sha256)
    })
}

fn read_text(entry: &[u8], sha256: &[u8; 32]) -> Option<EmbeddedText> {
    let payload = decode_entry(entry, &preimage(*sha256)).ok()?;
    let found: EmbeddedText = postcard::from_bytes(payload).ok()?;
    (Sha256::digest(&found.text).as_slice() == sha256).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_back_by_its_digest_only() {
        let text = EmbeddedText {
            naga: "30.0.2".into(),
            text: "fn f() {}".into(),
            built: vec![BuiltAs {
                path: "a.wgsl".into(),
                entry_points: vec![],
                features: vec!["SUBGROUP".into()],
            }],
        };
        let sha256: [u8; 32] = Sha256::digest("fn f() {}").into();
        let (key, entry) = text_entry(&text).unwrap();
        assert_eq!(key, text_key(&sha256));
        assert_eq!(read_text(&entry, &sha256), Some(text));
        assert_eq!(read_text(&entry, &[0; 32]), None);
        assert_eq!(read_text(&entry[..entry.len() - 1], &sha256), None);
    }
}
