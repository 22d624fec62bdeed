//! `verify --rebuild`: the bundles of a file once more, from the sources that are here.
//!
//! The build script of the package runs in a target folder of its own, as in a build with
//! `--reproducible`: every image is compiled here and now. Targets and debug level are those of the
//! bundle in the file, so it does not matter in which profile the script runs; what else it looks at,
//! as features, is for the caller to say. The whole package is built, not checked: where the script
//! and the package link the same cutile, that compiles it once.

use super::Verify;
use crate::args::Cli;
use crate::embedded::bundle::{Embedded, EmbeddedBundle};
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::clean;
use crate::reproducible::{self, Reproducible};
use crate::run_cargo::{not_run, toolkit_for};
use crate::subject::title;
use crate::toolkit::release;
use crate::workspace::DotCutile;
use cargo_metadata::{Message, Metadata, MetadataCommand, Package};
use cutile_build::toolkit::Toolkit;
use cutile_embed::manifest::{Codegen, Manifest, ToolkitIdentity};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The target folder, in that of the workspace.
const FOLDER: &str = "rebuild";

/// A bundle of the file, and what its sources make.
#[derive(Debug)]
pub(super) struct Rebuilt<'b, 'a> {
    pub(super) shipped: &'b EmbeddedBundle<'a>,
    /// The files of the bundle, one behind the other.
    pub(super) bytes: Vec<u8>,
    /// Where the sources are.
    pub(super) folder: PathBuf,
}

/// What is to be rebuilt, and with what.
struct Plan<'p, 'b, 'a> {
    shipped: &'b EmbeddedBundle<'a>,
    manifest: &'b Manifest,
    package: &'p Package,
}

/// Rebuilds what is asked for. Everything that can be known to be wrong is said before anything is
/// compiled.
pub(super) fn rebuild<'b, 'a>(
    embedded: &'b Embedded<'a>,
    cli: &Cli,
    asked: &Verify,
    environ: &Environ,
) -> Result<Vec<Rebuilt<'b, 'a>>, Failure> {
    let metadata = metadata(environ, asked)?;
    let plans = plans(embedded, asked, &metadata)?;
    let dot = DotCutile::locate(environ, asked.manifest_path.as_deref().map(Path::as_os_str))?;
    let offline = cli.offline || environ.offline();
    let mut variables = Vec::new();
    let mut toolkit = None;
    if plans.iter().any(|plan| plan.manifest.toolkit.is_some()) {
        let choice = toolkit_for(environ, &dot, offline)?;
        variables = choice.publish()?;
        let found = choice.toolkit.map_err(|error| error.to_string())?;
        for plan in &plans {
            is_the_same(plan, &found)?;
        }
        toolkit = Some(found.root);
    }
    let reproducible = Reproducible::of(
        reproducible::Subject {
            manifest: asked.manifest_path.as_deref(),
            target_dir: None,
            toolkit: toolkit.as_deref(),
            folder: FOLDER,
        },
        environ,
    )?;
    let cargo = |command: &str| {
        let mut cargo = Command::new(environ.cargo());
        cargo.arg(command);
        cargo.args(offline.then_some("--offline"));
        if let Some(path) = &asked.manifest_path {
            cargo.arg("--manifest-path").arg(path);
        }
        for (name, value) in &variables {
            match value {
                Some(value) => cargo.env(name, value),
                None => cargo.env_remove(name),
            };
        }
        environ.set_by_cargo_run().into_iter().for_each(|name| {
            cargo.env_remove(name);
        });
        reproducible.apply(&mut cargo);
        cargo.stdin(Stdio::null());
        cargo
    };
    plans.iter().map(|plan| plan.run(&cargo, asked, environ)).collect()
}

fn metadata(environ: &Environ, asked: &Verify) -> Result<Metadata, Failure> {
    let mut command = MetadataCommand::new();
    command.cargo_path(environ.cargo()).no_deps().other_options(["--offline".to_owned()]);
    if let Some(manifest) = &asked.manifest_path {
        command.manifest_path(manifest);
    }
    command.exec().map_err(|error| {
        Failure(format!(
            "--rebuild builds the sources of the workspace that it is called in: call it there, or \
             name its Cargo.toml with --manifest-path. {error}"
        ))
    })
}

