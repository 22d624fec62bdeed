//! A test binary that runs itself as another process: what caches are for shows in no process alone.
//!
//! The parent starts one test by its name and tells it through standard input what to do. A variable
//! says that it is a child: without it, in a run of all tests, such a test does nothing.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// Marks what a child says among what the test harness prints.
const MARK: &str = "child: ";

/// The variable that a child has.
const IS_CHILD: &str = "CUTILE_TEST_IS_CHILD";

/// The command that runs the test `name` of this binary as a process of its own.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command
}

/// Starts it and hands the lines over.
pub(crate) fn start(mut command: Command, lines: &[&str]) -> Child {
    let mut child = command
        .env(IS_CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // Dropped at the end of the statement: the child reads until then. One that is gone already has
    // said why, and `finish` shows it.
    let _ = child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes());
    child
}

/// What it says. Fails where it fails.
pub(crate) fn finish(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    assert!(stdout.contains("1 passed"), "the child ran no test:\n{stdout}\n{stderr}");
    // The harness leaves its own line open.
    let said = stdout.lines().filter_map(|line| line.split_once(MARK));
    said.map(|(_, said)| said.to_owned()).collect()
}

/// In the child: the lines it was handed; none in a run of all tests.
pub(crate) fn lines() -> Vec<String> {
    let mut text = String::new();
    #[allow(clippy::disallowed_methods, reason = "the one variable that a child is given")]
    if std::env::var_os(IS_CHILD).is_some() {
        std::io::stdin().read_to_string(&mut text).unwrap();
    }
    text.lines().map(String::from).collect()
}

/// In the child: says a line to the parent.
pub(crate) fn say(line: &str) {
    println!("{MARK}{line}");
}
