//! Where a toolkit is looked for, in which order.

use super::Toolkit;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Folders where packages of a distribution or NVIDIA's installer put a toolkit.
const USUAL: [&str; 6] = [
    "/usr/local/cuda-13.5",
    "/usr/local/cuda-13.4",
    "/usr/local/cuda-13.3",
    "/usr/local/cuda-13",
    "/usr/local/cuda",
    "/opt/cuda",
];

/// Where to look, as values; [`from_env`](Self::from_env) fills them in.
///
/// | order | place | unusable |
/// |---|---|---|
/// | 1 | `CUDA_TOOLKIT_PATH` | an error: nothing else is tried |
/// | 2 | `.cutile/toolkit` in a folder or one above it | the next is tried |
/// | 3 | `CUDA_HOME` | an error: nothing else is tried |
/// | 4 | the usual places | the next is tried |
///
/// The CUDA crates read 1 and then 3, and an invalid value is an error to them too. 2 goes before 3
/// because `cargo cutile` names it in `CUDA_TOOLKIT_PATH`: so all of them take the same one,
/// whether `cargo cutile` or cargo is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchPlaces {
    /// `CUDA_TOOLKIT_PATH`.
    pub cuda_toolkit_path: Option<OsString>,
    /// `CUDA_HOME`.
    pub cuda_home: Option<OsString>,
    /// Where to start to look for `.cutile/toolkit`, upwards.
    pub below: Option<PathBuf>,
    /// The usual places.
    pub usual: Vec<PathBuf>,
}

/// Environment variables that decide.
const VARIABLES: [&str; 2] = ["CUDA_TOOLKIT_PATH", "CUDA_HOME"];

impl SearchPlaces {
    /// What this process's environment says.
    #[must_use]
    pub fn from_env() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the one place that reads these variables")]
        let [cuda_toolkit_path, cuda_home] =
            VARIABLES.map(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
        Self {
            cuda_toolkit_path,
            cuda_home,
            below: std::env::current_dir().ok(),
            usual: Self::usual_places(),
        }
    }

    /// Folders where packages of a distribution or NVIDIA's installer put a toolkit.
    #[must_use]
    pub fn usual_places() -> Vec<PathBuf> {
        USUAL.map(PathBuf::from).to_vec()
    }

    /// The variables whose change can change what is found.
    #[must_use]
    pub fn variables() -> [&'static str; 2] {
        VARIABLES
    }

    /// The files whose change, or appearance, can change what is found, for a build script's
    /// `rerun-if-changed`.
    ///
    /// Where there is a toolkit these are its programs. Where there is none they are files that do
    /// not exist, and Cargo runs the script each time until there is one.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let candidates = self.candidates();
        let present: Vec<PathBuf> = candidates
            .iter()
            .filter_map(|candidate| Toolkit::locate(&candidate.root, Chosen::Usual).ok())
            .flat_map(|toolkit| [toolkit.tileiras, toolkit.ptxas, toolkit.libnvvm])
            .collect();
        if !present.is_empty() {
            return present;
        }
        candidates.into_iter().map(|candidate| candidate.root.join("bin/tileiras")).collect()
    }

    /// In their order, up to one that must be usable.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let named = |value: &Option<OsString>, variable, chosen| {
            let root = PathBuf::from(value.as_ref()?);
            Some(Candidate { root, chosen, named: Some(variable) })
        };
        let place = |root, chosen| Candidate { root, chosen, named: None };
        if let Some(only) = named(&self.cuda_toolkit_path, VARIABLES[0], Chosen::ToolkitPath) {
            return vec![only];
        }
        let own = self.below.iter().flat_map(|below| below.ancestors());
        let mut all: Vec<_> = own.map(|dir| place(dir.join(OWN), Chosen::Own)).collect();
        match named(&self.cuda_home, VARIABLES[1], Chosen::CudaHome) {
            Some(last) => all.push(last),
            None => all.extend(self.usual.iter().map(|root| place(root.clone(), Chosen::Usual))),
        }
        all
    }
}

/// The installed toolkit, below the folder of a workspace.
pub(super) const OWN: &str = ".cutile/toolkit";

pub(super) struct Candidate {
    pub(super) root: PathBuf,
    pub(super) chosen: Chosen,
    /// The variable that names it.
    pub(super) named: Option<&'static str>,
}

/// What decided for a toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chosen {
    /// `CUDA_TOOLKIT_PATH` names it.
    ToolkitPath,
    /// `cargo cutile` installed it into `.cutile` of this folder or one above.
    Own,
    /// `CUDA_HOME` names it.
    CudaHome,
    /// It is in a usual place.
    Usual,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToolkitPath => "CUDA_TOOLKIT_PATH names it",
            Self::Own => "cargo cutile installed it here, and CUDA_TOOLKIT_PATH names no other",
            Self::CudaHome => "CUDA_HOME names it, and there is none in .cutile",
            Self::Usual => "it is in a usual place, and no variable names another",
        })
    }
}
