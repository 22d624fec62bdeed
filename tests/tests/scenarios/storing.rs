//! The disk cache at run time.

use crate::probe;
use cutile_tests::{Run, toolkit};
use std::fs;
use std::path::{Path, PathBuf};

/// On an architecture that is not embedded, with the toolkit, caching below `cache`.
fn compiling(cache: &Path) -> Run {
    probe()
        .program()
        .on("sm_120")
        .env("CUTILE_TILEIRAS_PATH", toolkit().tileiras.as_os_str())
        .env("XDG_CACHE_HOME", cache)
        .arguments(["install", "double"])
}

const COMPILED: &str = "jit=1 backend=1 stored=0 done";
const FROM_DISK: &str = "jit=1 backend=0 stored=1 done";

fn entry(cache: &Path) -> PathBuf {
    let root = cache.join("cutile/kernels");
    let shards = fs::read_dir(&root).unwrap().map(|shard| shard.unwrap().path());
    let mut entries: Vec<PathBuf> = shards
        .filter(|path| path.is_dir())
        .flat_map(|shard| fs::read_dir(shard).unwrap().map(|file| file.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cubin"))
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.pop().unwrap()
}

#[test]
fn s22_a_damaged_entry_is_compiled_again() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 6] = [
        ("a flipped byte", |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("cut short", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("empty", |path| fs::write(path, []).unwrap()),
        ("20 GiB", |path| {
            fs::File::options().write(true).open(path).unwrap().set_len(20 << 30).unwrap();
        }),
        ("a link", |path| {
            let other = path.with_extension("moved");
            fs::rename(path, &other).unwrap();
            std::os::unix::fs::symlink(&other, path).unwrap();
        }),
        ("a folder", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
    ];
    let cache = cutile_tests::scratch();
    assert_eq!(compiling(cache.path()).ok().line("1:double"), COMPILED);
    let good = entry(cache.path());
    let bytes = fs::read(&good).unwrap();
    assert_eq!(compiling(cache.path()).ok().line("1:double"), FROM_DISK);
    for (what, damage) in damages {
        damage(&good);
        let run = compiling(cache.path()).ok();
        assert_eq!(run.line("1:double"), COMPILED, "{what}");
        // As it was, for the next.
        if good.is_dir() {
            fs::remove_dir(&good).unwrap();
        } else if good.exists() {
            fs::remove_file(&good).unwrap();
        }
        fs::write(&good, &bytes).unwrap();
    }
}

#[test]
fn s25_eight_processes_on_an_empty_cache() {
    let cache = cutile_tests::scratch();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = compiling(cache.path()).into_command();
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success());
        assert!(stdout.contains("1:double jit=1") && stdout.contains("done"), "{stdout}");
        assert!(!stdout.contains("1:error"), "{stdout}");
    }
    let _ = entry(cache.path());
    assert_eq!(compiling(cache.path()).ok().line("1:double"), FROM_DISK);
}
