//! What the app does with a shader: one case a specialization.

use super::gpu::{Failure, Gpu};
use cutile_embed::shader::EntryPoint;
use std::fmt;
use wgpu::ShaderModule;

/// Makes the pipeline of a case on a device and, where that executes, its result; what it gives is
/// the relative error of that.
type Run<'a> = Box<dyn Fn(&Gpu, &ShaderModule) -> Result<Option<f64>, Failure> + 'a>;

/// An entry point with its constants, and what is done with it.
pub(crate) struct Case<'a> {
    pub(crate) entry_point: &'static str,
    /// Names and values of the overrides that the case sets.
    pub(crate) constants: Vec<(&'static str, f64)>,
    /// Largest relative error that is accepted.
    pub(crate) bound: f64,
    pub(crate) run: Run<'a>,
}

impl<'a> Case<'a> {
    /// A case without constants.
    pub(crate) fn new(
        entry_point: &EntryPoint,
        bound: f64,
        run: impl Fn(&Gpu, &ShaderModule) -> Result<Option<f64>, Failure> + 'a,
    ) -> Self {
        let run = Box::new(run);
        Self { entry_point: entry_point.name, constants: Vec::new(), bound, run }
    }

    /// The same with constants, which `run` gives to its pipeline.
    pub(crate) fn with(self, constants: Vec<(&'static str, f64)>) -> Self {
        Self { constants, ..self }
    }
}

impl fmt::Debug for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry_point, constants, bound, run: _ } = self;
        f.debug_struct("Case")
            .field("entry_point", entry_point)
            .field("constants", constants)
            .field("bound", bound)
            .finish_non_exhaustive()
    }
}
