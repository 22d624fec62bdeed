//! `cargo cutile inspect`: what is embedded in a file.

mod extract;
mod json;
mod table;

use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{self, Paint, count, say};
use crate::subject;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Examples:
  cargo cutile inspect target/release/app
  cargo cutile inspect libapp.so --keys
  cargo cutile inspect app.exe --json | jq '.bundles[].targets'
  cargo cutile inspect app --extract /tmp/app

In the table, the numbers behind a parameter are what its lengths are
divisible by, one a dimension; behind an integer, what the integer is.

Keys of --json (schema 1): file, bytes, unreadable[] {part, offset, why},
bundles[] {package, version, cutile, codegen, skipped, toolkit, index,
manifest, left_out[], targets[] {target, kernels, images, bytes, pack},
kernels[] {kernel, words, images[] {target, key, bytes, offset, stored,
codec}, and the members of a row of the manifest}, shaders[] {path,
entry_points[], artifacts[] {kind, key, bytes, offset}}}. index, manifest
and pack are {offset, bytes} or null. Offsets count from the start of the
file. bytes of an image are its cubin's; stored are those that it takes.";

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Inspect {
    /// The program, library or archive
    file: PathBuf,

    /// With the key and the place of each image
    #[arg(long, conflicts_with = "json")]
    keys: bool,

    /// For a program to read
    #[arg(long)]
    json: bool,

    /// Also write parts, cubins and shaders there
    #[arg(long, value_name = "DIR")]
    extract: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Inspect, environ: &Environ) -> Result<ExitCode, Failure> {
    let Inspect { file, keys, json, extract } = arguments;
    let bytes = subject::read(file)?;
    let embedded = subject::embedded(file, &bytes)?;
    let mut left_out = Vec::new();
    if let Some(folder) = extract {
        let extracted = extract::extract(&embedded, &bytes, folder)?;
        say!("{} in {}", extracted.text, folder.display());
        left_out = extracted.left_out;
    }
    if *json {
        output::print_json(&json::of(file, bytes.len(), &embedded))?;
    } else {
        let paint = Paint::for_stdout(environ);
        output::print(&table::of(file, bytes.len(), &embedded, *keys, paint))?;
    }
    // What is there and cannot be read is for `verify`; here it is shown. A file that was asked for
    // and is not there is an error.
    match left_out.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(first) => Err(Failure(format!(
            "{} damaged, without a file: {first}{}. `cargo cutile verify {}` lists all that is wrong",
            count(left_out.len(), "part"),
            if left_out.len() > 1 { " and others" } else { "" },
            file.display()
        ))),
    }
}
