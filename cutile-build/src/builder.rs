//! What a build script calls.

use crate::bundle::{self, Contents, Shaders, Written};
use crate::environment::{BuildEnv, RERUN_IF_ENV_CHANGED};
use crate::error::BuildError;
use crate::events::{Event, Events};
#[cfg(feature = "cuda")]
use crate::kernels;
use crate::package::MetadataConfig;
use crate::prebuilt;
#[cfg(feature = "cuda")]
use crate::rehearsal::{self, Warmup};
#[cfg(feature = "wgsl")]
use crate::shader::{Declared, Generate, ShaderOptions, shader_options};
#[cfg(feature = "cuda")]
use crate::toolkit::{SearchPlaces, Toolkit, ToolkitError};
use std::fmt;

/// Compiles the kernels and shaders of the crate whose build script this is, for [`embed!`].
///
#[cfg_attr(
    feature = "cuda",
    doc = "
```no_run
# mod kernels { pub fn warmup() -> Result<(), cutile::error::Error> { Ok(()) } }
// build.rs, with `#[path = \"src/kernels.rs\"] mod kernels;`
cutile_build::Builder::from_metadata().warmup(\"app\", kernels::warmup).build();
```
"
)]
/// # Kernels and shaders
///
/// Kernels are compiled where there is a warm-up, or `targets` are named; they need a toolkit. A
/// crate with shaders only needs neither, and no CUDA header either where it turns the feature
/// `cuda` of this crate off.
///
/// A crate that ships the folder `prebuilt`, see `cargo cutile prebuild`, needs no toolkit either.
/// Where there is one, and warm-ups, only what is stale in the folder is compiled. One that is
/// installed later is found when the script runs next: to watch for it, cargo would run the script
/// of everybody without a toolkit each time.
///
/// `CUTILE_BUILD=skip`, and a build on docs.rs, leave the kernels out. Shaders need nothing that
/// could be missing there, so they are checked and lowered all the same.
///
/// [`embed!`]: cutile_embed::embed
#[derive(Default)]
#[must_use]
pub struct Builder {
    #[cfg(feature = "cuda")]
    kernels: kernels::Asked,
    #[cfg(feature = "cuda")]
    warmups: Vec<Warmup>,
    #[cfg(feature = "wgsl")]
    shaders: Declared,
    #[cfg(feature = "wgsl")]
    module: Option<Generate>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Builder");
        #[cfg(feature = "cuda")]
        {
            let name = |warmup: &Warmup| warmup.name.clone();
            let warmups: Vec<String> = self.warmups.iter().map(name).collect();
            out.field("kernels", &self.kernels).field("warmups", &warmups);
        }
        #[cfg(feature = "wgsl")]
        out.field("shaders", &self.shaders).field("module", &self.module);
        out.finish()
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
    #[cfg(feature = "cuda")]
    pub fn targets<T: Into<String>>(mut self, targets: impl IntoIterator<Item = T>) -> Self {
        self.kernels.targets = Some(targets.into_iter().map(Into::into).collect());
        self
    }

    /// The targets of one kernel, `module::kernel`, where they are fewer: one that needs block-scaled
    /// arithmetic, say, which sm_90 lacks. Launch it in a warm-up of its own: one that fails on a
    /// target which its kernel is not compiled for is passed over.
    ///
    /// ```no_run
    /// cutile_build::Builder::from_metadata()
    ///     .targets_for("kernels::mxfp_gemm", ["sm_100", "sm_120"])
    ///     .build();
    /// ```
    ///
    /// Default: `targets-for` of `[package.metadata.cutile]`, and all targets.
    #[cfg(feature = "cuda")]
    pub fn targets_for<T: Into<String>>(
        mut self,
        kernel: impl Into<String>,
        targets: impl IntoIterator<Item = T>,
    ) -> Self {
        let targets = targets.into_iter().map(Into::into).collect();
        self.kernels.targets_for.insert(kernel.into(), targets);
        self
    }

    /// Compiles what a run launched, besides the warm-ups: a file of `cargo cutile record`, below the
    /// crate. May be called several times.
    ///
    /// A kernel that was edited since is compiled as it is now. One that is gone, or has other
    /// parameters, is an error that says what changed.
    ///
    /// ```no_run
    /// cutile_build::Builder::from_metadata().replay("kernels.json").build();
    /// ```
    #[cfg(feature = "cuda")]
    pub fn replay(mut self, file: impl Into<std::path::PathBuf>) -> Self {
        self.kernels.replay.push(file.into());
        self
    }

    /// Stops the build where a kernel of the crate has no specialization at all.
    ///
    /// Default: a warning for each.
    #[cfg(feature = "cuda")]
    pub fn deny_uncovered(mut self) -> Self {
        self.kernels.deny_uncovered = true;
        self
    }

    /// Code that makes the launches the program will make, on tensors without memory
    /// (`cutile::api::meta`), each ending in `.compile()`. It runs once per target on a virtual
    /// GPU: real launches are recorded as well, and compute nothing.
    ///
    /// The name is for messages. May be called several times.
    ///
    /// What it finds is kept in the build cache, and taken from there while the build script is the
    /// same. A warm-up that reads a file or a variable says so to cargo, as any build script does,
    /// and before [`build`](Self::build): with `cargo::rerun-if-changed` or
    /// `cargo::rerun-if-env-changed`. When those change it runs again.
    #[cfg(feature = "cuda")]
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

    /// Globs of WGSL files below the crate, with `/` on every system, in addition to those of the
    /// metadata: `*` matches within a folder, `**/` across folders. A glob starts with a folder,
    /// and cargo runs the build script again when anything in that folder changes.
    ///
    /// ```no_run
    /// cutile_build::Builder::from_metadata().shaders(["shaders/**/*.wgsl"]).build();
    /// ```
    ///
    /// Default: `shaders` of `[package.metadata.cutile]`.
    #[cfg(feature = "wgsl")]
    pub fn shaders<G: Into<String>>(mut self, globs: impl IntoIterator<Item = G>) -> Self {
        self.shaders.globs.extend(globs.into_iter().map(Into::into));
        self
    }

    /// Options of one shader, in addition to those of the metadata. Two for one shader are an
    /// error, wherever they are. May be called several times.
    ///
    /// ```no_run
    /// use cutile_build::{Builder, Emit, ShaderOptions};
    ///
    /// Builder::from_metadata()
    ///     .shader(ShaderOptions::new("shaders/scan.wgsl").features(["SUBGROUP"]))
    ///     .shader(ShaderOptions::new("shaders/sum.wgsl").emit(Emit::SpirV))
    ///     .build();
    /// ```
    ///
    /// Default: `[[package.metadata.cutile.shader]]`.
    #[cfg(feature = "wgsl")]
    pub fn shader(mut self, options: ShaderOptions) -> Self {
        self.shaders.options.push(options);
        self
    }

    /// Generates `OUT_DIR/cutile_shaders.rs`: a module for each shader, with what loads it
    /// (`SHADER`), its entry points, and a struct of its overrides. The crate depends on
    /// `cutile-embed` by that name, and takes it in with
    ///
    /// ```text
    /// include!(concat!(env!("OUT_DIR"), "/cutile_shaders.rs"));
    /// ```
    ///
    /// so that `shaders/fx/blur.wgsl` is `shaders::fx::blur`.
    ///
    /// Default: no module.
    #[cfg(feature = "wgsl")]
    pub fn shader_module(mut self) -> Self {
        self.module = Some(Generate::Plain);
        self
    }

    /// [`shader_module`](Self::shader_module) with, for each bind group, a struct of what is bound
    /// and the layout: `BindGroup0` and `LAYOUT_0`. The crate depends on `wgpu` by that name, in
    /// the version of [`cutile-embed`](cutile_embed::shader).
    ///
    /// Default: no module.
    #[cfg(feature = "wgsl")]
    pub fn shader_module_for_wgpu(mut self) -> Self {
        self.module = Some(Generate::Wgpu);
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
    /// compile stay in the build cache. A bundle of a build before this one is gone then, and
    /// `embed!` does not compile, whatever is done with the error.
    #[cfg_attr(not(feature = "cuda"), allow(unused_mut, reason = "warm-ups are taken out of it"))]
    pub fn try_build(mut self) -> Result<(), BuildError> {
        #[cfg(feature = "cuda")]
        rehearsal::run_if_child(&mut self.warmups);
        let env = BuildEnv::from_process()?;
        self.try_build_with(&env)
    }

    /// [`try_build`](Self::try_build) with cargo's environment given, and not that of the process.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_build_with(self, env: &BuildEnv) -> Result<(), BuildError> {
        let events = Events::of_script(env);
        let result = self.run(env, &events);
        let error = result.as_ref().err().map(ToString::to_string);
        events.say(Event::ScriptEnded { error });
        if result.is_err()
            && let Err(error) = bundle::discard(env.out_dir())
        {
            eprintln!("{error}");
        }
        result
    }

    fn run(&self, env: &BuildEnv, events: &Events) -> Result<(), BuildError> {
        print_reruns();
        let metadata = MetadataConfig::read(env)?;
        // First: they take no time, and what is wrong with them is known before a kernel is
        // compiled.
        let shaders = self.lower_shaders(env, &metadata)?;
        let (mut contents, processes) = self.kernels(env, &metadata, &shaders)?;
        contents.shaders = shaders;
        let written = bundle::write(&env.out_dir().join("cutile"), &contents)?;
        events.say(Event::Bundle {
            specializations: written.kernels,
            images: written.images,
            bytes: written.bytes,
            shaders: written.shaders,
        });
        if let Some(reason) = &contents.skipped {
            events.say(Event::Skipped { reason: reason.clone() });
        }
        eprintln!("{}", Summary { contents: &contents, written, processes });
        Ok(())
    }

    #[cfg(feature = "wgsl")]
    fn lower_shaders(
        &self,
        env: &BuildEnv,
        metadata: &MetadataConfig,
    ) -> Result<Shaders, BuildError> {
        let manifest = env.manifest_dir.join("Cargo.toml");
        let mut declared = Declared {
            globs: metadata.shaders.clone(),
            options: shader_options(&manifest, metadata)?,
        };
        declared.globs.extend_from_slice(&self.shaders.globs);
        declared.options.extend_from_slice(&self.shaders.options);
        let watch = &mut |path: &str| println!("cargo::rerun-if-changed={path}");
        let (name, root) = (&env.package_name, &env.manifest_dir);
        let (shaders, module) = declared.lower(name, root, self.module, watch)?;
        bundle::write_module(env.out_dir(), module.as_deref())?;
        Ok(shaders)
    }

    #[cfg(not(feature = "wgsl"))]
    fn lower_shaders(
        &self,
        _: &BuildEnv,
        metadata: &MetadataConfig,
    ) -> Result<Shaders, BuildError> {
        if !metadata.shaders.is_empty() || !metadata.shader.is_empty() {
            println!(
                "cargo::warning=Cargo.toml names shaders, and cutile-build is without its feature \
                 `wgsl`: they are not embedded"
            );
        }
        Ok(Shaders::default())
    }

    /// What the bundle has of kernels, and how often tileiras ran; `None` where it was not asked.
    #[cfg(feature = "cuda")]
    fn kernels(
        &self,
        env: &BuildEnv,
        metadata: &MetadataConfig,
        shaders: &Shaders,
    ) -> Result<(Contents, Option<usize>), BuildError> {
        let launches = !self.warmups.is_empty() || !self.kernels.replay.is_empty();
        let targets = self.kernels.targets.as_deref();
        // Targets in the environment are for the crates of a workspace that have kernels.
        let has_targets = targets.is_some() || metadata.targets().is_some();
        let prebuilt = prebuilt::find(env)?;
        if !launches && !has_targets && prebuilt.is_none() && !shaders.rows.is_empty() {
            return Ok((Contents::without_kernels(env.package()), None));
        }
        SearchPlaces::variables().into_iter().for_each(rerun_if_env_changed);
        if !launches && prebuilt.is_none() {
            prebuilt::watch();
        }
        if let Some(reason) = env.skip_reason() {
            return Ok((kernels::skipped(env, &reason)?, None));
        }
        if let Some(prebuilt) = prebuilt.as_ref().filter(|_| !launches) {
            return Ok((prebuilt::embed(env, metadata, prebuilt, targets)?, None));
        }
        if !launches && env.ignore_prebuilt && prebuilt::is_there(env) {
            return Err(BuildError::NoWarmUps { package: env.package_name.clone() });
        }
        let toolkit = match (Toolkit::find(&SearchPlaces::from_env()), &prebuilt) {
            (Ok(toolkit), _) => toolkit,
            (Err(ToolkitError::Missing { .. }), Some(prebuilt)) => {
                return Ok((prebuilt::embed(env, metadata, prebuilt, targets)?, None));
            }
            (Err(error), _) => return Err(error.into()),
        };
        let (contents, processes) =
            kernels::build(env, metadata, &self.kernels, &toolkit, prebuilt.as_ref())?;
        Ok((contents, Some(processes)))
    }

    #[cfg(not(feature = "cuda"))]
    fn kernels(
        &self,
        env: &BuildEnv,
        metadata: &MetadataConfig,
        shaders: &Shaders,
    ) -> Result<(Contents, Option<usize>), BuildError> {
        if let Some(prebuilt) = prebuilt::find(env)? {
            return Ok((prebuilt::embed(env, metadata, &prebuilt, None)?, None));
        }
        let skipped = env.skip_reason();
        if env.ignore_prebuilt && prebuilt::is_there(env) && skipped.is_none() {
            return Err(BuildError::NoWarmUps { package: env.package_name.clone() });
        }
        if shaders.rows.is_empty() && skipped.is_none() {
            return Err(BuildError::NoShaders);
        }
        let mut contents = Contents::without_kernels(env.package());
        if metadata.targets().is_some() {
            prebuilt::watch();
            let without = || "cutile-build is without its feature `cuda`".to_owned();
            contents.skipped = Some(skipped.unwrap_or_else(without));
        }
        Ok((contents, None))
    }
}

