//! What a build script calls.

use crate::assemble::Progress;
use crate::bundle::{self, Contents, Written};
use crate::compile::{Gathered, Jobs};
use crate::environment::{BuildEnv, RERUN_IF_ENV_CHANGED};
use crate::error::BuildError;
use crate::package::MetadataConfig;
use crate::rehearsal::{self, Setup, Warmup};
use crate::targets::Target;
use crate::toolkit::{SearchPlaces, Toolkit};
use crate::virtual_gpu::VirtualGpu;
use cutile::cutile_compiler::cuda_tile_runtime_utils::get_compiler_version;
use cutile::tile_kernel::CompileOptions;
use cutile_embed::cuda::row::codegen_row;
use cutile_embed::manifest::Package;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;

/// Compiles the kernels of the crate whose build script this is, for [`embed!`].
///
/// ```no_run
/// # mod kernels { pub fn warmup() -> Result<(), cutile::error::Error> { Ok(()) } }
/// // build.rs, with `#[path = "src/kernels.rs"] mod kernels;`
/// cutile_build::Builder::from_metadata().warmup("app", kernels::warmup).build();
/// ```
///
/// [`embed!`]: cutile_embed::embed
#[derive(Default)]
#[must_use]
pub struct Builder {
    targets: Option<Vec<String>>,
    warmups: Vec<Warmup>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warmups: Vec<&str> = self.warmups.iter().map(|warmup| warmup.name.as_str()).collect();
        f.debug_struct("Builder")
            .field("targets", &self.targets)
            .field("warmups", &warmups)
            .finish()
    }
}

impl Builder {
    /// A builder that takes what is not set here from `[package.metadata.cutile]`.
    pub fn from_metadata() -> Self {
        Self::default()
    }

    /// The targets, `sm_XX`, instead of those of the metadata. `CUTILE_BUILD_TARGETS` goes before
    /// both.
    ///
    /// Default: `targets` of `[package.metadata.cutile]`.
    pub fn targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Self {
        self.targets = Some(targets.into_iter().map(Into::into).collect());
        self
    }

    /// Code that makes the launches the program will make, on tensors without memory
    /// (`cutile::api::meta`), each ending in `.compile()`. It runs once per target on a virtual
    /// GPU: real launches are recorded as well, and compute nothing.
    ///
    /// The name is for messages. May be called several times.
    pub fn warmup<E: fmt::Display>(
        mut self,
        name: impl Into<String>,
        run: impl Fn() -> Result<(), E> + 'static,
    ) -> Self {
        self.warmups.push(Warmup {
            name: name.into(),
            run: Box::new(move || run().map_err(|error| error.to_string())),
        });
        self
    }

    /// Compiles and writes the bundle; on an error prints it and ends the build script.
    pub fn build(self) {
        if let Err(error) = self.try_build() {
            eprintln!("\n{error}\n");
            std::process::exit(1);
        }
    }

    /// [`build`](Self::build) with the error returned.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says what was found, what was expected and what to do next. Kernels that did
    /// compile stay in the build cache.
    pub fn try_build(mut self) -> Result<(), BuildError> {
        rehearsal::run_if_child(&mut self.warmups);
        let env = BuildEnv::from_process()?;
        let places = SearchPlaces::from_env();
        print_reruns();
        if let Some(reason) = env.skip_reason() {
            return self.write_skipped(&env, &reason);
        }
        env.refuse_overrides()?;
        let metadata = MetadataConfig::read(&env)?;
        metadata.check_cutile(&get_compiler_version())?;
        let targets = self.chosen_targets(&env, &metadata)?;
        let toolkit = Toolkit::find(&places)?;
        for file in toolkit.files() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
        let identity = toolkit.identity()?;
        let out = env.out_dir();
        let virtual_gpu =
            VirtualGpu::build(&out.join("cutile-virtual-gpu"), env.rustc().as_os_str())?;
        let scratch = tempfile::Builder::new()
            .prefix("cutile-rehearsal-")
            .tempdir_in(out)
            .map_err(|error| BuildError::io("no folder for the rehearsals", out, error))?;

        let program = env.device_debug_level()?;
        let jobs = Jobs::start(&env, &toolkit, &identity);
        let found = rehearsal::rehearse(
            &Setup {
                scratch: scratch.path(),
                virtual_gpu: &virtual_gpu,
                identity: &identity,
                program,
                script: codegen_row(CompileOptions::default().codegen),
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
            package: package(&env),
            manifest_dir: env.manifest_dir.clone(),
            identity: &identity,
            recorded,
            outcomes: report.outcomes,
            reported: BTreeSet::new(),
        };
        let found = found?;
        for kernel in found.uncovered() {
            println!("cargo::warning=no warm-up launches {kernel}: it is not embedded");
        }
        let contents = gathered.contents(found, &targets, program)?;
        for left_out in &contents.left_out {
            println!(
                "cargo::warning={} for {} is not embedded: {}",
                left_out.kernel, left_out.target, left_out.reason
            );
        }
        let written = bundle::write(&out.join("cutile"), &contents)?;
        eprintln!("{}", Summary { contents: &contents, written, processes });
        Ok(())
    }

    fn chosen_targets(
        &self,
        env: &BuildEnv,
        metadata: &MetadataConfig,
    ) -> Result<Vec<Target>, BuildError> {
        if let Some(targets) = env.targets()? {
            return Ok(targets);
        }
        let (from, names) = match (&self.targets, metadata.targets()) {
            (Some(names), _) => ("Builder::targets", names.as_slice()),
            (None, Some(names)) => ("[package.metadata.cutile] targets", names),
            (None, None) => return Err(BuildError::NoTargets),
        };
        Ok(Target::parse_list(from, names)?)
    }

    /// An empty bundle that says why, so that the crate compiles and the program says it.
    fn write_skipped(&self, env: &BuildEnv, reason: &str) -> Result<(), BuildError> {
        let contents = Contents {
            package: package(env),
            cutile: get_compiler_version(),
            toolkit: None,
            codegen: env.device_debug_level()?,
            skipped: Some(reason.to_owned()),
            left_out: Vec::new(),
            targets: Vec::new(),
        };
        bundle::write(&env.out_dir().join("cutile"), &contents)?;
        println!("cargo::warning=no GPU kernels are embedded: {reason}");
        Ok(())
    }
}

fn package(env: &BuildEnv) -> Package {
    Package { name: env.package_name.clone(), version: env.package_version.clone() }
}

/// Cargo runs the script again when one of these changes. The kernels are not among them: they are
/// part of the script, which cargo compiles and runs again when they change.
fn print_reruns() {
    for name in RERUN_IF_ENV_CHANGED.into_iter().chain(SearchPlaces::variables()) {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=Cargo.toml");
}

/// Where a person can see it: cargo keeps what a build script prints to itself.
pub(crate) fn show(progress: &Progress) {
    eprintln!("{progress}");
    if let Ok(mut terminal) = std::fs::File::options().write(true).open("/dev/tty") {
        let _ = writeln!(terminal, "cutile-build: {progress}");
    }
}

struct Summary<'a> {
    contents: &'a Contents,
    written: Written,
    processes: usize,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { kernels, images, bytes } = self.written;
        let targets: Vec<&str> =
            self.contents.targets.iter().map(|(target, _)| target.as_str()).collect();
        write!(
            f,
            "cutile-build: {kernels} specializations, {images} images, {bytes} bytes for {}; \
             tileiras ran {} times",
            targets.join(", "),
            self.processes
        )
    }
}
