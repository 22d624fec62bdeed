//! Where clang-sys, which bindgen uses, finds a libclang by itself.

use crate::environ::Environ;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Patterns of folders, `*` for any characters but `/`, as in clang-sys.
const FOLDERS: [&str; 7] = [
    "usr/local/llvm*/lib*",
    "usr/local/lib*/*/*",
    "usr/local/lib*/*",
    "usr/local/lib*",
    "usr/lib*/*/*",
    "usr/lib*/*",
    "usr/lib*",
];

/// Patterns of the folders with clang's own headers.
const HEADERS: [&str; 3] = [
    "usr/lib*/llvm*/lib/clang/*/include",
    "usr/lib*/clang/*/include",
    "usr/local/lib/clang/*/include",
];

/// A libclang of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemLibclang {
    pub(crate) library: PathBuf,
    /// Clang's own headers, such as `stddef.h`, are on the system too.
    pub(crate) headers: bool,
}

/// Looks below `root`, which is `/` except in tests.
pub(crate) fn system(environ: &Environ, root: &Path) -> Option<SystemLibclang> {
    let mut folders = Vec::new();
    if let Some(prefix) = llvm_prefix(environ) {
        folders.extend(["bin", "lib", "lib64"].map(|name| prefix.join(name)));
    }
    folders.extend(environ.folders("LD_LIBRARY_PATH"));
    folders.extend(environ.folders("LIBRARY_PATH"));
    folders.extend(FOLDERS.iter().flat_map(|pattern| expand(root, pattern)));
    let library = folders.iter().find_map(|folder| library_in(folder))?;
    let headers = HEADERS
        .iter()
        .flat_map(|pattern| expand(root, pattern))
        .chain(library.parent().into_iter().flat_map(|dir| expand(dir, "clang/*/include")))
        .any(|folder| folder.join("stddef.h").is_file());
    Some(SystemLibclang { library, headers })
}

/// The libclang in a folder.
pub(crate) fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().and_then(OsStr::to_str).is_some_and(is_libclang))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.into_iter().next()
}

fn is_libclang(name: &str) -> bool {
    // libclang-cpp is another library.
    let Some(rest) = name.strip_prefix("libclang").filter(|_| !name.contains("-cpp.")) else {
        return false;
    };
    match rest.split_once(".so") {
        Some((version, suffix)) => {
            (version.is_empty() || version.starts_with('-'))
                && (suffix.is_empty() || suffix.starts_with('.'))
        }
        None => false,
    }
}

fn llvm_prefix(environ: &Environ) -> Option<PathBuf> {
    let program = environ.get("LLVM_CONFIG_PATH").unwrap_or(OsStr::new("llvm-config"));
    let output = Command::new(program).arg("--prefix").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.lines().next()?)).filter(|path| path.is_absolute())
}

fn expand(root: &Path, pattern: &str) -> Vec<PathBuf> {
    pattern.split('/').fold(vec![root.to_owned()], |folders, part| {
        if !part.contains('*') {
            return folders.into_iter().map(|dir| dir.join(part)).filter(|d| d.is_dir()).collect();
        }
        let matching = |dir: PathBuf| {
            let mut found: Vec<PathBuf> = fs::read_dir(dir)
                .into_iter()
                .flatten()
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| {
                    path.file_name().and_then(OsStr::to_str).is_some_and(|name| matches(part, name))
                })
                .filter(|path| path.is_dir())
                .collect();
            found.sort();
            found
        };
        folders.into_iter().flat_map(matching).collect()
    })
}

/// A pattern with at most one `*`, at its end.
fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').is_some_and(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_clang_sys() {
        for name in ["libclang.so", "libclang.so.1", "libclang-14.so", "libclang-14.so.14.0.6"] {
            assert!(is_libclang(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclang.a", "libclangBasic.so", "libclang.sox"] {
            assert!(!is_libclang(name), "{name}");
        }
    }

    #[test]
    fn a_library_of_the_system_is_found_with_and_without_headers() {
        let root = tempfile::tempdir().unwrap();
        let environ = Environ::of(&[("LLVM_CONFIG_PATH", "/nowhere/llvm-config")]);
        assert_eq!(system(&environ, root.path()), None);
        let lib = root.path().join("usr/lib/llvm-14/lib");
        let library = lib.join("libclang.so.1");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libclang-cpp.so.14"), "").unwrap();
        assert_eq!(system(&environ, root.path()), None);
        fs::write(&library, "").unwrap();
        let without = SystemLibclang { library: library.clone(), headers: false };
        assert_eq!(system(&environ, root.path()), Some(without));
        let include = lib.join("clang/14.0.6/include");
        fs::create_dir_all(&include).unwrap();
        fs::write(include.join("stddef.h"), "").unwrap();
        let with = SystemLibclang { library, headers: true };
        assert_eq!(system(&environ, root.path()), Some(with));
    }
}
