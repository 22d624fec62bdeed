//! `cargo cutile diff`: what two builds embed differently.

pub(crate) mod compare;

use crate::embedded::bundle::Embedded;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{self, Paint, cell, clean, count, painted, say, shown, size, wrap};
use crate::subject;
use crate::verify::TROUBLE;
use clap::Args;
use compare::{BundleDiff, ImageDiff, KernelDiff, Status, compare};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Kernels, images, shaders and what they were built with are compared; where
they lie in the file does not count. A kernel is the same one when all but its
source is equal, as its generics and what its lengths are divisible by.

Examples:
  cargo cutile diff v1/app v2/app
  cargo cutile diff --json old.so new.so | jq '.bundles[].kernels[].kernel'

Exit code, as of diff(1): 0 the same, 1 they differ, 2 trouble.

Keys of --json (schema 1): same, bundles[] {package, status, bytes, fields[]
{field, a, b}, kernels[] {kernel, words, status, why, images[] {target,
status, bytes}}, shaders[] {path, status, why}}. A status is added, removed or
changed; bytes are those in A and in B. What is the same is not listed.";

const NO_BREAK: &str = "\u{a0}";

/// Arguments of `diff`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Diff {
    /// The program, library or archive that was
    a: PathBuf,

    /// The one that is now
    b: PathBuf,

    /// For a program to read
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Diff, environ: &Environ) -> Result<ExitCode, Failure> {
    match same(arguments, environ) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(failure) => {
            output::say_error(&failure);
            Ok(ExitCode::from(TROUBLE))
        }
    }
}

fn same(arguments: &Diff, environ: &Environ) -> Result<bool, Failure> {
    let Diff { a, b, json } = arguments;
    let diffs = diffs(a, b)?;
    if *json {
        output::print_json(&json!({ "schema": 1, "same": diffs.is_empty(), "bundles": diffs }))?;
    } else {
        let paint = Paint::for_stdout(environ);
        let mut out = String::new();
        diffs.iter().for_each(|diff| bundle(&mut out, diff, paint));
        output::print(&out)?;
    }
    Ok(diffs.is_empty())
}

fn diffs(a: &Path, b: &Path) -> Result<Vec<BundleDiff>, Failure> {
    let (first, second) = (subject::read(a)?, subject::read(b)?);
    let first = subject::embedded(a, &first)?;
    let second = subject::embedded(b, &second)?;
    for (path, embedded) in [(a, &first), (b, &second)] {
        note_unreadable(path, embedded);
    }
    Ok(compare(&first, &second))
}

fn note_unreadable(path: &Path, embedded: &Embedded<'_>) {
    for part in &embedded.unreadable {
        say!(
            "warning: {}: the {} at {:#x} is not compared: {}",
            shown(path),
            part.part,
            part.offset,
            clean(&part.why)
        );
    }
}

fn sign(status: Status, paint: Paint) -> (char, impl Fn(&str) -> String) {
    let sign = match status {
        Status::Added => '+',
        Status::Removed => '-',
        Status::Changed => '~',
    };
    (sign, move |text: &str| match status {
        Status::Added => paint.green(text),
        Status::Removed => paint.red(text),
        Status::Changed => paint.yellow(text),
    })
}

fn bundle(out: &mut String, diff: &BundleDiff, paint: Paint) {
    let BundleDiff { package, status, fields, kernels, shaders, bytes } = diff;
    let (mark, _) = sign(*status, paint);
    let _ = writeln!(out, "{}", paint.bold(&format!("{mark} {}", clean(package))));
    for field in fields {
        let text = match field.field {
            "targets" => in_and_out(&field.a, &field.b),
            _ => format!("{} → {}", field.a, field.b),
        };
        wrap(out, &format!("  {}", field.field), 15, &clean(&text));
    }
    kernels.iter().for_each(|diff| kernel(out, diff, paint));
    for shader in shaders {
        let (mark, colour) = sign(shader.status, paint);
        let mut lines = String::new();
        wrap(&mut lines, &format!("  {mark} "), 4, &clean(&shader.path));
        painted(out, &lines, colour);
        if !shader.why.is_empty() {
            wrap(out, "", 6, &shader.why.join(", "));
        }
    }
    let of = |status| kernels.iter().filter(|kernel| kernel.status == status).count();
    let [a, b] = *bytes;
    let text = format!(
        "{} added, {} removed, {} changed; {} → {} ({})",
        count(of(Status::Added), "kernel"),
        of(Status::Removed),
        of(Status::Changed),
        size(a),
        size(b),
        signed(a, b)
    );
    wrap(out, "  ", 2, &text);
}

fn kernel(out: &mut String, diff: &KernelDiff, paint: Paint) {
    let KernelDiff { kernel, words, status, why, images } = diff;
    let (mark, colour) = sign(*status, paint);
    let mut lines = String::new();
    wrap(&mut lines, &format!("  {mark} "), 4, &clean(kernel));
    painted(out, &lines, colour);
    if !words.is_empty() {
        let mut lines = String::new();
        wrap(&mut lines, "", 6, &clean(words));
        painted(out, &lines, |line| paint.dim(line));
    }
    if !why.is_empty() {
        wrap(out, "", 6, &why.join(", "));
    }
    let images: Vec<String> = images.iter().map(image).collect();
    if !images.is_empty() {
        // A line is not broken between a target and its sizes.
        let items: Vec<String> = images.iter().map(|item| item.replace(' ', NO_BREAK)).collect();
        let mut lines = String::new();
        wrap(&mut lines, "", 6, &clean(&items.join(", ")));
        out.push_str(&lines.replace(NO_BREAK, " "));
    }
}

fn image(diff: &ImageDiff) -> String {
    let ImageDiff { target, status, bytes } = diff;
    match (status, bytes) {
        (Status::Changed, [Some(a), Some(b)]) if a == b => format!("{target} other {}", cell(*a)),
        (Status::Changed, [Some(a), Some(b)]) => {
            format!("{target} {}→{} ({})", cell(*a), cell(*b), signed(*a, *b))
        }
        (Status::Added, [_, Some(b)]) => format!("+{target} {}", cell(*b)),
        (_, [Some(a), _]) => format!("-{target} {}", cell(*a)),
        _ => target.clone(),
    }
}

/// How much more the second is.
fn signed(a: u64, b: u64) -> String {
    format!("{}{}", if b >= a { '+' } else { '-' }, size(a.abs_diff(b)))
}

/// `+sm_120 -sm_80` of two lists.
fn in_and_out(a: &str, b: &str) -> String {
    let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (list(a), list(b));
    let added = b.iter().filter(|name| !a.contains(name)).map(|name| format!("+{name}"));
    let removed = a.iter().filter(|name| !b.contains(name)).map(|name| format!("-{name}"));
    added.chain(removed).collect::<Vec<_>>().join(" ")
}
