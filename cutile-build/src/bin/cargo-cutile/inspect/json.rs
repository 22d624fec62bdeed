//! The same for programs. The keys are documented in the help, and stay.

use crate::embedded::bundle::{Embedded, EmbeddedBundle};
use crate::embedded::kernel::EmbeddedKernel;
use crate::embedded::scan::Located;
use crate::embedded::shader::ShaderEntry;
use crate::embedded::words::{codegen, words};
use cutile_embed::key::{key_bytes, key_text};
use cutile_embed::manifest::{ArtifactRow, ShaderRow};
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn of(file: &Path, bytes: usize, embedded: &Embedded<'_>) -> Value {
    let unreadable = embedded
        .unreadable
        .iter()
        .map(|part| json!({ "part": part.part, "offset": part.offset, "why": part.why }));
    json!({
        "schema": 1,
        "file": file.display().to_string(),
        "bytes": bytes,
        "unreadable": unreadable.collect::<Value>(),
        "bundles": embedded.bundles.iter().map(bundle).collect::<Value>(),
    })
}

fn bundle(bundle: &EmbeddedBundle<'_>) -> Value {
    let index = bundle.index.as_ref();
    let manifest = bundle.manifest.as_ref().map(|manifest| &manifest.part);
    let targets = bundle.targets.iter().map(|target| {
        json!({
            "target": target.name,
            "kernels": target.rows.as_ref().ok().map(Vec::len),
            "images": target.pack.as_ref().map_or(0, |pack| pack.part.len()),
            "bytes": target.pack.as_ref().map_or(0, |pack| pack.bytes),
            "pack": place(target.pack.as_ref()),
        })
    });
    let level = index.map(|index| index.part.codegen).or(manifest.map(|found| found.codegen));
    json!({
        "package": bundle.package.name,
        "version": bundle.package.version,
        "cutile": index.map(|index| index.part.cutile).or(manifest.map(|found| &*found.cutile)),
        "codegen": level.map(codegen),
        "skipped": index.map_or(manifest.and_then(|found| found.skipped.as_deref()), |index| {
            index.part.skipped
        }),
        "toolkit": manifest.and_then(|manifest| manifest.toolkit.as_ref()),
        "index": place(index),
        "manifest": place(bundle.manifest.as_ref()),
        "left_out": manifest.map_or(&[][..], |manifest| &manifest.left_out),
        "targets": targets.collect::<Value>(),
        "kernels": bundle.kernels().iter().map(kernel).collect::<Value>(),
        "shaders": shaders(bundle, manifest.map_or(&[], |manifest| &manifest.shaders)),
    })
}

fn place<T>(part: Option<&Located<T>>) -> Value {
    part.map_or(Value::Null, |part| json!({ "offset": part.offset, "bytes": part.bytes }))
}

fn kernel(kernel: &EmbeddedKernel<'_>) -> Value {
    let mut value = serde_json::to_value(kernel.specialization).unwrap_or_else(|_| json!({}));
    value["kernel"] = kernel.specialization.name().into();
    value["words"] = words(kernel.specialization).into();
    let images = kernel.by_number().into_iter().map(|(target, image)| {
        json!({
            "target": target,
            "key": key_text(&image.key),
            "bytes": image.entry.as_ref().map(|_| image.bytes()),
            "offset": image.entry.as_ref().map(|(offset, _)| offset),
            "stored": image.entry.as_ref().map(|(_, entry)| entry.stored.len()),
            "codec": image.entry.as_ref().map(|(_, entry)| codec(entry.codec)),
        })
    });
    value["images"] = images.collect();
    value
}

/// The name of a codec of a pack; of one that this version does not know, its number.
fn codec(codec: u32) -> Value {
    match codec {
        0 => "raw".into(),
        1 => "zstd".into(),
        other => other.into(),
    }
}

fn shaders(bundle: &EmbeddedBundle<'_>, rows: &[ShaderRow]) -> Value {
    let shader = |row: &ShaderRow| {
        let artifact = |artifact: &ArtifactRow| {
            json!({
                "kind": artifact.kind,
                "constants": artifact.constants,
                "key": artifact.key,
                "bytes": artifact.bytes,
                "offset": key_bytes(&artifact.key).and_then(|key| entry_at(bundle, &key)),
            })
        };
        json!({
            "path": row.path,
            "entry_points": row.entry_points,
            "artifacts": row.artifacts.iter().map(artifact).collect::<Value>(),
        })
    };
    if !rows.is_empty() {
        return rows.iter().map(shader).collect();
    }
    // Without a manifest the entries say what they are.
    let entries = bundle.shaders.iter().flat_map(|pack| {
        pack.part.entries().map(|entry| {
            let payload = entry.payload().ok();
            let found = payload.as_deref().and_then(|bytes| ShaderEntry::parse(bytes).ok());
            json!({
                "kind": found.as_ref().and_then(|found| Some(found.request.as_ref()?.kind)),
                "constants": {},
                "key": key_text(&entry.key),
                "bytes": found.map(|found| found.payload.len()),
                "offset": pack.offset + entry.offset,
            })
        })
    });
    let entries: Vec<Value> = entries.collect();
    if entries.is_empty() {
        return json!([]);
    }
    json!([{ "path": null, "entry_points": [], "artifacts": entries }])
}

fn entry_at(bundle: &EmbeddedBundle<'_>, key: &[u8; 32]) -> Option<usize> {
    bundle.shaders.iter().find_map(|pack| Some(pack.offset + pack.part.get(key)?.offset))
}
