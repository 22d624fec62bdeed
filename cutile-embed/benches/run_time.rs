//! What a program pays at run time, but for the driver: packs, entries, the index, keys, the store.
//!
//! `cargo bench -p cutile-embed --no-default-features --features zstd`

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use cutile_embed::entry::{EntryHeader, EntryParams, encode_entry};
use cutile_embed::index::{CUTILE_VERSION, Index, IndexRow, IndexTarget, encode_rows};
use cutile_embed::key::{BytecodeVersion, KeyInput, key_text, l2_key};
use cutile_embed::manifest::{
    Codegen, Divisibility, LaunchCheck, ModuleDigest, Options, Param, Predicate, Specialization,
    TensorSpec, Term, Validator,
};
use cutile_embed::pack::{Decoder, Pack, PackWriter};
use cutile_embed::store::{EmbeddedJitStore, JitStore as _};
use std::hint::black_box;

/// Spread like digests.
fn key(n: u64) -> [u8; 32] {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// As compressible as a cubin: to about a quarter.
fn cubin(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..len)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if at % 8 == 0 { (state >> 24) as u8 } else { (at / 64 % 7) as u8 }
        })
        .collect()
}

fn entry(len: usize) -> Vec<u8> {
    let params = EntryParams {
        bc_sha256: [1; 32],
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: "release 13.5, V13.5.37",
    };
    encode_entry(&params, &cubin(len)).expect("short names")
}

fn specialization(at: usize) -> Specialization {
    let divisibility = Divisibility { divisor: 16, max: 16 };
    let spec = |param: &str| TensorSpec {
        param: param.into(),
        shape_div: vec![divisibility; 2],
        stride_div: vec![divisibility; 2],
        stride_one: vec![false, true],
        base_ptr_div: divisibility,
        elements_disjoint: true,
    };
    Specialization {
        source_hash: "ab".repeat(32),
        modules: vec![ModuleDigest { path: "crate::matmul".into(), sha256: "cd".repeat(32) }],
        generics: vec!["f16".into(), "128".into(), at.to_string()],
        specs: ["x", "y", "z"].map(spec).to_vec(),
        ..Specialization::new(
            "matmul",
            "gemm",
            Options::new(Codegen::Optimized { level: 3, lineinfo: false }),
        )
    }
}

fn index(kernels: usize) -> Vec<u8> {
    let check = LaunchCheck {
        predicate: Predicate::Zero(Term { coefficients: vec![], constant: 0 }),
        cause: "the inner dimensions differ".into(),
    };
    let tensor = Param::Tensor { element_type: "f16".into(), shape: vec![-1, -1] };
    let validator = Validator { params: vec![tensor; 3], launch_checks: vec![check; 3] };
    let row = |at: usize| IndexRow {
        specialization: specialization(at),
        image: key(at as u64),
        validator: validator.clone(),
    };
    let rows: Vec<IndexRow> = (0..kernels).map(row).collect();
    let encoded = encode_rows(&rows);
    let targets = ["sm_80", "sm_90", "sm_100", "sm_120"];
    Index {
        package: "app",
        package_version: "1.0.0",
        cutile: CUTILE_VERSION,
        codegen: Codegen::Debug,
        prebuilt: false,
        skipped: None,
        kernels: kernels as u32,
        targets: targets.map(|target| IndexTarget::new(target, &rows, &encoded)).to_vec(),
    }
    .write()
}

fn lookup(c: &mut Criterion) {
    let mut writer = PackWriter::new("app", "1.0.0");
    for n in 0..10_000 {
        writer.insert(key(n), vec![1; 64]).expect("keys differ");
    }
    let bytes: &'static [u8] = writer.finish().leak();
    let pack = Pack::parse(bytes).expect("a pack");
    let mut group = c.benchmark_group("lookup among 10,000");
    let mut n = 0;
    let mut next = || {
        n = (n + 7919) % 10_000;
        n
    };
    group.bench_function("hit", |b| b.iter(|| pack.get(black_box(&key(next())))));
    group.bench_function("miss", |b| b.iter(|| pack.get(black_box(&key(20_000 + next())))));
    let store = EmbeddedJitStore::new([pack]);
    let keys: Vec<String> = (0..10_000).map(|n| key_text(&key(n))).collect();
    group.bench_function("store, contains", |b| {
        b.iter(|| store.contains(black_box(&keys[next() as usize])));
    });
    group.finish();
    c.bench_function("parse a pack of 10,000", |b| b.iter(|| Pack::parse(black_box(bytes))));
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("payload");
    for len in [8 << 10, 64 << 10, 1 << 20] {
        let payload = entry(len);
        group.throughput(Throughput::Bytes(payload.len() as u64));
        for (name, compress) in [("raw", false), ("zstd", true)] {
            let mut writer = PackWriter::new("app", "1.0.0");
            if compress {
                writer = writer.compress(3);
            }
            writer.insert(key(0), payload.clone()).expect("one");
            let bytes = writer.finish();
            let entry = Pack::parse(&bytes).expect("a pack").get(&key(0)).expect("it is there");
            let mut decoder = Decoder::new();
            group.bench_function(BenchmarkId::new(name, len), |b| {
                b.iter(|| decoder.payload(black_box(&entry)).map(<[u8]>::len));
            });
        }
    }
    group.finish();
    let payload = entry(64 << 10);
    let mut group = c.benchmark_group("entry of 64 kB");
    group.bench_function("parse", |b| b.iter(|| EntryHeader::parse(black_box(&payload))));
    group.bench_function("parse, verified before", |b| {
        b.iter(|| EntryHeader::parse_verified(black_box(&payload)));
    });
    group.finish();
}

fn read_index(c: &mut Criterion) {
    let bytes = index(1000);
    let mut group = c.benchmark_group("index of 1,000 for 4 targets");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("parse", |b| b.iter(|| Index::parse(black_box(&bytes))));
    let index = Index::parse(&bytes).expect("an index");
    let target = index.target("sm_90").expect("it is there");
    group.bench_function("rows of one", |b| b.iter(|| black_box(target).rows()));
    group.bench_function("rows of one, compared", |b| b.iter(|| black_box(target).rows_exact()));
    group.finish();
}

fn keys(c: &mut Criterion) {
    let bytecode = cubin(16 << 10);
    let input = KeyInput {
        bytecode: &bytecode,
        version: BytecodeVersion { major: 13, minor: 5, tag: 0 },
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: "release 13.5, V13.5.37",
        tilelib_digest: None,
    };
    c.bench_function("key of 16 kB of bytecode", |b| b.iter(|| l2_key(black_box(&input))));
}

criterion_group!(benches, lookup, decode, read_index, keys);
criterion_main!(benches);
