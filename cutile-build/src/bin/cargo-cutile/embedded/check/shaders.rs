//! The entries of a pack of shaders, and the rows of the manifest that name them.

use super::super::bundle::EmbeddedBundle;
use super::super::shader::{ShaderEntry, ShaderRequest};
use super::Problem;
use cutile_embed::key::{key_bytes, key_text};
use cutile_embed::manifest::{ArtifactRow, Manifest, ShaderRow};
use cutile_embed::pack::PackEntry;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

pub(super) fn check(
    bundle: &EmbeddedBundle<'_>,
    problems: &mut Vec<Problem>,
    step: &mut dyn FnMut(),
) {
    let manifest = bundle.manifest.as_ref().map(|manifest| &manifest.part);
    // Texts have no row of their own: they are known by the digest in the row of their shader.
    let mut texts = BTreeSet::new();
    for pack in &bundle.shaders {
        for entry in pack.part.entries() {
            let rows = rows_of(manifest, &entry.key);
            let mut paths: Vec<&str> = rows.iter().map(|(row, _)| row.path.as_str()).collect();
            paths.dedup();
            let mut kernel = (!paths.is_empty()).then(|| paths.join(" and "));
            let mut found = Vec::new();
            match read(&entry) {
                Err(why) => found.push(why),
                Ok((payload, request)) => {
                    let text = request.filter(|request| request.is_text);
                    let row = manifest.zip(text.as_ref()).and_then(|(manifest, text)| {
                        manifest.shaders.iter().find(|row| row.sha256 == text.text_sha256)
                    });
                    if let (Some(row), Some(text)) = (row, text) {
                        kernel.get_or_insert(row.path.clone());
                        texts.insert(text.text_sha256);
                    } else if rows.is_empty() && manifest.is_some() {
                        found.push(format!("no row names the entry {}", key_text(&entry.key)));
                    }
                    for (_, artifact) in &rows {
                        against_row(&payload, artifact, &mut found);
                    }
                }
            }
            problems.extend(found.into_iter().map(|what| Problem {
                kernel: kernel.clone(),
                offset: Some(pack.offset + entry.offset),
                what,
                ..Problem::default()
            }));
            step();
        }
    }
    for row in manifest.into_iter().flat_map(|manifest| &manifest.shaders) {
        let mut say = |what: String| {
            let kernel = Some(row.path.clone());
            problems.push(Problem { kernel, what, ..Problem::default() });
        };
        for artifact in &row.artifacts {
            let has = |key| bundle.shaders.iter().any(|pack| pack.part.get(&key).is_some());
            if !key_bytes(&artifact.key).is_some_and(has) {
                say(format!("no pack has its {}, {}", artifact.kind, artifact.key));
            }
        }
        if !texts.contains(&row.sha256) {
            say(format!("no pack has its text, of SHA-256 {}", row.sha256));
        }
    }
}

/// What is checked further of the request of an entry.
struct Request {
    is_text: bool,
    text_sha256: String,
    kind: String,
}

struct Payload {
    bytes: u64,
    sha256: String,
    kind: Option<String>,
}

fn read(entry: &PackEntry<'_>) -> Result<(Payload, Option<Request>), String> {
    let payload = entry.payload().map_err(|error| error.to_string())?;
    let found = ShaderEntry::parse(&payload).map_err(|error| error.to_string())?;
    if found.key != entry.key {
        return Err(format!(
            "its metadata is that of {}, and it is stored under {}",
            key_text(&found.key),
            key_text(&entry.key)
        ));
    }
    let request = found.request.map(|request: ShaderRequest<'_>| Request {
        is_text: request.kind == "text",
        text_sha256: key_text(&request.text_sha256),
        kind: request.kind.to_owned(),
    });
    let payload = Payload {
        bytes: found.payload.len() as u64,
        sha256: key_text(&Sha256::digest(found.payload).into()),
        kind: request.as_ref().map(|request| request.kind.clone()),
    };
    Ok((payload, request))
}

fn rows_of<'m>(
    manifest: Option<&'m Manifest>,
    key: &[u8; 32],
) -> Vec<(&'m ShaderRow, &'m ArtifactRow)> {
    let key = key_text(key);
    let rows = manifest.into_iter().flat_map(|manifest| &manifest.shaders);
    let artifacts = rows.flat_map(|row| row.artifacts.iter().map(move |artifact| (row, artifact)));
    artifacts.filter(|(_, artifact)| artifact.key == key).collect()
}

fn against_row(payload: &Payload, row: &ArtifactRow, found: &mut Vec<String>) {
    let Payload { bytes, sha256, kind } = payload;
    if row.bytes != *bytes {
        found.push(format!("it has {bytes} bytes, {} by the manifest", row.bytes));
    }
    if row.sha256 != *sha256 {
        found.push(format!("its SHA-256 is {sha256}, {} by the manifest", row.sha256));
    }
    if let Some(kind) = kind
        && row.kind != *kind
    {
        found.push(format!("it is {kind}, {} by the manifest", row.kind));
    }
}
