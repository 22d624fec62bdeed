//! What holds for any bytes that the decoders of `cutile-embed` are given: the bodies of the fuzz
//! targets. `tests/properties` includes this file, and runs them on bytes that proptest makes.
//!
//! A body panics where a decoder panics, allocates more than its bound, or takes what the encoder
//! of the same version would not have written. It looks at the bytes as they are, and again with
//! every digest made good: who can change a file can also hash it.

mod counting;

pub use counting::{Counting, bounded};
use cutile_embed::entry::{EntryHeader, EntryParams, decode_entry, encode_entry};
use cutile_embed::index::{
    CUTILE_VERSION, INDEX_SCHEMA, Index, IndexRow, IndexTarget, encode_rows,
};
use cutile_embed::manifest::{
    ArtifactRow, Atom, Codegen, Divisibility, EntryPointRow, ImageRow, LaunchCheck, LeftOut,
    MANIFEST_SCHEMA, Manifest, ManifestRow, ModuleDigest, Options, OverrideRow, Package, Param,
    Predicate, ScalarHint, ShaderRow, Specialization, Strides, TensorSpec, Term, ToolkitIdentity,
    Validator,
};
use cutile_embed::pack::{
    Decoder, MAX_PLAIN_LEN, PACK_VERSION, Pack, PackWriter, find_packs as packs_in, magic,
};
use cutile_embed::recording::{Recorded, Recording};
use cutile_embed::shader::{
    Artifact, Config, Kind, Request, capabilities, decode_entry as decode_shader, decode_ir,
    encode_entry as encode_shader, encode_ir, load_or_lower_with, overrides, parse,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

const MIB: usize = 1 << 20;

/// An entry of upstream's cache.
pub fn cubin_entry(data: &[u8]) {
    check_cubin_entry(data);
    let mut forged = data.to_vec();
    if let Some(header) = forged.get(..96) {
        let names = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let cubin = data.get(96 + names(80) + names(82)..).unwrap_or_default();
        forged[..16].copy_from_slice(b"CUTILECUBIN\0\x01\0\0\0");
        forged[16..48].copy_from_slice(&Sha256::digest(cubin));
        forged[88..96].copy_from_slice(&(cubin.len() as u64).to_le_bytes());
        check_cubin_entry(&forged);
    }
}

fn check_cubin_entry(data: &[u8]) {
    let Ok(header) = bounded(0, || EntryHeader::parse(data)) else { return };
    let params = EntryParams {
        bc_sha256: header.bc_sha256(),
        gpu_name: header.gpu_name(),
        opt_level: header.opt_level(),
        flags: header.flags(),
        tileiras_fp: header.tileiras_fp(),
    };
    // What upstream does not read is not read here either.
    let mut read = data.to_vec();
    for reserved in [14, 15, 86, 87] {
        read[reserved] = 0;
    }
    assert_eq!(encode_entry(&params, header.cubin()), Some(read));
    assert_eq!(bounded(0, || decode_entry(data, &params)), Some(header.cubin()));
    let other = EntryParams { opt_level: !params.opt_level, ..params };
    assert_eq!(decode_entry(data, &other), None);
}

/// An entry of the shader cache: the first byte says how many of the next are the request.
pub fn shader_entry(data: &[u8]) {
    let Some((length, rest)) = data.split_first() else { return };
    let Some((preimage, entry)) = rest.split_at_checked((*length).into()) else { return };
    check_shader_entry(preimage, entry);
    let mut forged = entry.to_vec();
    if forged.len() >= 64 {
        forged[..20].copy_from_slice(b"CUTILE-SHADER\0\0\0\x01\0\0\0");
        let mut digest = Sha256::new();
        digest.update(&forged[..32]);
        digest.update(&forged[64..]);
        forged[32..64].copy_from_slice(&digest.finalize());
        check_shader_entry(preimage, &forged);
        // The request that it is for.
        let metadata = forged[20..24].try_into().map(u32::from_le_bytes).unwrap_or_default();
        if let Some(metadata) = forged[64..].get(..metadata as usize) {
            check_shader_entry(metadata, &forged);
        }
    }
}

fn check_shader_entry(preimage: &[u8], entry: &[u8]) {
    let Ok(payload) = bounded(0, || decode_shader(entry, preimage)) else { return };
    assert_eq!(encode_shader(preimage, payload).as_deref(), Some(entry));
    // What the payload decodes to is promised of naga's own bytes only: `decode_ir` says so.
}

/// A pack.
pub fn pack(data: &[u8]) {
    check_pack(data);
    check_pack(&forged_pack(data));
}

/// The same bytes with the digests of index and payloads made good.
fn forged_pack(data: &[u8]) -> Vec<u8> {
    let mut forged = data.to_vec();
    let Some(header) = data.get(..80) else { return forged };
    let number = |at: usize, length: usize| {
        header[at..at + length].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let index = 80 + (number(32, 2) + number(34, 2)) as usize;
    let rows = (number(20, 4) as usize).min(data.len() / 88);
    let end = index + rows * 88;
    if end > data.len() {
        return forged;
    }
    forged[..16].copy_from_slice(&magic());
    forged[16..20].copy_from_slice(&PACK_VERSION.to_le_bytes());
    for row in (0..rows).map(|row| index + row * 88) {
        let word = |at: usize| {
            data[row + at..][..8].iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let start = usize::try_from(word(32)).unwrap_or(usize::MAX);
        let stop = start.saturating_add(usize::try_from(word(40)).unwrap_or(usize::MAX));
        if let Some(payload) = data.get(start..stop) {
            forged[row + 56..row + 88].copy_from_slice(&Sha256::digest(payload));
        }
    }
    let mut digest = Sha256::new();
    digest.update(&forged[..48]);
    digest.update(&forged[80..end]);
    forged[48..80].copy_from_slice(&digest.finalize());
    forged
}

fn check_pack(data: &[u8]) {
    let Ok(pack) = bounded(0, || Pack::parse(data)) else { return };
    assert!(pack.total_len() <= data.len());
    let mut writer = PackWriter::new(pack.package(), pack.version());
    let mut entries = 0;
    let mut whole = true;
    let mut decoder = Decoder::new();
    for entry in pack.entries() {
        entries += 1;
        assert_eq!(bounded(0, || pack.get(&entry.key)), Some(entry));
        let is_raw = entry.codec == 0;
        assert!(
            entry.plain_len <= if is_raw { data.len() } else { MAX_PLAIN_LEN } || entry.codec > 1
        );
        let payload = bounded(if is_raw { 0 } else { entry.plain_len }, || entry.payload());
        // The buffer of the entry before is freed when a longer one is needed.
        let again = bounded(entry.plain_len, || decoder.payload(&entry));
        assert_eq!(payload.as_deref(), again.as_deref());
        // Which frame a payload becomes is up to zstd.
        whole &= is_raw;
        match payload {
            Ok(payload) => {
                assert_eq!(payload.len(), entry.plain_len);
                writer.insert(entry.key, payload.into_owned()).expect("keys differ");
            }
            Err(_) => whole = false,
        }
    }
    assert_eq!((entries, entries == 0), (pack.len(), pack.is_empty()));
    if whole {
        let index = 80 + pack.package().len() + pack.version().len() + 88 * pack.len();
        let written = writer.finish();
        assert_eq!(written.len(), pack.total_len());
        // The rest is payloads, which came from it, and what lies between them.
        assert_eq!(written[..index], data[..index]);
    }
}

/// The scanner that finds packs in a binary.
pub fn find_packs(data: &[u8]) {
    let mut end = 0;
    for (at, pack) in packs_in(data) {
        // None is passed over.
        let between = &data[end..at];
        assert!(!between.windows(16).any(|bytes| bytes == magic()), "a magic before {at}");
        assert!(data[at..].starts_with(&magic()));
        assert_eq!(pack, bounded(0, || Pack::parse(&data[at..])));
        end = at + pack.map_or(1, |pack| pack.total_len());
    }
    assert!(!data[end..].windows(16).any(|bytes| bytes == magic()), "a magic behind {end}");
}

/// `index.bin`.
pub fn index(data: &[u8]) {
    check_index(data);
    if let Some((header, body)) = data.split_at_checked(80) {
        let mut forged = header.to_vec();
        forged[..16].copy_from_slice(b"CUTILE-INDEX\0\0\0\0");
        forged[16..20].copy_from_slice(&INDEX_SCHEMA.to_le_bytes());
        forged[24..32].copy_from_slice(&(body.len() as u64).to_le_bytes());
        forged[32..64].copy_from_slice(&Sha256::digest(body));
        forged.extend_from_slice(body);
        check_index(&forged);
    }
}

fn check_index(data: &[u8]) {
    let bound = 3 * MIB + 64 * data.len();
    let Ok(index) = bounded(bound, || Index::parse(data)) else { return };
    for target in &index.targets {
        let rows = bounded(6 * MIB + 128 * data.len(), || target.rows());
        // What `install` takes it can also use.
        rows.iter().flatten().for_each(|row| drop(row.specialization.name()));
    }
    let Ok(index) = Index::parse_exact(data) else { return };
    assert_eq!(index.write(), data);
    for target in &index.targets {
        let Ok(rows) = target.rows_exact() else { continue };
        let encoded = encode_rows(&rows);
        assert_eq!(*target, IndexTarget::new(target.target, &rows, &encoded));
    }
}

/// `manifest.json`. JSON says the same in many ways, so that it is the value that has to be kept.
pub fn manifest(data: &[u8]) {
    let bound = MIB + 256 * data.len();
    let read = |data: &[u8]| bounded(bound, || serde_json::from_slice::<Manifest>(data));
    let Ok(manifest) = read(data) else { return };
    let written = serde_json::to_vec_pretty(&manifest).expect("plain data serializes");
    let again: Manifest = serde_json::from_slice(&written).expect("what is written is read");
    assert_eq!(again, manifest);
    assert_eq!(serde_json::to_vec_pretty(&again).expect("plain data serializes"), written);
    for row in &manifest.kernels {
        let _ = row.specialization.name();
    }
}

/// `kernels.json`.
pub fn recording(data: &[u8]) {
    let path = Path::new("kernels.json");
    let bound = MIB + 256 * data.len();
    match bounded(bound, || Recording::parse(path, data)) {
        Ok(recording) => {
            let written = recording.to_json();
            let again = Recording::parse(path, &written).expect("what is written is read");
            assert_eq!(again, recording);
            assert_eq!(again.to_json(), written);
        }
        Err(error) => assert!(error.to_string().starts_with("kernels.json"), "{error}"),
    }
}

const FEATURES: [&str; 4] = ["SHADER_F16", "SUBGROUP", "SHADER_INT64", "SHADER_F64"];

/// A shader: one byte for the form, one for features, eight for a constant, and the text.
pub fn wgsl(data: &[u8]) {
    let Some(([kind, features, value @ ..], text)) = data.split_first_chunk::<10>() else { return };
    let kind = [Kind::Ir, Kind::SpirV, Kind::Wgsl][usize::from(kind % 3)];
    let features: Vec<&str> = FEATURES
        .into_iter()
        .enumerate()
        .filter(|(at, _)| features >> at & 1 == 1)
        .map(|f| f.1)
        .collect();
    let value = f64::from_le_bytes(*value);
    let text = String::from_utf8_lossy(text);
    let config = Config::default().embedded(false).disk(None);
    let bound = 64 * MIB + 4096 * text.len();
    let request = Request::new("fuzzed.wgsl", &text).kind(kind).features(features.clone());
    let lower = |request: &Request<'_>| {
        let lowered = bounded(bound, || load_or_lower_with(request, &config));
        match lowered {
            Ok(lowered) => Some(bytes_of(&lowered.artifact)),
            Err(error) => {
                assert!(error.to_string().starts_with("fuzzed.wgsl"), "{error}");
                None
            }
        }
    };
    let lowered = lower(&request);
    assert_eq!(lower(&request), lowered, "it is lowered to something else the second time");
    let capabilities = capabilities(&features).expect("features of wgpu");
    let Ok(checked) = parse("fuzzed.wgsl", &text, capabilities) else { return };
    let known = overrides(&checked.module);
    let keys: Vec<String> = known.iter().map(|known| known.key()).collect();
    if !keys.is_empty() {
        // One and the same value is good for some types only.
        for constants in [value, value.trunc(), 1.0] {
            lower(&request.clone().constants(keys.iter().map(|key| (key.as_str(), constants))));
        }
    }
}

fn bytes_of(artifact: &Artifact) -> Vec<u8> {
    match artifact {
        Artifact::Ir(module) => {
            let bytes = encode_ir(module);
            let again = decode_ir(&bytes).expect("what is written is read");
            assert_eq!(encode_ir(&again), bytes);
            bytes
        }
        Artifact::SpirV(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        Artifact::Wgsl(text) => text.clone().into_bytes(),
        other => panic!("{other:?}"),
    }
}

/// The WGSL files below a folder, by name.
pub fn read_shaders(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(read_shaders(&path));
        } else if path.extension().is_some_and(|extension| extension == "wgsl") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, std::fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

const SHADER: &str = "override scale: f32 = 2.0; @id(3) override size: u32 = 8u;
struct Block { first: vec3<f32>, rest: array<f32> }
@group(0) @binding(0) var<storage, read_write> block: Block;
var<workgroup> shared_: array<f32, size>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    for (var i = 0u; i < 4u; i++) { block.rest[id.x + i] *= scale / f32(i); }
    if (id.x > 7u && block.first.x < 0.5) { workgroupBarrier(); shared_[id.x] = 1.0; }
}";

/// Values that the encoders write, of every kind: target, name, bytes.
pub fn seeds(shaders: &[(String, String)]) -> Vec<(&'static str, String, Vec<u8>)> {
    let mut seeds = Vec::new();
    let mut seed =
        |target, name: &str, bytes: Vec<u8>| seeds.push((target, name.to_owned(), bytes));

    let params = EntryParams {
        bc_sha256: [7; 32],
        gpu_name: "sm_90",
        opt_level: 3,
        flags: 0,
        tileiras_fp: "V13.5.37",
    };
    let entry = encode_entry(&params, b"\x7fELF and so on").expect("short names");
    seed("cubin_entry", "entry", entry.clone());
    let empty = EntryParams { gpu_name: "", tileiras_fp: "", ..params };
    seed("cubin_entry", "empty", encode_entry(&empty, b"").expect("short names"));

    let module = parse(
        "a",
        "@compute @workgroup_size(1) fn main() {}",
        capabilities::<&str>(&[]).expect("none"),
    );
    let ir = encode_ir(&module.expect("a shader").module);
    for (name, payload) in [("text", &b"fn f() {}"[..]), ("empty", b""), ("ir", &ir)] {
        let shader = encode_shader(b"preimage", payload).expect("short");
        seed("shader_entry", name, [&[8], &b"preimage"[..], &shader].concat());
    }

    let pack_of = |entries: &[(u8, &[u8])]| {
        let mut writer = PackWriter::new("app", "1.0.0");
        for (key, payload) in entries {
            writer.insert([*key; 32], payload.to_vec()).expect("keys differ");
        }
        writer.finish()
    };
    let packs = [
        ("none", pack_of(&[])),
        ("one", pack_of(&[(1, &entry)])),
        ("three", pack_of(&[(1, b"one"), (2, b""), (9, b"seventeen bytes!!")])),
        ("compressed", {
            let text = b"of which there is much, and more, and so on; ".repeat(40);
            let mut writer = PackWriter::new("app", "1.0.0").compress(3);
            writer.insert([1; 32], text).expect("keys differ");
            writer.insert([2; 32], entry.clone()).expect("keys differ");
            writer.finish()
        }),
    ];
    for (name, bytes) in &packs {
        seed("pack", name, bytes.clone());
    }
    let mut binary = b"\x7fELF\x02\x01\x01 and some code".to_vec();
    binary.extend_from_slice(&magic());
    binary.extend_from_slice(b" in a text ");
    for (_, bytes) in &packs {
        binary.extend_from_slice(bytes);
        binary.extend_from_slice(&[0xc7, 0, 0xc7]);
    }
    seed("find_packs", "binary", binary);
    seed("find_packs", "none", b"\x7fELF".to_vec());

    let specialization = specialization();
    let row = |image| IndexRow {
        specialization: specialization.clone(),
        image: [image; 32],
        validator: validator(),
    };
    let rows = [row(1), row(1), row(2)];
    let encoded = encode_rows(&rows);
    let index = Index {
        package: "app",
        package_version: "1.0.0",
        cutile: CUTILE_VERSION,
        codegen: Codegen::Debug,
        prebuilt: false,
        skipped: None,
        kernels: 3,
        targets: ["sm_80", "sm_90"].map(|name| IndexTarget::new(name, &rows, &encoded)).to_vec(),
    };
    seed("index", "index", index.write());
    let skipped = Index { skipped: Some("no toolkit"), kernels: 0, targets: vec![], ..index };
    seed("index", "skipped", skipped.write());

    let manifest = manifest_of(&specialization);
    seed("manifest", "manifest", serde_json::to_vec(&manifest).expect("plain data serializes"));
    let empty =
        Manifest { toolkit: None, kernels: vec![], shaders: vec![], left_out: vec![], ..manifest };
    seed("manifest", "empty", serde_json::to_vec_pretty(&empty).expect("plain data serializes"));

    let mut recording = Recording::default();
    seed("recording", "empty", recording.to_json());
    recording.kernels.insert(Recorded::new(specialization, Codegen::Debug));
    seed("recording", "recording", recording.to_json());

    let mut shader = |name: &str, kind: u8, text: &str| {
        let head = [&[kind, 0b1111], &2f64.to_le_bytes()[..]].concat();
        seed("wgsl", name, [&head, text.as_bytes()].concat());
    };
    for (kind, name) in ["ir", "spirv", "wgsl"].into_iter().enumerate() {
        shader(name, kind as u8, SHADER);
    }
    for (at, (name, text)) in shaders.iter().enumerate() {
        shader(&format!("file-{name}"), (at % 3) as u8, text);
    }
    seeds
}

fn specialization() -> Specialization {
    let divisibility = Divisibility { divisor: 4, max: 16 };
    Specialization {
        module: "kernels".into(),
        function: "add".into(),
        symbol: "add_entry".into(),
        source_hash: "ab".into(),
        modules: vec![ModuleDigest { path: "crate::kernels".into(), sha256: "cd".into() }],
        generics: vec!["f32".into(), "128".into()],
        strides: vec![Strides { param: "x".into(), strides: vec![-1, 1] }],
        specs: vec![TensorSpec {
            param: "x".into(),
            shape_div: vec![divisibility],
            stride_div: vec![divisibility],
            stride_one: vec![true],
            base_ptr_div: divisibility,
            elements_disjoint: true,
        }],
        scalar_hints: vec![ScalarHint { param: "n".into(), divisibility }],
        grid: Some((1, 2, 3)),
        options: Options {
            occupancy: Some(2),
            num_cta_in_cga: None,
            max_divisibility: Some(16),
            num_worker_warps_per_cta: None,
            min_ctas_per_sm: None,
            codegen: Codegen::Optimized { level: 3, lineinfo: true },
            sanitize_memcheck: false,
        },
    }
}

fn validator() -> Validator {
    let atoms = [
        Atom::Dim { param: 0, axis: 1 },
        Atom::Iv(0),
        Atom::TileBlockId(1),
        Atom::NumTileBlocks(2),
        Atom::ViewExtent { param: 0, axis: 0 },
        Atom::TileCount { param: 0, axis: 0, tile: 128 },
    ];
    let term = |constant| Term { coefficients: atoms.map(|atom| (atom, -2)).to_vec(), constant };
    let checks = [
        Predicate::Zero(term(0)),
        Predicate::Nonzero(term(1)),
        Predicate::Positive(term(i64::MIN)),
        Predicate::DivisibleBy { term: term(i64::MAX), divisor: 16 },
    ];
    Validator {
        params: vec![
            Param::Scalar { element_type: "i32".into() },
            Param::Pointer { mutable: true, element_type: "f32".into() },
            Param::Tensor { element_type: "f16".into(), shape: vec![-1, 128] },
        ],
        launch_checks: checks
            .map(|predicate| LaunchCheck { predicate, cause: "it is too short".into() })
            .to_vec(),
    }
}

fn manifest_of(specialization: &Specialization) -> Manifest {
    let image =
        ImageRow { key: "ab".into(), bytes: 3, sha256: "cd".into(), validator: validator() };
    Manifest {
        schema: MANIFEST_SCHEMA,
        package: Package { name: "app".into(), version: "1.0.0".into() },
        cutile: CUTILE_VERSION.into(),
        toolkit: Some(ToolkitIdentity {
            tileiras: "V13.5.37".into(),
            ptxas: "V13.5.37".into(),
            nvvm: "ef".into(),
            bytecode: "13.5".into(),
        }),
        targets: vec!["sm_90".into()],
        codegen: Codegen::Debug,
        skipped: None,
        left_out: vec![LeftOut {
            kernel: "kernels::mul<f32>".into(),
            target: "sm_90".into(),
            reason: "it links a tile library".into(),
        }],
        kernels: vec![ManifestRow {
            specialization: specialization.clone(),
            images: BTreeMap::from([("sm_90".into(), image)]),
        }],
        shaders: vec![ShaderRow {
            path: "shaders/a.wgsl".into(),
            sha256: "ab".into(),
            naga: "30.0.2".into(),
            features: vec!["SHADER_F16".into()],
            capabilities: vec![],
            entry_points: vec![EntryPointRow {
                name: "main".into(),
                stage: "compute".into(),
                workgroup_size: Some([64, 1, 1]),
            }],
            overrides: vec![OverrideRow {
                name: "scale".into(),
                id: None,
                ty: "f32".into(),
                has_default: true,
                default: Some(0.1),
            }],
            bindings: vec![],
            artifacts: vec![ArtifactRow {
                kind: "spirv".into(),
                entry_points: vec![],
                constants: BTreeMap::from([("scale".into(), 1e-7)]),
                key: "ab".into(),
                bytes: 3,
                sha256: "cd".into(),
            }],
        }],
    }
}
