use super::super::text::{EmbeddedText, text_entry};
use super::*;
use crate::pack::PackWriter;
use std::fs;
use tempfile::TempDir;

const TEXT: &str = "
    override size: u32 = 8u;
    @group(0) @binding(0) var<storage, read_write> data: array<u32>;
    @compute @workgroup_size(size) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        data[id.x] = size;
    }
    @compute @workgroup_size(1) fn other() { data[0] = 1u; }";

fn request() -> Request<'static> {
    Request::new("a.wgsl", TEXT)
}

fn text_of(naga: &str) -> EmbeddedText {
    let built = BuiltAs { path: "a.wgsl".into(), entry_points: vec![], features: vec![] };
    EmbeddedText { naga: naga.into(), text: TEXT.into(), built: vec![built] }
}

fn packed(entries: impl IntoIterator<Item = ([u8; 32], Vec<u8>)>) -> Vec<u8> {
    let mut pack = PackWriter::new("p", "1.0.0");
    for (key, entry) in entries {
        pack.insert(key, entry).unwrap();
    }
    pack.finish()
}

/// Loads with the packs of these bytes, as a program that embeds them.
fn load(request: &Request<'_>, config: &Config, packs: &[&[u8]]) -> Lowered {
    let packs: Vec<_> = packs.iter().map(|bytes| Pack::parse(bytes)).collect();
    load_from(request, config, &packs).unwrap()
}

struct Disk {
    dir: TempDir,
}

impl Disk {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("cutile/shaders")
    }

    fn config(&self) -> Config {
        Config::default().disk(Some(self.root()))
    }

    fn entry(&self, request: &Request<'_>) -> PathBuf {
        let key = key_text(&crate::shader::cache_key(request).unwrap());
        self.root().join(&key[..2]).join(format!("{key}.cubin"))
    }
}

fn spirv(lowered: &Lowered) -> &[u32] {
    match &lowered.artifact {
        Artifact::SpirV(words) => words,
        other => panic!("not SPIR-V: {other:?}"),
    }
}

#[test]
fn it_is_embedded_then_on_disk_then_lowered() {
    let disk = Disk::new();
    let pack = packed([entry_of(&request()).unwrap()]);
    let first = load(&request(), &disk.config(), &[]);
    assert_eq!((first.source, first.cache_hit()), (Source::Lowered, false));
    let second = load(&request(), &disk.config(), &[]);
    assert_eq!((second.source, second.cache_hit()), (Source::Disk, true));
    let third = load(&request(), &disk.config(), &[&pack]);
    assert_eq!((third.source, third.cache_hit()), (Source::Embedded, true));
    assert!(first.key == second.key && second.key == third.key);
    let off = load(&request(), &disk.config().embedded(false), &[&pack]);
    assert_eq!(off.source, Source::Disk);
}

#[test]
fn a_hit_runs_no_front_end() {
    // This text is no WGSL: only an entry that is there already can answer.
    let broken = Request::new("a.wgsl", "not WGSL");
    let preimage = preimage(&broken).unwrap();
    let module = parse("a.wgsl", TEXT, broken.capabilities().unwrap()).unwrap().module;
    let entry = encode_entry(&preimage, &encode_ir(&module)).unwrap();
    let key: [u8; 32] = Sha256::digest(&preimage).into();
    let pack = packed([(key, entry.clone())]);
    assert_eq!(load(&broken, &Config::default().disk(None), &[&pack]).source, Source::Embedded);

    let disk = Disk::new();
    let store = FileSystemJitStore::private(&disk.root()).unwrap();
    store.put(&key_text(&key), &entry).unwrap();
    assert_eq!(load(&broken, &disk.config(), &[]).source, Source::Disk);
}

#[test]
fn every_form_is_the_same_from_every_tier() {
    for kind in [Kind::Ir, Kind::SpirV, Kind::Wgsl] {
        let disk = Disk::new();
        let request = request().kind(kind).constants([("size", 16.0)]);
        let pack = packed([entry_of(&request).unwrap()]);
        let lowered = load(&request, &disk.config(), &[]);
        let stored = load(&request, &disk.config(), &[]);
        let embedded = load(&request, &disk.config(), &[&pack]);
        assert_eq!(lowered.artifact.encode(), stored.artifact.encode(), "{kind:?}");
        assert_eq!(lowered.artifact.encode(), embedded.artifact.encode(), "{kind:?}");
    }
}

#[test]
fn spirv_is_written_from_embedded_ir_without_the_text() {
    let pack = packed([entry_of(&request()).unwrap()]);
    let wanted = request().kind(Kind::SpirV).constants([("size", 16.0)]);
    let no_disk = Config::default().disk(None);
    let from_text = load(&wanted, &no_disk, &[]);
    let ir = Asked { preimage: preimage(&wanted).unwrap(), request: &wanted }
        .embedded_ir(&[Pack::parse(&pack)]);
    let Ok(Artifact::SpirV(words)) = lower(&wanted, ir.clone()) else { panic!("not lowered") };
    assert!(ir.is_some());
    assert_eq!(words, spirv(&from_text));
    assert_eq!(spirv(&load(&wanted, &no_disk, &[&pack])), words);
}

