//! The app's WGSL shaders, one module a shader: its cases, and what they are checked against.
//!
//! Each shader is loaded once, by `cutile_embed`, and its module is that of all its cases: IR keeps
//! its overrides until a pipeline is made.

mod adapter;
mod case;
mod gpu;
mod histogram;
mod matmul;
mod measure;
mod prefix_sum;
mod report;
mod scene;

pub(crate) use gpu::Failure;
pub(crate) use measure::{Ratio, measure};
pub(crate) use report::{Counts, Row, Shaders};

use case::Case;
use cutile_embed::shader::{Config, LoadedModule, Request, Shader, shader_module_with, stats};
use gpu::Gpu;
use std::path::Path;

/// What `build.rs` generated: a module for each shader, with its entry points and bindings.
mod built {
    include!(concat!(env!("OUT_DIR"), "/cutile_shaders.rs"));
}

use built::shaders;

/// What a run of the shaders is asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Options<'a> {
    /// Where shaders may come from.
    pub(crate) config: Config,
    /// Whether subgroups are used where the adapter has them.
    pub(crate) subgroups: bool,
    /// Where the picture is written to.
    pub(crate) png: Option<&'a Path>,
}

/// Runs every shader of the app that the adapter is for. A fault is told in the row of its case,
/// and the others are run.
pub(crate) fn run(options: &Options<'_>) -> Shaders {
    run_on(Gpu::open(options.subgroups), options)
}

fn run_on(gpu: Gpu, options: &Options<'_>) -> Shaders {
    let prefix_sum = if gpu.has_subgroups() {
        &shaders::prefix_sum_subgroups::SHADER
    } else {
        &shaders::prefix_sum::SHADER
    };
    let programs = [
        (&shaders::matmul::SHADER, matmul::cases()),
        (prefix_sum, prefix_sum::cases()),
        (&shaders::histogram::SHADER, histogram::cases()),
        (&shaders::scene::SHADER, scene::cases(options.png)),
    ];
    let before = stats();
    let mut rows = Vec::new();
    for (shader, cases) in programs {
        let loaded = load(&gpu, shader, &options.config);
        rows.extend(cases.iter().map(|case| row(&gpu, shader, &loaded, case)));
    }
    Shaders { adapter: gpu.adapter, rows, before, after: stats() }
}

fn load(gpu: &Gpu, shader: &Shader, config: &Config) -> Result<LoadedModule, Failure> {
    let request = Request::of(shader);
    let loaded = gpu.checked(|| shader_module_with(&gpu.device, &request, config))??;
    for note in &loaded.notes {
        eprintln!("{}: {note}", shader.path);
    }
    Ok(loaded)
}

fn row(gpu: &Gpu, shader: &Shader, loaded: &Result<LoadedModule, Failure>, case: &Case<'_>) -> Row {
    let (source, result) = match loaded {
        Ok(loaded) => (Some(loaded.source), (case.run)(gpu, &loaded.module)),
        Err(error) => (None, Err(error.to_string().into())),
    };
    let (relative_error, error) = match result {
        Ok(Some(error)) if error.is_nan() || error > case.bound => (
            Some(error),
            Some(format!("the relative error {error:e} is not within {:e}", case.bound)),
        ),
        Ok(relative_error) => (relative_error, None),
        Err(error) => (None, Some(error.to_string())),
    };
    Row {
        path: shader.path,
        entry_point: case.entry_point,
        constants: case.constants.clone(),
        source,
        relative_error,
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgpu::Features;

    fn on_noop(features: Features) -> Shaders {
        let config = Config::default().disk(None);
        run_on(Gpu::noop(features), &Options { config, subgroups: true, png: None })
    }

    #[test]
    fn without_an_adapter_every_pipeline_is_made_and_nothing_computed() {
        for (features, prefix_sum) in [
            (Features::SUBGROUP, "shaders/prefix_sum_subgroups.wgsl"),
            (Features::empty(), "shaders/prefix_sum.wgsl"),
        ] {
            let found = on_noop(features);
            assert!(found.adapter.is_none());
            assert_eq!(found.errors().count(), 0, "{:?}", found.rows);
            assert!(found.rows.len() >= 6);
            assert!(found.rows.iter().all(|row| row.relative_error.is_none()));
            assert_eq!(found.rows.iter().filter(|row| row.path == prefix_sum).count(), 2);
        }
    }

    #[test]
    fn a_fault_that_wgpu_finds_is_the_error_of_its_row() {
        let gpu = Gpu::noop(Features::empty());
        // It uses operations that this device lacks.
        let shader = &shaders::prefix_sum_subgroups::SHADER;
        let loaded = load(&gpu, shader, &Config::default().disk(None));
        for case in prefix_sum::cases() {
            let row = row(&gpu, shader, &loaded, &case);
            assert!(row.source.is_none() && row.relative_error.is_none());
            let error = row.error.expect("an error");
            assert!(error.to_lowercase().contains("subgroup"), "{error}");
        }
    }

    #[test]
    fn a_result_out_of_its_bound_is_an_error() {
        let gpu = Gpu::noop(Features::empty());
        let shader = &shaders::scene::SHADER;
        let loaded = load(&gpu, shader, &Config::default().disk(None));
        let found = [0.5, 2.0, f64::NAN].map(|error| {
            let case = Case::new(&shaders::scene::entry::SHADE, 1.0, move |_, _| Ok(Some(error)));
            row(&gpu, shader, &loaded, &case).error.is_some()
        });
        assert_eq!(found, [false, true, true]);
    }
}
