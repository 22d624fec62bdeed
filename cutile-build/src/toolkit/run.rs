//! Runs the programs of a toolkit with an environment of their own.

use super::{Toolkit, ToolkitError};
use std::path::Path;
use std::process::{Command, Stdio};

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
        let silent = |what: String| ToolkitError::Silent { program: program.to_owned(), what };
        let output = hermetic(program, Path::new("/tmp"))
            .arg(question)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| silent(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(silent(format!("{question}: {}, {}", output.status, said.trim())));
        }
        String::from_utf8(output.stdout).map_err(|_| silent("it prints no UTF-8".to_owned()))
    }
}

fn hermetic(program: &Path, tmpdir: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("TMPDIR", tmpdir);
    // It finds ptxas beside itself. An empty or missing PATH would mean other folders.
    command.env("PATH", program.parent().unwrap_or(Path::new("/")));
    command
}
