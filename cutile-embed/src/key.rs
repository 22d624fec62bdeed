//! Upstream's L2 key: SHA-256 over everything that decides which cubin tileiras writes.
//!
//! Equal to cutile 0.5.0 byte for byte. Each field is preceded by its length as u64 LE, so that no
//! two lists of fields give the same bytes; in front stands the domain tag `cutile-jit-cubin-v1\0`.
//!
//! | input | in the key? | why |
//! |---|---|---|
//! | bytecode version | yes: major and minor, then the tag | tileiras reads the same bytes otherwise |
//! | bytecode | yes | the program, with every module it calls |
//! | gpu name | yes | `sm_90` and `sm_100` are different machines |
//! | optimization level, flags | yes, two bytes | debug, line tables and memcheck are other code |
//! | tileiras fingerprint | yes | what `--version` prints |
//! | tile libraries | yes, where the kernel links some: `tilelibs`, then [`tile_libraries_digest`] | linked in |
//! | ptxas, libnvvm | no | upstream does not ask them; see cutile-build's own cache |
//! | module, kernel, generics | no | the bytecode follows from them |
//! | time, path of the files | no | they change nothing |

use sha2::{Digest, Sha256};
use std::path::Path;

/// Variables that change what cutile generates. All but `CUTILE_BYTECODE_VERSION` are in no key of
/// cutile's in-memory cache: a build refuses them, and while one is set at run time nothing is
/// filled.
pub const CODEGEN_VARIABLES: [&str; 6] = [
    "CUTILE_JIT_DEBUG",
    "CUTILE_JIT_OPT_LEVEL",
    "CUTILE_JIT_SANITIZE",
    "CUTILE_BYTECODE_VERSION",
    "CUTILE_FORCE_DEVICE_CHECKS",
    "CUTILE_DISABLE_CHECK_HOISTING",
];

/// Version of what is hashed, as upstream counts it.
pub const L2_KEY_SCHEMA: u32 = 2;

const DOMAIN: &[u8] = b"cutile-jit-cubin-v1\0";

/// Version of Tile IR bytecode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BytecodeVersion {
    /// 13 in 13.5.
    pub major: u8,
    /// 5 in 13.5.
    pub minor: u8,
    /// Of a pre-release; 0 otherwise.
    pub tag: u16,
}

/// What a key is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyInput<'a> {
    /// Serialized Tile IR.
    pub bytecode: &'a [u8],
    /// Its version.
    pub version: BytecodeVersion,
    /// `sm_XX`.
    pub gpu_name: &'a str,
    /// 0 to 3.
    pub opt_level: u8,
    /// 1 device debug, 2 line tables, 4 memcheck.
    pub flags: u8,
    /// What `tileiras --version` prints, trimmed.
    pub tileiras_fp: &'a str,
    /// [`tile_libraries_digest`] of the libraries that the kernel links.
    pub tilelib_digest: Option<&'a str>,
}

/// The key: 64 lowercase hex digits.
#[must_use]
pub fn l2_key(input: &KeyInput<'_>) -> String {
    // Without `..`: a field that is added must be hashed.
    let KeyInput { bytecode, version, gpu_name, opt_level, flags, tileiras_fp, tilelib_digest } =
        *input;
    let BytecodeVersion { major, minor, tag } = version;
    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(&[major, minor]);
    field(&tag.to_le_bytes());
    field(bytecode);
    field(gpu_name.as_bytes());
    field(&[opt_level, flags]);
    field(tileiras_fp.as_bytes());
    if let Some(digest) = tilelib_digest {
        field(b"tilelibs");
        field(digest.as_bytes());
    }
    key_text(&hash.finalize().into())
}

/// What [`KeyInput::tilelib_digest`] is for these libraries, each with the path that tileiras is
/// given and the digest of its contents: 64 hex digits, or `None` where there are none.
///
/// The path counts because a library loads others from the folder it lies in.
#[must_use]
pub fn tile_libraries_digest<'a>(
    libraries: impl IntoIterator<Item = (&'a Path, [u8; 32])>,
) -> Option<String> {
    let mut hash = None;
    for (path, digest) in libraries {
        let hash = hash.get_or_insert_with(Sha256::new);
        let path = path.to_string_lossy();
        hash.update((path.len() as u64).to_le_bytes());
        hash.update(path.as_bytes());
        hash.update(digest);
    }
    hash.map(|hash| key_text(&hash.finalize().into()))
}

