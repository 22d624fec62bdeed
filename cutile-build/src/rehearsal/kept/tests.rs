use super::*;
use cutile_embed::rehearsal::Declared;

/// As the recording assembler writes it.
fn job(bytecode: &[u8]) -> Vec<u8> {
    let mut job = b"cutile-rehearsal-job 1\n2\n10 --gpu-name\n5 sm_90\n".to_vec();
    job.extend_from_slice(format!("{}\n", bytecode.len()).as_bytes());
    job.extend_from_slice(bytecode);
    job
}

fn found() -> Found {
    let declared = Declared { module: "app::kernels".into(), function: "scale".into() };
    Found {
        named: vec![
            Named::Path("shapes.txt".into(), None),
            Named::Variable("MODEL".into(), Some("large".into())),
        ],
        lines: vec![Line::Declared(declared), Line::End],
    }
}

fn inputs(source_hashes: &BTreeMap<String, String>) -> Inputs<'_> {
    let optimized = Codegen::Optimized { level: 3, lineinfo: false };
    Inputs {
        script: [1; 32],
        target: "sm_90",
        levels: (optimized, optimized),
        answers: ["release 13.5", "13.5"],
        virtual_gpu: "abc".as_ref(),
        replay: &[],
        source_hashes,
        variables: BTreeMap::from([("PROFILE".into(), "release".into())]),
    }
}

/// The key after a change to one of its inputs.
fn key_with(change: impl FnOnce(&mut Inputs<'_>)) -> [u8; 32] {
    let none = BTreeMap::new();
    let mut inputs = inputs(&none);
    change(&mut inputs);
    inputs.key().unwrap()
}

macro_rules! in_the_key {
    ($($row:ident: $change:expr;)*) => {
        $(
            #[test]
            fn $row() {
                assert_eq!(key_with(|_| {}), key_with(|_| {}));
                assert_ne!(key_with(|_| {}), key_with($change));
            }
        )*
    };
}

in_the_key! {
    key_has_the_script: |inputs| inputs.script = [2; 32];
    key_has_the_target: |inputs| inputs.target = "sm_100";
    key_has_the_level_of_the_script: |inputs| inputs.levels.0 = Codegen::Debug;
    key_has_the_level_of_the_program: |inputs| inputs.levels.1 = Codegen::Debug;
    key_has_the_version_of_tileiras: |inputs| inputs.answers[0] = "release 13.6";
    key_has_the_bytecode_versions: |inputs| inputs.answers[1] = "13.6";
    key_has_the_virtual_gpu: |inputs| inputs.virtual_gpu = "abd".as_ref();
    key_has_the_variables: |inputs| inputs.variables.clear();
}

#[test]
fn key_has_what_is_replayed() {
    let hashes = BTreeMap::from([("app::kernels".to_owned(), "00".to_owned())]);
    assert_ne!(inputs(&hashes).key().unwrap(), key_with(|_| {}));
}

#[test]
fn a_value_comes_back_whole() {
    let key = [7; 32];
    let jobs = [job(b"one"), job(b"")];
    let (lines, read) = decode(&key, &encode(&key, &found(), &jobs).unwrap()).unwrap();
    assert_eq!(lines, found());
    let digests: Vec<[u8; 32]> = jobs.iter().map(|job| Sha256::digest(job).into()).collect();
    assert_eq!(read.iter().map(|(digest, _)| *digest).collect::<Vec<_>>(), digests);
    assert_eq!(read[0].1.bytecode, b"one");
    assert_eq!(read[0].1.gpu_name(), Some("sm_90"));
}

#[test]
fn a_value_that_is_damaged_cut_or_another_keys_is_a_miss() {
    let key = [7; 32];
    let value = encode(&key, &found(), &[job(b"one")]).unwrap();
    assert!(decode(&[8; 32], &value).is_none());
    for len in 0..value.len() {
        assert!(decode(&key, &value[..len]).is_none(), "cut to {len}");
    }
    for at in 0..value.len() {
        let mut value = value.clone();
        value[at] ^= 1;
        assert!(decode(&key, &value).is_none(), "a bit of byte {at}");
    }
}

#[test]
fn a_value_with_a_right_checksum_over_nonsense_is_a_miss() {
    let key = [7; 32];
    for rest in [&b""[..], b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x02\0\0\0\0\0\0\0{}"] {
        let mut value = MAGIC.to_vec();
        value.extend_from_slice(&VERSION.to_le_bytes());
        value.extend_from_slice(&checksum(&key, rest));
        value.extend_from_slice(rest);
        assert!(decode(&key, &value).is_none(), "{rest:?}");
    }
    let value = encode(&key, &found(), &[b"no job".to_vec()]).unwrap();
    assert!(decode(&key, &value).is_none());
}

/// The digest of a path as it is kept.
fn digest_at(path: &str, folder: &Path) -> Option<String> {
    match Named::path(path, folder).unwrap() {
        Named::Path(_, digest) => digest,
        named => panic!("{named:?}"),
    }
}

#[test]
fn what_a_script_tells_cargo_is_found_in_what_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("shapes.txt"), "1 2 3").unwrap();
    // Cargo does not mind spaces around a line.
    let printed = "noise\n cargo:rerun-if-changed=shapes.txt \ncargo::rerun-if-changed=gone\n\
                   cargo::rerun-if-env-changed=CUTILE_TEST_OF_NO_VARIABLE\r\ncargo::warning=a=b\n";
    let named = named(printed, folder).unwrap();
    assert_eq!(
        named,
        [
            Named::Path("shapes.txt".into(), digest_at("shapes.txt", folder)),
            Named::Path("gone".into(), None),
            Named::Variable("CUTILE_TEST_OF_NO_VARIABLE".into(), None),
        ]
    );
    assert!(digest_at("shapes.txt", folder).is_some());
    assert!(named.iter().all(|named| *named == named.now(folder).unwrap()));
    fs::write(folder.join("shapes.txt"), "1 2 4").unwrap();
    assert_ne!(named[0], named[0].now(folder).unwrap());
    fs::write(folder.join("gone"), "").unwrap();
    assert_ne!(named[1], named[1].now(folder).unwrap());
}

