//! Bundles for tests: what a build would embed, with images that are cubins in everything but code.
#![allow(dead_code, reason = "the tests that take this file in use different parts of it")]
#![allow(missing_docs, unreachable_pub, reason = "it is for tests, in several crates")]

use cutile_embed::entry::{EntryParams, encode_entry};
use cutile_embed::index::{Index, IndexRow, IndexTarget, encode_rows};
use cutile_embed::key::key_text;
use cutile_embed::manifest::{
    ArtifactRow, Codegen, Divisibility, EntryPointRow, ImageRow, LeftOut, MANIFEST_SCHEMA,
    Manifest, ManifestRow, ModuleDigest, Options, Package, ScalarHint, ShaderRow, Specialization,
    Strides, TensorSpec, ToolkitIdentity, Validator,
};
use cutile_embed::pack::PackWriter;
use cutile_embed::shader_entry;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

pub const FINGERPRINT: &str = "tileiras: NVIDIA (R) Cuda Tile IR optimizing assembler\nCuda \
                               compilation tools, release 13.5, V13.5.37";

/// The files of a bundle.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub packs: Vec<(String, Vec<u8>)>,
    pub shaders: Option<Vec<u8>>,
    pub index: Vec<u8>,
    pub manifest: Vec<u8>,
}

/// An image before it is put into a pack, for a test to make it wrong.
#[derive(Debug, Clone)]
pub struct Image {
    pub kernel: String,
    pub target: String,
    pub key: [u8; 32],
    pub symbol: String,
    /// What the cubin says that it is for.
    pub sm: u32,
    pub gpu_name: String,
    pub opt_level: u8,
    pub flags: u8,
    pub fingerprint: String,
    /// Bytes of the cubin that stand for code.
    pub code: Vec<u8>,
    pub in_pack: bool,
    pub in_index: bool,
    pub in_manifest: bool,
}

/// What a bundle is made of, for a test to change.
#[derive(Debug, Clone)]
pub struct Plan {
    pub package: Package,
    pub targets: Vec<String>,
    pub kernels: Vec<Specialization>,
    pub left_out: Vec<LeftOut>,
    pub shaders: bool,
}

impl Plan {
    pub fn new(package: &str, targets: &[&str]) -> Self {
        let f32_add = specialization("vector", "add", &["f32", "128"], &[("x", &[16])]);
        let odd_add = specialization("vector", "add", &["f32", "128"], &[("x", &[1])]);
        let mut gemm = specialization(
            "gemm",
            "matmul",
            &["f16", "64", "64"],
            &[("a", &[16, 8]), ("b", &[8, 16])],
        );
        gemm.scalar_hints = vec![ScalarHint { param: "n".into(), divisibility: div(4) }];
        let mut kernels = vec![f32_add, odd_add, gemm];
        kernels.sort();
        Self {
            package: Package { name: package.into(), version: "1.2.3".into() },
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
            kernels,
            left_out: vec![],
            shaders: true,
        }
    }

    pub fn build(&self) -> Bundle {
        self.build_with(|_| {})
    }

    pub fn build_with(&self, change: impl Fn(&mut Image)) -> Bundle {
        let Package { name, version } = &self.package;
        let mut packs = Vec::new();
        let mut sections = Vec::new();
        let mut rows: BTreeMap<&Specialization, BTreeMap<String, ImageRow>> = BTreeMap::new();
        for target in &self.targets {
            // As a build does; shaders are stored raw.
            let mut pack = PackWriter::new(name, version).compress(3);
            let mut index = Vec::new();
            for kernel in &self.kernels {
                let mut image = Image::of(name, kernel, target);
                change(&mut image);
                let (key, entry, cubin) = image.entry();
                if image.in_pack {
                    pack.insert(key, entry).unwrap();
                }
                let validator = Validator { params: vec![], launch_checks: vec![] };
                if image.in_index {
                    index.push(IndexRow {
                        specialization: kernel.clone(),
                        image: key,
                        validator: validator.clone(),
                    });
                }
                if image.in_manifest {
                    rows.entry(kernel).or_default().insert(
                        target.clone(),
                        ImageRow {
                            key: key_text(&key),
                            bytes: cubin.len() as u64,
                            sha256: key_text(&Sha256::digest(&cubin).into()),
                            validator,
                        },
                    );
                }
            }
            packs.push((target.clone(), pack.finish()));
            sections.push((target.as_str(), encode_rows(&index), index));
        }
        let index = Index {
            package: name,
            package_version: version,
            cutile: "0.5.0",
            codegen: CODEGEN,
            prebuilt: false,
            skipped: None,
            kernels: u32::try_from(self.kernels.len()).unwrap(),
            targets: sections
                .iter()
                .map(|(target, encoded, rows)| IndexTarget::new(target, rows, encoded))
                .collect(),
        };
        let (shaders, shader_rows) = match self.shaders {
            true => shaders(name, version),
            false => (None, vec![]),
        };
        let manifest = Manifest {
            schema: MANIFEST_SCHEMA,
            package: self.package.clone(),
            cutile: "0.5.0".into(),
            toolkit: Some(ToolkitIdentity {
                tileiras: FINGERPRINT.into(),
                ptxas: "ptxas: NVIDIA (R) Ptx optimizing assembler\nrelease 13.5, V13.5.37".into(),
                nvvm: "ab".repeat(32),
                bytecode: "13.5".into(),
            }),
            targets: self.targets.clone(),
            codegen: CODEGEN,
            skipped: None,
            left_out: self.left_out.clone(),
            kernels: rows
                .into_iter()
                .map(|(specialization, images)| ManifestRow {
                    specialization: specialization.clone(),
                    images,
                })
                .collect(),
            shaders: shader_rows,
        };
        let mut manifest = serde_json::to_vec_pretty(&manifest).unwrap();
        manifest.push(b'\n');
        Bundle { packs, shaders, index: index.write(), manifest }
    }
}

