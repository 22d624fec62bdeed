//! What a lowered shader depends on.
//!
//! The key is the SHA-256 of the preimage: the fields below, in this order. A field of bytes is its
//! length, u64 little-endian, and the bytes; a list is its length, u64, and its items. So no two
//! requests share a preimage.
//!
//! | field | in the key | why |
//! |---|---|---|
//! | domain `cutile-embed shader` | yes | no other key of this crate is one of these |
//! | [`KEY_VERSION`] | yes | the layout of this table |
//! | kind | yes | IR is no SPIR-V |
//! | version of naga, exact | yes | IR is laid out as its structs; output changes with patches |
//! | digest of the emitter options | yes | they decide what bounds checks there are |
//! | SHA-256 of the text | yes | |
//! | entry points, sorted | yes | the module is compacted to them; an empty list is all |
//! | constants, sorted, as bits | not for IR | IR keeps its overrides |
//! | capabilities, as bits | yes | they decide what is accepted |
//! | adapter | device-specific kinds only | a pipeline cache is the driver's own |
//! | path of the shader | no | it is for messages |
//!
//! [`fingerprint`] is the part that does not depend on the request. On purpose no environment
//! variable changes it: what a process was started with must not decide which shader is served.

use super::NAGA_VERSION;
use super::emit::options_digest;
use super::error::ShaderError;
use super::request::{Kind, Request};
use crate::key::key_text;
use sha2::{Digest, Sha256};

/// Version of the layout of the preimage.
pub const KEY_VERSION: u32 = 1;

const DOMAIN: &[u8] = b"cutile-embed shader";

/// The fields of a preimage, without what is the same for all.
pub(super) struct Fields<'a> {
    pub(super) kind: &'a str,
    pub(super) naga: &'a str,
    pub(super) options: [u8; 32],
    pub(super) text_sha256: [u8; 32],
    pub(super) entry_points: &'a [&'a str],
    pub(super) constants: &'a [(&'a str, f64)],
    pub(super) capabilities: u64,
    /// Of device-specific kinds: what tells the adapter and its driver.
    pub(super) adapter: Option<&'a str>,
}

impl Fields<'_> {
    pub(super) fn preimage(&self) -> Vec<u8> {
        // Without `..`: a field that is added must be written.
        let Self {
            kind,
            naga,
            options,
            text_sha256,
            entry_points,
            constants,
            capabilities,
            adapter,
        } = self;
        let mut out = Preimage(Vec::new());
        out.bytes(DOMAIN);
        out.0.extend_from_slice(&KEY_VERSION.to_le_bytes());
        out.bytes(kind.as_bytes());
        out.bytes(naga.as_bytes());
        out.bytes(options);
        out.bytes(text_sha256);
        out.length(entry_points.len());
        for name in *entry_points {
            out.bytes(name.as_bytes());
        }
        out.length(constants.len());
        for (name, value) in *constants {
            out.bytes(name.as_bytes());
            out.0.extend_from_slice(&canonical_bits(*value).to_le_bytes());
        }
        out.0.extend_from_slice(&capabilities.to_le_bytes());
        out.length(usize::from(adapter.is_some()));
        if let Some(adapter) = adapter {
            out.bytes(adapter.as_bytes());
        }
        out.0
    }
}

struct Preimage(Vec<u8>);

impl Preimage {
    fn length(&mut self, length: usize) {
        self.0.extend_from_slice(&(length as u64).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }
}

/// The bits of a value; both zeros are one, and so are all NaN.
fn canonical_bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

/// What is hashed for a request, see the module's table. An entry holds it, and serves nothing
/// whose own differs.
///
/// # Errors
///
/// For a name that is no wgpu feature.
pub fn preimage(request: &Request<'_>) -> Result<Vec<u8>, ShaderError> {
    let kind = request.requested_kind();
    let constants = match kind {
        Kind::Ir => Vec::new(),
        Kind::SpirV | Kind::Wgsl => request.sorted_constants(),
    };
    let fields = Fields {
        kind: kind.name(),
        naga: NAGA_VERSION,
        options: options_digest(),
        text_sha256: request.text_sha256(),
        entry_points: &request.sorted_entry_points(),
        constants: &constants,
        capabilities: request.capabilities()?.bits(),
        adapter: None,
    };
    Ok(fields.preimage())
}

/// The key of a request: pure, and the same in every process, on every machine.
///
/// # Errors
///
/// For a name that is no wgpu feature.
pub fn cache_key(request: &Request<'_>) -> Result<[u8; 32], ShaderError> {
    Ok(Sha256::digest(preimage(request)?).into())
}

/// What keys hold that does not come from the request: layout of the key, naga's exact version,
/// emitter options. For people and logs; no environment variable changes it.
#[must_use]
pub fn fingerprint() -> String {
    format!(
        "shader-key {KEY_VERSION}, naga {NAGA_VERSION}, options {}",
        key_text(&options_digest())
    )
}

#[cfg(test)]
mod tests;
