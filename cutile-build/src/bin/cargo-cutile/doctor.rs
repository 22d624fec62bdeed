//! `cargo cutile doctor`: what this machine has for cuTile kernels, and what to do about what it
//! has not.

mod cache;
mod devices;
mod driver;
mod tools;
mod variables;

use crate::choice::Choice;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{self, Paint, clean, wrap};
use crate::workspace::DotCutile;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Each line is ok, warn (something that may be needed is not there) or fail
(something is there and cannot be used), with what to do. Building needs the
toolkit and no GPU; running what is embedded needs the driver and no toolkit.

Examples:
  cargo cutile doctor
  cargo cutile doctor target/release/app
  cargo cutile doctor --strict --json | jq '.checks[] | select(.status != \"ok\")'

Exit code: 0; with --strict 1 where a line is fail.

Keys of --json (schema 1): ok, checks[] {status, name, found, advice}. advice
is null where nothing is to be done; ok is false where a status is fail.";

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Doctor {
    /// A program or library: are the GPUs here among its targets?
    binary: Option<PathBuf>,

    /// For a program to read
    #[arg(long)]
    json: bool,

    /// Exit with 1 where a line is fail
    #[arg(long)]
    strict: bool,

    /// Ask the driver in this process. The driver is other people's code: it may end it.
    #[arg(long, hide = true)]
    ask_driver: bool,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    Warn,
    Fail,
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) status: Status,
    pub(crate) name: String,
    pub(crate) found: String,
    pub(crate) advice: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &str, found: impl Into<String>) -> Self {
        Self { status: Status::Ok, name: name.into(), found: found.into(), advice: None }
    }

    pub(crate) fn warn(name: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { status: Status::Warn, name: name.into(), found: found.into(), advice }
    }

    pub(crate) fn fail(name: &str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Status::Fail, ..Self::warn(name, found, advice) }
    }
}

pub(crate) fn run(arguments: &Doctor, environ: &Environ) -> Result<ExitCode, Failure> {
    let Doctor { binary, json, strict, ask_driver } = arguments;
    if *ask_driver {
        return driver::answer();
    }
    let choice = Choice::of(environ, &DotCutile::here(environ)?);
    let mut checks = tools::check(&choice, environ);
    let driver = driver::ask();
    checks.extend(devices::check(&driver, choice.toolkit.is_ok(), binary.as_deref()));
    checks.extend(cache::check(environ));
    checks.extend(variables::check(choice.environ()));
    let ok = checks.iter().all(|check| check.status != Status::Fail);
    if *json {
        output::print_json(&json!({ "schema": 1, "ok": ok, "checks": checks }))?;
    } else {
        output::print(&text(&checks, Paint::for_stdout(environ)))?;
    }
    Ok(if *strict && !ok { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn text(checks: &[Check], paint: Paint) -> String {
    let mut out = String::new();
    for Check { status, name, found, advice } in checks {
        let word = match status {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "fail",
        };
        let mut line = String::new();
        wrap(&mut line, &format!("{word:<6}{}", clean(name)), 22, &clean(found));
        // Painted afterwards, so that the columns are counted without.
        let rest = line.split_off(word.len());
        out.push_str(&match status {
            Status::Ok => paint.green(&line),
            Status::Warn => paint.yellow(&line),
            Status::Fail => paint.red(&line),
        });
        out.push_str(&rest);
        if let Some(advice) = advice {
            wrap(&mut out, &format!("{:20}→", ""), 22, &clean(advice));
        }
    }
    out
}
