//! `[[package.metadata.cutile.shader]]`.
//!
//! | key | type | what it is |
//! |---|---|---|
//! | `path` | string | the shader, below the crate |
//! | `entry-points` | array of strings | what of it is embedded; without, all |
//! | `constants` | array of tables of numbers | one specialization each |
//! | `features` | array of strings | the wgpu features that it may use |
//! | `emit` | array of strings | `spirv`, `wgsl`: embedded beside the IR |

use super::options::{Emit, ShaderOptions};
use crate::package::{MetadataConfig, PackageError, strings};
use serde_json::{Map, Value};
use std::path::Path;

/// The keys of a table.
pub(crate) const KEYS: [&str; 5] = ["path", "entry-points", "constants", "features", "emit"];

/// The tables of a manifest as options.
pub(crate) fn shader_options(
    manifest: &Path,
    config: &MetadataConfig,
) -> Result<Vec<ShaderOptions>, PackageError> {
    let read = |(at, table)| Table { manifest, at, table }.read();
    config.shader.iter().enumerate().map(read).collect()
}

struct Table<'a> {
    manifest: &'a Path,
    at: usize,
    table: &'a Map<String, Value>,
}

impl Table<'_> {
    fn read(&self) -> Result<ShaderOptions, PackageError> {
        if let Some(key) = self.table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(PackageError::UnknownKey {
                manifest: self.manifest.to_owned(),
                table: "[[package.metadata.cutile.shader]]",
                key: key.clone(),
                valid: &KEYS,
            });
        }
        let path = match self.table.get("path") {
            Some(value) => value.as_str().ok_or_else(|| self.wrong("path", "a string", value))?,
            None => {
                let found = Value::Object(self.table.clone());
                return Err(self.wrong("", "a table with `path`", &found));
            }
        };
        let mut options = ShaderOptions::new(path);
        options.entry_points = self.strings("entry-points")?;
        options.features = self.strings("features")?;
        if let Some(sets) = self.table.get("constants") {
            const SETS: &str = "an array of tables, each of names and numbers";
            let all = sets.as_array().ok_or_else(|| self.wrong("constants", SETS, sets))?;
            for (at, set) in all.iter().enumerate() {
                options.constants.push(self.set(at, set)?);
            }
        }
        for name in self.strings("emit")? {
            let form = Emit::ALL.into_iter().find(|form| form.name() == name);
            let wrong = || self.wrong("emit", "\"spirv\", \"wgsl\" or both", &self.table["emit"]);
            options.emit.push(form.ok_or_else(wrong)?);
        }
        Ok(options)
    }

    fn set(&self, at: usize, set: &Value) -> Result<Vec<(String, f64)>, PackageError> {
        let place = format!("constants[{at}]");
        let set = set
            .as_object()
            .ok_or_else(|| self.wrong(&place, "a table of names and numbers", set))?;
        let number = |(name, value): (&String, &Value)| {
            // Cargo gives NaN and the infinities as null.
            let number = value.as_f64().ok_or_else(|| {
                self.wrong(&format!("{place}.{name}"), "a finite number; 0 and 1 for bool", value)
            })?;
            Ok((name.clone(), number))
        };
        set.iter().map(number).collect()
    }

    fn strings(&self, key: &str) -> Result<Vec<String>, PackageError> {
        match self.table.get(key) {
            None => Ok(Vec::new()),
            Some(value) => {
                strings(value).ok_or_else(|| self.wrong(key, "an array of strings", value))
            }
        }
    }

    fn wrong(&self, key: &str, expected: &'static str, found: &Value) -> PackageError {
        let dot = if key.is_empty() { "" } else { "." };
        PackageError::WrongType {
            manifest: self.manifest.to_owned(),
            key: format!("shader[{}]{dot}{key}", self.at),
            expected,
            found: found.to_string(),
        }
    }
}