fn plans<'p, 'b, 'a>(
    embedded: &'b Embedded<'a>,
    asked: &Verify,
    metadata: &'p Metadata,
) -> Result<Vec<Plan<'p, 'b, 'a>>, Failure> {
    let names = |names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<String> = names.map(clean).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    for name in &asked.package {
        if embedded.bundles.iter().all(|bundle| bundle.package.name != *name) {
            return Err(Failure(format!(
                "{} embeds nothing of {name}; it embeds {}",
                asked.file.display(),
                names(&mut embedded.bundles.iter().map(|bundle| bundle.package.name.as_str()))
            )));
        }
    }
    let wanted = |bundle: &&EmbeddedBundle<'_>| {
        asked.package.is_empty() || asked.package.contains(&bundle.package.name)
    };
    let mut plans = Vec::new();
    for shipped in embedded.bundles.iter().filter(wanted) {
        let name = &shipped.package.name;
        let member = metadata.packages.iter().find(|package| package.name.as_str() == name);
        let Some(package) = member else {
            return Err(Failure(format!(
                "{} is embedded in {}, and is no package of the workspace {}, which has {}: call \
                 this where its sources are, or name with -p the packages to rebuild",
                title(shipped),
                asked.file.display(),
                metadata.workspace_root,
                names(&mut metadata.packages.iter().map(|package| package.name.as_str()))
            )));
        };
        let version = package.version.to_string();
        if version != shipped.package.version {
            return Err(Failure(format!(
                "{} is embedded in {}, and the sources here are of {version}: check out those that \
                 it was built from",
                title(shipped),
                asked.file.display()
            )));
        }
        if let Some(index) = shipped.index.as_ref().filter(|index| index.part.prebuilt) {
            return Err(Failure(format!(
                "{} is embedded as it was shipped with its sources, for tileiras of another \
                 machine: cargo cutile prebuild -p {} --check compares those",
                title(shipped),
                clean(index.part.package)
            )));
        }
        let Some(manifest) = shipped.manifest.as_ref().map(|manifest| &manifest.part) else {
            return Err(Failure(format!(
                "{} has no manifest in {}, which says what it was built for: take the file as it \
                 was linked",
                title(shipped),
                asked.file.display()
            )));
        };
        if let Some(reason) = &manifest.skipped {
            return Err(Failure(format!(
                "{}: nothing was built into it that could be compared: {}",
                title(shipped),
                clean(reason)
            )));
        }
        plans.push(Plan { shipped, manifest, package });
    }
    Ok(plans)
}

/// Another toolkit makes other images of the same sources.
fn is_the_same(plan: &Plan<'_, '_, '_>, toolkit: &Toolkit) -> Result<(), Failure> {
    let Some(wanted) = &plan.manifest.toolkit else { return Ok(()) };
    let identity = toolkit.identity().map_err(|error| error.to_string())?;
    let ToolkitIdentity { tileiras, ptxas, nvvm, bytecode: _ } = wanted;
    let differs = if identity.fingerprint() != tileiras {
        ("tileiras", release(tileiras), release(identity.fingerprint()))
    } else if identity.ptxas.trim() != ptxas {
        ("ptxas", release(ptxas), release(&identity.ptxas))
    } else if identity.nvvm_digest != *nvvm {
        ("libnvvm", nvvm.clone(), identity.nvvm_digest)
    } else {
        return Ok(());
    };
    let (program, wanted, found) = differs;
    Err(Failure(format!(
        "{} was built with {program} {}, and {} has {}: name the toolkit that it was built with in \
         CUDA_TOOLKIT_PATH",
        title(plan.shipped),
        clean(&wanted),
        toolkit.root.display(),
        clean(&found)
    )))
}

