//! The modules that a kernel is made of.
//!
//! Upstream's source hash covers the kernel's own module. What a kernel calls in other modules is
//! found here as upstream finds it: by the `use` statements, against the registry of all modules
//! that are linked in. Digests are over tokens, so that a comment or a moved line does not count.

use crate::key::key_text;
use crate::manifest::ModuleDigest;
use cutile::cutile_compiler::ast::Module;
use cutile::cutile_compiler::registry::CUTILE_MODULES;
use cutile::cutile_compiler::use_classifier::{
    UseClassification, classify_use, collect_use_imports,
};
use quote::ToTokens;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// A module as linked into this program, with those of its use graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedModule {
    /// Path as registered, `crate_name::kernels`.
    pub path: String,
    /// Digest of its own tokens, 64 hex.
    pub sha256: String,
    /// Every module of its use graph that is not cutile's own, itself included, by path.
    pub graph: Vec<ModuleDigest>,
}

impl LinkedModule {
    /// Whether a row made from `modules` is made from the same text as this module with its use
    /// graph. Paths do not count: in a build script the crate has another name.
    #[must_use]
    pub fn same_text(&self, modules: &[ModuleDigest]) -> bool {
        fn digests(modules: &[ModuleDigest]) -> Vec<&str> {
            let mut all: Vec<&str> = modules.iter().map(|module| module.sha256.as_str()).collect();
            all.sort_unstable();
            all
        }
        digests(&self.graph) == digests(modules)
    }
}

/// Whether more than one linked module can have this short name. Reads names only: building a module
/// parses its text.
#[must_use]
pub fn has_namesakes(name: &str) -> bool {
    let called = |path: &str| path.rsplit("::").next() == Some(name);
    CUTILE_MODULES.iter().filter(|entry| called(entry.absolute_path)).nth(1).is_some()
}

type Registry = HashMap<&'static str, fn() -> Module>;

/// Every distinct linked module whose short name is `name`, cutile's own included. More than one
/// means that names alone do not tell kernels apart.
#[must_use]
pub fn linked_modules(name: &str) -> Vec<(LinkedModule, fn() -> Module)> {
    let registry: Registry =
        CUTILE_MODULES.iter().map(|entry| (entry.absolute_path, entry.build)).collect();
    let mut found = BTreeMap::new();
    for (path, build) in &registry {
        // A registered path can be a re-export; the module knows where it was declared.
        if path.rsplit("::").next() != Some(name) {
            continue;
        }
        let module = build();
        let path = module.absolute_path().to_owned();
        found.entry(path).or_insert_with(|| (linked(&module, &registry), *build));
    }
    found.into_values().collect()
}

fn linked(module: &Module, registry: &Registry) -> LinkedModule {
    let mut graph = BTreeMap::new();
    walk(module, registry, &mut graph);
    LinkedModule {
        path: module.absolute_path().to_owned(),
        sha256: token_digest(module),
        graph: graph
            .into_iter()
            .filter(|(path, _)| !is_cutile(path))
            .map(|(path, sha256)| ModuleDigest { path: portable(&path), sha256 })
            .collect(),
    }
}

fn walk(module: &Module, registry: &Registry, seen: &mut BTreeMap<String, String>) {
    let here = module.absolute_path().to_owned();
    let cutile = is_cutile(&here);
    // cutile's own modules are pinned by its version; hashing them would cost more than all others.
    let digest = if cutile { String::new() } else { token_digest(module) };
    if seen.insert(here.clone(), digest).is_some() || cutile {
        return;
    }
    for import in collect_use_imports(module.ast()) {
        let path = absolute(&import.path, &here);
        if let UseClassification::Registered { absolute_path } = classify_use(&path, registry) {
            let next = registry[absolute_path.as_str()]();
            if !seen.contains_key(next.absolute_path()) {
                walk(&next, registry, seen);
            }
        }
    }
}

/// `crate`, `self` and `super` at the start of a use path, resolved.
fn absolute(path: &str, here: &str) -> String {
    let mut base: Vec<&str> = here.split("::").collect();
    let mut rest = path.split("::").peekable();
    match rest.peek() {
        Some(&"crate") => {
            rest.next();
            base.truncate(1);
        }
        Some(&"self") => {
            rest.next();
        }
        Some(&"super") => {
            while rest.next_if_eq(&"super").is_some() {
                base.pop();
            }
        }
        _ => base.clear(),
    }
    base.extend(rest);
    base.join("::")
}

fn is_cutile(path: &str) -> bool {
    path == "cutile" || path.starts_with("cutile::")
}

/// The path with the crate's name left out where it is a build script's.
fn portable(path: &str) -> String {
    match path.split_once("::") {
        Some((root, rest)) if root.starts_with("build_script_") => format!("crate::{rest}"),
        _ => path.to_owned(),
    }
}

fn token_digest(module: &Module) -> String {
    let tokens = module.ast().to_token_stream().to_string();
    key_text(&Sha256::digest(tokens.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_paths_resolve_against_the_module_they_stand_in() {
        assert_eq!(absolute("crate::a::f", "me::kernels::gemm"), "me::a::f");
        assert_eq!(absolute("super::helper::f", "me::kernels::gemm"), "me::kernels::helper::f");
        assert_eq!(absolute("super::super::f", "me::kernels::gemm"), "me::f");
        assert_eq!(absolute("self::x", "me::kernels"), "me::kernels::x");
        assert_eq!(absolute("other::x", "me::kernels"), "other::x");
    }

    #[test]
    fn the_name_of_a_build_script_is_left_out() {
        assert_eq!(portable("build_script_build::kernels"), "crate::kernels");
        assert_eq!(portable("other::kernels"), "other::kernels");
    }
}
