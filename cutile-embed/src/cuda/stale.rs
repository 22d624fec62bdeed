//! Prebuilt rows whose sources have changed. A bundle of the same build is consistent as it is; one
//! from a crate's folder `prebuilt` was made from other sources, perhaps.

use super::modules::{LinkedModule, linked_modules};
use crate::manifest::{ModuleDigest, Specialization};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Whether a prebuilt row is made from the modules that this program links.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sources {
    /// It is.
    Same,
    /// The program has no module of its name, and so cannot launch it.
    NotLinked,
    /// It is not; names what differs.
    Stale(String),
}

/// The linked modules by short name. Their texts are parsed once in a process.
static LINKED: Mutex<Option<HashMap<String, Vec<LinkedModule>>>> = Mutex::new(None);

/// Compares a row of a package with what is linked.
pub(super) fn sources(row: &Specialization, package: &str) -> Sources {
    let mut linked = LINKED.lock().unwrap_or_else(PoisonError::into_inner);
    let linked = linked.get_or_insert_default().entry(row.module.clone()).or_insert_with(|| {
        linked_modules(&row.module).into_iter().map(|(module, _)| module).collect()
    });
    compare(row, package, linked)
}

fn compare(row: &Specialization, package: &str, linked: &[LinkedModule]) -> Sources {
    // The program that was run to prebuild can have had the crate's modules under its own name, as
    // a build script has, so the first name of the crate's own paths does not count.
    let is_own = |path: &&str| path.rsplit("::").next() == Some(&row.module);
    let roots = row.modules.iter().map(|module| module.path.as_str()).filter(is_own).map(root);
    let made: Vec<_> = roots.map(|root| by_path(&row.modules, root)).collect();
    let linked: Vec<_> =
        linked.iter().map(|module| by_path(&module.graph, root(&module.path))).collect();
    let pairs = made.iter().flat_map(|made| linked.iter().map(move |linked| (made, linked)));
    let differences = pairs.map(|(made, linked)| differences(made, linked));
    match differences.min_by_key(Vec::len) {
        None => Sources::NotLinked,
        Some(paths) if paths.is_empty() => Sources::Same,
        Some(paths) => Sources::Stale(format!(
            "it is prebuilt, and {} changed since; run cargo cutile prebuild -p {package} and build \
             again",
            paths.join(", ")
        )),
    }
}

fn root(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

type ByPath<'a> = BTreeMap<String, &'a str>;

/// Digests by path, with the name `root` as `crate`.
fn by_path<'a>(modules: &'a [ModuleDigest], root: &str) -> ByPath<'a> {
    let place = |module: &'a ModuleDigest| {
        let path = match module.path.split_once("::") {
            Some((first, rest)) if first == root => format!("crate::{rest}"),
            _ => module.path.clone(),
        };
        (path, module.sha256.as_str())
    };
    modules.iter().map(place).collect()
}

/// Paths of the modules that are not the same in both.
fn differences(made: &ByPath<'_>, linked: &ByPath<'_>) -> Vec<String> {
    let mut paths: Vec<&String> = made.keys().chain(linked.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.into_iter().filter(|path| made.get(*path) != linked.get(*path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Codegen, Options};

    fn digests(modules: &[(&str, &str)]) -> Vec<ModuleDigest> {
        let digest = |(path, sha256): &(&str, &str)| ModuleDigest {
            path: (*path).to_owned(),
            sha256: (*sha256).to_owned(),
        };
        modules.iter().map(digest).collect()
    }

    fn row(modules: &[(&str, &str)]) -> Specialization {
        Specialization {
            modules: digests(modules),
            ..Specialization::new("gemm", "f", Options::new(Codegen::Debug))
        }
    }

    fn linked(modules: &[(&str, &str)]) -> LinkedModule {
        let graph = digests(modules);
        let own = &graph[0];
        LinkedModule { path: own.path.clone(), sha256: own.sha256.clone(), graph }
    }

    #[test]
    fn the_name_of_the_program_that_prebuilt_does_not_count() {
        let made = row(&[("warmup::gemm", "1"), ("warmup::math", "2"), ("other::math", "3")]);
        let here = linked(&[("app::gemm", "1"), ("app::math", "2"), ("other::math", "3")]);
        assert_eq!(compare(&made, "app", &[here]), Sources::Same);
        // Texts that changed places are other texts.
        let swapped = linked(&[("app::gemm", "1"), ("app::math", "3"), ("other::math", "2")]);
        assert!(matches!(compare(&made, "app", &[swapped]), Sources::Stale(_)));
    }

    #[test]
    fn what_changed_came_and_went_is_named() {
        let made = row(&[("a::gemm", "1"), ("a::math", "2"), ("a::gone", "3")]);
        let here = linked(&[("a::gemm", "1"), ("a::math", "9"), ("a::new", "4")]);
        let Sources::Stale(why) = compare(&made, "app", &[here]) else { panic!() };
        assert!(why.contains("crate::gone, crate::math, crate::new changed"), "{why}");
        assert!(why.contains("cargo cutile prebuild -p app"), "{why}");
    }

    #[test]
    fn one_of_several_modules_of_a_name_is_enough() {
        let made = row(&[("a::gemm", "1")]);
        let all = [linked(&[("b::gemm", "7")]), linked(&[("a::gemm", "1")])];
        assert_eq!(compare(&made, "app", &all), Sources::Same);
        assert_eq!(compare(&made, "app", &[]), Sources::NotLinked);
    }

    #[test]
    fn a_row_that_does_not_name_its_own_module_is_not_served() {
        let here = linked(&[("a::gemm", "1")]);
        assert_eq!(compare(&row(&[("a::other", "1")]), "app", &[here]), Sources::NotLinked);
    }
}
