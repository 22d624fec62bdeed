//! What the app found, as a table and as a line of JSON.

use crate::pipeline::LaunchResult;
use crate::shaders::{Counts, Ratio, Row, Shaders};
use cutile::cuda_core::Context;
use cutile::jit_cache::{jit_backend_compile_count, jit_disk_hit_count};
use cutile::tile_kernel::jit_compile_count;
use cutile_embed::Report;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Counters of upstream and of the store, at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    /// Kernels that cutile's memory did not have.
    missed: u64,
    /// Kernels that tileiras compiled in this process.
    pub compiled: u64,
    /// Kernels that the store had.
    from_store: u64,
    /// Of those, the embedded ones.
    from_embedded: u64,
}

impl Counters {
    /// The counters now.
    pub(crate) fn now() -> Self {
        let from_embedded = cutile_embed::cuda::tier_stats()
            .iter()
            .filter(|tier| tier.name == "embedded")
            .map(|tier| tier.hits)
            .sum();
        Self {
            missed: jit_compile_count(),
            compiled: jit_backend_compile_count(),
            from_store: jit_disk_hit_count(),
            from_embedded,
        }
    }
}

/// Where a launch took its kernel from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// Compiled ahead of time, in the binary.
    Embedded,
    /// The disk cache.
    Disk,
    /// Compiled now.
    Compiled,
}

fn source(launch: &LaunchResult<Counters>) -> Source {
    let (before, after) = (launch.before, launch.after);
    if after.compiled > before.compiled {
        Source::Compiled
    } else if after.from_store > before.from_store && after.from_embedded == before.from_embedded {
        Source::Disk
    } else {
        debug_assert!(
            after.missed == before.missed || after.from_embedded > before.from_embedded,
            "a kernel that memory did not have came from the store"
        );
        Source::Embedded
    }
}

/// The device that the app ran on.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Device {
    kind: Kind,
    name: Option<String>,
    target: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A GPU.
    Cuda,
    /// A driver that records and computes nothing.
    Virtual,
    /// None.
    None,
}

impl Device {
    /// That of a run which looked for none.
    const NONE: Self = Self { kind: Kind::None, name: None, target: None };

    /// The device `ordinal`, if `install` found it.
    pub(crate) fn of(installed: &Report, ordinal: usize) -> Self {
        let Some(device) = installed.devices.iter().find(|device| device.device == ordinal) else {
            return Self::NONE;
        };
        let name = Context::new(ordinal).and_then(|context| context.device_name()).ok();
        let is_virtual = name.as_deref().is_some_and(|name| name.starts_with("cuTile virtual GPU"));
        let kind = if is_virtual { Kind::Virtual } else { Kind::Cuda };
        Self { kind, name, target: Some(device.target.clone()) }
    }

    /// Its architecture, `sm_XX`.
    pub(crate) fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Name and architecture, and whether it is a virtual one.
    pub(crate) fn described(&self) -> String {
        match (&self.name, &self.target) {
            (Some(name), Some(target)) => format!("on {name} ({target})"),
            _ => "on no device".to_owned(),
        }
    }

    /// Whether it computes what it is told; `None` where there is no device.
    pub(crate) fn computes(&self) -> Option<bool> {
        match self.kind {
            Kind::Cuda => Some(true),
            Kind::Virtual => Some(false),
            Kind::None => None,
        }
    }
}

/// What a run of the app found.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `None` where they were left out.
    pub kernels: Option<Kernels>,
    /// `None` where they were left out.
    pub shaders: Option<Shaders>,
    /// Where they were asked for.
    pub ratios: Option<Vec<Ratio>>,
}

/// What a run of the kernels found.
#[derive(Debug)]
pub(crate) struct Kernels {
    /// Where it ran.
    pub device: Device,
    /// What `install` said.
    pub installed: Report,
    /// One a specialization.
    pub launches: Vec<LaunchResult<Counters>>,
    /// How many kernels were compiled in this process.
    pub compiled: u64,
}

#[derive(Serialize)]
struct Json<'a> {
    device: &'a Device,
    embedded: Embedded<'a>,
    launches: Vec<Launch<'a>>,
    compiled_at_run_time: u64,
    adapter: Option<&'a str>,
    shaders: &'a [Row],
    shader_counts: Counts,
    front_end_calls: u64,
    /// naga from text ÷ naga from IR, by the shader's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    shader_ratio: Option<BTreeMap<&'a str, f64>>,
}

#[derive(Default, Serialize)]
struct Embedded<'a> {
    kernels: usize,
    images: usize,
    targets: Vec<&'a str>,
    bytes: u64,
}

