//! A small transformer-style pipeline whose GPU kernels are compiled ahead of time and embedded,
//! and five WGSL shaders that are lowered ahead of time.
//!
//! It launches every kernel and runs every shader once, checks each result against a reference on
//! the host where a GPU computed one, and reports where each kernel and shader came from.

mod bench;
mod inputs;
mod kernels;
mod measure;
mod pipeline;
mod reference;
mod report;
mod shaders;

use cutile::cuda_async::device_context::set_default_device;
use cutile_embed::shader::Config;
use cutile_embed::{Devices, Installer};
use report::{Counters, Device, Kernels, Outcome};
use std::path::PathBuf;
use std::process::ExitCode;

cutile_embed::embed!();

const USAGE: &str = "\
Usage: example-app [OPTIONS]
       example-app bench [--json] [--rounds N] [--device N]

Launches every kernel of the app and runs every shader of it once, and reports
where each came from. `bench` measures what that saves, each figure beside what
one would have instead, on the GPU or the virtual one [default: 50 rounds].

Options:
  --json               A line of JSON on stdout; everything else to stderr
  --device N           The CUDA device to run on [default: 0]; 0,1 for several,
                       each with a table or line of its own
  --no-l1              Do not fill cutile's memory: launches ask the embedded
                       store
  --no-bundle          Do not use what is embedded: launches and shaders ask
                       their disk caches
  --measure N          Time install and a first launch against the driver
                       alone, N rounds
  --kernels-only       Leave the shaders out
  --shaders-only       Leave the kernels out, and CUDA with them
  --shader-cache DIR   The disk cache of the shaders; off for none
                       [default: cutile/shaders in the user's cache folder]
  --no-subgroups       Do without subgroups although the adapter has them
  --png PATH           Write the picture that the scene's shader renders
  --measure-shaders N  Time naga from text against naga from IR, N rounds
  --help               Print this help";

#[derive(Debug, Default)]
struct Options {
    json: bool,
    /// Empty: the first.
    devices: Vec<usize>,
    no_l1: bool,
    no_bundle: bool,
    measure: Option<usize>,
    kernels_only: bool,
    shaders_only: bool,
    shader_cache: Option<Cache>,
    no_subgroups: bool,
    png: Option<PathBuf>,
    measure_shaders: Option<usize>,
}

/// A disk cache that is not the user's.
#[derive(Debug)]
enum Cache {
    Off,
    Dir(PathBuf),
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("bench") {
        return bench();
    }
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
    let first = options.devices.first().copied().unwrap_or(0);
    let others = options.devices.iter().skip(1);
    let shaders = !options.kernels_only;
    let runs = std::iter::once((first, shaders)).chain(others.map(|device| (*device, false)));
    let mut status = ExitCode::SUCCESS;
    for (device, shaders) in runs {
        match run(&options, device, shaders) {
            Ok(outcome) => {
                if options.json {
                    println!("{}", outcome.json());
                } else {
                    print!("{outcome}");
                }
                for fault in outcome.faults() {
                    eprintln!("{fault}");
                    status = ExitCode::FAILURE;
                }
            }
            Err(error) => {
                eprintln!("example-app: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    status
}

fn bench() -> ExitCode {
    let options = match bench_options(std::env::args().skip(2)) {
        Ok(options) => options,
        Err(what) => {
            eprintln!("example-app: {what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    set_default_device(options.device);
    match bench::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("example-app: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench_options(mut arguments: impl Iterator<Item = String>) -> Result<bench::Options, String> {
    let mut options = bench::Options { json: false, rounds: 50, device: 0, beside: None };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => options.json = true,
            "--rounds" => options.rounds = number(&argument, arguments.next())?.max(1),
            "--device" => options.device = number(&argument, arguments.next())?,
            // Not for people: `bench` gives it to the process that it starts.
            "--beside" => options.beside = Some(path(&argument, arguments.next())?),
            other => return Err(format!("unknown option {other:?} of bench")),
        }
    }
    Ok(options)
}

/// The kernels on one device, and the shaders with the first: their device is another matter.
fn run(options: &Options, device: usize, shaders: bool) -> Result<Outcome, shaders::Failure> {
    let kernels = if options.shaders_only { None } else { Some(kernels(options, device)?) };
    let ratios = options.measure_shaders.filter(|_| shaders).map(shaders::measure).transpose()?;
    let shaders = shaders.then(|| shaders::run(&shader_options(options)));
    Ok(Outcome { kernels, shaders, ratios })
}

fn kernels(options: &Options, device: usize) -> Result<Kernels, cutile::error::Error> {
    set_default_device(device);
    let installed = Installer::new()
        .devices(Devices::Current)
        .fill_memory(!options.no_l1)
        .embedded(!options.no_bundle)
        .install();
    eprintln!("{installed}");
    let installed_on = device;
    let device = Device::of(&installed, device);
    if let (Some(rounds), Some(target)) = (options.measure, device.target()) {
        eprint!("{}", measure::first_launch(target, installed_on, rounds)?);
    }
    let before = Counters::now();
    let launches = match device.computes() {
        None => Vec::new(),
        Some(computes) => pipeline::run(computes, Counters::now)?,
    };
    let compiled = Counters::now().compiled - before.compiled;
    Ok(Kernels { device, installed, launches, compiled })
}

fn shader_options(options: &Options) -> shaders::Options<'_> {
    let mut config = Config::default().embedded(!options.no_bundle);
    match &options.shader_cache {
        None => {}
        Some(Cache::Off) => config = config.disk(None),
        Some(Cache::Dir(dir)) => config = config.disk(Some(dir.clone())),
    }
    let subgroups = !options.no_subgroups;
    shaders::Options { config, subgroups, png: options.png.as_deref() }
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
            "--kernels-only" => options.kernels_only = true,
            "--shaders-only" => options.shaders_only = true,
            "--no-subgroups" => options.no_subgroups = true,
            "--device" => options.devices = numbers(&argument, arguments.next())?,
            "--measure" => options.measure = Some(number(&argument, arguments.next())?),
            "--measure-shaders" => {
                options.measure_shaders = Some(number(&argument, arguments.next())?);
            }
            "--png" => options.png = Some(path(&argument, arguments.next())?),
            "--shader-cache" => {
                let cache = path(&argument, arguments.next())?;
                let off = cache.as_os_str() == "off";
                options.shader_cache = Some(if off { Cache::Off } else { Cache::Dir(cache) });
            }
            other => return Err(format!("unknown option {other:?}")),
        }
    }
    contradiction(&options).map_or(Ok(Some(options)), Err)
}

/// Why nobody can mean these options together.
fn contradiction(options: &Options) -> Option<String> {
    let of_shaders = [
        ("--shaders-only", options.shaders_only),
        ("--shader-cache", options.shader_cache.is_some()),
        ("--no-subgroups", options.no_subgroups),
        ("--png", options.png.is_some()),
        ("--measure-shaders", options.measure_shaders.is_some()),
    ];
    let of_kernels = [
        ("--no-l1", options.no_l1),
        ("--device", !options.devices.is_empty()),
        ("--measure", options.measure.is_some()),
    ];
    let given = |among: &[(&'static str, bool)]| {
        among.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    };
    if let (true, Some(name)) = (options.kernels_only, given(&of_shaders)) {
        return Some(format!("{name} is for the shaders, which --kernels-only leaves out"));
    }
    if let (true, Some(name)) = (options.shaders_only, given(&of_kernels)) {
        return Some(format!("{name} is for the kernels, which --shaders-only leaves out"));
    }
    if options.measure_shaders.is_some() && cfg!(debug_assertions) {
        // naga is many times slower so, and the two routes not alike.
        return Some("--measure-shaders needs a release build: cargo cutile run --release".into());
    }
    None
}

fn numbers(option: &str, values: Option<String>) -> Result<Vec<usize>, String> {
    let values = values.ok_or_else(|| format!("{option} takes a number, or 0,1"))?;
    values.split(',').map(|value| number(option, Some(value.to_owned()))).collect()
}

fn number(option: &str, value: Option<String>) -> Result<usize, String> {
    let value = value.ok_or_else(|| format!("{option} takes a number"))?;
    value.parse().map_err(|_| format!("{option} takes a number, not {value:?}"))
}

fn path(option: &str, value: Option<String>) -> Result<PathBuf, String> {
    value.map(PathBuf::from).ok_or_else(|| format!("{option} takes a path"))
}
