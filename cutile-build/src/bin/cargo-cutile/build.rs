//! A cargo command that compiles kernels, watched: the live bar, a line in the end, `--report`.
//!
//! Build scripts tell what they do over [`cutile_build::events`]. That channel changes nothing that
//! is built: cargo does not look at its variable, and nothing is built anew for it.

use crate::bar::Bar;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::journal::{Journal, Script, unix_ms};
use crate::output::{Paint, clean, count, say, size, wrap};
use crate::report::{Report, ReportFile};
use crate::run_cargo::{code, not_run};
use crate::signals::Signals;
use crate::virtual_gpu::RunArguments;
use cutile_build::events::EVENTS_ENV;
use rustix::process::Pid;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often is looked for what is new.
const EVERY: Duration = Duration::from_millis(100);

/// Commands of cargo that compile, and end when that is done.
const BUILDS: [&str; 9] = ["b", "build", "c", "check", "clippy", "d", "doc", "fix", "rustc"];
/// Those that run what they compiled.
const RUNS: [&str; 5] = ["bench", "r", "run", "t", "test"];
/// Those that make a program to keep. What they run would see the variables of the build.
const MAKES: [&str; 3] = ["b", "build", "rustc"];

/// The arguments of a cargo command, without what is for this program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The command and its arguments, for cargo.
    pub(crate) arguments: Vec<OsString>,
    /// `--report`.
    pub(crate) report: Option<PathBuf>,
    /// `--reproducible`.
    pub(crate) reproducible: bool,
    /// `--target-dir`, which a reproducible build does not leave to cargo.
    pub(crate) target_dir: Option<PathBuf>,
}

impl Asked {
    /// Takes `--report FILE` and `--reproducible` out, wherever they stand before `--`. `compiles` is
    /// whether the command can compile anything. A command that is not cargo's own has its own
    /// options.
    pub(crate) fn of(arguments: &[OsString], compiles: bool) -> Result<Self, Failure> {
        let command = arguments.first().and_then(|name| name.to_str()).unwrap_or_default();
        let ours = BUILDS.contains(&command) || RUNS.contains(&command);
        let mut asked =
            Self { arguments: Vec::new(), report: None, reproducible: false, target_dir: None };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let value = match argument.to_str() {
                Some("--") => {
                    asked.arguments.push(argument.clone());
                    asked.arguments.extend(rest.by_ref().cloned());
                    break;
                }
                Some("--reproducible") if MAKES.contains(&command) => {
                    asked.reproducible = true;
                    continue;
                }
                Some("--reproducible") if ours || !compiles => return Err(makes_nothing(command)),
                Some("--report") if ours => rest.next().map(OsString::as_os_str),
                Some("--report") if !compiles => return Err(wrong_command(command)),
                Some(text) if ours && text.starts_with("--report=") => {
                    text.strip_prefix("--report=").map(OsStr::new)
                }
                _ => {
                    asked.arguments.push(argument.clone());
                    continue;
                }
            };
            let is_file = |value: &&OsStr| !value.is_empty() && !starts_with_dash(value);
            let Some(file) = value.filter(is_file) else {
                return Err(format!(
                    "--report needs the file to write, as in cargo cutile {command} --report \
                     kernels.html"
                )
                .into());
            };
            if asked.report.replace(file.into()).is_some() {
                return Err("--report stands twice; one report is written".into());
            }
        }
        if asked.reproducible {
            asked.take_target_dir()?;
        }
        Ok(asked)
    }

    /// Of cargo's own options the one that goes before its variable.
    fn take_target_dir(&mut self) -> Result<(), Failure> {
        const OPTION: &str = "--target-dir";
        let is_it = |word: &OsString| {
            let value = word.as_encoded_bytes().strip_prefix(OPTION.as_bytes());
            value.is_some_and(|value| value.is_empty() || value.starts_with(b"="))
        };
        let own = self.arguments.iter().position(|word| word == "--");
        let own = own.unwrap_or(self.arguments.len());
        let Some(at) = self.arguments[..own].iter().position(is_it) else { return Ok(()) };
        let word = self.arguments.remove(at);
        let value = match word.to_str().and_then(|word| word.split_once('=')) {
            Some((_, value)) => value.into(),
            None if at + 1 < own && word == OPTION => self.arguments.remove(at),
            None => return Err("--target-dir needs a folder, in UTF-8 behind a =".into()),
        };
        self.target_dir = Some(value.into());
        Ok(())
    }
}

