//! The body for the tables of `[package.metadata.cutile]`, which `cutile-build` reads. Its property
//! tests (`cutile-build/tests/properties`) include this file, and so does the fuzz target.
//!
//! Cargo reads the TOML and hands on JSON, so a table is JSON text here; what is no JSON is taken as
//! the steps of a table to be made of the right names and shapes, since text by chance has neither.

use super::bounded;
use cutile_build::package::{MetadataConfig, PackageError};
use cutile_build::targets::Target;
use cutile_build::{Emit, ShaderOptions};
use serde_json::{Map, Value, json};
use std::path::Path;

const MIB: usize = 1 << 20;
const MANIFEST: &str = "crate/Cargo.toml";

/// A table.
pub fn metadata(data: &[u8]) {
    match serde_json::from_slice(data) {
        Ok(table) => check(&table, data.len()),
        Err(_) => check(&made(&mut data.iter().copied(), 0), data.len()),
    }
}

fn check(table: &Value, length: usize) {
    let manifest = Path::new(MANIFEST);
    let bound = MIB + 256 * length;
    // Levenshtein's distance of an unknown key takes a row as long as a known one, messages take the
    // value, and all else is a copy.
    let read = bounded(bound, || MetadataConfig::parse(manifest, table));
    assert_eq!(read.is_ok(), is_table(table), "{read:?} of {table}");
    let config = match read {
        Ok(config) => config,
        Err(error) => return said(&error),
    };
    let object = table.as_object().expect("it was taken");
    assert_eq!(config.targets, object.get("targets").map(strings));
    assert_eq!(config.shaders, object.get("shaders").map(strings).unwrap_or_default());
    let by_kernel = object.get("targets-for").and_then(Value::as_object);
    assert_eq!(config.targets_for.len(), by_kernel.map_or(0, Map::len));
    for (kernel, targets) in by_kernel.into_iter().flatten() {
        assert_eq!(config.targets_for[kernel], strings(targets));
    }
    assert!(config.cutile.is_empty(), "dependencies are not in the table");
    for names in config.targets.iter().chain(config.targets_for.values()) {
        targets(names);
    }
    let read = bounded(bound, || config.shader_options(manifest));
    let expected: Option<Vec<ShaderOptions>> = config.shader.iter().map(shader).collect();
    match (read, expected) {
        (Ok(read), Some(expected)) => assert_eq!(read, expected),
        (Err(error), None) => said(&error),
        (read, expected) => panic!("{read:?}, and by its documentation {expected:?}, of {table}"),
    }
}

/// A message names the manifest, and what would be right.
fn said(error: &PackageError) {
    let text = error.to_string();
    assert!(text.starts_with(MANIFEST), "{text}");
    match error {
        PackageError::WrongType { key, expected, .. } => {
            assert!(text.contains(key.as_str()) && text.ends_with(expected), "{text}");
        }
        PackageError::UnknownKey { key, valid, .. } => {
            assert!(!valid.contains(&key.as_str()), "{text}");
            assert!(text.ends_with(&valid.join(", ")), "{text}");
        }
        other => panic!("{other:?} is not for a table"),
    }
}

/// Targets are sorted, each there once, and of those that were named.
fn targets(names: &[String]) {
    match bounded(MIB + 64 * names.len(), || Target::parse_list("targets", names)) {
        Ok(targets) => {
            assert!(targets.is_sorted() && targets.len() == names.len());
            assert!(targets.iter().all(|target| names.iter().any(|name| name == target.as_str())));
        }
        Err(error) => {
            let all = names.iter().all(|name| Target::parse(name).is_some());
            let twice = (1..names.len()).any(|at| names[..at].contains(&names[at]));
            assert!(!all || twice || names.is_empty(), "{error}");
            assert!(error.to_string().starts_with("targets names "), "{error}");
        }
    }
}

/// What the table at the head of `cutile_build::package` says.
fn is_table(table: &Value) -> bool {
    table.as_object().is_some_and(|table| {
        table.iter().all(|(key, value)| match key.as_str() {
            "targets" | "shaders" => is_strings(value),
            "targets-for" => value.as_object().is_some_and(|all| all.values().all(is_strings)),
            "shader" => value.as_array().is_some_and(|all| all.iter().all(Value::is_object)),
            _ => false,
        })
    })
}

