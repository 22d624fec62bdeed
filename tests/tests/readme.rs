//! The README's "A kernel crate in five minutes" and "WGSL shaders", followed to the letter: their
//! code, in a crate outside this workspace.

use cutile_tests::{Fixture, workspace_root};

/// The block of code that follows the first mention of a file.
fn block(readme: &str, file: &str) -> String {
    let (_, after) = readme
        .split_once(&format!("`{file}`"))
        .unwrap_or_else(|| panic!("the README does not mention {file}"));
    let (_, code) = after.split_once("```").expect("a block of code");
    let (_, code) = code.split_once('\n').expect("a line that opens the block");
    let (code, _) = code.split_once("```").expect("a line that closes the block");
    code.to_owned()
}

#[test]
fn a_stranger_reaches_an_embedded_kernel_by_the_readme_alone() {
    let root = workspace_root().display();
    let readme = std::fs::read_to_string(workspace_root().join("README.md")).unwrap();
    let (_, readme) = readme.split_once("## A kernel crate in five minutes").unwrap();

    let krate = Fixture::elsewhere("probe", "hello-kernels");
    // The two crates are taken from here, not from the registry; the rest of the table keeps the
    // features of cutile as the other tests have them, and the workspace line keeps cargo from
    // looking for one above.
    let manifest = block(readme, "Cargo.toml")
        .replace(
            "cutile-embed = \"0.1\"",
            &format!(
                "cutile-embed = {{ path = \"{root}/cutile-embed\" }}\nhalf = \"2\"\n\
                 serde = {{ version = \"1\", features = [\"derive\"] }}\nserde_json = \"1\""
            ),
        )
        .replace(
            "cutile-build = \"0.1\"",
            &format!("cutile-build = {{ path = \"{root}/cutile-build\" }}\nhalf = \"2\""),
        );
    krate.write(
        "Cargo.toml",
        &format!("{manifest}\n[workspace]\n\n[profile.dev]\ndebug = \"line-tables-only\"\n"),
    );
    for file in ["src/kernels.rs", "build.rs", "src/main.rs"] {
        krate.write(file, &block(readme, file));
    }

    let built = krate.build().ok();
    for gpu in ["sm_80", "sm_90"] {
        let printed = built.program().on(gpu).ok();
        assert!(printed.stderr.contains("1 kernel ready"), "{}", printed.stderr);
        // A virtual GPU computes nothing: the zeros that were copied there come back.
        assert_eq!(printed.stdout, "[0.0, 0.0, 0.0, 0.0]\n");
    }
}

#[test]
fn a_stranger_embeds_a_shader_by_the_readme_alone() {
    let root = workspace_root().display();
    let readme = std::fs::read_to_string(workspace_root().join("README.md")).unwrap();
    let (_, readme) = readme.split_once("## WGSL shaders").unwrap();

    let krate = Fixture::elsewhere("probe", "scale-shader");
    // Features of wgpu as the lock file has their packages.
    let manifest = block(readme, "Cargo.toml")
        .replace(
            "wgpu = \"30\"",
            "wgpu = { version = \"30\", default-features = false, features = [\"wgsl\", \"noop\"] }",
        )
        .replace("version = \"0.1\", default", &format!("path = \"{root}/CRATE\", default"))
        .replacen("CRATE", "cutile-embed", 1)
        .replacen("CRATE", "cutile-build", 1);
    assert!(!manifest.contains("0.1"), "{manifest}");
    let package = "[package]\nname = \"scale-shader\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n";
    krate.write("Cargo.toml", &format!("{package}{manifest}\n[workspace]\n"));
    std::fs::remove_dir_all(krate.dir().join("src")).unwrap();
    for file in ["build.rs", "shaders/scale.wgsl", "src/lib.rs"] {
        krate.write(file, &block(readme, file));
    }

    // A program that uses it, on the device of wgpu that computes nothing.
    krate.write("src/main.rs", SCALES);
    let built = krate.build().ok();
    let printed = built.program().bare().ok();
    assert_eq!(printed.stdout, "embedded 1, lowered 0\n");
}

const SCALES: &str = r#"
fn main() {
    let (device, _) = wgpu::Device::noop(&wgpu::DeviceDescriptor::default());
    scale_shader::scale(&device).expect("a module");
    let stats = cutile_embed::shader::stats();
    println!("embedded {}, lowered {}", stats.embedded, stats.lowered);
}
"#;