const CODEGEN: Codegen = Codegen::Optimized { level: 3, lineinfo: false };

impl Image {
    fn of(package: &str, kernel: &Specialization, target: &str) -> Self {
        let identity = format!("{package} {kernel:?} {target}");
        Self {
            kernel: kernel.name(),
            target: target.into(),
            key: Sha256::digest(&identity).into(),
            symbol: kernel.symbol.clone(),
            sm: target.trim_start_matches("sm_").parse().unwrap(),
            gpu_name: target.into(),
            opt_level: 3,
            flags: 0,
            fingerprint: FINGERPRINT.into(),
            code: identity.into_bytes(),
            in_pack: true,
            in_index: true,
            in_manifest: true,
        }
    }

    fn entry(&self) -> ([u8; 32], Vec<u8>, Vec<u8>) {
        let cubin = cubin(self.sm, &self.symbol, &self.code);
        let params = EntryParams {
            bc_sha256: [3; 32],
            gpu_name: &self.gpu_name,
            opt_level: self.opt_level,
            flags: self.flags,
            tileiras_fp: &self.fingerprint,
        };
        (self.key, encode_entry(&params, &cubin).unwrap(), cubin)
    }
}

/// A bundle of three kernels and a shader.
pub fn bundle(package: &str, targets: &[&str]) -> Bundle {
    Plan::new(package, targets).build()
}

/// A file with the parts of a bundle, in the order of a real binary, `gap` bytes that are no part
/// before each.
pub fn file(bundle: &Bundle, gap: usize) -> Vec<u8> {
    let mut out = b"\x7fELF or whatever".to_vec();
    let mut noise = Noise(gap as u64 + 1);
    let packs = bundle.packs.iter().map(|(_, pack)| pack).chain(&bundle.shaders);
    for part in packs.chain([&bundle.index, &bundle.manifest]) {
        out.extend((0..gap).map(|_| noise.byte()));
        out.extend_from_slice(part);
    }
    out.extend((0..gap).map(|_| noise.byte()));
    out
}

/// Bytes that look random and are the same in every run.
#[derive(Debug)]
pub struct Noise(pub u64);

impl Noise {
    pub fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as u8
    }
}

fn div(divisor: i32) -> Divisibility {
    Divisibility { divisor, max: 16 }
}

pub fn specialization(
    module: &str,
    function: &str,
    generics: &[&str],
    tensors: &[(&str, &[i32])],
) -> Specialization {
    let spec = |(param, lengths): &(&str, &[i32])| TensorSpec {
        param: (*param).into(),
        shape_div: lengths.iter().map(|length| div(*length)).collect(),
        stride_div: lengths.iter().map(|_| div(16)).collect(),
        stride_one: (1..=lengths.len()).map(|axis| axis == lengths.len()).collect(),
        base_ptr_div: div(16),
        elements_disjoint: true,
    };
    let strides = |(param, lengths): &(&str, &[i32])| Strides {
        param: (*param).into(),
        strides: (1..=lengths.len())
            .map(|axis| if axis == lengths.len() { 1 } else { -1 })
            .collect(),
    };
    Specialization {
        source_hash: "ab".repeat(32),
        modules: vec![ModuleDigest { path: format!("crate::{module}"), sha256: "cd".repeat(32) }],
        generics: generics.iter().map(|generic| (*generic).to_owned()).collect(),
        strides: tensors.iter().map(strides).collect(),
        specs: tensors.iter().map(spec).collect(),
        ..Specialization::new(module, function, Options::new(CODEGEN))
    }
}

