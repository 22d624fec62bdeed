//! The one place that reads environment variables; everything else is given values.
//!
//! | variable | what it does | default |
//! |---|---|---|
//! | `CUTILE_BUILD` | `skip`: embeds no kernels, and says so; shaders need no toolkit | builds |
//! | `CUTILE_BUILD_TARGETS` | `sm_80,sm_90`: goes before the metadata | the metadata |
//! | `CUTILE_BUILD_JOBS` | at most this many tileiras processes at once | cargo's `-j`, else the cores |
//! | `CUTILE_BUILD_MEMORY` | `4G`: memory that they may take together | 75 % of what is available |
//! | `CUTILE_BUILD_TIMEOUT` | `90`, `10m`: at most this long each | 10 minutes |
//! | `CUTILE_BUILD_CACHE` | folder of the build cache, or `off` | `$XDG_CACHE_HOME` or `~/.cache`, then `cutile/build` |
//! | `CUTILE_BUILD_PREBUILT` | `ignore`: compiles though there is a prebuilt bundle | takes it |
//! | `CUTILE_BUILD_ALLOW_ENV` | `1`: builds though a variable of cutile changes the code | refuses |
//!
//! An empty value is an unset variable. The toolkit's own variables are read by
//! [`toolkit`](crate::toolkit).

use crate::targets::{Target, TargetError};
use cutile_embed::manifest::{Codegen, Package};
#[cfg(any(feature = "cuda", feature = "cli"))]
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Variables that are an error during a build.
pub const FORBIDDEN: [&str; 6] = cutile_embed::key::CODEGEN_VARIABLES;

/// Variables that a build script that uses [`BuildEnv`] has to name in `rerun-if-env-changed`.
/// What Cargo itself sets is not among them: it starts the script anew by itself.
pub const RERUN_IF_ENV_CHANGED: [&str; 16] = [
    "CUTILE_BUILD",
    "CUTILE_BUILD_TARGETS",
    "CUTILE_BUILD_JOBS",
    "CUTILE_BUILD_MEMORY",
    "CUTILE_BUILD_TIMEOUT",
    "CUTILE_BUILD_CACHE",
    "CUTILE_BUILD_PREBUILT",
    "CUTILE_BUILD_ALLOW_ENV",
    "CUDA_RUST_DEBUG",
    "DOCS_RS",
    FORBIDDEN[0],
    FORBIDDEN[1],
    FORBIDDEN[2],
    FORBIDDEN[3],
    FORBIDDEN[4],
    FORBIDDEN[5],
];

/// Optimization level of upstream's default options.
const DEFAULT_LEVEL: u8 = 3;

/// The values of a build script's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildEnv {
    /// `CUTILE_BUILD=skip`.
    pub skip: bool,
    /// `DOCS_RS` is set.
    pub docs_rs: bool,
    /// `CUTILE_BUILD_TARGETS`, not parsed.
    pub targets: Option<String>,
    /// `CUTILE_BUILD_JOBS`.
    pub jobs: Option<usize>,
    /// `CUTILE_BUILD_MEMORY` in bytes.
    pub memory: Option<u64>,
    /// `CUTILE_BUILD_TIMEOUT`.
    pub timeout: Option<Duration>,
    /// `CUTILE_BUILD_CACHE`.
    pub cache: CacheChoice,
    /// `CUTILE_BUILD_PREBUILT=ignore`.
    pub ignore_prebuilt: bool,
    /// `CUTILE_BUILD_ALLOW_ENV=1`.
    pub allow_env: bool,
    /// Those of [`FORBIDDEN`] that are set.
    pub overrides: Vec<(&'static str, String)>,
    /// `CUDA_RUST_DEBUG`.
    pub cuda_rust_debug: Option<String>,
    /// Cargo's `DEBUG`.
    pub debug: Option<String>,
    /// Cargo's `PROFILE`.
    pub profile: Option<String>,
    /// Cargo's `OUT_DIR`.
    pub out_dir: PathBuf,
    /// Cargo's `CARGO_MANIFEST_DIR`.
    pub manifest_dir: PathBuf,
    /// Cargo's `CARGO_PKG_NAME`.
    pub package_name: String,
    /// Cargo's `CARGO_PKG_VERSION`.
    pub package_version: String,
    /// Cargo's `CARGO`: the cargo that runs.
    pub cargo: PathBuf,
    /// Cargo's `RUSTC`.
    pub rustc: PathBuf,
    /// Cargo's `TARGET`.
    pub target: Option<String>,
    /// Cargo's `HOST`.
    pub host: Option<String>,
    /// Cargo's `NUM_JOBS`: its `-j`.
    pub num_jobs: Option<usize>,
    /// Cargo's `CARGO_MAKEFLAGS`: it has a jobserver.
    pub makeflags: Option<OsString>,
    /// `XDG_CACHE_HOME`, if it is absolute; the specification says to ignore others.
    pub xdg_cache_home: Option<PathBuf>,
    /// `HOME`, if it is absolute.
    pub home: Option<PathBuf>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
}

