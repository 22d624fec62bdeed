//! Our key, entry and disk cache against cutile's own, over random inputs: what differs by a byte
//! would make the two caches miss each other's entries, or worse, not miss them.
//!
//! Needs a toolkit like everything with the feature `cuda`: upstream's bytecode version has no
//! public constructor that this crate can name, so one is asked for and then changed.

// Behind the text above, which then stays without `cuda`, too.
#![cfg(feature = "cuda")]

use cutile::cutile_compiler::cuda_tile_runtime_utils::{
    Stage2Source, TileirasOptions, compile_bytecode_cached, selected_bytecode_version,
    tileiras_fingerprint,
};
use cutile::cutile_compiler::hints::CodegenMode;
use cutile::cutile_compiler::jit_cache::{self as upstream, JitStore as _};
use cutile::cutile_compiler::tile_library::{self, TileLibrary, TileLibrarySpec};
use cutile_embed::entry::{EntryParams, decode_entry, encode_entry, entry_fingerprint};
use cutile_embed::key::{
    BytecodeVersion, KeyInput, L2_KEY_SCHEMA, key_text, l2_key, tile_libraries_digest,
};
use cutile_embed::store::{self, FileSystemJitStore, JitStore as _};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Everything that the two keys and entries are made of.
#[derive(Debug, Clone)]
struct Request {
    bytecode: Vec<u8>,
    version: BytecodeVersion,
    gpu_name: String,
    options: TileirasOptions,
    fingerprint: String,
}

fn libraries() -> impl Strategy<Value = Vec<TileLibrary>> {
    let library = ("[ -~]{0,12}", any::<[u8; 32]>()).prop_map(|(path, digest)| TileLibrary {
        path: path.into(),
        digest,
        stamps: Default::default(),
    });
    prop::collection::vec(library, 0..3)
}

fn codegen() -> impl Strategy<Value = CodegenMode> {
    prop_oneof![
        Just(CodegenMode::Debug),
        (any::<u8>(), any::<bool>())
            .prop_map(|(level, lineinfo)| CodegenMode::Optimized { level, lineinfo }),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    (
        prop::collection::vec(any::<u8>(), 0..64),
        any::<(u8, u8, u16)>(),
        "\\PC{0,10}",
        (codegen(), any::<bool>(), libraries()),
        "\\PC{0,20}",
    )
        .prop_map(|(bytecode, (major, minor, tag), gpu_name, options, fingerprint)| {
            let (codegen, sanitize_memcheck, tilelibs) = options;
            Request {
                bytecode,
                version: BytecodeVersion { major, minor, tag },
                gpu_name,
                options: TileirasOptions { codegen, sanitize_memcheck, tilelibs },
                fingerprint,
            }
        })
}

impl Request {
    fn libraries(&self) -> Option<String> {
        let rows = self.options.tilelibs.iter();
        tile_libraries_digest(rows.map(|library| (library.path.as_path(), library.digest)))
    }

    fn flags(&self) -> u8 {
        let codegen = match self.options.codegen {
            CodegenMode::Debug => 1,
            CodegenMode::Optimized { lineinfo, .. } => u8::from(lineinfo) << 1,
        };
        codegen | (u8::from(self.options.sanitize_memcheck) << 2)
    }

    fn opt_level(&self) -> u8 {
        match self.options.codegen {
            CodegenMode::Debug => 0,
            CodegenMode::Optimized { level, .. } => level,
        }
    }

    /// Our key.
    fn key(&self) -> String {
        l2_key(&KeyInput {
            bytecode: &self.bytecode,
            version: self.version,
            gpu_name: &self.gpu_name,
            opt_level: self.opt_level(),
            flags: self.flags(),
            tileiras_fp: &self.fingerprint,
            tilelib_digest: self.libraries().as_deref(),
        })
    }
}

/// The same parameters for both sides.
fn pair<'a>(
    bc_sha256: [u8; 32],
    gpu_name: &'a str,
    opt_level: u8,
    flags: u8,
    tileiras_fp: &'a str,
) -> (EntryParams<'a>, upstream::EntryParams<'a>) {
    (
        EntryParams { bc_sha256, gpu_name, opt_level, flags, tileiras_fp },
        upstream::EntryParams { bc_sha256, gpu_name, opt_level, flags, tileiras_fp },
    )
}

#[test]
fn the_constants_are_equal() {
    assert_eq!(L2_KEY_SCHEMA, upstream::L2_KEY_SCHEMA);
    assert_eq!(store::DEFAULT_CAPACITY_BYTES, upstream::DEFAULT_CAPACITY_BYTES);
    assert_eq!(store::EVICTION_LOCK_FILE_NAME, upstream::EVICTION_LOCK_FILE_NAME);
}

