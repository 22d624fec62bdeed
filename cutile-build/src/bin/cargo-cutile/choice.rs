//! Which toolkit and libclang a cargo command gets, and by which variables.
//!
//! | found by | `cargo cutile` sets | plain cargo has it from |
//! |---|---|---|
//! | `CUDA_TOOLKIT_PATH` of the user | nothing | the user's environment |
//! | `.cutile/toolkit` | `CUDA_TOOLKIT_PATH` | `.cutile/cargo.toml` |
//! | `CUDA_HOME` of the user | nothing | the user's environment |
//! | a usual place that the CUDA crates know | nothing | the CUDA crates |
//! | another usual place | `CUDA_TOOLKIT_PATH` | `.cutile/cargo.toml` |
//! | `LIBCLANG_PATH` of the user | nothing | the user's environment |
//! | `.cutile/libclang` | `LIBCLANG_PATH` | `.cutile/cargo.toml` |
//! | a libclang of the system | nothing | clang-sys |
//!
//! With the alias this program gets what `.cutile/cargo.toml` says as its own environment; such a
//! value is not the user's, and is found anew.

use crate::environ::Environ;
use crate::failure::Failure;
use crate::libclang::{self, SystemLibclang};
use crate::workspace::{self, DotCutile, Recorded};
use cutile_build::toolkit::{Chosen, SearchPlaces, Toolkit, ToolkitError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where cuda-bindings 0.5 looks by itself.
const KNOWN_TO_CUDA_BINDINGS: [&str; 5] = [
    "/usr/local/cuda-13.3",
    "/usr/local/cuda-13.2",
    "/usr/local/cuda-13",
    "/usr/local/cuda",
    "/opt/cuda",
];

/// The libclang that bindgen will find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Libclang {
    /// `LIBCLANG_PATH` of the user.
    Named(PathBuf),
    /// The folder in `.cutile`.
    Installed(PathBuf),
    System(SystemLibclang),
    Missing,
}

/// What there is on this machine for one workspace.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) toolkit: Result<Toolkit, ToolkitError>,
    pub(crate) libclang: Libclang,
    /// Without what `.cutile/cargo.toml` has set.
    environ: Environ,
    /// A variable is set that is not the user's.
    inherited: [bool; 2],
    dot: DotCutile,
}

impl Choice {
    pub(crate) fn of(environ: &Environ, dot: &DotCutile) -> Self {
        let (environ, inherited) = without_recorded(environ, dot);
        let places = SearchPlaces {
            cuda_toolkit_path: environ.get(workspace::TOOLKIT).map(OsString::from),
            cuda_home: environ.get("CUDA_HOME").map(OsString::from),
            below: Some(dot.workspace().to_owned()),
            usual: SearchPlaces::usual_places(),
        };
        let toolkit = Toolkit::find(&places);
        let libclang = libclang_for(&environ, dot);
        Self { toolkit, libclang, environ, inherited, dot: dot.clone() }
    }

    /// Whether the user named a toolkit that is none: then none is installed in its place.
    pub(crate) fn is_users_mistake(&self) -> bool {
        matches!(&self.toolkit, Err(ToolkitError::Named { variable, .. }) if *variable == workspace::TOOLKIT)
    }

    /// The user's environment, without what `.cutile/cargo.toml` has set.
    pub(crate) fn environ(&self) -> &Environ {
        &self.environ
    }

    /// What is recorded for plain cargo. A value of the user hides what is recorded and leaves it.
    fn recorded(&self, old: Recorded) -> Recorded {
        let toolkit = match &self.toolkit {
            Ok(toolkit) => match toolkit.why {
                Chosen::Own => Some(toolkit.root.clone()),
                Chosen::Usual if !is_known(&toolkit.root) => Some(toolkit.root.clone()),
                Chosen::ToolkitPath => old.toolkit,
                _ => None,
            },
            Err(_) => None,
        };
        let libclang = match &self.libclang {
            Libclang::Named(_) => old.libclang,
            Libclang::Installed(folder) => Some(folder.clone()),
            Libclang::System(_) | Libclang::Missing => None,
        };
        Recorded { toolkit, libclang }
    }

    /// Writes `.cutile/cargo.toml`, beside the toolkit if it is an installed one, and returns the
    /// variables to set, or to remove, for cargo.
    pub(crate) fn publish(&self) -> Result<Vec<(&'static str, Option<OsString>)>, Failure> {
        let dot = match &self.toolkit {
            Ok(Toolkit { root, why: Chosen::Own, .. }) => {
                DotCutile::at(root.parent().unwrap_or(self.dot.path()))
            }
            _ => self.dot.clone(),
        };
        let recorded = self.recorded(Recorded::read(&dot));
        recorded.write(&dot)?;
        let named = [workspace::TOOLKIT, workspace::LIBCLANG].map(|name| {
            // The user's value is inherited as it is.
            self.environ.get(name).is_some()
        });
        let mut variables = Vec::new();
        for (index, (name, value)) in
            [(workspace::TOOLKIT, recorded.toolkit), (workspace::LIBCLANG, recorded.libclang)]
                .into_iter()
                .enumerate()
        {
            match value {
                _ if named[index] => {}
                Some(value) => variables.push((name, Some(value.into_os_string()))),
                None if self.inherited[index] => variables.push((name, None)),
                None => {}
            }
        }
        Ok(variables)
    }
}

fn is_known(root: &Path) -> bool {
    KNOWN_TO_CUDA_BINDINGS.iter().any(|known| root == Path::new(known))
}

fn without_recorded(environ: &Environ, dot: &DotCutile) -> (Environ, [bool; 2]) {
    let recorded: Vec<Recorded> = dots(dot).map(|dot| Recorded::read(&dot)).collect();
    let ours = |name: &str, value: fn(&Recorded) -> &Option<PathBuf>| {
        let set = environ.get(name).map(Path::new);
        set.is_some() && recorded.iter().any(|recorded| value(recorded).as_deref() == set)
    };
    let inherited = [
        ours(workspace::TOOLKIT, |recorded| &recorded.toolkit),
        ours(workspace::LIBCLANG, |recorded| &recorded.libclang),
    ];
    let mut environ = environ.clone();
    for (name, ours) in [workspace::TOOLKIT, workspace::LIBCLANG].into_iter().zip(inherited) {
        if ours {
            environ = environ.without(name);
        }
    }
    (environ, inherited)
}

/// `.cutile` of the workspace and of the folders above it.
fn dots(dot: &DotCutile) -> impl Iterator<Item = DotCutile> {
    dot.workspace().ancestors().map(DotCutile::of)
}

fn libclang_for(environ: &Environ, dot: &DotCutile) -> Libclang {
    if let Some(named) = environ.get(workspace::LIBCLANG) {
        return Libclang::Named(named.into());
    }
    // One that was installed stays: changing it would compile the CUDA crates again.
    let installed = dots(dot).map(|dot| dot.libclang());
    if let Some(folder) = installed.into_iter().find(|dir| libclang::library_in(dir).is_some()) {
        return Libclang::Installed(folder);
    }
    libclang::system(environ, Path::new("/")).map_or(Libclang::Missing, Libclang::System)
}
