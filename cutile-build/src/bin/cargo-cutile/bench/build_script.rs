//! The build script of the app, run by itself as cargo runs it, with a build cache of its own.
//!
//! Cargo says with `-vv` how it starts a build script, variables and all. The processor time is what
//! the shell says of its children, which is that of the build script, its rehearsals and its
//! tileiras processes.

use super::memory::{Peak, watched};
use super::{APP, Cutile};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What `cargo cutile` sets for cargo, and what it takes away.
pub(super) type Variables = Vec<(&'static str, Option<OsString>)>;

/// The jobserver of the cargo that said the line is gone.
const NO_JOBSERVER: &str = "CARGO_MAKEFLAGS= MAKEFLAGS= MFLAGS=";

/// How cargo starts it, for a shell.
#[derive(Debug)]
pub(super) struct BuildScript {
    variables: String,
    program: String,
}

/// What one run took.
#[derive(Debug, Clone)]
struct Run {
    /// Seconds.
    wall: f64,
    /// Seconds of processor time, of all its processes.
    processor: f64,
    /// What everything else on the machine took meanwhile; `None` where it does not say.
    others: Option<f64>,
    jobs: Jobs,
    peak: Peak,
}

impl BuildScript {
    /// Has cargo run it, which takes what is in the user's build cache.
    pub(super) fn find(cutile: &Cutile) -> Result<Self, Failure> {
        // One of the two values is not that of the run before, so that cargo runs it again.
        for jobs in ["64", "65"] {
            let mut command = cutile.command(&["build", "--release", "-p", APP, "-vv"]);
            let output = command
                .env("CUTILE_BUILD_JOBS", jobs)
                .output()
                .map_err(|error| Failure(format!("cargo cutile build: {error}")))?;
            if let Some(found) = of_output(&String::from_utf8_lossy(&output.stderr)) {
                return Ok(found);
            }
        }
        Err(Failure(format!("cargo does not say how it starts the build script of {APP}")))
    }

    /// Cold, then warm, then with images in the cache and no rehearsals, each into an output folder
    /// of its own.
    pub(super) fn measure(&self, toolkit: &Variables) -> Result<Vec<Value>, Failure> {
        let folder =
            tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let cache = folder.path().join("cache");
        let run = |name, more| self.run(&folder.path().join(name), &cache, toolkit, more);
        let cold = run("cold", "")?;
        let warm = run("warm", "")?;
        // A variable that is in the key of a rehearsal, and in none of an image's.
        let rehearsed = run("rehearsed", "DEP_CUTILE_BENCH=1")?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(figures(&cold, &warm, &rehearsed, cores))
    }

    fn run(
        &self,
        out_dir: &Path,
        cache: &Path,
        toolkit: &Variables,
        more: &str,
    ) -> Result<Run, Failure> {
        let failed = |error: std::io::Error| Failure(format!("the build script: {error}"));
        let events = out_dir.with_extension("events");
        std::fs::create_dir_all(out_dir).map_err(failed)?;
        cutile_build::events::make_folder(&events, false).map_err(failed)?;
        // `times` is the shell's own and its children's, in this order.
        let line = format!(
            "{} {more} OUT_DIR={} CUTILE_BUILD_CACHE={} CUTILE_BUILD_EVENTS={} {NO_JOBSERVER} {} >&2 \
             || exit; times",
            self.variables,
            quoted(out_dir),
            quoted(cache),
            quoted(&events),
            self.program
        );
        let mut command = Command::new("sh");
        command.arg("-c").arg(line).stdin(Stdio::null()).stderr(Stdio::null());
        for (name, value) in toolkit {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdout(Stdio::piped());
        let busy = busy_seconds();
        let start = Instant::now();
        let child = command.spawn().map_err(failed)?;
        let (output, peak) = watched(child).map_err(failed)?;
        let wall = start.elapsed().as_secs_f64();
        if !output.status.success() {
            return Err(Failure(format!("the build script, run by itself: {}", output.status)));
        }
        let processor = children_seconds(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| Failure("the shell does not say what its children took".into()))?;
        let others = busy_seconds().zip(busy).map(|(after, before)| after - before - processor);
        Ok(Run { wall, processor, others, jobs: Jobs::of(&events), peak })
    }
}

/// What the files of a run say of its jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Jobs {
    /// Digests.
    pub(super) all: BTreeSet<String>,
    pub(super) compiled: usize,
    pub(super) cached: usize,
}

impl Jobs {
    pub(super) fn of(events: &Path) -> Self {
        use cutile_build::events::{Event, JobOutcome, Line};
        let files = std::fs::read_dir(events).into_iter().flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let mut jobs = Self::default();
        for text in texts {
            for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
                let Event::JobEnded { job, outcome, .. } = line.event else { continue };
                jobs.all.insert(job);
                match outcome {
                    JobOutcome::Compiled { .. } => jobs.compiled += 1,
                    JobOutcome::Cached { .. } => jobs.cached += 1,
                    _ => {}
                }
            }
        }
        jobs
    }
}

