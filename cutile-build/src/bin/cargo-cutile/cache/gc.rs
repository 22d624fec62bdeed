//! Eviction by hand, by the rules of the store: what was used longest ago goes first, and only one
//! process evicts at a time.

use crate::failure::Failure;
use crate::output::{print, size};
use crate::stores::{Place, Survey};
use cutile_embed::store::EVICTION_LOCK_FILE_NAME;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Removes entries until the rest is at most `capacity` bytes, and what processes left that died.
pub(super) fn gc(place: &Place, capacity: u64) -> Result<(), Failure> {
    let name = place.kind.name();
    if Survey::of(&place.path)?.is_none() {
        return print(&format!("{name:<8}  not there yet\n"));
    }
    // Held until the end: the store's own eviction and this one must not both count.
    let Some(_lock) = eviction_lock(&place.path)? else {
        return print(&format!("{name:<8}  another process evicts just now; left to it\n"));
    };
    let survey = Survey::of(&place.path)?.unwrap_or_default();
    let temps = survey.stale(SystemTime::now()).filter(|file| fs::remove_file(&file.path).is_ok());
    let temps = temps.count();
    let before = survey.bytes();
    let mut left = before;
    let mut removed = 0;
    let mut entries = survey.entries;
    entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    for entry in entries {
        if left <= capacity {
            break;
        }
        match fs::remove_file(&entry.path) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(Failure::io("remove", &entry.path))?,
        }
        left -= entry.bytes;
        removed += 1;
    }
    let mut text =
        format!("{removed} entries ({}) removed, {} left", size(before - left), size(left));
    if temps > 0 {
        let _ = write!(text, "; {temps} unfinished removed");
    }
    print(&format!("{name:<8}  {text}\n"))
}

/// The lock that stores take for eviction; `None` where another process holds it.
fn eviction_lock(root: &Path) -> Result<Option<File>, Failure> {
    let path: PathBuf = root.join(EVICTION_LOCK_FILE_NAME);
    // What the name links to is not the store's: opening it would make or lock that.
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(Failure(format!("{} is no plain file; delete it", path.display())));
    }
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let lock = options.open(&path).map_err(Failure::io("open", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Failure::io("lock", &path)(error)),
    }
}

/// As of `CUTILE_BUILD_MEMORY`: binary units. 0 is a size here.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a number of bytes with K, M, G or T, as 512M: {text:?}");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| expected())?;
    let unit = text[end..].trim().to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(expected()),
    };
    number.checked_mul(1 << shift).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutile_embed::store::DEFAULT_CAPACITY_BYTES;

    #[test]
    fn sizes_are_read_with_binary_units() {
        for (text, bytes) in [("0", 0), ("7", 7), ("512M", 512 << 20), ("4 GiB", 4 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1X", "99999999999T"] {
            assert!(parse_size(text).unwrap_err().contains("512M"), "{text}");
        }
        assert_eq!(parse_size("2G"), Ok(DEFAULT_CAPACITY_BYTES), "the default of the help");
    }
}
