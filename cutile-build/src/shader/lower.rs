//! One shader to rows and entries of a bundle.

use super::error::ShaderConfigError;
use super::find::Source;
use super::options::{Emit, ShaderOptions};
use super::reflect::{Reflection, reflect};
use crate::bundle::sha256;
use cutile_embed::key::key_text;
use cutile_embed::manifest::{ArtifactRow, ShaderRow};
use cutile_embed::shader::{
    BuiltAs, Kind, NAGA_VERSION, Request, ShaderError, decode_entry, entry_of, parse, preimage,
    resolve,
};
use sha2::{Digest, Sha256};

/// A shader in all forms that were asked for.
#[derive(Debug, Clone)]
pub(crate) struct Lowered {
    pub(crate) row: ShaderRow,
    pub(crate) entries: Vec<([u8; 32], Vec<u8>)>,
    pub(crate) text_sha256: [u8; 32],
    pub(crate) text: String,
    pub(crate) built: BuiltAs,
    pub(crate) reflection: Reflection,
    /// As declared, each by name.
    pub(crate) constants: Vec<Vec<(String, f64)>>,
}

/// Checks a shader with each set of constants, and lowers it. All that is wrong is told.
pub(crate) fn lower(source: &Source) -> Result<Lowered, Vec<ShaderError>> {
    let Source { options, text } = source;
    let path = options.path.as_str();
    let base = request(source, &[], Kind::Ir);
    let one = |error| vec![error];
    let capabilities = base.capabilities().map_err(one)?;
    let checked = parse(path, text, capabilities)
        .and_then(|checked| checked.select(path, text, &base.sorted_entry_points(), capabilities))
        .map_err(one)?;
    let reflection = reflect(&checked, capabilities);
    let sets = sorted(&options.constants);
    let mut errors = Vec::new();
    for set in &sets {
        errors.extend(resolve(path, text, &checked, &borrowed(set), capabilities).err());
    }
    if !errors.is_empty() {
        return Err(errors);
    }

    let mut entries = Vec::new();
    let mut artifacts = Vec::new();
    for (kind, set) in forms(options, &sets) {
        match artifact(source, kind, set) {
            Ok((row, key, entry)) => {
                artifacts.push(row);
                entries.push((key, entry));
            }
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let row = ShaderRow {
        path: path.to_owned(),
        sha256: sha256(text.as_bytes()),
        naga: NAGA_VERSION.to_owned(),
        features: unique(&options.features),
        capabilities: reflection.capabilities.clone(),
        entry_points: reflection.entry_point_rows(),
        overrides: reflection.override_rows(),
        bindings: reflection.binding_rows(),
        artifacts,
    };
    Ok(Lowered {
        built: BuiltAs {
            path: path.to_owned(),
            entry_points: unique(&options.entry_points),
            features: row.features.clone(),
        },
        row,
        entries,
        text_sha256: Sha256::digest(text).into(),
        text: text.clone(),
        reflection,
        constants: sets,
    })
}

/// Sets of constants that are given more than once.
pub(crate) fn repeated(options: &ShaderOptions) -> Option<ShaderConfigError> {
    let sets = sorted(&options.constants);
    let again = sets.iter().enumerate().find(|(at, set)| sets[..*at].contains(set))?.1;
    let shown: Vec<String> =
        again.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    Some(ShaderConfigError::SameConstants {
        path: options.path.clone(),
        constants: format!("{{ {} }}", shown.join(", ")),
    })
}

/// IR once: it keeps its overrides. The others once for each set, or for the overrides' own values
/// where none is declared.
fn forms<'s>(
    options: &ShaderOptions,
    sets: &'s [Vec<(String, f64)>],
) -> Vec<(Kind, &'s [(String, f64)])> {
    let mut forms: Vec<(Kind, &[(String, f64)])> = vec![(Kind::Ir, &[])];
    for form in Emit::ALL.into_iter().filter(|form| options.emit.contains(form)) {
        let kind = match form {
            Emit::SpirV => Kind::SpirV,
            Emit::Wgsl => Kind::Wgsl,
        };
        if sets.is_empty() {
            forms.push((kind, &[]));
        }
        forms.extend(sets.iter().map(|set| (kind, set.as_slice())));
    }
    forms
}

type Artifact = (ArtifactRow, [u8; 32], Vec<u8>);

fn artifact(source: &Source, kind: Kind, set: &[(String, f64)]) -> Result<Artifact, ShaderError> {
    let request = request(source, set, kind);
    let (key, entry) = entry_of(&request)?;
    let preimage = preimage(&request)?;
    // It was made for this preimage, so it decodes.
    let payload = decode_entry(&entry, &preimage).unwrap_or_default();
    let row = ArtifactRow {
        kind: kind.name().to_owned(),
        entry_points: unique(&source.options.entry_points),
        constants: set.iter().cloned().collect(),
        key: key_text(&key),
        bytes: payload.len() as u64,
        sha256: sha256(payload),
    };
    Ok((row, key, entry))
}

fn request<'s>(source: &'s Source, set: &'s [(String, f64)], kind: Kind) -> Request<'s> {
    let Source { options, text } = source;
    Request::new(&options.path, text)
        .entry_points(options.entry_points.iter().map(String::as_str))
        .features(options.features.iter().map(String::as_str))
        .constants(borrowed(set))
        .kind(kind)
}

fn borrowed(set: &[(String, f64)]) -> Vec<(&str, f64)> {
    set.iter().map(|(name, value)| (name.as_str(), *value)).collect()
}

fn sorted(sets: &[Vec<(String, f64)>]) -> Vec<Vec<(String, f64)>> {
    let mut sets = sets.to_vec();
    for set in &mut sets {
        set.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    }
    sets
}

/// Sorted, each once: requests are compared like this.
fn unique(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    names
}
