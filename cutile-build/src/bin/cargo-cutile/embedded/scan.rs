//! Packs, indexes and manifests by their first bytes, at any alignment.
//!
//! | part | starts with | how its end is known |
//! |---|---|---|
//! | pack | its magic, which nothing else has | the length in its header |
//! | index | its magic, then a schema, zeros, a length and a version: the magic alone is also in every program that reads indexes | the length in its header |
//! | manifest | `{`, a line, `"schema": `: as `cutile-build` writes it | it is one JSON value |

use cutile_embed::index::{INDEX_MAGIC, INDEX_SCHEMA, Index, IndexError};
use cutile_embed::manifest::{MANIFEST_SCHEMA, Manifest};
use cutile_embed::pack::{Pack, PackError, find_packs};

/// Longest manifest that is read: 64 MiB. That of 30 kernels for four targets has 0.6 MB.
pub const MAX_MANIFEST_BYTES: usize = 64 << 20;

const INDEX_HEADER: usize = 80;
const MANIFEST_START: &[u8] = b"{\n  \"schema\": ";

/// Something, and where in the file it lies.
#[derive(Debug, Clone, PartialEq)]
pub struct Located<T> {
    /// From the start of the file.
    pub offset: usize,
    /// In bytes; of what cannot be read, what is known of it.
    pub bytes: usize,
    /// What lies there.
    pub part: T,
}

/// A part that is there and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// From the start of the file.
    pub offset: usize,
    /// `pack`, `index` or `manifest`.
    pub part: &'static str,
    /// What is wrong with it.
    pub why: String,
}

/// What was found in a file, each kind by offset.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts<'a> {
    /// Packs with a whole index; their entries are not checked yet.
    pub packs: Vec<Located<Pack<'a>>>,
    /// Whole indexes.
    pub indexes: Vec<Located<Index<'a>>>,
    /// Manifests.
    pub manifests: Vec<Located<Manifest>>,
    /// What is none of these any more.
    pub unreadable: Vec<Unreadable>,
}

/// Looks for all parts in the bytes of a file.
#[must_use]
pub fn scan(bytes: &[u8]) -> Parts<'_> {
    let mut parts = Parts::default();
    for (offset, pack) in find_packs(bytes) {
        match pack {
            Ok(pack) => parts.packs.push(Located { offset, bytes: pack.total_len(), part: pack }),
            Err(error) => parts.unreadable.push(unreadable_pack(offset, &error)),
        }
    }
    for offset in occurrences(bytes, &INDEX_MAGIC) {
        match read_index(&bytes[offset..]) {
            None => {}
            Some(Ok((part, len))) => parts.indexes.push(Located { offset, bytes: len, part }),
            Some(Err(error)) => {
                let why = error.to_string();
                parts.unreadable.push(Unreadable { offset, part: "index", why });
            }
        }
    }
    let mut behind = 0;
    for offset in occurrences(bytes, MANIFEST_START) {
        // What is inside of one is none.
        if offset < behind {
            continue;
        }
        match read_manifest(&bytes[offset..]) {
            None => {}
            Some(Ok((part, len))) => {
                behind = offset + len;
                parts.manifests.push(Located { offset, bytes: len, part });
            }
            Some(Err(why)) => {
                parts.unreadable.push(Unreadable { offset, part: "manifest", why });
            }
        }
    }
    parts.unreadable.sort_by_key(|unreadable| unreadable.offset);
    parts
}

fn unreadable_pack(offset: usize, error: &PackError) -> Unreadable {
    Unreadable { offset, part: "pack", why: error.to_string() }
}

/// Where `needle` starts in `bytes`.
fn occurrences(bytes: &[u8], needle: &[u8]) -> impl Iterator<Item = usize> {
    let first = needle.first().copied();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = bytes.get(at..)?;
            let start = at + rest.iter().position(|byte| Some(*byte) == first)?;
            at = start + 1;
            if bytes[start..].starts_with(needle) {
                return Some(start);
            }
        }
    })
}

type Read<T, E> = Option<Result<(T, usize), E>>;

/// `None` where only the magic is there, as in the code of every reader.
fn read_index(bytes: &[u8]) -> Read<Index<'_>, IndexError> {
    let header = bytes.first_chunk::<INDEX_HEADER>()?;
    let schema = u32::from_le_bytes([header[16], header[17], header[18], header[19]]);
    let version = &header[64..80];
    let text = version.iter().position(|byte| *byte == 0).unwrap_or(version.len());
    let plausible = (1..=u32::from(u16::MAX)).contains(&schema)
        && header[20..24] == [0; 4]
        && version[..text].iter().all(u8::is_ascii_graphic)
        && version[text..].iter().all(|byte| *byte == 0);
    if !plausible {
        return None;
    }
    if schema != INDEX_SCHEMA {
        return Some(Err(IndexError::Schema { found: schema }));
    }
    let mut len = [0; 8];
    len.copy_from_slice(&header[24..32]);
    let end = usize::try_from(u64::from_le_bytes(len))
        .ok()
        .and_then(|len| len.checked_add(INDEX_HEADER))
        .filter(|end| *end <= bytes.len());
    let Some(end) = end else {
        return Some(Err(IndexError::Malformed("it is cut short")));
    };
    Some(Index::parse_exact(&bytes[..end]).map(|index| (index, end)))
}

