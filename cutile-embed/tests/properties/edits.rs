//! Bytes that proptest makes, for the body of a fuzz target.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::Path;

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

/// Runs a body on its seeds and corpus, on `cases` changed ones, and on a tenth as many of random
/// bytes.
pub(crate) fn run(seeds: Vec<Vec<u8>>, corpus: &Path, cases: u32, body: fn(&[u8])) {
    assert!(seeds.len() > 1);
    seeds.iter().for_each(|seed| body(seed));
    let files = std::fs::read_dir(corpus).expect("a corpus");
    for file in files {
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
