//! A program that was built, on a machine of the test's choice.

use crate::places::virtual_gpu;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A copy of an executable that later builds leave alone.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    _folder: Arc<tempfile::TempDir>,
}

impl Program {
    pub(crate) fn keep(path: &Path) -> Self {
        let folder = crate::scratch();
        let copy = folder.path().join("program");
        // Linked, not copied: a dev binary is large, and cargo replaces it by another file.
        if std::fs::hard_link(path, &copy).is_err() {
            std::fs::copy(path, &copy).expect("the program can be copied");
        }
        Self { path: copy, _folder: Arc::new(folder) }
    }

    /// A copy with other bytes.
    #[must_use]
    pub fn changed(&self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        let folder = crate::scratch();
        let path = folder.path().join("program");
        let mut bytes = std::fs::read(&self.path).expect("the program can be read");
        change(&mut bytes);
        std::fs::write(&path, bytes).expect("the program can be copied");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("the copy can be made executable");
        Self { path, _folder: Arc::new(folder) }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// On a machine without a driver, a toolkit or anything else in the environment.
    pub fn bare(&self) -> Run {
        let mut command = Command::new(&self.path);
        command.env_clear().stdin(Stdio::null());
        Run { command }
    }

    /// On virtual GPUs, `sm_80,sm_90` one ordinal each, without a toolkit: `CUTILE_TILEIRAS_PATH`
    /// points nowhere.
    pub fn on(&self, gpus: &str) -> Run {
        self.bare()
            .env("LD_LIBRARY_PATH", virtual_gpu().library_dir())
            .env("CUTILE_VIRTUAL_GPU", gpus)
            .env("CUTILE_TILEIRAS_PATH", "/nonexistent/tileiras")
    }
}

/// A run to come.
#[derive(Debug)]
#[must_use]
pub struct Run {
    command: Command,
}

/// What a program printed.
#[derive(Debug)]
pub struct Printed {
    /// Whether it ended with 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Adds a variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// Adds arguments.
    pub fn arguments<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// In new namespaces, by these options of `unshare`. Takes root.
    pub fn in_namespaces(self, options: &[&str]) -> Self {
        self.through(&[&["unshare"], options, &["--"]].concat())
    }

    /// In a mount namespace of its own, by a script of `sh`: its `"$@"` is the program. Takes root.
    pub fn in_script(self, script: &str) -> Self {
        self.through(&["unshare", "--mount", "--", "sh", "-ec", script, "sh"])
    }

    fn through(self, words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.command.get_program()).args(self.command.get_args());
        command.env_clear().stdin(Stdio::null());
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self { command }
    }

    /// The command, to start it otherwise.
    #[must_use]
    pub fn into_command(self) -> Command {
        self.command
    }

    /// Runs it.
    #[must_use]
    pub fn run(mut self) -> Printed {
        // A process that another test starts while `changed` writes has the file open until it is
        // another program.
        let busy = |error: &io::Error| error.kind() == io::ErrorKind::ExecutableFileBusy;
        let output = loop {
            match self.command.output() {
                Err(error) if busy(&error) => std::thread::sleep(Duration::from_millis(10)),
                output => break output.expect("the program starts"),
            }
        };
        Printed::of(&output)
    }

    /// Runs it and expects that it ends with 0.
    ///
    /// # Panics
    ///
    /// With what it printed.
    #[must_use]
    pub fn ok(self) -> Printed {
        let printed = self.run();
        assert!(printed.success, "{}\n{}", printed.stdout, printed.stderr);
        printed
    }
}

impl Printed {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The line that starts with this word, without it.
    ///
    /// # Panics
    ///
    /// Where there is none.
    #[must_use]
    pub fn line(&self, word: &str) -> &str {
        self.stdout
            .lines()
            .find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("no line {word:?} in\n{}\n{}", self.stdout, self.stderr))
    }

    /// Standard output as one line of JSON.
    ///
    /// # Panics
    ///
    /// Where it is anything else.
    #[must_use]
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{}", self.stdout);
        assert!(self.stdout.ends_with('\n'));
        serde_json::from_str(&self.stdout).expect("a line of JSON")
    }
}
