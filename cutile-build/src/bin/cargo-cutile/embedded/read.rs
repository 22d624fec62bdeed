//! A file, in bounded memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Longest file that is read: 4 GiB. A program that embeds more than that does not load.
pub const MAX_FILE_BYTES: u64 = 4 << 30;

/// The bytes of a plain file of at most [`MAX_FILE_BYTES`].
///
/// # Errors
///
/// `InvalidInput` for what is no plain file, `FileTooLarge` for one that is longer or grows while it
/// is read; what the system says.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, MAX_FILE_BYTES)
}

fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Before it is opened: a pipe would wait for its other end.
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        let what = if found.is_dir() { "it is a folder" } else { "it is no plain file" };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let too_large = |bytes: u64| {
        let what = format!(
            "it has {bytes} bytes, and at most {most} are read; name the program or library itself"
        );
        io::Error::new(io::ErrorKind::FileTooLarge, what)
    };
    if found.len() > most {
        return Err(too_large(found.len()));
    }
    let mut bytes = Vec::new();
    let len = usize::try_from(found.len()).map_err(|_| too_large(found.len()))?;
    bytes.try_reserve_exact(len).map_err(|_| {
        io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("it has {len} bytes, for which this machine has no memory"),
        )
    })?;
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_bound_and_not_beyond() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, [7; 100]).unwrap();
        assert_eq!(read_at_most(&file, 100).unwrap(), [7; 100]);
        let error = read_at_most(&file, 99).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("it has 100 bytes, and at most 99"), "{error}");
    }

    #[test]
    fn what_is_longer_than_the_bound_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        File::create(&file).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert_eq!(read_file(&file).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_no_plain_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = read_file(dir.path()).unwrap_err();
        assert_eq!(error.to_string(), "it is a folder");
        #[cfg(unix)]
        assert!(read_file(Path::new("/dev/zero")).is_err());
        assert!(read_file(&dir.path().join("none")).is_err());
    }
}
