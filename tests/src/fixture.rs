//! A crate that embeds kernels, and cargo.

use crate::manifest::Manifest;
use crate::places::{target_dir, tests_dir, toolkit, toolkit_root, variable, workspace_root};
use crate::program::{Printed, Program};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Variables that a build needs from outside. Nothing else gets in.
const INHERITED: [&str; 16] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTC",
    "RUSTFLAGS",
    "CARGO_BUILD_JOBS",
    "CARGO_INCREMENTAL",
    "CUDA_HOME",
    "LIBCLANG_PATH",
    "BINDGEN_EXTRA_CLANG_ARGS",
    "CC",
    "CXX",
    "LANG",
];

/// A crate on disk.
#[derive(Debug)]
pub struct Fixture {
    dir: PathBuf,
    name: String,
    /// Removes a crate that is not below the target folder.
    _scratch: Option<tempfile::TempDir>,
}

impl Fixture {
    /// A crate made from `tests/fixtures/<from>`. `name` is its package, and must be of one test.
    #[must_use]
    pub fn new(from: &str, name: &str) -> Self {
        Self::at(tests_dir().join("crates").join(name), from, name)
    }

    /// The same in a folder of another name below `target/cutile-tests/crates`.
    #[must_use]
    pub fn in_folder(folder: impl AsRef<Path>, from: &str, name: &str) -> Self {
        Self::at(tests_dir().join("crates").join(folder), from, name)
    }

    /// The same outside this workspace, where no `.cutile` is in a folder above.
    #[must_use]
    pub fn elsewhere(from: &str, name: &str) -> Self {
        let scratch = crate::scratch();
        let mut fixture = Self::at(scratch.path().join(name), from, name);
        fixture._scratch = Some(scratch);
        fixture
    }

    fn at(dir: PathBuf, from: &str, name: &str) -> Self {
        if dir.exists() {
            fs::remove_dir_all(&dir).expect("the crate of the last run can be removed");
        }
        let fixture = Self { dir, name: name.to_owned(), _scratch: None };
        copy(&workspace_root().join("tests/fixtures").join(from), &fixture.dir);
        fs::copy(workspace_root().join("Cargo.lock"), fixture.dir.join("Cargo.lock"))
            .expect("the lock file of the workspace");
        fixture.cargo_toml(&["sm_90"], "");
        fixture
    }

    /// Writes `Cargo.toml` with these targets, and dependencies besides those of every fixture.
    pub fn cargo_toml(&self, targets: &[&str], dependencies: &str) {
        let root = workspace_root().display();
        let name = &self.name;
        let profiles = profiles();
        // The dependencies of example-app, so that cutile has the same features.
        self.write(
            "Cargo.toml",
            &format!(
                r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"

[workspace]

[package.metadata.cutile]
targets = {targets:?}

[dependencies]
cutile = "=0.5.0"
cutile-embed = {{ path = "{root}/cutile-embed", features = ["cuda"] }}
half = "2"
serde = {{ version = "1", features = ["derive"] }}
serde_json = "1"
{dependencies}
[build-dependencies]
cutile = "=0.5.0"
cutile-build = {{ path = "{root}/cutile-build", features = ["cuda"] }}
half = "2"

{profiles}"#
            ),
        );
    }

    /// Folder of the crate.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its package.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes a file of the crate.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().expect("a file of the crate")).expect("a folder");
        fs::write(path, text).expect("a file of the crate");
    }

    /// Replaces the one occurrence of a text in a file of the crate.
    ///
    /// # Panics
    ///
    /// Where it does not stand there exactly once.
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.dir.join(path)).expect("a file of the crate");
        assert_eq!(text.matches(from).count(), 1, "{from:?} in {path}");
        self.write(path, &text.replace(from, to));
    }

    /// `cargo cutile COMMAND` on the crate, in the environment of [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// Where cargo does not run.
    #[must_use]
    pub fn cargo_cutile(&self, command: &str, arguments: &[&str]) -> Printed {
        // The alias is the workspace's.
        let output = Command::new("cargo")
            .args(["cutile", command, "--manifest-path"])
            .arg(self.dir.join("Cargo.toml"))
            .args(arguments)
            .current_dir(workspace_root())
            .env_clear()
            .envs(&self.build().env)
            .output()
            .expect("cargo runs");
        Printed::of(&output)
    }

    /// `cargo build` with the toolkit of the tests and a build cache that the tests share.
    pub fn build(&self) -> Build<'_> {
        Build::new(&self.dir, &self.name)
    }
}

