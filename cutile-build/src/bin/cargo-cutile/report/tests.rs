//! The page for builds that worked, failed, and had nothing to do.

use super::*;
use crate::journal::script_of as script;
use cutile_build::events::{Event, JobOutcome};
use std::os::unix::process::ExitStatusExt as _;

const BEGAN: u64 = 1_796_041_860_000;

fn page(words: &str, status: i32, idle: &[&str], scripts: &[&Script]) -> String {
    let command: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    Report {
        command: &command,
        began: BEGAN,
        took: 64_200,
        status: ExitStatus::from_raw(status << 8),
        idle: idle.iter().map(|name| (*name).to_owned()).collect(),
        scripts,
    }
    .page()
}

fn begin(package: &str) -> Vec<(u64, Event)> {
    let (package, version) = (package.to_owned(), "1.2.3".to_owned());
    let targets = vec!["sm_90".to_owned(), "sm_100".to_owned()];
    vec![
        (0, Event::Script { package, version, unix_ms: BEGAN + 20_000 }),
        (40, Event::Targets { targets }),
    ]
}

fn rehearsed(target: &str, from: u64, to: u64) -> [(u64, Event); 2] {
    let target = || target.to_owned();
    [
        (from, Event::RehearsalStarted { target: target() }),
        (to, Event::RehearsalEnded { target: target(), error: None }),
    ]
}

fn job(
    name: &str,
    target: &str,
    at: [u64; 3],
    slot: usize,
    outcome: JobOutcome,
) -> Vec<(u64, Event)> {
    let digest = || format!("{name} {target}");
    let mut lines = vec![
        (at[0], Event::JobQueued { job: digest(), target: target.to_owned() }),
        (at[0], Event::JobNamed { job: digest(), kernel: format!("kernels::{name}") }),
    ];
    if !matches!(outcome, JobOutcome::Cached { .. }) {
        lines.push((at[1], Event::JobStarted { job: digest(), slot }));
    }
    lines.push((at[2], Event::JobEnded { job: digest(), slot, outcome }));
    lines
}

/// Two targets on two slots; a kernel with generics that are markup.
fn worked() -> Script {
    let compiled = |bytes| JobOutcome::Compiled { bytes };
    let mut lines = begin("app");
    lines.extend(rehearsed("sm_90", 120, 3_400));
    lines.extend(rehearsed("sm_100", 130, 3_900));
    lines.extend(job("add<f32>", "sm_90", [900, 950, 2_400], 0, compiled(9_216)));
    lines.extend(job("add<f32>", "sm_100", [950, 980, 2_900], 1, compiled(10_240)));
    lines.extend(job("gemm<f16, &'a \"T\">", "sm_90", [1_200, 2_400, 14_000], 0, compiled(81_920)));
    lines.extend(job(
        "gemm<f16, &'a \"T\">",
        "sm_100",
        [1_300, 2_900, 2_904],
        1,
        JobOutcome::Cached { bytes: 92_160 },
    ));
    let bundle = Event::Bundle { specializations: 2, images: 4, bytes: 61_000, shaders: 0 };
    lines.extend([(14_080, bundle), (14_090, Event::ScriptEnded { error: None })]);
    script(lines)
}

fn failed() -> Script {
    let mut lines = begin("app");
    lines.extend(rehearsed("sm_90", 100, 900));
    let what = "tileiras failed with exit status 3\n  it printed:\n    <bad> & worse".to_owned();
    lines.extend(job("mma<T>", "sm_90", [500, 600, 2_000], 0, JobOutcome::Failed { what }));
    let error = Some("1 of 1 jobs failed".to_owned());
    lines.push((2_100, Event::ScriptEnded { error }));
    script(lines)
}

