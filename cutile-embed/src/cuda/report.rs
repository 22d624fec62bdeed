//! What `install` did, for people and for programs.

use std::fmt;

/// What [`install`](super::install) found and did. `Display` is one short paragraph.
#[derive(Debug, Clone, Default)]
#[must_use]
#[non_exhaustive]
pub struct Report {
    /// Why nothing could be filled at all: no driver, no device.
    pub no_device: Option<String>,
    /// The first of the chosen devices that is not there, where others are.
    pub absent: Option<String>,
    /// A row a chosen device.
    pub devices: Vec<DeviceReport>,
    /// A row a linked bundle.
    pub bundles: Vec<BundleReport>,
    /// Variables of the environment that change what cutile generates; while one is set, nothing is
    /// filled.
    pub overrides: Vec<&'static str>,
    /// Specializations that are embedded and not served, with the reason.
    pub left_out: Vec<LeftOut>,
    /// What became of the store.
    pub store: StoreState,
    /// The file that launches are recorded into, or why they are not; `None` where nobody asked.
    pub recording: Option<Result<std::path::PathBuf, String>>,
    /// The `sm_XX` of a rehearsal of `cargo cutile prebuild`, which serves nothing, or why it does
    /// not start; `None` in a program that runs for itself.
    pub rehearsal: Option<Result<String, String>>,
}

/// A device and what was filled for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceReport {
    /// CUDA ordinal.
    pub device: usize,
    /// Its architecture, `sm_XX`.
    pub target: String,
    /// Kernels put into cutile's in-memory cache.
    pub filled: usize,
    /// Kernels that were there already.
    pub present: usize,
    /// Modules loaded for them.
    pub images: usize,
    /// Kernels whose image is damaged or was refused by the driver, with what was wrong.
    pub failed: Vec<String>,
}

/// A bundle and whether it can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BundleReport {
    /// The crate that embeds it; empty where the bundle cannot be read.
    pub package: String,
    /// The targets it has.
    pub targets: Vec<String>,
    /// Specializations, whatever the number of targets.
    pub kernels: usize,
    /// Images, over all targets.
    pub images: usize,
    /// Bytes in the binary.
    pub bytes: u64,
    /// Whether it is used.
    pub state: BundleState,
}

/// Whether a bundle is used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BundleState {
    /// It is.
    Used,
    /// Its build embedded nothing, and why.
    Skipped(String),
    /// It cannot be used, and why.
    Unusable(String),
}

/// An embedded specialization that is not served.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LeftOut {
    /// `module::function<generics>`.
    pub kernel: String,
    /// Why.
    pub reason: String,
}

/// What became of the store that backs the in-memory cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StoreState {
    /// None was asked for.
    #[default]
    None,
    /// Installed: embedded images, and on disk where a path is given.
    Installed {
        /// Root of the disk cache.
        disk: Option<std::path::PathBuf>,
        /// Why there is no disk cache although one was asked for.
        refused: Option<String>,
    },
    /// An earlier call installed it.
    Kept,
    /// Another store was there first and was left.
    Foreign,
}

impl Report {
    /// Kernels that are in memory for the chosen devices.
    #[must_use]
    pub fn kernels(&self) -> usize {
        self.devices.iter().map(|device| device.filled + device.present).sum()
    }

    /// Targets of all bundles that are used, by number.
    #[must_use]
    pub fn targets(&self) -> Vec<&str> {
        let mut targets: Vec<&str> = self
            .bundles
            .iter()
            .filter(|bundle| bundle.state == BundleState::Used)
            .flat_map(|bundle| bundle.targets.iter().map(String::as_str))
            .collect();
        targets.sort_by_key(|target| (target.len(), *target));
        targets.dedup();
        targets
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cutile-embed: ")?;
        match &self.rehearsal {
            None => {}
            Some(Ok(target)) => {
                return write!(
                    f,
                    "a rehearsal for {target}: launches are written down, nothing is computed."
                );
            }
            Some(Err(why)) => write!(f, "no rehearsal: {why}. ")?,
        }
        let targets = self.targets();
        if self.bundles.is_empty() {
            f.write_str("no crate of this program embeds kernels (embed!() is missing). ")?;
        }
        if let Some(why) = &self.no_device {
            write!(f, "nothing to fill: {why}. ")?;
        }
        if let Some(what) = &self.absent {
            write!(f, "{what}. ")?;
        }
        for device in &self.devices {
            write!(f, "device {} ({}): ", device.device, device.target)?;
            if !self.overrides.is_empty() {
                f.write_str("not filled. ")?;
            } else if !targets.is_empty() && !targets.contains(&device.target.as_str()) {
                write!(
                    f,
                    "nothing is embedded for {}, only for {}; add it to `targets` and build again. ",
                    device.target,
                    targets.join(", ")
                )?;
            } else if matches!(self.recording, Some(Ok(_))) && device.filled + device.present == 0 {
                f.write_str("not filled, so that each launch is seen. ")?;
            } else {
                let kernels = counted(device.filled + device.present, "kernel");
                let images = counted(device.images, "image");
                write!(f, "{kernels} ready, {images} loaded. ")?;
            }
            for failed in &device.failed {
                write!(f, "{failed}. ")?;
            }
        }
        if !self.overrides.is_empty() {
            write!(
                f,
                "{} set: cutile compiles other code than was embedded, so embedded kernels are not \
                 used; unset to use them. ",
                self.overrides.join(", ")
            )?;
        }
        for bundle in &self.bundles {
            match &bundle.state {
                BundleState::Used => {}
                BundleState::Skipped(why) => {
                    write!(f, "{} embeds nothing: {why}. ", bundle.package)?;
                }
                BundleState::Unusable(why) => write!(
                    f,
                    "the bundle of {} is not used: {why}. ",
                    if bundle.package.is_empty() { "a crate" } else { &bundle.package }
                )?,
            }
        }
        for LeftOut { kernel, reason } in &self.left_out {
            write!(f, "{kernel} is not served: {reason}. ")?;
        }
        match &self.store {
            StoreState::None => f.write_str("No store."),
            StoreState::Installed { disk: Some(root), .. } => {
                write!(f, "What is not embedded is cached in {}.", root.display())
            }
            StoreState::Installed { refused: Some(why), .. } => {
                write!(f, "No disk cache: {why}.")
            }
            StoreState::Installed { .. } => f.write_str("No disk cache."),
            StoreState::Kept => f.write_str("The store of the first call stays."),
            StoreState::Foreign => f.write_str("Another store was installed before and stays."),
        }?;
        match &self.recording {
            None => Ok(()),
            Some(Ok(path)) => write!(f, " Launches are recorded into {}.", path.display()),
            Some(Err(why)) => write!(f, " Launches are not recorded: {why}."),
        }
    }
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
