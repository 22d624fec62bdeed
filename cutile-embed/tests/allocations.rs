//! What a lookup allocates: nothing.

use cutile_embed::key::key_text;
use cutile_embed::pack::{Decoder, Pack, PackWriter};
use cutile_embed::store::{EmbeddedJitStore, JitStore as _};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts the calls of each thread.
struct Counting;

// SAFETY: every call is passed on as it is; the counter is a plain cell, and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(call: impl FnOnce() -> T) -> (usize, T) {
    let before = ALLOCATIONS.get();
    let result = call();
    (ALLOCATIONS.get() - before, result)
}

/// Not a hash, and spread over all bytes like one.
fn key(n: u64) -> [u8; 32] {
    let mut key = [0; 32];
    let mut word = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for eight in key.as_chunks_mut::<8>().0 {
        word = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *eight = word.to_be_bytes();
    }
    key
}

const ENTRIES: u64 = 10_000;

fn pack() -> &'static [u8] {
    let mut writer = PackWriter::new("crate", "1.0.0").compress(1);
    for n in 0..ENTRIES {
        let len = 600 - n as usize % 500;
        writer.insert(key(n), vec![n as u8; len]).unwrap();
    }
    writer.finish().leak()
}

#[test]
fn a_pack_of_10_000_is_read_and_searched_without_an_allocation() {
    let bytes = pack();
    let (parsing, pack) = allocations(|| Pack::parse(bytes).unwrap());
    assert_eq!((parsing, pack.len()), (0, 10_000));
    for n in (0..2 * ENTRIES).step_by(13) {
        let key = key(n);
        let (looking, found) = allocations(|| pack.get(&key));
        assert_eq!((looking, found.is_some()), (0, n < ENTRIES));
    }
}

#[test]
fn a_store_over_10_000_is_asked_without_an_allocation() {
    let bytes = pack();
    let store = EmbeddedJitStore::on_demand(move || vec![Pack::parse(bytes).unwrap()]);
    let ask = |n| {
        let text = key_text(&key(n));
        let (looking, found) = allocations(|| store.contains(&text).unwrap());
        assert_eq!(found, n < ENTRIES);
        let (missing, found) =
            if n < ENTRIES { (0, None) } else { allocations(|| store.get(&text).unwrap()) };
        assert_eq!(found, None);
        looking + missing
    };
    // The first one reads the packs.
    ask(0);
    assert_eq!((0..2 * ENTRIES).step_by(13).map(ask).sum::<usize>(), 0);
}

#[test]
fn a_decoder_allocates_for_the_longest_entry_only() {
    let pack = Pack::parse(pack()).unwrap();
    let mut decoder = Decoder::new();
    let longest = pack.entries().max_by_key(|entry| entry.plain_len).unwrap();
    decoder.payload(&longest).unwrap();
    for entry in pack.entries() {
        let (decoding, len) = allocations(|| decoder.payload(&entry).unwrap().len());
        assert_eq!((decoding, len), (0, entry.plain_len));
    }
}