/// A run of `cargo build` to come.
#[derive(Debug)]
#[must_use]
pub struct Build<'f> {
    dir: &'f Path,
    name: &'f str,
    env: BTreeMap<OsString, OsString>,
    script_env: Vec<(String, Option<OsString>)>,
    arguments: Vec<String>,
    messages: bool,
}

impl<'f> Build<'f> {
    fn new(dir: &'f Path, name: &'f str) -> Self {
        let env = INHERITED
            .into_iter()
            .filter_map(|name| Some((name.into(), variable(name)?)))
            .collect::<BTreeMap<OsString, OsString>>();
        let mut build =
            Self { dir, name, env, script_env: Vec::new(), arguments: Vec::new(), messages: true };
        let libclang = workspace_root().join(".cutile/libclang");
        if variable("LIBCLANG_PATH").is_none() && libclang.is_dir() {
            build = build.env("LIBCLANG_PATH", libclang);
        }
        build
            .env("CUDA_TOOLKIT_PATH", toolkit_root())
            .env("CARGO_TARGET_DIR", target_dir())
            .env("CARGO_TERM_COLOR", "never")
            .env("CUTILE_BUILD_CACHE", tests_dir().join("cache"))
    }

    /// The build of a package of this workspace.
    pub fn of_workspace(package: &'f str) -> Self {
        let build = Build::new(workspace_root(), package);
        let mut build = build.argument("--package").argument(package);
        // As the workspace itself is built, so that nothing is built anew.
        build.env.remove(OsStr::new("CUTILE_BUILD_CACHE"));
        build
    }

    /// A variable of cargo and the build script.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// A variable that only the build script of the fixture sees; `None` removes it there. For
    /// those that the build scripts of the CUDA crates watch: they would be built anew.
    pub fn script_env(mut self, name: &str, value: Option<&OsStr>) -> Self {
        self.script_env.push((name.to_owned(), value.map(OsStr::to_owned)));
        self
    }

    /// Another target folder than the one that all fixtures share. Nobody waits for it then.
    pub fn target_dir(self, folder: &Path) -> Self {
        self.env("CARGO_TARGET_DIR", folder)
    }

    /// An argument of `cargo build`.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// A setting of a profile, `release.package.cutile.debug=1`.
    pub fn profile(self, setting: &str) -> Self {
        self.argument("--config").argument(&format!("profile.{setting}"))
    }

    /// As a person runs it, without the messages that [`Built`] is read from: for a build that
    /// fails.
    pub fn without_messages(mut self) -> Self {
        self.messages = false;
        self
    }

    /// Runs it and expects that it works.
    ///
    /// # Panics
    ///
    /// With what cargo printed.
    pub fn ok(self) -> Built {
        self.try_ok().unwrap_or_else(|what| panic!("{what}"))
    }

    /// The same with the failure as a value, to keep it: a `OnceLock` whose function panics calls
    /// it again for the next test.
    ///
    /// # Errors
    ///
    /// What cargo printed.
    pub fn try_ok(self) -> Result<Built, String> {
        let built = self.run();
        match built.success {
            true => Ok(built),
            false => Err(format!("the build fails:\n{}", built.stderr)),
        }
    }

    /// Runs it, expects that it fails, and gives what cargo printed.
    ///
    /// # Panics
    ///
    /// Where it works.
    pub fn fails(self) -> String {
        let built = self.run();
        assert!(!built.success, "the build works:\n{}", built.stderr);
        built.stderr
    }

