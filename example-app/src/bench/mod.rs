//! `example-app bench`: what the app gains, figure by figure, each beside what a user would have
//! instead, on the GPU that is there or on the virtual one.
//!
//! | file | figures |
//! |---|---|
//! | `first.rs` | `first-launch-vs-raw`, `-vs-disk`, `-vs-jit`, `steady-launch` |
//! | `many.rs` | `install-1000-vs-raw`, `device-memory-1000` |
//! | `host.rs` | `size`, `decode`, `lookup-10000`: no GPU is asked |
//! | `raw.rs` | the driver and nothing else |
//! | `stub.rs` | a tileiras that says its version and compiles nothing |
//!
//! Both sides run in turn in one process; a figure is the median of the rounds, a ratio that of the
//! ratios round by round.

mod first;
mod host;
mod many;
pub(crate) mod raw;
mod stub;

use crate::report::Device;
use cutile::error::Error;
use cutile_embed::{Devices, Disk, Installer};
use serde::Serialize;
use std::io::Write as _;
use std::path::PathBuf;

/// One line.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    name: &'static str,
    ours: Option<f64>,
    theirs: Option<f64>,
    ratio: Option<f64>,
    unit: &'static str,
    bar: &'static str,
    met: Option<bool>,
    /// What was measured, or why nothing was.
    note: String,
}

impl Figure {
    /// A figure that was measured, and is met where `met` says so of its ratio.
    fn of(
        name: &'static str,
        unit: &'static str,
        bar: &'static str,
        [ours, theirs, ratio]: [f64; 3],
        met: impl FnOnce(f64) -> bool,
    ) -> Self {
        let met = ratio.is_finite().then(|| met(ratio));
        let some = |value: f64| value.is_finite().then_some(value);
        let (ours, theirs, ratio) = (some(ours), some(theirs), some(ratio));
        Self { name, ours, theirs, ratio, unit, bar, met, note: String::new() }
    }

    fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// A figure that this machine does not give.
    fn none(
        name: &'static str,
        unit: &'static str,
        bar: &'static str,
        why: impl Into<String>,
    ) -> Self {
        let note = why.into();
        Self { name, ours: None, theirs: None, ratio: None, unit, bar, met: None, note }
    }

    /// The same without its numbers: they are those of a virtual GPU.
    fn withheld(self, why: &str) -> Self {
        Self::none(self.name, self.unit, self.bar, why)
    }
}

/// What `bench` is given.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) json: bool,
    pub(crate) rounds: usize,
    pub(crate) device: usize,
    /// The folder of the stub, in the process that was started with one.
    pub(crate) beside: Option<PathBuf>,
}

const VIRTUAL: &str = "the GPU is a virtual one, which executes nothing; \
                       run it on a real one for a figure";

/// Measures and prints.
///
/// # Errors
///
/// The first load or launch that fails.
pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let installed =
        Installer::new().devices(Devices::Ids(vec![options.device])).disk(Disk::Off).install();
    let device = Device::of(&installed, options.device);
    let print = |figures: Vec<Figure>, is_of_gpu: bool| {
        for figure in figures {
            print(options, &device, figure, is_of_gpu);
        }
    };
    if let (Some(folder), Some(target)) = (&options.beside, device.target()) {
        print(first::beside_disk(target, &folder.join("cache"), options.rounds)?, true);
        return Ok(());
    }
    eprintln!("{}", device.described());
    print(host::figures(options.rounds), false);
    let Some(target) = device.target() else {
        let why = installed.no_device.clone().unwrap_or_else(|| "no device".to_owned());
        for figure in absent(&why) {
            print(vec![figure], true);
        }
        return Ok(());
    };
    print(
        vec![first::beside_raw(
            target,
            options.device,
            device.computes() == Some(true),
            options.rounds,
        )?],
        true,
    );
    print(vec![first::beside_jit(options.device, options.rounds)?], true);
    print(many::figures(target, options.device, options.rounds)?, true);
    // Last: a process of its own, which prints for itself.
    if let Err(why) = stub::run_beside(target, options) {
        print(first::without_stub(&why), true);
    }
    Ok(())
}

/// Every figure that takes a GPU, without one.
fn absent(why: &str) -> Vec<Figure> {
    let mut figures = vec![first::no_raw(why), first::no_jit(why)];
    figures.extend(many::none(why));
    figures.extend(first::without_stub(why));
    figures
}

fn print(options: &Options, device: &Device, figure: Figure, is_of_gpu: bool) {
    let is_virtual = is_of_gpu && device.computes() == Some(false);
    let mut out = std::io::stdout();
    // A reader that stops is no fault of the app's.
    let _ = if options.json {
        let figure = if is_virtual { figure.withheld(VIRTUAL) } else { figure };
        writeln!(out, "{}", serde_json::to_string(&figure).unwrap_or_default())
    } else {
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let met = match figure.met {
            _ if is_virtual => "virtual",
            Some(true) => "met",
            Some(false) => "not met",
            None => "-",
        };
        let (ours, theirs) = (number(figure.ours), number(figure.theirs));
        let Figure { name, unit, bar, note, .. } = &figure;
        let ratio = number(figure.ratio);
        writeln!(out, "{name:<22}{ours:>14}{theirs:>14} {unit:<10}{ratio:>12}  {met:<8}{bar}")
            .and_then(|()| if note.is_empty() { Ok(()) } else { writeln!(out, "    {note}") })
    };
}

/// Microseconds of a call.
fn timed<T>(call: impl FnOnce() -> T) -> (f64, T) {
    let start = std::time::Instant::now();
    let result = call();
    (start.elapsed().as_secs_f64() * 1e6, result)
}

/// Medians of ours and theirs, and of theirs ÷ ours or ours ÷ theirs pair by pair.
fn paired(pairs: &[(f64, f64)], ratio: impl Fn(f64, f64) -> f64) -> [f64; 3] {
    use crate::measure::median;
    [
        median(pairs.iter().map(|pair| pair.0).collect()),
        median(pairs.iter().map(|pair| pair.1).collect()),
        median(pairs.iter().map(|(ours, theirs)| ratio(*ours, *theirs)).collect()),
    ]
}