#[test]
fn s34_spirv_words_come_out_of_unaligned_bytes() {
    let wanted = request().kind(Kind::SpirV);
    let pack = packed([entry_of(&wanted).unwrap()]);
    let expected = load(&wanted, &Config::default().disk(None), &[]);
    for offset in 0..4 {
        let mut shifted = vec![0; offset];
        shifted.extend_from_slice(&pack);
        let found = load(&wanted, &Config::default().disk(None), &[&shifted[offset..]]);
        assert_eq!(found.source, Source::Embedded);
        assert_eq!(spirv(&found), spirv(&expected));
        assert_eq!(spirv(&found)[0], 0x0723_0203, "SPIR-V's magic");
    }
}

#[test]
fn s33_ir_of_another_naga_is_left_alone_and_said() {
    // As a build with another naga leaves it: the IR under that version's key, and the text.
    let (_, entry) = entry_of(&request()).unwrap();
    let pack = packed([([7; 32], entry), text_entry(&text_of("30.0.1")).unwrap()]);
    let found = load(&request(), &Config::default().disk(None), &[&pack]);
    assert_eq!(found.source, Source::Lowered);
    assert_eq!(found.notes, [Note::OtherNaga { found: "30.0.1".into() }]);
    let shown = found.notes[0].to_string();
    assert!(shown.contains("30.0.1") && shown.contains(NAGA_VERSION), "{shown}");
}

#[test]
fn what_is_embedded_otherwise_is_said() {
    let text = text_entry(&text_of(NAGA_VERSION)).unwrap();
    let pack = packed([entry_of(&request()).unwrap(), text]);
    let no_disk = Config::default().disk(None);
    let found = load(&request().entry_points(["main"]), &no_disk, &[&pack]);
    assert_eq!(found.source, Source::Lowered);
    assert!(matches!(&found.notes[..], [Note::OtherwiseBuilt(_)]), "{:?}", found.notes);
    assert!(load(&request(), &no_disk, &[&pack]).notes.is_empty());
}

#[test]
fn a_damaged_embedded_entry_falls_back_to_the_text() {
    let (key, mut entry) = entry_of(&request()).unwrap();
    let last = entry.len() - 1;
    entry[last] ^= 1;
    let pack = packed([(key, entry)]);
    let found = load(&request(), &Config::default().disk(None), &[&pack]);
    assert_eq!(found.source, Source::Lowered);
    assert!(
        matches!(&found.notes[..], [Note::DamagedEntry { tier: Source::Embedded, .. }]),
        "{:?}",
        found.notes
    );
    // And one whose pack was damaged after it was made.
    let mut pack = packed([entry_of(&request()).unwrap()]);
    let last = pack.len() - 1;
    pack[last] ^= 1;
    let found = load(&request(), &Config::default().disk(None), &[&pack]);
    assert_eq!(found.source, Source::Lowered);
    assert!(matches!(&found.notes[..], [Note::DamagedEntry { .. }]), "{:?}", found.notes);
}

#[test]
fn an_unusable_pack_is_passed_over_and_said() {
    let good = packed([entry_of(&request()).unwrap()]);
    let mut bad = good.clone();
    bad[50] ^= 1;
    let found = load(&request(), &Config::default().disk(None), &[&bad, &good]);
    assert_eq!(found.source, Source::Embedded);
    assert_eq!(found.notes, [Note::UnusablePack(PackError::Damaged)]);
}

