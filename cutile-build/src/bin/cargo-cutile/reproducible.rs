//! `--reproducible`: what is built does not depend on where, when, by whom and on what cache.
//!
//! Kernels and programs hold paths: upstream writes the file, line and column of a kernel and of
//! what it calls into its bytecode, and rustc those of every `panic!` into the program. rustc's
//! `--remap-path-prefix` replaces how such a path begins, if every unit is compiled with it. By
//! `RUSTFLAGS` it does not get everywhere: with `--target` they are not for build scripts, and that
//! is where kernels are compiled. So this program stands before rustc ([`rustc`]) for all units.
//!
//! | path | becomes |
//! |---|---|
//! | the folder of a package that is not of the workspace, as cargo unpacked it | `../NAME-VERSION` |
//! | the workspace | `/workspace` |
//! | `CARGO_HOME` | `/cargo` |
//! | the target folder | `/target` |
//! | the toolkit | `/cuda` |
//! | the standard library's sources | `/rustc/COMMIT`, as rustc has them by itself |
//!
//! The first is relative to the folder that cargo compiles such a package in, and so names the same
//! files as before: `#[cutile::module]` reads the text of a kernel from the path that the compiler
//! tells it. Of a path that leads nowhere it takes the tokens instead, and every line and column in
//! the bytecode would be another.
//!
//! The rest of what differs between two builds:
//!
//! | what | set to |
//! |---|---|
//! | the build cache of kernels | off: every image is compiled here and now |
//! | incremental compilation | off: it splits a crate by what was there before |
//! | C code of dependencies | `-ffile-prefix-map` in `CFLAGS` and `CXXFLAGS`, for paths without spaces |
//! | locale, time zone | `C`, `UTC`, for other build scripts |
//! | `SOURCE_DATE_EPOCH` | where it is not set, 1980-01-01, the first that a zip file can hold |
//!
//! Cargo does not look at what stands before rustc when it decides what is fresh, so a plain build
//! must not find these files, nor this one those: it has a target folder of its own, `reproducible`
//! in the usual one.
//!
//! Not reached: `env!("CARGO_MANIFEST_DIR")` and other texts that a program takes from the build's
//! environment ([`rustc`] looks for them in what was linked, and warns), and packages outside the
//! workspace's folder that are used by path, whose place cargo hashes into the names of symbols.

pub(crate) mod rustc;

use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::say;
use cargo_metadata::MetadataCommand;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder in the target folder.
pub(crate) const FOLDER: &str = "reproducible";

/// Beginnings of paths and what they become, for [`rustc`]. Not a variable for people.
const REMAP: &str = "CARGO_CUTILE_REMAP";
/// The folders that the workspace's own packages are compiled in.
const WORKSPACE: &str = "CARGO_CUTILE_WORKSPACE";
/// What the user has before rustc.
const WRAPPER: &str = "CARGO_CUTILE_RUSTC_WRAPPER";

/// Between the parts of a variable, as in cargo's own `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// Seconds of 1980-01-01.
const EPOCH: &str = "315532800";

/// A build to come.
#[derive(Debug)]
pub(crate) struct Reproducible {
    folder: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

/// What it is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// `--manifest-path`.
    pub(crate) manifest: Option<&'a Path>,
    /// `--target-dir`.
    pub(crate) target_dir: Option<&'a Path>,
    /// Root of the toolkit.
    pub(crate) toolkit: Option<&'a Path>,
    /// The folder in the target folder.
    pub(crate) folder: &'a str,
}

impl Reproducible {
    /// Finds the paths, and puts this program where cargo will call it.
    pub(crate) fn of(subject: Subject<'_>, environ: &Environ) -> Result<Self, Failure> {
        let Subject { manifest, target_dir, toolkit, folder } = subject;
        let mut command = MetadataCommand::new();
        command.cargo_path(environ.cargo()).no_deps().other_options(["--offline".to_owned()]);
        manifest.map(|manifest| command.manifest_path(manifest));
        let metadata =
            command.exec().map_err(|error| format!("cargo cannot read the workspace: {error}"))?;
        let target = match target_dir {
            Some(dir) => std::path::absolute(dir).map_err(Failure::io("find", dir))?,
            None => metadata.target_directory.into_std_path_buf(),
        };
        let folder = target.join(folder);
        fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?;
        let workspace = metadata.workspace_root.as_std_path();
        for path in elsewhere(manifest, workspace, environ) {
            say!(
                "warning: {} is used by its path and is not in {}: cargo hashes where it is into \
                 the names of symbols. Move it into the workspace's folder, or take it from a \
                 registry or by git",
                path.display(),
                workspace.display()
            );
        }
        let mut remap = Remap::default();
        remap.add(workspace, "/workspace");
        remap.add(&folder, "/target");
        toolkit.into_iter().for_each(|toolkit| remap.add(toolkit, "/cuda"));
        cargo_home(environ).iter().for_each(|home| remap.add(home, "/cargo"));
        if let Some((sources, commit)) = standard_library(environ, workspace) {
            remap.add(&sources, &format!("/rustc/{commit}"));
        }
        let wrapper = before_rustc(&folder)?;
        let variables = variables(environ, &folder, workspace, &remap, wrapper);
        Ok(Self { folder, variables })
    }

