//! Digests of large files.
//!
//! BLAKE3, because it is as fast where nothing is optimized: build scripts of dev builds are not, and
//! there SHA-256 of tileiras, libnvvm and the script itself took 8 s, this 0.2 s.

use std::fs::File;
use std::io;
use std::path::Path;

/// Digest of a file's bytes.
pub(crate) fn of_file(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize())
}
