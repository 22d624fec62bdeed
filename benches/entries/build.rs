//! Writes a bundle of `ENTRIES` images of 50 kB, 5,000 by default, that no compression makes smaller:
//! what rustc has to take in is their number times their size.

use cutile_embed::index::{CUTILE_VERSION, Index, IndexRow, IndexTarget, encode_rows};
use cutile_embed::manifest::{Codegen, Options, Specialization, Validator};
use cutile_embed::pack::PackWriter;
use std::path::Path;

const TARGET: &str = "sm_90";
const BYTES: usize = 50_000;

#[allow(clippy::disallowed_methods, reason = "this is the one place that reads them")]
fn main() {
    println!("cargo::rerun-if-env-changed=ENTRIES");
    let entries = std::env::var("ENTRIES").map_or(5000, |text| text.parse().expect("a number"));
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    write(&Path::new(&out).join("cutile"), entries).expect("a bundle");
}

fn write(folder: &Path, entries: usize) -> std::io::Result<()> {
    let mut pack = PackWriter::new("entries", "0.1.0").compress(-1);
    let mut rows = Vec::new();
    let mut noise = Noise(1);
    for at in 0..entries {
        let mut image = [0; 32];
        image[..8].copy_from_slice(&(at as u64).to_be_bytes());
        let payload = (0..BYTES / 8).flat_map(|_| noise.next().to_le_bytes()).collect();
        pack.insert(image, payload).map_err(std::io::Error::other)?;
        rows.push(row(at, image));
    }
    let encoded = encode_rows(&rows);
    let index = Index {
        package: "entries",
        package_version: "0.1.0",
        cutile: CUTILE_VERSION,
        codegen: Codegen::Optimized { level: 3, lineinfo: false },
        prebuilt: false,
        skipped: None,
        kernels: entries as u32,
        targets: vec![IndexTarget::new(TARGET, &rows, &encoded)],
    };
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("index.bin"), index.write())?;
    std::fs::write(folder.join(format!("images-{TARGET}.pack")), pack.finish())?;
    std::fs::write(folder.join("manifest.json"), "{}")
}

fn row(at: usize, image: [u8; 32]) -> IndexRow {
    IndexRow {
        specialization: Specialization {
            source_hash: "ab".repeat(32),
            generics: vec![at.to_string()],
            ..Specialization::new(
                "kernels",
                "kernel",
                Options::new(Codegen::Optimized { level: 3, lineinfo: false }),
            )
        },
        validator: Validator { params: vec![], launch_checks: vec![] },
        image,
    }
}

/// xorshift64
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
