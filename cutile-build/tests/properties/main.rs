//! The body of the fuzz target for `[package.metadata.cutile]` on bytes that proptest makes; the
//! target itself is in `cutile-embed/fuzz`, with the others.

#![cfg(feature = "wgsl")]

#[path = "../../../cutile-embed/fuzz/src/counting.rs"]
pub mod counting;
#[path = "../../../cutile-embed/tests/properties/edits.rs"]
mod edits;
#[path = "../../../cutile-embed/fuzz/src/metadata.rs"]
pub mod metadata;

use counting::bounded;
use std::path::Path;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn a_metadata_table() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cutile-embed/fuzz/corpus/metadata");
    let seeds = metadata::seeds().into_iter().map(|seed| seed.1).collect();
    edits::run(seeds, &corpus, 5000, metadata::metadata);
}
