//! Launches that must not compile, and why one would.

use super::install::last_report;
use super::report::{BundleReport, BundleState, Report};
use super::watch;
use crate::bundle::bundles;
use crate::explain::Nearest;
use crate::manifest::Specialization;
use cutile::tile_kernel::{TileFunctionKey, contains_cuda_function, kernel_cache_slot};
use std::fmt;

/// Launches a kernel only if that compiles nothing. Where it would, the error says what is missing,
/// and which embedded specialization is the nearest.
///
/// ```text
/// let (z, ..) = cutile_embed::launch!(kernels::add((&mut z).partition([128]), &x, &y))?;
/// ```
///
/// The expression is evaluated twice, once to ask for its key and once to launch, so it borrows its
/// tensors or clones them. It is a macro because cutile's launchers share no trait that tells the
/// key. Between the two, nothing can be taken out of cutile's cache but by the program itself.
#[macro_export]
macro_rules! launch {
    ($launch:expr) => {
        match ($launch).l1_cache_key() {
            ::core::result::Result::Err(error) => {
                ::core::result::Result::Err($crate::LaunchError::Launch(error))
            }
            ::core::result::Result::Ok(key) => match $crate::require(&key) {
                ::core::result::Result::Err(error) => {
                    ::core::result::Result::Err($crate::LaunchError::NotEmbedded(error))
                }
                ::core::result::Result::Ok(()) => {
                    ($launch).sync().map_err($crate::LaunchError::Launch)
                }
            },
        }
    };
}

/// Why [`launch!`](crate::launch) did not launch. `Debug` is the text for people, too: it is what a
/// program prints whose `main` returns this.
pub enum LaunchError<E> {
    /// It would have compiled.
    NotEmbedded(Box<NotEmbedded>),
    /// What cutile says.
    Launch(E),
}

impl<E: fmt::Display> fmt::Display for LaunchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmbedded(error) => error.fmt(f),
            Self::Launch(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug> fmt::Debug for LaunchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEmbedded(error) => fmt::Display::fmt(error, f),
            Self::Launch(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for LaunchError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotEmbedded(_) => None,
            Self::Launch(error) => Some(error),
        }
    }
}

/// A specialization that is not ready to launch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NotEmbedded {
    /// `module::function<generics>`.
    pub kernel: String,
    /// The `sm_XX` of the device.
    pub target: String,
    /// Why.
    pub why: Why,
}

/// Why a specialization is not ready to launch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// `install` was not called.
    NotInstalled,
    /// No crate of this program embeds kernels.
    NoBundle,
    /// A bundle is not used: its build embedded nothing, it was built by another cutile, or with
    /// another debug level; with the reason.
    BundleNotUsed(String),
    /// These variables change what cutile generates.
    Override(Vec<&'static str>),
    /// Nothing is embedded for this architecture, only for these.
    Architecture(Vec<String>),
    /// Its device was not among those chosen.
    DeviceNotFilled(usize),
    /// The driver refused its image, or the image is damaged.
    ImageRefused(String),
    /// It is embedded and left out: two rows with one key, or its sources differ.
    LeftOut(String),
    /// It is embedded and was taken out of cutile's in-memory cache, or `only` left it out.
    NotFilled,
    /// It is not embedded.
    Missing(Nearest),
}

impl fmt::Display for NotEmbedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, target, why } = self;
        write!(f, "{kernel} is not embedded for {target}: ")?;
        match why {
            Why::NotInstalled => {
                f.write_str("cutile_embed::install() was not called; call it first thing")
            }
            Why::NoBundle => f.write_str(
                "no crate of this program embeds kernels; write `cutile_embed::embed!();` once in \
                 the crate that has them",
            ),
            Why::BundleNotUsed(why) => write!(f, "{why}"),
            Why::Override(names) => write!(
                f,
                "{} set, which changes the code that cutile generates; unset to use what is \
                 embedded",
                names.join(", ")
            ),
            Why::Architecture(targets) => write!(
                f,
                "kernels are embedded for {} only; add {target} to `targets` and build again",
                targets.join(", ")
            ),
            Why::DeviceNotFilled(device) => {
                write!(f, "device {device} was not filled; choose it with Installer::devices")
            }
            Why::ImageRefused(what) => write!(f, "its image cannot be used: {what}"),
            Why::LeftOut(reason) => write!(f, "it is left out: {reason}"),
            Why::NotFilled => f.write_str(
                "it is embedded and not in cutile's in-memory cache: `only` left it out, or the \
                 cache was cleared; call install again",
            ),
            Why::Missing(nearest) => nearest.fmt(f),
        }
    }
}

impl std::error::Error for NotEmbedded {}

