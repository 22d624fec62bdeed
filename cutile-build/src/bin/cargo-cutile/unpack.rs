//! Unpacks what is kept of a wheel.

use crate::failure::Failure;
use crate::wheels::{Parts, Wheel};
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};
use zip::ZipArchive;

/// More than any file of the wheels has; a file that says less than it holds ends there.
const MOST_BYTES: u64 = 1 << 30;

/// Unpacks what is kept of `archive` into folders below `into`, and says how many files.
///
/// A file that would lie outside `into`, or that is a link, is an error, kept or not.
pub(crate) fn unpack(archive: &Path, wheel: &Wheel, into: &Path) -> Result<usize, Failure> {
    unpack_with(archive, &|file| Parts::place(wheel, file), into)
}

fn unpack_with(
    archive: &Path,
    place: &dyn Fn(&str) -> Option<String>,
    into: &Path,
) -> Result<usize, Failure> {
    let damaged = |what: &dyn std::fmt::Display| {
        Failure(format!("{} is no wheel that can be unpacked: {what}", archive.display()))
    };
    let file = File::open(archive).map_err(Failure::io("open", archive))?;
    let mut zip = ZipArchive::new(io::BufReader::new(file)).map_err(|error| damaged(&error))?;
    let mut files = 0;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(|error| damaged(&error))?;
        let name = entry.name().to_owned();
        if !stays_below(&name) || entry.is_symlink() {
            return Err(damaged(&format!("{name:?} would leave the folder it is unpacked to")));
        }
        let Some(place) = place(&name).filter(|_| entry.is_file()) else { continue };
        let path = into.join(&place);
        let parent = path.parent().unwrap_or(into);
        fs::create_dir_all(parent).map_err(Failure::io("create", parent))?;
        let mut out = File::create_new(&path).map_err(Failure::io("create", &path))?;
        let size = entry.size();
        let written = io::copy(&mut io::Read::take(&mut entry, MOST_BYTES), &mut out)
            .map_err(Failure::io("write", &path))?;
        if written != size {
            return Err(damaged(&format!("{name} has {written} bytes, not {size}")));
        }
        set_mode(&path, if place.contains("/bin/") { 0o755 } else { 0o644 })?;
        files += 1;
    }
    Ok(files)
}

fn stays_below(name: &str) -> bool {
    let normal = |part| matches!(part, Component::Normal(_));
    !name.contains(['\\', '\0']) && !name.is_empty() && Path::new(name).components().all(normal)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(Failure::io("set the mode of", path))
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> Result<(), Failure> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn archive(dir: &Path, files: &[(&str, &str)]) -> std::path::PathBuf {
        let path = dir.join("a.whl");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, text) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    fn keep_all(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn kept_files_are_written_and_programs_can_be_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = archive(dir.path(), &[("t/bin/p", "#!"), ("t/h.h", "int"), ("x", "")]);
        let place = |name: &str| (name != "x").then(|| name.to_owned());
        assert_eq!(unpack_with(&path, &place, &dir.path().join("o")), Ok(2));
        let mode = |name: &str| dir.path().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode("o/t/bin/p") & 0o777, 0o755);
        assert_eq!(mode("o/t/h.h") & 0o777, 0o644);
        assert!(!dir.path().join("o/x").exists());
    }

    #[test]
    fn a_file_that_would_leave_the_folder_is_refused() {
        for name in ["../evil", "a/../../evil", "/tmp/evil-cutile", "a\\..\\evil"] {
            let dir = tempfile::tempdir().unwrap();
            let path = archive(dir.path(), &[("good", ""), (name, "evil")]);
            let into = dir.path().join("o");
            for place in [&keep_all as &dyn Fn(&str) -> _, &|_| None] {
                fs::remove_dir_all(&into).ok();
                let error = unpack_with(&path, place, &into).unwrap_err();
                assert!(error.0.contains("would leave the folder"), "{error}");
            }
            assert!(!dir.path().join("evil").exists());
        }
    }

    #[test]
    fn a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.whl");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        zip.add_symlink("link", "/etc", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
        assert!(unpack_with(&path, &keep_all, &dir.path().join("o")).is_err());
    }

    #[test]
    fn a_damaged_archive_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = archive(dir.path(), &[("a", &"text".repeat(1000))]);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let error = unpack_with(&path, &keep_all, &dir.path().join("o")).unwrap_err();
        assert!(error.0.contains("no wheel"), "{error}");
    }
}
