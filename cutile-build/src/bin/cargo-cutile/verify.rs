//! `cargo cutile verify`: whether all that is embedded is whole and what it claims to be.

use crate::embedded::check::{Checked, Problem, Verdict, check};
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{self, Paint, clean, count, wrap};
use crate::progress::Progress;
use crate::subject;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Checked are: every digest; the header of every entry against its row; that
each cubin is whole, for the architecture it claims, and has the entry symbol
of each row; index against manifest; that each row has an entry and each entry
a row; shaders and their keys. It finds damage and mix-ups. It does not tell
who made a file.

Examples:
  cargo cutile verify target/release/app
  cargo cutile verify app --json | jq '.problems[].kernel'

Exit code: 0 all holds, 1 something does not, 2 the file cannot be read, or
nothing is embedded in it.

Keys of --json (schema 1): file, ok, bundles[] {package, version, skipped,
rows, entries, problems}, problems[] {package, kernel, target, offset, what}.
What belongs to no bundle has package null; bundles[].problems is a number.";

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Verify {
    /// The program, library or archive
    file: PathBuf,

    /// For a program to read
    #[arg(long)]
    json: bool,
}

/// The exit code where nothing can be said.
pub(crate) const TROUBLE: u8 = 2;

pub(crate) fn run(arguments: &Verify, environ: &Environ) -> Result<ExitCode, Failure> {
    let Verify { file, json } = arguments;
    let verdict = match verdict(file) {
        Ok(verdict) => verdict,
        Err(failure) => {
            eprintln!("error: {failure}");
            return Ok(ExitCode::from(TROUBLE));
        }
    };
    if *json {
        output::print_json(&value(file, &verdict))?;
    } else {
        output::print(&text(file, &verdict, Paint::for_stdout(environ)))?;
    }
    Ok(if verdict.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verdict(file: &Path) -> Result<Verdict, Failure> {
    let bytes = subject::read(file)?;
    let embedded = subject::embedded(file, &bytes)?;
    let mut progress = Progress::of("checked");
    Ok(check(&embedded, &mut |done, all| progress.step(done, all)))
}

fn text(file: &Path, verdict: &Verdict, paint: Paint) -> String {
    let mut out = String::new();
    for checked in &verdict.bundles {
        let Checked { package, skipped, rows, entries, problems } = checked;
        let counted = format!("{}, {}", count(*rows, "row"), entries_text(*entries));
        let outcome = match problems.as_slice() {
            [] => paint.green("all holds"),
            problems => paint.red(&count(problems.len(), "problem")),
        };
        let (name, version) = (clean(&package.name), clean(&package.version));
        let title = paint.bold(&format!("{name} {version}"));
        let _ = writeln!(out, "{title}: {counted}: {outcome}");
        if let Some(reason) = skipped {
            wrap(&mut out, "  ", 2, &format!("nothing was built: {}", clean(reason)));
        }
        problems.iter().for_each(|problem| one(&mut out, problem));
    }
    if !verdict.unreadable.is_empty() {
        let _ = writeln!(out, "{}", paint.red("cannot be read, and so belongs to no bundle"));
        verdict.unreadable.iter().for_each(|problem| one(&mut out, problem));
    }
    if !verdict.is_whole() {
        out.push('\n');
        let text = format!(
            "{} in {}: it is damaged, or not what was built. Build it again, or take it from where \
             it was released; `cargo cutile inspect` shows what it has.",
            count(verdict.problems().count(), "problem"),
            file.display()
        );
        wrap(&mut out, "", 0, &text);
    }
    out
}

fn entries_text(entries: usize) -> String {
    format!("{entries} {}", if entries == 1 { "entry" } else { "entries" })
}

fn one(out: &mut String, problem: &Problem) {
    let Problem { kernel, target, offset, what, .. } = problem;
    let mut place: Vec<String> = Vec::new();
    place.extend(kernel.as_deref().map(clean));
    place.extend(target.as_deref().map(|target| format!("for {}", clean(target))));
    let mut place = place.join(" ");
    if let Some(offset) = offset {
        let comma = if place.is_empty() { "" } else { ", " };
        place.push_str(&format!("{comma}at {offset:#x}"));
    }
    let indent = if place.is_empty() { 2 } else { 4 };
    if !place.is_empty() {
        wrap(out, "  ", 2, &place);
    }
    wrap(out, "", indent, &clean(what));
}

fn value(file: &Path, verdict: &Verdict) -> Value {
    let problem = |package: Option<&str>, problem: &Problem| {
        json!({
            "package": package,
            "kernel": problem.kernel,
            "target": problem.target,
            "offset": problem.offset,
            "what": problem.what,
        })
    };
    let bundles = verdict.bundles.iter().map(|checked| {
        json!({
            "package": checked.package.name,
            "version": checked.package.version,
            "skipped": checked.skipped,
            "rows": checked.rows,
            "entries": checked.entries,
            "problems": checked.problems.len(),
        })
    });
    let unreadable = verdict.unreadable.iter().map(|found| problem(None, found));
    let others = verdict.bundles.iter().flat_map(|checked| {
        checked.problems.iter().map(|found| problem(Some(&checked.package.name), found))
    });
    json!({
        "schema": 1,
        "file": file.display().to_string(),
        "ok": verdict.is_whole(),
        "bundles": bundles.collect::<Value>(),
        "problems": unreadable.chain(others).collect::<Value>(),
    })
}