fn rerun_if_env_changed(name: &str) {
    println!("cargo::rerun-if-env-changed={name}");
}

/// Cargo runs the script again when one of these changes. The kernels are not among them: they are
/// part of the script, which cargo compiles and runs again when they change.
fn print_reruns() {
    RERUN_IF_ENV_CHANGED.into_iter().for_each(rerun_if_env_changed);
    println!("cargo::rerun-if-changed=Cargo.toml");
}

struct Summary<'a> {
    contents: &'a Contents,
    written: Written,
    /// `None` where no kernels were asked for.
    processes: Option<usize>,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Written { kernels, images, bytes, shaders, shader_bytes } = self.written;
        f.write_str("cutile-build: ")?;
        if self.contents.prebuilt {
            write!(f, "{kernels} specializations, {images} images, {bytes} bytes, prebuilt")?;
        } else if let Some(processes) = self.processes {
            let targets: Vec<&str> =
                self.contents.targets.iter().map(|(target, _)| target.as_str()).collect();
            write!(
                f,
                "{kernels} specializations, {images} images, {bytes} bytes for {}; tileiras ran \
                 {processes} times",
                targets.join(", ")
            )?;
        }
        if shaders > 0 {
            let kernels = self.processes.is_some() || self.contents.prebuilt;
            let and = if kernels { "; " } else { "" };
            let artifacts: usize =
                self.contents.shaders.rows.iter().map(|row| row.artifacts.len()).sum();
            write!(f, "{and}{shaders} shaders in {artifacts} forms, {shader_bytes} bytes")?;
        } else if self.processes.is_none() && !self.contents.prebuilt {
            f.write_str("nothing is embedded")?;
        }
        Ok(())
    }
}
