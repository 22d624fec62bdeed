//! Text to a validated module: the only caller of naga's WGSL front end.

use super::entry::MAX_PAYLOAD_BYTES;
use super::error::{ShaderError, Stage};
use super::request::listed;
use naga::compact::{KeepUnused, compact};
use naga::front::wgsl;
use naga::valid::{Capabilities, ModuleInfo, ValidationError, ValidationFlags, Validator};
use naga::{Module, WithSpan};
use std::sync::atomic::{AtomicU64, Ordering};

static FRONT_END_CALLS: AtomicU64 = AtomicU64::new(0);

/// How often this process ran naga's WGSL front end through this crate.
#[must_use]
pub fn front_end_calls() -> u64 {
    FRONT_END_CALLS.load(Ordering::Relaxed)
}

/// A module that naga's validator accepts, with what it found out.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Checked {
    /// The module.
    pub module: Module,
    /// What a backend needs beside it.
    pub info: ModuleInfo,
}

/// Parses and validates a shader, with overrides as they are, by all of naga's rules.
///
/// # Errors
///
/// naga's message with place, marked source and all notes.
pub fn parse(path: &str, text: &str, capabilities: Capabilities) -> Result<Checked, ShaderError> {
    if text.len() as u64 > MAX_PAYLOAD_BYTES {
        return Err(ShaderError::new(
            path,
            Stage::Parse,
            format!("the text has {} bytes, at most {MAX_PAYLOAD_BYTES} are read", text.len()),
            "split the shader",
        ));
    }
    FRONT_END_CALLS.fetch_add(1, Ordering::Relaxed);
    let options = wgsl::Options { parse_doc_comments: false, capabilities };
    let module = wgsl::Frontend::new_with_options(options).parse(text).map_err(|error| {
        let message = error.emit_to_string_with_path(text, path);
        let advice = advice(&message);
        // The first that has a place: some labels of naga's have none.
        let place = error.labels().find(|(span, _)| span.is_defined());
        ShaderError::new(path, Stage::Parse, message, advice)
            .at(text, place.map(|(span, _)| span.location(text)))
    })?;
    let info = validate(path, text, &module, capabilities)?;
    Ok(Checked { module, info })
}

/// Validates a module whose text is `text`.
pub(super) fn validate(
    path: &str,
    text: &str,
    module: &Module,
    capabilities: Capabilities,
) -> Result<ModuleInfo, ShaderError> {
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(module)
        .map_err(|error| invalid(path, text, &error))
}

pub(super) fn invalid(path: &str, text: &str, error: &WithSpan<ValidationError>) -> ShaderError {
    let message = error.emit_to_string_with_path(text, path);
    let advice = advice(&message);
    ShaderError::new(path, Stage::Validate, message, advice).at(text, error.location(text))
}

/// naga says in one of these words that a feature was not declared.
fn advice(message: &str) -> &'static str {
    let lower = message.to_lowercase();
    if ["capabilit", "enable-extension", "enable extension"].iter().any(|word| lower.contains(word))
    {
        "declare what the shader needs: `features` of [[package.metadata.cutile.shader]], or of \
         the request, by wgpu's names (SHADER_F16, SUBGROUP …)"
    } else {
        "correct the shader"
    }
}

impl Checked {
    /// Keeps these entry points and what they use; all of them where none is named.
    ///
    /// # Errors
    ///
    /// For a name that is no entry point.
    pub fn select(
        self,
        path: &str,
        text: &str,
        entry_points: &[&str],
        capabilities: Capabilities,
    ) -> Result<Self, ShaderError> {
        let known: Vec<&str> =
            self.module.entry_points.iter().map(|entry| entry.name.as_str()).collect();
        if let Some(name) = entry_points.iter().find(|name| !known.contains(name)) {
            return Err(ShaderError::new(
                path,
                Stage::Request,
                format!("there is no entry point `{name}`; the shader has {}", listed(&known)),
                "name one of those",
            ));
        }
        let mut module = self.module.clone();
        if !entry_points.is_empty() {
            module.entry_points.retain(|entry| entry_points.contains(&entry.name.as_str()));
        }
        compact(&mut module, KeepUnused::No);
        if module.overrides.len() < self.module.overrides.len() {
            // Whoever gives a value to an override that nothing uses gets an error from the
            // smaller module, and none from the text.
            module = self.module.clone();
            if !entry_points.is_empty() {
                module.entry_points.retain(|entry| entry_points.contains(&entry.name.as_str()));
            }
            compact(&mut module, KeepUnused::Yes);
        }
        let info = validate(path, text, &module, capabilities)?;
        Ok(Self { module, info })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
        override unused: u32 = 1u;
        @group(0) @binding(0) var<storage, read_write> a: array<u32>;
        @group(0) @binding(1) var<storage, read_write> b: array<u32>;
        @compute @workgroup_size(1) fn first() { a[0] = 1u; }
        @compute @workgroup_size(1) fn second() { b[0] = 1u; }";

    fn parsed(text: &str) -> Checked {
        parse("a.wgsl", text, Capabilities::empty()).unwrap()
    }

    #[test]
    fn an_error_has_place_source_and_advice() {
        let text = "fn f() -> u32 {\n    return 1.5;\n}\n";
        let error = parse("dir/a.wgsl", text, Capabilities::empty()).unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with("dir/a.wgsl:2:12: "), "{shown}");
        assert!(shown.contains("dir/a.wgsl:2:12") && shown.contains("return 1.5;"), "{shown}");
        assert!(shown.ends_with("correct the shader"), "{shown}");
    }

    #[test]
    fn what_needs_a_feature_says_how_to_declare_it() {
        let text = "enable f16;\nfn f() -> f16 { return 1h; }";
        let error = parse("a.wgsl", text, Capabilities::empty()).unwrap_err();
        assert!(error.advice.contains("SHADER_F16"), "{error}");
        parse("a.wgsl", text, Capabilities::SHADER_FLOAT16).unwrap();
    }

    #[test]
    fn a_selected_entry_point_keeps_what_it_uses() {
        let text = TWO.replace("override unused: u32 = 1u;", "");
        let one = parsed(&text).select("a", &text, &["second"], Capabilities::empty()).unwrap();
        assert_eq!(one.module.entry_points.len(), 1);
        assert_eq!(one.module.global_variables.len(), 1);
        let all = parsed(&text).select("a", &text, &[], Capabilities::empty()).unwrap();
        assert_eq!((all.module.entry_points.len(), all.module.global_variables.len()), (2, 2));
    }

    #[test]
    fn an_override_that_nothing_uses_is_kept() {
        let one = parsed(TWO).select("a", TWO, &["second"], Capabilities::empty()).unwrap();
        assert_eq!((one.module.entry_points.len(), one.module.overrides.len()), (1, 1));
    }

    #[test]
    fn an_unknown_entry_point_is_named_with_those_there_are() {
        let error = parsed(TWO).select("a", TWO, &["frist"], Capabilities::empty()).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains("`frist`") && shown.contains("`first`, `second`"), "{shown}");
    }

    #[test]
    fn every_run_of_the_front_end_is_counted() {
        let before = front_end_calls();
        let _ = parse("a.wgsl", "not wgsl", Capabilities::empty());
        assert!(front_end_calls() > before);
    }
}
