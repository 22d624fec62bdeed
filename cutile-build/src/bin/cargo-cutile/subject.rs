//! The file that a command looks into.

use crate::embedded::bundle::{Embedded, EmbeddedBundle};
use crate::embedded::read::read_file;
use crate::failure::Failure;
use crate::output::{clean, shown};
use std::path::Path;

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_file(path).map_err(Failure::io("read", path))
}

/// What is embedded in the bytes of a file; that it is nothing is an error.
pub(crate) fn embedded<'a>(path: &Path, bytes: &'a [u8]) -> Result<Embedded<'a>, Failure> {
    let embedded = Embedded::read(bytes);
    if embedded.is_empty() {
        return Err(Failure(format!(
            "nothing is embedded in {}: its {} bytes have no pack, index or manifest of \
             cutile-build. Name the program or library that calls cutile_embed::embed!(), as it \
             was linked: not compressed, and not its debug file",
            shown(path),
            bytes.len()
        )));
    }
    Ok(embedded)
}

/// `app 1.2.3`.
pub(crate) fn title(bundle: &EmbeddedBundle<'_>) -> String {
    format!("{} {}", clean(&bundle.package.name), clean(&bundle.package.version))
}
