//! Where the disk cache is by default, and whether that place can be trusted.
//!
//! Whoever can write there can plant device code, so the folder is the user's alone, and what was
//! there before with wider permissions is not made good by narrowing them.

use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Root of the disk cache on Unix, from the values of `XDG_CACHE_HOME` and `HOME`:
/// `cutile/kernels` below the first, or below `.cache` of the second. A relative or empty
/// `XDG_CACHE_HOME` does not count, as its specification says.
///
/// # Errors
///
/// `NotFound` when neither names a place. A shared temporary folder is never used instead.
pub fn default_root(xdg_cache_home: Option<&OsStr>, home: Option<&OsStr>) -> io::Result<PathBuf> {
    Ok(user_cache(xdg_cache_home, home)?.join("cutile").join("kernels"))
}

/// The user's cache folder, see [`default_root`].
pub(crate) fn user_cache(
    xdg_cache_home: Option<&OsStr>,
    home: Option<&OsStr>,
) -> io::Result<PathBuf> {
    let absolute = |value: &OsStr| Path::new(value).is_absolute();
    xdg_cache_home
        .filter(|value| absolute(value))
        .map(PathBuf::from)
        .or_else(|| home.filter(|value| absolute(value)).map(|home| Path::new(home).join(".cache")))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "there is no cache folder of the user's own: set XDG_CACHE_HOME or HOME to an \
                 absolute path, or open a FileSystemJitStore at a path of your choice",
            )
        })
}

/// Makes the root, 0700 whatever the umask, or checks the one that is there. Nothing of what is
/// there is changed when it is refused.
pub(super) fn prepare(root: &Path) -> io::Result<()> {
    let parent = root.parent().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the cache folder has no parent")
    })?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(unmade(root))?;
    check_ancestors(&fs::canonicalize(parent)?)?;
    match DirBuilder::new().mode(0o700).create(root) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unmade(root)(error)),
    }
    let found = fs::symlink_metadata(root)?;
    check_root(root, &found)?;
    if found.mode() & 0o700 != 0o700 { give_to_owner(root) } else { Ok(()) }
}

/// The umask may have taken bits of the owner's. By handle where that can be had: what the path
/// names may be another folder by now.
fn give_to_owner(root: &Path) -> io::Result<()> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
    match File::options().read(true).custom_flags(flags).open(root) {
        Ok(handle) => {
            check_root(root, &handle.metadata()?)?;
            handle.set_permissions(Permissions::from_mode(0o700))
        }
        // Never said to root. Anybody else can only change what is his own.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(root, Permissions::from_mode(0o700))
        }
        Err(error) => Err(error),
    }
}

/// A folder that others can write, and that is not sticky, lets them put another in place of ours.
fn check_ancestors(parent: &Path) -> io::Result<()> {
    for ancestor in parent.ancestors() {
        let mode = fs::metadata(ancestor)?.mode();
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return Err(refused(
                ancestor,
                &format!("everybody can write it (mode {:04o})", mode & 0o7777),
                "remove that permission, or set XDG_CACHE_HOME to a folder of your own",
            ));
        }
    }
    Ok(())
}

/// Whether what was found at the root is a folder of the user's alone.
pub(super) fn check_root(root: &Path, found: &Metadata) -> io::Result<()> {
    const ADVICE: &str = "delete it and retry";
    if found.is_symlink() {
        return Err(refused(root, "it is a link, as only a folder above it may be", ADVICE));
    }
    if !found.is_dir() {
        return Err(refused(root, "it is not a directory", ADVICE));
    }
    if !is_own(found) {
        return Err(refused(root, &format!("it belongs to user {}", found.uid()), ADVICE));
    }
    if found.mode() & 0o077 != 0 {
        let mode = format!("group or others can enter it (mode {:04o})", found.mode() & 0o7777);
        return Err(refused(root, &mode, ADVICE));
    }
    Ok(())
}

fn unmade(root: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| {
        // The system says of a file in the way that it exists, or that it is no folder, and not which.
        let in_the_way = root.ancestors().skip(1).find(|path| path.exists() && !path.is_dir());
        let why = match in_the_way {
            Some(path) => format!("{} is no folder", path.display()),
            None => error.to_string(),
        };
        let root = root.display();
        let text = format!(
            "the cache folder {root} cannot be made: {why}; set XDG_CACHE_HOME to a folder of your own"
        );
        io::Error::new(error.kind(), text)
    }
}

fn refused(path: &Path, why: &str, advice: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("the cache folder {} is not used: {why}; {advice}", path.display()),
    )
}

/// Whether a file belongs to the user that runs this.
pub(super) fn is_own(file: &Metadata) -> bool {
    file.uid() == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(xdg: &str, home: &str) -> io::Result<PathBuf> {
        let value = |text: &'static str| Some(OsStr::new(text)).filter(|text| *text != "unset");
        let (xdg, home): (&'static str, &'static str) =
            (String::from(xdg).leak(), String::from(home).leak());
        default_root(value(xdg), value(home))
    }

    #[test]
    fn the_cache_folder_of_the_environment_is_used() {
        assert_eq!(root("/x", "/h").unwrap(), Path::new("/x/cutile/kernels"));
        assert_eq!(root("unset", "/h").unwrap(), Path::new("/h/.cache/cutile/kernels"));
    }

    #[test]
    fn a_relative_or_empty_cache_folder_does_not_count() {
        for xdg in ["", "x", "./x"] {
            assert_eq!(root(xdg, "/h").unwrap(), Path::new("/h/.cache/cutile/kernels"));
        }
    }

    #[test]
    fn without_a_folder_of_the_users_own_there_is_none() {
        for (xdg, home) in [("unset", "unset"), ("", ""), ("x", "h")] {
            let error = root(xdg, home).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(error.to_string().contains("XDG_CACHE_HOME"), "{error}");
        }
    }

    #[test]
    fn a_root_of_one_name_is_made_in_the_working_folder() {
        // Not made: to change the working folder would be to change it for other tests. It is there.
        let error = prepare(Path::new("Cargo.toml")).unwrap_err();
        assert!(error.to_string().contains("Cargo.toml"), "{error}");
    }

    #[test]
    fn what_stands_in_the_way_of_the_root_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let (below, far_below) = (file.join("kernels"), file.join("cutile/kernels"));
        for root in [&below, &far_below] {
            let error = prepare(root).unwrap_err();
            let text = error.to_string();
            let (root, file) = (root.display(), file.display());
            let start = format!("the cache folder {root} cannot be made: {file} is no folder; ");
            assert!(text.starts_with(&start) && text.contains("XDG_CACHE_HOME"), "{text}");
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let text = prepare(&link).unwrap_err().to_string();
        assert!(text.contains("link is not used: it is a link, "), "{text}");
    }

    #[test]
    fn a_link_in_place_of_the_root_is_given_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let (other, link) = (dir.path().join("other"), dir.path().join("link"));
        DirBuilder::new().mode(0o500).create(&other).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(give_to_owner(&link).is_err());
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o500);
        give_to_owner(&other).unwrap();
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o700);
    }
}
