//! The table of unsafe code in SECURITY.md is that of the sources.

use cutile_tests::workspace_root;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_file_with_unsafe_code_is_in_the_table_and_no_other() {
    let text = fs::read_to_string(workspace_root().join("SECURITY.md")).unwrap();
    let (_, table) = text.split_once("## Unsafe code").expect("a section");
    let (table, _) = table.split_once("\n## ").expect("a section after it");
    let listed: BTreeSet<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut found = BTreeSet::new();
    for sources in ["cutile-embed/src", "cutile-build/src", "example-app/src"] {
        walk(&workspace_root().join(sources), &mut found);
    }
    let covers = |row: &str, file: &str| row == file || row.ends_with('/') && file.starts_with(row);
    let missing: Vec<&String> =
        found.iter().filter(|file| !listed.iter().any(|row| covers(row, file))).collect();
    assert!(missing.is_empty(), "not in SECURITY.md: {missing:?}");
    let gone: Vec<&&str> =
        listed.iter().filter(|row| !found.iter().any(|file| covers(row, file))).collect();
    assert!(gone.is_empty(), "in SECURITY.md, and without unsafe code: {gone:?}");
}

/// The files that have unsafe code, by their path in the workspace.
fn walk(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path).unwrap().lines().any(has_unsafe_code)
        {
            let path = path.strip_prefix(workspace_root()).unwrap();
            found.insert(path.to_str().unwrap().to_owned());
        }
    }
}

fn has_unsafe_code(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern", "unsafe(no_mangle)"]
        .iter()
        .any(|word| code.contains(word))
}
