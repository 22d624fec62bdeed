//! Gets wheels with pip, one by one, and recognizes them by their digests.

use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::say;
use crate::platform::Arch;
use crate::wheels::{Parts, Wheel};
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file of a wheel in a folder, whatever pip called its platform.
pub(crate) fn file_in(folder: &Path, wheel: &Wheel, arch: Arch) -> Option<PathBuf> {
    let prefix = wheel.file_prefix();
    let candidate = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&prefix) && name.ends_with(".whl"))
    };
    fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(candidate)
        .find(|path| has_digest(path, wheel, arch))
}

fn has_digest(path: &Path, wheel: &Wheel, arch: Arch) -> bool {
    let digest = || {
        let file = File::open(path)?;
        if file.metadata()?.len() != wheel.bytes(arch) {
            return Ok(String::new());
        }
        let mut hash = Sha256::new();
        io::copy(&mut io::BufReader::with_capacity(1 << 16, file), &mut hash)?;
        Ok::<_, io::Error>(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    };
    digest().is_ok_and(|found| found == wheel.sha256(arch))
}

/// Downloads what `folder` has not yet. A wheel that is whole stays when a later one fails.
pub(crate) fn download(
    environ: &Environ,
    parts: Parts,
    arch: Arch,
    folder: &Path,
) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
    for wheel in parts.wheels() {
        if file_in(folder, wheel, arch).is_some() {
            continue;
        }
        let megabytes = wheel.bytes(arch).div_ceil(1_000_000);
        say!("Downloading {} {} ({megabytes} MB)", wheel.name, wheel.version);
        download_one(environ, wheel, arch, folder)?;
        if file_in(folder, wheel, arch).is_none() {
            return Err(format!(
                "pip downloaded a {} {} with another digest than that pinned for {}: is \
                 python3 built for another processor?",
                wheel.name,
                wheel.version,
                arch.name()
            )
            .into());
        }
    }
    Ok(())
}

fn download_one(
    environ: &Environ,
    wheel: &Wheel,
    arch: Arch,
    folder: &Path,
) -> Result<(), Failure> {
    let requirements = folder.join(format!("{}.txt", wheel.name));
    fs::write(&requirements, wheel.requirement()).map_err(Failure::io("write", &requirements))?;
    let mut pip = Command::new(environ.python());
    pip.args(["-m", "pip", "--disable-pip-version-check", "download"])
        .args(["--only-binary", ":all:", "--no-deps", "--require-hashes"])
        .arg("--dest")
        .arg(folder)
        .arg("--requirement")
        .arg(&requirements)
        .stdin(Stdio::null())
        .stdout(Stdio::from(io::stderr()));
    if arch.name() != std::env::consts::ARCH {
        for platform in ["manylinux_2_27", "manylinux2014", "manylinux_2_17", "manylinux2010"] {
            pip.arg(format!("--platform={platform}_{}", arch.name()));
        }
    }
    if !io::stderr().is_terminal() {
        pip.arg("--quiet");
    }
    let status = pip.status().map_err(|error| format!("python3 does not run: {error}"))?;
    let _ = fs::remove_file(&requirements);
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "pip did not download {} {} ({status}); its message is above. What is downloaded is \
         kept: call this again to go on. Behind a proxy or with a mirror, pip's own settings \
         apply (PIP_PROXY, PIP_INDEX_URL, pip.conf). Without a network:\n{}",
        wheel.name,
        wheel.version,
        without_network()
    )
    .into())
}

/// The two commands of a machine without network.
pub(crate) fn without_network() -> &'static str {
    "  cargo cutile toolkit fetch --to DIR      # where there is a network\n  \
     cargo cutile toolkit install --from DIR  # here, with that folder"
}
