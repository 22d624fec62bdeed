//! Installs the toolkit into `.cutile`: all of it or nothing.
//!
//! ```text
//! .cutile/.gitignore        *
//! .cutile/install.lock      held by the one that installs
//! .cutile/wheels/           what is downloaded; removed at the end
//! .cutile/.draft-*/         what is being unpacked
//! .cutile/toolkit/          {bin,lib,nvvm,include,licenses}, published by a rename
//! .cutile/libclang/         libclang.so, licenses/
//! .cutile/cargo.toml        for plain cargo
//! ```

use crate::download::{self, without_network};
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::say;
use crate::platform::{Arch, Facts};
use crate::unpack::unpack;
use crate::wheels::Parts;
use crate::workspace::DotCutile;
use crate::{headers, libclang};
use cutile_build::toolkit::{Chosen, Toolkit};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

const DRAFT: &str = ".draft-";

/// What to install, and how.
#[derive(Debug)]
pub(crate) struct Install<'a> {
    pub(crate) environ: &'a Environ,
    pub(crate) dot: &'a DotCutile,
    pub(crate) parts: Parts,
    /// A folder with the wheels: nothing is downloaded.
    pub(crate) from: Option<&'a Path>,
    pub(crate) offline: bool,
}

impl Install<'_> {
    /// Says what it does, and does it.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let python = self.from.is_none().then(|| self.environ.python());
        if self.from.is_none() && self.offline {
            // Before anything is asked of python.
            Facts::probe(None).supported()?;
            return Err(self.offline_failure());
        }
        let arch = Facts::probe(python).supported()?;
        self.dot.create()?;
        let _lock = self.lock()?;
        self.remove_stale_drafts();
        // Another process may just have done it.
        let parts = missing(self.dot, self.parts);
        if parts.is_empty() {
            return Ok(());
        }
        let cache = self.dot.path().join("wheels");
        let wheels = match self.from {
            Some(folder) => {
                say!("Installing from {} into {}", folder.display(), self.dot.path().display());
                folder
            }
            None => {
                say!("Installing into {}", self.dot.path().display());
                say!("{}", announcement(parts, arch));
                download::download(self.environ, parts, arch, &cache)?;
                &cache
            }
        };
        self.unpack_and_publish(parts, arch, wheels)?;
        match fs::remove_dir_all(&cache) {
            Ok(()) => {}
            Err(_) if !cache.exists() => {}
            Err(error) => say!("warning: {} stays: {error}", cache.display()),
        }
        Ok(())
    }

    fn lock(&self) -> Result<File, Failure> {
        let path = self.dot.path().join("install.lock");
        let file = File::create(&path).map_err(Failure::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                say!("Waiting for another `cargo cutile` that installs the toolkit");
                file.lock().map_err(Failure::io("lock", &path))?;
            }
            Err(TryLockError::Error(error)) => return Err(Failure::io("lock", &path)(error)),
        }
        Ok(file)
    }

    /// What one that was killed has left; with the lock held, nobody uses it.
    fn remove_stale_drafts(&self) {
        for entry in fs::read_dir(self.dot.path()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(DRAFT) {
                // What stays is in nobody's way.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn unpack_and_publish(&self, parts: Parts, arch: Arch, wheels: &Path) -> Result<(), Failure> {
        let files = files(parts, arch, wheels)?;
        let dir = self.dot.path();
        let draft = tempfile::Builder::new()
            .prefix(DRAFT)
            .tempdir_in(dir)
            .map_err(Failure::io("create a folder in", dir))?;
        for (wheel, file) in files {
            say!("Unpacking {} {}", wheel.name, wheel.version);
            unpack(&file, wheel, draft.path())?;
        }
        let libclang_headers = libclang::system(self.environ, Path::new("/"))
            .is_some_and(|found| found.headers && !parts.libclang);
        if parts.toolkit {
            let toolkit = draft.path().join("toolkit");
            if !libclang_headers {
                headers::copy_into(&toolkit.join("include"))?;
            }
            Toolkit::at(&toolkit, Chosen::Own)
                .map_err(|why| format!("the toolkit that was unpacked does not work: {why}"))?;
        } else if parts.libclang {
            // Here this libclang looks for its own headers: the toolkit is not ours to add to.
            let own = dir.join("lib/clang/18/include");
            headers::copy_into(&own)?;
        }
        // The toolkit last: with it, the installation is whole.
        for name in ["libclang", "toolkit"] {
            let from = draft.path().join(name);
            if from.is_dir() {
                publish(&from, &dir.join(name), &draft.path().join(format!("old-{name}")))?;
            }
        }
        Ok(())
    }

    fn offline_failure(&self) -> Failure {
        Failure(format!(
            "there is no CUDA toolkit in {}, and nothing is downloaded off line (--offline, \
             --frozen, CARGO_NET_OFFLINE). Either call, where there is a network,\n  \
             cargo cutile toolkit install\nor carry the wheels here:\n{}",
            self.dot.path().display(),
            without_network()
        ))
    }
}

/// Of `parts`, those that are not there.
fn missing(dot: &DotCutile, parts: Parts) -> Parts {
    Parts {
        toolkit: parts.toolkit && Toolkit::at(&dot.toolkit(), Chosen::Own).is_err(),
        libclang: parts.libclang && libclang::library_in(&dot.libclang()).is_none(),
    }
}

fn files(
    parts: Parts,
    arch: Arch,
    folder: &Path,
) -> Result<Vec<(&'static crate::wheels::Wheel, PathBuf)>, Failure> {
    let mut found = Vec::new();
    let mut missing = String::new();
    for wheel in parts.wheels() {
        match download::file_in(folder, wheel, arch) {
            Some(file) => found.push((wheel, file)),
            None => missing += &format!("\n  {}*{}.whl", wheel.file_prefix(), arch.name()),
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    Err(format!(
        "{} does not have, with the digests that are pinned:{missing}\nFill it where there is a \
         network with\n  cargo cutile toolkit fetch --to DIR --arch {}",
        folder.display(),
        arch.name()
    )
    .into())
}

fn publish(from: &Path, to: &Path, old: &Path) -> Result<(), Failure> {
    if to.symlink_metadata().is_ok() {
        fs::rename(to, old).map_err(Failure::io("move away", to))?;
    }
    fs::rename(from, to).map_err(Failure::io("publish", to))
}

/// What is downloaded, from whom, under which licence.
pub(crate) fn announcement(parts: Parts, arch: Arch) -> String {
    let bytes: u64 = parts.wheels().map(|wheel| wheel.bytes(arch)).sum();
    let megabytes = bytes.div_ceil(1_000_000);
    let mut text = String::new();
    let unpacked = match (parts.toolkit, parts.libclang) {
        (true, true) => 300,
        (true, false) => 245,
        (false, _) => 64,
    };
    text += &format!("  download  {megabytes} MB; unpacked about {unpacked} MB are kept\n");
    if parts.toolkit {
        text += "  toolkit   from NVIDIA, by its Python wheels on PyPI; NVIDIA Software License\n            \
                 Agreement and CUDA supplement, kept in .cutile/toolkit/licenses\n";
    }
    if parts.libclang {
        text += "  libclang  of the LLVM project, by the wheel `libclang` on PyPI; Apache-2.0\n            \
                 with LLVM exceptions, kept in .cutile/libclang/licenses\n";
    }
    text += "By using them you accept these licences. Ctrl-C stops; what is downloaded stays.";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announcement_names_size_source_and_licence_and_fits() {
        let text = announcement(Parts::ALL, Arch::X86_64);
        for words in ["269 MB", "about 300 MB", "NVIDIA", "PyPI", "License", "Apache-2.0"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn off_line_nothing_is_downloaded_and_both_commands_are_said() {
        let dir = tempfile::tempdir().unwrap();
        let dot = DotCutile::of(dir.path());
        let environ = Environ::of(&[]);
        let (parts, from) = (Parts::ALL, None);
        let failure =
            Install { environ: &environ, dot: &dot, parts, from, offline: true }.run().unwrap_err();
        assert!(failure.0.contains("toolkit fetch --to DIR"), "{failure}");
        assert!(failure.0.contains("toolkit install --from DIR"), "{failure}");
        assert!(!dot.path().exists());
    }

    #[test]
    fn a_draft_of_one_that_was_killed_is_removed_and_two_do_not_install_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let dot = DotCutile::of(dir.path());
        let environ = Environ::of(&[]);
        let from = Some(dir.path());
        let install =
            Install { environ: &environ, dot: &dot, parts: Parts::ALL, from, offline: true };
        let stale = dot.path().join(".draft-x/toolkit");
        fs::create_dir_all(&stale).unwrap();
        let held = install.lock().unwrap();
        let path = dot.path().join("install.lock");
        assert!(matches!(File::open(&path).unwrap().try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        // The folder has no wheels.
        assert!(install.run().is_err());
        assert!(!stale.exists());
        File::open(&path).unwrap().try_lock().unwrap();
    }

    #[test]
    fn publishing_takes_the_place_of_what_is_not_whole() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to, old] = ["from", "to", "old"].map(|name| dir.path().join(name));
        for (folder, file) in [(&from, "new"), (&to, "half")] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(file), "").unwrap();
        }
        publish(&from, &to, &old).unwrap();
        assert!(to.join("new").exists() && !to.join("half").exists() && !from.exists());
    }

    #[test]
    fn a_folder_without_the_wheels_is_named_with_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("nvidia_nvvm-13.5.37-py3-none-any.whl"), "not it").unwrap();
        let failure = files(Parts::ALL, Arch::Aarch64, dir.path()).unwrap_err();
        assert!(failure.0.contains("nvidia_nvvm-13.5.37-*aarch64.whl"), "{failure}");
        assert!(failure.0.contains("--arch aarch64"), "{failure}");
    }
}
