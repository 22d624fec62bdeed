//! A bar a job, on its slot.

use super::markup::{by_number, text, time};
use crate::journal::{Job, Rehearsal, Script};
use crate::output::{count, size};
use cutile_build::events::JobOutcome;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Height of a lane, as in the style, and of a bar in it.
const LANE: u64 = 26;
const BAR: u64 = 18;
/// Where time stands still it is still shown.
const SHORTEST: u64 = 100;
/// Of the width, in thousandths: a shorter bar has no edge, and no label.
const THIN: u64 = 8;
const LABELLED: u64 = 40;
/// At most so many lines with a time.
const TICKS: u64 = 6;

/// A section with the timeline of a build script. It is in percent of its width, so that it fits
/// any, and its text is not scaled.
pub(super) fn section(out: &mut String, index: usize, script: &Script) {
    let whole = script.end().max(SHORTEST);
    let mut rehearsals: Vec<&Rehearsal> = script.rehearsals.iter().collect();
    rehearsals.sort_by_key(|rehearsal| (by_number(&rehearsal.target), rehearsal.started));
    let slots = script.jobs.iter().filter(|job| job.ended.is_some() || job.started.is_some());
    let slots = slots.map(|job| job.slot + 1).max().unwrap_or(0);
    let lanes = script.rehearsals.len() + slots;
    let name = format!("{} {}", text(&script.package), text(&script.version));
    let busy: u64 = script.jobs.iter().filter_map(Job::took).sum();
    let _ = write!(
        out,
        "<section aria-labelledby=\"timeline-{index}\">\n\
         <h2 id=\"timeline-{index}\">Timeline of {name}</h2>\n"
    );
    if lanes == 0 {
        out.push_str("<p>It ended before a warm-up ran.</p>\n</section>\n");
        return;
    }
    let _ = write!(
        out,
        "<p>{} for {} in {}, on {}",
        count(script.jobs.len(), "job"),
        text(&script.targets.join(", ")),
        time(whole),
        count(slots, "slot")
    );
    if let Some(share) = (100 * busy).checked_div(slots as u64 * whole)
        && busy > 0
    {
        let _ = write!(out, "; slots were busy for {share}&nbsp;% of it");
    }
    let _ = write!(
        out,
        ". The same as a table: <a href=\"#jobs\">all jobs</a>.</p>\n\
         <ul class=\"legend\" aria-hidden=\"true\"><li class=\"before\">start: toolkit, \
         virtual GPU</li><li class=\"rehearsal\">warm-ups on it</li><li class=\"compiled\">tileiras</li><li class=\"cached\">build cache</li>\
         <li class=\"failed\">failed</li></ul>\n<div class=\"timeline\">\n<div class=\"lanes\" \
         aria-hidden=\"true\">"
    );
    for rehearsal in &rehearsals {
        let _ = write!(out, "<span>{}</span>", text(&rehearsal.target));
    }
    for slot in 0..slots {
        let _ = write!(out, "<span>slot {}</span>", slot + 1);
    }
    let height = (lanes as u64 + 1) * LANE;
    let _ = write!(
        out,
        "</div>\n<svg role=\"img\" aria-label=\"Timeline of {name}\" width=\"100%\" \
         height=\"{height}\">\n"
    );
    grid(out, whole, height);
    if let Some(end) = script.rehearsals.iter().map(|rehearsal| rehearsal.started).min() {
        let lane = rehearsals.iter().position(|rehearsal| rehearsal.started == end).unwrap_or(0);
        let title = format!("the toolkit is identified, the virtual GPU compiled: {}", time(end));
        let label = "start".to_owned();
        bar(out, whole, lane, &Shown { class: "before", start: 0, end, label, title });
    }
    for (lane, rehearsal) in rehearsals.iter().enumerate() {
        bar(out, whole, lane, &of_rehearsal(rehearsal, script));
    }
    let shown = |(row, job)| Some((row, job, of_job(job, script)?));
    let mut jobs: Vec<(usize, &Job, Shown)> =
        script.jobs.iter().enumerate().filter_map(shown).collect();
    // Short ones last: what is drawn later is not covered.
    jobs.sort_by_key(|(_, _, shown)| Reverse(shown.end.saturating_sub(shown.start)));
    for (row, job, shown) in &jobs {
        let _ = write!(out, "<a href=\"#job-{index}-{row}\" tabindex=\"-1\">");
        bar(out, whole, script.rehearsals.len() + job.slot, shown);
        out.push_str("</a>");
    }
    out.push_str("</svg>\n</div>\n</section>\n");
}

/// Something with a beginning and an end.
struct Shown {
    class: &'static str,
    start: u64,
    end: u64,
    label: String,
    title: String,
}