/// The 32 bytes of a key, or `None` for anything but 64 lowercase hex digits.
#[must_use]
pub fn key_bytes(key: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = key.as_bytes().as_chunks::<2>();
    if pairs.0.len() != 32 || !pairs.1.is_empty() {
        return None;
    }
    let mut out = [0; 32];
    for (byte, [high, low]) in out.iter_mut().zip(pairs.0) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}

/// A key as 64 lowercase hex digits.
#[must_use]
pub fn key_text(key: &[u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(64);
    for byte in key {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: KeyInput<'static> = KeyInput {
        bytecode: b"bytecode",
        version: BytecodeVersion { major: 13, minor: 5, tag: 0 },
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: "V13.5.37",
        tilelib_digest: None,
    };

    fn moves(change: impl FnOnce(&mut KeyInput<'static>)) {
        let mut input = INPUT;
        change(&mut input);
        assert_ne!(l2_key(&input), l2_key(&INPUT));
    }

    #[test]
    fn the_bytecode_version_moves_the_key() {
        moves(|input| input.version.major = 12);
        moves(|input| input.version.minor = 4);
        moves(|input| input.version.tag = 1);
    }

    #[test]
    fn the_bytecode_moves_the_key() {
        moves(|input| input.bytecode = b"bytecodf");
    }

    #[test]
    fn the_gpu_name_moves_the_key() {
        moves(|input| input.gpu_name = "sm_100");
    }

    #[test]
    fn the_optimization_level_moves_the_key() {
        moves(|input| input.opt_level = 2);
    }

    #[test]
    fn the_flags_move_the_key() {
        for flag in [1, 2, 4] {
            moves(|input| input.flags = flag);
        }
    }

    #[test]
    fn the_fingerprint_moves_the_key() {
        moves(|input| input.tileiras_fp = "V13.4.92");
    }

    #[test]
    fn tile_libraries_move_the_key() {
        moves(|input| input.tilelib_digest = Some(""));
    }

    #[test]
    fn path_contents_and_order_of_tile_libraries_move_their_digest() {
        let (a, b) = (Path::new("/a.tilelib"), Path::new("/b.tilelib"));
        let digests = [
            tile_libraries_digest([]),
            tile_libraries_digest([(a, [1; 32])]),
            tile_libraries_digest([(a, [2; 32])]),
            tile_libraries_digest([(b, [1; 32])]),
            tile_libraries_digest([(a, [1; 32]), (b, [2; 32])]),
            tile_libraries_digest([(b, [2; 32]), (a, [1; 32])]),
        ];
        assert_eq!(digests[0], None);
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest), "{at}");
        }
    }

    #[test]
    fn the_key_with_a_tile_library_is_pinned() {
        // Worked out by hand from the table above, from the same preimage that gives upstream's own
        // pinned key where nothing is linked; upstream_differential.rs compares random ones.
        let library = (Path::new("/opt/lib/fft.tilelib"), [1; 32]);
        let digest = tile_libraries_digest([library]);
        let input = KeyInput {
            bytecode: b"bc",
            version: BytecodeVersion { major: 13, minor: 2, tag: 0 },
            tileiras_fp: "fp",
            tilelib_digest: digest.as_deref(),
            ..INPUT
        };
        assert_eq!(
            l2_key(&input),
            "b91a2528a7e456020318602fb8e58b216eeba0fbca2a4a9114192e27a0b35afa"
        );
    }

    #[test]
    fn a_byte_that_moves_from_one_field_to_the_next_moves_the_key() {
        moves(|input| {
            input.bytecode = b"bytecodes";
            input.gpu_name = "m_90";
        });
    }

    #[test]
    fn text_and_bytes_of_a_key_give_each_other() {
        let key = l2_key(&INPUT);
        assert_eq!(key_text(&key_bytes(&key).unwrap()), key);
    }

    #[test]
    fn what_is_not_64_lowercase_hex_digits_is_no_key() {
        let key = l2_key(&INPUT);
        for bad in [&key[1..], &format!("{key}0"), &key.to_uppercase(), &"g".repeat(64), ""] {
            assert_eq!(key_bytes(bad), None, "{bad:?}");
        }
    }
}
