#![no_main]

#[path = "../src/metadata.rs"]
mod metadata;

use cutile_embed_fuzz::bounded;

#[global_allocator]
static ALLOCATOR: cutile_embed_fuzz::Counting = cutile_embed_fuzz::Counting;

libfuzzer_sys::fuzz_target!(|data: &[u8]| metadata::metadata(data));
