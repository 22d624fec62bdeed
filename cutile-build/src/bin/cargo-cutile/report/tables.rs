//! Slowest jobs, sizes, all jobs.

use super::markup::{by_number, kernel, text, time};
use crate::journal::{Job, Script};
use crate::output::size;
use cutile_build::events::JobOutcome;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// How many jobs are slowest.
const SLOWEST: usize = 15;

/// A table that scrolls in itself where it is too wide, by keyboard as well.
fn table(out: &mut String, id: &str, title: &str, head: &str, rows: &str) {
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">\n\
         <table id=\"{id}\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n\
         </div>\n"
    );
}

/// The jobs that tileiras took longest for.
pub(super) fn slowest(out: &mut String, scripts: &[&Script]) {
    let mut jobs: Vec<(u64, &Job)> = scripts
        .iter()
        .flat_map(|script| &script.jobs)
        .filter_map(|job| Some((job.took()?, job)))
        .collect();
    jobs.sort_by_key(|(took, job)| (std::cmp::Reverse(*took), job.name(), job.target.clone()));
    let Some((longest, _)) = jobs.first().copied() else { return };
    let mut rows = String::new();
    for (took, job) in jobs.iter().take(SLOWEST) {
        let share = (took * 100).checked_div(longest).unwrap_or(0);
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\"><code>{}</code></th><td>{}</td>\
             <td class=\"number share\" style=\"--of:{share}%\">{}</td>\
             <td class=\"number\">{}</td></tr>",
            kernel(&job.name()),
            text(&job.target),
            time(*took),
            bytes(job)
        );
    }
    let title = match jobs.len() > SLOWEST {
        true => format!("The {SLOWEST} slowest jobs of {}", jobs.len()),
        false => "Slowest jobs".to_owned(),
    };
    let _ = write!(
        out,
        "<section aria-labelledby=\"slowest-title\">\n<h2 id=\"slowest-title\">{title}</h2>\n"
    );
    let head = "<th scope=\"col\">Kernel</th><th scope=\"col\">Target</th>\
                <th scope=\"col\" class=\"number\">tileiras</th>\
                <th scope=\"col\" class=\"number\">Image</th>";
    table(out, "slowest", &title, head, &rows);
    out.push_str("</section>\n");
}

/// What the images of a kernel take for a target.
#[derive(Default, Clone, Copy)]
struct Cell {
    images: usize,
    bytes: u64,
}

impl Cell {
    fn add(&mut self, bytes: u64) {
        self.images += 1;
        self.bytes += bytes;
    }
}

/// Sizes, a row a kernel and a column a target.
pub(super) fn sizes(out: &mut String, scripts: &[&Script]) {
    let mut by_kernel: BTreeMap<(&str, String), BTreeMap<&str, Cell>> = BTreeMap::new();
    let mut targets = BTreeSet::new();
    for script in scripts {
        for job in &script.jobs {
            let Some(bytes) = job.bytes() else { continue };
            targets.insert(by_number(&job.target));
            let of_kernel = by_kernel.entry((&script.package, job.name())).or_default();
            of_kernel.entry(&job.target).or_default().add(bytes);
        }
    }
    if by_kernel.is_empty() {
        return;
    }
    let largest = by_kernel.values().flat_map(BTreeMap::values).map(|cell| cell.bytes).max();
    let largest = largest.unwrap_or_default();
    let mut head = "<th scope=\"col\">Kernel</th>".to_owned();
    for (_, target) in &targets {
        let _ = write!(head, "<th scope=\"col\" class=\"number\">{}</th>", text(target));
    }
    head.push_str("<th scope=\"col\" class=\"number\">All</th>");
    let mut rows = String::new();
    let mut totals: BTreeMap<&str, Cell> = BTreeMap::new();
    let mut total = Cell::default();
    for ((_, name), cells) in &by_kernel {
        let _ = write!(rows, "<tr><th scope=\"row\"><code>{}</code></th>", kernel(name));
        let mut whole = Cell::default();
        for (_, target) in &targets {
            let Some(cell) = cells.get(target) else {
                rows.push_str("<td class=\"number\">–</td>");
                continue;
            };
            let share = (cell.bytes * 100).checked_div(largest).unwrap_or(0);
            let _ = write!(
                rows,
                "<td class=\"number share\" style=\"--of:{share}%\">{}</td>",
                written(*cell)
            );
            for sum in [&mut whole, totals.entry(target).or_default(), &mut total] {
                sum.images += cell.images;
                sum.bytes += cell.bytes;
            }
        }
        let _ = writeln!(rows, "<td class=\"number\">{}</td></tr>", written(whole));
    }
    rows.push_str("<tr class=\"total\"><th scope=\"row\">All</th>");
    for (_, target) in &targets {
        let cell = totals.get(target).copied().unwrap_or_default();
        let _ = write!(rows, "<td class=\"number\">{}</td>", written(cell));
    }
    let _ = writeln!(rows, "<td class=\"number\">{}</td></tr>", written(total));
    out.push_str(
        "<section aria-labelledby=\"sizes-title\">\n<h2 id=\"sizes-title\">Sizes by kernel and \
         target</h2>\n<p>Images as tileiras made them; × is how many there are, one a \
         specialization.</p>\n",
    );
    table(out, "sizes", "Sizes by kernel and target", &head, &rows);
    out.push_str("</section>\n");
}

