//! What the child does: every way through the stores, on the public API.

use cutile_embed::entry::{EntryParams, encode_entry};
use cutile_embed::key::key_bytes;
use cutile_embed::pack::{Pack, PackWriter};
use cutile_embed::shader::{Artifact, Config, Kind, Request, encode_ir, load_or_lower_with};
use cutile_embed::store::{
    self, EmbeddedJitStore, FileSystemJitStore, JitStore, Tier, TieredJitStore,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Kernels that are loaded: the first is embedded, the others are asked for twice.
pub(crate) const LOADED: [&str; 3] = ["e0", "a1", "a2"];
/// Values that are put and read without a kernel.
pub(crate) const DIRECT: [&str; 2] = ["b1", "b2"];
/// The value that makes a small store evict.
pub(crate) const EVICTING: &str = "c1";
/// Values in the store that is cleared.
pub(crate) const CLEARED: [&str; 2] = ["d1", "d2"];

/// Bytes of each image: a store of 3,000 holds no four entries of them.
const IMAGE_LEN: usize = 880;

pub(crate) const WGSL: &str = "
override scale: f32 = 2.0;
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] = data[id.x] * scale;
}";

pub(crate) fn params() -> EntryParams<'static> {
    EntryParams {
        bc_sha256: [7; 32],
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: "V13.5.37",
    }
}

pub(crate) fn key(shard: &str) -> String {
    format!("{shard}{}", "0".repeat(62))
}

/// The image of a kernel; of another kernel it is another.
pub(crate) fn image(shard: &str) -> Vec<u8> {
    shard.bytes().cycle().take(IMAGE_LEN).collect()
}

/// The one value that the key of `shard` may ever have.
pub(crate) fn value(shard: &str) -> Vec<u8> {
    encode_entry(&params(), &image(shard)).unwrap()
}

pub(crate) fn kernels(home: &Path) -> PathBuf {
    home.join(".cache").join("cutile").join("kernels")
}

pub(crate) fn shaders(home: &Path) -> PathBuf {
    home.join(".cache").join("cutile").join("shaders")
}

pub(crate) fn cleared(home: &Path) -> PathBuf {
    home.join("cleared")
}

pub(crate) const KINDS: [Kind; 2] = [Kind::Ir, Kind::SpirV];

/// The answer to the request of a kind, and whether the disk gave it.
pub(crate) fn shader(kind: Kind, disk: Option<PathBuf>) -> (Vec<u8>, bool) {
    let config = Config::default().embedded(false).disk(disk);
    let request = Request::new("scale.wgsl", WGSL).kind(kind);
    let lowered = load_or_lower_with(&request, &config).unwrap();
    let hit = lowered.cache_hit();
    let bytes = match lowered.artifact {
        Artifact::Ir(module) => encode_ir(&module),
        Artifact::SpirV(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        other => panic!("{other:?}"),
    };
    (bytes, hit)
}

/// What the child counted. Written as a line of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    /// Kernels that were loaded.
    pub(crate) loads: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) puts: u64,
    pub(crate) io_errors: u64,
    /// Of the disk tier.
    pub(crate) tier_errors: u64,
    /// Stores that did not open.
    pub(crate) refused: u64,
    /// Errors that calls of a store returned.
    pub(crate) returned: u64,
    pub(crate) shader_hits: u64,
    pub(crate) shader_misses: u64,
    pub(crate) shader_errors: u64,
}

impl Counted {
    fn list(&self) -> [u64; 11] {
        let Self {
            loads,
            hits,
            misses,
            puts,
            io_errors,
            tier_errors,
            refused,
            returned,
            shader_hits,
            shader_misses,
            shader_errors,
        } = *self;
        [
            loads,
            hits,
            misses,
            puts,
            io_errors,
            tier_errors,
            refused,
            returned,
            shader_hits,
            shader_misses,
            shader_errors,
        ]
    }

