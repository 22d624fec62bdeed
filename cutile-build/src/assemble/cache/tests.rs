use super::*;

/// A file header and one empty section header.
fn elf() -> Vec<u8> {
    let mut elf = vec![0; 128];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16] = 2;
    elf[18] = 190;
    elf[20] = 1;
    elf[40] = 64;
    elf[52] = 64;
    elf[54] = 56;
    elf[58] = 64;
    elf[60] = 1;
    elf
}

fn open(dir: &Path) -> BuildCache {
    BuildCache::open(&dir.join("cache"), [7; 32]).unwrap()
}

fn job() -> Job {
    Job {
        digest: [1; 32],
        gpu: "sm_90".into(),
        label: "k".into(),
        args: vec!["--opt-level".into(), "3".into()],
        bytecode: b"code".to_vec(),
    }
}

#[test]
fn every_input_moves_the_key_and_the_label_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    let key = cache.key(&job());
    let other = BuildCache::open(&dir.path().join("cache"), [8; 32]).unwrap();
    assert_ne!(other.key(&job()), key, "toolkit");
    for (what, job) in [
        ("digest", Job { digest: [2; 32], ..job() }),
        ("gpu", Job { gpu: "sm_80".into(), ..job() }),
        ("args", Job { args: vec!["--opt-level".into(), "2".into()], ..job() }),
        ("args joined", Job { args: vec!["--opt-level3".into()], ..job() }),
        ("no args", Job { args: vec![], ..job() }),
        ("bytecode", Job { bytecode: b"Code".to_vec(), ..job() }),
    ] {
        assert_ne!(cache.key(&job), key, "{what}");
    }
    assert_eq!(cache.key(&Job { label: "other".into(), ..job() }), key);
}

#[test]
fn a_value_is_for_its_key_only() {
    let value = encode(&[1; 32], &elf());
    assert_eq!(decode(&[1; 32], &value), Some(&elf()[..]));
    assert_eq!(decode(&[2; 32], &value), None);
}

#[test]
fn a_value_that_differs_anywhere_is_a_miss() {
    let value = encode(&[1; 32], &elf());
    for at in 0..value.len() {
        let mut damaged = value.clone();
        damaged[at] ^= 0x40;
        assert_eq!(decode(&[1; 32], &damaged), None, "byte {at}");
        assert_eq!(decode(&[1; 32], &value[..at]), None, "cut at {at}");
    }
    assert_eq!(decode(&[1; 32], &[&value[..], &[0]].concat()), None);
    assert_eq!(decode(&[1; 32], &encode(&[1; 32], b"no ELF")), None);
}

#[test]
fn one_at_a_time_has_the_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (open(dir.path()), open(dir.path()));
    let turn = ours.turn(&[1; 32], &mut Patience::default());
    assert!(matches!(turn, Turn::Ours(_)));
    let mut patience = Patience::default();
    assert!(matches!(theirs.turn(&[1; 32], &mut patience), Turn::Theirs));
    assert!(matches!(theirs.turn(&[2; 32], &mut Patience::default()), Turn::Ours(_)));
    drop(turn);
    assert!(matches!(theirs.turn(&[1; 32], &mut patience), Turn::Ours(_)));
    assert_eq!(fs::read_dir(dir.path().join("cache/locks")).unwrap().count(), 0);
}

#[test]
fn patience_ends_without_a_sign_of_life() {
    let now = Some(SystemTime::UNIX_EPOCH);
    let old = Instant::now().checked_sub(STALE + Duration::from_secs(1)).unwrap();
    let mut patience = Patience { seen: Some((now, old)) };
    assert!(patience.is_over(now));
    assert!(!patience.is_over(Some(SystemTime::now())), "a beat was seen");
}