fn written(cell: Cell) -> String {
    match cell.images {
        1 => size(cell.bytes),
        images => format!("{}<small> ×{images}</small>", size(cell.bytes)),
    }
}

fn bytes(job: &Job) -> String {
    job.bytes().map_or_else(|| "–".to_owned(), size)
}

/// Everything that the timelines show.
pub(super) fn all(out: &mut String, scripts: &[&Script]) {
    let jobs: usize = scripts.iter().map(|script| script.jobs.len()).sum();
    let rehearsals: usize = scripts.iter().map(|script| script.rehearsals.len()).sum();
    if jobs + rehearsals == 0 {
        return;
    }
    let with_package = scripts.len() > 1;
    let package = |script: &Script| match with_package {
        true => format!("<td>{}</td>", text(&script.package)),
        false => String::new(),
    };
    let mut rows = String::new();
    for (index, script) in scripts.iter().enumerate() {
        for rehearsal in &script.rehearsals {
            let took = rehearsal.ended.map(|end| end.saturating_sub(rehearsal.started));
            let what = match (&rehearsal.error, took) {
                (Some(_), _) => "failed",
                (None, Some(_)) => "warm-ups",
                (None, None) => "did not end",
            };
            let _ = writeln!(
                rows,
                "<tr>{}<th scope=\"row\">warm-ups</th><td>{}</td><td>–</td>\
                 <td class=\"number\">{}</td><td class=\"number\">{}</td><td>{what}</td>\
                 <td class=\"number\">–</td></tr>",
                package(script),
                text(&rehearsal.target),
                time(rehearsal.started),
                took.map_or_else(|| "–".to_owned(), time),
            );
        }
        for (row, job) in script.jobs.iter().enumerate() {
            let _ = writeln!(
                rows,
                "<tr id=\"job-{index}-{row}\">{}<th scope=\"row\"><code>{}</code></th><td>{}</td>\
                 <td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td>\
                 <td class=\"number\">{}</td></tr>",
                package(script),
                kernel(&job.name()),
                text(&job.target),
                match job.started.or(job.ended) {
                    Some(_) => format!("slot {}", job.slot + 1),
                    None => "–".to_owned(),
                },
                job.started.or(job.ended).map_or_else(|| "–".to_owned(), time),
                job.took().map_or_else(|| "–".to_owned(), time),
                outcome(job),
                bytes(job)
            );
        }
    }
    let mut head = String::new();
    if with_package {
        head.push_str("<th scope=\"col\">Package</th>");
    }
    head.push_str(
        "<th scope=\"col\">Kernel</th><th scope=\"col\">Target</th><th scope=\"col\">Where</th>\
         <th scope=\"col\" class=\"number\">Began at</th>\
         <th scope=\"col\" class=\"number\">Took</th><th scope=\"col\">Outcome</th>\
         <th scope=\"col\" class=\"number\">Image</th>",
    );
    out.push_str(
        "<section aria-labelledby=\"jobs-title\">\n<h2 id=\"jobs-title\">All jobs</h2>\n\
         <p>In the order in which the warm-ups asked for them.</p>\n",
    );
    table(out, "jobs", "All jobs", &head, &rows);
    out.push_str("</section>\n");
}

fn outcome(job: &Job) -> &'static str {
    match &job.outcome {
        Some(JobOutcome::Compiled { .. }) => "tileiras",
        Some(JobOutcome::Cached { .. }) => "build cache",
        Some(JobOutcome::Failed { .. }) => "failed",
        _ if job.started.is_some() => "did not end",
        _ => "did not begin",
    }
}
