//! Kernels that are compiled for fewer targets than the others: `targets_for`.

use crate::error::{BuildError, nearest};
use crate::rehearsal::Rehearsal;
use crate::targets::Target;
use cutile_embed::rehearsal::Declared;
use std::collections::BTreeMap;

/// Kernels that are compiled for some targets only.
#[derive(Debug, Default)]
pub(crate) struct Restricted {
    by_kernel: BTreeMap<String, Vec<Target>>,
}

impl Restricted {
    /// From several lists, kernel to names of targets; the last one goes.
    pub(crate) fn new(lists: &[&BTreeMap<String, Vec<String>>]) -> Result<Self, BuildError> {
        let mut by_kernel = BTreeMap::new();
        for (kernel, names) in lists.iter().copied().flatten() {
            let targets = Target::parse_list(&format!("targets_for {kernel}"), names)?;
            by_kernel.insert(kernel.clone(), targets);
        }
        Ok(Self { by_kernel })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_kernel.is_empty()
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
    pub(crate) fn check_names(&self, found: &Rehearsal) -> Result<(), BuildError> {
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
