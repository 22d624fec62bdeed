//! wgpu's feature names, and what naga may accept under them.

use naga::valid::Capabilities;
use std::fmt;
use wgpu_types::{DownlevelFlags, Features};

/// A name that is no wgpu feature.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownFeature {
    /// The name.
    pub name: String,
    /// The feature with the most similar name.
    pub nearest: String,
}

impl fmt::Display for UnknownFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, nearest } = self;
        write!(f, "wgpu has no feature `{name}`; the nearest is `{nearest}`")
    }
}

impl std::error::Error for UnknownFeature {}

/// What naga may accept where these features of wgpu are declared, as wgpu itself maps them.
///
/// What WebGPU requires of every device is allowed without a feature. A device that lacks it
/// (`DownlevelFlags`) says so when the module is created.
///
/// # Errors
///
/// [`UnknownFeature`], with the nearest name.
pub fn capabilities<S: AsRef<str>>(names: &[S]) -> Result<Capabilities, UnknownFeature> {
    let mut features = Features::empty();
    for name in names {
        features |= feature(name.as_ref())?;
    }
    Ok(wgpu_naga_bridge::features_to_naga_capabilities(features, DownlevelFlags::all()))
}

fn feature(name: &str) -> Result<Features, UnknownFeature> {
    if let Some(feature) = Features::from_name(name) {
        return Ok(feature);
    }
    let nearest = Features::all()
        .iter_names()
        .map(|(known, _)| known)
        .min_by_key(|known| strsim::levenshtein(name, known))
        .unwrap_or_default();
    Err(UnknownFeature { name: name.to_owned(), nearest: nearest.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_allows_what_wgpu_allows_under_it() {
        let none = capabilities::<&str>(&[]).unwrap();
        assert!(!none.contains(Capabilities::SHADER_FLOAT16));
        let f16 = capabilities(&["SHADER_F16"]).unwrap();
        assert_eq!(f16, none | Capabilities::SHADER_FLOAT16);
        let both = capabilities(&["SHADER_F16", "SUBGROUP"]).unwrap();
        assert_eq!(both, f16 | Capabilities::SUBGROUP);
    }

    #[test]
    fn a_misspelt_feature_is_named_with_the_nearest() {
        let error = capabilities(&["SHADER_FP16"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "wgpu has no feature `SHADER_FP16`; the nearest is `SHADER_F16`"
        );
    }
}