#[test]
fn the_page_of_fixed_events_is_the_golden_one() {
    let page = page("build --release -p app", 0, &[], &[&worked()]);
    // The style is a file of its own, and the version is not of the page.
    let page = page.replace(STYLE, "").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/cargo-cutile/report/golden.html");
    #[allow(clippy::disallowed_methods, reason = "a switch of this test and of nothing else")]
    if std::env::var_os("CUTILE_TEST_OVERWRITE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == expected,
        "{} is another text; if it should be, set CUTILE_TEST_OVERWRITE_GOLDEN=1 once and read \
         the difference:\n{page}",
        path.display()
    );
}

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let page = page("build", 101, &["b"], &[&worked(), &failed()]);
    assert!(page.contains("default-src 'none'"));
    for word in
        ["<script", "<link", "<img", "src=", "@import", "url(", "http:", "https:", "onclick"]
    {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn nothing_of_others_becomes_markup() {
    let evil = "</style></title><script>alert(1)</script>\"' & \u{1b}[31m";
    let mut lines = vec![
        (0, Event::Script { package: evil.into(), version: evil.into(), unix_ms: BEGAN }),
        (0, Event::Targets { targets: vec![evil.into()] }),
        (0, Event::RehearsalStarted { target: evil.into() }),
        (1, Event::RehearsalEnded { target: evil.into(), error: Some(evil.into()) }),
    ];
    lines.extend(job(evil, evil, [1, 2, 3], 0, JobOutcome::Failed { what: evil.into() }));
    lines.extend(job("other", evil, [1, 2, 3], 0, JobOutcome::Compiled { bytes: 1 }));
    lines.extend([
        (4, Event::Bundle { specializations: 1, images: 1, bytes: 1, shaders: 0 }),
        (5, Event::ScriptEnded { error: Some(evil.into()) }),
    ]);
    let skipped = vec![
        (0, Event::Script { package: evil.into(), version: evil.into(), unix_ms: BEGAN }),
        (1, Event::Skipped { reason: evil.into() }),
    ];
    let page = page(evil, 1, &[evil], &[&script(lines), &script(skipped)]);
    assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.matches("&lt;script&gt;alert(1)").count() > 10, "{page}");
    let quotes =
        page.split('<').filter(|tag| tag.split('>').next().unwrap().matches('"').count() % 2 == 1);
    assert_eq!(quotes.count(), 0, "{page}");
}

#[test]
fn kernels_with_generics_stand_in_every_part() {
    let page = page("build", 0, &[], &[&worked()]);
    assert!(!page.contains("<f16"), "{page}");
    // Timeline: a title for two targets, a text where there is room for one.
    assert_eq!(page.matches("gemm&lt;f16, &amp;&#39;a &quot;T&quot;&gt; sm_").count(), 1);
    assert_eq!(page.matches("gemm&lt;f16, &amp;&#39;a &quot;T&quot;&gt; for sm_").count(), 2);
    // Tables: slowest without the cache hit, sizes once, all jobs twice.
    assert_eq!(page.matches("kernels::<wbr>gemm&lt;f16,<wbr> &amp;").count(), 1 + 1 + 2);
}

