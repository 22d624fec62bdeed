//! One process.

use super::elf::{NotCubin, check_cubin};
use super::error::{JobError, JobErrorKind};
use super::{Assembler, Job, PoolOptions, os};
use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Start of the name of the folder of a job.
pub(crate) const SCRATCH: &str = "cutile-job-";
/// How much of what a process prints is kept.
const OUTPUT: usize = 64 << 10;
/// How long output is waited for after the process ended: what it started may hold the pipe.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// Says whether to go on; called every few milliseconds.
pub(super) type Tick<'a> = dyn FnMut() -> bool + 'a;

/// Compiles a job.
pub(super) fn run(
    job: &Job,
    assembler: &Assembler,
    options: &PoolOptions,
    tick: &mut Tick<'_>,
) -> Result<Vec<u8>, JobError> {
    let mut output = String::new();
    attempt(job, assembler, options, tick, &mut output)
        .map_err(|kind| JobError::new(kind, output, job, assembler, &options.keep))
}

fn attempt(
    job: &Job,
    assembler: &Assembler,
    options: &PoolOptions,
    tick: &mut Tick<'_>,
    output: &mut String,
) -> Result<Vec<u8>, JobErrorKind> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| JobErrorKind::Io { path, source }
    };
    let dir = tempfile::Builder::new()
        .prefix(SCRATCH)
        .tempdir_in(&options.scratch)
        .map_err(io(&options.scratch))?;
    let tmp = dir.path().join("tmp");
    let input = dir.path().join("kernel.bc");
    let image = dir.path().join("kernel.cubin");
    fs::create_dir(&tmp).map_err(io(&tmp))?;
    fs::write(&input, &job.bytecode).map_err(io(&input))?;

    let spawn = |source| JobErrorKind::Spawn { source };
    let (reader, writer) = io::pipe().map_err(spawn)?;
    let mut command = (assembler.command)(&tmp);
    command
        .args(&job.args)
        .arg("-o")
        .arg(&image)
        .arg(&input)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(spawn)?)
        .stderr(writer);
    os::own_group(&mut command);
    let mut child = command.spawn().map_err(spawn)?;
    // It holds the writing end: the pipe would never end.
    drop(command);
    let tail = Tail::follow(reader);
    let ended = wait(&mut child, options.timeout, tick);
    *output = tail.text();
    let status = ended?;
    match (status.code(), status.signal()) {
        (Some(0), _) => {}
        (Some(status), _) => return Err(JobErrorKind::Failed { status }),
        (None, signal) => return Err(JobErrorKind::Killed { signal: signal.unwrap_or(0) }),
    }
    let cubin = match fs::read(&image) {
        Ok(cubin) => cubin,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(JobErrorKind::Empty),
        Err(error) => return Err(io(&image)(error)),
    };
    match check_cubin(&cubin) {
        Ok(()) => Ok(cubin),
        Err(NotCubin::Empty) => Err(JobErrorKind::Empty),
        Err(NotCubin::Truncated(what)) => Err(JobErrorKind::Truncated { what }),
        Err(NotCubin::NotElf(what)) => Err(JobErrorKind::NotElf { what }),
    }
}

fn wait(
    child: &mut Child,
    limit: Duration,
    tick: &mut Tick<'_>,
) -> Result<ExitStatus, JobErrorKind> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let stopped = loop {
        match os::has_ended(child) {
            Ok(true) => {
                // Killed from outside it leaves behind what it started.
                os::kill_group(child);
                return child.wait().map_err(|source| JobErrorKind::Spawn { source });
            }
            Ok(false) => {}
            Err(source) => break JobErrorKind::Spawn { source },
        }
        if start.elapsed() >= limit {
            break JobErrorKind::TimedOut { limit };
        }
        if !tick() {
            break JobErrorKind::Cancelled;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    os::kill_group(child);
    let _ = child.wait();
    Err(stopped)
}

/// The last that comes out of a pipe.
struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    end: mpsc::Receiver<()>,
}

impl Tail {
    fn follow(mut pipe: io::PipeReader) -> Self {
        let bytes = Arc::new(Mutex::new(VecDeque::new()));
        let (at_end, end) = mpsc::channel();
        let kept = Arc::clone(&bytes);
        std::thread::spawn(move || {
            let mut chunk = [0; 8 << 10];
            while let Ok(len) = pipe.read(&mut chunk)
                && len > 0
            {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&chunk[..len]);
                let over = kept.len().saturating_sub(OUTPUT);
                kept.drain(..over);
            }
            drop(at_end);
        });
        Self { bytes, end }
    }

    fn text(self) -> String {
        // Nothing is sent: it returns when the sender is gone.
        let _ = self.end.recv_timeout(OUTPUT_GRACE);
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(bytes.make_contiguous()).into_owned()
    }
}