impl<'b, 'a> Plan<'_, 'b, 'a> {
    fn run(
        &self,
        cargo: &dyn Fn(&str) -> Command,
        asked: &Verify,
        environ: &Environ,
    ) -> Result<Rebuilt<'b, 'a>, Failure> {
        let name = self.package.name.as_str();
        // So that the script runs, whatever is left of the last time.
        let mut clean = cargo("clean");
        clean.args(["--quiet", "--package", name]).args(of_clean(&asked.cargo));
        let cleaned = clean.status().map_err(|error| not_run(environ, &error))?;
        let mut build = cargo("build");
        build.args(["--message-format=json-render-diagnostics", "--package", name]);
        build.args(&asked.cargo).envs(self.variables());
        for name in ["CUTILE_BUILD", "CUTILE_BUILD_ALLOW_ENV"] {
            build.env_remove(name);
        }
        let out = match cleaned.success() {
            true => self.out_dir(build, environ)?,
            false => None,
        };
        let Some(out) = out else {
            return Err(Failure(format!(
                "the sources of {name} do not build, and so nothing is compared; what cargo says is \
                 above"
            )));
        };
        let folder =
            self.package.manifest_path.parent().map_or(Path::new("."), |p| p.as_std_path());
        Ok(Rebuilt {
            shipped: self.shipped,
            bytes: files(&out.join("cutile"))?,
            folder: folder.to_owned(),
        })
    }

    /// What the build script looks at beside its sources.
    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let level = match self.manifest.codegen {
            Codegen::Debug => "full",
            Codegen::Optimized { lineinfo: true, .. } => "line",
            Codegen::Optimized { lineinfo: false, .. } => "none",
        };
        vec![
            ("CUDA_RUST_DEBUG", level.into()),
            ("CUTILE_BUILD_PREBUILT", "ignore".into()),
            ("CUTILE_BUILD_TARGETS", self.manifest.targets.join(",").into()),
        ]
    }

    /// The build script's `OUT_DIR`, after it ran; `None` where cargo does not end well.
    fn out_dir(&self, mut build: Command, environ: &Environ) -> Result<Option<PathBuf>, Failure> {
        let mut child =
            build.stdout(Stdio::piped()).spawn().map_err(|error| not_run(environ, &error))?;
        let stdout = child.stdout.take().ok_or("cargo prints nothing")?;
        let mut out = None;
        for message in Message::parse_stream(BufReader::new(stdout)) {
            if let Ok(Message::BuildScriptExecuted(script)) = message
                && script.package_id == self.package.id
            {
                out = Some(script.out_dir.into_std_path_buf());
            }
        }
        let status = child.wait().map_err(|error| not_run(environ, &error))?;
        Ok(out.filter(|_| status.success()))
    }
}

/// Of cargo's arguments those that say in which folder `clean` has something to do.
fn of_clean(arguments: &[OsString]) -> Vec<&OsStr> {
    let mut out = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().unwrap_or_default();
        if matches!(text, "--release" | "-r") || starts(text, &["--profile=", "--target="]) {
            out.push(argument.as_os_str());
        } else if matches!(text, "--profile" | "--target") {
            out.push(argument.as_os_str());
            out.extend(arguments.next().map(OsString::as_os_str));
        }
    }
    out
}

fn starts(text: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}

/// The files of a bundle one behind the other: parts are found by their first bytes, as in a program.
fn files(folder: &Path) -> Result<Vec<u8>, Failure> {
    let missing = |error| {
        Failure(format!(
            "the build script made no bundle in {}: {error}. It has to call cutile_build::Builder",
            folder.display()
        ))
    };
    let mut paths = Vec::new();
    for file in fs::read_dir(folder).map_err(missing)? {
        paths.push(file.map_err(Failure::io("read", folder))?.path());
    }
    paths.sort();
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend(fs::read(&path).map_err(Failure::io("read", &path))?);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_gets_what_chooses_its_folder() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(Into::into).collect() };
        let given = words("--release --features x --profile y --target=z -F a --target b --bin c");
        let cleaned = of_clean(&given).into_iter().map(OsStr::to_owned).collect::<Vec<_>>();
        assert_eq!(cleaned, words("--release --profile y --target=z --target b"));
        assert_eq!(of_clean(&words("--profile")), ["--profile"]);
    }

    #[test]
    fn a_folder_without_a_bundle_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = files(&dir.path().join("cutile")).unwrap_err().to_string();
        assert!(error.contains("cutile_build::Builder"), "{error}");
        fs::write(dir.path().join("b"), "2").unwrap();
        fs::write(dir.path().join("a"), "1").unwrap();
        assert_eq!(files(dir.path()).unwrap(), b"12");
    }
}
