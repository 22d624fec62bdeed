//! WGSL shaders: found, checked and lowered at build.
//!
//! ```text
//! globs, options ─▶ find ─▶ lower ─┬▶ rows of manifest.json
//!                                  ├▶ shaders.pack: IR, text, SPIR-V, WGSL
//!                                  └▶ OUT_DIR/cutile_shaders.rs, where it is asked for
//! ```
//!
//! Every shader is parsed and validated with the capabilities of its declared features, before its
//! overrides have values and again with each declared set of them. All shaders are tried, and all
//! that is wrong is told at once. Nothing of it needs a GPU or a toolkit.
//!
//! | file | what it is |
//! |---|---|
//! | `options` | what is asked for of a shader |
//! | `metadata` | the same in `Cargo.toml` |
//! | `find` | globs and options to files |
//! | `lower` | a file to rows and entries, by the functions that a program uses on a miss |
//! | `reflect` | what a module declares |
//! | `module`, `overrides`, `layout`, `names` | the generated Rust module |

mod error;
mod find;
mod layout;
mod lower;
mod metadata;
mod module;
mod names;
mod options;
mod overrides;
mod reflect;

pub use error::ShaderConfigError;
pub(crate) use metadata::shader_options;
pub(crate) use module::Generate;
pub use options::{Emit, ShaderOptions};

use crate::bundle::Shaders;
use crate::error::BuildError;
use cutile_embed::shader::{EmbeddedText, NAGA_VERSION, text_entry};
use lower::Lowered;
use std::collections::BTreeMap;
use std::path::Path;

/// What a crate asks for.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) globs: Vec<String>,
    pub(crate) options: Vec<ShaderOptions>,
}

impl Declared {
    /// All shaders of the crate in `root`: what a bundle has of them, and the text of the generated
    /// module where it is asked for. `watch` is given the paths that cargo has to watch.
    pub(crate) fn lower(
        &self,
        package: &str,
        root: &Path,
        generate: Option<Generate>,
        watch: &mut dyn FnMut(&str),
    ) -> Result<(Shaders, Option<String>), BuildError> {
        let mut problems = Vec::new();
        let sources = find::find(root, &self.globs, &self.options, &mut problems, watch);
        problems.extend(sources.iter().filter_map(|source| lower::repeated(&source.options)));
        let paths: Vec<&str> = sources.iter().map(|source| source.options.path()).collect();
        module::check_names(&paths, &mut problems);
        let mut lowered = Vec::new();
        let mut failed = Vec::new();
        let mut ok = 0;
        for source in &sources {
            match lower::lower(source) {
                Ok(shader) => {
                    ok += 1;
                    lowered.push(shader);
                }
                Err(errors) => failed.extend(errors),
            }
        }
        let module = generate.map(|generate| module::text(&lowered, generate, &mut problems));
        let shaders = bundled(&lowered, &mut problems);
        if problems.is_empty() && failed.is_empty() {
            return Ok((shaders, module));
        }
        Err(BuildError::Shaders { package: package.to_owned(), problems, failed, ok })
    }
}

fn bundled(lowered: &[Lowered], problems: &mut Vec<ShaderConfigError>) -> Shaders {
    let mut shaders = Shaders::default();
    let mut texts: BTreeMap<[u8; 32], EmbeddedText> = BTreeMap::new();
    for shader in lowered {
        shaders.rows.push(shader.row.clone());
        shaders.entries.extend(shader.entries.iter().cloned());
        // Two files with one text are one text in the pack.
        let text = texts.entry(shader.text_sha256).or_insert_with(|| EmbeddedText {
            naga: NAGA_VERSION.to_owned(),
            text: shader.text.clone(),
            built: Vec::new(),
        });
        text.built.push(shader.built.clone());
    }
    for text in texts.values() {
        match text_entry(text) {
            Some((key, entry)) => {
                shaders.entries.insert(key, entry);
            }
            None => {
                let path = text.built.first().map(|built| built.path.clone());
                problems.push(ShaderConfigError::TooLong { path: path.unwrap_or_default() });
            }
        }
    }
    shaders
}
