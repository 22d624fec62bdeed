//! Which kernels the linked modules declare.

use crate::rehearsal::Declared;
use cutile::cutile_compiler::ast::{Module, syn};
use cutile::cutile_compiler::registry::CUTILE_MODULES;
use std::collections::BTreeSet;

/// Every `#[cutile::entry]` function of every linked module that is not cutile's own.
pub(crate) fn declared_kernels() -> BTreeSet<Declared> {
    let mut declared = BTreeSet::new();
    for entry in CUTILE_MODULES {
        if entry.absolute_path.starts_with("cutile::") {
            continue;
        }
        let module = (entry.build)();
        let path = module.absolute_path();
        let own = path.starts_with("build_script_");
        each_function(module.ast(), &mut |function| {
            if is_entry(function) {
                declared.insert(Declared {
                    module: path.to_owned(),
                    function: function.sig.ident.to_string(),
                    own,
                });
            }
        });
    }
    declared
}

/// `file:line` of a function of a module.
pub(crate) fn location(module: &Module, function: &str) -> Option<String> {
    let mut found = None;
    each_function(module.ast(), &mut |candidate| {
        if candidate.sig.ident == function {
            let place = module.resolve_span(&candidate.sig.ident.span());
            found = Some(format!("{}:{}", place.file, place.line));
        }
    });
    found
}

fn each_function(module: &syn::ItemMod, visit: &mut dyn FnMut(&syn::ItemFn)) {
    let Some((_, items)) = &module.content else { return };
    for item in items {
        match item {
            syn::Item::Fn(function) => visit(function),
            syn::Item::Mod(inner) => each_function(inner, visit),
            _ => {}
        }
    }
}

fn is_entry(function: &syn::ItemFn) -> bool {
    function
        .attrs
        .iter()
        .any(|attr| attr.path().segments.last().is_some_and(|last| last.ident == "entry"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_however_they_are_spelled_and_nested() {
        let module: syn::ItemMod = syn::parse_str(
            "mod kernels {
                #[cutile::entry()] pub fn a() {}
                #[entry(print_ir = true)] fn b() {}
                fn helper() {}
                mod inner { #[cutile::entry()] fn c() {} }
            }",
        )
        .unwrap();
        let mut names = Vec::new();
        each_function(&module, &mut |function| {
            if is_entry(function) {
                names.push(function.sig.ident.to_string());
            }
        });
        assert_eq!(names, ["a", "b", "c"]);
    }
}
