//! A tileiras that says that it is the one of the build, and compiles nothing.
//!
//! Upstream asks its store only where a tileiras is on the machine, and with keys that name its
//! version. To have upstream's disk cache hit on a machine without a toolkit, this program starts
//! itself again with one beside it: a script that answers as the build's would.

use super::Options;
use cutile_embed::bundles;
use cutile_embed::entry::EntryHeader;
use cutile_embed::manifest::Manifest;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Runs the figures that take a disk cache, in a process of their own that prints them.
///
/// # Errors
///
/// Why they cannot be had, in words.
pub(super) fn run_beside(target: &str, options: &Options) -> Result<(), String> {
    let (fingerprint, bytecode) = identity(target).ok_or("no image is embedded for this GPU")?;
    let folder = std::env::temp_dir().join(format!("example-app-bench-{}", std::process::id()));
    let result = beside(&folder, &fingerprint, &bytecode, options);
    // It is in a folder for that.
    let _ = fs::remove_dir_all(&folder);
    result
}

fn beside(
    folder: &Path,
    fingerprint: &str,
    bytecode: &str,
    options: &Options,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    let tileiras = folder.join("tileiras");
    fs::create_dir(folder)
        .and_then(|()| fs::write(folder.join("version"), format!("{fingerprint}\n")))
        .and_then(|()| fs::write(&tileiras, script(bytecode)))
        .and_then(|()| fs::set_permissions(&tileiras, Permissions::from_mode(0o755)))
        .map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg("bench").arg("--beside").arg(folder).env("CUTILE_TILEIRAS_PATH", tileiras);
    command.args(["--rounds", &options.rounds.to_string()]);
    command.args(["--device", &options.device.to_string()]);
    command.args(options.json.then_some("--json"));
    let status = command.status().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(format!("the process beside it: {status}")) }
}

fn script(bytecode: &str) -> String {
    format!(
        "#!/bin/sh\n\
         case \"$1\" in\n\
         --version) cat \"${{0%/*}}/version\";;\n\
         --list-versions) echo {bytecode};;\n\
         *) exit 1;;\n\
         esac\n"
    )
}

/// What `--version` prints and the version of the bytecode, of the tileiras of the build.
fn identity(target: &str) -> Option<(String, String)> {
    bundles().iter().find_map(|bundle| {
        let pack = bundle.images(target)?.ok()?;
        let payload = pack.entries().next()?.payload().ok()?;
        let fingerprint = EntryHeader::parse(&payload).ok()?.tileiras_fp().to_owned();
        let manifest: Manifest = serde_json::from_str(bundle.manifest_json()?).ok()?;
        Some((fingerprint, manifest.toolkit?.bytecode))
    })
}
