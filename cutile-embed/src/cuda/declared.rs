//! Which kernels the linked modules declare.

use crate::rehearsal::Declared;
use cutile::cutile_compiler::ast::{Module, syn};
use cutile::cutile_compiler::registry::CUTILE_MODULES;
use std::collections::BTreeSet;

/// Every `#[cutile::entry]` function of every linked module that is not cutile's own.
#[must_use]
pub fn declared_kernels() -> BTreeSet<Declared> {
    let mut declared = BTreeSet::new();
    for entry in CUTILE_MODULES {
        if entry.absolute_path.starts_with("cutile::") {
            continue;
        }
        let module = (entry.build)();
        let path = module.absolute_path();
        each_function(module.ast(), &mut |function| {
            if is_entry(function) {
                let (module, function) = (path.to_owned(), function.sig.ident.to_string());
                declared.insert(Declared { module, function });
            }
        });
    }
    declared
}

/// The kernel of this name.
#[must_use]
pub fn find_function(module: &Module, name: &str) -> Option<syn::ItemFn> {
    let mut found = None;
    each_function(module.ast(), &mut |function| {
        if function.sig.ident == name && is_entry(function) {
            found = Some(function.clone());
        }
    });
    found
}

/// The parameters of a kernel that its launcher's key knows by name, and whether each is a tensor.
#[must_use]
pub fn parameters(function: &syn::ItemFn) -> Vec<(String, bool)> {
    let parameter = |input: &syn::FnArg| {
        let syn::FnArg::Typed(typed) = input else { return None };
        let syn::Pat::Ident(name) = &*typed.pat else { return None };
        Some((name.ident.to_string(), matches!(*typed.ty, syn::Type::Reference(_))))
    };
    function.sig.inputs.iter().filter_map(parameter).collect()
}

/// `file:line` of a function of a module.
#[must_use]
pub fn location(module: &Module, function: &str) -> Option<String> {
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
    fn tensors_are_told_from_scalars() {
        let function: syn::ItemFn = syn::parse_str(
            "fn f<const S: [i32; 1]>(z: &mut Tensor<f32, S>, x: &Tensor<f32, S>, n: i32, p: *mut f32) {}",
        )
        .unwrap();
        let found = parameters(&function);
        let found: Vec<_> = found.iter().map(|(name, tensor)| (name.as_str(), *tensor)).collect();
        assert_eq!(found, [("z", true), ("x", true), ("n", false), ("p", false)]);
    }

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
