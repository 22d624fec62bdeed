//! The virtual GPU: `cargo cutile virtual-gpu`, `--virtual-gpu`, and `run` without a driver.

use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::print;
use crate::workspace::DotCutile;
use cutile_build::virtual_gpu::VirtualGpu;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const DRIVER: &str = "libcuda.so.1";

/// Where a driver's package or a container's runtime puts its library.
const DRIVER_PLACES: [&str; 9] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/lib/wsl/lib",
    "/usr/lib64/nvidia",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
];

/// `cargo cutile virtual-gpu`.
pub(crate) fn run(path_only: bool, environ: &Environ) -> Result<ExitCode, Failure> {
    let dot = DotCutile::locate(environ, None)?;
    let folder = library_dir(environ, &dot)?;
    if path_only {
        print(&format!("{}\n", folder.display()))?;
    } else {
        print(&format!(
            "The virtual GPU records what a program does with it and computes nothing.\n\
             It is in\n  {}\nA cargo command runs on it with\n  \
             cargo cutile --virtual-gpu sm_90 run\nand a program that is built with\n  \
             export LD_LIBRARY_PATH=\"$(cargo cutile virtual-gpu --path)\"\n  \
             export CUTILE_VIRTUAL_GPU=sm_90\n",
            folder.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The folder of the virtual driver, which is compiled where it is not up to date.
fn library_dir(environ: &Environ, dot: &DotCutile) -> Result<PathBuf, Failure> {
    dot.create()?;
    VirtualGpu::build(&dot.path().join("virtual-gpu"), environ.rustc())
        .map(|built| built.library_dir().to_owned())
        .map_err(|error| Failure(error.to_string()))
}

/// The variables of a child on virtual GPUs. Not the recording assembler of a rehearsal: what
/// the program compiles at run time it compiles with the toolkit.
pub(crate) fn environment(
    environ: &Environ,
    dot: &DotCutile,
    targets: &str,
) -> Result<[(&'static str, OsString); 2], Failure> {
    let mut path = library_dir(environ, dot)?.into_os_string();
    if let Some(existing) = environ.get("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(existing);
    }
    Ok([("LD_LIBRARY_PATH", path), ("CUTILE_VIRTUAL_GPU", targets.into())])
}

/// Whether a program would find a driver.
pub(crate) fn has_driver(environ: &Environ) -> bool {
    let places = environ.folders("LD_LIBRARY_PATH");
    let places = places.iter().map(PathBuf::as_path).chain(DRIVER_PLACES.map(Path::new));
    places.into_iter().any(|dir| dir.join(DRIVER).is_file()) || linker_knows_driver()
}

fn linker_knows_driver() -> bool {
    ["ldconfig", "/sbin/ldconfig"].into_iter().any(|program| {
        Command::new(program)
            .arg("-p")
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(DRIVER))
    })
}

/// The first configured target of the package that `cargo run` with these arguments runs.
pub(crate) fn first_target(environ: &Environ, run: &RunArguments) -> Option<String> {
    let mut command = cargo_metadata::MetadataCommand::new();
    command.cargo_path(environ.cargo()).no_deps().other_options(["--offline".to_owned()]);
    if let Some(manifest) = &run.manifest {
        command.manifest_path(manifest);
    }
    let metadata = command.exec().ok()?;
    let here = std::env::current_dir().ok()?;
    let nearest = here.ancestors().map(|dir| dir.join("Cargo.toml")).find(|path| path.is_file());
    let manifest = run.manifest.as_ref().map(|path| here.join(path)).or(nearest);
    let named = |package: &&cargo_metadata::Package| {
        run.package.as_deref().is_some_and(|name| name == OsStr::new(package.name.as_str()))
    };
    let at_manifest = |package: &&cargo_metadata::Package| {
        Some(package.manifest_path.as_std_path()) == manifest.as_deref()
    };
    let targets = |package: &cargo_metadata::Package| {
        let targets = package.metadata.get("cutile")?.get("targets")?.as_array()?;
        targets.first()?.as_str().map(ToOwned::to_owned)
    };
    let packages = &metadata.packages;
    match (&run.package, packages.iter().find(at_manifest)) {
        (Some(_), _) => targets(packages.iter().find(named)?),
        (None, Some(package)) => targets(package),
        // A workspace without a package at its root runs its only, or default, program.
        (None, None) => packages.iter().find_map(targets),
    }
}

/// What of `cargo run`'s arguments says which package it runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RunArguments {
    pub(crate) package: Option<OsString>,
    pub(crate) manifest: Option<PathBuf>,
}

impl RunArguments {
    pub(crate) fn of(arguments: &[OsString]) -> Self {
        let mut found = Self::default();
        let mut arguments = arguments.iter().take_while(|argument| *argument != "--");
        while let Some(argument) = arguments.next() {
            let mut value = |names: &[&str]| {
                let text = argument.to_str()?;
                names.iter().find_map(|name| {
                    let rest = text.strip_prefix(name)?;
                    match rest.strip_prefix('=') {
                        Some(value) => Some(OsString::from(value)),
                        None if rest.is_empty() => arguments.next().cloned(),
                        None if !name.starts_with("--") => Some(OsString::from(rest)),
                        None => None,
                    }
                })
            };
            if let Some(package) = value(&["--package", "-p"]) {
                found.package = Some(package);
            } else if let Some(manifest) = value(&["--manifest-path"]) {
                found.manifest = Some(manifest.into());
            }
        }
        found
    }
}

/// What stands at the start and the end of what a `run` without a driver prints.
pub(crate) fn banner(target: &str) -> String {
    format!(
        "cargo cutile: this machine has no NVIDIA driver; the program runs on a virtual\n\
         cargo cutile: {target}, which records launches and computes NOTHING."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_found_however_it_is_written() {
        let parse = |words: &str| {
            let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
            let found = RunArguments::of(&words);
            (found.package.map(|name| name.into_string().unwrap()), found.manifest)
        };
        for words in ["-p app", "-papp", "-p=app", "--package app", "--release --package=app x"] {
            assert_eq!(parse(words), (Some("app".into()), None), "{words}");
        }
        assert_eq!(parse("--manifest-path a/Cargo.toml").1, Some("a/Cargo.toml".into()));
        assert_eq!(parse("--release -- -p app"), (None, None));
        assert_eq!(parse("--packages app"), (None, None));
    }

    #[test]
    fn the_banner_fits_and_says_that_nothing_is_computed() {
        let text = banner("sm_120");
        assert!(text.contains("computes NOTHING") && text.lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn a_driver_on_the_library_path_counts() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(DRIVER), "").unwrap();
        let path = dir.path().to_str().unwrap();
        assert!(has_driver(&Environ::of(&[("LD_LIBRARY_PATH", path)])));
    }
}