    /// Runs it.
    #[must_use]
    pub fn run(mut self) -> Built {
        // Cargo's own lock makes them wait for each other; this one keeps a program from being
        // replaced by another build before it is copied.
        static ONE: Mutex<()> = Mutex::new(());
        let shared = self.env.get(OsStr::new("CARGO_TARGET_DIR")) == Some(&target_dir().into());
        let _one = shared.then(|| ONE.lock().unwrap_or_else(PoisonError::into_inner));
        // A wrong toolkit should be reported before minutes of compiling.
        let _ = toolkit();
        if !self.script_env.is_empty() {
            let lines = self.script_env.iter().map(|(name, value)| match value {
                Some(value) => format!("{name}={}", value.to_string_lossy()),
                None => name.clone(),
            });
            let lines = lines.collect::<Vec<_>>().join("\n");
            self.env.insert("FIXTURE_SCRIPT_ENV".into(), lines.into());
        }
        let format = self.messages.then_some("--message-format=json");
        let output = Command::new("cargo")
            .args(["build", "--offline", "-v"])
            .args(format)
            .args(&self.arguments)
            .current_dir(self.dir)
            .env_clear()
            .envs(&self.env)
            .output()
            .expect("cargo runs");
        let mut built = Built {
            success: output.status.success(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            out_dir: PathBuf::new(),
            program: None,
        };
        let stdout = String::from_utf8_lossy(&output.stdout);
        for message in stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            built.take_in(&message, self.name);
        }
        built
    }
}

/// What `cargo build` did.
#[derive(Debug)]
pub struct Built {
    success: bool,
    /// What cargo printed, verbose, and the output of a build script that failed.
    pub stderr: String,
    out_dir: PathBuf,
    program: Option<Program>,
}

impl Built {
    fn take_in(&mut self, message: &Value, name: &str) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&message["package_id"]);
        let is_own = id.contains(&format!("/{name}#")) || id.contains(&format!("#{name}@"));
        match message["reason"].as_str() {
            Some("compiler-message") => {
                self.stderr.push_str(&text(&message["message"]["rendered"]));
            }
            Some("build-script-executed") if is_own => {
                self.out_dir = text(&message["out_dir"]).into();
            }
            Some("compiler-artifact") if is_own => {
                if let Some(path) = message["executable"].as_str() {
                    self.program = Some(Program::keep(Path::new(path)));
                }
            }
            _ => {}
        }
    }

    /// The program.
    ///
    /// # Panics
    ///
    /// Where the crate makes none.
    #[must_use]
    pub fn program(&self) -> &Program {
        self.program.as_ref().expect("the build made a program")
    }

    /// Whether cargo ran the crate's build script.
    #[must_use]
    pub fn script_ran(&self) -> bool {
        self.stderr.lines().any(|line| {
            line.trim_start().starts_with("Running") && line.contains("/build-script-build`")
        })
    }

    /// What the build script printed on stderr.
    #[must_use]
    pub fn script_output(&self) -> String {
        let folder = self.out_dir.parent().expect("OUT_DIR");
        fs::read_to_string(folder.join("stderr")).expect("cargo keeps it")
    }

    /// How many times the build script ran tileiras.
    ///
    /// # Panics
    ///
    /// Where it does not say so.
    #[must_use]
    pub fn tileiras_runs(&self) -> usize {
        let output = self.script_output();
        let (_, rest) = output.split_once("tileiras ran ").expect("the summary of a build");
        let (count, _) = rest.split_once(" times").expect("the summary of a build");
        count.parse().expect("a number")
    }

    /// Folder of the bundle.
    #[must_use]
    pub fn bundle(&self) -> PathBuf {
        self.out_dir.join("cutile")
    }

    /// `manifest.json` of the bundle.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest::read(&self.bundle().join("manifest.json"))
    }
}

/// The profiles of this workspace, so that what it has compiled serves the fixtures too.
fn profiles() -> String {
    let path = workspace_root().join("Cargo.toml");
    let text = fs::read_to_string(path).expect("the manifest of the workspace");
    let start = text.find("[profile.dev]").expect("profiles, at the end of that manifest");
    text[start..].to_owned()
}

/// Copies a folder.
///
/// # Panics
///
/// Where a file cannot be read or written.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a fixture") {
        let entry = entry.expect("a fixture");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a fixture").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a file of the fixture");
        }
    }
}
