//! What no GPU is asked for: sizes, decoding, looking up.

use super::{Figure, paired, timed};
use crate::measure::median;
use cutile_embed::bundles;
use cutile_embed::pack::{Decoder, Pack, PackWriter};
use std::hint::black_box;

/// The figures, over the images of every target of this program.
pub(super) fn figures(rounds: usize) -> Vec<Figure> {
    let packs: Vec<Pack<'_>> = bundles()
        .iter()
        .filter_map(|bundle| Some((bundle, bundle.index().ok()?)))
        .flat_map(|(bundle, index)| {
            let targets = index.targets.iter();
            targets.filter_map(|target| bundle.images(target.target)?.ok()).collect::<Vec<_>>()
        })
        .collect();
    vec![size(&packs), decode(&packs, rounds), lookup(rounds)]
}

fn size(packs: &[Pack<'_>]) -> Figure {
    let sum = |of: fn(&cutile_embed::pack::PackEntry<'_>) -> usize| {
        packs.iter().flat_map(|pack| pack.entries()).map(|entry| of(&entry)).sum::<usize>() as f64
    };
    let (stored, plain) = (sum(|entry| entry.stored.len()), sum(|entry| entry.plain_len));
    Figure::of("size", "bytes", "<= 0.40", [stored, plain, stored / plain], |ratio| ratio <= 0.4)
        .note("images of all targets, as stored and as loaded")
}

/// Into a buffer that is kept; beside it with the digest of what is stored, as `install` does it.
fn decode(packs: &[Pack<'_>], rounds: usize) -> Figure {
    let entries: Vec<_> = packs.iter().flat_map(|pack| pack.entries()).collect();
    let bytes: usize = entries.iter().map(|entry| entry.plain_len).sum();
    let mut decoder = Decoder::new();
    let mut pairs = Vec::new();
    for _ in 0..=rounds {
        let (decoded, ()) = timed(|| {
            for entry in &entries {
                black_box(decoder.unchecked(entry).map(<[u8]>::len));
            }
        });
        let (checked, ()) = timed(|| {
            for entry in &entries {
                let _ = black_box(decoder.payload(entry).map(<[u8]>::len));
            }
        });
        // Bytes in a microsecond are MB in a second.
        pairs.push((bytes as f64 / decoded / 1e3, bytes as f64 / checked / 1e3));
    }
    pairs.remove(0);
    let [decoded, checked, _] = paired(&pairs, |decoded, checked| decoded / checked);
    Figure::of("decode", "GB/s", ">= 1", [decoded, f64::NAN, decoded], |speed| speed >= 1.0).note(
        format!(
            "zstd, bytes of payloads per second, {} entries of {:.1} kB, one thread; with the digest \
             of what is stored, as install does it, {checked:.3} GB/s",
            entries.len(),
            bytes as f64 / entries.len().max(1) as f64 / 1e3
        ),
    )
}

fn lookup(rounds: usize) -> Figure {
    const ENTRIES: u64 = 10_000;
    // Spread like digests.
    let key = |n: u64| {
        let mut key = [0; 32];
        let word = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        key[..8].copy_from_slice(&word.to_be_bytes());
        key
    };
    let mut writer = PackWriter::new("lookup", "0.0.0");
    for n in 0..ENTRIES {
        let _ = writer.insert(key(n), Vec::new());
    }
    let bytes = writer.finish();
    let Ok(pack) = Pack::parse(&bytes) else {
        return Figure::none("lookup-10000", "ns", "0 allocations, <= 16 comparisons", "no pack");
    };
    let keys: Vec<_> = (0..ENTRIES).map(|n| key(n.wrapping_mul(7919) % ENTRIES)).collect();
    let times = (0..rounds).map(|_| {
        let (us, found) =
            timed(|| keys.iter().filter(|key| pack.get(black_box(key)).is_some()).count());
        us * 1e3 / black_box(found) as f64
    });
    let mut figure = Figure::none(
        "lookup-10000",
        "ns",
        "0 allocations, <= 16 comparisons",
        "allocations and comparisons are counted in the tests of cutile-embed",
    );
    figure.ours = Some(median(times.collect()));
    figure
}
