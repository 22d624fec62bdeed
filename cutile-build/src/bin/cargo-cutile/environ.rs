//! The one place that reads the environment; everything else is given it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The environment of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environ(BTreeMap<OsString, OsString>);

impl Environ {
    pub(crate) fn from_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// A value; an empty one is none.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// The names of all variables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.0.keys().map(OsString::as_os_str)
    }

    /// Without one variable.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.0.remove(OsStr::new(name));
        other
    }

    /// The cargo that called this program, or that of the path.
    pub(crate) fn cargo(&self) -> &OsStr {
        self.get("CARGO").unwrap_or(OsStr::new("cargo"))
    }

    pub(crate) fn rustc(&self) -> &OsStr {
        self.get("RUSTC").unwrap_or(OsStr::new("rustc"))
    }

    pub(crate) fn python(&self) -> &OsStr {
        OsStr::new("python3")
    }

    /// Cargo's own switch: any value but `false` and `0`… is an error there, and off-line here.
    pub(crate) fn offline(&self) -> bool {
        self.get("CARGO_NET_OFFLINE").is_some_and(|value| value != "false")
    }

    /// The folders of a list with colons, as `LD_LIBRARY_PATH`.
    pub(crate) fn folders(&self, name: &str) -> Vec<PathBuf> {
        let folders = self.get(name).map(|value| std::env::split_paths(value).collect::<Vec<_>>());
        folders.unwrap_or_default().into_iter().filter(|dir| dir.is_absolute()).collect()
    }

    /// What `cargo run` sets for the program that it runs. With the alias that is this program, and
    /// for the cargo that it starts these values are wrong.
    pub(crate) fn set_by_cargo_run(&self) -> Vec<&OsStr> {
        if self.get("CARGO_PKG_NAME") != Some(OsStr::new("cutile-build")) {
            return Vec::new();
        }
        let ours = |name: &&OsString| {
            let name = name.to_string_lossy();
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        };
        self.0.keys().filter(ours).map(OsString::as_os_str).collect()
    }
}
