//! `cargo cutile bench --json`: every figure of this workspace, a line of JSON each.
//!
//! | figures | from |
//! |---|---|
//! | run time, `size`, `decode` | `example-app bench --json`, of a release build |
//! | `lookup-10000`, `install-no-gpu`, `other-targets` | tests of `cutile-embed` that count |
//! | `cold-build`, `rehearsal-share`, `warm-build`, `peak-memory` | the build script of `example-app`, run by itself: nothing of rustc is in it |
//! | `no-op-build` | what cargo says that it runs |
//! | `one-kernel-edited` | a copy of `example-app` below the target folder, built, edited and built again |
//!
//! Without `--json` the command is cargo's own `bench`.

mod build_script;
mod edited;
mod memory;

use crate::args::Cli;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{self, print};
use crate::run_cargo::toolkit_for;
use crate::workspace::DotCutile;
use build_script::BuildScript;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

/// The package that is measured.
const APP: &str = "example-app";

/// Whether these arguments of cargo are for this command: cargo's `bench` has no `--json`.
pub(crate) fn is_ours(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().take_while(|word| *word != "--");
    words.next().is_some_and(|name| name == "bench") && words.any(|word| word == "--json")
}

/// What may follow `bench --json`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    rounds: Option<String>,
    /// Only figures whose name contains one of these.
    only: Vec<String>,
}

impl Asked {
    fn of(arguments: &[OsString]) -> Result<Self, Failure> {
        let mut asked = Self::default();
        let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| Failure(format!("{word} takes a value")));
            match word.as_str() {
                "--json" => {}
                "--rounds" => asked.rounds = Some(value()?),
                "--only" => asked.only.push(value()?),
                other => {
                    return Err(Failure(format!(
                        "unknown option {other} of bench --json; it takes --rounds N and --only \
                         NAME"
                    )));
                }
            }
        }
        Ok(asked)
    }

    fn wants(&self, names: &[&str]) -> bool {
        self.only.is_empty()
            || self.only.iter().any(|only| names.iter().any(|name| name.contains(&**only)))
    }
}

pub(crate) fn run(
    cli: &Cli,
    arguments: &[OsString],
    environ: &Environ,
) -> Result<ExitCode, Failure> {
    let asked = Asked::of(arguments)?;
    let cutile = Cutile::new()?;
    let toolkit = || -> Result<_, Failure> {
        let dot = DotCutile::locate(environ, None)?;
        let found = toolkit_for(environ, &dot, cli.offline || environ.offline())?;
        Ok((dot, found.publish()?))
    };
    if asked.wants(&RUN_TIME) {
        let counted = cutile.test("", &["--test", "allocations", "--lib"], "10_000");
        for mut figure in cutile.app(&asked)? {
            if figure["name"] == "lookup-10000" {
                figure["met"] = counted.into();
            }
            show(&asked, &figure)?;
        }
    }
    for (name, target, bar, what) in COUNTED {
        if asked.wants(&[name]) {
            let met = cutile.test(target, &["--test", "install_counts"], what);
            let ours = if met { json!(0) } else { Value::Null };
            show(&asked, &counted(name, ours, bar, met, what))?;
        }
    }
    if asked.wants(&BUILD_TIME) {
        let measured = || BuildScript::find(&cutile)?.measure(&toolkit()?.1);
        match measured() {
            Ok(figures) => figures.iter().try_for_each(|figure| show(&asked, figure))?,
            Err(Failure(why)) => {
                for name in BUILD_TIME {
                    show(&asked, &none(name, &why))?;
                }
            }
        }
    }
    if asked.wants(&["no-op-build"]) {
        show(&asked, &cutile.no_op()?)?;
    }
    if asked.wants(&[EDITED]) {
        let measured = || {
            let (dot, variables) = toolkit()?;
            edited::measure(environ, dot.workspace(), &variables)
        };
        let figure = measured().unwrap_or_else(|Failure(why)| none(EDITED, &why));
        show(&asked, &figure)?;
    }
    Ok(ExitCode::SUCCESS)
}

const RUN_TIME: [&str; 9] = [
    "first-launch-vs-raw",
    "first-launch-vs-disk",
    "first-launch-vs-jit",
    "install-1000-vs-raw",
    "steady-launch",
    "lookup-10000",
    "device-memory-1000",
    "size",
    "decode",
];

const BUILD_TIME: [&str; 4] = ["cold-build", "rehearsal-share", "warm-build", "peak-memory"];

/// Name, target of the virtual GPU or nothing for none, bar, the test that counts.
const COUNTED: [(&str, &str, &str, &str); 2] = [
    (
        "install-no-gpu",
        "",
        "0 files opened, 0 bytes hashed beyond the index, 0 image pages touched",
        "without_a_gpu_no_file_is_opened_and_no_pack_is_touched",
    ),
    (
        "other-targets",
        "sm_90",
        "0 pages touched",
        "packs_of_targets_that_are_not_on_the_machine_are_not_touched",
    ),
];