/// It is an option, then; a file of such a name is `./-name`.
fn starts_with_dash(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"-")
}

fn wrong_command(command: &str) -> Failure {
    Failure(format!(
        "--report goes with a command that compiles, as in cargo cutile build --report \
         kernels.html; cargo {command} compiles no kernels"
    ))
}

fn makes_nothing(command: &str) -> Failure {
    Failure(format!(
        "--reproducible goes with a command that makes a program, as in cargo cutile build \
         --release --reproducible; cargo {command} makes none to keep"
    ))
}

/// A cargo command that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    bar: Option<Bar>,
    report: Option<ReportFile>,
    /// As it was written, for the report.
    command: Vec<OsString>,
    /// Whether a line is printed for each crate with kernels in the end.
    sums_up: bool,
}

impl Watch {
    /// None where there is nothing to show: such a command is better replaced by cargo.
    pub(crate) fn wanted(asked: &Asked, environ: &Environ) -> Result<Option<Self>, Failure> {
        let command = asked.arguments.first().and_then(|name| name.to_str()).unwrap_or_default();
        let builds = BUILDS.contains(&command);
        if !builds && !RUNS.contains(&command) {
            return Ok(None);
        }
        let quiet = asked.arguments.iter().any(|word| word == "-q" || word == "--quiet");
        let watch = Self {
            bar: Bar::wanted(environ, &asked.arguments),
            report: asked.report.as_deref().map(ReportFile::at).transpose()?,
            command: asked.arguments.clone(),
            // What a program printed is what one wants to see last.
            sums_up: builds && !quiet,
        };
        let shows = watch.bar.is_some() || watch.report.is_some() || watch.sums_up;
        Ok(shows.then_some(watch))
    }

    /// Runs cargo, and says what came of the kernels, whether it worked or not.
    pub(crate) fn run(self, cargo: &mut Command, environ: &Environ) -> Result<ExitCode, Failure> {
        let Self { mut bar, report, command, sums_up } = self;
        // Before it is started, so that no signal is lost.
        let opened = Journal::open(bar.is_some()).and_then(|journal| {
            let signals = Signals::catch();
            Ok((journal, signals.map_err(|error| format!("no signal can be caught: {error}"))?))
        });
        let (mut journal, signals) = match opened {
            Ok(opened) => opened,
            Err(failure) if report.is_some() => return Err(failure),
            // To show a build is not worth a build.
            Err(failure) => {
                say!("warning: no progress of kernels is shown: {failure}");
                return cargo.status().map(code).map_err(|error| not_run(environ, &error));
            }
        };
        cargo.env(EVENTS_ENV, journal.folder());
        let (began, start) = (unix_ms(), Instant::now());
        let mut child = cargo.spawn().map_err(|error| not_run(environ, &error))?;
        let status = watch(&mut child, &signals, &mut journal, bar.as_mut());
        drop(bar);
        let status = status.map_err(|error| format!("cargo cannot be waited for: {error}"))?;
        if status.signal().is_some() && io::stderr().is_terminal() {
            // Cargo left what it had drawn, and the cursor at its start.
            say!("");
        }
        journal.close(unix_ms());
        let scripts = journal.scripts();
        if sums_up {
            let paint = Paint::for_stderr(environ);
            scripts.iter().filter_map(|script| sum(script, paint)).for_each(|line| {
                say!("{line}");
            });
        }
        if let Some(file) = report {
            let its = RunArguments::of(&command);
            file.write(&Report {
                command: &command,
                began,
                took: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
                status,
                idle: idle_packages(environ, &its, &scripts),
                scripts: &scripts,
            })?;
        }
        Ok(code(status))
    }
}

