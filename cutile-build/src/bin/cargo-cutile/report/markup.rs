//! Text of others as text of a page, and how times are written.

use crate::output::clean;
use std::fmt::Write as _;

/// A text in which nothing is markup, in an element or in an attribute with quotes. Lines stay.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(char),
            char => out.push_str(&clean(char.encode_utf8(&mut [0; 4]))),
        }
    }
    out
}

/// A kernel's name, which may be broken after `::` and `,`.
pub(super) fn kernel(name: &str) -> String {
    text(name).replace("::", "::<wbr>").replace(", ", ",<wbr> ")
}

/// What targets are sorted by, so that sm_90 comes before sm_100.
pub(super) fn by_number(target: &str) -> (u32, &str) {
    let digits = target.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic);
    (digits.parse().unwrap_or(u32::MAX), target)
}

/// `0.35 s`, `12.3 s`, `2 min 05 s`.
pub(super) fn time(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{:.2} s", ms as f64 / 1000.0),
        10_000..120_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => {
            let seconds = (ms + 500) / 1000;
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

/// `2026-11-30 12:31 UTC`.
pub(super) fn date(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let (year, month, day) = civil(minutes / (24 * 60));
    let mut out = format!("{year:04}-{month:02}-{day:02}");
    let _ = write!(out, " {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60);
    out
}

/// Year, month and day of a day since 1970, after Howard Hinnant's `civil_from_days`: an era is
/// 400 years, a year begins with March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_is_markup() {
        assert_eq!(
            text("k<f16, &'a \"x\">\u{1b}[1m\n\u{202e}"),
            "k&lt;f16, &amp;&#39;a &quot;x&quot;&gt;\u{fffd}[1m\n\u{fffd}"
        );
        assert_eq!(kernel("a::b<c, d>"), "a::<wbr>b&lt;c,<wbr> d&gt;");
    }

    #[test]
    fn times_have_three_digits_or_minutes() {
        for (ms, written) in [
            (0, "0.00 s"),
            (354, "0.35 s"),
            (9_990, "9.99 s"),
            (12_340, "12.3 s"),
            (125_400, "2 min 05 s"),
            (3_600_000, "60 min 00 s"),
        ] {
            assert_eq!(time(ms), written);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, written) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_164_799, "2024-02-28 23:59 UTC"),
            (1_796_041_860, "2026-11-30 12:31 UTC"),
            (4_102_444_800, "2100-01-01 00:00 UTC"),
        ] {
            assert_eq!(date(seconds * 1000), written);
        }
    }
}
