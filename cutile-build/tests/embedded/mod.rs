//! Files with bundles in them, and the command run on them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

#[path = "../../src/bin/cargo-cutile/embedded/fixture.rs"]
pub mod fixture;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub const CUTILE: &str = env!("CARGO_BIN_EXE_cargo-cutile");

/// The name of the fixture's kernel with the most to say.
pub const GEMM: &str = "gemm::matmul<f16, 64, 64>";

/// A folder that is the home of the user, too.
pub struct Home(TempDir);

/// What a call did.
#[derive(Debug)]
pub struct Called {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The fixture's bundle for two targets, at odd places between random bytes.
    pub fn app(&self, name: &str) -> PathBuf {
        self.write(name, fixture::file(&fixture::bundle("app", &["sm_80", "sm_90"]), 1013))
    }

    /// The command with an environment of its own.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(CUTILE);
        command
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", "/usr/bin:/bin")
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .args(arguments);
        command
    }

    pub fn cutile(&self, arguments: &[&str]) -> Called {
        call(&mut self.command(arguments))
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }
}

pub fn call(command: &mut Command) -> Called {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Called { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

impl Called {
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(value["schema"], 1);
        value
    }

    /// That it fits a terminal, and has no escape sequence where none is asked for.
    #[track_caller]
    pub fn fits(self) -> Self {
        for line in self.stdout.lines() {
            assert!(line.chars().count() <= 80, "{line:?} in\n{}", self.stdout);
            assert!(!line.chars().any(char::is_control), "{line:?}");
            assert_eq!(line.trim_end(), line);
        }
        self
    }

    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        // Lines are broken where the width asks for it.
        let text = format!("{} {}", self.stdout, self.stderr);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(text.contains(word), "{word:?} is not in {text}");
        }
        self
    }
}
