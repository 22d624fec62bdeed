//! Where a toolkit is looked for, in which order, and why one is not taken.

use super::{INSTALL_COMMAND, Identity, Version};
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest release that compiles what cutile 0.5 writes.
pub const MIN_TILEIRAS: Version = Version { major: 13, minor: 3 };

/// Folders where packages of a distribution or NVIDIA's installer put a toolkit.
const USUAL: [&str; 6] = [
    "/usr/local/cuda-13.5",
    "/usr/local/cuda-13.4",
    "/usr/local/cuda-13.3",
    "/usr/local/cuda-13",
    "/usr/local/cuda",
    "/opt/cuda",
];

/// Where the programs and libraries of a toolkit are, below its root.
const LIBNVVM: [&str; 3] = ["lib/libnvvm.so.4", "nvvm/lib64/libnvvm.so", "nvvm/lib/libnvvm.so"];
const INCLUDE: [&str; 3] =
    ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"];

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
    fn candidates(&self) -> Vec<Candidate> {
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
const OWN: &str = ".cutile/toolkit";

struct Candidate {
    root: PathBuf,
    chosen: Chosen,
    /// The variable that names it.
    named: Option<&'static str>,
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

/// A toolkit with a tileiras that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Toolkit {
    /// Its folder, as it was named.
    pub root: PathBuf,
    /// The Tile IR assembler.
    pub tileiras: PathBuf,
    /// The PTX assembler that it calls.
    pub ptxas: PathBuf,
    /// The compiler library that it calls.
    pub libnvvm: PathBuf,
    /// The folder with `cuda.h`, if it has one.
    pub include: Option<PathBuf>,
    /// Release of tileiras.
    pub version: Version,
    /// Why this one; its text is for people.
    pub why: Chosen,
}

/// Why there is no toolkit.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolkitError {
    /// A variable names a folder that is none.
    Named {
        /// The variable.
        variable: &'static str,
        /// What it names.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is none where one would be.
    Missing {
        /// What was looked at, and what is wrong with it.
        tried: Vec<(PathBuf, String)>,
    },
    /// A program of it does not answer.
    Silent {
        /// The program.
        program: PathBuf,
        /// What happened.
        what: String,
    },
    /// A file of it cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl fmt::Display for ToolkitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { variable, path, why } => write!(
                f,
                "{variable}={} is no CUDA toolkit that compiles kernels: {why}. Let it name one \
                 with tileiras {MIN_TILEIRAS} or newer, or unset it and install one with\n    \
                 {INSTALL_COMMAND}",
                path.display()
            ),
            Self::Missing { tried } => {
                writeln!(
                    f,
                    "no CUDA toolkit with tileiras {MIN_TILEIRAS} or newer was found; it compiles \
                     the GPU kernels. Looked at:"
                )?;
                for (path, why) in tried {
                    writeln!(f, "  {}: {why}", path.display())?;
                }
                write!(
                    f,
                    "Install one with\n    {INSTALL_COMMAND}\nor name one in CUDA_TOOLKIT_PATH, or \
                     build without kernels with CUTILE_BUILD=skip"
                )
            }
            Self::Silent { program, what } => write!(
                f,
                "{} does not run: {what}. Is the toolkit whole? {INSTALL_COMMAND} installs one",
                program.display()
            ),
            Self::Unreadable { path, source } => write!(
                f,
                "{} cannot be read: {source}. Is the toolkit whole? {INSTALL_COMMAND} installs one",
                path.display()
            ),
        }
    }
}

