//! The folder `.cutile` of a workspace, and `.cutile/cargo.toml`, which plain cargo includes.
//!
//! With `include = [{ path = "../.cutile/cargo.toml", optional = true }]` in the workspace's
//! `.cargo/config.toml` (cargo 1.94 or newer; an older one stops at the table, unless the line
//! stands in a second file, which `include = ["toolkit.toml"]` names), plain cargo gets the values that `cargo cutile` sets, to the byte: a
//! path in another spelling would compile the CUDA crates, and all that use them, again. That is
//! why the values are absolute: of a relative one in an included file cargo makes
//! `…/.cargo/../.cutile/toolkit`. The file is not for another machine and git ignores it; a
//! workspace that was moved gets it written anew by the next `cargo cutile`.

use crate::environ::Environ;
use crate::failure::Failure;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `.cutile` of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DotCutile(PathBuf);

/// What a workspace writes into its `.cargo/config.toml`.
pub(crate) const INCLUDE_LINE: &str =
    r#"include = [{ path = "../.cutile/cargo.toml", optional = true }]"#;

impl DotCutile {
    pub(crate) fn of(workspace: &Path) -> Self {
        Self(workspace.join(".cutile"))
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// That of the workspace that cargo, called with these arguments, works on.
    pub(crate) fn locate(environ: &Environ, manifest: Option<&OsStr>) -> Result<Self, Failure> {
        let mut command = Command::new(environ.cargo());
        command.args(["locate-project", "--workspace", "--message-format", "plain"]);
        if let Some(manifest) = manifest {
            command.arg("--manifest-path").arg(manifest);
        }
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cargo does not run: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "no Cargo workspace was found, and the toolkit is kept in one: call this in a \
                 folder with a Cargo.toml. Cargo says: {}",
                said.trim().trim_start_matches("error: ")
            )
            .into());
        }
        let manifest = path_of_line(&output.stdout);
        let workspace = manifest.parent().ok_or("cargo names no folder of the workspace")?;
        Ok(Self::of(workspace))
    }

    /// That of the workspace here, or, outside of one, of the current folder.
    pub(crate) fn here(environ: &Environ) -> Result<Self, Failure> {
        if let Ok(dot) = Self::locate(environ, None) {
            return Ok(dot);
        }
        let here = std::env::current_dir();
        Ok(Self::of(&here.map_err(|error| {
            format!("the current folder is not there any more ({error}): change to one that is")
        })?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.0.parent().unwrap_or(&self.0)
    }

    pub(crate) fn toolkit(&self) -> PathBuf {
        self.0.join("toolkit")
    }

    /// The folder with the libclang that was installed.
    pub(crate) fn libclang(&self) -> PathBuf {
        self.0.join("libclang")
    }

    /// Creates the folder, with a `.gitignore` that ignores all of it.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        fs::create_dir_all(&self.0).map_err(Failure::io("create", &self.0))?;
        let ignore = self.0.join(".gitignore");
        match fs::File::create_new(&ignore) {
            Ok(mut file) => file.write_all(b"*\n").map_err(Failure::io("write", &ignore)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(Failure::io("write", &ignore)(error)),
        }
    }
}

/// Readable by all, as what cargo reads of a checkout is.
fn draft_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o644));
    }
    builder.tempfile_in(folder)
}

fn path_of_line(stdout: &[u8]) -> PathBuf {
    let line = stdout.strip_suffix(b"\n").unwrap_or(stdout);
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt as _;
        PathBuf::from(OsString::from_vec(line.to_vec()))
    }
    #[cfg(not(unix))]
    PathBuf::from(String::from_utf8_lossy(line).trim_end())
}

/// What `.cutile/cargo.toml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// `CUDA_TOOLKIT_PATH`.
    pub(crate) toolkit: Option<PathBuf>,
    /// `LIBCLANG_PATH`.
    pub(crate) libclang: Option<PathBuf>,
}

pub(crate) const TOOLKIT: &str = "CUDA_TOOLKIT_PATH";
pub(crate) const LIBCLANG: &str = "LIBCLANG_PATH";

impl Recorded {
    /// What the file says; nothing where there is none, or another's.
    pub(crate) fn read(dot: &DotCutile) -> Self {
        let text = fs::read_to_string(Self::file(dot)).unwrap_or_default();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            let value = line.strip_prefix(" = { value = ")?.strip_suffix(", force = false }")?;
            serde_json::from_str::<String>(value).ok().map(PathBuf::from)
        };
        Self { toolkit: value(TOOLKIT), libclang: value(LIBCLANG) }
    }

    /// Writes the file, whole or not at all, where it says something else. Without values there is
    /// none.
    pub(crate) fn write(&self, dot: &DotCutile) -> Result<(), Failure> {
        let file = Self::file(dot);
        let Some(text) = self.text() else {
            return match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(Failure::io("remove", &file)(error))
                }
                _ => Ok(()),
            };
        };
        if fs::read_to_string(&file).is_ok_and(|old| old == text) {
            return Ok(());
        }
        dot.create()?;
        let mut draft = draft_in(dot.path()).map_err(Failure::io("write", &file))?;
        draft.write_all(text.as_bytes()).map_err(Failure::io("write", &file))?;
        draft.persist(&file).map_err(|error| Failure::io("write", &file)(error.error))?;
        Ok(())
    }

    /// A path that is not UTF-8 cannot stand in TOML: plain cargo does without it.
    fn text(&self) -> Option<String> {
        let mut lines = String::new();
        for (name, value) in [(TOOLKIT, &self.toolkit), (LIBCLANG, &self.libclang)] {
            if let Some(value) = value.as_deref().and_then(Path::to_str) {
                // A JSON string is a basic string of TOML.
                let value = serde_json::Value::from(value);
                lines += &format!("{name} = {{ value = {value}, force = false }}\n");
            }
        }
        (!lines.is_empty()).then(|| {
            format!(
                "# Written by `cargo cutile`. With this file plain cargo finds the same toolkit.\n\
                 # It is taken in by this line in .cargo/config.toml (cargo 1.94 or newer):\n\
                 # {INCLUDE_LINE}\n\
                 [env]\n{lines}"
            )
        })
    }

    fn file(dot: &DotCutile) -> PathBuf {
        dot.path().join("cargo.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back_whatever_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let dot = DotCutile::of(dir.path());
        assert_eq!(Recorded::read(&dot), Recorded::default());
        for path in ["/a/.cutile/toolkit", "/a b/ü/\"q\"\\x"] {
            let recorded = Recorded { toolkit: Some(path.into()), libclang: None };
            recorded.write(&dot).unwrap();
            assert_eq!(Recorded::read(&dot), recorded);
        }
        assert_eq!(fs::read_to_string(dot.path().join(".gitignore")).unwrap(), "*\n");
        Recorded::default().write(&dot).unwrap();
        assert!(!dot.path().join("cargo.toml").exists());
        Recorded::default().write(&dot).unwrap();
    }
}
