//! The caches of this user on disk: where they are, and what is in them. Nothing is changed here.
//!
//! | cache | place | whose |
//! |---|---|---|
//! | kernels | `cutile/kernels` in the user's cache folder | cutile's, shared with `cutile-embed` |
//! | shaders | `cutile/shaders` there | `cutile-embed`'s |
//! | build | `cutile/build` there, or `CUTILE_BUILD_CACHE` | `cutile-build`'s |
//!
//! All three have one layout: `<2 digits>/<key>.cubin`, and while one is written
//! `<2 digits>/<key>.tmp.<more>`.

use crate::environ::Environ;
use crate::failure::Failure;
use cutile_embed::store::FileRole;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How old a temporary file is that a process left which died; as the store takes it.
pub(crate) const STALE_TEMP: Duration = Duration::from_secs(3600);

/// Which cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kernels,
    Shaders,
    Build,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Kernels, Self::Shaders, Self::Build];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Shaders => "shaders",
            Self::Build => "build",
        }
    }
}

/// A cache, which need not be there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
}

impl Place {
    /// Where a cache is.
    pub(crate) fn of(kind: Kind, environ: &Environ) -> Result<Self, Failure> {
        if kind == Kind::Build
            && let Some(value) = environ.get("CUTILE_BUILD_CACHE")
        {
            if value == "off" {
                return Err("there is no build cache: CUTILE_BUILD_CACHE=off is set".into());
            }
            let path = PathBuf::from(value);
            if !path.is_absolute() {
                return Err(Failure(format!(
                    "CUTILE_BUILD_CACHE={} cannot be used: expected an absolute path, or off",
                    path.display()
                )));
            }
            return Ok(Self { kind, path });
        }
        Ok(Self { kind, path: user_cache(environ)?.join("cutile").join(kind.name()) })
    }
}

#[cfg(unix)]
fn user_cache(environ: &Environ) -> Result<PathBuf, Failure> {
    let absolute = |name| environ.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .ok_or_else(|| {
            "there is no cache folder of your own: set HOME or XDG_CACHE_HOME to an absolute path"
                .into()
        })
}

#[cfg(not(unix))]
fn user_cache(environ: &Environ) -> Result<PathBuf, Failure> {
    let local = environ.get("LOCALAPPDATA").map(PathBuf::from).filter(|path| path.is_absolute());
    local.ok_or_else(|| "there is no cache folder of your own: set LOCALAPPDATA".into())
}

/// A file of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// When it was last read, or written.
    pub(crate) used: SystemTime,
}

/// What is in a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) entries: Vec<StoredFile>,
    /// Files that are being written, or were.
    pub(crate) temps: Vec<StoredFile>,
    /// What else is in its folders, and is no part of it.
    pub(crate) others: Vec<PathBuf>,
}

impl Survey {
    /// Looks at a cache; `None` where there is none. Links are not followed, and what is no file of
    /// a cache is passed over.
    pub(crate) fn of(root: &Path) -> Result<Option<Self>, Failure> {
        match fs::symlink_metadata(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::io("look at", root)(error)),
            Ok(found) if !found.is_dir() => {
                return Err(Failure(format!(
                    "{} is no folder, and a cache is one: move it away, or let XDG_CACHE_HOME, for \
                     the build cache CUTILE_BUILD_CACHE, name another place",
                    root.display()
                )));
            }
            Ok(_) => {}
        }
        let mut survey = Self::default();
        for shard in shards(root)? {
            let files = match fs::read_dir(shard.path()) {
                Ok(files) => files,
                // Another process clears it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Failure::io("list", &shard.path())(error)),
            };
            for file in files.flatten() {
                let Ok(found) = file.metadata() else { continue };
                if !found.is_file() {
                    survey.others.push(file.path());
                    continue;
                }
                let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let stored = StoredFile { path: file.path(), bytes: found.len(), used };
                let role = match (shard.file_name().to_str(), file.file_name().to_str()) {
                    (Some(shard), Some(name)) => FileRole::of(shard, name),
                    _ => None,
                };
                match role {
                    Some(FileRole::Entry) => survey.entries.push(stored),
                    Some(FileRole::Temporary) => survey.temps.push(stored),
                    None => survey.others.push(stored.path),
                }
            }
        }
        Ok(Some(survey))
    }

    /// Of all entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// Files that a process left which died.
    pub(crate) fn stale(&self, now: SystemTime) -> impl Iterator<Item = &StoredFile> {
        let age = move |file: &StoredFile| now.duration_since(file.used).unwrap_or_default();
        self.temps.iter().filter(move |file| age(file) > STALE_TEMP)
    }
}

