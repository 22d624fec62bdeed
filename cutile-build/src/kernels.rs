//! The kernels of a crate: rehearsed, compiled, and made into the contents of a bundle.

use crate::assemble::Progress;
use crate::bundle::{Contents, Shaders};
use crate::compile::{Gathered, Jobs};
use crate::environment::BuildEnv;
use crate::error::{BuildError, nearest};
use crate::package::{MetadataConfig, PackageError};
use crate::rehearsal::{self, Declared, Rehearsal, Setup};
use crate::targets::Target;
use crate::toolkit::{SearchPlaces, Toolkit};
use crate::virtual_gpu::VirtualGpu;
use cutile::cutile_compiler::cuda_tile_runtime_utils::get_compiler_version;
use cutile::tile_kernel::CompileOptions;
use cutile_embed::cuda::row::codegen_row;
use cutile_embed::recording::{Recorded, Recording};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the builder was told of kernels, but for the warm-ups.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) targets: Option<Vec<String>>,
    /// By kernel.
    pub(crate) targets_for: BTreeMap<String, Vec<String>>,
    /// Files of recordings.
    pub(crate) replay: Vec<PathBuf>,
    pub(crate) deny_uncovered: bool,
}

/// Compiles the kernels for the chosen targets. The second is how often tileiras ran.
pub(crate) fn build(
    env: &BuildEnv,
    metadata: &MetadataConfig,
    asked: &Asked,
) -> Result<(Contents, usize), BuildError> {
    env.refuse_overrides()?;
    metadata.check_cutile(&get_compiler_version())?;
    let targets = chosen_targets(env, metadata, asked.targets.as_deref())?;
    let restricted = Restricted::new(metadata, asked)?;
    let recording = read_recordings(env, &asked.replay)?;
    let toolkit = Toolkit::find(&SearchPlaces::from_env())?;
    for file in toolkit.files() {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let identity = toolkit.identity()?;
    let out = env.out_dir();
    let virtual_gpu = VirtualGpu::build(&out.join("cutile-virtual-gpu"), env.rustc().as_os_str())?;
    let scratch = tempfile::Builder::new()
        .prefix("cutile-rehearsal-")
        .tempdir_in(out)
        .map_err(|error| BuildError::io("no folder for the rehearsals", out, error))?;

    let replay: Vec<Recorded> = recording.kernels.into_iter().collect();
    let source_hashes = source_hashes(env, &replay, scratch.path());
    let program = env.device_debug_level()?;
    let jobs = Jobs::start(env, &toolkit, &identity);
    let found = rehearsal::rehearse(
        &Setup {
            scratch: scratch.path(),
            virtual_gpu: &virtual_gpu,
            identity: &identity,
            program,
            script: codegen_row(CompileOptions::default().codegen),
            replay: &replay,
            source_hashes: &source_hashes,
            restricted: &restricted,
            library_path: env.library_path(),
            parallel: env.parallel_jobs(),
            timeout: env.timeout(),
        },
        &targets,
        &|digest, job| jobs.submit(digest, job),
    );
    // Also when a warm-up failed: what compiles stays in the build cache.
    let (recorded, report) = jobs.finish();
    for note in &report.notes {
        println!("cargo::warning={note}");
    }
    let processes = report.processes;
    let gathered = Gathered {
        package: env.package(),
        manifest_dir: env.manifest_dir.clone(),
        identity: &identity,
        recorded,
        outcomes: report.outcomes,
        reported: BTreeSet::new(),
    };
    let found = found?;
    // They went into the memory of a cutile that the rehearsal does not see.
    if found.is_empty() && !gathered.recorded.is_empty() && restricted.by_kernel.is_empty() {
        return Err(PackageError::OtherCutile { linked: get_compiler_version() }.into());
    }
    restricted.check_names(&found)?;
    let uncovered = found.uncovered();
    if asked.deny_uncovered && !uncovered.is_empty() {
        return Err(BuildError::Uncovered { kernels: uncovered });
    }
    for kernel in uncovered {
        println!("cargo::warning=no warm-up launches {kernel}: it is not embedded");
    }
    let contents = gathered.contents(found, &targets, program)?;
    for left_out in &contents.left_out {
        println!(
            "cargo::warning={} for {} is not embedded: {}",
            left_out.kernel, left_out.target, left_out.reason
        );
    }
    Ok((contents, processes))
}

/// No kernels, with the reason, so that the crate compiles and the program says it.
pub(crate) fn skipped(env: &BuildEnv, reason: &str) -> Result<Contents, BuildError> {
    println!("cargo::warning=no GPU kernels are embedded: {reason}");
    Ok(Contents {
        package: env.package(),
        cutile: get_compiler_version(),
        toolkit: None,
        codegen: env.device_debug_level()?,
        skipped: Some(reason.to_owned()),
        left_out: Vec::new(),
        targets: Vec::new(),
        shaders: Shaders::default(),
    })
}

fn chosen_targets(
    env: &BuildEnv,
    metadata: &MetadataConfig,
    builder: Option<&[String]>,
) -> Result<Vec<Target>, BuildError> {
    if let Some(targets) = env.targets()? {
        return Ok(targets);
    }
    let (from, names) = match (builder, metadata.targets()) {
        (Some(names), _) => ("Builder::targets", names),
        (None, Some(names)) => ("[package.metadata.cutile] targets", names),
        (None, None) => return Err(BuildError::NoTargets),
    };
    Ok(Target::parse_list(from, names)?)
}

/// The rows of all recordings. Each file is watched, also where it is missing.
fn read_recordings(env: &BuildEnv, files: &[PathBuf]) -> Result<Recording, BuildError> {
    let mut all = Recording::default();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let path = env.manifest_dir.join(file);
        all.merge(Recording::read(&path).map_err(BuildError::Recording)?);
    }
    Ok(all)
}

