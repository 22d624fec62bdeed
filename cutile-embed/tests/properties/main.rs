//! The bodies of the fuzz targets on bytes that proptest makes: some at random, most by changing
//! what an encoder wrote. A bound of the time that CI has; `fuzz/` goes on from here.

#![cfg(feature = "wgsl")]

#[path = "../../fuzz/src/lib.rs"]
pub mod bodies;
mod edits;

use std::path::Path;

#[global_allocator]
static ALLOCATOR: bodies::Counting = bodies::Counting;

/// Runs a body on the seeds and the corpus of its target.
fn run(target: &str, cases: u32, body: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shaders = bodies::read_shaders(&root.join("tests/wgsl"));
    let seeds = bodies::seeds(&shaders).into_iter().filter(|seed| seed.0 == target);
    edits::run(
        seeds.map(|seed| seed.2).collect(),
        &root.join("fuzz/corpus").join(target),
        cases,
        body,
    );
}

#[test]
fn an_entry_of_upstreams_cache() {
    run("cubin_entry", 5000, bodies::cubin_entry);
}

#[test]
fn an_entry_of_the_shader_cache() {
    run("shader_entry", 5000, bodies::shader_entry);
}

#[test]
fn a_pack() {
    run("pack", 5000, bodies::pack);
}

#[test]
fn packs_in_a_binary() {
    run("find_packs", 2000, bodies::find_packs);
}

#[test]
fn an_index() {
    run("index", 2000, bodies::index);
}

#[test]
fn a_manifest() {
    run("manifest", 2000, bodies::manifest);
}

#[test]
fn a_recording() {
    run("recording", 2000, bodies::recording);
}

#[test]
fn a_shader() {
    run("wgsl", 300, bodies::wgsl);
}

#[test]
fn what_is_allocated_is_counted() {
    bodies::bounded(1 << 20, || vec![0u8; 1 << 19]);
    let over = || bodies::bounded(1 << 18, || std::hint::black_box(vec![1u8; 1 << 19]).len());
    assert!(std::panic::catch_unwind(over).is_err(), "the counting allocator is not there");
}
