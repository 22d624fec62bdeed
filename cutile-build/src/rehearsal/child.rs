//! The child: a build script on a virtual GPU.

use super::replay::{SourceHashes, replay};
use super::{PASS_ENV, REPLAY_FILE};
use crate::environment::BuildEnv;
use cutile_embed::cuda::rehearse::Recorder;
use cutile_embed::recording::Recorded;
use cutile_embed::rehearsal::{DIR_ENV, Line, Pass};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// A named piece of code that makes the launches an app will make.
pub(crate) struct Warmup {
    pub(crate) name: String,
    pub(crate) run: Box<dyn Fn() -> Result<(), String>>,
}

/// Upstream's own tests give the front end this much; its recursion follows the kernel's nesting.
const STACK: usize = 8 << 20;

/// In a child, runs the warm-ups and ends the process; elsewhere does nothing.
pub(crate) fn run_if_child(warmups: &mut Vec<Warmup>) {
    let Some(dir) = BuildEnv::internal(DIR_ENV) else { return };
    let pass = BuildEnv::internal(PASS_ENV).unwrap_or_default();
    let pass: Option<Pass> = pass.to_str().and_then(|pass| serde_json::from_str(pass).ok());
    let status = match pass {
        Some(pass) => {
            let warmups = SendWarmups(std::mem::take(warmups));
            let run = move || rehearse(&PathBuf::from(dir), pass, warmups);
            match std::thread::Builder::new().stack_size(STACK).spawn(run).map(|run| run.join()) {
                Ok(Ok(Ok(()))) => 0,
                Ok(Ok(Err(error))) => {
                    eprintln!("{error}");
                    1
                }
                _ => 1,
            }
        }
        None => {
            eprintln!("{PASS_ENV} is not what cutile-build passes to its rehearsals");
            1
        }
    };
    std::process::exit(status);
}

/// The warm-ups move to a thread with a larger stack while this one only waits for it.
struct SendWarmups(Vec<Warmup>);

// SAFETY: the value is used by one thread at a time: the spawning thread gives it away and joins.
unsafe impl Send for SendWarmups {}

fn rehearse(dir: &Path, pass: Pass, warmups: SendWarmups) -> Result<(), String> {
    let SendWarmups(warmups) = { warmups };
    let mut recorder = Recorder::start(dir, pass)?;
    for warmup in &warmups {
        // A launcher panics where a generic cannot be inferred; the other warm-ups still run.
        let outcome = catch_unwind(AssertUnwindSafe(|| (warmup.run)()));
        recorder.collect(&warmup.name)?;
        let what = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error,
            Err(panic) => format!("it panicked: {}", panic_text(panic.as_ref())),
        };
        let after = recorder.last().map(ToOwned::to_owned);
        recorder.write(&Line::Failed { warmup: warmup.name.clone(), what, after })?;
    }
    let (rows, hashes) = replay_of(dir)?;
    replay(&mut recorder, &rows, &hashes)?;
    recorder.write(&Line::End)
}

/// The rows to replay and the hashes of their modules, where the parent left some.
fn replay_of(dir: &Path) -> Result<(Vec<Recorded>, SourceHashes), String> {
    match std::fs::read(dir.join(REPLAY_FILE)) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
