//! `cargo cutile verify`: whether all that is embedded is whole and what it claims to be; with
//! `--rebuild`, whether it is what the sources make.

mod against;
mod rebuild;

use crate::args::Cli;
use crate::embedded::bundle::Embedded;
use crate::embedded::check::{Checked, Problem, Verdict, check};
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{self, Paint, clean, count, wrap};
use crate::progress::Progress;
use crate::subject;
use against::{Against, Row, Side};
use clap::Args;
use rebuild::Rebuilt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Checked are: every digest; the header of every entry against its row; that
each cubin is whole, for the architecture it claims, and has the entry symbol
of each row; index against manifest; that each row has an entry and each entry
a row; shaders and their keys. It finds damage and mix-ups. It does not tell
who made a file, and nothing in a file confirms what the manifest alone says:
the toolkit's release, and what of a shader is for people to read.

With --rebuild also that it is what the sources make: the build scripts of its
packages, in the workspace that this is called in, run anew for the targets
and the debug level of the file, as with --reproducible, and every kernel is
compared. The toolkit has to be the one that the file was built with. What is
behind -- goes to cargo.

Examples:
  cargo cutile verify target/release/app
  cargo cutile verify app --json | jq '.problems[].kernel'
  cargo cutile verify app --rebuild
  cargo cutile verify app --rebuild -p app -- --features large

Exit code: 0 all holds, 1 something does not, 2 the file cannot be read, or
nothing is embedded in it, or it cannot be rebuilt.

Keys of --json (schema 1): file, ok, bundles[] {package, version, skipped,
rows, entries, problems}, problems[] {package, kernel, target, offset, what},
rebuilt[] {package, version, same, bytes, fields[] {field, a, b}, kernels[]
{kernel, words, status, why[], targets[]}, shaders[] {path, status, why}}.
What belongs to no bundle has package null; bundles[].problems is a number;
bytes is whether the parts are the same to the byte; a is in the file.";

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Verify {
    /// The program, library or archive
    file: PathBuf,

    /// For a program to read
    #[arg(long)]
    json: bool,

    /// Also compile the sources here, and compare
    #[arg(long)]
    rebuild: bool,

    /// Rebuild only this package; can be given again
    #[arg(short, long, value_name = "NAME", requires = "rebuild")]
    package: Vec<String>,

    /// Path of a Cargo.toml of the workspace
    #[arg(long, value_name = "PATH", requires = "rebuild")]
    manifest_path: Option<PathBuf>,

    /// For cargo build, as --features NAME
    #[arg(last = true, value_name = "ARGUMENTS", requires = "rebuild")]
    cargo: Vec<OsString>,
}

/// The exit code where nothing can be said.
pub(crate) const TROUBLE: u8 = 2;

pub(crate) fn run(cli: &Cli, asked: &Verify, environ: &Environ) -> Result<ExitCode, Failure> {
    match verify(cli, asked, environ) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(failure) => {
            output::say_error(&failure);
            Ok(ExitCode::from(TROUBLE))
        }
    }
}

fn verify(cli: &Cli, asked: &Verify, environ: &Environ) -> Result<bool, Failure> {
    let Verify { file, json, rebuild, .. } = asked;
    let bytes = subject::read(file)?;
    let embedded = subject::embedded(file, &bytes)?;
    let verdict = verdict(&embedded);
    let paint = Paint::for_stdout(environ);
    // What holds is worth to know, whatever comes of the rebuild.
    if !json {
        output::print(&text(file, &verdict, paint))?;
    }
    let rebuilt = match rebuild {
        true => rebuild::rebuild(&embedded, cli, asked, environ)?,
        false => Vec::new(),
    };
    let compared = |rebuilt: &Rebuilt<'_, '_>| {
        let Rebuilt { shipped, bytes: made, .. } = rebuilt;
        Against::of((*shipped, &bytes), (&Embedded::read(made), made))
    };
    let against: Vec<Against> = rebuilt.iter().map(compared).collect();
    if *json {
        let mut value = value(file, &verdict);
        if *rebuild {
            let same = against.iter().all(|against| against.same);
            value["ok"] = json!(verdict.is_whole() && same);
            value["rebuilt"] = json!(against);
        }
        output::print_json(&value)?;
    } else {
        let mut out = String::new();
        for (rebuilt, against) in rebuilt.iter().zip(&against) {
            compared_text(&mut out, file, rebuilt, against, paint);
        }
        output::print(&out)?;
    }
    Ok(verdict.is_whole() && against.iter().all(|against| against.same))
}