#[derive(Serialize)]
struct Launch<'a> {
    kernel: &'a str,
    generics: &'a [String],
    source: Source,
    first_launch_us: f64,
    relative_error: Option<f64>,
}

impl Outcome {
    /// One line of JSON.
    pub(crate) fn json(&self) -> String {
        let kernels = self.kernels.as_ref();
        let shaders = self.shaders.as_ref();
        let shader_counts = shaders.map(Shaders::counts).unwrap_or_default();
        let json = Json {
            device: kernels.map_or(&Device::NONE, |kernels| &kernels.device),
            embedded: kernels.map(Kernels::embedded).unwrap_or_default(),
            launches: kernels.map(Kernels::launches).unwrap_or_default(),
            compiled_at_run_time: kernels.map_or(0, |kernels| kernels.compiled),
            adapter: shaders.and_then(|shaders| Some(shaders.adapter.as_ref()?.name.as_str())),
            shaders: shaders.map_or(&[], |shaders| &shaders.rows),
            shader_counts,
            front_end_calls: shader_counts.front_end_calls,
            shader_ratio: self
                .ratios
                .as_ref()
                .map(|ratios| ratios.iter().map(|ratio| (ratio.path, ratio.ratio)).collect()),
        };
        serde_json::to_string(&json).expect("plain data serializes")
    }

    /// What is wrong, a line each.
    pub(crate) fn faults(&self) -> Vec<String> {
        let launches = self.kernels.iter().flat_map(|kernels| &kernels.launches);
        let kernels = launches
            .filter(|launch| !launch.within_bound())
            .map(|launch| format!("{} is out of its bound of {:e}", launch.kernel, launch.bound));
        let shaders = self
            .shaders
            .iter()
            .flat_map(Shaders::errors)
            .map(|(row, error)| format!("{}, {}: {error}", row.path, row.entry_point));
        kernels.chain(shaders).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(kernels) = &self.kernels {
            kernels.fmt(f)?;
            if !kernels.launches.is_empty() {
                writeln!(f)?;
            }
        }
        if let Some(shaders) = &self.shaders {
            shaders.fmt(f)?;
        }
        if let Some(ratios) = &self.ratios {
            writeln!(f, "\n{}", Ratio::HEADER)?;
            for ratio in ratios {
                writeln!(f, "{ratio}")?;
            }
        }
        Ok(())
    }
}

impl Kernels {
    fn launches(&self) -> Vec<Launch<'_>> {
        let launches = self.launches.iter().map(|launch| Launch {
            kernel: &launch.kernel,
            generics: &launch.generics,
            source: source(launch),
            first_launch_us: launch.first_launch_us,
            relative_error: launch.relative_error,
        });
        launches.collect()
    }

    fn embedded(&self) -> Embedded<'_> {
        let bundles = &self.installed.bundles;
        Embedded {
            kernels: bundles.iter().map(|bundle| bundle.kernels).sum(),
            images: bundles.iter().map(|bundle| bundle.images).sum(),
            targets: self.installed.targets(),
            bytes: bundles.iter().map(|bundle| bundle.bytes).sum(),
        }
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let embedded = self.embedded();
        match (&self.device.name, &self.device.target) {
            (Some(name), Some(target)) => writeln!(f, "{name} ({target})")?,
            _ => writeln!(f, "no device: nothing was launched")?,
        }
        writeln!(
            f,
            "embedded for {}:\n{} kernels, {} images, {} bytes\n",
            embedded.targets.join(", "),
            embedded.kernels,
            embedded.images,
            embedded.bytes
        )?;
        if self.launches.is_empty() {
            return Ok(());
        }
        let (a, b, c, d, e, g) = ("kernel", "generics", "launch", "first/us", "source", "error");
        writeln!(f, "{a:<15} {b:<17} {c:<12} {d:>9} {e:<8} {g:>8}")?;
        for launch in &self.launches {
            let kernel = launch.kernel.rsplit("::").next().unwrap_or_default();
            let generics = launch.generics.join(",");
            let error = match launch.relative_error {
                Some(error) => format!("{error:.1e}"),
                None => "-".to_owned(),
            };
            let source = match source(launch) {
                Source::Embedded => "embedded",
                Source::Disk => "disk",
                Source::Compiled => "compiled",
            };
            let (problem, us) = (&launch.problem, launch.first_launch_us);
            writeln!(
                f,
                "{kernel:<15} {generics:<17} {problem:<12} {us:>9.1} {source:<8} {error:>8}"
            )?;
        }
        writeln!(f, "\n{} kernels compiled at run time", self.compiled)
    }
}
