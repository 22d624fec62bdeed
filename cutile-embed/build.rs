//! Exists because `links` asks for a build script; there is nothing to find.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
