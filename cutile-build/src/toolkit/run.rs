//! Runs the programs of a toolkit with an environment of their own.

use super::{Toolkit, ToolkitError};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a program may take to say what it is. It takes milliseconds, on a cold disk seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is read of it, in bytes. It says some hundred.
const LONGEST_ANSWER: u64 = 1 << 16;

impl Toolkit {
    /// tileiras with an environment of its own: nothing of the caller's, where `CUDA_HOME` alone
    /// makes it call another ptxas. `tmpdir` is for its temporary files and is writable.
    #[must_use]
    pub fn command(&self, tmpdir: &Path) -> Command {
        hermetic(&self.tileiras, tmpdir)
    }

    /// The files whose change makes it another toolkit. A build script names them in
    /// `rerun-if-changed`.
    #[must_use]
    pub fn files(&self) -> [&Path; 3] {
        [&self.tileiras, &self.ptxas, &self.libnvvm]
    }

    pub(super) fn answer(&self, program: &Path, question: &str) -> Result<String, ToolkitError> {
        let mut command = hermetic(program, Path::new("/tmp"));
        answer_within(command.arg(question), PATIENCE).map_err(|what| ToolkitError::Silent {
            program: program.to_owned(),
            what: format!("{question}: {what}"),
        })
    }
}

/// What a program prints, where it ends well within a time.
fn answer_within(command: &mut Command, patience: Duration) -> Result<String, String> {
    let end = Instant::now() + patience;
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (stdout, stderr) = (child.stdout.take().map(read), child.stderr.take().map(read));
    // A pipe can be held open by another process that it started.
    let said = |pipe: Option<Receiver<Vec<u8>>>| {
        pipe.and_then(|pipe| pipe.recv_timeout(end.saturating_duration_since(Instant::now())).ok())
    };
    let (stdout, stderr) = (said(stdout), said(stderr));
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", patience.as_secs_f32()));
            }
        }
    };
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr.unwrap_or_default()).trim().to_owned();
        let colon = if said.is_empty() { "" } else { ": " };
        return Err(format!("{status}{colon}{said}"));
    }
    let stdout = stdout.ok_or("another process that it started holds its output open")?;
    String::from_utf8(stdout).map_err(|_| "it prints no UTF-8".to_owned())
}

/// Reads on a thread of its own. Who prints without end is ended by the pipe.
fn read(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.take(LONGEST_ANSWER).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

fn hermetic(program: &Path, tmpdir: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("TMPDIR", tmpdir);
    // It finds ptxas beside itself. An empty or missing PATH would mean other folders.
    command.env("PATH", program.parent().unwrap_or(Path::new("/")));
    command
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn answer(script: &str, patience: Duration) -> Result<String, String> {
        answer_within(Command::new("/bin/sh").args(["-c", script]), patience)
    }

    #[test]
    fn a_program_that_does_not_end_or_prints_without_end_is_given_up() {
        let long = Duration::from_secs(60);
        assert_eq!(answer("echo 1; echo 2 >&2", long).unwrap(), "1\n");
        assert_eq!(answer("echo why >&2; exit 3", long).unwrap_err(), "exit status: 3: why");
        assert_eq!(answer("kill -9 $$", long).unwrap_err(), "signal: 9 (SIGKILL)");
        assert_eq!(answer("printf '\\377'", long).unwrap_err(), "it prints no UTF-8");
        // Ended by the pipe that nobody reads any more, long before its time is up.
        let endless = answer("while :; do echo 123456789; done", long).unwrap_err();
        assert!(endless.starts_with("signal: 13"), "{endless}");
        for hanging in ["exec sleep 1000", "exec >&- 2>&-; exec sleep 1000"] {
            let short = Duration::from_millis(300);
            assert_eq!(answer(hanging, short).unwrap_err(), "it did not end within 0.3 s");
        }
        let held = answer("sleep 2 & echo 1", Duration::from_millis(300)).unwrap_err();
        assert!(held.contains("holds its output open"), "{held}");
    }
}
