//! What a generated module says about an entry point.

use naga::ShaderStage;

/// An entry point of a shader, as the module that `cutile-build` generates declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name in the shader.
    pub name: &'static str,
    /// Where in a pipeline it stands.
    pub stage: ShaderStage,
    /// Invocations of a workgroup; `None` where the stage has none, or an override decides.
    pub workgroup_size: Option<[u32; 3]>,
}