#[test]
fn figures_count_processes_and_hits_and_what_it_took() {
    let page = page("build", 0, &[], &[&worked()]);
    for words in [
        "<dt>tileiras processes</dt><dd>3<small>15.0 s all together</small>",
        "<dt>Build cache hits</dt><dd>1<small>of 4 jobs</small>",
        "<dt>Images</dt><dd>193.5 kB<small>4, not compressed</small>",
        "<dt>Specializations</dt><dd>2</dd>",
        "<dt>Targets</dt><dd>sm_90, sm_100</dd>",
        "It succeeded</strong> after 64.2 s. It began 2026-11-30 12:31 UTC.",
        "4 jobs for sm_90, sm_100 in 14.1 s, on 2 slots",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // As numbers, not as texts.
    let sizes = page.find("id=\"sizes\"").unwrap();
    let column = |target: &str| page[sizes..].find(&format!(">{target}</th>")).unwrap();
    assert!(column("sm_90") < column("sm_100"));
}

#[test]
fn a_failed_build_says_which_job_failed() {
    let page = page("build", 101, &[], &[&failed()]);
    for words in [
        "It failed (exit status: 101)",
        "<h2 id=\"failed\">What failed</h2>",
        "app: <code>kernels::<wbr>mma&lt;T&gt;</code> for sm_90",
        "    &lt;bad&gt; &amp; worse</pre>",
        "<td>failed</td>",
        "<g class=\"failed\"><title>kernels::mma&lt;T&gt; for sm_90: 1.40 s, failed",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // The job says it; the script's error would say it again.
    assert!(!page.contains("1 of 1 jobs failed"));
}

#[test]
fn a_build_that_fails_for_another_reason_says_that_it_is_not_the_kernels() {
    let page = page("build", 101, &[], &[&worked()]);
    assert!(page.contains("Nothing of the kernels: cargo says what failed."), "{page}");
}

#[test]
fn a_script_that_was_killed_says_what_it_was_doing() {
    let mut lines = begin("app");
    lines.extend(job("slow", "sm_90", [10, 20, 30], 0, JobOutcome::Cached { bytes: 1 }));
    lines.push((40, Event::JobQueued { job: "x".into(), target: "sm_90".into() }));
    lines.push((50, Event::JobStarted { job: "x".into(), slot: 1 }));
    let mut script = script(lines);
    script.close(BEGAN + 25_000);
    assert_eq!(script.end(), 5_000);
    let page = page("build", 101, &[], &[&script]);
    assert!(page.contains("did not come to its end while tileiras ran for job x"), "{page}");
    assert!(page.contains("<td>did not end</td>") && page.contains("<g class=\"unended\">"));
}

#[test]
fn a_build_with_nothing_to_do_says_so_and_how_to_see_one() {
    let words = "nothing was compiled: everything was up to date";
    let page_of = |status, idle: &[&str]| page("build", status, idle, &[]);
    let idle = page_of(0, &["app", "other"]);
    assert!(idle.contains("app, other: nothing was compiled") && idle.contains("touch build.rs"));
    assert!(!idle.contains("<table") && !idle.contains("<svg"), "{idle}");
    assert!(page_of(0, &[]).to_lowercase().contains(words.split(':').next().unwrap()));
    let failed = page_of(101, &[]);
    assert!(failed.contains("ended before a kernel was compiled"), "{failed}");
    // One crate of two.
    let one = page("build", 0, &["other"], &[&worked()]);
    assert!(one.contains(&format!("other: {words}")) && one.contains("Timeline of app"));
}

#[test]
fn skipped_kernels_and_shaders_without_kernels_are_said() {
    let first = |package: &str| begin(package).remove(0);
    let reason = "CUTILE_BUILD=skip is set".to_owned();
    let skipped = script(vec![first("a"), (1, Event::Skipped { reason })]);
    let bundle = Event::Bundle { specializations: 0, images: 0, bytes: 0, shaders: 3 };
    let shaders = script(vec![first("b"), (1, bundle), (2, Event::ScriptEnded { error: None })]);
    let page = page("build", 0, &[], &[&skipped, &shaders]);
    assert!(page.contains("a: no kernels are embedded: CUTILE_BUILD=skip is set."), "{page}");
    assert!(page.contains("b: 3 shaders, and no kernels."), "{page}");
}

#[test]
fn the_file_is_checked_before_and_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &Path| ReportFile::at(path).map_err(|failure| failure.to_string());
    assert!(at(dir.path()).unwrap_err().contains("it is a folder"));
    assert!(at(&dir.path().join("no/a.html")).unwrap_err().contains("is no folder"));
    assert!(at(Path::new("a.html")).is_ok());
    assert!(at(Path::new("/dev/null")).unwrap_err().contains("is no plain file"));
    let (link, elsewhere) = (dir.path().join("link"), tempfile::tempdir().unwrap());
    let page = elsewhere.path().join("page");
    std::fs::write(&page, "an older one").unwrap();
    std::os::unix::fs::symlink(&page, &link).unwrap();
    let canonical = page.canonicalize().unwrap();
    assert_eq!(at(&link).unwrap().path, canonical);
    std::fs::remove_file(&link).unwrap();
    let path = dir.path().join("a.html");
    let file = at(&path).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    std::fs::write(&path, "an older one").unwrap();
    file.write(&Report {
        command: &["build".into()],
        began: BEGAN,
        took: 1,
        status: ExitStatus::from_raw(0),
        idle: Vec::new(),
        scripts: &[],
    })
    .unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
