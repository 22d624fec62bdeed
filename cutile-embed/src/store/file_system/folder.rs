//! A folder by its handle, so that what was checked is what is used.
//!
//! A path is looked up anew each time it is used: whoever can rename one of its parts has the check
//! made on one folder, and the use on another. So the root is opened first, then the shard, without
//! following a link; both are looked at by their handles, and what lies in them is named relative
//! to those.

#[cfg(not(unix))]
pub(super) use other::Folder;
#[cfg(unix)]
pub(super) use unix::Folder;

#[cfg(unix)]
mod unix {
    use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
    use rustix::io::{Errno, retry_on_intr};
    use std::ffi::OsString;
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::ffi::OsStringExt;
    use std::path::Path;

    /// Enough to go on from, and to ask what it is. A umask can have taken the owner's right to
    /// list a folder, or to read a file.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const HANDLE: OFlags = OFlags::PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const HANDLE: OFlags = OFlags::NONBLOCK;

    /// Longest path that Linux takes, with the zero behind it.
    const PATH_MAX: usize = 4096;

    #[derive(Debug)]
    pub(in super::super) struct Folder(File);

    fn open_at(at: impl AsFd, path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode as _);
        Ok(File::from(retry_on_intr(|| openat(&at, path, flags, mode))?))
    }

    impl Folder {
        /// The folder at `path`, and not what a link there points to unless `follow`. `longest` is
        /// how long the path of something in it becomes: upstream opens entries by theirs.
        pub(in super::super) fn open(
            path: &Path,
            follow: bool,
            longest: usize,
        ) -> io::Result<Self> {
            if path.as_os_str().len() + longest >= PATH_MAX {
                return Err(Errno::NAMETOOLONG.into());
            }
            let no_follow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
            open_at(CWD, path, HANDLE | OFlags::DIRECTORY | no_follow, 0).map(Self)
        }

        /// A folder in this one.
        pub(in super::super) fn folder(&self, name: &str) -> io::Result<Self> {
            self.folder_at(Path::new(name))
        }

        fn folder_at(&self, name: &Path) -> io::Result<Self> {
            let flags = HANDLE | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            match open_at(&self.0, name, flags, 0) {
                // Of a link, some systems say this.
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                    Err(Errno::NOTDIR.into())
                }
                opened => opened.map(Self),
            }
        }

        /// Makes a folder, where there is nothing of that name.
        pub(in super::super) fn make_folder(&self, name: &str) -> io::Result<()> {
            match retry_on_intr(|| mkdirat(&self.0, name, Mode::RWXU)) {
                Err(Errno::EXIST) => Ok(()),
                made => Ok(made?),
            }
        }

        pub(in super::super) fn metadata(&self) -> io::Result<Metadata> {
            self.0.metadata()
        }

        /// What is there under a name, without opening it for reading; `None` for a link, unless
        /// what is told says so.
        pub(in super::super) fn look_at(&self, name: &str) -> io::Result<Option<Metadata>> {
            match open_at(&self.0, Path::new(name), HANDLE | OFlags::NOFOLLOW, 0) {
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => Ok(None),
                opened => opened?.metadata().map(Some),
            }
        }

        /// Opens for reading. Not through a link, and not waiting for the other end of a pipe.
        pub(in super::super) fn open_entry(&self, name: &str) -> io::Result<File> {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            open_at(&self.0, Path::new(name), flags, 0)
        }

        /// Not truncated: were it something else than a lock, it would lose what it holds.
        pub(in super::super) fn open_lock(&self, name: &str) -> io::Result<File> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            open_at(&self.0, Path::new(name), flags, 0o600)
        }

        pub(in super::super) fn create_temp(&self, name: &str) -> io::Result<File> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            open_at(&self.0, Path::new(name), flags, 0o600)
        }

        pub(in super::super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            Ok(retry_on_intr(|| renameat(&self.0, from, &self.0, to))?)
        }

        pub(in super::super) fn remove_file(&self, name: &str) -> io::Result<()> {
            Ok(retry_on_intr(|| unlinkat(&self.0, name, AtFlags::empty()))?)
        }

        /// The names of what is in it, in no order.
        pub(in super::super) fn names(&self) -> io::Result<Vec<OsString>> {
            let listed = open_at(&self.0, Path::new("."), OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
            let mut names = Vec::new();
            for entry in Dir::new(listed)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push(OsString::from_vec(name.to_vec()));
                }
            }
            Ok(names)
        }

        /// Removes a folder in which there is nothing, and not what a link of that name points to.
        pub(in super::super) fn remove_empty_folder(&self, name: &str) -> io::Result<()> {
            Ok(retry_on_intr(|| unlinkat(&self.0, name, AtFlags::REMOVEDIR))?)
        }
    }
}