    /// Where the files go that are built.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes this the build of a cargo command.
    pub(crate) fn apply(&self, cargo: &mut Command) {
        cargo.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

fn variables(
    environ: &Environ,
    folder: &Path,
    workspace: &Path,
    remap: &Remap,
    wrapper: PathBuf,
) -> Vec<(&'static str, OsString)> {
    let mut out: Vec<(&'static str, OsString)> = vec![
        ("CARGO_TARGET_DIR", folder.into()),
        // One of cargo's configuration would be shared with plain builds.
        ("CARGO_BUILD_BUILD_DIR", folder.into()),
        ("CARGO_INCREMENTAL", "0".into()),
        ("CUTILE_BUILD_CACHE", "off".into()),
        ("LC_ALL", "C".into()),
        ("TZ", "UTC".into()),
        ("RUSTC_WRAPPER", wrapper.into()),
        (REMAP, remap.encoded()),
        (WORKSPACE, joined(&spellings(workspace))),
    ];
    let is_ours = |value: &OsStr| Path::new(value).file_name() == Some(OsStr::new(rustc::NAME));
    let users = ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"];
    let users =
        users.into_iter().filter_map(|name| environ.get(name)).find(|value| !is_ours(value));
    out.extend(users.map(|users| (WRAPPER, users.to_owned())));
    if environ.get("SOURCE_DATE_EPOCH").is_none() {
        out.push(("SOURCE_DATE_EPOCH", EPOCH.into()));
    }
    for name in ["CFLAGS", "CXXFLAGS"] {
        let mut flags = environ.get(name).unwrap_or_default().to_owned();
        for argument in remap.for_c() {
            if !flags.is_empty() {
                flags.push(" ");
            }
            flags.push(argument);
        }
        out.push((name, flags));
    }
    out
}

/// How paths begin, and what that becomes.
#[derive(Debug, Default)]
struct Remap(Vec<(PathBuf, String)>);

impl Remap {
    /// In both spellings, where links lead to the folder.
    fn add(&mut self, from: &Path, to: &str) {
        // Everything is in the root.
        let named = spellings(from).into_iter().filter(|path| path.parent().is_some());
        self.0.extend(named.map(|path| (path, to.to_owned())));
        // The last that fits counts, and has to be the one that says most.
        self.0.sort_by_key(|(from, _)| from.as_os_str().len());
    }

    /// `FROM=TO` of each.
    fn arguments(&self) -> Vec<OsString> {
        let argument = |(from, to): &(PathBuf, String)| pair(from, to.as_ref());
        self.0.iter().map(argument).collect()
    }

    fn encoded(&self) -> OsString {
        self.arguments().join(OsStr::new(SEPARATOR))
    }

    /// The same for a C compiler. The cc crate divides `CFLAGS` at spaces.
    fn for_c(&self) -> Vec<OsString> {
        let has_space = |text: &OsStr| text.as_encoded_bytes().iter().any(u8::is_ascii_whitespace);
        let arguments = self.arguments().into_iter().filter(|argument| !has_space(argument));
        arguments
            .map(|argument| {
                let mut flag = OsString::from("-ffile-prefix-map=");
                flag.push(argument);
                flag
            })
            .collect()
    }
}

/// rustc divides at the last `=`.
fn pair(from: &Path, to: &OsStr) -> OsString {
    let mut pair = from.as_os_str().to_owned();
    pair.push("=");
    pair.push(to);
    pair
}

fn joined(paths: &[PathBuf]) -> OsString {
    let names: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
    names.join(OsStr::new(SEPARATOR))
}

/// A path as it is written, and without links: rustc is given the one, and asks the system for its
/// current folder, which is the other.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut spellings = vec![path.to_owned()];
    spellings.extend(path.canonicalize().ok().filter(|real| real != path));
    spellings
}

fn cargo_home(environ: &Environ) -> Option<PathBuf> {
    match environ.get("CARGO_HOME") {
        Some(home) => std::path::absolute(home).ok(),
        None => environ.get("HOME").map(|home| Path::new(home).join(".cargo")),
    }
}

/// Where the sources of the standard library are, if they are installed, and the commit of rustc.
fn standard_library(environ: &Environ, workspace: &Path) -> Option<(PathBuf, String)> {
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(environ.rustc());
        command.args(arguments).current_dir(workspace).stdin(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let sysroot = ask(&["--print", "sysroot"])?;
    let version = ask(&["-vV"])?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "))?;
    Some((Path::new(sysroot.trim_end()).join("lib/rustlib/src/rust"), commit.to_owned()))
}

/// Packages that are used by path from outside the workspace's folder. That they cannot be found out
/// stops nothing: cargo will say what is wrong.
fn elsewhere(manifest: Option<&Path>, workspace: &Path, environ: &Environ) -> BTreeSet<PathBuf> {
    let mut command = MetadataCommand::new();
    command.cargo_path(environ.cargo());
    command.other_options(["--offline".to_owned(), "--locked".to_owned()]);
    manifest.map(|manifest| command.manifest_path(manifest));
    let Ok(metadata) = command.exec() else { return BTreeSet::new() };
    let packages = metadata.packages.into_iter().filter(|package| package.source.is_none());
    let folders = packages
        .filter_map(|package| Some(package.manifest_path.parent()?.as_std_path().to_owned()));
    folders.filter(|folder| !folder.starts_with(workspace)).collect()
}

/// A link to this program, by whose name it knows that cargo means rustc.
fn before_rustc(folder: &Path) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| format!("cargo cutile does not know where it is: {error}"))?;
    let link = folder.join(rustc::NAME);
    if fs::read_link(&link).is_ok_and(|old| old == own) {
        return Ok(link);
    }
    // Another build may be using the one that is there.
    let draft = folder.join(format!("{}-{}", rustc::NAME, std::process::id()));
    let linked = match std::os::unix::fs::symlink(&own, &draft) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&draft).and_then(|()| std::os::unix::fs::symlink(&own, &draft))
        }
        other => other,
    };
    linked.and_then(|()| fs::rename(&draft, &link)).map_err(Failure::io("write", &link))?;
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_special_beginning_stands_last() {
        let mut remap = Remap::default();
        remap.add(Path::new("/w/target/reproducible"), "/target");
        remap.add(Path::new("/w"), "/workspace");
        remap.add(Path::new("/"), "/everything");
        remap.add(Path::new("/w/.cargo"), "/cargo");
        let expected = ["/w=/workspace", "/w/.cargo=/cargo", "/w/target/reproducible=/target"];
        assert_eq!(remap.arguments(), expected);
        assert_eq!(remap.encoded(), OsString::from(expected.join("\u{1f}")));
    }

    #[test]
    fn a_folder_behind_a_link_is_known_by_both_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(spellings(&link), [link.clone(), real.clone()]);
        assert_eq!(spellings(&real), [real]);
        assert_eq!(spellings(Path::new("/no/such")), [PathBuf::from("/no/such")]);
    }

    #[test]
    fn what_the_user_has_set_is_kept() {
        let environ = Environ::of(&[
            ("CFLAGS", "-O2"),
            ("CARGO_BUILD_RUSTC_WRAPPER", "sccache"),
            ("SOURCE_DATE_EPOCH", "7"),
        ]);
        let mut remap = Remap::default();
        remap.add(Path::new("/my work"), "/workspace");
        remap.add(Path::new("/home/me/.cargo"), "/cargo");
        let of = |environ: &Environ, name: &str| {
            let all = variables(environ, Path::new("/t"), Path::new("/w"), &remap, "/w/r".into());
            all.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        let text = |text: &str| Some(OsString::from(text));
        // A flag with a space in it would be two.
        assert_eq!(of(&environ, "CFLAGS"), text("-O2 -ffile-prefix-map=/home/me/.cargo=/cargo"));
        assert_eq!(of(&environ, "CXXFLAGS"), text("-ffile-prefix-map=/home/me/.cargo=/cargo"));
        assert_eq!(of(&environ, WRAPPER), text("sccache"));
        assert_eq!(of(&environ, "SOURCE_DATE_EPOCH"), None);
        assert_eq!(of(&environ, "CUTILE_BUILD_CACHE"), text("off"));
        let nested = Environ::of(&[("RUSTC_WRAPPER", "/other/target/cargo-cutile-rustc")]);
        assert_eq!(of(&nested, WRAPPER), None);
        assert_eq!(of(&nested, "SOURCE_DATE_EPOCH"), text(EPOCH));
    }

    #[test]
    fn cargos_home_is_where_cargo_looks_for_it() {
        let home = |variables| cargo_home(&Environ::of(variables));
        assert_eq!(home(&[("HOME", "/home/me")]), Some("/home/me/.cargo".into()));
        assert_eq!(home(&[("HOME", "/home/me"), ("CARGO_HOME", "/c")]), Some("/c".into()));
        assert_eq!(home(&[]), None);
    }
}
