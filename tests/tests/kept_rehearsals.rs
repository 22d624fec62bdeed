//! A rehearsal whose build script and inputs are as they were is taken from the build cache.

use cutile_tests::{Built, Fixture};
use std::fs;
use std::path::Path;

/// Counts its rehearsals in a file that cargo does not know of, and reads one that it knows.
const BUILD_RS: &str = r#"
#[allow(dead_code, reason = "the program uses what the warm-up does not")]
#[path = "src/kernels.rs"]
mod kernels;

fn warmup() -> Result<(), String> {
    use std::io::Write;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let mut runs = std::fs::File::options().append(true).create(true)
        .open(format!("{folder}runs.txt")).map_err(|error| error.to_string())?;
    runs.write_all(b".").map_err(|error| error.to_string())?;
    let kernels_of = std::fs::read_to_string(format!("{folder}kernels.txt"));
    match kernels_of.unwrap_or_default().trim() {
        "fail" => return Err("as the file says".to_owned()),
        "none" => return Ok(()),
        _ => {}
    }
    kernels::warmup().map_err(|error| error.to_string())
}

fn main() {
    println!("cargo::rerun-if-changed=kernels.txt");
    println!("cargo::rerun-if-env-changed=KEPT_VARIABLE");
    cutile_build::Builder::from_metadata().warmup("kept", warmup).build();
}
"#;

struct Counted {
    fixture: Fixture,
    cache: tempfile::TempDir,
    /// So that cargo runs the script again, and nothing else is different.
    builds: std::cell::Cell<usize>,
}

impl Counted {
    fn new() -> Self {
        let fixture = Fixture::new("probe", "kept-rehearsals");
        fixture.write("build.rs", BUILD_RS);
        fixture.write("kernels.txt", "all");
        fixture.write("runs.txt", "");
        Self { fixture, cache: cutile_tests::scratch(), builds: std::cell::Cell::new(0) }
    }

    fn build(&self) -> cutile_tests::Build<'_> {
        self.builds.set(self.builds.get() + 1);
        let jobs = (40 + self.builds.get()).to_string();
        self.fixture
            .build()
            .env("CUTILE_BUILD_CACHE", self.cache.path())
            .env("CUTILE_BUILD_JOBS", jobs)
    }

    /// Rehearsals since it was asked before.
    fn rehearsals(&self) -> usize {
        let runs = self.fixture.dir().join("runs.txt");
        let count = fs::read(&runs).unwrap().len();
        fs::write(&runs, "").unwrap();
        count
    }
}

fn manifest(built: &Built) -> Vec<u8> {
    fs::read(built.bundle().join("manifest.json")).unwrap()
}

/// Flips a bit of every kept rehearsal; how many there were.
fn damage(folder: &Path) -> usize {
    let mut damaged = 0;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            damaged += damage(&entry.path());
            continue;
        }
        let mut value = fs::read(entry.path()).unwrap();
        if value.starts_with(b"cutile-build-reh") {
            let middle = value.len() / 2;
            value[middle] ^= 1;
            fs::write(entry.path(), value).unwrap();
            damaged += 1;
        }
    }
    damaged
}

#[test]
fn a_rehearsal_is_kept_while_what_it_reads_is_the_same() {
    let counted = Counted::new();
    let first = counted.build().ok();
    assert_eq!(counted.rehearsals(), 1);
    assert_eq!(first.tileiras_runs(), 2);

    let kept = counted.build().ok();
    assert!(kept.script_ran(), "{}", kept.stderr);
    assert_eq!((counted.rehearsals(), kept.tileiras_runs()), (0, 0));
    assert_eq!(manifest(&kept), manifest(&first));
    let run = kept.program().on("sm_90").arguments(["install", "double"]).ok();
    assert_eq!(run.line("1:double"), "jit=0 backend=0 stored=0 done");

    // What was told to cargo, and what cargo tells.
    counted.fixture.write("kernels.txt", "none");
    let none = counted.build().ok();
    assert_eq!((counted.rehearsals(), none.manifest().kernels().len()), (1, 0));
    counted.fixture.write("kernels.txt", "all");
    assert_eq!(counted.build().ok().manifest().kernels().len(), 2);
    assert_eq!(counted.rehearsals(), 1, "one value a script: the one before it took its place");
    counted.build().env("KEPT_VARIABLE", "1").ok();
    assert_eq!(counted.rehearsals(), 1);

    // Another script, by one letter.
    counted.fixture.edit("build.rs", "as the file says", "as the file said");
    assert_eq!(manifest(&counted.build().ok()), manifest(&first));
    assert_eq!(counted.rehearsals(), 1);

    // Without a cache there is nothing to take, and a damaged value is none.
    counted.build().env("CUTILE_BUILD_CACHE", "off").ok();
    assert_eq!(counted.rehearsals(), 1);
    assert!(damage(counted.cache.path()) >= 2);
    assert_eq!(manifest(&counted.build().ok()), manifest(&first));
    assert_eq!(counted.rehearsals(), 1);

    // A failure is told each time.
    counted.fixture.write("kernels.txt", "fail");
    for _ in 0..2 {
        let said = counted.build().without_messages().fails();
        assert!(said.contains("as the file said"), "{said}");
        assert_eq!(counted.rehearsals(), 1);
    }
}
