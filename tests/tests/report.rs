//! What a build script tells `cargo cutile`, on a real one. What is made of it is tested beside
//! `cargo-cutile`.

use cutile_build::events::{EVENTS_ENV, Event, JobOutcome, Line, make_folder};
use cutile_tests::{Built, Fixture, scratch};
use std::fs;
use std::path::Path;

fn build(fixture: &Fixture, folder: &Path) -> Built {
    fixture.build().env("FIXTURE_COVER", "warmup").env(EVENTS_ENV, folder).ok()
}

fn events(folder: &Path) -> Vec<Event> {
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str::<Line>(line).unwrap().event).collect()
}

#[test]
fn a_build_script_tells_what_it_does_and_does_not_run_again_for_that() {
    let fixture = Fixture::new("covered", "covered-report");
    let scratch = scratch();
    let folder = |name: &str| {
        let folder = scratch.path().join(name);
        make_folder(&folder, false).unwrap();
        folder
    };
    let first = folder("first");
    let built = build(&fixture, &first);
    let events = events(&first);
    let sm_90 = || "sm_90".to_owned();
    assert!(
        matches!(&events[0], Event::Script { package, .. } if package == "covered-report"),
        "{events:?}"
    );
    assert_eq!(events[1], Event::Targets { targets: vec![sm_90()] });
    assert_eq!(events[2], Event::RehearsalStarted { target: sm_90() });
    assert!(events.contains(&Event::RehearsalEnded { target: sm_90(), error: None }));
    assert_eq!(events.last(), Some(&Event::ScriptEnded { error: None }));

    // Each job is queued, has an image, and is of a kernel.
    let jobs: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            Event::JobQueued { job, target } if target == "sm_90" => Some(job),
            _ => None,
        })
        .collect();
    assert_eq!(jobs.len(), 2, "{events:?}");
    let mut named = Vec::new();
    let (mut ended, mut compiled) = (0, 0);
    for event in &events {
        match event {
            Event::JobNamed { job, kernel } if jobs.contains(&job) => named.push(kernel.as_str()),
            Event::JobStarted { job, .. } if jobs.contains(&job) => compiled += 1,
            Event::JobEnded { job, outcome, .. } if jobs.contains(&job) => {
                assert!(!matches!(outcome, JobOutcome::Failed { .. }), "{outcome:?}");
                ended += 1;
            }
            _ => {}
        }
    }
    assert_eq!((ended, compiled), (2, built.tileiras_runs()));
    named.sort_unstable();
    assert!(named[0].contains("::add") && named[1].contains("::shift"), "{named:?}");
    let bundle =
        |event: &Event| matches!(event, Event::Bundle { specializations: 2, images: 2, .. });
    assert!(events.iter().any(bundle), "{events:?}");

    // Another channel is nothing to build for.
    let second = folder("second");
    assert!(!build(&fixture, &second).script_ran());
    assert_eq!(fs::read_dir(&second).unwrap().count(), 0);
}
