use super::*;
use std::fs;

fn write(dir: &Path, manifest: &str) {
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::write(dir.join("src/lib.rs"), "").unwrap();
    fs::write(dir.join("Cargo.toml"), manifest).unwrap();
}

fn read(rest: &str) -> Result<MetadataConfig, PackageError> {
    let dir = tempfile::tempdir().unwrap();
    let head = "[package]\nname = \"p\"\nversion = \"1.2.3\"\nedition = \"2021\"\n[workspace]\n";
    write(dir.path(), &format!("{head}{rest}"));
    MetadataConfig::read_from(dir.path(), Path::new("cargo"))
}

#[test]
fn every_key_is_read() {
    let config = read(
        "[package.metadata.cutile]\ntargets = [\"sm_90\", \"sm_80\"]\nshaders = [\"a/*.wgsl\"]\n\
         targets-for = { \"k::fp4\" = [\"sm_100\"] }\n\
         [[package.metadata.cutile.shader]]\npath = \"a/b.wgsl\"\n\
         [dependencies]\ncutile = \"0.5\"\n[build-dependencies]\ncutile = \"0.5\"\n",
    )
    .unwrap();
    assert_eq!(config.targets().unwrap(), ["sm_90", "sm_80"]);
    assert_eq!(config.shaders, ["a/*.wgsl"]);
    assert_eq!(config.targets_for["k::fp4"], ["sm_100"]);
    assert_eq!(config.shader[0]["path"], "a/b.wgsl");
    let mut tables: Vec<_> = config.cutile.iter().map(|cutile| cutile.table).collect();
    tables.sort_unstable();
    assert_eq!(tables, ["[build-dependencies]", "[dependencies]"]);
}

#[test]
fn a_crate_without_the_table_has_no_targets() {
    assert_eq!(read("").unwrap(), MetadataConfig::default());
    assert_eq!(read("[package.metadata.docs]\nx = 1\n").unwrap(), MetadataConfig::default());
}

#[test]
fn an_unknown_key_names_the_nearest() {
    for (key, near) in
        [("target", "targets"), ("targets_for", "targets-for"), ("shadres", "shaders")]
    {
        let message =
            read(&format!("[package.metadata.cutile]\n{key} = []\n")).unwrap_err().to_string();
        assert!(message.contains(&format!("`{key}`; did you mean `{near}`?")), "{message}");
        assert!(message.contains("Cargo.toml"), "{message}");
    }
}

#[test]
fn types_are_checked() {
    for (text, key, expected) in [
        ("targets = \"sm_90\"", "targets", "an array of strings"),
        ("targets = [90]", "targets", "an array of strings"),
        ("shaders = {}", "shaders", "an array of strings"),
        ("shader = [1]", "shader", "an array of tables"),
        ("targets-for = []", "targets-for", "a table of arrays"),
        ("targets-for = { k = 1 }", "targets-for.k", "an array of strings"),
    ] {
        let message =
            read(&format!("[package.metadata.cutile]\n{text}\n")).unwrap_err().to_string();
        assert!(message.contains(&format!("`{key}`")) && message.contains(expected), "{message}");
    }
    let message = read("[package.metadata]\ncutile = 1\n").unwrap_err().to_string();
    assert!(message.contains("expected a table"), "{message}");
}

#[test]
fn the_package_is_chosen_by_its_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let root = "[workspace]\nmembers = [\"a\", \"b ä\"]\nresolver = \"2\"\n";
    fs::write(dir.path().join("Cargo.toml"), root).unwrap();
    for (folder, name, target) in [("a", "a", "sm_80"), ("b ä", "b", "sm_90")] {
        write(
            &dir.path().join(folder),
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\n\
                 [package.metadata.cutile]\ntargets = [\"{target}\"]\n"
            ),
        );
    }
    for (folder, target) in [("a", "sm_80"), ("b ä", "sm_90")] {
        let found =
            MetadataConfig::read_from(&dir.path().join(folder), Path::new("cargo")).unwrap();
        assert_eq!(found.targets().unwrap(), [target]);
    }
    assert!(!dir.path().join("Cargo.lock").exists(), "no graph was resolved");
}

#[cfg(unix)]
#[test]
fn s06_a_path_that_is_not_utf8_is_one_clear_error() {
    use std::os::unix::ffi::OsStrExt;
    let dir = Path::new(std::ffi::OsStr::from_bytes(b"/x/caf\xe9"));
    let message = MetadataConfig::read_from(dir, Path::new("cargo")).unwrap_err().to_string();
    assert!(message.contains("not UTF-8") && message.contains("move the folder"), "{message}");
}

#[test]
fn a_broken_manifest_says_what_cargo_says() {
    let error = read("targets = \n").unwrap_err();
    assert!(matches!(error, PackageError::Cargo { .. }));
    assert!(error.to_string().contains("Cargo.toml"), "{error}");
    assert!(error.source().is_some());
}

#[test]
fn s16_a_crate_that_asks_for_another_cutile_is_refused() {
    for table in ["dependencies", "build-dependencies"] {
        let config = |version| read(&format!("[{table}]\ncutile = \"{version}\"\n")).unwrap();
        config("0.5").check_cutile("0.5.0").unwrap();
        config("=0.5.0").check_cutile("0.5.0").unwrap();
        let message = config("0.4").check_cutile("0.5.0").unwrap_err().to_string();
        assert!(message.contains(&format!("[{table}] asks for cutile ^0.4")), "{message}");
        assert!(message.starts_with("cutile-build links cutile 0.5.0, but "), "{message}");
    }
}