fn of_rehearsal(rehearsal: &Rehearsal, script: &Script) -> Shown {
    let Rehearsal { target, started, ended, error } = rehearsal;
    let end = ended.unwrap_or(script.end());
    Shown {
        class: if error.is_some() { "failed" } else { "rehearsal" },
        start: *started,
        end,
        label: "warm-ups".to_owned(),
        title: format!("warm-ups on a virtual {target}: {}", time(end.saturating_sub(*started))),
    }
}

fn of_job(job: &Job, script: &Script) -> Option<Shown> {
    let start = job.started.or(job.ended)?;
    let end = job.ended.unwrap_or(script.end());
    let (class, what) = match &job.outcome {
        Some(JobOutcome::Compiled { bytes }) => ("compiled", size(*bytes)),
        Some(JobOutcome::Cached { bytes }) => ("cached", format!("{}, build cache", size(*bytes))),
        Some(JobOutcome::Failed { .. }) => ("failed", "failed".to_owned()),
        _ => ("unended", "did not end".to_owned()),
    };
    let name = job.name();
    let took = time(end.saturating_sub(start));
    Some(Shown {
        class,
        start,
        end,
        label: format!("{} {}", without_module(&name), job.target),
        title: format!("{name} for {}: {took}, {what}", job.target),
    })
}

/// `gemm<f16>` of `kernels::gemm<f16>`.
fn without_module(name: &str) -> &str {
    let generics = name.find('<').unwrap_or(name.len());
    name[..generics].rfind("::").map_or(name, |at| &name[at + 2..])
}

fn bar(out: &mut String, whole: u64, lane: usize, shown: &Shown) {
    let Shown { class, start, end, label, title } = shown;
    let x = percent(*start, whole);
    let width = percent(end.saturating_sub(*start), whole);
    let y = (lane as u64 + 1) * LANE + (LANE - BAR) / 2;
    let per_mille = end.saturating_sub(*start) * 1000 / whole;
    // Its edge would be all of it, and one without a width is not drawn.
    let (thin, least) = match per_mille {
        0..THIN => {
            (" thin", format!("<line x1=\"{x}%\" y1=\"{y}\" x2=\"{x}%\" y2=\"{}\"/>", y + BAR))
        }
        _ => ("", String::new()),
    };
    // The text in a picture of its own, which cuts it off at the end of the bar.
    let label = match per_mille {
        0..LABELLED => String::new(),
        _ => format!(
            "<svg x=\"{x}%\" y=\"{y}\" width=\"{width}%\" height=\"{BAR}\">\
             <text x=\"4\" y=\"13\">{}</text></svg>",
            text(label)
        ),
    };
    let _ = writeln!(
        out,
        "<g class=\"{class}{thin}\"><title>{}</title>\
         <rect x=\"{x}%\" y=\"{y}\" width=\"{width}%\" height=\"{BAR}\" rx=\"2\"/>{least}{label}</g>",
        text(title)
    );
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.3}", part as f64 * 100.0 / whole as f64)
}

/// Lines at round times.
fn grid(out: &mut String, whole: u64, height: u64) {
    let step = step(whole);
    for tick in (0..).map(|tick| tick * step).take_while(|tick| *tick <= whole) {
        let x = percent(tick, whole);
        let (anchor, shift) = match tick {
            0 => ("start", 0),
            // At the right end there is no room for a text around its line.
            _ if tick * 100 > whole * 92 => ("end", -4),
            _ => ("middle", 0),
        };
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{x}%\" y1=\"20\" x2=\"{x}%\" y2=\"{height}\"/>\
             <text class=\"tick\" x=\"{x}%\" dx=\"{shift}\" y=\"14\" text-anchor=\"{anchor}\">{}\
             </text>",
            round(tick, step)
        );
    }
}

/// The shortest round time that gives few lines.
fn step(whole: u64) -> u64 {
    const ROUND: [u64; 15] = [
        20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000,
        600_000,
    ];
    let few = |step: &&u64| whole / **step < TICKS;
    ROUND.iter().find(few).copied().unwrap_or(whole / (TICKS - 1))
}

/// All lines of a timeline in one unit.
fn round(ms: u64, step: u64) -> String {
    match step.is_multiple_of(60_000) {
        true => format!("{} min", ms / 60_000),
        false => format!("{} s", ms as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_few_lines_at_round_times() {
        for (whole, expected) in [(100, 20), (3_999, 1000), (41_000, 10_000), (700_000, 120_000)] {
            assert_eq!(step(whole), expected);
        }
        let week = 7 * 24 * 3600 * 1000;
        assert!(week / step(week) <= TICKS);
        assert_eq!((round(0, 500), round(1500, 500)), ("0 s".into(), "1.5 s".into()));
        assert_eq!((round(0, 60_000), round(120_000, 60_000)), ("0 min".into(), "2 min".into()));
    }

    #[test]
    fn a_label_has_no_module() {
        assert_eq!(without_module("a::b::gemm<f16, c::D>"), "gemm<f16, c::D>");
        assert_eq!(without_module("job 0123456789ab"), "job 0123456789ab");
    }
}
