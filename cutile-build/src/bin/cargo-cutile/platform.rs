//! Which machines the toolkit can be installed on, and the sentence for those where it cannot.

use clap::ValueEnum;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The processors that there are wheels for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arch {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Arch {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

/// What was found out about this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// As `std::env::consts::OS`.
    pub(crate) os: &'static str,
    /// As `std::env::consts::ARCH`.
    pub(crate) arch: &'static str,
    /// This program runs on musl.
    pub(crate) musl: bool,
    /// What `python3` does; `None` where nothing is to be downloaded.
    pub(crate) python: Option<Python>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Python {
    Missing,
    WithoutPip,
    WithPip,
}

impl Facts {
    /// Asks this machine; `python` only where pip is needed.
    pub(crate) fn probe(python: Option<&OsStr>) -> Self {
        Self {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            musl: cfg!(target_env = "musl"),
            python: python.map(Python::probe),
        }
    }

    /// The processor, or one sentence that says why there can be no toolkit.
    pub(crate) fn supported(&self) -> Result<Arch, &'static str> {
        match self.os {
            "linux" => {}
            "macos" => {
                return Err(
                    "macOS has no CUDA toolkit, whose headers cutile itself needs: build on \
                            Linux, in a container for example; only shaders build here.",
                );
            }
            "windows" => {
                return Err("on Windows the toolkit is not installed by this command: install \
                            NVIDIA's CUDA toolkit 13.3 or newer and set CUDA_TOOLKIT_PATH to it.");
            }
            _ => {
                return Err(
                    "NVIDIA publishes the toolkit, whose headers cutile itself needs, for \
                            Linux and Windows only: build there; only shaders build here.",
                );
            }
        }
        if self.musl {
            return Err("this is a musl system and NVIDIA's toolkit needs glibc: build in a \
                        glibc container or machine.");
        }
        let arch = match self.arch {
            "x86_64" => Arch::X86_64,
            "aarch64" => Arch::Aarch64,
            _ => {
                return Err(
                    "NVIDIA publishes the toolkit, whose headers cutile itself needs, for \
                            x86_64 and aarch64 only: build there; only shaders build here.",
                );
            }
        };
        match self.python {
            Some(Python::Missing) => Err("python3 was not found, and its pip downloads the \
                 toolkit: install it (Debian, Ubuntu: apt install python3 python3-pip), or name \
                 an installed toolkit in CUDA_TOOLKIT_PATH."),
            Some(Python::WithoutPip) => Err("python3 has no pip, which downloads the toolkit: \
                 install it (Debian, Ubuntu: apt install python3-pip), or name an installed \
                 toolkit in CUDA_TOOLKIT_PATH."),
            Some(Python::WithPip) | None => Ok(arch),
        }
    }
}

impl Python {
    fn probe(python: &OsStr) -> Self {
        let works = |arguments: &[&str]| {
            Command::new(python)
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .is_ok_and(|output| output.status.success())
        };
        match (works(&["-m", "pip", "--version"]), works(&["--version"])) {
            (true, _) => Self::WithPip,
            (false, true) => Self::WithoutPip,
            (false, false) => Self::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Facts =
        Facts { os: "linux", arch: "x86_64", musl: false, python: Some(Python::WithPip) };

    #[test]
    fn glibc_linux_on_both_processors_is_supported() {
        assert_eq!(GOOD.supported(), Ok(Arch::X86_64));
        assert_eq!(Facts { arch: "aarch64", ..GOOD }.supported(), Ok(Arch::Aarch64));
        assert_eq!(Facts { python: None, ..GOOD }.supported(), Ok(Arch::X86_64));
    }

    #[test]
    fn each_other_machine_has_one_sentence_that_says_what_to_do() {
        let table = [
            (Facts { os: "macos", ..GOOD }, "macOS"),
            (Facts { os: "windows", ..GOOD }, "Windows"),
            (Facts { os: "freebsd", ..GOOD }, "Linux and Windows only"),
            (Facts { musl: true, ..GOOD }, "musl"),
            (Facts { arch: "riscv64", ..GOOD }, "x86_64 and aarch64 only"),
            (Facts { python: Some(Python::Missing), ..GOOD }, "python3 was not found"),
            (Facts { python: Some(Python::WithoutPip), ..GOOD }, "no pip"),
        ];
        for (facts, word) in table {
            let sentence = facts.supported().unwrap_err();
            assert!(sentence.contains(word), "{sentence}");
            assert!(
                sentence.contains("build there")
                    || sentence.contains("CUDA_TOOLKIT_PATH")
                    || sentence.contains("container"),
                "{sentence}"
            );
            assert_eq!(sentence.matches(". ").count(), 0, "one sentence: {sentence}");
            assert!(sentence.ends_with('.'));
        }
    }
}
