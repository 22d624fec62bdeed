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

#[test]
fn what_a_script_tells_cargo_is_found_in_what_it_prints() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shapes.txt"), "1 2 3").unwrap();
    let printed = "noise\ncargo:rerun-if-changed=shapes.txt\ncargo::rerun-if-changed=gone\n\
                   cargo::rerun-if-env-changed=CUTILE_TEST_OF_NO_VARIABLE\ncargo::warning=a=b\n";
    let named = named(printed, folder.path());
    let digest = key_text(&Sha256::digest(b"1 2 3").into());
    assert_eq!(
        named,
        [
            Named::Path("shapes.txt".into(), Some(digest)),
            Named::Path("gone".into(), None),
            Named::Variable("CUTILE_TEST_OF_NO_VARIABLE".into(), None),
        ]
    );
    assert!(named.iter().all(|named| *named == named.now(folder.path())));
    fs::write(folder.path().join("shapes.txt"), "1 2 4").unwrap();
    assert_ne!(named[0], named[0].now(folder.path()));
    fs::write(folder.path().join("gone"), "").unwrap();
    assert_ne!(named[1], named[1].now(folder.path()));
}

#[test]
fn a_folder_is_another_when_anything_in_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("one"), "1").unwrap();
    let before = digest_of_tree(folder.path()).unwrap();
    assert_eq!(before, digest_of_tree(folder.path()).unwrap());
    fs::write(deep.join("one"), "2").unwrap();
    let edited = digest_of_tree(folder.path()).unwrap();
    fs::rename(deep.join("one"), deep.join("two")).unwrap();
    let renamed = digest_of_tree(folder.path()).unwrap();
    fs::write(deep.join("three"), "").unwrap();
    let added = digest_of_tree(folder.path()).unwrap();
    std::os::unix::fs::symlink("..", deep.join("up")).unwrap();
    let linked = digest_of_tree(folder.path()).unwrap();
    let all = std::collections::BTreeSet::from([before, edited, renamed, added, linked]);
    assert_eq!(all.len(), 5);
}