/// What the table at the head of `shader/metadata.rs` says, with the methods that a build script
/// has for the same.
fn shader(table: &Map<String, Value>) -> Option<ShaderOptions> {
    const KEYS: [&str; 5] = ["path", "entry-points", "constants", "features", "emit"];
    if !table.keys().all(|key| KEYS.contains(&key.as_str())) {
        return None;
    }
    let list = |key: &str| match table.get(key) {
        None => Some(Vec::new()),
        Some(value) => is_strings(value).then(|| strings(value)),
    };
    let mut options = ShaderOptions::new(table.get("path")?.as_str()?)
        .entry_points(list("entry-points")?)
        .features(list("features")?);
    let none = Value::Array(Vec::new());
    for set in table.get("constants").unwrap_or(&none).as_array()? {
        let set: Option<Vec<_>> =
            set.as_object()?.iter().map(|(name, value)| Some((name, value.as_f64()?))).collect();
        options = options.constants(set?.into_iter().map(|(name, value)| (name.as_str(), value)));
    }
    for name in list("emit")? {
        options = options.emit(match name.as_str() {
            "spirv" => Emit::SpirV,
            "wgsl" => Emit::Wgsl,
            _ => return None,
        });
    }
    Some(options)
}

fn is_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

/// Names and texts that mean something, and some that nearly do.
const WORDS: [&str; 20] = [
    "targets",
    "targets-for",
    "shaders",
    "shader",
    "path",
    "entry-points",
    "constants",
    "features",
    "emit",
    "spirv",
    "wgsl",
    "sm_90",
    "sm_100",
    "sm_81",
    "SHADER_F16",
    "a/*.wgsl",
    "../a.wgsl",
    "targets_for",
    "",
    "line\nbreak",
];

/// A value: one byte says of which kind, the next ones what is in it. It ends with the bytes.
fn made(bytes: &mut impl Iterator<Item = u8>, depth: usize) -> Value {
    let Some(kind) = bytes.next() else { return json!({}) };
    let length = usize::from(kind >> 4) % 5;
    match kind & 15 {
        // Tables mostly, and below them lists of words, as in a manifest.
        0..=5 if depth < 4 => {
            let mut table = Map::new();
            for _ in 0..length {
                let name = word(bytes);
                table.insert(name, made(bytes, depth + 1));
            }
            Value::Object(table)
        }
        6..=7 if depth < 4 => (0..length).map(|_| made(bytes, depth + 1)).collect(),
        8..=10 => (0..length).map(|_| Value::String(word(bytes))).collect(),
        11 => Value::Null,
        12 => Value::Bool(length == 0),
        13 => json!(bytes.next().unwrap_or_default()),
        14 => json!(f64::from(bytes.next().unwrap_or_default()) / 7.0 - 3.0),
        _ => Value::String(word(bytes)),
    }
}

fn word(bytes: &mut impl Iterator<Item = u8>) -> String {
    let byte = bytes.next().unwrap_or_default();
    match WORDS.get(usize::from(byte) % 24) {
        Some(word) => (*word).to_owned(),
        None => char::from(byte).to_string().repeat(usize::from(byte % 3)),
    }
}

/// Tables as they are in manifests: name, bytes.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let whole = json!({
        "targets": ["sm_90", "sm_120"],
        "targets-for": { "kernels::fp4": ["sm_100"], "kernels::old": ["sm_80"] },
        "shaders": ["shaders/**/*.wgsl"],
        "shader": [
            {
                "path": "shaders/matmul.wgsl",
                "entry-points": ["main"],
                "constants": [{ "TILE": 8, "SCALE": 0.5 }, { "TILE": 16, "7": -1e300 }],
                "features": ["SHADER_F16"],
                "emit": ["spirv", "wgsl"],
            },
            { "path": "shaders/fx/lit.wgsl" },
        ],
    });
    let wrong = json!({
        "targets": ["sm_91", "sm_90", "sm_90"],
        "shader": [{ "path": "a.wgsl", "emit": ["spriv"], "constants": [{ "x": null }] }],
    });
    let text = |value: &Value| serde_json::to_vec_pretty(value).expect("plain data serializes");
    vec![
        ("whole", text(&whole)),
        ("wrong", text(&wrong)),
        ("empty", b"{}".to_vec()),
        // A table of three words to lists, tables and texts.
        ("steps", vec![0x30, 0, 0x28, 11, 12, 3, 0x26, 0x20, 4, 15, 15, 6, 0x16, 0x10, 18, 13, 7]),
    ]
}
