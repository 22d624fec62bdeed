//! What is wrong with shaders before naga sees them.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A glob, a path or options that cannot be used. The text says what to do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShaderConfigError {
    /// Not a glob.
    Glob {
        /// As it is written.
        glob: String,
        /// What is wrong with it.
        message: String,
    },
    /// A glob without a folder to start in.
    GlobAtRoot {
        /// As it is written.
        glob: String,
    },
    /// A glob that matches no file.
    NoMatch {
        /// As it is written.
        glob: String,
        /// The folder or file that was looked at.
        base: String,
    },
    /// A path or glob that names something outside the crate.
    Outside {
        /// As it is written, or as it was found.
        path: String,
        /// Where it leads, if it is a link.
        leads_to: Option<PathBuf>,
    },
    /// Options of a file that does not exist.
    Missing {
        /// As it is written.
        path: String,
        /// The shader with the most similar path.
        nearest: Option<String>,
    },
    /// A file or folder that cannot be read.
    Unreadable {
        /// The file or folder.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file whose name cannot be written where it is needed.
    Name {
        /// The file.
        path: PathBuf,
    },
    /// A file that is not UTF-8.
    NotUtf8 {
        /// The file.
        path: String,
        /// The line with the first wrong byte, from 1.
        line: usize,
    },
    /// Two options of one shader.
    Twice {
        /// The shader.
        path: String,
    },
    /// Two specializations with the same values.
    SameConstants {
        /// The shader.
        path: String,
        /// The values.
        constants: String,
    },
    /// Two things in the generated module with one name.
    SameName {
        /// The name.
        name: String,
        /// What has it.
        first: String,
        /// What would have it, too.
        second: String,
    },
    /// Bindings that wgpu has no layout for.
    NoLayout {
        /// The shader.
        path: String,
        /// Why.
        reason: String,
    },
    /// A text that is longer than what can be embedded.
    TooLong {
        /// The shader.
        path: String,
    },
}

impl fmt::Display for ShaderConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Glob { glob, message } => {
                write!(f, "`{glob}` is not a glob: {message}; write it as `shaders/**/*.wgsl`")
            }
            Self::GlobAtRoot { glob } => write!(
                f,
                "the glob `{glob}` has no folder to start in: to notice a new file, cargo would \
                 have to watch the whole crate, with what it builds itself. Put the shaders into \
                 a folder, and write `shaders/{glob}`"
            ),
            Self::NoMatch { glob, base } => write!(
                f,
                "the glob `{glob}` matches no file below `{base}`; `*` matches within a folder, \
                 `**/` across folders, and folders are separated by `/`"
            ),
            Self::Outside { path, leads_to: None } => write!(
                f,
                "`{path}` is outside the crate: shaders are named by a path below its Cargo.toml, \
                 so that a published crate has them. Move or copy them into the crate"
            ),
            Self::Outside { path, leads_to: Some(place) } => write!(
                f,
                "`{path}` leads outside the crate, to {}: a published crate would not have it. \
                 Move or copy it into the crate",
                place.display()
            ),
            Self::Missing { path, nearest } => {
                write!(f, "there are options for the shader `{path}`, and no such file")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
                    None => f.write_str("; paths are below the crate's Cargo.toml"),
                }
            }
            Self::Unreadable { path, source } => write!(f, "`{path}` cannot be read: {source}"),
            Self::Name { path } => write!(
                f,
                "the path {path:?} is not UTF-8, or has control characters; rename the file or \
                 folder"
            ),
            Self::NotUtf8 { path, line } => {
                write!(f, "{path}:{line}: the file is not UTF-8, as WGSL is; save it as UTF-8")
            }
            Self::Twice { path } => write!(
                f,
                "the shader `{path}` has options twice, in Cargo.toml or in the build script; \
                 put them into one place"
            ),
            Self::SameConstants { path, constants } => write!(
                f,
                "the shader `{path}` has the constants {constants} twice; one of them is enough"
            ),
            Self::SameName { name, first, second } => write!(
                f,
                "{first} and {second} would both be `{name}` in the generated module; rename one \
                 of them"
            ),
            Self::NoLayout { path, reason } => write!(
                f,
                "{path}: wgpu has no bind group layout for it: {reason}; or generate the module \
                 with Builder::shader_module, without the types of wgpu"
            ),
            Self::TooLong { path } => {
                write!(f, "{path}: the shader is too long to be embedded; split it")
            }
        }
    }
}

impl Error for ShaderConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}
