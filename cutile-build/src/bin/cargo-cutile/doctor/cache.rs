//! The caches on disk: place, permissions, size.

use super::Check;
use crate::environ::Environ;
use crate::output::size;
use crate::stores::{Kind, Place, Survey};
use cutile_embed::store::{DEFAULT_CAPACITY_BYTES, FileSystemJitStore};
use std::path::Path;
use std::time::SystemTime;

pub(super) fn check(environ: &Environ) -> Vec<Check> {
    Kind::ALL.into_iter().map(|kind| one(kind, environ)).collect()
}

fn one(kind: Kind, environ: &Environ) -> Check {
    let name = format!("cache {}", kind.name());
    let place = match Place::of(kind, environ) {
        Ok(place) => place,
        Err(failure) if kind == Kind::Build && environ.get("CUTILE_BUILD_CACHE").is_some() => {
            let advice = "unset CUTILE_BUILD_CACHE, and builds compile only what changed";
            return Check::warn(&name, failure.to_string(), advice);
        }
        Err(failure) => {
            let advice = "without a place nothing is kept between two runs";
            return Check::warn(&name, failure.to_string(), advice);
        }
    };
    let path = &place.path;
    match Survey::of(path) {
        Err(failure) => Check::fail(&name, failure.to_string(), "nothing is kept there until then"),
        Ok(None) => absent(&name, path),
        // What the run time does, so that its answer is the run time's. Nothing is made: it is there.
        Ok(Some(survey)) => match FileSystemJitStore::private(path) {
            Err(error) => Check::fail(&name, error.to_string(), "until then nothing of it is used"),
            Ok(_) => filled(&name, path, &survey),
        },
    }
}

fn absent(name: &str, path: &Path) -> Check {
    let text = format!("{}: not there yet", path.display());
    let existing = path.ancestors().skip(1).find(|parent| parent.is_dir());
    match existing.map(writable) {
        Some(Err(error)) => Check::warn(
            name,
            format!("{text}, and cannot be made: {error}"),
            "make its folder writable, or set XDG_CACHE_HOME to one that is",
        ),
        _ => Check::ok(name, text),
    }
}

/// A file without a name, gone with its handle.
fn writable(folder: &Path) -> std::io::Result<()> {
    tempfile::tempfile_in(folder).map(|_| ())
}

fn filled(name: &str, path: &Path, survey: &Survey) -> Check {
    let text =
        format!("{}: {} entries, {}", path.display(), survey.entries.len(), size(survey.bytes()));
    if let Err(error) = writable(path) {
        let advice = "nothing new is kept; make it writable, or set XDG_CACHE_HOME";
        return Check::warn(name, format!("{text}; it cannot be written: {error}"), advice);
    }
    let stale = survey.stale(SystemTime::now()).count();
    if stale > 0 {
        let found = format!("{text}; {stale} unfinished files of processes that died");
        return Check::warn(name, found, "cargo cutile cache gc");
    }
    if survey.bytes() > DEFAULT_CAPACITY_BYTES {
        let found = format!("{text}, above {}", size(DEFAULT_CAPACITY_BYTES));
        return Check::warn(name, found, "cargo cutile cache gc");
    }
    Check::ok(name, text)
}

#[cfg(all(test, unix))]
mod tests {
    use super::super::Status;
    use super::*;
    use cutile_embed::store::JitStore as _;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    fn of(home: &Path) -> Check {
        one(Kind::Kernels, &Environ::of(&[("HOME", home.to_str().unwrap())]))
    }

    #[test]
    fn a_cache_that_is_not_there_is_no_problem_and_is_not_made() {
        let home = tempfile::tempdir().unwrap();
        let check = of(home.path());
        assert_eq!(check.status, Status::Ok, "{check:?}");
        assert!(check.found.ends_with("not there yet"));
        assert_eq!(home.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_cache_is_counted_and_one_that_others_can_enter_fails() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join(".cache/cutile/kernels");
        let store = FileSystemJitStore::private(&root).unwrap();
        store.put(&"ab".repeat(32), b"12345").unwrap();
        let check = of(home.path());
        assert_eq!(check.status, Status::Ok, "{check:?}");
        assert!(check.found.ends_with("1 entries, 5 B"), "{check:?}");
        fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
        let check = of(home.path());
        assert_eq!(check.status, Status::Fail);
        assert!(check.found.contains("0755"), "{check:?}");
    }

    #[test]
    fn what_a_process_left_that_died_is_a_warning() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join(".cache/cutile/kernels");
        FileSystemJitStore::private(&root).unwrap();
        fs::create_dir(root.join("ab")).unwrap();
        let temp = root.join("ab").join(format!("{}.tmp.1.2.3", "ab".repeat(32)));
        fs::write(&temp, "torn").unwrap();
        let file = fs::File::options().write(true).open(&temp).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let check = of(home.path());
        assert_eq!(
            (check.status, check.advice.as_deref()),
            (Status::Warn, Some("cargo cutile cache gc"))
        );
    }

    #[test]
    fn no_place_is_a_warning() {
        assert_eq!(one(Kind::Shaders, &Environ::of(&[])).status, Status::Warn);
        let off = Environ::of(&[("CUTILE_BUILD_CACHE", "off"), ("HOME", "/h")]);
        assert!(one(Kind::Build, &off).found.contains("off"));
    }
}
