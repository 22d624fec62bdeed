//! What the build was, what came of it, and what failed.

use super::Report;
use super::markup::{by_number, date, kernel, text, time};
use crate::journal::{Job, Script};
use crate::output::size;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Title, how it ended, and the figures.
pub(super) fn header(out: &mut String, report: &Report<'_>) {
    let (class, ended) = match report.status.success() {
        true => ("good", "It succeeded".to_owned()),
        false => ("bad", format!("It failed ({})", report.status)),
    };
    let _ = write!(
        out,
        "<header>\n<h1>Kernels of <code>{}</code></h1>\n\
         <p><strong class=\"{class}\">{}</strong> after {}. It began {}.</p>\n",
        text(&report.command_line()),
        text(&ended),
        time(report.took),
        date(report.began)
    );
    let scripts: Vec<&Script> = report.with_kernels().collect();
    if scripts.is_empty() {
        out.push_str("</header>\n");
        return;
    }
    let jobs = || scripts.iter().flat_map(|script| &script.jobs);
    let sum = |of: fn(&Script) -> usize| scripts.iter().map(|script| of(script)).sum::<usize>();
    let targets: BTreeSet<(u32, &str)> =
        scripts.iter().flat_map(|script| &script.targets).map(|name| by_number(name)).collect();
    let targets: Vec<&str> = targets.into_iter().map(|(_, name)| name).collect();
    let packages: Vec<&str> = scripts.iter().map(|script| &*script.package).collect();
    let compiling: u64 = jobs().filter_map(Job::took).sum();
    let failed = jobs().filter(|job| job.failure().is_some()).count();
    out.push_str("<dl class=\"figures\">\n");
    let mut figure = |what: &str, value: &str, note: &str| {
        let note = match note {
            "" => String::new(),
            note => format!("<small>{}</small>", text(note)),
        };
        let _ = writeln!(out, "<div><dt>{what}</dt><dd>{}{note}</dd></div>", text(value));
    };
    figure(if packages.len() == 1 { "Package" } else { "Packages" }, &packages.join(", "), "");
    figure(if targets.len() == 1 { "Target" } else { "Targets" }, &targets.join(", "), "");
    let longest = scripts.iter().map(|script| script.end()).max().unwrap_or_default();
    let longest_of = if scripts.len() == 1 { "" } else { "the longest" };
    figure("Build script", &time(longest), longest_of);
    let whole = match compiling {
        0 => String::new(),
        _ => format!("{} all together", time(compiling)),
    };
    figure("tileiras processes", &sum(Script::processes).to_string(), &whole);
    let of = format!("of {} jobs", sum(|script| script.jobs.len()));
    figure("Build cache hits", &sum(Script::hits).to_string(), &of);
    let bytes = jobs().filter_map(Job::bytes).sum();
    let images = jobs().filter(|job| job.bytes().is_some()).count();
    figure("Images", &size(bytes), &format!("{images}, not compressed"));
    let bundles = scripts.iter().filter_map(|script| script.bundle);
    let specializations: usize = bundles.map(|bundle| bundle.specializations).sum();
    if specializations > 0 {
        figure("Specializations", &specializations.to_string(), "");
    }
    if failed > 0 {
        figure("Failed jobs", &failed.to_string(), "");
    }
    out.push_str("</dl>\n</header>\n");
}

/// Jobs, rehearsals and build scripts that failed, with what they said.
pub(super) fn failures(out: &mut String, report: &Report<'_>) {
    let mut items = String::new();
    for script in report.scripts {
        for rehearsal in &script.rehearsals {
            if let Some(error) = &rehearsal.error {
                let what = format!("warm-ups on a virtual {}", text(&rehearsal.target));
                item(&mut items, script, &what, error);
            }
        }
        let mut job_failed = false;
        for job in &script.jobs {
            if let Some(error) = job.failure() {
                job_failed = true;
                let target = text(&job.target);
                let what = format!("<code>{}</code> for {target}", kernel(&job.name()));
                item(&mut items, script, &what, error);
            }
        }
        match &script.error {
            // The jobs say it.
            Some(_) if job_failed => {}
            Some(error) => item(&mut items, script, "the build script", error),
            None if script.ended.is_none() => {
                let running: Vec<String> =
                    script.jobs.iter().filter(|job| job.is_running()).map(Job::name).collect();
                let while_of = match running.is_empty() {
                    true => String::new(),
                    false => format!(" while tileiras ran for {}", running.join(", ")),
                };
                let error = format!("It did not come to its end{while_of}.");
                item(&mut items, script, "the build script", &error);
            }
            None => {}
        }
    }
    if items.is_empty() && !report.status.success() && report.with_kernels().next().is_some() {
        items.push_str("<li><p>Nothing of the kernels: cargo says what failed.</p></li>\n");
    }
    if !items.is_empty() {
        let _ = write!(
            out,
            "<section aria-labelledby=\"failed\">\n<h2 id=\"failed\">What failed</h2>\n\
             <ul class=\"failures\">\n{items}</ul>\n</section>\n"
        );
    }
}

fn item(out: &mut String, script: &Script, what: &str, error: &str) {
    let package = text(&script.package);
    let error = text(error.trim());
    let _ = writeln!(out, "<li><p>{package}: {what}</p>\n<pre tabindex=\"0\">{error}</pre></li>");
}

/// What there is to say where no kernel was compiled.
pub(super) fn nothing(out: &mut String, report: &Report<'_>) {
    let mut lines = Vec::new();
    for script in report.scripts.iter().filter(|script| script.targets.is_empty()) {
        let package = text(&script.package);
        match (&script.skipped, script.bundle) {
            (Some(reason), _) => {
                lines.push(format!("{package}: no kernels are embedded: {}.", text(reason)));
            }
            (None, Some(bundle)) if bundle.shaders > 0 => {
                lines.push(format!("{package}: {} shaders, and no kernels.", bundle.shaders));
            }
            _ => {}
        }
    }
    if !report.idle.is_empty() {
        lines.push(format!(
            "{}: nothing was compiled: everything was up to date, or is no part of this build. \
             <code>touch build.rs</code> or <code>cargo clean</code> shows a build.",
            text(&report.idle.join(", "))
        ));
    }
    if report.scripts.is_empty() && report.idle.is_empty() {
        lines.push(match report.status.success() {
            true => "Nothing was compiled: no crate of this build has kernels that cutile-build \
                     compiles, or everything was up to date. <code>touch build.rs</code> or \
                     <code>cargo clean</code> shows a build."
                .to_owned(),
            false => "The build ended before a kernel was compiled; cargo says why.".to_owned(),
        });
    } else if report.with_kernels().next().is_none() && !report.status.success() {
        lines.push("The build ended before a kernel was compiled; cargo says why.".to_owned());
    }
    if !lines.is_empty() {
        let lines: String = lines.iter().map(|line| format!("<p>{line}</p>\n")).collect();
        let _ = writeln!(out, "<section>\n<h2>Not compiled</h2>\n{lines}</section>");
    }
}
