//! A test a row of the table, and what the channel refuses.

use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("events");
    make_folder(&folder, false).unwrap();
    (dir, folder)
}

/// What is in the one file of a folder.
fn text(folder: &Path) -> String {
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    fs::read_to_string(file.path()).unwrap()
}

fn lines(folder: &Path) -> Vec<Line> {
    text(folder).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// An event, written and read again; the second is its text without the time.
fn through(event: &Event) -> (Event, String) {
    let (_dir, folder) = folder();
    Events::begin(&folder, "app", "0.1.0").say(event.clone());
    let line = lines(&folder).pop().unwrap();
    (line.event.clone(), serde_json::to_string(&Line { ms: 0, ..line }).unwrap())
}

fn holds(event: Event, written: &str) {
    let (read, text) = through(&event);
    assert_eq!(read, event);
    assert_eq!(text, format!("{{\"ms\":0,\"event\":{written}}}"));
}

#[test]
fn script() {
    let (_dir, folder) = folder();
    drop(Events::begin(&folder, "my app", "0.1.0"));
    let first = lines(&folder).remove(0);
    let Event::Script { package, version, unix_ms } = first.event else { panic!("{first:?}") };
    assert_eq!((&*package, &*version), ("my app", "0.1.0"));
    assert!(unix_ms > 1_600_000_000_000);
    let name = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().file_name();
    assert_eq!(name.to_str().unwrap(), format!("my_app-{}.jsonl", std::process::id()));
}

#[test]
fn targets() {
    let targets = vec!["sm_80".to_owned(), "sm_90".to_owned()];
    holds(Event::Targets { targets }, r#""targets","targets":["sm_80","sm_90"]"#);
}

#[test]
fn skipped() {
    holds(Event::Skipped { reason: "why".into() }, r#""skipped","reason":"why""#);
}

#[test]
fn rehearsals() {
    let target = || "sm_90".to_owned();
    let started = r#""rehearsal_started","target":"sm_90""#;
    holds(Event::RehearsalStarted { target: target() }, started);
    let ended = r#""rehearsal_ended","target":"sm_90","error":"it died""#;
    holds(Event::RehearsalEnded { target: target(), error: Some("it died".into()) }, ended);
}

#[test]
fn jobs() {
    let job = || "ab".to_owned();
    let queued = Event::JobQueued { job: job(), target: "sm_90".into() };
    holds(queued, r#""job_queued","job":"ab","target":"sm_90""#);
    let named = Event::JobNamed { job: job(), kernel: "k::gemm<f16>".into() };
    holds(named, r#""job_named","job":"ab","kernel":"k::gemm<f16>""#);
    holds(Event::JobStarted { job: job(), slot: 1 }, r#""job_started","job":"ab","slot":1"#);
    for (outcome, written) in [
        (JobOutcome::Compiled { bytes: 9 }, r#"{"compiled":{"bytes":9}}"#),
        (JobOutcome::Cached { bytes: 9 }, r#"{"cached":{"bytes":9}}"#),
        (JobOutcome::Failed { what: "died".into() }, r#"{"failed":{"what":"died"}}"#),
    ] {
        let written = format!(r#""job_ended","job":"ab","slot":1,"outcome":{written}"#);
        holds(Event::JobEnded { job: job(), slot: 1, outcome }, &written);
    }
}

#[test]
fn bundle() {
    let event = Event::Bundle { specializations: 2, images: 4, bytes: 99, shaders: 1 };
    let written = r#""bundle","specializations":2,"images":4,"bytes":99,"shaders":1"#;
    holds(event, written);
}

#[test]
fn script_ended() {
    holds(Event::ScriptEnded { error: None }, r#""script_ended","error":null"#);
    let error = Some("no toolkit".to_owned());
    holds(Event::ScriptEnded { error }, r#""script_ended","error":"no toolkit""#);
}

#[test]
fn clones_write_into_one_file_in_the_order_of_their_times() {
    let (_dir, folder) = folder();
    let events = Events::begin(&folder, "app", "0.1.0");
    std::thread::scope(|scope| {
        for slot in 0..4 {
            let events = events.clone();
            scope.spawn(move || {
                (0..50).for_each(|job: u8| {
                    events.say(Event::JobStarted { job: job.to_string(), slot });
                });
            });
        }
    });
    let lines = lines(&folder);
    assert_eq!(lines.len(), 201);
    assert!(lines.is_sorted_by_key(|line| line.ms));
}

#[test]
fn a_folder_that_others_can_open_or_that_is_a_link_is_not_written_to() {
    let (dir, folder) = folder();
    let link = dir.path().join("link");
    symlink(&folder, &link).unwrap();
    assert!(Events::begin(&link, "app", "0.1.0").0.is_none());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
    let events = Events::begin(&folder, "app", "0.1.0");
    assert!(events.0.is_none());
    events.say(Event::ScriptEnded { error: None });
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    for folder in ["/no/such/folder", "events", ""] {
        assert!(Events::begin(Path::new(folder), "app", "0.1.0").0.is_none());
    }
}

#[test]
fn what_has_the_name_of_the_file_is_left_as_it_is() {
    let (dir, folder) = folder();
    let other = dir.path().join("other");
    fs::write(&other, "").unwrap();
    let name = format!("app-{}.jsonl", std::process::id());
    symlink(&other, folder.join(name)).unwrap();
    assert!(Events::begin(&folder, "app", "0.1.0").0.is_none());
    assert_eq!(fs::read(&other).unwrap(), b"");
}

#[test]
fn files_and_texts_are_bounded() {
    let (_dir, folder) = folder();
    let events = Events::begin(&folder, "app", "0.1.0");
    events.say(Event::ScriptEnded { error: Some("ä".repeat(TEXT_LIMIT)) });
    let Event::ScriptEnded { error: Some(text) } = lines(&folder).pop().unwrap().event else {
        panic!()
    };
    assert_eq!(text.chars().count(), TEXT_LIMIT / 2 + 1);
    let size = || fs::metadata(fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path());
    let before = size().unwrap().len();
    events.0.as_ref().unwrap().out.lock().unwrap().left = 60;
    events.say(Event::ScriptEnded { error: Some("x".repeat(100)) });
    // Nothing after what did not fit: a hole would be taken for what happened.
    events.say(Event::ScriptEnded { error: None });
    assert_eq!(size().unwrap().len(), before);
}

#[test]
fn no_build_script_is_run_again_for_another_channel() {
    assert!(!crate::environment::RERUN_IF_ENV_CHANGED.contains(&EVENTS_ENV));
    assert!(!crate::environment::FORBIDDEN.contains(&EVENTS_ENV));
}

#[test]
fn a_bar_is_known_to_the_script() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("events");
    make_folder(&folder, true).unwrap();
    assert!(Events::begin(&folder, "app", "0.1.0").have_bar());
    assert!(!Events::default().have_bar());
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    assert!(make_folder(&folder, true).is_err());
}
