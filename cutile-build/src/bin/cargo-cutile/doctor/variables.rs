//! Variables that change what is built or run.

use super::Check;
use crate::environ::Environ;
use cutile_build::environment::BuildEnv;
use cutile_embed::key::CODEGEN_VARIABLES;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What those are for that change nothing of what is served.
const KNOWN: [(&str, &str); 31] = [
    ("CUDA_ASYNC_HOST_SYNC", "how cuda-async waits"),
    ("CUDA_ASYNC_SPIN_BUDGET_US", "how cuda-async waits"),
    ("CUDA_HOME", "a toolkit, unless there is one in .cutile"),
    ("CUDA_PATH", "not read by cutile"),
    ("CUDA_TOOLKIT_PATH", "the toolkit"),
    ("CUDA_TOOLKIT_TARGET_DIR", "headers of the CUDA crates"),
    ("CUDA_DEVICE_ORDER", "the order of the devices"),
    ("CUDA_VISIBLE_DEVICES", "which devices programs see"),
    ("CUDA_LAUNCH_BLOCKING", "the driver's: launches wait"),
    ("CUDA_MODULE_LOADING", "the driver's: when modules are loaded"),
    ("CUDA_RUST_DEBUG", "the debug level of kernels: none, line or full"),
    ("CUTILE_BUILD", "skip: builds embed nothing"),
    ("CUTILE_BUILD_ALLOW_ENV", "1: builds though a variable changes the code"),
    ("CUTILE_BUILD_CACHE", "the build cache"),
    ("CUTILE_BUILD_JOBS", "tileiras processes at once"),
    ("CUTILE_BUILD_MEMORY", "memory of all tileiras processes"),
    ("CUTILE_BUILD_PREBUILT", "ignore: compiles though there is a prebuilt bundle"),
    ("CUTILE_BUILD_TARGETS", "targets, before those of Cargo.toml"),
    ("CUTILE_BUILD_TIMEOUT", "time of one tileiras process"),
    ("CUTILE_BUILD_DEBUG_INFO", "cutile's, at build"),
    ("CUTILE_DUMP", "cutile prints what it compiles"),
    ("CUTILE_DUMP_FILTER", "cutile prints what it compiles"),
    ("CUTILE_EMBED_RECORD", "what is launched is written there"),
    ("CUTILE_JIT_LOG", "cutile logs what it compiles and caches"),
    ("CUTILE_JIT_TIMING", "cutile logs how long it took"),
    ("CUTILE_PYTHON_SOURCE", "cutile's tests"),
    ("CUTILE_SETUP_DIAGNOSTICS", "cutile prints what it finds at build"),
    ("CUTILE_TILEIRAS_PATH", "the tileiras that programs run"),
    ("CUTILE_VIRTUAL_GPU", "the devices of the virtual GPU"),
    ("CUTILE_VIRTUAL_GPU_LOG", "what the virtual GPU is asked for is written there"),
    ("CARGO_CUTILE", "set by cargo cutile for what it runs"),
];

pub(super) fn check(environ: &Environ) -> Vec<Check> {
    let mut checks: Vec<Check> = environ
        .names()
        .filter_map(|name| {
            let name = name.to_str()?;
            // What starts with CUDA_ is anybody's; of those, the known ones matter here.
            let is_ours = name.starts_with("CUTILE_");
            let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
            (is_ours || known.is_some()).then_some(one(name, environ.get(name)?, known))
        })
        .collect();
    for name in ["XDG_CACHE_HOME", "HOME"] {
        if environ.get(name).is_some_and(|value| !Path::new(value).is_absolute()) {
            let advice = "let it name an absolute path";
            checks.push(Check::warn(name, "it is relative, and so does not count", advice));
        }
    }
    if checks.is_empty() {
        checks.push(Check::ok("variables", "none is set that changes what is built or run"));
    }
    checks
}