/// `CUTILE_BUILD_CACHE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheChoice {
    /// Not set.
    Default,
    /// `off`.
    Off,
    /// A folder.
    Dir(PathBuf),
}

/// An environment variable with a value that cannot be used, or without one that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvError {
    /// The variable.
    pub variable: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// What is valid.
    pub expected: String,
}

impl fmt::Display for EnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, value, expected } = self;
        match value {
            Some(value) => write!(f, "{variable}={value:?} cannot be used: {expected}"),
            None => write!(f, "{variable} is not set: {expected}"),
        }
    }
}

impl Error for EnvError {}

impl BuildEnv {
    /// Reads this process's environment.
    ///
    /// # Errors
    ///
    /// Names the variable, its value and what is valid.
    pub fn from_process() -> Result<Self, EnvError> {
        #[allow(clippy::disallowed_methods, reason = "this is the one place that reads them")]
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads an environment that a function gives.
    ///
    /// # Errors
    ///
    /// Names the variable, its value and what is valid.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, EnvError> {
        let vars = Vars(&lookup);
        let absolute = |name| vars.os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let mut overrides = Vec::new();
        for name in FORBIDDEN {
            if let Some(value) = lookup(name) {
                overrides.push((name, value.to_string_lossy().into_owned()));
            }
        }
        Ok(Self {
            skip: vars.word("CUTILE_BUILD", "skip")?,
            docs_rs: lookup("DOCS_RS").is_some(),
            targets: vars.text("CUTILE_BUILD_TARGETS")?,
            jobs: vars.parsed("CUTILE_BUILD_JOBS", parse_count, COUNT)?,
            memory: vars.parsed("CUTILE_BUILD_MEMORY", parse_size, SIZE)?,
            timeout: vars.parsed("CUTILE_BUILD_TIMEOUT", parse_duration, DURATION)?,
            cache: match vars.os("CUTILE_BUILD_CACHE") {
                None => CacheChoice::Default,
                Some(value) if value == "off" => CacheChoice::Off,
                Some(value) if Path::new(&value).is_absolute() => CacheChoice::Dir(value.into()),
                Some(value) => {
                    return Err(EnvError {
                        variable: "CUTILE_BUILD_CACHE".into(),
                        value: Some(value.to_string_lossy().into_owned()),
                        expected: "expected an absolute path, or off (Cargo runs each build \
                                   script in another folder)"
                            .into(),
                    });
                }
            },
            ignore_prebuilt: vars.word("CUTILE_BUILD_PREBUILT", "ignore")?,
            allow_env: vars.word("CUTILE_BUILD_ALLOW_ENV", "1")?,
            overrides,
            cuda_rust_debug: vars.text("CUDA_RUST_DEBUG")?,
            debug: vars.text("DEBUG")?,
            profile: vars.text("PROFILE")?,
            out_dir: vars.required("OUT_DIR")?.into(),
            manifest_dir: vars.required("CARGO_MANIFEST_DIR")?.into(),
            package_name: vars.required("CARGO_PKG_NAME")?.to_string_lossy().into_owned(),
            package_version: vars.required("CARGO_PKG_VERSION")?.to_string_lossy().into_owned(),
            cargo: vars.os("CARGO").unwrap_or_else(|| "cargo".into()).into(),
            rustc: vars.os("RUSTC").unwrap_or_else(|| "rustc".into()).into(),
            target: vars.text("TARGET")?,
            host: vars.text("HOST")?,
            num_jobs: vars.parsed("NUM_JOBS", parse_count, COUNT)?,
            makeflags: vars.os("CARGO_MAKEFLAGS"),
            xdg_cache_home: absolute("XDG_CACHE_HOME"),
            home: absolute("HOME"),
            library_path: lookup("LD_LIBRARY_PATH"),
        })
    }

