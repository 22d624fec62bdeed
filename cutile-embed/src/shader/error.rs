//! Why a shader cannot be used.

use std::fmt;

/// Where it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The request itself: a feature, an entry point, no text.
    Request,
    /// The text is not WGSL.
    Parse,
    /// It is WGSL, and breaks one of its rules, or needs a feature that was not declared.
    Validate,
    /// The value of an override.
    Constants,
    /// It cannot be written in the form that was asked for.
    Emit,
}

/// Why a shader cannot be used: which one, where in it, what naga says about it, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShaderError {
    /// The shader's path, as the request names it.
    pub path: String,
    /// Where it failed.
    pub stage: Stage,
    /// Line and column, from 1 and in characters, where there is a place.
    pub at: Option<(u32, u32)>,
    /// What is wrong; for the text of a shader naga's message, with the source and all notes.
    pub message: String,
    /// What to do next.
    pub advice: String,
}

impl ShaderError {
    pub(super) fn new(
        path: &str,
        stage: Stage,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let (message, advice) = (message.into(), advice.into());
        Self { path: path.to_owned(), stage, at: None, message, advice }
    }

    /// At a place of the text. naga counts columns in bytes there, and in characters where it marks
    /// the source, as editors do.
    pub(super) fn at(mut self, text: &str, place: Option<naga::SourceLocation>) -> Self {
        self.at = place.map(|place| {
            let offset = place.offset as usize;
            let start = offset.saturating_sub(place.line_position.saturating_sub(1) as usize);
            let before = text.get(start..offset).map_or(0, |before| before.chars().count());
            (place.line_number, before as u32 + 1)
        });
        self
    }
}

impl fmt::Display for ShaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some((line, column)) = self.at {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}\n  {}", self.message.trim_end(), self.advice)
    }
}

impl std::error::Error for ShaderError {}
