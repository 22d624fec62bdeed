//! `cargo cutile`: finds or installs the CUDA toolkit, then runs cargo with it.
//!
//! | file | one idea |
//! |---|---|
//! | `args.rs` | what may be written on the command line |
//! | `environ.rs` | the one place that reads the environment |
//! | `workspace.rs` | the folder `.cutile`, and `.cutile/cargo.toml` that plain cargo includes |
//! | `run_cargo.rs` | a passed-through cargo command |
//! | `build.rs`, `signals.rs` | one that compiles kernels, watched |
//! | `journal.rs` | what its build scripts say |
//! | `bar.rs`, `report.rs` | what is shown of it: the live bar, `--report` |
//! | `reproducible.rs` | `--reproducible`: the same bytes in any folder |
//! | `choice.rs` | which toolkit and libclang a cargo command gets |
//! | `toolkit.rs` | `toolkit`, `toolkit install`, `toolkit fetch` |
//! | `install.rs`, `download.rs`, `unpack.rs`, `wheels.rs`, `platform.rs`, `headers.rs` | the installer |
//! | `libclang.rs` | where clang-sys finds a libclang |
//! | `record.rs` | `record`: what a program launches, into `kernels.json` |
//! | `prebuild.rs` | `prebuild`: the bundle that a crate ships |
//! | `inspect.rs`, `diff.rs`, `verify.rs` | what is embedded in a file |
//! | `export.rs`, `import.rs` | from a file to a disk cache |
//! | `doctor.rs` | what this machine has |
//! | `bench.rs` | `bench --json`: the figures of BENCHMARKS.md |
//! | `cache.rs` | the caches on disk |
//! | `embedded/` | reads what is embedded, in a file of any kind |
//! | `output.rs`, `progress.rs` | colours, widths, JSON; a line for work over a second |
//! | `subject.rs`, `stores.rs` | the file, and the caches, that a command looks into |
//! | `virtual_gpu.rs` | `virtual-gpu`, `--virtual-gpu`, and `run` without a driver |

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "println! panics where nobody reads")]

mod args;
mod bar;
mod bench;
mod build;
mod cache;
mod choice;
mod diff;
mod doctor;
mod download;
#[allow(unreachable_pub, reason = "what it offers to the other files of the command")]
mod embedded;
mod environ;
mod export;
mod failure;
mod headers;
mod import;
mod inspect;
mod install;
mod journal;
mod libclang;
mod output;
mod platform;
mod prebuild;
mod progress;
mod record;
mod report;
mod reproducible;
mod run_cargo;
mod signals;
mod stores;
mod subject;
mod toolkit;
mod unpack;
mod verify;
mod virtual_gpu;
mod wheels;
mod workspace;

use args::{Cli, Command};
use environ::Environ;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let environ = Environ::from_process();
    if reproducible::rustc::is_called(arguments.first()) {
        return reproducible::rustc::run(&arguments[1..], &environ);
    }
    let cli = args::parse(arguments.into_iter());
    match run(&cli, &environ) {
        Ok(code) => code,
        Err(failure) => {
            output::say_error(&failure);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, environ: &Environ) -> Result<ExitCode, Failure> {
    match &cli.command {
        Command::Toolkit { action } => toolkit::run(cli, action.as_ref(), environ),
        Command::VirtualGpu { path } => virtual_gpu::run(*path, environ),
        Command::Record(record) => record::run(cli, record, environ),
        Command::Prebuild(arguments) => prebuild::run(cli, arguments, environ),
        Command::Inspect(arguments) => inspect::run(arguments, environ),
        Command::Diff(arguments) => diff::run(arguments, environ),
        Command::Verify(arguments) => verify::run(cli, arguments, environ),
        Command::Export(arguments) => export::run(arguments),
        Command::Import(arguments) => import::run(arguments, environ),
        Command::Doctor(arguments) => doctor::run(arguments, environ),
        Command::Cache(arguments) => cache::run(arguments, environ),
        Command::Cargo(arguments) if bench::is_ours(arguments) => {
            bench::run(cli, arguments, environ)
        }
        Command::Cargo(arguments) => run_cargo::run(cli, arguments, environ),
    }
}