const EDITED: &str = "one-kernel-edited";

fn counted(name: &str, ours: Value, bar: &str, met: bool, test: &str) -> Value {
    json!({
        "name": name, "ours": ours, "theirs": null, "ratio": null, "unit": "count",
        "bar": bar, "met": met, "note": format!("counted by the test {test}"),
    })
}

/// A figure that cannot be had, and why.
fn none(name: &str, why: &str) -> Value {
    json!({
        "name": name, "ours": null, "theirs": null, "ratio": null, "unit": null,
        "bar": null, "met": null, "note": why,
    })
}

fn show(asked: &Asked, figure: &Value) -> Result<(), Failure> {
    if asked.wants(&[figure["name"].as_str().unwrap_or_default()]) {
        print(&format!("{figure}\n"))?;
    }
    Ok(())
}

/// This program, called again for a cargo command: with the toolkit, and on a virtual GPU where asked.
#[derive(Debug)]
struct Cutile {
    program: std::path::PathBuf,
}

impl Cutile {
    fn new() -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure(format!("this program does not know where it is: {error}")))?;
        Ok(Self { program })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("cutile").args(arguments).stdin(Stdio::null());
        command
    }

    /// What a command prints, on both streams; what it says on stderr is passed on.
    fn output(&self, arguments: &[&str]) -> Result<(String, String), Failure> {
        let failed = |what: &str| Failure(format!("cargo cutile {}: {what}", arguments.join(" ")));
        let output =
            self.command(arguments).output().map_err(|error| failed(&error.to_string()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        if output.status.success() {
            return Ok((stdout, stderr));
        }
        output::to_stderr(&stderr);
        Err(failed(&output.status.to_string()))
    }

    /// The figures of the app.
    fn app(&self, asked: &Asked) -> Result<Vec<Value>, Failure> {
        let mut arguments = vec!["run", "--release", "-p", APP, "--", "bench", "--json"];
        if let Some(rounds) = &asked.rounds {
            arguments.extend(["--rounds", rounds]);
        }
        let (stdout, _) = self.output(&arguments)?;
        Ok(stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Whether tests of the runtime crate with this in their names hold, and there are some.
    fn test(&self, target: &str, which: &[&str], name: &str) -> bool {
        let mut arguments = Vec::new();
        if !target.is_empty() {
            arguments.extend(["--virtual-gpu", target]);
        }
        arguments.extend(["test", "-p", "cutile-embed"]);
        arguments.extend(which);
        arguments.extend(["--", name]);
        self.output(&arguments).is_ok_and(|(stdout, _)| {
            stdout.lines().any(|line| line.starts_with("test ") && line.ends_with("... ok"))
        })
    }

    /// What a build does that has nothing to do.
    fn no_op(&self) -> Result<Value, Failure> {
        let build = ["build", "--release", "-p", APP, "-v"];
        self.output(&build)?;
        let (_, said) = self.output(&build)?;
        let run = scripts_run(&said);
        Ok(json!({
            "name": "no-op-build", "ours": run, "theirs": null, "ratio": null, "unit": "count",
            "bar": "0 build scripts run", "met": run == 0, "note": "as cargo build -v says",
        }))
    }
}

/// Build scripts that cargo says it runs.
fn scripts_run(said: &str) -> usize {
    let running = said.lines().filter(|line| line.trim_start().starts_with("Running `"));
    running.filter(|line| line.trim_end().ends_with("build-script-build`")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn bench_with_json_is_ours_and_any_other_is_cargos() {
        assert!(is_ours(&words("bench --json")));
        assert!(is_ours(&words("bench --rounds 3 --json")));
        for line in ["bench", "bench -p a -- --json", "test --json", "--json bench"] {
            assert!(!is_ours(&words(line)), "{line}");
        }
    }

    #[test]
    fn what_it_takes_is_checked() {
        let asked = Asked::of(&words("bench --json --rounds 3 --only size --only launch")).unwrap();
        assert_eq!(asked.rounds.as_deref(), Some("3"));
        assert!(asked.wants(&["size"]) && asked.wants(&["steady-launch"]));
        assert!(!asked.wants(&["decode", "cold-build"]));
        for line in ["bench --json --rounds", "bench --json -p a"] {
            assert!(Asked::of(&words(line)).is_err(), "{line}");
        }
    }

    #[test]
    fn build_scripts_that_run_are_counted() {
        let said = "       Fresh a v1.0.0\n     Running `/t/release/build/app-1/build-script-build`\n\
                    \x20    Running `/bin/rustc --crate-name build_script_build`\n    Finished `release`";
        assert_eq!(scripts_run(said), 1);
    }

    #[test]
    fn every_line_has_the_same_keys() {
        let keys = |value: &Value| {
            value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        let one = none("size", "why");
        assert_eq!(keys(&counted("other-targets", json!(0), "0", true, "a_test")), keys(&one));
        assert_eq!(keys(&build_script::figure("a", [1.0; 3], "s", "<= 1", true, "")), keys(&one));
    }
}