proptest! {
    #[test]
    fn keys_are_equal(request in request()) {
        let mut version = selected_bytecode_version().expect("CUDA_TOOLKIT_PATH with tileiras");
        let BytecodeVersion { major, minor, tag } = request.version;
        (version.major, version.minor, version.tag) = (major, minor, tag);
        let theirs = upstream::l2_key(
            &request.bytecode, version, &request.gpu_name, &request.options, &request.fingerprint,
        );
        prop_assert_eq!(request.key(), theirs);
    }

    #[test]
    fn digests_of_tile_libraries_are_equal(libraries in libraries()) {
        let rows = libraries.iter().map(|library| (library.path.as_path(), library.digest));
        prop_assert_eq!(
            tile_libraries_digest(rows),
            tile_library::tile_libraries_digest(&libraries),
        );
    }

    #[test]
    fn entries_are_equal(
        request in request(),
        bc_sha256: [u8; 32],
        cubin in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let digest = request.libraries();
        let fingerprint = entry_fingerprint(&request.fingerprint, digest.as_deref());
        let (ours, theirs) = pair(
            bc_sha256,
            &request.gpu_name,
            request.opt_level(),
            request.flags(),
            &fingerprint,
        );
        prop_assert_eq!(request.opt_level(), request.options.codegen.opt_level());
        prop_assert_eq!(request.flags(), request.options.flags_byte());
        let entry = encode_entry(&ours, &cubin).unwrap();
        prop_assert_eq!(Some(entry.clone()), upstream::encode_entry(&theirs, &cubin));
        prop_assert_eq!(decode_entry(&entry, &ours), Some(&*cubin));
        prop_assert_eq!(upstream::decode_entry(&entry, &theirs), Some(cubin));
    }

    #[test]
    fn damaged_entries_are_refused_by_both_or_by_neither(
        edits in prop::collection::vec((0usize..130, any::<u8>()), 0..3),
        cut in 0usize..130,
        opt_level in 0u8..2,
        flags in 0u8..2,
    ) {
        let (ours, _) = pair([7; 32], "sm_90", 0, 0, "V13.5.37");
        let mut entry = encode_entry(&ours, b"the image").unwrap();
        for (at, byte) in edits {
            if let Some(place) = entry.get_mut(at) {
                *place = byte;
            }
        }
        if cut % 3 == 0 {
            entry.truncate(cut);
        }
        let (ours, theirs) = pair([7; 32], "sm_90", opt_level, flags, "V13.5.37");
        prop_assert_eq!(
            decode_entry(&entry, &ours).map(<[u8]>::to_vec),
            upstream::decode_entry(&entry, &theirs)
        );
    }
}

#[test]
fn names_longer_than_a_u16_are_encoded_by_neither() {
    for len in [65_535, 65_536] {
        let name = "x".repeat(len);
        for (gpu_name, fingerprint) in [(name.as_str(), "fp"), ("sm_90", name.as_str())] {
            let (ours, theirs) = pair([7; 32], gpu_name, 3, 0, fingerprint);
            let entry = encode_entry(&ours, b"image");
            assert_eq!(entry, upstream::encode_entry(&theirs, b"image"));
            assert_eq!(entry.is_some(), len == 65_535);
        }
    }
}

/// Libraries as upstream resolves them from files, one with a dependency and a setting.
fn resolved(dir: &Path) -> Vec<TileLibrary> {
    let file = |name: &str| {
        let path = dir.join(name);
        fs::write(&path, name).unwrap();
        path
    };
    let plain = TileLibrarySpec::new(file("b.tilelib"));
    let provider =
        TileLibrarySpec::new(file("a.tilelib")).dependency(file("a.so")).setting("version", "1");
    tile_library::resolve_tile_libraries([&plain, &provider]).unwrap()
}

#[test]
fn libraries_that_upstream_resolves_have_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let options = TileirasOptions::default().with_tilelibs(resolved(dir.path()));
    assert_eq!(options.tilelibs.len(), 2);
    let rows = options.tilelibs.iter();
    let ours = tile_libraries_digest(rows.map(|library| (library.path.as_path(), library.digest)));
    assert!(ours.is_some());
    assert_eq!(ours, options.tilelib_digest());
}

/// The one test that gives upstream a store: it is the process's.
#[test]
fn upstreams_compiler_is_served_what_we_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let ours = FileSystemJitStore::new(&root).unwrap();
    let theirs = Arc::new(upstream::FileSystemJitStore::new(&root).unwrap());
    upstream::enable(theirs);
    let version = selected_bytecode_version().expect("CUDA_TOOLKIT_PATH with tileiras");
    let (bytecode, gpu_name) = (b"nothing that tileiras would take".as_slice(), "sm_90");
    let linked = resolved(dir.path());
    for tilelibs in [Vec::new(), linked] {
        for codegen in [CodegenMode::Debug, CodegenMode::Optimized { level: 3, lineinfo: true }] {
            let options =
                TileirasOptions { codegen, sanitize_memcheck: true, tilelibs: tilelibs.clone() };
            let request = Request {
                bytecode: bytecode.to_vec(),
                version: BytecodeVersion {
                    major: version.major,
                    minor: version.minor,
                    tag: version.tag,
                },
                gpu_name: gpu_name.to_owned(),
                options: options.clone(),
                fingerprint: tileiras_fingerprint().to_owned(),
            };
            let cubin = format!("{codegen:?} {}", tilelibs.len());
            let digest = request.libraries();
            let fingerprint = entry_fingerprint(&request.fingerprint, digest.as_deref());
            let (params, _) = pair(
                Sha256::digest(bytecode).into(),
                gpu_name,
                request.opt_level(),
                request.flags(),
                &fingerprint,
            );
            let key = request.key();
            ours.put(&key, &encode_entry(&params, cubin.as_bytes()).unwrap()).unwrap();
            let (found, source) =
                compile_bytecode_cached(bytecode, version, gpu_name, &options).unwrap();
            assert_eq!(found, cubin.as_bytes());
            assert!(matches!(source, Stage2Source::DiskCache { key: found, .. } if found == key));
        }
    }
    upstream::disable();
}

