use super::*;
use crate::manifest::{ModuleDigest, Options, Strides, TensorSpec};

const DEBUG: Codegen = Codegen::Debug;

fn row(function: &str, codegen: Codegen) -> Specialization {
    let div = |divisor| Divisibility { divisor, max: 16 };
    Specialization {
        source_hash: "00".into(),
        modules: vec![ModuleDigest { path: "crate::kernels".into(), sha256: "01".into() }],
        generics: vec!["f32".into()],
        strides: vec![Strides { param: "x".into(), strides: vec![1] }],
        specs: vec![TensorSpec {
            param: "x".into(),
            shape_div: vec![div(16)],
            stride_div: vec![div(1)],
            stride_one: vec![true],
            base_ptr_div: div(16),
            elements_disjoint: true,
        }],
        ..Specialization::new("kernels", function, Options::new(codegen))
    }
}

fn recording(rows: impl IntoIterator<Item = Recorded>) -> Recording {
    Recording { kernels: rows.into_iter().collect(), ..Recording::default() }
}

fn parse(text: &str) -> Result<Recording, RecordingError> {
    Recording::parse(Path::new("kernels.json"), text.as_bytes())
}

#[test]
fn a_recording_reads_back_and_its_order_does_not_show() {
    let rows = ["b", "a", "c"].map(|name| Recorded::new(row(name, DEBUG), DEBUG));
    let one = recording(rows.clone());
    let other = recording(rows.into_iter().rev());
    assert_eq!(one.to_json(), other.to_json());
    assert_eq!(parse(std::str::from_utf8(&one.to_json()).unwrap()).unwrap(), one);
}

#[test]
fn a_debug_and_a_release_run_record_the_same() {
    let debug = Recorded::new(row("a", DEBUG), DEBUG);
    let release = Recorded::new(row("a", DEFAULT_CODEGEN), DEFAULT_CODEGEN);
    assert_eq!(debug, release);
    assert_eq!(debug.at(DEBUG), row("a", DEBUG));
    assert_eq!(debug.at(DEFAULT_CODEGEN), row("a", DEFAULT_CODEGEN));
}

#[test]
fn a_level_of_its_own_stays() {
    let own = Codegen::Optimized { level: 1, lineinfo: false };
    let recorded = Recorded::new(row("a", own), DEBUG);
    assert!(!recorded.default_codegen);
    assert_eq!(recorded.at(DEFAULT_CODEGEN), row("a", own));
}

#[test]
fn what_is_no_recording_is_named() {
    for (text, expected) in [
        ("", "is no recording"),
        ("{}", "missing field `schema`"),
        (r#"{"schema": 2, "kernels": "later"}"#, "has schema 2, this code reads 1"),
        (r#"{"schema": 1, "kernels": [{}]}"#, "missing field"),
        (r#"{"schema": 1, "kernels": [], "path": "/etc"}"#, "unknown field `path`"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("kernels.json"), "{text}: {error}");
    }
}

/// Something that a launcher does not make, with a part of what is said about it.
type Change = (fn(&mut Specialization), &'static str);

#[test]
fn what_no_launcher_makes_is_refused() {
    let changes: [Change; 6] = [
        (|row| row.module = "../kernels".into(), "no name"),
        (|row| row.function = String::new(), "no name"),
        (|row| row.specs[0].base_ptr_div.divisor = 0, "no divisor"),
        (|row| row.specs[0].shape_div[0].divisor = 3, "no divisor"),
        (|row| row.specs[0].shape_div[0].divisor = 32, "no divisor"),
        (|row| row.specs[0].stride_one.clear(), "unequal length"),
    ];
    for (change, expected) in changes {
        let mut row = row("a", DEBUG);
        change(&mut row);
        let text = recording([Recorded::new(row, DEBUG)]).to_json();
        let error = parse(std::str::from_utf8(&text).unwrap()).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_file_is_read_up_to_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernels.json");
    let file = File::create(&path).unwrap();
    file.set_len(MAX_RECORDING_BYTES + 1).unwrap();
    assert!(matches!(Recording::read(&path), Err(RecordingError::TooLong(_))));
}

#[test]
fn writing_replaces_the_file_and_leaves_nothing_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernels.json");
    let mut one = recording([Recorded::new(row("a", DEBUG), DEBUG)]);
    one.write(&path).unwrap();
    one.merge(recording([Recorded::new(row("b", DEBUG), DEBUG)]));
    one.write(&path).unwrap();
    assert_eq!(Recording::read(&path).unwrap(), one);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(one.write(&dir.path().join("none/kernels.json")).is_err());
}

#[test]
fn a_recording_replaces_a_file_whole_and_leaves_nothing_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernels.json");
    fs::write(&path, "what was there").unwrap();
    let one = recording([Recorded::new(row("a", DEBUG), DEBUG)]);
    one.write(&path).unwrap();
    assert_eq!(Recording::read(&path).unwrap(), one);
    let missing = dir.path().join("no-folder/kernels.json");
    assert!(one.write(&missing).unwrap_err().to_string().contains("no-folder"));
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names, ["kernels.json"]);
}

#[test]
#[cfg(unix)]
fn a_recording_puts_no_file_in_place_of_a_link_or_a_device() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    fs::write(&file, "what was there").unwrap();
    symlink("file", &link).unwrap();
    let one = recording([Recorded::new(row("a", DEBUG), DEBUG)]);
    one.write(&link).unwrap();
    assert!(link.is_symlink());
    assert_eq!(Recording::read(&file).unwrap(), one);

    // A socket stands for what is no plain file: were /dev/null tried, it could be lost.
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = one.write(&socket).unwrap_err().to_string();
    assert!(error.contains("no plain file"), "{error}");
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    let dangling = dir.path().join("dangling");
    symlink("nothing", &dangling).unwrap();
    assert!(one.write(&dangling).is_err());
    assert!(dangling.is_symlink() && !dir.path().join("nothing").exists());
}
