//! What the operating systems do differently: owners, links, permissions, the default place.

#[cfg(not(unix))]
pub(super) use other::{check_root, is_own, make_root, owner, prepare, user_cache_of_process};
#[cfg(unix)]
pub(super) use unix::{check_root, is_own, make_root, owner, prepare, user_cache_of_process};

#[cfg(unix)]
mod unix {
    pub(in super::super) use crate::store::root::{check_root, is_own, prepare};

    use crate::store::root::user_cache;
    use std::fs::{DirBuilder, Metadata};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    use std::path::{Path, PathBuf};

    pub(in super::super) fn user_cache_of_process() -> io::Result<PathBuf> {
        #[allow(clippy::disallowed_methods, reason = "the one place that reads these variables")]
        let (xdg, home) = (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"));
        user_cache(xdg.as_deref(), home.as_deref())
    }

    pub(in super::super) fn owner(found: &Metadata) -> Option<u32> {
        Some(found.uid())
    }

    /// Makes a root that was there when the store was opened.
    pub(in super::super) fn make_root(root: &Path, private: bool) -> io::Result<()> {
        match private {
            true => prepare(root),
            false => DirBuilder::new().recursive(true).mode(0o700).create(root),
        }
    }
}

/// Written for Windows, and not run there.
#[cfg(not(unix))]
mod other {
    use super::local_app_data;
    use std::fs::{self, Metadata};
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

    pub(in super::super) fn make_root(root: &Path, _: bool) -> io::Result<()> {
        fs::create_dir_all(root)
    }

    pub(in super::super) fn check_root(_: &Path, _: &Metadata) -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn is_own(_: &Metadata) -> bool {
        true
    }

    pub(in super::super) fn owner(_: &Metadata) -> Option<u32> {
        None
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
