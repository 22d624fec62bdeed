//! A passed-through cargo command.

use crate::args::Cli;
use crate::build::{Asked, Watch};
use crate::choice::{Choice, Libclang};
use crate::environ::Environ;
use crate::failure::Failure;
use crate::install::Install;
use crate::output::say;
use crate::reproducible::{self, Reproducible};
use crate::virtual_gpu::{self, RunArguments};
use crate::wheels::Parts;
use crate::workspace::DotCutile;
use clap::CommandFactory as _;
use std::ffi::OsString;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

/// Commands of cargo that compile nothing: for them no toolkit is installed.
const WITHOUT_TOOLKIT: [&str; 21] = [
    "add",
    "clean",
    "fetch",
    "fmt",
    "generate-lockfile",
    "help",
    "info",
    "init",
    "locate-project",
    "login",
    "logout",
    "metadata",
    "new",
    "owner",
    "pkgid",
    "remove",
    "search",
    "tree",
    "update",
    "vendor",
    "version",
];

/// That cargo has no command of this name. It lists its own, those of aliases, and programs.
fn unknown(name: &str, environ: &Environ) -> Option<Failure> {
    let output = Command::new(environ.cargo()).arg("--list").stdin(Stdio::null()).output().ok()?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let mut names: Vec<&str> = listed
        .lines()
        .filter(|line| line.starts_with("    "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    if !output.status.success() || names.is_empty() || names.contains(&name) {
        return None;
    }
    let cli = Cli::command();
    names.extend(cli.get_subcommands().map(clap::Command::get_name));
    let nearest = cutile_build::error::nearest(name, &names)?;
    Some(Failure(format!(
        "{name} is a command neither of cargo cutile nor of cargo; did you mean {nearest}? \
         `cargo cutile --help` lists the ones, `cargo --list` the others"
    )))
}

pub(crate) fn run(
    cli: &Cli,
    arguments: &[OsString],
    environ: &Environ,
) -> Result<ExitCode, Failure> {
    let name = arguments.first().and_then(|name| name.to_str()).unwrap_or_default();
    let compiles = !WITHOUT_TOOLKIT.contains(&name);
    // Before a toolkit is downloaded for a name that is spelled wrong.
    if compiles && let Some(unknown) = unknown(name, environ) {
        return Err(unknown);
    }
    let asked = Asked::of(arguments, compiles)?;
    let arguments = &asked.arguments[..];
    let its = RunArguments::of(arguments);
    let mut cargo = Command::new(environ.cargo());
    if cli.offline {
        cargo.arg("--offline");
    }
    cargo.args(arguments);
    for name in environ.set_by_cargo_run() {
        cargo.env_remove(name);
    }
    if let Ok(own) = std::env::current_exe() {
        cargo.env("CARGO_CUTILE", own);
    }
    if !compiles {
        return finish(&mut cargo, environ);
    }

    let watch = Watch::wanted(&asked, environ)?;
    let dot = DotCutile::locate(environ, its.manifest.as_ref().map(|path| path.as_os_str()))?;
    let offline = cli.offline || environ.offline() || asks_offline(arguments);
    let choice = toolkit_for(environ, &dot, offline)?;
    for (name, value) in choice.publish()? {
        match value {
            Some(value) => cargo.env(name, value),
            None => cargo.env_remove(name),
        };
    }
    if asked.reproducible {
        let subject = reproducible::Subject {
            manifest: its.manifest.as_deref(),
            target_dir: asked.target_dir.as_deref(),
            toolkit: choice.toolkit.as_ref().ok().map(|toolkit| toolkit.root.as_path()),
            folder: reproducible::FOLDER,
        };
        let reproducible = Reproducible::of(subject, environ)?;
        if !arguments.iter().any(|word| word == "-q" || word == "--quiet") {
            say!("{:>12} in {}", "Reproducible", reproducible.folder().display());
        }
        reproducible.apply(&mut cargo);
    }

    let by_itself = match &cli.virtual_gpu {
        Some(_) => None,
        None if matches!(name, "run" | "r") && !virtual_gpu::has_driver(environ) => {
            virtual_gpu::first_target(environ, &its)
        }
        None => None,
    };
    if let Some(targets) = cli.virtual_gpu.as_ref().or(by_itself.as_ref()) {
        cargo.envs(virtual_gpu::environment(environ, &dot, targets)?);
    }
    let Some(target) = by_itself else { return run_or_become(watch, &mut cargo, environ) };
    say!("{}", virtual_gpu::banner(&target));
    let ended = match watch {
        Some(watch) => watch.run(&mut cargo, environ),
        None => cargo.status().map(code).map_err(|error| not_run(environ, &error)),
    };
    say!("{}", virtual_gpu::banner(&target));
    ended
}

fn run_or_become(
    watch: Option<Watch>,
    cargo: &mut Command,
    environ: &Environ,
) -> Result<ExitCode, Failure> {
    match watch {
        Some(watch) => watch.run(cargo, environ),
        None => finish(cargo, environ),
    }
}

/// The toolkit and libclang, installed where there are none.
pub(crate) fn toolkit_for(
    environ: &Environ,
    dot: &DotCutile,
    offline: bool,
) -> Result<Choice, Failure> {
    let choice = Choice::of(environ, dot);
    let parts =
        Parts { toolkit: choice.toolkit.is_err(), libclang: choice.libclang == Libclang::Missing };
    if parts.is_empty() {
        return Ok(choice);
    }
    if let Err(error) = &choice.toolkit {
        if choice.is_users_mistake() {
            return Err(error.to_string().into());
        }
        say!("{}\n", error.without_advice());
    }
    Install { environ: choice.environ(), dot, parts, from: None, offline }.run()?;
    let choice = Choice::of(environ, dot);
    match &choice.toolkit {
        Ok(_) => Ok(choice),
        Err(error) => Err(error.to_string().into()),
    }
}

fn asks_offline(arguments: &[OsString]) -> bool {
    let mut its = arguments.iter().take_while(|argument| *argument != "--");
    its.any(|argument| argument == "--offline" || argument == "--frozen")
}

/// Becomes cargo.
#[cfg(unix)]
fn finish(cargo: &mut Command, environ: &Environ) -> Result<ExitCode, Failure> {
    use std::os::unix::process::CommandExt as _;
    Err(not_run(environ, &cargo.exec()))
}

#[cfg(not(unix))]
fn finish(cargo: &mut Command, environ: &Environ) -> Result<ExitCode, Failure> {
    cargo.status().map(code).map_err(|error| not_run(environ, &error))
}

pub(crate) fn not_run(environ: &Environ, error: &std::io::Error) -> Failure {
    Failure(format!("{} does not run: {error}", environ.cargo().to_string_lossy()))
}

/// The child's; as a shell does it, 128 and the number of a signal that ended it.
pub(crate) fn code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
