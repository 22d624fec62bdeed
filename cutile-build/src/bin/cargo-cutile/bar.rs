//! The live bar: how far the kernels are, on the last row of the terminal.
//!
//! Cargo draws a bar of its own and knows nothing of this one. So the last row is taken out of what
//! scrolls, as `apt` does it, and cargo has the rows above to itself.

use crate::environ::Environ;
use crate::journal::{Job, Script};
use crate::output::{Paint, clean};
use rustix::termios::tcgetwinsize;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// Nothing is shown for work that takes no longer.
const QUIET: Duration = Duration::from_secs(1);
/// Rows below which a terminal has none to spare, and columns below which nothing fits.
const SMALLEST: (usize, usize) = (5, 30);
/// Columns of the bar itself.
const BAR: usize = 24;

/// What is drawn on the terminal. Dropped, it is gone.
#[derive(Debug)]
pub(crate) struct Bar {
    paint: Paint,
    /// Rows and columns for which the last row is taken.
    drawn: Option<(usize, usize)>,
    last: String,
}

impl Bar {
    /// None where nobody looks, or does not want to see it: the standard error is no terminal, or
    /// a poor one, or cargo would draw nothing either.
    pub(crate) fn wanted(environ: &Environ, arguments: &[OsString]) -> Option<Self> {
        let looked_at = io::stderr().is_terminal() && !refused(environ, arguments);
        looked_at.then(|| Self {
            paint: Paint::for_stderr(environ),
            drawn: None,
            last: String::new(),
        })
    }

    /// Draws how far these are, or removes what is drawn where there is nothing to say.
    pub(crate) fn show(&mut self, scripts: &[&Script], unix_ms: u64) {
        let size = tcgetwinsize(io::stderr())
            .map(|size| (usize::from(size.ws_row), usize::from(size.ws_col)))
            .unwrap_or_default();
        let fits = size.0 >= SMALLEST.0 && size.1 >= SMALLEST.1;
        match line(scripts, unix_ms, size.1, self.paint) {
            Some(line) if fits => self.draw(size, line),
            _ => self.remove(),
        }
    }

    fn draw(&mut self, size: (usize, usize), line: String) {
        let rows = size.0;
        let mut out = String::new();
        if self.drawn != Some(size) {
            // A new last row, without the one that is written on; the region that scrolls, which
            // puts the cursor to its top; and back to where it was.
            out.push_str(&format!("\n\x1b7\x1b[1;{}r\x1b8\x1b[A", rows - 1));
            self.drawn = Some(size);
        } else if self.last == line {
            return;
        }
        out.push_str(&format!("\x1b7\x1b[{rows};1H\x1b[2K{line}\x1b8"));
        write(&out);
        self.last = line;
    }

