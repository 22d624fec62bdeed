//! gcc's builtin headers, which libclang needs where clang's own are not there.

use crate::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Headers that belong to a compiler, not to the C library, and that CUDA's headers can reach.
const NAMES: [&str; 12] = [
    "float.h",
    "iso646.h",
    "limits.h",
    "stdalign.h",
    "stdarg.h",
    "stdatomic.h",
    "stdbool.h",
    "stddef.h",
    "stdint-gcc.h",
    "stdint.h",
    "stdnoreturn.h",
    "syslimits.h",
];

/// Copies them into a folder, where none of CUDA's has such a name.
pub(crate) fn copy_into(folder: &Path) -> Result<(), Failure> {
    let gcc = gcc_headers().ok_or(
        "gcc's headers were not found (`gcc -print-file-name=include`), and libclang needs its \
         stddef.h: install gcc, or clang with its headers, and call this again",
    )?;
    fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
    for name in NAMES {
        let (from, to) = (gcc.join(name), folder.join(name));
        if from.is_file() && !to.exists() {
            fs::copy(&from, &to).map_err(Failure::io("write", &to))?;
        }
    }
    Ok(())
}

fn gcc_headers() -> Option<PathBuf> {
    ["gcc", "cc"].into_iter().find_map(|compiler| {
        let output = Command::new(compiler)
            .arg("-print-file-name=include")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
        (folder.is_absolute() && folder.join("stddef.h").is_file()).then_some(folder)
    })
}
