//! Upstream's hash of a module's text, for a module that nothing launches.
//!
//! It is SHA-256 of the item's tokens as the compiler prints them to cutile's macro, and a constant
//! of the module that no registry tells. So the same compiler is asked: the item is cut out of its
//! file, with `#[cutile::module]` replaced by a macro that prints that hash.

use cutile::cutile_compiler::ast::{Module, syn};
use cutile::cutile_compiler::registry::CUTILE_MODULES;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use syn::spanned::Spanned;

/// The macro: prints number and text of the item. The text is hashed here.
const PROBE: &str = r##"
extern crate proc_macro;
use proc_macro::TokenStream;
#[proc_macro_attribute]
pub fn text(number: TokenStream, item: TokenStream) -> TokenStream {
    let folder = std::path::Path::new(env!("CUTILE_BUILD_PROBE_OUT"));
    std::fs::write(folder.join(number.to_string()), item.to_string()).unwrap();
    TokenStream::new()
}
"##;

/// The hashes of the modules with these short names, by path. A module is left out whose item
/// cannot be found in its file: where a macro made it, say.
pub(crate) fn of_modules(
    names: &[&str],
    manifest_dir: &Path,
    rustc: &Path,
    scratch: &Path,
) -> BTreeMap<String, String> {
    let mut items = BTreeMap::new();
    for entry in CUTILE_MODULES {
        let name = entry.absolute_path.rsplit("::").next().unwrap_or_default();
        if !names.contains(&name) || entry.absolute_path.starts_with("cutile::") {
            continue;
        }
        let module = (entry.build)();
        if let Some(item) = item_text(&module, manifest_dir) {
            items.insert(module.absolute_path().to_owned(), item);
        }
    }
    print_texts(&items, rustc, scratch).unwrap_or_default()
}

/// The item of a module, in front of and behind cutile's attribute.
fn item_text(module: &Module, manifest_dir: &Path) -> Option<(String, String)> {
    let place = module.span_base().module_location();
    // The compiler ran in the package's folder, or in that of its workspace.
    let (text, file) = manifest_dir
        .ancestors()
        .filter_map(|folder| fs::read_to_string(folder.join(&place.file)).ok())
        .find_map(|text| syn::parse_file(&text).ok().map(|file| (text, file)))?;
    let item = find_item(&file.items, place.line)?;
    let is_ours =
        |attr: &&syn::Attribute| attr.path().segments.last().is_some_and(|s| s.ident == "module");
    let attribute = item.attrs.iter().find(is_ours)?;
    let start = item.attrs.first().map_or_else(|| item.span(), Spanned::span).start();
    let end = item.content.as_ref()?.0.span.close().end();
    let (from, to) = (attribute.span().start(), attribute.span().end());
    let cut = (offset(&text, from.line, from.column)?, offset(&text, to.line, to.column)?);
    let start = offset(&text, start.line, start.column)?;
    let end = offset(&text, end.line, end.column)?;
    Some((text.get(start..cut.0)?.to_owned(), text.get(cut.1..end)?.to_owned()))
}

/// The module whose own text, from `pub` or `mod` on, starts in a line.
fn find_item(items: &[syn::Item], line: usize) -> Option<&syn::ItemMod> {
    items.iter().find_map(|item| {
        let syn::Item::Mod(module) = item else { return None };
        let start = match &module.vis {
            syn::Visibility::Inherited => module.mod_token.span.start(),
            vis => vis.span().start(),
        };
        if start.line == line {
            return Some(module);
        }
        find_item(&module.content.as_ref()?.1, line)
    })
}

/// Bytes before a place: lines count from 1, columns in characters from 0.
fn offset(text: &str, line: usize, column: usize) -> Option<usize> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let line = text.get(start..)?;
    Some(start + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at))
}

fn print_texts(
    items: &BTreeMap<String, (String, String)>,
    rustc: &Path,
    scratch: &Path,
) -> Option<BTreeMap<String, String>> {
    if items.is_empty() {
        return None;
    }
    let folder = scratch.join("source-hashes");
    fs::create_dir_all(&folder).ok()?;
    fs::write(folder.join("probe.rs"), PROBE).ok()?;
    // Numbered modules: two items may have one name.
    let texts: String = items
        .values()
        .enumerate()
        .map(|(at, (before, after))| {
            format!("mod number{at} {{\n{before}#[probe::text({at})]{after}\n}}\n")
        })
        .collect();
    fs::write(folder.join("items.rs"), texts).ok()?;
    let run = |arguments: &[&str]| {
        let output = Command::new(rustc)
            .args(["--edition", "2024", "--cap-lints", "allow", "--out-dir"])
            .arg(&folder)
            .args(arguments)
            .current_dir(&folder)
            .env("CUTILE_BUILD_PROBE_OUT", &folder)
            .output()
            .ok()?;
        output.status.success().then_some(())
    };
    run(&["--crate-type", "proc-macro", "--crate-name", "probe", "probe.rs"])?;
    let library =
        fs::read_dir(&folder).ok()?.flatten().map(|file| file.path()).find(|path| {
            path.file_stem().is_some_and(|stem| stem.to_string_lossy() == "libprobe")
        })?;
    let with = format!("probe={}", library.to_str()?);
    run(&["--crate-type", "lib", "--emit", "metadata", "--extern", &with, "items.rs"])?;
    let mut hashes = BTreeMap::new();
    for (at, path) in items.keys().enumerate() {
        let text = fs::read(folder.join(at.to_string())).ok()?;
        hashes.insert(path.clone(), crate::bundle::sha256(&text));
    }
    Some(hashes)
}