/// Waits for cargo and shows how far the kernels are.
fn watch(
    child: &mut Child,
    signals: &Signals,
    journal: &mut Journal,
    mut bar: Option<&mut Bar>,
) -> io::Result<ExitStatus> {
    let cargo = Pid::from_child(child);
    let (running, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                signals.hand_on(cargo);
                if let Some(bar) = &mut bar {
                    journal.read();
                    bar.show(&journal.scripts(), unix_ms());
                }
            }
        });
        let status = child.wait();
        drop(running);
        status
    })
}

/// A line for a crate with kernels; `None` where it got no bundle, which cargo tells of.
fn sum(script: &Script, paint: Paint) -> Option<String> {
    let bundle = script.bundle.filter(|_| !script.targets.is_empty())?;
    let cached = match script.hits() {
        0 => String::new(),
        hits => format!(", {hits} from the build cache"),
    };
    let text = format!(
        "{}: {}, {}, for {} in {:.1} s; tileiras ran {}{cached}",
        clean(&script.package),
        count(bundle.images, "image"),
        size(bundle.bytes),
        targets(script),
        script.end() as f64 / 1000.0,
        count(script.processes(), "time"),
    );
    let head = format!("{:>12}", "Kernels");
    let mut lines = String::new();
    wrap(&mut lines, &head, head.len() + 1, &text);
    // Painted afterwards, so that the columns are counted without.
    Some(format!("{}{}", paint.bold_green(&head), lines[head.len()..].trim_end()))
}

fn targets(script: &Script) -> String {
    match &script.targets[..] {
        names @ ([_] | [_, _] | [_, _, _]) => clean(&names.join(", ")),
        names => count(names.len(), "target"),
    }
}