impl Error for ToolkitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Toolkit {
    /// The first toolkit of `places` that can be used.
    ///
    /// # Errors
    ///
    /// [`ToolkitError`] says what was looked at and how to install one.
    pub fn find(places: &SearchPlaces) -> Result<Self, ToolkitError> {
        let mut tried = Vec::new();
        for Candidate { root, chosen, named } in places.candidates() {
            let why = match Self::at(&root, chosen) {
                Ok(toolkit) => return Ok(toolkit),
                Err(why) => why,
            };
            if let Some(variable) = named {
                return Err(ToolkitError::Named { variable, path: root, why });
            }
            // Of the folders above, only those that have one say something.
            if chosen != Chosen::Own || root.is_dir() {
                tried.push((root, why));
            }
        }
        let below = places.below.as_ref().filter(|_| !tried.iter().any(|(root, _)| is_own(root)));
        if let Some(below) = below {
            let none = "there is none, nor in a folder above it".to_owned();
            tried.insert(0, (below.join(OWN), none));
        }
        Err(ToolkitError::Missing { tried })
    }

    /// The toolkit in a folder, in either of the layouts that there are.
    ///
    /// # Errors
    ///
    /// What is missing, in words that follow a folder's name and a colon.
    pub fn at(root: &Path, why: Chosen) -> Result<Self, String> {
        let mut toolkit = Self::locate(root, why)?;
        let text =
            toolkit.answer(&toolkit.tileiras, "--version").map_err(|error| error.to_string())?;
        toolkit.version = Version::in_text(&text)
            .ok_or_else(|| format!("its tileiras does not say its release: {:?}", text.trim()))?;
        if toolkit.version < MIN_TILEIRAS {
            return Err(format!("its tileiras is {}", toolkit.version));
        }
        Ok(toolkit)
    }

    /// Its files; no program is run.
    fn locate(root: &Path, why: Chosen) -> Result<Self, String> {
        if !root.is_dir() {
            return Err("there is no such folder".to_owned());
        }
        let program = |name: &str| {
            let path = root.join("bin").join(name);
            if path.is_file() { Ok(path) } else { Err(format!("it has no bin/{name}")) }
        };
        let libnvvm = LIBNVVM.map(|path| root.join(path)).into_iter().find(|path| path.is_file());
        let include = INCLUDE.map(|path| root.join(path));
        Ok(Self {
            root: root.to_owned(),
            tileiras: program("tileiras")?,
            ptxas: program("ptxas")?,
            libnvvm: libnvvm
                .ok_or("it has neither lib/libnvvm.so.4 nor nvvm/lib64/libnvvm.so")?,
            include: include.into_iter().find(|path| path.join("cuda.h").is_file()),
            version: MIN_TILEIRAS,
            why,
        })
    }

    /// Which toolkit it is.
    ///
    /// # Errors
    ///
    /// [`ToolkitError::Silent`] and [`ToolkitError::Unreadable`].
    pub fn identity(&self) -> Result<Identity, ToolkitError> {
        Identity::of(self)
    }

    /// tileiras with an environment of its own: nothing of the caller's, where `CUDA_HOME` alone
    /// makes it call another ptxas. `tmpdir` is for its temporary files and is writable.
    #[must_use]
    pub fn command(&self, tmpdir: &Path) -> Command {
        hermetic(&self.tileiras, tmpdir)
    }

    /// The files whose change makes it another toolkit. A build script names them in
    /// `rerun-if-changed`.
    #[must_use]
    pub fn files(&self) -> [&Path; 3] {
        [&self.tileiras, &self.ptxas, &self.libnvvm]
    }

    pub(super) fn answer(&self, program: &Path, question: &str) -> Result<String, ToolkitError> {
        let silent = |what: String| ToolkitError::Silent { program: program.to_owned(), what };
        let output = hermetic(program, Path::new("/tmp"))
            .arg(question)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| silent(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(silent(format!("{question}: {}, {}", output.status, said.trim())));
        }
        String::from_utf8(output.stdout).map_err(|_| silent("it prints no UTF-8".to_owned()))
    }
}

fn is_own(root: &Path) -> bool {
    root.ends_with(OWN)
}

fn hermetic(program: &Path, tmpdir: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("TMPDIR", tmpdir);
    // It finds ptxas beside itself. An empty or missing PATH would mean other folders.
    command.env("PATH", program.parent().unwrap_or(Path::new("/")));
    command
}
