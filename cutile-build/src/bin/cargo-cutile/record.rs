//! `cargo cutile record`: runs a program and writes down what it launched.

use crate::args::Cli;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{count, say};
use crate::run_cargo::{code, toolkit_for};
use crate::virtual_gpu;
use crate::workspace::DotCutile;
use clap::Args;
use cutile_embed::recording::{Recording, RecordingError};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The variable that `cutile_embed::install` reads. Where it names a folder, each process writes a
/// file of its own into it.
const RECORD_ENV: &str = "CUTILE_EMBED_RECORD";

#[derive(Debug, Args)]
#[command(
    after_help = "The program calls cutile_embed::install(). Builder::replay compiles what the\n\
                        file names.\n\nExamples:\n  \
                        cargo cutile record -- target/release/app --all-shapes\n  \
                        cargo cutile --virtual-gpu sm_90 record --merge -- target/release/app"
)]
pub(crate) struct Record {
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "kernels.json")]
    output: PathBuf,

    /// Keep what the file has, and add to it
    #[arg(long)]
    merge: bool,

    /// End it after so long; what it launched is kept
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(cli: &Cli, record: &Record, environ: &Environ) -> Result<ExitCode, Failure> {
    let before = match record.merge && record.output.exists() {
        true => Recording::read(&record.output).map_err(|error| error.to_string())?,
        false => Recording::default(),
    };
    // Before the program runs for minutes: whether its result can be kept. What is there stays until
    // there is one: the program may be built with it.
    can_write(&record.output)?;

    let dot = DotCutile::locate(environ, None)?;
    let choice = toolkit_for(environ, &dot, cli.offline || environ.offline())?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let Some((program, arguments)) = record.command.split_first() else {
        return Err("no program to run is named".into());
    };
    let mut command = Command::new(program);
    command.args(arguments).env(RECORD_ENV, folder.path());
    for (name, value) in choice.publish()? {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    for name in environ.set_by_cargo_run() {
        command.env_remove(name);
    }
    if let Some(targets) = &cli.virtual_gpu {
        command.envs(virtual_gpu::environment(environ, &dot, targets)?);
    }
    let status = watched(&mut command, record.timeout.map(Duration::from_secs))
        .map_err(|error| format!("{} does not run: {error}", program.to_string_lossy()))?;

    let mut all = before.clone();
    let (files, damaged) = gather(folder.path(), &mut all)?;
    // A run that launched nothing, as of a program that failed, has nothing to put in place of what
    // another one recorded.
    if !all.kernels.is_empty() {
        all.write(&record.output).map_err(|error| error.to_string())?;
    }
    report(record, &before, &all, files, status.as_ref());
    for error in &damaged {
        say!("error: what one process recorded is left out: {error}");
    }
    match status {
        _ if all.kernels.is_empty() || !damaged.is_empty() => Ok(ExitCode::FAILURE),
        Some(status) => Ok(code(status)),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn can_write(output: &Path) -> Result<(), Failure> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
        .map(drop)
        .map_err(|error| format!("{} cannot be written: {error}", output.display()).into())
}

/// Adds the files of all processes, and counts them. Gives the errors of those that are damaged.
fn gather(folder: &Path, all: &mut Recording) -> Result<(usize, Vec<RecordingError>), Failure> {
    let (mut files, mut damaged) = (0, Vec::new());
    for file in fs::read_dir(folder).map_err(Failure::io("list", folder))?.flatten() {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match Recording::read(&path) {
            Ok(recording) => {
                all.merge(recording);
                files += 1;
            }
            Err(error) => damaged.push(error),
        }
    }
    Ok((files, damaged))
}

fn report(
    record: &Record,
    before: &Recording,
    all: &Recording,
    files: usize,
    status: Option<&ExitStatus>,
) {
    if files == 0 {
        say!(
            "error: the program recorded nothing. Does it call cutile_embed::install(), and did it \
             get there? The command was {}",
            record.command.join(&OsString::from(" ")).to_string_lossy()
        );
        return;
    }
    if all.kernels.is_empty() {
        say!(
            "error: the program launched no kernel{}; {} is as it was",
            status.map_or_else(String::new, |status| format!(" ({status})")),
            record.output.display()
        );
        return;
    }
    let kernels: BTreeSet<_> = all
        .kernels
        .iter()
        .map(|row| (&row.specialization.module, &row.specialization.function))
        .collect();
    let new = all.kernels.difference(&before.kernels).count();
    say!(
        "{}: {} of {}, {new} of them new",
        record.output.display(),
        count(all.kernels.len(), "specialization"),
        count(kernels.len(), "kernel")
    );
    match status {
        None => say!("the program was ended when its time was up; it may launch more"),
        Some(status) if !status.success() => {
            say!("the program failed ({status}); it may launch more when it works");
        }
        Some(_) => {}
    }
    say!(
        "Compile them with Builder::replay({:?}) in build.rs",
        record.output.display().to_string()
    );
}

/// Runs a command, at most so long; `None` where it was ended.
fn watched(command: &mut Command, limit: Option<Duration>) -> std::io::Result<Option<ExitStatus>> {
    #[cfg(unix)]
    if limit.is_some() {
        // So that what it starts, as `cargo run` does, is ended with it.
        std::os::unix::process::CommandExt::process_group(command, 0);
        command.stdin(Stdio::null());
    }
    let mut child = command.spawn()?;
    let Some(limit) = limit else { return child.wait().map(Some) };
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            end(&mut child)?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn end(child: &mut Child) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let group = rustix::process::Pid::from_child(child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    child.wait().map(|_| ())
}