/// A 64-bit ELF file for CUDA's machine with one function.
pub fn cubin(sm: u32, symbol: &str, code: &[u8]) -> Vec<u8> {
    let mut strings = vec![0];
    strings.extend_from_slice(symbol.as_bytes());
    strings.push(0);
    let mut symbols = vec![0; 24];
    symbols.extend_from_slice(&1u32.to_le_bytes());
    // Global, a function; of section 1.
    symbols.extend_from_slice(&[0x12, 0, 1, 0]);
    symbols.extend_from_slice(&[0; 16]);
    let code_at = 64;
    let strings_at = code_at + code.len();
    let symbols_at = strings_at + strings.len();
    let sections_at = symbols_at + symbols.len();
    let mut out = b"\x7fELF\x02\x01\x01\x41\x08\0\0\0\0\0\0\0".to_vec();
    out.extend_from_slice(&2u16.to_le_bytes());
    out.extend_from_slice(&190u16.to_le_bytes());
    out.extend_from_slice(&1u32.to_le_bytes());
    for address in [0, 0, sections_at as u64] {
        out.extend_from_slice(&address.to_le_bytes());
    }
    out.extend_from_slice(&(0x0600_0004 | sm << 8).to_le_bytes());
    for half in [64u16, 56, 0, 64, 4, 2] {
        out.extend_from_slice(&half.to_le_bytes());
    }
    for part in [code, &strings, &symbols] {
        out.extend_from_slice(part);
    }
    // kind, offset, size, link, info, entry size
    for (kind, at, size, link, info, entry) in [
        (0u32, 0, 0, 0u32, 0u32, 0u64),
        (1, code_at, code.len(), 0, 0, 0),
        (3, strings_at, strings.len(), 0, 0, 0),
        (2, symbols_at, symbols.len(), 2, 1, 24),
    ] {
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&[0; 16]);
        out.extend_from_slice(&(at as u64).to_le_bytes());
        out.extend_from_slice(&(size as u64).to_le_bytes());
        out.extend_from_slice(&link.to_le_bytes());
        out.extend_from_slice(&info.to_le_bytes());
        out.extend_from_slice(&1u64.to_le_bytes());
        out.extend_from_slice(&entry.to_le_bytes());
    }
    out
}

/// What a shader's key is the digest of, as `cutile_embed::shader::preimage` writes it.
pub fn shader_preimage(kind: &str, naga: &str, text_sha256: [u8; 32], points: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    let bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    bytes(&mut out, b"cutile-embed shader");
    out.extend_from_slice(&1u32.to_le_bytes());
    bytes(&mut out, kind.as_bytes());
    bytes(&mut out, naga.as_bytes());
    bytes(&mut out, &[5; 32]);
    bytes(&mut out, &text_sha256);
    out.extend_from_slice(&(points.len() as u64).to_le_bytes());
    for point in points {
        bytes(&mut out, point.as_bytes());
    }
    out.extend_from_slice(&[0; 24]);
    out
}

fn shaders(package: &str, version: &str) -> (Option<Vec<u8>>, Vec<ShaderRow>) {
    let text = format!("// of {package}\n@compute @workgroup_size(64) fn main() {{}}\n");
    let text_sha256: [u8; 32] = Sha256::digest(&text).into();
    let mut pack = PackWriter::new(package, version);
    let mut artifacts = Vec::new();
    for (kind, naga, payload) in [
        ("ir", "30.0.2", b"postcard of a module".as_slice()),
        ("wgsl", "30.0.2", text.as_bytes()),
        ("text", "", text.as_bytes()),
    ] {
        let preimage = shader_preimage(kind, naga, text_sha256, &[]);
        let key: [u8; 32] = Sha256::digest(&preimage).into();
        pack.insert(key, shader_entry::encode_entry(&preimage, payload).unwrap()).unwrap();
        // The text has no row of its own.
        if kind != "text" {
            artifacts.push(ArtifactRow {
                kind: kind.into(),
                entry_points: vec![],
                constants: BTreeMap::new(),
                key: key_text(&key),
                bytes: payload.len() as u64,
                sha256: key_text(&Sha256::digest(payload).into()),
            });
        }
    }
    let row = ShaderRow {
        path: "shaders/nothing.wgsl".into(),
        sha256: key_text(&text_sha256),
        naga: "30.0.2".into(),
        features: vec![],
        capabilities: vec![],
        entry_points: vec![EntryPointRow {
            name: "main".into(),
            stage: "compute".into(),
            workgroup_size: Some([64, 1, 1]),
        }],
        overrides: vec![],
        bindings: vec![],
        artifacts,
    };
    (Some(pack.finish()), vec![row])
}