fn one(name: &str, value: &OsStr, known: Option<&str>) -> Check {
    let shown = format!("{name}={}", value.to_string_lossy());
    if CODEGEN_VARIABLES.contains(&name) {
        return Check::warn(
            "variable",
            format!("{shown} changes the code that cutile generates"),
            "unset it: a build refuses it, and while it is set at run time nothing that is \
             embedded is installed",
        );
    }
    if let Some(error) = invalid(name, value) {
        return Check::fail("variable", error, "builds stop at it; correct it, or unset it");
    }
    match (name, known) {
        (_, None) => Check::warn(
            "variable",
            format!("{shown}: no variable of that name is known"),
            "is it spelled right?",
        ),
        ("CUTILE_BUILD", _) => Check::warn(
            "variable",
            format!("{shown}: builds embed nothing"),
            "unset it to embed kernels",
        ),
        ("CUTILE_TILEIRAS_PATH", _) if !Path::new(value).is_file() => Check::fail(
            "variable",
            format!("{shown}: there is no such file"),
            "programs compile with it what is not embedded: correct it, or unset it",
        ),
        ("CUDA_VISIBLE_DEVICES", _) if value == "-1" => Check::warn(
            "variable",
            format!("{shown}: programs see no device"),
            "unset it to run on a GPU",
        ),
        (_, Some(text)) => Check::ok("variable", format!("{shown} ({text})")),
    }
}

/// Why a build would stop at a variable of its own.
fn invalid(name: &str, value: &OsStr) -> Option<String> {
    if !name.starts_with("CUTILE_BUILD") {
        return None;
    }
    let lookup = |asked: &str| match asked {
        // What Cargo sets for a build script.
        "OUT_DIR" | "CARGO_MANIFEST_DIR" => Some(OsString::from("/")),
        "CARGO_PKG_NAME" | "CARGO_PKG_VERSION" => Some(OsString::from("0")),
        _ if asked == name => Some(value.to_owned()),
        _ => None,
    };
    match BuildEnv::from_lookup(lookup) {
        Err(error) => Some(error.to_string()),
        Ok(found) => found.targets().err().map(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    fn statuses(variables: &[(&str, &str)]) -> Vec<Status> {
        check(&Environ::of(variables)).iter().map(|check| check.status).collect()
    }

    #[test]
    fn nothing_set_is_one_line() {
        let checks = check(&Environ::of(&[("PATH", "/bin"), ("CUDA_OTHER", "1"), ("HOME", "/h")]));
        assert_eq!(checks.len(), 1);
        assert_eq!(checks[0].status, Status::Ok);
    }

    #[test]
    fn every_variable_that_changes_code_is_a_warning() {
        for name in CODEGEN_VARIABLES {
            assert_eq!(statuses(&[(name, "1")]), [Status::Warn], "{name}");
        }
    }

    #[test]
    fn every_variable_of_a_build_is_known_and_its_value_checked() {
        use cutile_build::environment::RERUN_IF_ENV_CHANGED;
        for name in RERUN_IF_ENV_CHANGED {
            let known = KNOWN.iter().any(|(known, _)| *known == name);
            // docs.rs sets it, and nobody else.
            assert!(known || CODEGEN_VARIABLES.contains(&name) || name == "DOCS_RS", "{name}");
        }
        assert_eq!(statuses(&[("CUTILE_BUILD_JOBS", "4")]), [Status::Ok]);
        for (name, value) in [
            ("CUTILE_BUILD", "yes"),
            ("CUTILE_BUILD_JOBS", "many"),
            ("CUTILE_BUILD_CACHE", "relative"),
            ("CUTILE_BUILD_TARGETS", "sm_81"),
        ] {
            assert_eq!(statuses(&[(name, value)]), [Status::Fail], "{name}");
        }
        assert_eq!(statuses(&[("CUTILE_BUILD", "skip")]), [Status::Warn]);
    }

    #[test]
    fn a_name_that_is_spelled_wrong_is_a_warning() {
        assert_eq!(statuses(&[("CUTILE_BULID", "skip")]), [Status::Warn]);
        assert_eq!(statuses(&[("XDG_CACHE_HOME", "x")]), [Status::Warn]);
        assert_eq!(statuses(&[("CUTILE_TILEIRAS_PATH", "/no/such")]), [Status::Fail]);
    }
}
