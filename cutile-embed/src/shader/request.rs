//! What is asked for.

use super::error::{ShaderError, Stage};
use super::features::capabilities;
use super::text::find_text;
use naga::valid::Capabilities;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::sync::Arc;

/// The form of a lowered shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// naga's intermediate representation, overrides unresolved: what wgpu takes without parsing.
    Ir,
    /// SPIR-V words, overrides resolved.
    SpirV,
    /// Minified WGSL, overrides resolved: for programs on another wgpu, and for browsers.
    Wgsl,
}

impl Kind {
    /// As it is spelled in manifests: `ir`, `spirv`, `wgsl`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ir => "ir",
            Self::SpirV => "spirv",
            Self::Wgsl => "wgsl",
        }
    }
}

/// A shader that a crate embeds, as the module that `cutile-build` generates declares it. Its text
/// is in the bundle, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shader {
    /// Path below the crate, with `/` on every system.
    pub path: &'static str,
    /// SHA-256 of the text.
    pub sha256: [u8; 32],
    /// The entry points it was compacted to; all of them where this is empty.
    pub entry_points: &'static [&'static str],
    /// The wgpu features it may use, by wgpu's names.
    pub features: &'static [&'static str],
}

/// Where the text of a request comes from.
#[derive(Debug, Clone, Copy)]
enum From<'a> {
    Text(&'a str),
    Bundle([u8; 32]),
}

/// The WGSL text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text<'a> {
    /// The caller's.
    Given(&'a str),
    /// That of the bundle.
    Embedded(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Given(text) => text,
            Self::Embedded(text) => text,
        }
    }
}

/// What is asked for: a shader, what of it, in which form.
#[derive(Debug, Clone)]
#[must_use]
pub struct Request<'a> {
    path: &'a str,
    from: From<'a>,
    entry_points: Vec<&'a str>,
    constants: Vec<(&'a str, f64)>,
    features: Vec<&'a str>,
    kind: Kind,
}

impl<'a> Request<'a> {
    /// A shader by its text. The path is for messages.
    pub fn new(path: &'a str, text: &'a str) -> Self {
        Self::from(path, From::Text(text))
    }

    /// A shader of the generated module, as it was declared there.
    pub fn of(shader: &'a Shader) -> Self {
        Self::from(shader.path, From::Bundle(shader.sha256))
            .entry_points(shader.entry_points.iter().copied())
            .features(shader.features.iter().copied())
    }

    fn from(path: &'a str, from: From<'a>) -> Self {
        let kind = Kind::Ir;
        Self { path, from, entry_points: vec![], constants: vec![], features: vec![], kind }
    }

    /// What of the shader is kept. An order does not matter.
    ///
    /// Default: all entry points.
    pub fn entry_points(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.entry_points = names.into_iter().collect();
        self
    }

    /// Values of overrides, by name, or by `@id` in digits where it has one. Booleans are 0 and 1.
    ///
    /// [`Kind::Ir`] keeps its overrides, and takes their values when a pipeline is made: there they
    /// change nothing here and are only checked.
    pub fn constants(mut self, values: impl IntoIterator<Item = (&'a str, f64)>) -> Self {
        self.constants = values.into_iter().collect();
        self
    }

    /// The wgpu features that the shader may use, by wgpu's names.
    ///
    /// Default: none.
    pub fn features(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.features = names.into_iter().collect();
        self
    }

    /// The form.
    ///
    /// Default: [`Kind::Ir`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The shader's path.
    #[must_use]
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// The form that is asked for.
    #[must_use]
    pub fn requested_kind(&self) -> Kind {
        self.kind
    }

    /// The names of [`entry_points`](Self::entry_points), sorted, each once.
    #[must_use]
    pub fn sorted_entry_points(&self) -> Vec<&'a str> {
        let mut names = self.entry_points.clone();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The values of [`constants`](Self::constants), by name.
    #[must_use]
    pub fn sorted_constants(&self) -> Vec<(&'a str, f64)> {
        let mut values = self.constants.clone();
        values.sort_by(|a, b| a.0.cmp(b.0).then(a.1.total_cmp(&b.1)));
        values
    }

    /// The names of [`features`](Self::features), sorted, each once.
    #[must_use]
    pub fn sorted_features(&self) -> Vec<&'a str> {
        let mut names = self.features.clone();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What naga may accept.
    ///
    /// # Errors
    ///
    /// For a name that is no wgpu feature.
    pub fn capabilities(&self) -> Result<Capabilities, ShaderError> {
        capabilities(&self.features).map_err(|error| {
            let advice = "write the names of wgpu::Features, as SHADER_F16";
            ShaderError::new(self.path, Stage::Request, error.to_string(), advice)
        })
    }

    /// SHA-256 of the text. Of an embedded shader it is known without looking at the text.
    #[must_use]
    pub fn text_sha256(&self) -> [u8; 32] {
        match self.from {
            From::Text(text) => Sha256::digest(text).into(),
            From::Bundle(sha256) => sha256,
        }
    }

    /// The WGSL text.
    ///
    /// # Errors
    ///
    /// Where a generated module names a shader that no bundle of this program has.
    pub fn text(&self) -> Result<Text<'a>, ShaderError> {
        match self.from {
            From::Text(text) => Ok(Text::Given(text)),
            From::Bundle(sha256) => match find_text(&sha256) {
                Some(found) => Ok(Text::Embedded(found.text.into())),
                None => Err(ShaderError::new(
                    self.path,
                    Stage::Request,
                    "no bundle of this program has the text of this shader",
                    "write `cutile_embed::embed!();` once in the crate whose build script lowers \
                     it, and build again",
                )),
            },
        }
    }

    /// The same request for another form.
    pub fn with_kind(&self, kind: Kind) -> Self {
        self.clone().kind(kind)
    }
}

/// Names of a list for a message.
pub(super) fn listed<S: AsRef<str>>(names: &[S]) -> Cow<'static, str> {
    if names.is_empty() {
        return Cow::Borrowed("none");
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    Cow::Owned(quoted.join(", "))
}
