//! What builds: toolkit, libclang, Rust.

use super::Check;
use super::devices::install_toolkit;
use crate::choice::{Choice, Libclang};
use crate::environ::Environ;
use crate::platform::Facts;
use crate::toolkit::release;
use cutile_build::toolkit::{INSTALL_COMMAND, ToolkitError};
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The Rust that these crates need.
const RUST: &str = env!("CARGO_PKG_RUST_VERSION");

pub(super) fn check(choice: &Choice, environ: &Environ) -> Vec<Check> {
    let mut checks = vec![toolkit(choice)];
    if let Ok(toolkit) = &choice.toolkit
        && toolkit.include.is_none()
    {
        let advice = format!("the CUDA crates need it: {INSTALL_COMMAND}");
        checks.push(Check::warn("headers", "the toolkit has no cuda.h", advice));
    }
    checks.push(libclang(&choice.libclang));
    checks.push(rust("rustc", environ.rustc()));
    checks.push(rust("cargo", environ.cargo()));
    checks
}

fn toolkit(choice: &Choice) -> Check {
    let name = "toolkit";
    let toolkit = match &choice.toolkit {
        Ok(toolkit) => toolkit,
        Err(error @ ToolkitError::Named { .. }) => {
            let advice = format!("let it name one, or unset it; {INSTALL_COMMAND} installs one");
            return Check::fail(name, error.without_advice(), advice);
        }
        Err(_) => {
            let advice = match Facts::probe(None).supported() {
                Ok(_) => install_toolkit(),
                Err(sentence) => sentence.to_owned(),
            };
            return Check::warn(name, "there is none with tileiras", advice);
        }
    };
    let place = format!("{} ({})", toolkit.root.display(), toolkit.why);
    match toolkit.identity() {
        Ok(identity) => {
            let (tileiras, ptxas) = (release(&identity.tileiras), release(&identity.ptxas));
            let text = format!("tileiras {tileiras}, {place}");
            if tileiras.split(',').next() == ptxas.split(',').next() {
                return Check::ok(name, text);
            }
            let advice = format!("take one whose parts are of one release: {INSTALL_COMMAND}");
            Check::warn(name, format!("{text}; its ptxas is {ptxas}"), advice)
        }
        Err(error) => {
            let advice = format!("is it whole? {INSTALL_COMMAND} installs one");
            Check::fail(name, format!("{place}: {}", error.without_advice()), advice)
        }
    }
}

fn libclang(found: &Libclang) -> Check {
    let name = "libclang";
    match found {
        Libclang::Named(path) if !path.exists() => Check::fail(
            name,
            format!("LIBCLANG_PATH={} is not there", path.display()),
            "let it name the folder of a libclang.so, or unset it",
        ),
        Libclang::Named(path) => Check::ok(name, format!("{} (LIBCLANG_PATH)", path.display())),
        Libclang::Installed(path) => Check::ok(name, path.display().to_string()),
        Libclang::System(found) => {
            Check::ok(name, format!("{} (of the system)", found.library.display()))
        }
        Libclang::Missing => Check::warn(
            name,
            "there is none",
            format!("building the CUDA crates needs one: {INSTALL_COMMAND} brings it"),
        ),
    }
}

fn rust(name: &str, program: &OsStr) -> Check {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let advice = format!("to build, install Rust {RUST} or newer (https://rustup.rs)");
    let text = match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            return Check::fail(name, format!("{} says: {said}", program.display()), advice);
        }
        Err(error) => {
            return Check::warn(
                name,
                format!("{} does not run: {error}", program.display()),
                advice,
            );
        }
    };
    judge(name, text, advice)
}

fn judge(name: &str, text: String, advice: String) -> Check {
    match (numbers(text.split(' ').nth(1).unwrap_or_default()), numbers(RUST)) {
        (Some(found), Some(needed)) if found < needed => Check::fail(name, text, advice),
        (None, _) => Check::warn(name, format!("an unknown version: {text}"), advice),
        _ => Check::ok(name, text),
    }
}

/// Major and minor of `1.95.0-nightly`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn an_older_rust_fails_and_a_newer_one_does_not() {
        for (text, status) in [
            ("rustc 1.88.0 (abc 2025)", Status::Fail),
            ("rustc 1.89.0 (abc 2025)", Status::Ok),
            ("cargo 1.100.0-nightly (abc)", Status::Ok),
            ("cargo 2.0.0", Status::Ok),
            ("what", Status::Warn),
        ] {
            assert_eq!(judge("rustc", text.into(), String::new()).status, status, "{text}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_a_warning() {
        let check = rust("rustc", OsStr::new("/no/such/rustc"));
        assert_eq!(check.status, Status::Warn);
        assert!(check.advice.unwrap().contains("rustup.rs"));
    }

    #[test]
    fn a_libclang_that_is_named_and_not_there_fails() {
        assert_eq!(libclang(&Libclang::Named("/no/such".into())).status, Status::Fail);
        assert_eq!(libclang(&Libclang::Missing).status, Status::Warn);
    }
}