/// The folders of two hex digits.
fn shards(root: &Path) -> Result<Vec<DirEntry>, Failure> {
    let is_shard = |entry: &DirEntry| {
        let name = entry.file_name();
        let hex = name.to_str().is_some_and(|name| {
            name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        hex && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let all = fs::read_dir(root).map_err(Failure::io("list", root))?;
    Ok(all.flatten().filter(is_shard).collect())
}

impl Survey {
    /// The keys of the entries, sorted.
    pub(crate) fn keys(&self) -> Vec<String> {
        let key = |file: &StoredFile| {
            Some(file.path.file_name()?.to_str()?.strip_suffix(".cubin")?.to_owned())
        };
        let mut keys: Vec<String> = self.entries.iter().filter_map(key).collect();
        keys.sort();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutile_embed::store::{FileSystemJitStore, JitStore as _};

    #[test]
    #[cfg(unix)]
    fn the_places_are_those_of_the_stores() {
        let environ = Environ::of(&[("HOME", "/h")]);
        let path = |kind, environ: &Environ| Place::of(kind, environ).unwrap().path;
        assert_eq!(path(Kind::Kernels, &environ), Path::new("/h/.cache/cutile/kernels"));
        assert_eq!(path(Kind::Build, &environ), Path::new("/h/.cache/cutile/build"));
        let environ =
            Environ::of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x"), ("CUTILE_BUILD_CACHE", "/b")]);
        assert_eq!(path(Kind::Shaders, &environ), Path::new("/x/cutile/shaders"));
        assert_eq!(path(Kind::Build, &environ), Path::new("/b"));
        let xdg = std::ffi::OsStr::new("/x");
        let upstream = cutile_embed::store::default_root(Some(xdg), None).unwrap();
        assert_eq!(path(Kind::Kernels, &environ), upstream);
    }

    #[test]
    fn without_a_place_it_is_said_what_to_set() {
        let none = Environ::of(&[("XDG_CACHE_HOME", "relative")]);
        let error = Place::of(Kind::Kernels, &none).unwrap_err().to_string();
        assert!(error.contains("set "), "{error}");
        let off = Environ::of(&[("CUTILE_BUILD_CACHE", "off"), ("HOME", "/h")]);
        assert!(Place::of(Kind::Build, &off).unwrap_err().to_string().contains("off"));
        let relative = Environ::of(&[("CUTILE_BUILD_CACHE", "x"), ("HOME", "/h")]);
        assert!(Place::of(Kind::Build, &relative).is_err());
    }

    #[test]
    fn entries_and_temporary_files_are_told_from_what_is_no_part_of_a_cache() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Survey::of(&dir.path().join("none")).unwrap(), None);
        let store = FileSystemJitStore::new(dir.path()).unwrap();
        let (one, two) = ("ab".repeat(32), "0f".repeat(32));
        store.put(&one, b"12345").unwrap();
        store.put(&two, b"1234").unwrap();
        fs::write(dir.path().join(format!("ab/{one}.tmp.1.2.3")), "torn").unwrap();
        fs::write(dir.path().join("ab/other"), "what").unwrap();
        fs::write(dir.path().join("ab/short.cubin"), "what").unwrap();
        fs::write(dir.path().join("ab/x.tmp.1.2.3"), "what").unwrap();
        fs::create_dir_all(dir.path().join("locks")).unwrap();
        fs::write(dir.path().join("locks/a.cubin"), "what").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(dir.path().join("ab"), dir.path().join("cd")).unwrap();
        let survey = Survey::of(dir.path()).unwrap().unwrap();
        assert_eq!((survey.entries.len(), survey.bytes(), survey.temps.len()), (2, 9, 1));
        let now = SystemTime::now();
        assert_eq!(survey.stale(now).count(), 0);
        assert_eq!(survey.stale(now + STALE_TEMP * 2).count(), 1);
        assert_eq!(survey.keys(), [two, one]);
        let mut others: Vec<_> = survey.others.iter().filter_map(|path| path.file_name()).collect();
        others.sort();
        assert_eq!(others, ["other", "short.cubin", "x.tmp.1.2.3"]);
    }
}