    /// Why no kernels are to be built, if none are.
    #[must_use]
    pub fn skip_reason(&self) -> Option<String> {
        match (self.skip, self.docs_rs) {
            (true, _) => Some("CUTILE_BUILD=skip is set".into()),
            (_, true) => Some("DOCS_RS is set: docs.rs has no CUDA toolkit".into()),
            _ => None,
        }
    }

    /// Refuses variables of cutile that change what is generated, unless `CUTILE_BUILD_ALLOW_ENV=1`.
    ///
    /// # Errors
    ///
    /// Names the first of [`FORBIDDEN`] that is set.
    pub fn refuse_overrides(&self) -> Result<(), EnvError> {
        let Some((variable, value)) = self.overrides.first().filter(|_| !self.allow_env) else {
            return Ok(());
        };
        Err(EnvError {
            variable: (*variable).into(),
            value: Some(value.clone()),
            expected: "it changes the code that is generated, and what is embedded would not be \
                       what the program asks for. Unset it, or set CUTILE_BUILD_ALLOW_ENV=1"
                .into(),
        })
    }

    /// The targets of `CUTILE_BUILD_TARGETS`: names with commas or spaces between.
    ///
    /// # Errors
    ///
    /// As [`Target::parse_list`].
    pub fn targets(&self) -> Result<Option<Vec<Target>>, TargetError> {
        let Some(text) = &self.targets else { return Ok(None) };
        let names: Vec<&str> =
            text.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).collect();
        Target::parse_list("CUTILE_BUILD_TARGETS", &names).map(Some)
    }

    /// The debug level that a launch of the program gets by default: that of `CUDA_RUST_DEBUG`,
    /// else full for a crate built with `debug`, as upstream's build script decides it.
    ///
    /// # Errors
    ///
    /// Where a variable has another value.
    pub fn device_debug_level(&self) -> Result<Codegen, EnvError> {
        let optimized = |lineinfo| Codegen::Optimized { level: DEFAULT_LEVEL, lineinfo };
        let error = |variable: &str, value: Option<&str>, expected: &str| EnvError {
            variable: variable.into(),
            value: value.map(Into::into),
            expected: expected.into(),
        };
        match (self.cuda_rust_debug.as_deref(), self.debug.as_deref()) {
            (Some("none"), _) | (None, Some("false")) => Ok(optimized(false)),
            (Some("line"), _) => Ok(optimized(true)),
            (Some("full"), _) | (None, Some("true")) => Ok(Codegen::Debug),
            (value @ Some(_), _) => {
                Err(error("CUDA_RUST_DEBUG", value, "expected none, line or full"))
            }
            (None, value) => Err(error("DEBUG", value, "Cargo sets it to true or false")),
        }
    }

    /// How many processes to run at once, memory and cargo's jobserver aside.
    #[must_use]
    pub fn parallel_jobs(&self) -> usize {
        self.jobs
            .or(self.num_jobs)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
    }

    /// How long one process may run.
    ///
    /// Default: 10 minutes.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(600))
    }

    /// Folder of the build cache: `None` where it is off, or where there is no place for one.
    #[must_use]
    pub fn cache_dir(&self) -> Option<PathBuf> {
        match &self.cache {
            CacheChoice::Off => None,
            CacheChoice::Dir(dir) => Some(dir.clone()),
            CacheChoice::Default => self
                .xdg_cache_home
                .clone()
                .or_else(|| Some(self.home.as_ref()?.join(".cache")))
                .map(|cache| cache.join("cutile/build")),
        }
    }

    /// A variable that one process of this crate sets for another.
    pub(crate) fn internal(name: &str) -> Option<OsString> {
        #[allow(clippy::disallowed_methods, reason = "this is the one place that reads them")]
        std::env::var_os(name)
    }

    /// The variables with which cargo describes the crate, its features and its dependencies to a
    /// build script, and those that change the code of kernels. Sorted.
    #[cfg(any(feature = "cuda", feature = "cli"))]
    pub(crate) fn of_crate() -> BTreeMap<OsString, OsString> {
        const PREFIXES: [&str; 5] =
            ["CARGO_CFG_", "CARGO_FEATURE_", "CARGO_MANIFEST_", "CARGO_PKG_", "DEP_"];
        const NAMES: [&str; 6] =
            ["CUDA_RUST_DEBUG", "DEBUG", "HOST", "OPT_LEVEL", "PROFILE", "TARGET"];
        let counts = |name: &str| {
            PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || NAMES.contains(&name)
                || FORBIDDEN.contains(&name)
        };
        #[allow(clippy::disallowed_methods, reason = "this is the one place that reads them")]
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(counts)).collect()
    }

    /// The crate that is being built.
    #[must_use]
    pub fn package(&self) -> Package {
        Package { name: self.package_name.clone(), version: self.package_version.clone() }
    }

    /// Cargo's `OUT_DIR`.
    #[must_use]
    pub fn out_dir(&self) -> &Path {
        &self.out_dir
    }

    /// Cargo's `RUSTC`.
    #[must_use]
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn library_path(&self) -> Option<OsString> {
        self.library_path.clone()
    }
}

