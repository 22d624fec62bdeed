//! Writes the seeds of every target to `corpus/<target>/`: `cargo run --bin seeds`, in this folder.

#[allow(dead_code, reason = "the body is for the target")]
#[path = "../metadata.rs"]
mod metadata;

use cutile_embed_fuzz::{bounded, read_shaders, seeds};
use std::fs;
use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shaders = read_shaders(&root.join("../tests/wgsl"));
    let tables = metadata::seeds().into_iter();
    let tables = tables.map(|(name, bytes)| ("metadata", name.to_owned(), bytes));
    for (target, name, bytes) in seeds(&shaders).into_iter().chain(tables) {
        let dir = root.join("corpus").join(target);
        fs::create_dir_all(&dir).expect("the corpus can be written");
        fs::write(dir.join(name), bytes).expect("the corpus can be written");
    }
}