/// `None` for other JSON that starts alike.
fn read_manifest(bytes: &[u8]) -> Read<Manifest, String> {
    let bytes = &bytes[..bytes.len().min(MAX_MANIFEST_BYTES)];
    let schema = schema_of_ours(bytes)?;
    if schema != MANIFEST_SCHEMA {
        return Some(Err(format!(
            "the manifest has schema {schema}, this command reads {MANIFEST_SCHEMA}: use the \
             version of cutile-build that wrote it"
        )));
    }
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Manifest>();
    match values.next()? {
        Ok(manifest) => Some(Ok((manifest, values.byte_offset()))),
        Err(error) => Some(Err(format!(
            "the manifest does not read: {error} (counted from its start); build the crate again"
        ))),
    }
}

/// The schema of what starts as only `cutile-build` starts it: schema, then package and name.
fn schema_of_ours(bytes: &[u8]) -> Option<u32> {
    let rest = bytes.strip_prefix(MANIFEST_START)?;
    let digits = rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    let (schema, rest) = rest.split_at(digits);
    rest.starts_with(b",\n  \"package\": {\n    \"name\": ").then_some(())?;
    std::str::from_utf8(schema).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn all_parts_are_found_at_any_alignment() {
        let crate_ = fixture::bundle("app", &["sm_80", "sm_90"]);
        for gap in 0..20 {
            let file = fixture::file(&crate_, gap);
            let parts = scan(&file);
            // Of two targets, and of the shaders.
            assert_eq!((parts.packs.len(), parts.indexes.len(), parts.manifests.len()), (3, 1, 1));
            assert_eq!(parts.unreadable, []);
            let manifest = &parts.manifests[0];
            let text = &file[manifest.offset..manifest.offset + manifest.bytes];
            assert!(text.starts_with(b"{\n") && text.ends_with(b"}"));
        }
    }

    #[test]
    fn the_magic_of_an_index_in_a_readers_code_is_no_index() {
        let mut file = vec![7; 100];
        file.extend_from_slice(&INDEX_MAGIC);
        file.extend_from_slice(b"and then the next constant of the program, or its end");
        assert_eq!(scan(&file), Parts::default());
        file.extend_from_slice(&[0; 200]);
        assert_eq!(scan(&file), Parts::default());
    }

    #[test]
    fn other_json_is_no_manifest() {
        for text in ["{\n  \"schema\": 1,\n  \"name\": 2\n}", "{\n  \"schema\": \"x\"\n}"] {
            assert_eq!(scan(text.as_bytes()), Parts::default());
        }
    }

    #[test]
    fn what_another_version_wrote_is_named() {
        let crate_ = fixture::bundle("app", &["sm_80"]);
        let mut file = fixture::file(&crate_, 3);
        let parts = scan(&file);
        let (pack, index) = (parts.packs[0].offset, parts.indexes[0].offset);
        let manifest = parts.manifests[0].offset;
        file[pack + 16] = 9;
        file[index + 16] = 9;
        file[manifest + MANIFEST_START.len()] = b'9';
        let found = scan(&file).unreadable;
        let parts: Vec<_> = found.iter().map(|unreadable| unreadable.part).collect();
        assert_eq!(parts, ["pack", "index", "manifest"]);
        assert!(found.iter().all(|unreadable| unreadable.why.contains('9')), "{found:?}");
    }

    #[test]
    fn every_truncation_is_survived() {
        let crate_ = fixture::bundle("app", &["sm_80"]);
        let file = fixture::file(&crate_, 1);
        let whole = scan(&file);
        for len in (0..file.len()).rev().step_by(7) {
            let parts = scan(&file[..len]);
            assert!(parts.packs.len() <= whole.packs.len());
        }
        let cut = whole.indexes[0].offset + 90;
        let parts = scan(&file[..cut]);
        assert_eq!(parts.unreadable.len(), 1);
        assert!(parts.unreadable[0].why.contains("cut short"), "{:?}", parts.unreadable);
    }

    #[test]
    fn a_manifest_that_does_not_end_is_told() {
        let crate_ = fixture::bundle("app", &["sm_80"]);
        let file = fixture::file(&crate_, 1);
        let manifest = scan(&file).manifests[0].offset;
        let parts = scan(&file[..manifest + 200]);
        assert!(parts.manifests.is_empty());
        assert!(parts.unreadable[0].why.contains("build the crate again"));
    }
}
