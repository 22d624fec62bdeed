//! Time from nothing to the first launch of 1 to 1,000 kernels, embedded and by what a user would
//! take instead. Each in a process of its own, whose CUDA context is there before the clock starts.
//!
//! ```text
//! compare WAY KERNELS [FOLDER]     one figure, a line of JSON
//! compare all ROUNDS FOLDER        all of them, medians; FOLDER is made, for caches
//! compare plot FILE.jsonl          what `all` printed, as SVG
//! ```
//!
//! | way | what is timed |
//! |---|---|
//! | `embedded` | `install` and the launches |
//! | `raw` | `cuModuleLoadData`, `cuModuleGetFunction` and `cuLaunchKernel` of the same cubins, which lie in memory as `include_bytes!` would have them |
//! | `jit` | the launches, with upstream's disk cache, which is empty; takes a tileiras |
//! | `disk` | the launches in a process after that one; takes a tileiras |
//! | `shipped` | the launches, out of a folder that was filled with what is embedded; takes a tileiras of the same version |
//!
//! The program has that many kernels and no others. `FOLDER` has the caches.

mod kernels;
mod plot;
mod ways;

use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, ExitCode};

cutile_embed::embed!();

/// A line of the output.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Figure {
    way: String,
    kernels: usize,
    /// Until the last kernel ran for the first time.
    us: f64,
    /// Of these kernels, as this way stores them.
    bytes: u64,
    /// Kernels that tileiras compiled meanwhile.
    compiled: u64,
}

const WAYS: [&str; 5] = ["jit", "embedded", "raw", "disk", "shipped"];
const SIZES: [usize; 4] = [1, 10, 100, 1000];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["plot", file] => plot::plot(file),
        ["all", rounds, folder] => all(rounds, folder),
        [way, kernels] => one(way, kernels, ""),
        [way, kernels, folder] => one(way, kernels, folder),
        _ => Err("usage: compare WAY KERNELS [FOLDER] | all ROUNDS FOLDER | plot FILE".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn one(way: &str, kernels: &str, folder: &str) -> Result<()> {
    let figure = ways::run(way, kernels.parse()?, Path::new(folder))?;
    println!("{}", serde_json::to_string(&figure)?);
    Ok(())
}

/// In turn, so that none has the machine at its best. What takes more than half a minute runs once.
fn all(rounds: &str, folder: &str) -> Result<()> {
    let rounds: usize = rounds.parse()?;
    let program = std::env::current_exe()?;
    let run = |way: &str, kernels: usize| -> Result<Figure> {
        let output = Command::new(&program).args([way, &kernels.to_string(), folder]).output()?;
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout)?),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    };
    for kernels in SIZES {
        let mut figures: Vec<Vec<Figure>> = vec![Vec::new(); WAYS.len()];
        for _ in 0..rounds {
            for (way, figures) in WAYS.iter().zip(&mut figures) {
                if figures.first().is_some_and(|first: &Figure| first.us > 30e6) {
                    continue;
                }
                match run(way, kernels) {
                    Ok(figure) => figures.push(figure),
                    Err(error) => eprintln!("{way} of {kernels}: {error}"),
                }
            }
        }
        for mut figures in figures {
            figures.sort_by(|one, other| one.us.total_cmp(&other.us));
            if let Some(figure) = figures.get(figures.len() / 2) {
                println!("{}", serde_json::to_string(figure)?);
            }
        }
    }
    Ok(())
}
