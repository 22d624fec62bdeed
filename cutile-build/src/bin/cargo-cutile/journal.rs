//! What build scripts say while they run, gathered: the bar and the report are made of it.

mod script;

#[cfg(test)]
pub(crate) use script::tests::script as script_of;
pub(crate) use script::{Job, Rehearsal, Script};

use crate::failure::Failure;
use cutile_build::events::{FILE_LIMIT, make_folder};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// More build scripts than these are not listened to.
const SCRIPTS: usize = 1000;

/// The channel of one build; its folder is gone with it.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Removes the folder.
    _scratch: TempDir,
    folder: PathBuf,
    files: BTreeMap<OsString, Tail>,
}

/// A file that grows.
#[derive(Debug)]
struct Tail {
    file: File,
    left: u64,
    /// The start of a line whose end is not there yet.
    part: Vec<u8>,
    script: Script,
}

impl Journal {
    /// A channel that nobody wrote into. `bar` tells the build scripts that one is drawn.
    pub(crate) fn open(bar: bool) -> Result<Self, Failure> {
        let scratch = tempfile::Builder::new()
            .prefix("cargo-cutile-")
            .tempdir()
            .map_err(|error| format!("no temporary folder: {error}"))?;
        let folder = scratch.path().join("events");
        make_folder(&folder, bar).map_err(Failure::io("make", &folder))?;
        Ok(Self { _scratch: scratch, folder, files: BTreeMap::new() })
    }

    /// The folder that build scripts write into.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes in what is new.
    pub(crate) fn read(&mut self) {
        let Ok(listing) = fs::read_dir(&self.folder) else { return };
        for entry in listing.flatten() {
            let name = entry.file_name();
            let of_script = Path::new(&name).extension().is_some_and(|end| end == "jsonl");
            if !of_script || self.files.contains_key(&name) || self.files.len() >= SCRIPTS {
                continue;
            }
            // A pipe would be waited for.
            if entry.file_type().is_ok_and(|kind| kind.is_file())
                && let Ok(file) = File::open(entry.path())
            {
                self.files.insert(name, Tail::of(file));
            }
        }
        self.files.values_mut().for_each(Tail::read);
    }

    /// Takes in the rest. Cargo ended now.
    pub(crate) fn close(&mut self, unix_ms: u64) {
        self.read();
        self.files.values_mut().for_each(|tail| tail.script.close(unix_ms));
    }

    /// The build scripts that ran, in the order in which they began.
    pub(crate) fn scripts(&self) -> Vec<&Script> {
        let mut scripts: Vec<&Script> = self
            .files
            .values()
            .map(|tail| &tail.script)
            .filter(|script| !script.package.is_empty())
            .collect();
        scripts.sort_by(|a, b| (a.unix_ms, &a.package).cmp(&(b.unix_ms, &b.package)));
        scripts
    }
}

impl Tail {
    fn of(file: File) -> Self {
        Self { file, left: FILE_LIMIT, part: Vec::new(), script: Script::default() }
    }

    fn read(&mut self) {
        let mut new = Vec::new();
        // What was read before an error counts.
        let _ = (&self.file).take(self.left).read_to_end(&mut new);
        self.left = self.left.saturating_sub(new.len() as u64);
        self.part.append(&mut new);
        let Some(end) = self.part.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = self.part.split_off(end + 1);
        for line in std::mem::replace(&mut self.part, rest).split(|byte| *byte == b'\n') {
            // One that this version does not know is passed over.
            if let Ok(line) = serde_json::from_slice(line) {
                self.script.take(line);
            }
        }
    }
}

/// The wall clock, in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutile_build::events::{Event, Events};
    use std::io::Write as _;

    fn queued(job: &str) -> Event {
        Event::JobQueued { job: job.into(), target: "sm_90".into() }
    }

    #[test]
    fn what_a_script_writes_arrives_with_the_lines_that_are_whole() {
        let mut journal = Journal::open(false).unwrap();
        journal.read();
        assert_eq!(journal.scripts().len(), 0);
        let events = Events::begin(journal.folder(), "app", "0.1.0");
        events.say(queued("ab"));
        let file = fs::read_dir(journal.folder()).unwrap().next().unwrap().unwrap().path();
        let mut file = File::options().append(true).open(file).unwrap();
        file.write_all(b"{\"ms\":5,\"event\":\"job_sta").unwrap();
        journal.read();
        assert_eq!(journal.scripts()[0].package, "app");
        assert_eq!(journal.scripts()[0].processes(), 0);
        file.write_all(
            b"rted\",\"job\":\"ab\",\"slot\":1}\nno line\n{\"ms\":6,\"event\":\"new\"}\n",
        )
        .unwrap();
        journal.read();
        let script = journal.scripts()[0];
        assert_eq!((script.processes(), script.jobs[0].slot, script.done()), (1, 1, 0));
        let folder = journal.folder().to_owned();
        drop(journal);
        assert!(!folder.exists());
    }

    #[test]
    fn what_is_no_file_of_a_script_is_not_opened() {
        let mut journal = Journal::open(true).unwrap();
        fs::write(journal.folder().join("other"), "{}").unwrap();
        fs::create_dir(journal.folder().join("folder.jsonl")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", journal.folder().join("link.jsonl")).unwrap();
        journal.read();
        assert!(journal.files.is_empty());
    }
}