fn figures(cold: &Run, warm: &Run, rehearsed: &Run, cores: usize) -> Vec<Value> {
    // On a machine with other work, what that took is not there to be used.
    let ideal = (cold.processor + cold.others.unwrap_or(0.0).max(0.0)) / cores as f64;
    let ratio = cold.wall / ideal;
    let others = |run: &Run| match run.others {
        Some(others) => format!("; others took {:.1} s of processor time", others.max(0.0)),
        None => String::new(),
    };
    let jobs = format!(
        "{} jobs on {cores} cores, {:.1} s of processor time{}, which the ideal counts",
        cold.jobs.compiled,
        cold.processor,
        others(cold)
    );
    let share = rehearsed.processor / cold.processor;
    let warm_ratio = warm.wall / cold.wall;
    let per_process = cold.peak.largest as f64 / 1e6;
    let in_all = cold.peak.in_all as f64 / 1e6;
    vec![
        figure("cold-build", [cold.wall, ideal, ratio], "s", "<= 1.15", ratio <= 1.15, &jobs),
        figure(
            "rehearsal-share",
            [rehearsed.processor, cold.processor, share],
            "s",
            "reported",
            true,
            "processor time of a build that finds every image in its cache and no rehearsal, beside a \
             cold one",
        ),
        figure(
            "warm-build",
            [warm.wall, cold.wall, warm_ratio],
            "s",
            "<= 0.1, 0 tileiras processes",
            warm_ratio <= 0.1 && warm.jobs.compiled == 0,
            &format!(
                "{} tileiras processes, {} images from the cache{}",
                warm.jobs.compiled,
                warm.jobs.cached,
                others(warm)
            ),
        ),
        figure(
            "peak-memory",
            [per_process, in_all, f64::NAN],
            "MB",
            "documented",
            true,
            "largest process of a cold build, and all of them at one time",
        ),
    ]
}

/// A figure: ours, theirs, their ratio.
pub(super) fn figure(
    name: &str,
    [ours, theirs, ratio]: [f64; 3],
    unit: &str,
    bar: &str,
    met: bool,
    note: &str,
) -> Value {
    json!({
        "name": name, "ours": ours, "theirs": theirs, "ratio": ratio, "unit": unit,
        "bar": bar, "met": met, "note": note,
    })
}

/// The line of `cargo build -vv` that starts the script of the app.
fn of_output(said: &str) -> Option<BuildScript> {
    let mut lines = said.lines().filter_map(|line| {
        line.trim().strip_prefix("Running `")?.strip_suffix("/build-script-build`")
    });
    let line = lines.rfind(|line| line.contains(&format!("CARGO_PKG_NAME={APP} ")))?;
    let (variables, folder) = line.rsplit_once(' ')?;
    Some(BuildScript {
        variables: variables.to_owned(),
        program: format!("{folder}/build-script-build"),
    })
}

pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// Processor time of everything on the machine since it started, in seconds, as Linux counts it.
fn busy_seconds() -> Option<f64> {
    busy_of(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// Its first line: user, nice, system, idle, waiting, interrupts, in hundredths of a second.
fn busy_of(stat: &str) -> Option<f64> {
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let numbers: Vec<u64> = numbers.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, _, _, hard, soft, ..] = numbers[..] else { return None };
    Some((user + nice + system + hard + soft) as f64 / 100.0)
}

/// The second line of what the shell's `times` prints, in seconds: `1m2.345s 0m6.789s`.
fn children_seconds(times: &str) -> Option<f64> {
    let line = times.lines().filter(|line| !line.trim().is_empty()).nth(1)?;
    line.split_whitespace().try_fold(0.0, |sum, word| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(sum + minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_app_is_found_among_others() {
        let said = "     Running `CARGO_PKG_NAME=other OUT_DIR=/o /t/build/other-1/build-script-build`\n\
                    \x20    Running `CARGO_PKG_NAME=example-app DEBUG='a b' /t/build/app-1/build-script-build`\n\
                    \x20    Running `CARGO_PKG_NAME=example-app /bin/rustc --crate-name app`";
        let found = of_output(said).unwrap();
        assert_eq!(found.variables, "CARGO_PKG_NAME=example-app DEBUG='a b'");
        assert_eq!(found.program, "/t/build/app-1/build-script-build");
        assert!(of_output("     Finished `release`").is_none());
    }

    #[test]
    fn what_the_shell_says_of_its_children_is_added_up() {
        assert_eq!(children_seconds("0m0.00s 0m0.01s\n1m2.500s 0m1.25s\n"), Some(63.75));
        assert_eq!(children_seconds("0m0.00s 0m0.01s\n"), None);
        assert_eq!(children_seconds("a\nb c\n"), None);
    }

    #[test]
    fn the_time_of_the_machine_is_read() {
        assert_eq!(busy_of("cpu  100 20 30 9999 5 10 40 0 0 0\ncpu0 1 2\n"), Some(2.0));
        assert_eq!(busy_of("cpu  100 20\n"), None);
        assert_eq!(busy_of(""), None);
    }

    #[test]
    fn figures_say_what_is_met() {
        let peak = Peak { largest: 200_000_000, in_all: 500_000_000 };
        let others = Some(0.5);
        let jobs = |compiled| Jobs { compiled, cached: 8 - compiled, ..Jobs::default() };
        let cold = Run { wall: 11.0, processor: 20.0, others, jobs: jobs(8), peak };
        let warm = Run { wall: 1.0, processor: 2.0, others, jobs: jobs(0), peak };
        let met = |figures: Vec<Value>| -> Vec<bool> {
            figures.iter().map(|figure| figure["met"].as_bool().unwrap()).collect()
        };
        assert_eq!(met(figures(&cold, &warm, &warm, 2)), [true, true, true, true]);
        let again = Run { jobs: jobs(1), ..warm.clone() };
        assert_eq!(met(figures(&cold, &again, &warm, 4)), [false, true, false, true]);
    }
}