const COUNT: &str = "expected a number of at least 1, as 4";
const SIZE: &str = "expected a number of bytes with K, M, G or T, as 512M or 4G";
const DURATION: &str = "expected a number of seconds, or one with s, m or h, as 90 or 10m";

struct Vars<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Vars<'_> {
    fn os(&self, name: &str) -> Option<OsString> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn required(&self, name: &str) -> Result<OsString, EnvError> {
        self.os(name).ok_or_else(|| EnvError {
            variable: name.into(),
            value: None,
            expected: "Cargo sets it for build scripts; call this from build.rs".into(),
        })
    }

    fn text(&self, name: &str) -> Result<Option<String>, EnvError> {
        self.parsed(name, |text| Some(text.to_owned()), "expected UTF-8")
    }

    /// Whether a variable has the one value that it can have.
    fn word(&self, name: &str, word: &str) -> Result<bool, EnvError> {
        let expected = format!("expected {word}, or leave it unset");
        let found = self.parsed(name, |text| (text == word).then_some(()), &expected)?;
        Ok(found.is_some())
    }

    fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, EnvError> {
        let Some(value) = self.os(name) else { return Ok(None) };
        value.to_str().and_then(|text| parse(text.trim())).map(Some).ok_or_else(|| EnvError {
            variable: name.into(),
            value: Some(AsRef::<OsStr>::as_ref(&value).to_string_lossy().into_owned()),
            expected: expected.into(),
        })
    }
}

/// Digits, and the unit after them. `parse` alone would take a sign.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok().filter(|number| *number > 0)?;
    Some((number, text[end..].trim_start()))
}

fn parse_count(text: &str) -> Option<usize> {
    number_and_unit(text)
        .filter(|(_, unit)| unit.is_empty())
        .and_then(|(number, _)| number.try_into().ok())
}

/// Binary units: `4G` and `4GiB` are 4 × 2^30 bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let unit = unit.to_ascii_lowercase();
    let shift = match unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(&unit) {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    // A deadline is an Instant plus this: far larger values would overflow it.
    const YEAR: u64 = 365 * 24 * 3600;
    number.checked_mul(seconds).filter(|seconds| *seconds <= YEAR).map(Duration::from_secs)
}

#[cfg(test)]
#[path = "environment/tests.rs"]
mod tests;
