//! The bodies of the fuzz targets on bytes that proptest makes: some at random, most by changing
//! what an encoder wrote. A bound of the time that CI has; `fuzz/` goes on from here.

#![cfg(feature = "wgsl")]

#[path = "../../fuzz/src/lib.rs"]
pub mod bodies;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::Path;

#[global_allocator]
static ALLOCATOR: bodies::Counting = bodies::Counting;

/// A change of some bytes; places are parts of the length, of 65,536.
#[derive(Debug, Clone)]
enum Edit {
    Set(u16, u8),
    Flip(u16, u8),
    Insert(u16, Vec<u8>),
    Remove(u16, usize),
    Copy(u16, u16, usize),
    /// A length or an offset, in four or eight bytes.
    Number(u16, u64, bool),
    Cut(u16),
}

fn edit() -> impl Strategy<Value = Edit> {
    let number = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(i64::MAX as u64),
        Just(u64::from(u32::MAX)),
        Just(16 << 20),
        0u64..2000,
        any::<u64>(),
    ];
    let at = any::<u16>;
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        4 => (at(), 0u8..8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        1 => (at(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(at, new)| Edit::Insert(at, new)),
        1 => (at(), 0usize..40).prop_map(|(at, length)| Edit::Remove(at, length)),
        1 => (at(), at(), 0usize..100).prop_map(|(from, to, length)| Edit::Copy(from, to, length)),
        2 => (at(), number, any::<bool>()).prop_map(|(at, number, wide)| Edit::Number(at, number, wide)),
        1 => at().prop_map(Edit::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: &Edit) {
    let place = |at: u16| (usize::from(at) * (bytes.len() + 1)) >> 16;
    match edit {
        Edit::Set(at, byte) => {
            let at = place(*at);
            bytes.get_mut(at).into_iter().for_each(|place| *place = *byte);
        }
        Edit::Flip(at, bit) => {
            let at = place(*at);
            bytes.get_mut(at).into_iter().for_each(|place| *place ^= 1 << bit);
        }
        Edit::Insert(at, new) => {
            let at = place(*at);
            bytes.splice(at..at, new.iter().copied());
        }
        Edit::Remove(at, length) => {
            let at = place(*at);
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        Edit::Copy(from, to, length) => {
            let (from, to) = (place(*from), place(*to));
            let copied = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes.splice(to..to, copied);
        }
        Edit::Number(at, number, wide) => {
            let at = place(*at);
            let width = if *wide { 8 } else { 4 };
            for (place, byte) in bytes.iter_mut().skip(at).zip(&number.to_le_bytes()[..width]) {
                *place = *byte;
            }
        }
        Edit::Cut(at) => {
            let at = place(*at);
            bytes.truncate(at);
        }
    }
}

/// Runs a body on its seeds, on `cases` changed ones, and on a tenth as many of random bytes.
fn run(target: &str, cases: u32, body: fn(&[u8])) {
    let shaders = bodies::read_shaders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wgsl"));
    let seeds: Vec<Vec<u8>> = bodies::seeds(&shaders)
        .into_iter()
        .filter(|seed| seed.0 == target)
        .map(|seed| seed.2)
        .collect();
    assert!(seeds.len() > 1);
    seeds.iter().for_each(|seed| body(seed));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    for file in std::fs::read_dir(corpus).into_iter().flatten() {
        body(&std::fs::read(file.unwrap().path()).unwrap());
    }
    let config = |cases| ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let changed = (prop::sample::select(seeds), prop::collection::vec(edit(), 1..6));
    let strategy = changed.prop_map(|(mut bytes, edits)| {
        edits.iter().for_each(|edit| apply(&mut bytes, edit));
        bytes
    });
    let check = |bytes: Vec<u8>| {
        body(&bytes);
        Ok(())
    };
    TestRunner::new(config(cases)).run(&strategy, check).unwrap();
    let random = prop::collection::vec(any::<u8>(), 0..400);
    TestRunner::new(config(cases / 10)).run(&random, check).unwrap();
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
