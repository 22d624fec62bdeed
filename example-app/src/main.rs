//! A small transformer-style pipeline whose GPU kernels are compiled ahead of time and embedded.
//!
//! It launches every kernel once, checks each result against a reference on the host where a GPU
//! computed one, and reports where each kernel came from.

mod inputs;
mod kernels;
mod measure;
mod pipeline;
mod reference;
mod report;

use cutile::cuda_async::device_context::set_default_device;
use cutile_embed::{Devices, Installer};
use report::{Counters, Device, Outcome};
use std::process::ExitCode;

cutile_embed::embed!();

const USAGE: &str = "\
Usage: example-app [OPTIONS]

Launches every kernel of the app once and reports where each came from.

Options:
  --json        One line of JSON on stdout; everything else goes to stderr
  --device N    The CUDA device to run on [default: 0]
  --no-l1       Do not fill cutile's memory: launches ask the embedded store
  --no-bundle   Do not use what is embedded: launches ask the disk cache
  --measure N   Time install and a first launch against the driver alone, N rounds
  --help        Print this help";

#[derive(Debug, Default)]
struct Options {
    json: bool,
    device: usize,
    no_l1: bool,
    no_bundle: bool,
    measure: Option<usize>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            eprintln!("example-app: {what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(outcome) => {
            if options.json {
                println!("{}", outcome.json());
            } else {
                print!("{outcome}");
            }
            for launch in outcome.launches.iter().filter(|launch| !launch.within_bound()) {
                eprintln!("{} is out of its bound of {:e}", launch.kernel, launch.bound);
            }
            if outcome.launches.iter().all(pipeline::LaunchResult::within_bound) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("example-app: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Outcome, cutile::error::Error> {
    set_default_device(options.device);
    let installed = Installer::new()
        .devices(Devices::Current)
        .fill_memory(!options.no_l1)
        .embedded(!options.no_bundle)
        .install();
    eprintln!("{installed}");
    let device = Device::of(&installed, options.device);
    if let (Some(rounds), Some(target)) = (options.measure, device.target()) {
        eprint!("{}", measure::first_launch(target, rounds)?);
    }
    let before = Counters::now();
    let launches = match device.computes() {
        None => Vec::new(),
        Some(computes) => pipeline::run(computes, Counters::now)?,
    };
    let compiled = Counters::now().compiled - before.compiled;
    Ok(Outcome { device, installed, launches, compiled })
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => options.json = true,
            "--no-l1" => options.no_l1 = true,
            "--no-bundle" => options.no_bundle = true,
            "--help" | "-h" => return Ok(None),
            "--device" => options.device = number(&argument, arguments.next())?,
            "--measure" => options.measure = Some(number(&argument, arguments.next())?),
            other => return Err(format!("unknown option {other:?}")),
        }
    }
    Ok(Some(options))
}

fn number(option: &str, value: Option<String>) -> Result<usize, String> {
    let value = value.ok_or_else(|| format!("{option} takes a number"))?;
    value.parse().map_err(|_| format!("{option} takes a number, not {value:?}"))
}
