//! A crate with shaders in a folder of its own, and a build script's environment for it.

use cutile_build::environment::BuildEnv;
use cutile_build::{BuildError, Builder};
use cutile_embed::manifest::{Manifest, ShaderRow};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// A shader that every crate accepts.
pub(crate) const GOOD: &str = "@compute @workgroup_size(1) fn main() {}\n";

/// What a crate is made of.
pub(crate) struct Crate {
    dir: tempfile::TempDir,
    variables: Vec<(&'static str, OsString)>,
}

impl Crate {
    /// A crate whose manifest ends with `metadata`.
    pub(crate) fn new(metadata: &str) -> Self {
        let new = Self { dir: tempfile::tempdir().unwrap(), variables: Vec::new() };
        new.file("src/lib.rs", "");
        new.metadata(metadata);
        fs::create_dir_all(new.out_dir()).unwrap();
        new
    }

    /// A crate with `shaders/**/*.wgsl`, and these files below it.
    pub(crate) fn with<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        let new = Self::new("[package.metadata.cutile]\nshaders = [\"shaders/**/*.wgsl\"]\n");
        for (path, text) in files {
            new.file(&format!("shaders/{path}"), text);
        }
        new
    }

    /// Writes another end of the manifest.
    pub(crate) fn metadata(&self, metadata: &str) {
        let head = "[package]\nname = \"app\"\nversion = \"1.2.3\"\nedition = \"2024\"\n\
                    [workspace]\n";
        self.file("Cargo.toml", format!("{head}{metadata}"));
    }

    /// Sets a variable of the build script.
    pub(crate) fn variable(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.into()));
    }

    pub(crate) fn file(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("crate")
    }

    pub(crate) fn out_dir(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// What cargo would give the build script.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut all: Vec<(&'static str, OsString)> = vec![
            ("OUT_DIR", self.out_dir().into()),
            ("CARGO_MANIFEST_DIR", self.root().into()),
            ("CARGO_PKG_NAME", "app".into()),
            ("CARGO_PKG_VERSION", "1.2.3".into()),
            ("CARGO", "cargo".into()),
            ("DEBUG", "true".into()),
        ];
        all.extend(self.variables.iter().cloned());
        all
    }

    fn env(&self) -> BuildEnv {
        let variables = self.variables();
        BuildEnv::from_lookup(|name| {
            Some(variables.iter().rev().find(|(known, _)| *known == name)?.1.clone())
        })
        .unwrap()
    }

    /// Builds by the metadata.
    pub(crate) fn build(&self) -> Result<(), BuildError> {
        self.build_by(Builder::from_metadata())
    }

    pub(crate) fn build_by(&self, builder: Builder) -> Result<(), BuildError> {
        builder.try_build_with(&self.env())
    }

    /// The text of the error that stops the build.
    pub(crate) fn error(&self) -> String {
        self.build().unwrap_err().to_string()
    }

    /// A file of the bundle.
    pub(crate) fn bundled(&self, name: &str) -> PathBuf {
        self.out_dir().join("cutile").join(name)
    }

    pub(crate) fn manifest(&self) -> Manifest {
        serde_json::from_slice(&fs::read(self.bundled("manifest.json")).unwrap()).unwrap()
    }

    pub(crate) fn row(&self, path: &str) -> ShaderRow {
        let rows = self.manifest().shaders;
        rows.into_iter().find(|row| row.path == path).unwrap()
    }

    pub(crate) fn module(&self) -> String {
        fs::read_to_string(self.out_dir().join("cutile_shaders.rs")).unwrap()
    }

    /// Every file that the build left, with its bytes.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        list(&self.out_dir(), &self.out_dir(), &mut files);
        files.sort();
        files
    }
}

fn list(root: &Path, dir: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read(path).unwrap()));
        }
    }
}

/// Asserts that a text has all of these.
#[track_caller]
pub(crate) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}