/// Whether the kernel behind a key is ready to launch without compiling. Launchers tell their key
/// with `l1_cache_key()`.
///
/// # Errors
///
/// [`NotEmbedded`], with the nearest specialization that is embedded.
pub fn require(key: &TileFunctionKey) -> Result<(), Box<NotEmbedded>> {
    if contains_cuda_function(key) && kernel_cache_slot(key).get().is_some() {
        watch::launching(key);
        return Ok(());
    }
    watch::missed(key);
    let report = last_report();
    Err(Box::new(match watch::specialization(key) {
        Some(asked) => NotEmbedded {
            kernel: asked.name(),
            target: target_of(key, report.as_ref()),
            why: why(&asked, key, report.as_ref()),
        },
        None => NotEmbedded {
            kernel: format!("{}::{}", key.module_name(), key.function_name()),
            target: target_of(key, report.as_ref()),
            why: Why::LeftOut(
                "its key holds digests of tile libraries, or a variable changed while the program \
                 ran; such a kernel is not embedded"
                    .to_owned(),
            ),
        },
    }))
}

fn target_of(key: &TileFunctionKey, report: Option<&Report>) -> String {
    let device = super::row::device_of(key);
    report
        .and_then(|report| report.devices.iter().find(|row| Some(row.device) == device))
        .map(|row| row.target.clone())
        .or_else(|| device.map(cutile::cutile_compiler::cuda_tile_runtime_utils::get_gpu_name))
        .unwrap_or_else(|| "this device".to_owned())
}

fn why(asked: &Specialization, key: &TileFunctionKey, report: Option<&Report>) -> Why {
    let Some(report) = report else { return Why::NotInstalled };
    if !report.overrides.is_empty() {
        return Why::Override(report.overrides.clone());
    }
    if report.bundles.is_empty() {
        return Why::NoBundle;
    }
    let device = super::row::device_of(key);
    let Some(filled) = report.devices.iter().find(|row| Some(row.device) == device) else {
        return Why::DeviceNotFilled(device.unwrap_or_default());
    };
    let name = asked.name();
    let unused = |bundle: &BundleReport| match &bundle.state {
        BundleState::Used => None,
        BundleState::Skipped(why) => Some(format!("{} embeds nothing: {why}", bundle.package)),
        BundleState::Unusable(why) => {
            Some(format!("the bundle of {} is not used: {why}", bundle.package))
        }
    };
    let targets = report.targets();
    if targets.is_empty() {
        let unused = report.bundles.iter().find_map(unused);
        return Why::BundleNotUsed(unused.unwrap_or_else(|| "no bundle is used".to_owned()));
    }
    if !targets.contains(&filled.target.as_str()) {
        return Why::Architecture(targets.into_iter().map(str::to_owned).collect());
    }
    // Paths of modules differ between a build script and the program; the texts do not.
    let same = |row: &Specialization| {
        let mut row = row.clone();
        row.modules.clone_from(&asked.modules);
        row == *asked
    };
    // A prebuilt row that is left out because its sources differ is not the same in those.
    let same_but_for_text = |row: &Specialization| {
        let mut row = row.clone();
        row.source_hash.clone_from(&asked.source_hash);
        same(&row)
    };
    let mut rows: Vec<Specialization> = Vec::new();
    for index in bundles().iter().filter_map(|bundle| bundle.index().ok()) {
        let Some(Ok(found)) = index.target(&filled.target).map(|target| target.rows()) else {
            continue;
        };
        let start = rows.len();
        rows.extend(found.into_iter().map(|row| row.specialization));
        if rows[start..].iter().any(same_but_for_text)
            && let Some(row) = report.left_out.iter().find(|row| row.kernel == name)
        {
            return Why::LeftOut(row.reason.clone());
        }
        if rows[start..].iter().any(same) {
            let is_of_it = |text: &&String| {
                let rest = text.strip_prefix(&name);
                rest.is_some_and(|rest| rest.starts_with(" for ") || rest.starts_with(": "))
            };
            if let Some(what) = filled.failed.iter().find(is_of_it) {
                return Why::ImageRefused(what.clone());
            }
            let package = format!("{} {}", index.package, index.package_version);
            let bundle = report.bundles.iter().find(|bundle| bundle.package == package);
            if let Some(why) = bundle.and_then(unused) {
                return Why::BundleNotUsed(why);
            }
            // A pack that cannot be read is left out as a whole.
            let pack = format!("{} for {}", index.package, filled.target);
            let unread = report.left_out.iter().find(|row| row.kernel == pack);
            return unread.map_or(Why::NotFilled, |row| Why::LeftOut(row.reason.clone()));
        }
    }
    Why::Missing(Nearest::find(asked, &rows))
}
