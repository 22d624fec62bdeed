//! The manifest of a bundle, as tools read it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// A manifest as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest(pub Value);

impl Manifest {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a bundle has a manifest");
        Self(serde_json::from_str(&text).expect("a manifest is JSON"))
    }

    /// The specializations.
    #[must_use]
    pub fn kernels(&self) -> &[Value] {
        self.0["kernels"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The targets that have images.
    #[must_use]
    pub fn image_targets(&self) -> BTreeSet<&str> {
        self.kernels()
            .iter()
            .filter_map(|kernel| kernel["images"].as_object())
            .flat_map(|images| images.keys().map(String::as_str))
            .collect()
    }

    /// Why nothing was embedded.
    #[must_use]
    pub fn skipped(&self) -> Option<&str> {
        self.0["skipped"].as_str()
    }
}
