//! A line on the terminal, for work that takes longer than a second.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Nothing is shown before.
const QUIET: Duration = Duration::from_secs(1);
/// How often the line changes.
const BETWEEN: Duration = Duration::from_millis(100);

/// Progress of one piece of work. Dropped, its line is gone.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    next: Instant,
    terminal: bool,
    shown: bool,
}

impl Progress {
    /// `what` as `checked`.
    pub(crate) fn of(what: &'static str) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { what, next: Instant::now() + QUIET, terminal, shown: false }
    }

    /// After each step.
    pub(crate) fn step(&mut self, done: usize, all: usize) {
        if let Some(line) = self.line(Instant::now(), done, all) {
            let mut out = io::stderr().lock();
            // That it cannot be shown is no reason to stop.
            let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        }
    }

    fn line(&mut self, now: Instant, done: usize, all: usize) -> Option<String> {
        if !self.terminal || now < self.next {
            return None;
        }
        self.next = now + BETWEEN;
        self.shown = true;
        Some(format!("\r{} {done} of {all}", self.what))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_work_on_a_terminal_shows_a_line_and_not_more_than_ten_a_second() {
        let mut progress = Progress::of("checked");
        progress.terminal = true;
        let start = Instant::now();
        let later = start + QUIET + Duration::from_millis(50);
        assert_eq!(progress.line(start, 1, 9), None);
        assert_eq!(progress.line(later, 2, 9).as_deref(), Some("\rchecked 2 of 9"));
        assert_eq!(progress.line(later + BETWEEN / 2, 3, 9), None);
        assert!(progress.line(later + BETWEEN, 4, 9).is_some());
        progress.terminal = false;
        assert_eq!(progress.line(later + QUIET, 5, 9), None);
        progress.shown = false;
    }
}
