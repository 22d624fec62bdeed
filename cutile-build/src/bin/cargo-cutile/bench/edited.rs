//! What a build does after one kernel was edited, in a copy of the app.
//!
//! The copy is a workspace of its own below the target folder of this one, and takes what cargo has
//! compiled of others' crates from there. It has another name, or cargo would put the program with the
//! edited kernel in the place of the app's.

use super::build_script::{Jobs, Variables, quoted};
use super::{APP, EDITED};
use crate::environ::Environ;
use crate::failure::Failure;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package of the copy.
const COPY: &str = "example-app-edited";

/// What is edited: arithmetic of one kernel, so that its lines stay where they are. They are in the
/// bytecode of what is behind them in the file.
const FILE: &str = "src/kernels/saxpy.rs";
const FROM: &str = "tile_a * tile_x + tile_y";
const TO: &str = "tile_a * tile_x - tile_y";

/// Builds, edits, and builds again, with a build cache of its own.
pub(super) fn measure(
    environ: &Environ,
    workspace: &Path,
    toolkit: &Variables,
) -> Result<Value, Failure> {
    let folder = workspace.join("target/cutile-bench");
    let copy = folder.join("workspace");
    copy_app(workspace, &copy)?;
    let cache = tempfile::Builder::new()
        .prefix("cache-")
        .tempdir_in(&folder)
        .map_err(Failure::io("make a folder in", &folder))?;
    let build = |name: &str| {
        let events = cache.path().join(name);
        let mut command = Command::new(environ.cargo());
        command
            .args(["build", "--release", "--quiet", "-p", COPY, "--target-dir"])
            .arg(workspace.join("target"))
            .current_dir(&copy)
            .env("CUTILE_BUILD_CACHE", cache.path().join("cache"))
            .env("CUTILE_BUILD_EVENTS", &events);
        for (name, value) in toolkit {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        cutile_build::events::make_folder(&events, false).map_err(Failure::io("make", &events))?;
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cargo does not run: {error}"))?;
        match output.status.success() {
            true => Ok(Jobs::of(&events)),
            false => Err(Failure(format!(
                "the copy of {APP} in {} does not build: {}",
                quoted(&copy),
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
        }
    };
    let before = build("before")?;
    let file = copy.join(APP).join(FILE);
    let text = fs::read_to_string(&file).map_err(Failure::io("read", &file))?;
    let edited = text.replacen(FROM, TO, 1);
    if edited == text {
        return Err(Failure(format!("{FILE} of {APP} has no {FROM:?} to edit")));
    }
    fs::write(&file, edited).map_err(Failure::io("write", &file))?;
    let after = build("after")?;
    Ok(figure(&before, &after))
}

fn figure(before: &Jobs, after: &Jobs) -> Value {
    let changed = after.all.difference(&before.all).count();
    let met = changed > 0 && after.compiled == changed && before.compiled == before.all.len();
    json!({
        "name": EDITED, "ours": after.compiled, "theirs": changed,
        "ratio": after.compiled as f64 / changed as f64, "unit": "tileiras processes",
        "bar": "only the jobs whose bytecode changed", "met": met,
        "note": format!(
            "{FROM:?} of {FILE} became {TO:?}: {changed} of {} jobs are others",
            after.all.len()
        ),
    })
}

/// The app alone and renamed, in a workspace with the profiles and dependencies of this one.
fn copy_app(workspace: &Path, to: &Path) -> Result<(), Failure> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(Failure::io("remove", to))?;
    }
    copy_tree(&workspace.join(APP), &to.join(APP))?;
    let edit = |name: &str, edit: &dyn Fn(&str) -> String| {
        let (from, to) = (workspace.join(name), to.join(name));
        let text = fs::read_to_string(&from).map_err(Failure::io("read", &from))?;
        fs::write(&to, edit(&text)).map_err(Failure::io("write", &to))
    };
    edit("Cargo.lock", &renamed)?;
    edit(&format!("{APP}/Cargo.toml"), &renamed)?;
    edit("Cargo.toml", &|text| manifest_of_copy(text, workspace))
}

/// A manifest or lock file with the name of the copy.
fn renamed(text: &str) -> String {
    text.replace(&format!("name = \"{APP}\"\n"), &format!("name = \"{COPY}\"\n"))
}

fn manifest_of_copy(text: &str, workspace: &Path) -> String {
    let line = |line: &str| match line {
        _ if line.starts_with("members = ") => format!("members = [\"{APP}\"]\n"),
        _ if line.starts_with("exclude = ") => String::new(),
        _ => line.replace("path = \"", &format!("path = \"{}/", workspace.display())) + "\n",
    };
    text.lines().map(line).collect()
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(Failure::io("create", to))?;
    for entry in fs::read_dir(from).map_err(Failure::io("read", from))? {
        let from: PathBuf = entry.map_err(Failure::io("read", from))?.path();
        let to = to.join(from.file_name().unwrap_or_default());
        if from.is_dir() {
            copy_tree(&from, &to)?;
        } else {
            fs::copy(&from, &to).map_err(Failure::io("copy", &from))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_manifest_of_the_copy_has_the_app_and_the_paths_of_the_workspace() {
        let text = "[workspace]\nmembers = [\"a\", \"example-app\"]\nexclude = [\"tests\"]\n\
                    cutile-build = { path = \"cutile-build\", version = \"1\" }\n[profile.dev]\n";
        assert_eq!(
            manifest_of_copy(text, Path::new("/w")),
            "[workspace]\nmembers = [\"example-app\"]\n\
             cutile-build = { path = \"/w/cutile-build\", version = \"1\" }\n[profile.dev]\n"
        );
    }

    #[test]
    fn the_copy_is_another_package() {
        assert_eq!(
            renamed("name = \"example-app\"\nversion = \"1\"\nname = \"example-app-other\"\n"),
            "name = \"example-app-edited\"\nversion = \"1\"\nname = \"example-app-other\"\n"
        );
    }

    #[test]
    fn only_changed_jobs_may_run() {
        let jobs = |all: &[&str], compiled| Jobs {
            all: all.iter().map(|job| (*job).to_owned()).collect::<BTreeSet<_>>(),
            compiled,
            cached: all.len() - compiled,
        };
        let before = jobs(&["a", "b", "c"], 3);
        assert_eq!(figure(&before, &jobs(&["a", "b", "d"], 1))["met"], true);
        assert_eq!(figure(&before, &jobs(&["a", "b", "d"], 2))["met"], false);
        assert_eq!(figure(&before, &jobs(&["a", "b", "c"], 0))["met"], false, "nothing changed");
    }
}