    /// Gives the last row back.
    pub(crate) fn remove(&mut self) {
        if let Some((rows, _)) = self.drawn.take() {
            write(&format!("\x1b7\x1b[r\x1b[{rows};1H\x1b[2K\x1b8"));
            self.last.clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.remove();
    }
}

/// In one piece, so that nothing of cargo's gets between. That it cannot be shown is no reason to
/// stop.
fn write(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn refused(environ: &Environ, arguments: &[OsString]) -> bool {
    let is = |name: &str, value: &str| environ.get(name).is_some_and(|is| is == value);
    is("TERM", "dumb")
        || is("CARGO_TERM_PROGRESS_WHEN", "never")
        || is("CARGO_TERM_QUIET", "true")
        // Cargo does the same.
        || environ.get("CI").is_some()
        || arguments.iter().any(|argument| argument == "-q" || argument == "--quiet")
}

/// `Kernels [====>     ] 12/36: kernels::gemm<f16> for sm_100, 8 s`, at most `width` columns.
fn line(scripts: &[&Script], unix_ms: u64, width: usize, paint: Paint) -> Option<String> {
    let busy: Vec<&Script> =
        scripts.iter().copied().filter(|s| s.ended.is_none() && !s.targets.is_empty()).collect();
    let since = busy.iter().map(|script| script.unix_ms).min()?;
    if u128::from(unix_ms.saturating_sub(since)) < QUIET.as_millis() {
        return None;
    }
    let done: usize = busy.iter().map(|script| script.done()).sum();
    let all: usize = busy.iter().map(|script| script.jobs.len()).sum();
    let rehearsed: Vec<&str> = busy
        .iter()
        .flat_map(|script| &script.rehearsals)
        .filter(|rehearsal| rehearsal.ended.is_none())
        .map(|rehearsal| &*rehearsal.target)
        .collect();
    let whole: usize = busy.iter().map(|script| script.targets.len()).sum();
    let rehearsals: usize = busy.iter().map(|script| script.rehearsals.len()).sum();
    // More jobs may come. Those that run have asked for about half of theirs.
    let known = (2 * rehearsals).saturating_sub(rehearsed.len()) as f64 / (2 * whole) as f64;
    let share = if all == 0 { 0.0 } else { done as f64 / all as f64 * known.min(1.0) };
    let more = if rehearsed.is_empty() { "" } else { "+" };
    let count = format!("{done}/{all}{more}");
    let running = busy.iter().flat_map(|script| {
        let running = script.jobs.iter().filter(|job| job.is_running());
        running.filter_map(|job| Some((script.unix_ms + job.started?, job)))
    });
    let what = match running.min_by_key(|(started, _)| *started) {
        Some((started, job)) => current(job, unix_ms.saturating_sub(started)),
        None if !rehearsed.is_empty() => format!("warm-ups on {}", rehearsed.join(", ")),
        None if done == all => "writing them".to_owned(),
        None => "waiting for a free slot".to_owned(),
    };

    let head = format!("{:>12}", "Kernels");
    let bar = if width >= head.len() + BAR + 40 { bar(share) } else { String::new() };
    let mut rest = format!(" {bar}{count}: {}", clean(&what));
    // One column less: a terminal may go to the next row after its last one.
    let room = width.saturating_sub(head.len() + 1);
    if rest.chars().count() > room {
        rest = rest.chars().take(room.saturating_sub(1)).chain(['…']).collect();
    }
    Some(format!("{}{rest}", paint.bold_cyan(&head)))
}

fn current(job: &Job, ms: u64) -> String {
    // What a job is of is known when the warm-ups have ended; its digest would tell a person nothing.
    let name = if job.kernels.is_empty() { "a kernel".to_owned() } else { job.name() };
    format!("{name} for {}, {} s", job.target, ms / 1000)
}

fn bar(share: f64) -> String {
    let room = BAR - 3;
    let filled = ((room as f64 * share) as usize).min(room);
    let head = if filled < room { ">" } else { "" };
    let bar = format!("{}{head}", "=".repeat(filled));
    format!("[{bar:room$}] ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::script_of as script;
    use cutile_build::events::{Event, JobOutcome};

    fn busy() -> Vec<(u64, Event)> {
        let begin = Event::Script { package: "app".into(), version: "0.1.0".into(), unix_ms: 1000 };
        let queued = |job: &str| Event::JobQueued { job: job.into(), target: "sm_90".into() };
        vec![
            (0, begin),
            (1, Event::Targets { targets: vec!["sm_90".into()] }),
            (2, Event::RehearsalStarted { target: "sm_90".into() }),
            (100, queued("0123456789abcdef")),
            (110, queued("b")),
        ]
    }

    fn started(mut lines: Vec<(u64, Event)>) -> Vec<(u64, Event)> {
        lines.extend([
            (200, Event::RehearsalEnded { target: "sm_90".into(), error: None }),
            (200, Event::JobNamed { job: "b".into(), kernel: "k::gemm<f16, \u{1b}[31m>".into() }),
            (300, Event::JobStarted { job: "0123456789abcdef".into(), slot: 0 }),
            (400, Event::JobStarted { job: "b".into(), slot: 1 }),
        ]);
        lines
    }

    fn shown(lines: Vec<(u64, Event)>, unix_ms: u64, width: usize) -> Option<String> {
        line(
            &[&script(lines)],
            unix_ms,
            width,
            Paint::for_stderr(&Environ::of(&[("NO_COLOR", "1")])),
        )
    }

    #[test]
    fn it_says_how_many_are_done_which_job_runs_longest_and_since_when() {
        assert_eq!(
            shown(busy(), 2500, 100).unwrap(),
            "     Kernels [>                    ] 0/2+: warm-ups on sm_90"
        );
        let mut lines = started(busy());
        assert_eq!(
            shown(lines.clone(), 9500, 100).unwrap(),
            "     Kernels [>                    ] 0/2: a kernel for sm_90, 8 s"
        );
        lines.push((
            9000,
            Event::JobEnded {
                job: "0123456789abcdef".into(),
                slot: 0,
                outcome: JobOutcome::Compiled { bytes: 1 },
            },
        ));
        assert_eq!(
            shown(lines, 12_500, 100).unwrap(),
            "     Kernels [==========>          ] 1/2: k::gemm<f16, \u{fffd}[31m> for sm_90, 11 s"
        );
        assert_eq!(bar(1.0), "[=====================] ");
    }

    #[test]
    fn it_is_not_full_while_jobs_may_come() {
        let mut lines = busy();
        for job in ["0123456789abcdef", "b"] {
            let outcome = JobOutcome::Cached { bytes: 1 };
            lines.push((150, Event::JobEnded { job: job.into(), slot: 0, outcome }));
        }
        assert_eq!(
            shown(lines, 9500, 100).unwrap(),
            "     Kernels [==========>          ] 2/2+: warm-ups on sm_90"
        );
    }

    #[test]
    fn it_fits_any_terminal() {
        for width in 30..120 {
            let line = shown(started(busy()), 9500, width).unwrap();
            assert!(line.chars().count() < width, "{width}: {line}");
            assert!(line.contains("0/2: a ke"), "{line}");
        }
    }

    #[test]
    fn nothing_is_drawn_for_a_second_and_nothing_once_the_script_ended() {
        assert_eq!(shown(busy(), 1999, 100), None);
        let mut lines = busy();
        lines.push((5000, Event::ScriptEnded { error: None }));
        assert_eq!(shown(lines, 9000, 100), None);
        // A crate with shaders only.
        assert_eq!(shown(busy().drain(..1).collect(), 9000, 100), None);
    }

    #[test]
    fn it_is_not_drawn_where_cargo_would_draw_nothing() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(!refused(&Environ::of(&[("TERM", "xterm")]), &words("build --release")));
        assert!(refused(&Environ::of(&[]), &words("build -q")));
        assert!(refused(&Environ::of(&[]), &words("build --quiet")));
        for variable in [("TERM", "dumb"), ("CI", "true"), ("CARGO_TERM_PROGRESS_WHEN", "never")] {
            assert!(refused(&Environ::of(&[variable]), &words("build")), "{variable:?}");
        }
    }
}