#[test]
fn a_damaged_disk_entry_is_lowered_again_and_replaced() {
    let disk = Disk::new();
    load(&request(), &disk.config(), &[]);
    let path = disk.entry(&request());
    let whole = fs::read(&path).unwrap();
    let cuts = [vec![], whole[..whole.len() / 2].to_vec(), {
        let mut flipped = whole.clone();
        flipped[whole.len() - 3] ^= 0x40;
        flipped
    }];
    for damaged in cuts {
        fs::write(&path, damaged).unwrap();
        let found = load(&request(), &disk.config(), &[]);
        assert_eq!(found.source, Source::Lowered);
        assert!(
            matches!(&found.notes[..], [Note::DamagedEntry { tier: Source::Disk, .. }]),
            "{:?}",
            found.notes
        );
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn the_entry_of_another_request_under_this_key_is_a_miss() {
    let disk = Disk::new();
    let other = request().entry_points(["other"]);
    load(&other, &disk.config(), &[]);
    let path = disk.entry(&request());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(disk.entry(&other), &path).unwrap();
    let found = load(&request(), &disk.config(), &[]);
    assert_eq!(found.source, Source::Lowered);
    let Artifact::Ir(module) = found.artifact else { panic!("not IR") };
    assert_eq!(module.entry_points.len(), 2);
}

#[test]
fn without_a_disk_tier_nothing_is_written() {
    let found = load(&request(), &Config::default().disk(None), &[]);
    assert_eq!((found.source, found.notes.len()), (Source::Lowered, 0));
}

#[cfg(unix)]
#[test]
fn the_disk_tier_is_at_an_absolute_place_or_nowhere() {
    let dir = |xdg: Option<&str>, home: Option<&str>| {
        cache_dir(xdg.map(OsStr::new), home.map(OsStr::new))
    };
    assert_eq!(dir(Some("/x"), Some("/h")), Some("/x/cutile/shaders".into()));
    assert_eq!(dir(None, Some("/h")), Some("/h/.cache/cutile/shaders".into()));
    for (xdg, home) in [(None, None), (Some(""), Some("")), (Some("x"), Some("."))] {
        assert_eq!(dir(xdg, home), None);
    }
}

#[cfg(unix)]
#[test]
fn a_disk_that_cannot_be_used_fails_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let disk = Disk::new();
    fs::create_dir_all(disk.root()).unwrap();
    fs::set_permissions(disk.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let open_to_others = load(&request(), &disk.config(), &[]);
    assert_eq!(open_to_others.source, Source::Lowered);
    assert!(matches!(&open_to_others.notes[..], [Note::NoDisk(_)]), "{:?}", open_to_others.notes);

    // A file in place of the folder of the entry: neither read nor written.
    let disk = Disk::new();
    FileSystemJitStore::private(&disk.root()).unwrap();
    let shard = disk.entry(&request()).parent().unwrap().to_owned();
    fs::write(&shard, "").unwrap();
    let found = load(&request(), &disk.config(), &[]);
    assert_eq!(found.source, Source::Lowered);
    assert!(found.notes.iter().any(|note| matches!(note, Note::NotStored(_))), "{:?}", found.notes);
    assert!(stats().disk_errors > 0);
}

#[test]
fn a_wrong_request_is_an_error_whatever_the_tiers() {
    let disk = Disk::new();
    let wrong = request().constants([("size", 1.5)]);
    for request in [&wrong.with_kind(Kind::SpirV), &wrong] {
        let error = load_from(request, &disk.config(), &[]).unwrap_err();
        assert_eq!(error.stage, Stage::Constants);
    }
    // The key of a module in IR has no constants: it is there all the same.
    let pack = packed([entry_of(&request()).unwrap()]);
    let embedded = [Pack::parse(&pack)];
    assert_eq!(load_from(&request(), &disk.config(), &[]).unwrap().source, Source::Disk);
    for packs in [&embedded[..], &[]] {
        let error = load_from(&wrong, &disk.config(), packs).unwrap_err();
        assert_eq!(error.stage, Stage::Constants);
    }
    assert!(entry_of(&wrong).is_err());
}

#[test]
fn an_error_names_the_request_that_got_it() {
    // Both at once: the one that waits has its own.
    let text = "fn broken(";
    let errors = std::thread::scope(|scope| {
        let ask = |path| {
            scope.spawn(move || {
                let config = Config::default().disk(None);
                load_from(&Request::new(path, text), &config, &[]).unwrap_err().to_string()
            })
        };
        let threads: Vec<_> = ["a.wgsl", "b.wgsl"].repeat(8).into_iter().map(ask).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for (at, error) in errors.iter().enumerate() {
        let [own, other] = if at % 2 == 0 { ["a.wgsl", "b.wgsl"] } else { ["b.wgsl", "a.wgsl"] };
        assert!(error.contains(own) && !error.contains(other), "{error}");
    }
}

/// An answer without tiers and flights.
fn answer() -> Result<Lowered, ShaderError> {
    let request = request();
    let asked = Asked { preimage: preimage(&request)?, request: &request };
    Ok(asked.answer(lower(&request, None)?, Source::Lowered, vec![]))
}

#[test]
fn threads_that_ask_at_once_lower_once() {
    const THREADS: u64 = 8;
    let what = || ([8; 32], Config::default().disk(None));
    let (ready, ran) = (AtomicU64::new(0), AtomicU64::new(0));
    // The one that lowers goes on only when all others are on their way in.
    let ask = || {
        count(&ready);
        single_flight(what(), || {
            count(&ran);
            while ready.load(Ordering::Relaxed) < THREADS {
                std::thread::yield_now();
            }
            // They have counted, and have only to take the lock.
            std::thread::sleep(std::time::Duration::from_millis(200));
            answer()
        })
    };
    let led = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.filter(|(result, led)| *led && result.is_ok()).count()
    });
    assert_eq!(led as u64, ran.load(Ordering::Relaxed));
    assert!(led < THREADS as usize, "every thread lowered it for itself");
}

#[test]
fn a_panic_while_lowering_is_one_threads_own() {
    let what = || ([9; 32], Config::default().disk(None));
    let panicked = std::panic::catch_unwind(|| single_flight(what(), || panic!("naga")));
    assert!(panicked.is_err());
    let (result, led) = single_flight(what(), answer);
    assert!(led && result.is_ok());
}
