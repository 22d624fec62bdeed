//! `cargo cutile prebuild`: the bundle that a crate ships with its sources.

use crate::args::Cli;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{print, say};
use crate::run_cargo::toolkit_for;
use crate::workspace::DotCutile;
use cargo_metadata::{Message, Metadata, MetadataCommand, Package};
use clap::Args;
use cutile_build::assemble::Progress;
use cutile_build::environment::BuildEnv;
use cutile_build::prebuild::{Prebuild, Prebuilt};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

#[derive(Debug, Args)]
#[command(
    after_help = "The program calls cutile_embed::install() first thing, and then makes the\n\
                  launches that are to be prebuilt. It runs once per target, on a virtual\n\
                  GPU that computes nothing.\n\n\
                  Examples:\n  \
                  cargo cutile prebuild -p my-kernels --release\n  \
                  cargo cutile prebuild -p my-kernels --release --check"
)]
pub(crate) struct Arguments {
    /// The package whose kernels are compiled
    #[arg(short, long, value_name = "NAME")]
    package: Option<String>,

    /// The example to run [default: warmup]
    #[arg(long, value_name = "NAME", group = "program")]
    example: Option<String>,

    /// A binary to run instead
    #[arg(long, value_name = "NAME", group = "program")]
    bin: Option<String>,

    /// A test to run instead
    #[arg(long, value_name = "NAME", group = "program")]
    test: Option<String>,

    /// Features of the package, with commas between
    #[arg(short = 'F', long, value_name = "FEATURES")]
    features: Option<String>,

    /// Build the program in release mode
    #[arg(short, long)]
    release: bool,

    /// Debug level: none, line or full
    #[arg(long, value_name = "LEVEL", default_value = "none")]
    #[arg(value_parser = ["none", "line", "full"], hide_possible_values = true)]
    debug_level: String,

    /// Write nothing; fail where the folder is another
    #[arg(long)]
    check: bool,

    /// End the program after so long
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,

    #[arg(long, value_name = "PATH")]
    /// Path of a Cargo.toml
    manifest_path: Option<PathBuf>,
}

impl Arguments {
    /// How cargo is told of the program: its kind and its name.
    fn program(&self) -> (&'static str, &str) {
        match (&self.bin, &self.test, &self.example) {
            (Some(name), _, _) => ("bin", name),
            (_, Some(name), _) => ("test", name),
            (_, _, Some(name)) => ("example", name),
            _ => ("example", "warmup"),
        }
    }
}

pub(crate) fn run(cli: &Cli, asked: &Arguments, environ: &Environ) -> Result<ExitCode, Failure> {
    if cli.virtual_gpu.is_some() {
        return Err("prebuild runs for the targets of the package: name others in \
                    CUTILE_BUILD_TARGETS, and leave --virtual-gpu out"
            .into());
    }
    let manifest = asked.manifest_path.as_ref().map(|path| path.as_os_str());
    let dot = DotCutile::locate(environ, manifest)?;
    let offline = cli.offline || environ.offline();
    let choice = toolkit_for(environ, &dot, offline)?;
    let published = choice.publish()?;
    let toolkit = choice.toolkit.as_ref().map_err(ToString::to_string)?;
    let metadata = metadata(environ, asked)?;
    let package = package(&metadata, asked)?;
    let (kind, name) = asked.program();
    has_program(package, kind, name)?;

    let mut cargo = Command::new(environ.cargo());
    cargo.args(["build", "--message-format=json-render-diagnostics", "--package"]);
    cargo.arg(package.name.as_str()).arg(format!("--{kind}")).arg(name);
    // Nothing is embedded that the program could launch instead, and no old bundle is in the way.
    cargo.env("CUTILE_BUILD", "skip");
    cargo.args(
        asked
            .manifest_path
            .iter()
            .flat_map(|path| [OsStr::new("--manifest-path"), path.as_os_str()]),
    );
    cargo.args(asked.features.iter().flat_map(|features| ["--features", features]));
    cargo.args(offline.then_some("--offline"));
    cargo.args(asked.release.then_some("--release"));
    for (name, value) in published {
        match value {
            Some(value) => cargo.env(name, value),
            None => cargo.env_remove(name),
        };
    }
    for name in environ.set_by_cargo_run() {
        cargo.env_remove(name);
    }
    let program = build(&mut cargo, environ, name)?;

    let out = metadata.target_directory.as_std_path().join("cutile-prebuild");
    std::fs::create_dir_all(&out).map_err(Failure::io("create", &out))?;
    let env = build_env(environ, package, asked, &out)?;
    let own = [library(package), name.replace('-', "_")];
    let prebuild = Prebuild { env: &env, toolkit, program: &program, own: &own, progress: show };
    let made = prebuild.run().map_err(|error| error.to_string())?;
    let folder = Prebuilt::folder(&env.manifest_dir);
    if !asked.check {
        // Before anything is printed: where that fails, the work is done.
        made.write(&folder).map_err(|error| error.to_string())?;
    }
    report(&made, package)?;
    if asked.check {
        return check(&made, &folder, package, asked.release);
    }
    print(&format!("{}: {} bytes; commit it\n", folder.display(), made.bytes()))?;
    Ok(ExitCode::SUCCESS)
}

fn metadata(environ: &Environ, asked: &Arguments) -> Result<Metadata, Failure> {
    let mut command = MetadataCommand::new();
    command.cargo_path(environ.cargo()).no_deps().other_options(["--offline".to_owned()]);
    if let Some(manifest) = &asked.manifest_path {
        command.manifest_path(manifest);
    }
    command.exec().map_err(|error| Failure(format!("cargo cannot read the workspace: {error}")))
}

