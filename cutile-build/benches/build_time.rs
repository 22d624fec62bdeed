//! What a build pays besides tileiras and the rehearsals: writing packs, the build cache, looking
//! into cubins.
//!
//! `cargo bench -p cutile-build --no-default-features --features cli`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use cutile_build::assemble::cache::BuildCache;
use cutile_embed::pack::PackWriter;
use std::hint::black_box;

#[path = "../src/bin/cargo-cutile/embedded/fixture.rs"]
mod fixture;

const IMAGES: u64 = 100;
const LENGTH: usize = 64 << 10;

fn key(n: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// As compressible as a cubin: to about a quarter. It begins as one does.
fn cubin(n: u64) -> Vec<u8> {
    let mut state = n as u32;
    let mut bytes: Vec<u8> = (0..LENGTH)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if at % 8 == 0 { (state >> 24) as u8 } else { (at / 64 % 7) as u8 }
        })
        .collect();
    bytes[..4].copy_from_slice(b"\x7fELF");
    bytes
}

fn write_pack(c: &mut Criterion) {
    let cubins: Vec<Vec<u8>> = (0..IMAGES).map(cubin).collect();
    let mut group = c.benchmark_group("pack of 100 images of 64 kB");
    group.throughput(Throughput::Bytes(IMAGES * LENGTH as u64));
    group.sample_size(20);
    for level in [None, Some(1), Some(3), Some(9), Some(19)] {
        let name = level.map_or("raw".to_owned(), |level| format!("zstd {level}"));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                let mut pack = PackWriter::new("app", "1.0.0");
                if let Some(level) = level {
                    pack = pack.compress(level);
                }
                for (n, cubin) in cubins.iter().enumerate() {
                    pack.insert(key(n as u64), cubin.clone()).expect("keys differ");
                }
                black_box(pack.finish())
            });
        });
    }
    group.finish();
}

fn build_cache(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    // Not the folder itself: others can enter it, and a cache refuses that.
    let cache = BuildCache::open(&dir.path().join("cache"), [0; 32]).expect("a cache");
    // The cache looks at what it reads.
    let image = fixture::cubin(90, "kernel", &cubin(1));
    cache.put(&key(0), &image).expect("it is put");
    assert_eq!(cache.get(&key(0)).expect("it is read").as_ref(), Some(&image));
    let mut group = c.benchmark_group("build cache");
    group.throughput(Throughput::Bytes(LENGTH as u64));
    group.bench_function("get", |b| b.iter(|| cache.get(black_box(&key(0)))));
    group.bench_function("miss", |b| b.iter(|| cache.get(black_box(&key(1)))));
    group.bench_function("put", |b| b.iter(|| cache.put(black_box(&key(0)), &image)));
    group.finish();
}

criterion_group!(benches, write_pack, build_cache);
criterion_main!(benches);