fn source_hashes(env: &BuildEnv, rows: &[Recorded], scratch: &Path) -> BTreeMap<String, String> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.specialization.module.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    rehearsal::source_hash::of_modules(&names, &env.manifest_dir, env.rustc(), scratch)
}

/// Kernels that are compiled for some targets only.
#[derive(Debug, Default)]
pub(crate) struct Restricted {
    by_kernel: BTreeMap<String, Vec<Target>>,
}

impl Restricted {
    fn new(metadata: &MetadataConfig, asked: &Asked) -> Result<Self, BuildError> {
        let mut by_kernel = BTreeMap::new();
        for (kernel, names) in metadata.targets_for.iter().chain(&asked.targets_for) {
            let targets = Target::parse_list(&format!("targets_for {kernel}"), names)?;
            by_kernel.insert(kernel.clone(), targets);
        }
        Ok(Self { by_kernel })
    }

    /// Whether a kernel is compiled for a target.
    pub(crate) fn allows(&self, module: &str, function: &str, target: Target) -> bool {
        self.by_kernel
            .iter()
            .filter(|(name, _)| names(name, module, function))
            .all(|(_, targets)| targets.contains(&target))
    }

    /// Kernels that are not compiled for a target, by the name of their function.
    pub(crate) fn functions_without(&self, target: Target) -> Vec<&str> {
        self.by_kernel
            .iter()
            .filter(|(_, targets)| !targets.contains(&target))
            .map(|(name, _)| name.rsplit("::").next().unwrap_or(name))
            .collect()
    }

    /// Stops where a restriction names no kernel: it would restrict nothing, and nobody would know.
    fn check_names(&self, found: &Rehearsal) -> Result<(), BuildError> {
        for name in self.by_kernel.keys() {
            let declared = |kernel: &Declared| names(name, &kernel.module, &kernel.function);
            if !found.declared.iter().any(declared) {
                let known: Vec<String> = found
                    .declared
                    .iter()
                    .map(|kernel| {
                        let module = kernel.module.rsplit("::").next().unwrap_or_default();
                        format!("{module}::{}", kernel.function)
                    })
                    .collect();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let nearest = nearest(name, &known).unwrap_or_default().to_owned();
                return Err(BuildError::UnknownKernel { name: name.clone(), nearest });
            }
        }
        Ok(())
    }
}

/// Whether `name`, as `module::function` or with more of the path before, is a kernel's.
fn names(name: &str, module: &str, function: &str) -> bool {
    let Some((path, last)) = name.rsplit_once("::") else { return name == function };
    let ends_alike = |a: &str, b: &str| a == b || a.ends_with(&format!("::{b}"));
    last == function && (ends_alike(module, path) || ends_alike(path, module))
}

/// Where a person can see it: cargo keeps what a build script prints to itself.
pub(crate) fn show(progress: &Progress) {
    eprintln!("{progress}");
    if let Ok(mut terminal) = std::fs::File::options().write(true).open("/dev/tty") {
        let _ = writeln!(terminal, "cutile-build: {progress}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_by_any_end_of_its_path() {
        for name in ["gemm", "kernels::gemm", "crate::kernels::gemm"] {
            assert!(names(name, "kernels", "gemm"), "{name}");
        }
        assert!(names("kernels::gemm", "build_script_build::gpu::kernels", "gemm"));
        for name in ["gem", "other::gemm", "kernels::gemm2", "xkernels::gemm"] {
            assert!(!names(name, "kernels", "gemm"), "{name}");
        }
    }
}