/// The package that is named, or that is here.
fn package<'m>(metadata: &'m Metadata, asked: &Arguments) -> Result<&'m Package, Failure> {
    let names = || {
        let names = metadata.packages.iter().map(|package| package.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    if let Some(name) = &asked.package {
        let found = metadata.packages.iter().find(|package| package.name.as_str() == name);
        return found.ok_or_else(|| {
            Failure(format!("no package of this workspace is called {name}; there are {}", names()))
        });
    }
    let here = match &asked.manifest_path {
        Some(path) => path.canonicalize().map_err(Failure::io("find", path))?,
        None => {
            let here = std::env::current_dir();
            here.map_err(|error| format!("no current folder: {error}"))?.join("Cargo.toml")
        }
    };
    let is_here = |package: &&Package| package.manifest_path.as_std_path() == here;
    match (metadata.packages.iter().find(is_here), metadata.packages.as_slice()) {
        (Some(package), _) | (None, [package]) => Ok(package),
        _ => Err(Failure(format!("name the package with -p; there are {}", names()))),
    }
}

/// The library of a package as its modules' paths begin.
fn library(package: &Package) -> String {
    let is_library = |target: &&cargo_metadata::Target| target.is_lib() || target.is_rlib();
    let library = package.targets.iter().find(is_library);
    let name = library.map_or(package.name.as_str(), |target| target.name.as_str());
    name.replace('-', "_")
}

fn has_program(package: &Package, kind: &str, name: &str) -> Result<(), Failure> {
    let fits = |target: &cargo_metadata::Target| match kind {
        "bin" => target.is_bin(),
        "test" => target.is_test(),
        _ => target.is_example(),
    };
    let all: Vec<&str> = package
        .targets
        .iter()
        .filter(|target| fits(target))
        .map(|target| target.name.as_str())
        .collect();
    if all.contains(&name) {
        return Ok(());
    }
    let others = match all.as_slice() {
        [] => format!("it has no {kind}s at all"),
        all => format!("it has {}", all.join(", ")),
    };
    Err(Failure(format!(
        "{} has no {kind} {name:?}; {others}. Name one with --example, --bin or --test, or write \
         examples/warmup.rs: it calls cutile_embed::install() and makes the launches that are to \
         be prebuilt",
        package.name
    )))
}

/// Builds the program and finds it.
fn build(cargo: &mut Command, environ: &Environ, name: &str) -> Result<PathBuf, Failure> {
    let not_run =
        |error| Failure(format!("{} does not run: {error}", environ.cargo().to_string_lossy()));
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(not_run)?;
    let stdout = child.stdout.take().ok_or("cargo prints nothing")?;
    let mut program = None;
    for message in Message::parse_stream(BufReader::new(stdout)) {
        if let Ok(Message::CompilerArtifact(artifact)) = message
            && artifact.target.name == name
            && let Some(path) = artifact.executable
        {
            program = Some(path.into_std_path_buf());
        }
    }
    if !child.wait().map_err(not_run)?.success() {
        return Err("the program does not build".into());
    }
    program.ok_or_else(|| Failure(format!("cargo built no program {name}")))
}

/// What a build script of the package would see.
fn build_env(
    environ: &Environ,
    package: &Package,
    asked: &Arguments,
    out: &Path,
) -> Result<BuildEnv, Failure> {
    let folder = package.manifest_path.parent().ok_or("the manifest is in no folder")?;
    let own: BTreeMap<&str, OsString> = BTreeMap::from([
        ("OUT_DIR", out.into()),
        ("CARGO_MANIFEST_DIR", folder.as_std_path().into()),
        ("CARGO_PKG_NAME", package.name.as_str().into()),
        ("CARGO_PKG_VERSION", package.version.to_string().into()),
        ("CARGO", environ.cargo().into()),
        ("RUSTC", environ.rustc().into()),
        ("CUDA_RUST_DEBUG", asked.debug_level.as_str().into()),
        ("CUTILE_BUILD_TIMEOUT", asked.timeout.to_string().into()),
    ]);
    let value = |name: &str| own.get(name).cloned().or_else(|| environ.get(name).map(Into::into));
    BuildEnv::from_lookup(value).map_err(|error| error.to_string().into())
}

fn show(progress: &Progress) {
    say!("{progress}");
}

fn report(made: &Prebuilt, package: &Package) -> Result<(), Failure> {
    for note in &made.notes {
        say!("warning: {note}");
    }
    for left_out in &made.left_out {
        let cutile_embed::manifest::LeftOut { kernel, target, reason } = left_out;
        say!("warning: {kernel} for {target} is not embedded: {reason}");
    }
    for kernel in &made.uncovered {
        say!("warning: the program does not launch {kernel}: it is not embedded");
    }
    print(&format!(
        "{} {}: {} specializations, {} images for {}; tileiras ran {} times\n",
        package.name,
        package.version,
        made.kernels,
        made.images,
        made.targets.join(", "),
        made.processes
    ))
}

fn check(
    made: &Prebuilt,
    folder: &Path,
    package: &Package,
    release: bool,
) -> Result<ExitCode, Failure> {
    let differences = made.differences(folder).map_err(|error| error.to_string())?;
    if differences.is_empty() {
        print(&format!("{}: as the sources make it\n", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("error: {} is not what the sources make:", folder.display());
    for line in &differences {
        say!("  {line}");
    }
    let release = if release { " --release" } else { "" };
    say!("Make it anew with cargo cutile prebuild -p {}{release}", package.name);
    Ok(ExitCode::FAILURE)
}
