//! Lines for people who look into why something was compiled again.

use std::fmt::Arguments;
use std::io::Write as _;
use std::sync::OnceLock;

/// Prints a line to stderr when `CUTILE_JIT_LOG` is on, as upstream does.
pub(super) fn log(line: Arguments<'_>) {
    static ON: OnceLock<bool> = OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "the one place that reads this variable")]
    let on =
        ON.get_or_init(|| std::env::var("CUTILE_JIT_LOG").is_ok_and(|value| is_on(value.trim())));
    if *on {
        // Not `eprintln!`: where stderr is full or closed it would end the program.
        let _ = writeln!(std::io::stderr(), "{}", line_of(line));
    }
}

fn line_of(line: Arguments<'_>) -> String {
    format!("[cutile::jit] {line}")
}

/// What upstream takes for on.
fn is_on(value: &str) -> bool {
    ["1", "true", "yes", "on"].iter().any(|on| value.eq_ignore_ascii_case(on))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_turn_it_on() {
        for word in ["1", "true", "yes", "on", "ON"] {
            assert!(is_on(word), "{word}");
        }
        for word in ["", "0", "false", "2", "off"] {
            assert!(!is_on(word), "{word}");
        }
    }

    #[test]
    fn lines_have_upstreams_prefix() {
        assert_eq!(line_of(format_args!("a {}", 1)), "[cutile::jit] a 1");
    }
}
