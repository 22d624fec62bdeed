//! What is asked for of one shader.

use std::fmt;

/// A form that is embedded beside naga's IR and the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Emit {
    /// SPIR-V words, for programs that drive Vulkan themselves.
    SpirV,
    /// Minified WGSL with the constants put in, for browsers and programs on another wgpu.
    Wgsl,
}

impl Emit {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::SpirV, Self::Wgsl];

    /// As `emit` of the metadata spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SpirV => "spirv",
            Self::Wgsl => "wgsl",
        }
    }
}

impl fmt::Display for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Options of one shader; those of a shader without are the defaults.
///
/// ```
/// use cutile_build::{Emit, ShaderOptions};
///
/// let matmul = ShaderOptions::new("shaders/matmul.wgsl")
///     .constants([("TILE", 8.0)])
///     .constants([("TILE", 16.0)])
///     .emit(Emit::SpirV);
/// ```
///
/// The same in `Cargo.toml`:
///
/// ```toml
/// [[package.metadata.cutile.shader]]
/// path = "shaders/matmul.wgsl"
/// constants = [{ TILE = 8 }, { TILE = 16 }]
/// emit = ["spirv"]
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct ShaderOptions {
    pub(crate) path: String,
    pub(crate) entry_points: Vec<String>,
    pub(crate) constants: Vec<Vec<(String, f64)>>,
    pub(crate) features: Vec<String>,
    pub(crate) emit: Vec<Emit>,
}

impl ShaderOptions {
    /// Options of the shader at this path below the crate, with `/` on every system. It is lowered
    /// whether a glob of [`Builder::shaders`] matches it or not.
    ///
    /// [`Builder::shaders`]: crate::Builder::shaders
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            entry_points: Vec::new(),
            constants: Vec::new(),
            features: Vec::new(),
            emit: Vec::new(),
        }
    }

    /// What of the shader is embedded: these entry points and what they use.
    ///
    /// Default: all of it.
    pub fn entry_points<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.entry_points.extend(names.into_iter().map(Into::into));
        self
    }

    /// One specialization: values of overrides, by name, or by `@id` in digits where it has one.
    /// Booleans are 0 and 1. Each call adds one.
    ///
    /// IR keeps its overrides, so a specialization is checked and then made for what is
    /// [emitted](Self::emit) only.
    ///
    /// Default: none; what is emitted has the overrides' own values.
    pub fn constants<N: Into<String>>(
        mut self,
        values: impl IntoIterator<Item = (N, f64)>,
    ) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.into(), value));
        self.constants.push(values.collect());
        self
    }

    /// The wgpu features that the shader may use, as wgpu names them: `SHADER_F16`, `SUBGROUP`.
    ///
    /// Default: none.
    pub fn features<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.features.extend(names.into_iter().map(Into::into));
        self
    }

    /// A form to embed beside the IR and the text. May be called for each.
    ///
    /// Default: none.
    pub fn emit(mut self, form: Emit) -> Self {
        self.emit.push(form);
        self
    }

    /// The shader's path below the crate.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}