    pub(crate) fn write(&self, path: &Path) {
        fs::write(path, self.list().map(|number| number.to_string()).join(" ")).unwrap();
    }

    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let [
            loads,
            hits,
            misses,
            puts,
            io_errors,
            tier_errors,
            refused,
            returned,
            shader_hits,
            shader_misses,
            shader_errors,
        ] = numbers[..].try_into().unwrap();
        Self {
            loads,
            hits,
            misses,
            puts,
            io_errors,
            tier_errors,
            refused,
            returned,
            shader_hits,
            shader_misses,
            shader_errors,
        }
    }

    /// Failures that somebody can see.
    pub(crate) fn seen(&self) -> u64 {
        self.io_errors + self.tier_errors + self.refused + self.returned + self.shader_errors
    }
}

/// Runs everything below `home`. Panics where a launch would have failed, or got other bytes.
///
/// The small store is one of a root that the caller chose, and may reach through a link.
pub(crate) fn run(home: &Path, with_small_store: bool) -> Counted {
    let mut counted = Counted::default();
    let mut returned = 0;
    let mut refused = 0;

    let mut writer = PackWriter::new("app", "1.0.0");
    writer.insert(key_bytes(&key("e0")).unwrap(), value("e0")).unwrap();
    let pack = Pack::parse(writer.finish().leak()).unwrap();
    let embedded = EmbeddedJitStore::new([pack]);
    let mut tiers = vec![Tier::read_only("embedded", Arc::new(embedded))];
    let disk = FileSystemJitStore::private(&kernels(home));
    // It does not make the root private: what it makes would be refused from then on.
    let with_small_store = with_small_store && disk.is_ok();
    match disk {
        Ok(disk) => tiers.push(Tier::writable("disk", Arc::new(disk))),
        Err(_) => refused += 1,
    }
    let tiered = Arc::new(TieredJitStore::new(tiers));
    store::enable(tiered.clone());
    for shard in ["e0", "a1", "a2", "a1", "a2"] {
        let mut compiled = false;
        let loaded = store::load_or_compile(
            &key(shard),
            &params(),
            || {
                compiled = true;
                Ok::<_, io::Error>(image(shard))
            },
            |image| Ok(image.to_vec()),
        );
        assert_eq!(loaded.unwrap(), image(shard), "{shard}");
        assert!(!(shard == "e0" && compiled), "it is embedded");
    }

    let mut note = |result: io::Result<()>| returned += u64::from(result.is_err());
    for shard in DIRECT {
        note(tiered.put(&key(shard), &value(shard)));
        let got = tiered.get(&key(shard));
        if let Ok(Some(got)) = &got {
            assert_eq!(*got, value(shard), "{shard}");
        }
        note(got.map(|_| ()));
    }
    note(tiered.delete(&key("b2")));

    let small = FileSystemJitStore::builder(kernels(home)).capacity_bytes(3000);
    match with_small_store.then(|| small.open()) {
        None => {}
        Some(Ok(small)) => {
            note(small.put(&key(EVICTING), &value(EVICTING)));
            note(small.contains(&key(EVICTING)).map(|_| ()));
        }
        Some(Err(_)) => refused += 1,
    }
    match FileSystemJitStore::new(cleared(home)) {
        Ok(other) => {
            for shard in CLEARED {
                note(other.put(&key(shard), &value(shard)));
            }
            note(other.clear());
        }
        Err(_) => refused += 1,
    }

    for kind in KINDS {
        let (lowered, _) = shader(kind, None);
        for _ in 0..2 {
            assert_eq!(shader(kind, Some(shaders(home))).0, lowered);
        }
    }

    let stats = store::stats();
    counted.loads = store::compile_count();
    (counted.hits, counted.misses) = (stats.hits, stats.misses);
    (counted.puts, counted.io_errors) = (stats.puts, stats.io_errors);
    counted.tier_errors = tiered.tier_stats().iter().map(|tier| tier.errors).sum();
    (counted.refused, counted.returned) = (refused, returned);
    assert_eq!(stats.hits + stats.misses, 5, "each load asks once");
    assert_eq!(store::backend_compile_count(), stats.misses);
    assert!(stats.puts <= stats.misses && stats.misses - stats.puts <= stats.io_errors);
    assert_eq!(stats.bytes_written, stats.puts * value("a1").len() as u64);

    let stats = cutile_embed::shader::stats();
    // Two of them without a disk.
    assert_eq!(stats.disk + stats.lowered, 6);
    (counted.shader_hits, counted.shader_misses) = (stats.disk, stats.lowered);
    counted.shader_errors = stats.disk_errors;
    counted
}