fn verdict(embedded: &Embedded<'_>) -> Verdict {
    let mut progress = Progress::of("checked");
    check(embedded, &mut |done, all| progress.step(done, all))
}

fn compared_text(
    out: &mut String,
    file: &Path,
    rebuilt: &Rebuilt<'_, '_>,
    against: &Against,
    paint: Paint,
) {
    let Against { package, version, same, bytes, fields, kernels, shaders } = against;
    let title = paint.bold(&format!("{} {}", clean(package), clean(version)));
    let _ = writeln!(out, "{title} from {}", rebuilt.folder.display());
    for field in fields {
        let text = format!("{} in the file, {} here", field.a, field.b);
        wrap(out, &format!("  {}", field.field), 12, &clean(&text));
    }
    same_kernels(out, kernels);
    kernels.iter().for_each(|row| kernel(out, row, paint));
    for shader in shaders {
        let text = format!("{}: {}", shader.path, shader.why.join(", "));
        wrap(out, "  differs", 12, &clean(text.trim_end_matches(": ")));
    }
    let differ = kernels.iter().filter(|row| row.status != Side::Same).count();
    let images: usize = kernels.iter().map(|row| row.targets.len()).sum();
    let text = if *same {
        let all = format!("{}, {}", count(kernels.len(), "kernel"), count(images, "image"));
        match bytes {
            true => format!("{all}: what the sources make, to the byte"),
            false => format!("{all}: what the sources make; they are packed in another way"),
        }
    } else if against.only_keys() {
        format!(
            "the code of all kernels is what the sources make, and {differ} of {} have another key: \
             a key is of bytecode, which holds paths. {} was not built with --reproducible, as \
             cargo cutile build --release --reproducible does it",
            kernels.len(),
            file.display()
        )
    } else {
        format!(
            "these sources do not make {differ} of {} in {}: check out those that it was built \
             from, and give cargo behind -- what that build was given",
            count(kernels.len(), "kernel"),
            file.display()
        )
    };
    let mut lines = String::new();
    wrap(&mut lines, "  ", 2, &text);
    output::painted(out, &lines, |line| if *same { paint.green(line) } else { paint.red(line) });
}

fn kernel(out: &mut String, row: &Row, paint: Paint) {
    let Row { kernel, words, status, why, targets: _, only_keys: _ } = row;
    let (sign, more) = match status {
        Side::Same => return,
        Side::Differs => ("differs", why.join(", ")),
        Side::File => ("gone", "the sources do not make it".to_owned()),
        Side::Sources => ("missing", "the file does not have it".to_owned()),
    };
    let mut lines = String::new();
    wrap(&mut lines, &format!("  {sign}"), 12, &clean(&format!("{kernel}: {more}")));
    output::painted(out, &lines, |line| paint.red(line));
    if !words.is_empty() {
        wrap(out, "", 12, &clean(words));
    }
}

/// A line for each kernel, however many of its specializations are the same.
fn same_kernels(out: &mut String, rows: &[Row]) {
    let mut counted: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.status == Side::Same) {
        *counted.entry((row.kernel.as_str(), row.targets.join(", "))).or_default() += 1;
    }
    for ((kernel, targets), number) in counted {
        let times = if number == 1 { String::new() } else { format!(", {number} times") };
        wrap(out, "  same", 12, &clean(&format!("{kernel}: {targets}{times}")));
    }
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
