//! `cargo cutile`: finds or installs the CUDA toolkit, then runs cargo with it.
//!
//! | file | one idea |
//! |---|---|
//! | `args.rs` | what may be written on the command line |
//! | `environ.rs` | the one place that reads the environment |
//! | `workspace.rs` | the folder `.cutile`, and `.cutile/cargo.toml` that plain cargo includes |
//! | `run_cargo.rs` | a passed-through cargo command |
//! | `choice.rs` | which toolkit and libclang a cargo command gets |
//! | `toolkit.rs` | `toolkit`, `toolkit install`, `toolkit fetch` |
//! | `install.rs`, `download.rs`, `unpack.rs`, `wheels.rs`, `platform.rs`, `headers.rs` | the installer |
//! | `libclang.rs` | where clang-sys finds a libclang |
//! | `virtual_gpu.rs` | `virtual-gpu`, `--virtual-gpu`, and `run` without a driver |

mod args;
mod choice;
mod download;
mod environ;
mod failure;
mod headers;
mod install;
mod libclang;
mod platform;
mod run_cargo;
mod toolkit;
mod unpack;
mod virtual_gpu;
mod wheels;
mod workspace;

use args::{Cli, Command};
use clap::Parser as _;
use environ::Environ;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse_from(args::without_subcommand_name(std::env::args_os()));
    match run(&cli, &Environ::from_process()) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, environ: &Environ) -> Result<ExitCode, Failure> {
    match &cli.command {
        Command::Toolkit { action } => toolkit::run(cli, action.as_ref(), environ),
        Command::VirtualGpu { path } => virtual_gpu::run(*path, environ),
        Command::Cargo(arguments) => run_cargo::run(cli, arguments, environ),
    }
}
