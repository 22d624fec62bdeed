//! What is printed: colours where a person reads, tables within 80 columns, no control characters
//! of a file's.

use crate::environ::Environ;
use crate::failure::Failure;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

/// Columns of a terminal that every text fits into.
pub(crate) const WIDTH: usize = 80;

/// Whether colours are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// On a terminal that knows colours, unless `NO_COLOR` is set (<https://no-color.org>).
    pub(crate) fn for_stdout(environ: &Environ) -> Self {
        Self(Self::wanted(environ) && io::stdout().is_terminal())
    }

    /// The same for what goes to the standard error.
    pub(crate) fn for_stderr(environ: &Environ) -> Self {
        Self(Self::wanted(environ) && io::stderr().is_terminal())
    }

    fn wanted(environ: &Environ) -> bool {
        environ.get("NO_COLOR").is_none() && environ.get("TERM").is_none_or(|term| term != "dumb")
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// As cargo paints the name of what it does.
    pub(crate) fn bold_cyan(self, text: &str) -> String {
        self.with("1;36", text)
    }

    /// As cargo paints the name of what it did.
    pub(crate) fn bold_green(self, text: &str) -> String {
        self.with("1;32", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }
}

/// Writes to the standard output. That nobody reads it to its end, as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("cannot write to the standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line to the standard error. That it cannot be written is no reason to stop.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::to_stderr(&format!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say;

/// Writes to the standard error, where that can be.
pub(crate) fn to_stderr(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// `error: …`, without what a terminal would obey: an error names paths and what files say.
pub(crate) fn say_error(failure: &Failure) {
    let text = failure.to_string();
    let lines: Vec<String> = text.lines().map(|line| clean(&line.replace('\t', "    "))).collect();
    say!("error: {}", lines.join("\n"));
}

/// Writes JSON, for a program.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// A text of a file without what a terminal would take for a command or for another order.
pub(crate) fn clean(text: &str) -> String {
    let unsafe_for_terminals =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.replace(unsafe_for_terminals, "\u{fffd}")
}

/// A path, by the same rule: a name with a line break in it would look like a line of ours.
pub(crate) fn shown(path: &Path) -> String {
    clean(&path.display().to_string())
}

/// `608.7 kB`; bytes below 1000 as they are.
pub(crate) fn size(bytes: u64) -> String {
    let (number, unit) = scaled(bytes);
    if unit.is_empty() { format!("{number} B") } else { format!("{number} {unit}B") }
}

/// `608.7k`, for a column of a table: at most 6 characters.
pub(crate) fn cell(bytes: u64) -> String {
    let (number, unit) = scaled(bytes);
    format!("{number}{unit}")
}

fn scaled(bytes: u64) -> (String, &'static str) {
    let mut value = bytes as f64;
    let mut units = ["", "k", "M", "G", "T"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // 999.95 would be shown as 1000.0.
    while value >= 999.95
        && let Some(next) = units.next()
    {
        value /= 1000.0;
        unit = next;
    }
    (if unit.is_empty() { bytes.to_string() } else { format!("{value:.1}") }, unit)
}

/// `1 kernel`, `2 kernels`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Appends `text` in lines of at most [`WIDTH`] columns, broken at spaces where there are any; the
/// first after `first`, the others after as many spaces as `indent`.
pub(crate) fn wrap(out: &mut String, first: &str, indent: usize, text: &str) {
    let room = WIDTH.saturating_sub(indent).max(20);
    let mut prefix = format!("{first:<indent$}");
    let mut line = String::new();
    let mut flush = |prefix: &mut String, line: &mut String| {
        let _ = writeln!(out, "{}", format!("{prefix}{line}").trim_end());
        *prefix = " ".repeat(indent);
        line.clear();
    };
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        let used = line.chars().count();
        if used > 0 && used + 1 + word.len() > room {
            flush(&mut prefix, &mut line);
        }
        // What has no space is broken where it has to be.
        while word.len() > room {
            line.extend(word.drain(..room));
            flush(&mut prefix, &mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    flush(&mut prefix, &mut line);
}

/// Appends lines, each painted by itself.
pub(crate) fn painted(out: &mut String, lines: &str, paint: impl Fn(&str) -> String) {
    for line in lines.lines() {
        out.push_str(&paint(line));
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal_and_fit_their_column() {
        for (bytes, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (608_711, "608.7k"),
            (999_949, "999.9k"),
            (999_950, "1.0M"),
            (3_108_200, "3.1M"),
            (u64::from(u32::MAX), "4.3G"),
        ] {
            assert_eq!(cell(bytes), text);
            assert!(cell(bytes).len() <= 6);
        }
        assert_eq!((size(12), size(12_345)), ("12 B".into(), "12.3 kB".into()));
        assert_eq!(
            (count(1, "kernel"), count(0, "kernel")),
            ("1 kernel".into(), "0 kernels".into())
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        assert_eq!(clean("a\x1b[31mb\n\u{202e}c×ü"), "a\u{fffd}[31mb\u{fffd}\u{fffd}c×ü");
    }

    #[test]
    fn lines_are_broken_at_spaces_and_within_words_only_where_they_must() {
        let mut out = String::new();
        wrap(&mut out, "  name", 10, &format!("{} {}", "word ".repeat(20).trim(), "x".repeat(90)));
        assert!(out.lines().all(|line| line.chars().count() <= WIDTH), "{out}");
        assert!(
            out.starts_with("  name    word word")
                && out.lines().nth(1).unwrap().starts_with("          ")
        );
        assert_eq!(out.matches('x').count(), 90);
        let mut out = String::new();
        wrap(&mut out, "a", 2, "");
        assert_eq!(out, "a\n");
    }

    #[test]
    fn no_color_and_a_dumb_terminal_are_honoured() {
        assert!(Paint::wanted(&Environ::of(&[("TERM", "xterm")])));
        assert!(Paint::wanted(&Environ::of(&[("NO_COLOR", "")])));
        assert!(!Paint::wanted(&Environ::of(&[("NO_COLOR", "1")])));
        assert!(!Paint::wanted(&Environ::of(&[("TERM", "dumb")])));
        assert_eq!(Paint(false).red("x"), "x");
        assert_eq!(Paint(true).red("x"), "\x1b[31mx\x1b[0m");
    }
}
