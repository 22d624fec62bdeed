//! Writes the seeds of every target to `corpus/<target>/`: `cargo run --bin seeds`, in this folder.

use cutile_embed_fuzz::{read_shaders, seeds};
use std::fs;
use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shaders = read_shaders(&root.join("../tests/wgsl"));
    for (target, name, bytes) in seeds(&shaders) {
        let dir = root.join("corpus").join(target);
        fs::create_dir_all(&dir).expect("the corpus can be written");
        fs::write(dir.join(name), bytes).expect("the corpus can be written");
    }
}
