//! What the operating systems do differently: owners, links, permissions, the default place.

#[cfg(not(unix))]
pub(super) use other::{
    create_shard, create_temp, is_own, open_entry, open_lock, owner, prepare, user_cache_of_process,
};
#[cfg(unix)]
pub(super) use unix::{
    create_shard, create_temp, is_own, open_entry, open_lock, owner, prepare, user_cache_of_process,
};

#[cfg(unix)]
mod unix {
    pub(in super::super) use crate::store::root::{is_own, prepare};

    use crate::store::root::user_cache;
    use rustix::fs::OFlags;
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::{Path, PathBuf};

    pub(in super::super) fn user_cache_of_process() -> io::Result<PathBuf> {
        #[allow(clippy::disallowed_methods, reason = "the one place that reads these variables")]
        let (xdg, home) = (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
        user_cache(xdg.as_deref(), home.as_deref())
    }

    pub(in super::super) fn owner(found: &Metadata) -> Option<u32> {
        Some(found.uid())
    }

    /// Not through a link, and not waiting for the other end of a pipe.
    fn no_follow() -> OpenOptions {
        let mut options = File::options();
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        options
    }

    pub(in super::super) fn open_entry(path: &Path) -> io::Result<File> {
        no_follow().read(true).open(path)
    }

    /// Not truncated: were it something else than a lock, it would lose what it holds.
    pub(in super::super) fn open_lock(path: &Path) -> io::Result<File> {
        no_follow().write(true).create(true).truncate(false).mode(0o600).open(path)
    }

    pub(in super::super) fn create_temp(path: &Path) -> io::Result<File> {
        File::options().write(true).create_new(true).mode(0o600).open(path)
    }

    pub(in super::super) fn create_shard(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }
}

/// Written for Windows, and not run there.
#[cfg(not(unix))]
mod other {
    use super::local_app_data;
    use std::fs::{self, File, Metadata};
    use std::io;
    use std::path::{Path, PathBuf};

    pub(in super::super) fn user_cache_of_process() -> io::Result<PathBuf> {
        #[allow(clippy::disallowed_methods, reason = "the one place that reads this variable")]
        let local = std::env::var_os("LOCALAPPDATA");
        local_app_data(local.as_deref())
    }

    /// The permissions of `%LOCALAPPDATA%` are inherited.
    pub(in super::super) fn prepare(root: &Path) -> io::Result<()> {
        fs::create_dir_all(root)
    }

    pub(in super::super) fn is_own(_: &Metadata) -> bool {
        true
    }

    pub(in super::super) fn owner(_: &Metadata) -> Option<u32> {
        None
    }

    #[cfg(windows)]
    pub(in super::super) fn open_entry(path: &Path) -> io::Result<File> {
        use std::os::windows::fs::OpenOptionsExt;
        // Constants of winnt.h and winbase.h. A link is opened itself, and is no plain file then;
        // the second right is what touching the mtime takes.
        const GENERIC_READ: u32 = 0x8000_0000;
        const FILE_WRITE_ATTRIBUTES: u32 = 0x0100;
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
        File::options()
            .access_mode(GENERIC_READ | FILE_WRITE_ATTRIBUTES)
            .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
            .open(path)
    }

    #[cfg(not(windows))]
    pub(in super::super) fn open_entry(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(in super::super) fn open_lock(path: &Path) -> io::Result<File> {
        File::options().write(true).create(true).truncate(false).open(path)
    }

    pub(in super::super) fn create_temp(path: &Path) -> io::Result<File> {
        File::options().write(true).create_new(true).open(path)
    }

    pub(in super::super) fn create_shard(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }
}

/// The user's cache folder on Windows, from the value of `LOCALAPPDATA`.
#[cfg(any(test, not(unix)))]
fn local_app_data(local: Option<&std::ffi::OsStr>) -> std::io::Result<std::path::PathBuf> {
    let local = local.map(std::path::Path::new).filter(|local| local.is_absolute());
    local.map(Into::into).ok_or_else(|| {
        std::io::Error::new(
            std::io::ErrorKind::NotFound,
            "there is no cache folder of the user's own: set LOCALAPPDATA, or open a \
             FileSystemJitStore at a path of your choice",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::path::Path;

    #[test]
    fn the_windows_place_is_below_localappdata_and_nowhere_else() {
        let root = local_app_data(Some(OsStr::new("/local"))).unwrap();
        assert_eq!(root, Path::new("/local"));
        for none in [None, Some(OsStr::new("")), Some(OsStr::new("relative"))] {
            let error = local_app_data(none).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            assert!(error.to_string().contains("LOCALAPPDATA"), "{error}");
        }
    }
}