/// Packages of the workspace that compile kernels in their build script, which did not run.
fn idle_packages(environ: &Environ, its: &RunArguments, scripts: &[&Script]) -> Vec<String> {
    let mut command = cargo_metadata::MetadataCommand::new();
    command.cargo_path(environ.cargo()).no_deps().other_options(["--offline".to_owned()]);
    if let Some(manifest) = &its.manifest {
        command.manifest_path(manifest);
    }
    // It is one sentence of the report.
    let Ok(metadata) = command.exec() else { return Vec::new() };
    metadata
        .packages
        .iter()
        .filter(|package| {
            package.dependencies.iter().any(|dependency| {
                dependency.name == "cutile-build"
                    && dependency.kind == cargo_metadata::DependencyKind::Build
            })
        })
        .map(|package| package.name.to_string())
        .filter(|name| its.package.as_ref().is_none_or(|asked| asked == OsStr::new(name)))
        .filter(|name| scripts.iter().all(|script| script.package != *name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::script_of as script;
    use cutile_build::events::{Event, JobOutcome};

    fn asked(words: &str) -> Result<(String, Option<PathBuf>), String> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let compiles = words[0] != "fmt";
        let asked = Asked::of(&words, compiles).map_err(|failure| failure.to_string())?;
        let arguments = asked.arguments.join(OsStr::new(" "));
        Ok((arguments.into_string().unwrap(), asked.report))
    }

    #[test]
    fn the_report_may_stand_anywhere_before_the_programs_arguments() {
        let file = || Some(PathBuf::from("a.html"));
        for (words, cargo) in [
            ("build --report a.html", "build"),
            ("build --report=a.html -p app", "build -p app"),
            ("b -p app --report a.html --release", "b -p app --release"),
            ("run --report a.html -- --report b", "run -- --report b"),
            ("test --release --report a.html -- --nocapture", "test --release -- --nocapture"),
        ] {
            assert_eq!(asked(words), Ok((cargo.to_owned(), file())), "{words}");
        }
        for words in ["build", "run -- --report b", "nextest --report x", "build --reports x"] {
            assert_eq!(asked(words), Ok((words.to_owned(), None)), "{words}");
        }
    }

    #[test]
    fn a_report_without_a_file_or_in_a_wrong_place_says_what_to_write() {
        for words in ["build --report", "build --report=", "build --report --release"] {
            let error = asked(words).unwrap_err();
            assert!(error.contains("cargo cutile build --report kernels.html"), "{error}");
        }
        assert!(asked("run --report -- a.html").unwrap_err().contains("needs the file"));
        assert!(asked("build --report a --report b").unwrap_err().contains("twice"));
        assert!(asked("fmt --report a").unwrap_err().contains("cargo fmt compiles no kernels"));
    }

    #[test]
    fn a_reproducible_build_is_asked_for_with_what_makes_a_program() {
        let asked = |words: &str| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            let asked = Asked::of(&words, words[0] != "fmt").map_err(|failure| failure.to_string());
            asked.map(|asked| {
                let arguments = asked.arguments.join(OsStr::new(" ")).into_string().unwrap();
                (arguments, asked.reproducible, asked.target_dir)
            })
        };
        let dir = || Some(PathBuf::from("t"));
        for (words, cargo, reproducible, target_dir) in [
            ("build --reproducible -p app", "build -p app", true, None),
            ("b --target-dir t --reproducible -r", "b -r", true, dir()),
            ("rustc --reproducible --target-dir=t -- a", "rustc -- a", true, dir()),
            ("rustc --reproducible -- --target-dir t", "rustc -- --target-dir t", true, None),
            ("run -- --reproducible", "run -- --reproducible", false, None),
            ("build --target-dir t", "build --target-dir t", false, None),
            // Not cargo's own.
            ("nextest --reproducible", "nextest --reproducible", false, None),
        ] {
            assert_eq!(asked(words), Ok((cargo.to_owned(), reproducible, target_dir)), "{words}");
        }
        for words in ["run --reproducible", "check --reproducible", "fmt --reproducible"] {
            let error = asked(words).unwrap_err();
            assert!(error.contains("cargo cutile build --release --reproducible"), "{error}");
        }
        for words in ["build --reproducible --target-dir", "b --reproducible --target-dir -- x"] {
            assert!(asked(words).unwrap_err().contains("--target-dir needs a folder"), "{words}");
        }
    }

    #[test]
    fn a_line_sums_a_crate_up() {
        let begin = Event::Script { package: "app".into(), version: "1.0.0".into(), unix_ms: 0 };
        let bundle = Event::Bundle { specializations: 1, images: 2, bytes: 12_345, shaders: 0 };
        let mut lines =
            vec![(0, begin), (0, Event::Targets { targets: vec!["sm_80".into(), "sm_90".into()] })];
        let without = Paint::for_stderr(&Environ::of(&[("NO_COLOR", "1")]));
        assert_eq!(sum(&script(lines.clone()), without), None);
        for (job, target) in [("a", "sm_80"), ("b", "sm_90")] {
            lines.push((1, Event::JobQueued { job: job.into(), target: target.into() }));
        }
        lines.push((2, Event::JobStarted { job: "a".into(), slot: 0 }));
        let outcome = JobOutcome::Cached { bytes: 1 };
        lines.push((3, Event::JobEnded { job: "b".into(), slot: 0, outcome }));
        lines.extend([(12_300, bundle), (12_340, Event::ScriptEnded { error: None })]);
        assert_eq!(
            sum(&script(lines), without).unwrap(),
            "     Kernels app: 2 images, 12.3 kB, for sm_80, sm_90 in 12.3 s; tileiras ran 1\n             \
             time, 1 from the build cache"
        );
    }
}
