#![no_main]

#[global_allocator]
static ALLOCATOR: cutile_embed_fuzz::Counting = cutile_embed_fuzz::Counting;

libfuzzer_sys::fuzz_target!(|data: &[u8]| cutile_embed_fuzz::manifest(data));