// ---- On disk ----

fn stores(root: &Path) -> (FileSystemJitStore, upstream::FileSystemJitStore) {
    let ours = FileSystemJitStore::new(root).unwrap();
    (ours, upstream::FileSystemJitStore::new(root).unwrap())
}

fn key(byte: u8) -> String {
    key_text(&[byte; 32])
}

fn path(root: &Path, byte: u8) -> PathBuf {
    root.join(&key(byte)[..2]).join(format!("{}.cubin", key(byte)))
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(root)
        .unwrap()
        .flat_map(|shard| fs::read_dir(shard.unwrap().path()).into_iter().flatten())
        .map(|file| file.unwrap().path().strip_prefix(root).unwrap().to_owned())
        .collect();
    files.sort();
    files
}

#[test]
fn each_reads_what_the_other_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = stores(dir.path());
    ours.put(&key(1), b"ours").unwrap();
    theirs.put(&key(2), b"theirs").unwrap();
    assert_eq!(theirs.get(&key(1)).unwrap().as_deref(), Some(&b"ours"[..]));
    assert_eq!(ours.get(&key(2)).unwrap().as_deref(), Some(&b"theirs"[..]));
    assert!(theirs.contains(&key(1)).unwrap() && ours.contains(&key(2)).unwrap());
    theirs.put(&key(1), b"theirs now").unwrap();
    assert_eq!(ours.get(&key(1)).unwrap().as_deref(), Some(&b"theirs now"[..]));
    ours.delete(&key(2)).unwrap();
    assert!(!theirs.contains(&key(2)).unwrap());
    ours.clear().unwrap();
    assert!(!theirs.contains(&key(1)).unwrap());
}

#[test]
fn both_write_the_same_files() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ours = FileSystemJitStore::new(a.path()).unwrap();
    let theirs = upstream::FileSystemJitStore::new(b.path()).unwrap();
    for byte in [0x01, 0xab, 0xff] {
        ours.put(&key(byte), &[byte]).unwrap();
        theirs.put(&key(byte), &[byte]).unwrap();
    }
    assert_eq!(files(a.path()), files(b.path()));
    assert_eq!(files(a.path()).len(), 3);
}

#[test]
fn each_evicts_the_others_entries_in_one_order_under_one_lock() {
    for ours_evicts in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let (ours, theirs) = (
            FileSystemJitStore::builder(root).capacity_bytes(4000).open().unwrap(),
            upstream::FileSystemJitStore::builder(root).capacity_bytes(4000).open().unwrap(),
        );
        let put = |byte: u8, by_us: bool| match by_us {
            true => ours.put(&key(byte), &[0; 1000]).unwrap(),
            false => theirs.put(&key(byte), &[0; 1000]).unwrap(),
        };
        for byte in 1..=4 {
            put(byte, byte % 2 == 0);
            let then = SystemTime::now() - Duration::from_secs(1000 - u64::from(byte));
            let times = FileTimes::new().set_modified(then);
            File::open(path(root, byte)).unwrap().set_times(times).unwrap();
        }
        // A hit of either side makes an entry young.
        assert!(ours.get(&key(1)).unwrap().is_some());
        assert!(theirs.get(&key(2)).unwrap().is_some());
        let lock = File::create(root.join(store::EVICTION_LOCK_FILE_NAME)).unwrap();
        lock.lock().unwrap();
        put(5, ours_evicts);
        assert_eq!(files(root).len(), 5, "the lock is taken");
        drop(lock);
        put(5, ours_evicts);
        let kept: Vec<u8> = (1..=5).filter(|byte| path(root, *byte).exists()).collect();
        assert_eq!(kept, [1, 2, 5], "ours evicts: {ours_evicts}");
    }
}

#[test]
fn both_take_the_same_place_by_default() {
    const TEST: &str = "both_take_the_same_place_by_default";
    // The child is this test in a folder that has the mark.
    if Path::new("this folder is for the child of a test").exists() {
        let ours = FileSystemJitStore::default_location().unwrap();
        let theirs = upstream::FileSystemJitStore::default_location().unwrap();
        assert_eq!(ours.root(), theirs.root());
        return;
    }
    for variable in ["XDG_CACHE_HOME", "HOME"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("this folder is for the child of a test"), "").unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST])
            .current_dir(dir.path())
            .env_remove("XDG_CACHE_HOME")
            .env_remove("HOME")
            .env(variable, dir.path())
            .status()
            .unwrap();
        assert!(status.success(), "{variable}");
    }
}