/// By path, and so without that promise. Written for Windows, and not run there.
#[cfg(not(unix))]
mod other {
    use std::ffi::OsString;
    use std::fs::{self, File, Metadata};
    use std::io::{self, ErrorKind};
    use std::path::{Path, PathBuf};

    #[derive(Debug)]
    pub(in super::super) struct Folder(PathBuf);

    impl Folder {
        pub(in super::super) fn open(path: &Path, _: bool, _: usize) -> io::Result<Self> {
            fs::metadata(path)?;
            Ok(Self(path.to_owned()))
        }

        pub(in super::super) fn folder(&self, name: &str) -> io::Result<Self> {
            let path = self.0.join(name);
            match fs::symlink_metadata(&path)?.is_dir() {
                true => Ok(Self(path)),
                false => Err(ErrorKind::NotADirectory.into()),
            }
        }

        pub(in super::super) fn make_folder(&self, name: &str) -> io::Result<()> {
            fs::create_dir_all(self.0.join(name))
        }

        pub(in super::super) fn metadata(&self) -> io::Result<Metadata> {
            fs::metadata(&self.0)
        }

        pub(in super::super) fn look_at(&self, name: &str) -> io::Result<Option<Metadata>> {
            fs::symlink_metadata(self.0.join(name)).map(Some)
        }

        #[cfg(windows)]
        pub(in super::super) fn open_entry(&self, name: &str) -> io::Result<File> {
            use std::os::windows::fs::OpenOptionsExt;
            // Constants of winnt.h and winbase.h. A link is opened itself, and is no plain file
            // then; the second right is what touching the mtime takes.
            const GENERIC_READ: u32 = 0x8000_0000;
            const FILE_WRITE_ATTRIBUTES: u32 = 0x0100;
            const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
            File::options()
                .access_mode(GENERIC_READ | FILE_WRITE_ATTRIBUTES)
                .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
                .open(self.0.join(name))
        }

        #[cfg(not(windows))]
        pub(in super::super) fn open_entry(&self, name: &str) -> io::Result<File> {
            File::open(self.0.join(name))
        }

        pub(in super::super) fn open_lock(&self, name: &str) -> io::Result<File> {
            File::options().write(true).create(true).truncate(false).open(self.0.join(name))
        }

        pub(in super::super) fn create_temp(&self, name: &str) -> io::Result<File> {
            File::options().write(true).create_new(true).open(self.0.join(name))
        }

        pub(in super::super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            fs::rename(self.0.join(from), self.0.join(to))
        }

        pub(in super::super) fn remove_file(&self, name: &str) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }

        pub(in super::super) fn names(&self) -> io::Result<Vec<OsString>> {
            fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name())).collect()
        }

        pub(in super::super) fn remove_empty_folder(&self, name: &str) -> io::Result<()> {
            fs::remove_dir(self.0.join(name))
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{ErrorKind, Write};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    /// A folder with `file`, `folder` (not empty), `link` (to that) and `dangling`.
    fn some() -> (TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), b"file").unwrap();
        fs::create_dir_all(dir.path().join("folder/inner")).unwrap();
        fs::write(dir.path().join("folder/inner/file"), b"inner").unwrap();
        symlink(dir.path().join("folder"), dir.path().join("link")).unwrap();
        symlink(dir.path().join("nothing"), dir.path().join("dangling")).unwrap();
        let folder = Folder::open(dir.path(), false, 0).unwrap();
        (dir, folder)
    }

    fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn a_root_is_reached_through_a_link_only_where_it_may() {
        let (dir, _) = some();
        let link = dir.path().join("link");
        Folder::open(&link, true, 0).unwrap();
        assert_eq!(kind(Folder::open(&link, false, 0)), ErrorKind::NotADirectory);
        assert_eq!(kind(Folder::open(&dir.path().join("file"), true, 0)), ErrorKind::NotADirectory);
        assert_eq!(kind(Folder::open(&dir.path().join("nothing"), true, 0)), ErrorKind::NotFound);
    }

    #[test]
    fn a_root_whose_entries_have_no_path_is_refused() {
        let (dir, _) = some();
        let left = 4096 - dir.path().as_os_str().len();
        Folder::open(dir.path(), false, left - 1).unwrap();
        assert_eq!(kind(Folder::open(dir.path(), false, left)), ErrorKind::InvalidFilename);
    }

    #[test]
    fn a_folder_is_no_link_and_no_file() {
        let (_dir, folder) = some();
        let inner = folder.folder("folder").unwrap();
        assert!(inner.metadata().unwrap().is_dir());
        assert_eq!(kind(folder.folder("link")), ErrorKind::NotADirectory);
        assert_eq!(kind(folder.folder("file")), ErrorKind::NotADirectory);
        assert_eq!(kind(folder.folder("nothing")), ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_is_made_once_and_is_the_owners() {
        let (dir, folder) = some();
        folder.make_folder("new").unwrap();
        folder.make_folder("new").unwrap();
        assert_eq!(fs::metadata(dir.path().join("new")).unwrap().permissions().mode() & 0o077, 0);
        // What is there under the name is for `folder` to refuse.
        folder.make_folder("link").unwrap();
        assert!(dir.path().join("link").is_symlink());
        assert_eq!(kind(folder.make_folder("nothing/new")), ErrorKind::NotFound);
    }

    #[test]
    fn a_look_at_a_link_is_not_a_look_behind_it() {
        let (_dir, folder) = some();
        assert_eq!(folder.look_at("file").unwrap().map(|found| found.len()), Some(4));
        for link in ["link", "dangling"] {
            assert!(folder.look_at(link).unwrap().is_none_or(|found| found.is_symlink()), "{link}");
        }
        assert_eq!(kind(folder.look_at("nothing")), ErrorKind::NotFound);
    }

    #[test]
    fn no_file_is_opened_or_made_through_a_link() {
        let (dir, folder) = some();
        symlink(dir.path().join("file"), dir.path().join("to-file")).unwrap();
        folder.open_entry("file").unwrap();
        assert!(folder.open_entry("to-file").is_err());
        assert!(folder.open_lock("to-file").is_err());
        assert!(folder.open_lock("dangling").is_err());
        assert_eq!(kind(folder.create_temp("dangling")), ErrorKind::AlreadyExists);
        assert_eq!(kind(folder.create_temp("file")), ErrorKind::AlreadyExists);
        assert!(!dir.path().join("nothing").exists());
        folder.create_temp("temp").unwrap().write_all(b"temp").unwrap();
        assert_eq!(fs::metadata(dir.path().join("temp")).unwrap().permissions().mode() & 0o077, 0);
        folder.open_lock("lock").unwrap();
        folder.open_lock("temp").unwrap();
        assert_eq!(fs::read(dir.path().join("temp")).unwrap(), b"temp");
    }

    #[test]
    fn names_are_those_of_what_is_in_it() {
        let (dir, folder) = some();
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, ["dangling", "file", "folder", "link"]);
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        assert!(folder.folder("empty").unwrap().names().unwrap().is_empty());
    }

    #[test]
    fn a_folder_is_removed_where_it_is_one_and_empty() {
        let (dir, folder) = some();
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        symlink(&empty, dir.path().join("to-empty")).unwrap();
        for name in ["to-empty", "link", "file"] {
            assert_eq!(kind(folder.remove_empty_folder(name)), ErrorKind::NotADirectory);
        }
        assert_eq!(kind(folder.remove_empty_folder("nothing")), ErrorKind::NotFound);
        assert_eq!(kind(folder.remove_empty_folder("folder")), ErrorKind::DirectoryNotEmpty);
        folder.remove_empty_folder("empty").unwrap();
        assert!(!empty.exists() && dir.path().join("folder/inner/file").exists());
    }

    #[test]
    fn files_are_renamed_and_removed_in_the_folder_that_was_opened() {
        let (dir, folder) = some();
        let inner = folder.folder("folder").unwrap();
        fs::rename(dir.path().join("folder"), dir.path().join("moved")).unwrap();
        symlink(dir.path(), dir.path().join("folder")).unwrap();
        inner.create_temp("temp").unwrap();
        inner.rename("temp", "file").unwrap();
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"file");
        assert_eq!(fs::read(dir.path().join("moved/file")).unwrap(), b"");
        inner.remove_file("file").unwrap();
        assert!(dir.path().join("file").exists() && !dir.path().join("moved/file").exists());
        assert_eq!(kind(inner.remove_file("file")), ErrorKind::NotFound);
        assert_eq!(kind(inner.rename("nothing", "file")), ErrorKind::NotFound);
    }
}