#[test]
fn a_folder_is_another_when_anything_in_it_is() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let (root, other) = (folder.path().join("root"), folder.path().join("other"));
    let deep = root.join("a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(deep.join("one"), "1").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut is_new = |what: &str| {
        assert_eq!(digest_of_tree(&root).unwrap(), digest_of_tree(&root).unwrap());
        assert!(seen.insert(digest_of_tree(&root).unwrap()), "{what}");
    };
    is_new("as it was");
    fs::write(deep.join("one"), "2").unwrap();
    is_new("a file was edited");
    fs::rename(deep.join("one"), deep.join("two")).unwrap();
    is_new("and renamed");
    fs::write(deep.join("three"), "").unwrap();
    is_new("another was added");
    fs::rename(deep.join("three"), root.join("three")).unwrap();
    is_new("and moved");
    symlink("..", deep.join("up")).unwrap();
    is_new("a link to a folder above");
    symlink("nothing", deep.join("dead")).unwrap();
    is_new("a link to nothing");
    fs::remove_file(deep.join("dead")).unwrap();
    symlink("nothing else", deep.join("dead")).unwrap();
    is_new("to another nothing");
    symlink(&other, root.join("linked")).unwrap();
    is_new("a link to a folder elsewhere");
    fs::write(other.join("file"), "1").unwrap();
    is_new("a file was added there");
    fs::write(other.join("file"), "2").unwrap();
    is_new("and edited");
    // Nobody writes to it: opened, it would be waited for.
    let made = std::process::Command::new("mkfifo").arg(deep.join("pipe")).status().unwrap();
    assert!(made.success());
    is_new("a pipe");
}

#[test]
fn what_cannot_be_read_is_neither_kept_nor_taken() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Longer than a path may be, for root too.
    let path = "long/".repeat(1000);
    let printed = format!("cargo::rerun-if-changed={path}\n");
    assert!(named(&printed, folder).is_err());
    assert!(Named::Path(path.clone(), None).now(folder).is_err());
    assert!(Named::Path(path, None).changed_since(SystemTime::now(), folder));
}

#[test]
fn what_changed_while_a_rehearsal_ran_is_told_by_its_time() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir_all(folder.join("data/deep")).unwrap();
    fs::create_dir_all(folder.join("v1")).unwrap();
    for file in ["data/deep/shapes", "kept", "v1/file"] {
        fs::write(folder.join(file), "1").unwrap();
    }
    symlink("kept", folder.join("link")).unwrap();
    symlink("../v1", folder.join("data/version")).unwrap();
    let changed = |path: &str, time| Named::Path(path.to_owned(), None).changed_since(time, folder);
    let paths = ["data", "data/deep/shapes", "kept", "link", "data/gone"];
    let later = SystemTime::now() + Duration::from_secs(60);
    for path in paths {
        assert!(!changed(path, later), "{path}");
        assert!(changed(path, UNIX_EPOCH), "{path}");
    }
    // As if written a minute after that: deep in a folder, behind a link to it or to another folder.
    let write = |path: &str| {
        let file = fs::File::options().write(true).open(folder.join(path)).unwrap();
        file.set_modified(later + Duration::from_secs(60)).unwrap();
    };
    write("kept");
    for (path, is_changed) in [("kept", true), ("link", true), ("data", false)] {
        assert_eq!(changed(path, later), is_changed, "{path}");
    }
    write("v1/file");
    assert!(changed("data", later) && !changed("data/deep", later));
    write("data/deep/shapes");
    assert!(changed("data/deep", later));
    let variable = Named::Variable("data".to_owned(), None);
    assert!(!variable.changed_since(UNIX_EPOCH, folder));
}

#[test]
fn what_took_the_place_of_something_is_told_by_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for version in ["v1", "v2"] {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("shapes"), version).unwrap();
    }
    std::os::unix::fs::symlink("v1", folder.join("current")).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let started = SystemTime::now();
    let changed = |path: &str| Named::Path(path.to_owned(), None).changed_since(started, folder);
    assert!(!changed("current") && !changed("current/shapes") && !changed("v2"));
    std::os::unix::fs::symlink("v2", folder.join("next")).unwrap();
    fs::rename(folder.join("next"), folder.join("current")).unwrap();
    assert!(changed("current") && changed("current/shapes"));
}

#[test]
fn files_with_whole_seconds_are_given_more_time() {
    let whole = UNIX_EPOCH + Duration::from_secs(7);
    assert!(clock_of(whole) > Duration::from_secs(1));
    assert!(clock_of(whole + Duration::from_nanos(1)) < Duration::from_millis(100));
}
