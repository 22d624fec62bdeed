//! The nine faults of the cache that lowered WGSL before this one, each with a test that would find
//! it here: through the public functions, on a real disk, in other processes where it takes some.

#[path = "wgsl/child.rs"]
mod child;

use cutile_embed::key::key_text;
use cutile_embed::pack::{Pack, PackWriter};
use cutile_embed::shader::{
    Artifact, Config, Kind, Lowered, NAGA_VERSION, Note, Request, Source, Stats, cache_key,
    decode_entry, encode_entry, encode_ir, entry_of, fingerprint, load_or_lower_with, preimage,
    stats,
};
use cutile_embed::store::{FileSystemJitStore, JitStore};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const TEXT: &str = "
override size: u32 = 8u;
@id(4) override factor: f32 = 1.5;
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(size) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    data[id.x] *= factor;
}
@compute @workgroup_size(1) fn other() { data[0] = 1.0; }
";

const KINDS: [Kind; 3] = [Kind::Ir, Kind::SpirV, Kind::Wgsl];

fn request(kind: Kind) -> Request<'static> {
    Request::new("shader.wgsl", TEXT).kind(kind)
}

/// A disk tier of its own.
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

    fn load(&self, request: &Request<'_>) -> Lowered {
        load(&self.root(), request)
    }

    /// Where the entry of a request is.
    fn entry(&self, request: &Request<'_>) -> PathBuf {
        let key = key_text(&cache_key(request).unwrap());
        self.root().join(&key[..2]).join(format!("{key}.cubin"))
    }

    /// Name and content of every file.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for shard in fs::read_dir(self.root()).unwrap().map(Result::unwrap) {
            if shard.file_type().unwrap().is_dir() {
                for file in fs::read_dir(shard.path()).unwrap().map(Result::unwrap) {
                    let name = file.file_name().into_string().unwrap();
                    files.insert(name, fs::read(file.path()).unwrap());
                }
            }
        }
        files
    }
}

fn load(root: &Path, request: &Request<'_>) -> Lowered {
    let config = Config::default().disk(Some(root.to_owned()));
    load_or_lower_with(request, &config).unwrap()
}

fn bytes(artifact: &Artifact) -> Vec<u8> {
    match artifact {
        Artifact::Ir(module) => encode_ir(module),
        Artifact::SpirV(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        Artifact::Wgsl(text) => text.clone().into_bytes(),
        other => panic!("an artifact of another kind: {other:?}"),
    }
}

fn sha256(bytes: &[u8]) -> String {
    key_text(&Sha256::digest(bytes).into())
}

/// A child of this test binary with a task, see `child_with_a_task`.
fn start(lines: &[&str]) -> Child {
    child::start(child::command("child_with_a_task"), lines)
}

/// What the tests here run in other processes: the first line is the task, the second a folder.
#[test]
fn child_with_a_task() {
    let lines = child::lines();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    match lines[..] {
        ["load", root] => {
            let lowered = load(Path::new(root), &request(Kind::SpirV));
            child::say(&format!("{} {}", lowered.source, sha256(&bytes(&lowered.artifact))));
            lowered.notes.iter().for_each(|note| child::say(&format!("note: {note}")));
            let Stats { embedded, disk, lowered, disk_errors, front_end_calls, .. } = stats();
            child::say(&format!(
                "stats: {embedded} {disk} {lowered} {disk_errors} {front_end_calls}"
            ));
        }
        ["write", root] => {
            let store = FileSystemJitStore::private(Path::new(root)).unwrap();
            for generation in 0.. {
                (0..TORN).for_each(|which| put_uniform(&store, which, generation));
            }
        }
        ["read", root] => {
            for _ in 0..60 {
                (0..TORN).for_each(|which| read_uniform(Path::new(root), which));
            }
            child::say("read");
        }
        ["identity"] => identity().iter().for_each(|line| child::say(line)),
        // A run of all tests.
        _ => {}
    }
}

/// Requests whose entries are written all the time.
const TORN: usize = 3;

/// Texts that are no WGSL: only a whole entry can answer.
fn torn(which: usize) -> Request<'static> {
    let text = ["not WGSL: a", "not WGSL: b", "not WGSL: c"][which];
    Request::new("torn.wgsl", text).kind(Kind::Wgsl)
}

/// An entry of one letter many times, another one and another length in each generation.
fn put_uniform(store: &FileSystemJitStore, which: usize, generation: usize) {
    let letter = b'a' + (generation % 20) as u8;
    let payload = vec![letter; (200 << 10) + generation % 7 * 10_000];
    let request = torn(which);
    let entry = encode_entry(&preimage(&request).unwrap(), &payload).unwrap();
    store.put(&key_text(&cache_key(&request).unwrap()), &entry).unwrap();
}

fn read_uniform(root: &Path, which: usize) {
    let lowered = load(root, &torn(which));
    assert_eq!((lowered.source, lowered.notes), (Source::Disk, vec![]));
    let Artifact::Wgsl(text) = lowered.artifact else { panic!("not text") };
    let first = text.as_bytes()[0];
    assert!(text.len() >= 200 << 10 && text.bytes().all(|letter| letter == first));
}

#[test]
fn vyre_1_a_reader_sees_whole_entries_whoever_writes_and_dies() {
    let disk = Disk::new();
    let store = FileSystemJitStore::private(&disk.root()).unwrap();
    (0..TORN).for_each(|which| put_uniform(&store, which, 0));
    let root = disk.root();
    let path = root.to_str().unwrap();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for which in 0..2 {
            let (root, done, reads) = (&root, &done, &reads);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    read_uniform(root, which);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let reader = start(&["read", path]);
        // Each is killed while it writes: it does nothing else.
        for round in 0..8 {
            let mut writers = [start(&["write", path]), start(&["write", path])];
            std::thread::sleep(Duration::from_millis(120 + round * 7));
            for writer in &mut writers {
                assert_eq!(writer.try_wait().unwrap(), None, "a writer ended");
                writer.kill().unwrap();
                writer.wait().unwrap();
            }
        }
        let read = child::finish(reader);
        done.store(true, Ordering::Relaxed);
        assert_eq!(read, ["read"]);
    });
    assert!(reads.load(Ordering::Relaxed) > 20, "nothing was read while it was written");

    // Whoever looks into the folder finds whole entries under their names, and what was being
    // written when its writer died under none.
    let names: BTreeMap<String, usize> =
        (0..TORN).map(|n| (key_text(&cache_key(&torn(n)).unwrap()) + ".cubin", n)).collect();
    let mut found = BTreeSet::new();
    for (name, bytes) in disk.files() {
        if let Some(which) = names.get(&name) {
            decode_entry(&bytes, &preimage(&torn(*which)).unwrap()).unwrap();
            found.insert(*which);
        } else {
            assert!(name.contains(".tmp.") && !name.ends_with(".cubin"), "{name}");
        }
    }
    assert_eq!(found.len(), TORN);
}

#[test]
fn vyre_2_an_entry_does_not_say_when_it_was_made() {
    let (early, late) = (Disk::new(), Disk::new());
    let packed = || {
        let mut pack = PackWriter::new("p", "1.0.0");
        for kind in KINDS {
            let (key, entry) = entry_of(&request(kind)).unwrap();
            pack.insert(key, entry).unwrap();
        }
        pack.finish()
    };
    let fill = |disk: &Disk| {
        for kind in KINDS {
            assert_eq!(disk.load(&request(kind)).source, Source::Lowered);
        }
    };
    fill(&early);
    let early_pack = packed();
    // Longer than the second that timestamps are often counted in.
    std::thread::sleep(Duration::from_millis(1100));
    fill(&late);
    assert_eq!(early.files(), late.files());
    assert_eq!(early.files().len(), KINDS.len());
    assert_eq!(early_pack, packed());
    // And what is on disk is what is in the pack.
    let pack = Pack::parse(&early_pack).unwrap();
    for kind in KINDS {
        let entry = pack.get(&cache_key(&request(kind)).unwrap()).unwrap();
        assert_eq!(fs::read(late.entry(&request(kind))).unwrap(), *entry.payload().unwrap());
    }
}

#[test]
fn vyre_3_a_payload_of_the_same_length_with_another_byte_is_a_miss() {
    for kind in KINDS {
        let disk = Disk::new();
        let request = request(kind);
        let good = disk.load(&request);
        let path = disk.entry(&request);
        let whole = fs::read(&path).unwrap();
        let payload = decode_entry(&whole, &preimage(&request).unwrap()).unwrap().len();
        let start = whole.len() - payload;
        for at in [start, start + 1, start + payload / 3, start + payload / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            // Another character of text, too: it still decodes.
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            let found = disk.load(&request);
            assert_eq!(found.source, Source::Lowered, "{kind:?}, byte {at}");
            assert!(
                matches!(&found.notes[..], [Note::DamagedEntry { tier: Source::Disk, .. }]),
                "{:?}",
                found.notes
            );
            assert_eq!(bytes(&found.artifact), bytes(&good.artifact));
            assert_eq!(fs::read(&path).unwrap(), whole, "it was not replaced");
            assert_eq!(disk.load(&request).source, Source::Disk);
        }
    }
}

#[test]
fn vyre_4_whatever_changes_the_output_is_in_the_key() {
    let text = format!("{TEXT} ");
    let base = request(Kind::SpirV);
    let requests = [
        base.clone(),
        base.clone().constants([("size", 16.0)]),
        base.clone().constants([("4", 0.5)]),
        base.clone().constants([("size", 16.0), ("4", 0.5)]),
        base.clone().entry_points(["main"]),
        base.clone().entry_points(["other"]),
        base.clone().features(["SHADER_F16"]),
        base.with_kind(Kind::Wgsl),
        base.with_kind(Kind::Wgsl).constants([("size", 16.0)]),
        base.with_kind(Kind::Ir),
        base.with_kind(Kind::Ir).entry_points(["other"]),
        Request::new("shader.wgsl", &text).kind(Kind::SpirV),
    ];
    // One folder: what is not in the key would be served for another request.
    let disk = Disk::new();
    let first: Vec<_> = requests.iter().map(|request| disk.load(request)).collect();
    assert!(first.iter().all(|lowered| lowered.source == Source::Lowered));
    let keys: BTreeSet<_> = first.iter().map(|lowered| lowered.key).collect();
    assert_eq!(keys.len(), requests.len());
    for (request, first) in requests.iter().zip(&first) {
        let second = disk.load(request);
        assert_eq!(second.source, Source::Disk);
        assert_eq!(second.key, cache_key(request).unwrap());
        assert_eq!(bytes(&second.artifact), bytes(&first.artifact));
    }
    // The fault itself: a workgroup size that was asked for was not what came back.
    let spirv = |at: usize| bytes(&first[at].artifact);
    let changed: BTreeSet<_> = (0..6).map(spirv).collect();
    assert_eq!(changed.len(), 6, "a value or an entry point changes nothing");
    let Artifact::Wgsl(wgsl) = &first[8].artifact else { panic!("not WGSL") };
    assert!(wgsl.contains("@workgroup_size(16,1,1)"), "{wgsl}");
}

/// `preimage` with another value of one of its fields, which stands there with its length.
fn with_field(preimage: &[u8], field: &[u8], other: &[u8]) -> Vec<u8> {
    let sized = |field: &[u8]| [&(field.len() as u64).to_le_bytes()[..], field].concat();
    let field = sized(field);
    let places: Vec<_> =
        (0..preimage.len()).filter(|at| preimage[*at..].starts_with(&field)).collect();
    let [at] = places[..] else { panic!("the field is there {} times", places.len()) };
    [&preimage[..at], &sized(other), &preimage[at + field.len()..]].concat()
}

#[test]
fn vyre_5_naga_and_the_emitter_options_are_in_the_key() {
    let hex = fingerprint().rsplit(' ').next().unwrap().to_owned();
    let options = cutile_embed::key::key_bytes(&hex).expect("the options' digest");
    assert!(fingerprint().contains(&format!("naga {NAGA_VERSION},")), "{}", fingerprint());
    let mut other_options = options;
    other_options[0] ^= 1;
    for kind in KINDS {
        let request = request(kind);
        let ours = preimage(&request).unwrap();
        for other in [
            with_field(&ours, NAGA_VERSION.as_bytes(), b"30.0.1"),
            with_field(&ours, NAGA_VERSION.as_bytes(), b"30.0.20"),
            with_field(&ours, &options, &other_options),
        ] {
            // What another build left: under its own key, and, as one that forgot to put them into
            // the key would leave it, under ours.
            let disk = Disk::new();
            let store = FileSystemJitStore::private(&disk.root()).unwrap();
            let entry = encode_entry(&other, b"@compute @workgroup_size(1) fn wrong() {}").unwrap();
            store.put(&sha256(&other), &entry).unwrap();
            let found = disk.load(&request);
            assert_eq!((found.source, found.notes), (Source::Lowered, vec![]));
            assert_ne!(key_text(&found.key), sha256(&other));

            store.put(&key_text(&found.key), &entry).unwrap();
            let found = disk.load(&request);
            assert_eq!(found.source, Source::Lowered);
            assert!(matches!(&found.notes[..], [Note::DamagedEntry { .. }]), "{:?}", found.notes);
        }
    }
}

/// What must be the same in every process of a machine, whatever it is started with.
fn identity() -> Vec<String> {
    let mut lines = vec![fingerprint()];
    lines.extend(KINDS.map(|kind| key_text(&cache_key(&request(kind)).unwrap())));
    #[cfg(feature = "wgpu")]
    lines.push(key_text(&cutile_embed::shader::pipeline_cache_key(&adapter(), "app")));
    lines
}

#[test]
fn vyre_6_the_environment_is_in_no_key() {
    let variables = [
        "HOME",
        "XDG_CACHE_HOME",
        "USER",
        "LANG",
        "TZ",
        "PATH",
        "CUDA_HOME",
        "CUDA_VISIBLE_DEVICES",
        "CUTILE_BACKEND_FINGERPRINT",
        "CUTILE_JIT_DEBUG",
        "CUTILE_JIT_OPT_LEVEL",
        "GPU_NAME",
        "NAGA_VERSION",
        "SOURCE_DATE_EPOCH",
        "VK_ICD_FILENAMES",
        "VYRE_BACKEND_FINGERPRINT",
        "WGPU_ADAPTER_NAME",
        "WGPU_BACKEND",
    ];
    let of = |change: &dyn Fn(&mut Command)| {
        let mut command = child::command("child_with_a_task");
        change(&mut command);
        child::finish(child::start(command, &["identity"]))
    };
    let expected = identity();
    assert_eq!(of(&|_| {}), expected);
    assert_eq!(
        of(&|command| {
            command.env_clear();
        }),
        expected
    );
    for value in ["", "sm_90", "/somewhere/else"] {
        let with = |command: &mut Command| {
            command.envs(variables.map(|name| (name, value)));
        };
        assert_eq!(of(&with), expected);
    }
}

#[cfg(feature = "wgpu")]
fn adapter() -> cutile_embed::shader::wgpu30::AdapterInfo {
    use cutile_embed::shader::wgpu30::{AdapterInfo, Backend, DeviceType};
    let mut info = AdapterInfo::new(DeviceType::DiscreteGpu, Backend::Vulkan);
    info.name = "card".into();
    (info.vendor, info.device) = (0x10de, 0x2330);
    (info.driver, info.driver_info) = ("driver".into(), "580.1".into());
    info
}

#[cfg(feature = "wgpu")]
#[test]
fn vyre_6_the_adapter_itself_is_in_the_key_of_what_is_made_for_it() {
    use cutile_embed::shader::pipeline_cache_key;
    use cutile_embed::shader::wgpu30::{AdapterInfo, Backend, DeviceType};
    let changes: [fn(&mut AdapterInfo); 9] = [
        |_| {},
        |info| info.name = "other".into(),
        |info| info.vendor = 9,
        |info| info.device = 9,
        |info| info.device_type = DeviceType::Cpu,
        |info| info.driver = "other".into(),
        |info| info.driver_info = "580.2".into(),
        |info| info.backend = Backend::Gl,
        |info| info.subgroup_min_size = 9,
    ];
    let key = |change: &fn(&mut AdapterInfo)| {
        let mut info = adapter();
        change(&mut info);
        pipeline_cache_key(&info, "app")
    };
    let keys: BTreeSet<_> = changes.iter().map(key).collect();
    assert_eq!(keys.len(), changes.len());
    assert_ne!(pipeline_cache_key(&adapter(), "app"), pipeline_cache_key(&adapter(), "app2"));
}

#[cfg(unix)]
mod disks {
    use super::*;
    use rustix::process::{Gid, Uid, geteuid};
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;

    /// Nobody. A superuser may write where nobody may, so a child is somebody else then.
    const NOBODY: u32 = 65534;

    /// A folder of the user that children run as, with a copy of this program that they can reach.
    struct Place {
        dir: TempDir,
        user: Option<u32>,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let user = geteuid().is_root().then_some(NOBODY);
            set_mode(dir.path(), 0o755);
            let place = Self { dir, user };
            if place.user.is_some() {
                let program = place.dir.path().join("program");
                // By another process: where this one writes it, a child that another thread starts
                // meanwhile holds it open for writing, and it cannot be run ("Text file busy").
                let copied =
                    Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
                assert!(copied.unwrap().success());
                set_mode(&program, 0o755);
            }
            place
        }

        /// A folder in it, of the child's user, with a mode.
        fn folder(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.dir.path().join(name);
            fs::create_dir(&path).unwrap();
            self.give(&path);
            set_mode(&path, mode);
            path
        }

        fn give(&self, path: &Path) {
            if let Some(user) = self.user {
                let ids = (Uid::from_raw(user).as_raw(), Gid::from_raw(user).as_raw());
                chown(path, Some(ids.0), Some(ids.1)).unwrap();
            }
        }

        fn command(&self) -> Command {
            let Some(user) = self.user else { return child::command("child_with_a_task") };
            let ours = child::command("child_with_a_task");
            let mut command = Command::new(self.dir.path().join("program"));
            command.args(ours.get_args()).current_dir("/").uid(user).gid(user);
            command
        }

        fn load(&self, root: &Path) -> Answer {
            self.load_by(self.command(), root)
        }

        fn load_by(&self, command: Command, root: &Path) -> Answer {
            let said = child::finish(child::start(command, &["load", root.to_str().unwrap()]));
            let (source, artifact) = said[0].split_once(' ').unwrap();
            Answer { source: source.into(), artifact: artifact.into(), said }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            // So that whoever is no superuser can remove it.
            for name in ["cache", "parent", "shards"] {
                let path = self.dir.path().join(name);
                let inner = fs::read_dir(&path).into_iter().flatten().flatten();
                inner.for_each(|entry| drop(fs::set_permissions(entry.path(), owner())));
                drop(fs::set_permissions(&path, owner()));
            }
        }
    }

    fn owner() -> Permissions {
        Permissions::from_mode(0o700)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[derive(Debug)]
    struct Answer {
        source: String,
        artifact: String,
        said: Vec<String>,
    }

    /// What a child gets that has a disk.
    fn expected() -> String {
        sha256(&bytes(&Disk::new().load(&request(Kind::SpirV)).artifact))
    }

    /// Lowered all the same, said, and counted.
    #[track_caller]
    fn assert_lowered_without(answer: &Answer) {
        assert_eq!((&*answer.source, &answer.artifact), ("lowered", &expected()), "{answer:?}");
        assert!(answer.said.iter().any(|line| line.starts_with("note: ")), "{answer:?}");
        let stats: Vec<_> = answer.said.last().unwrap().split(' ').collect();
        let ["stats:", "0", "0", "1", errors, "1"] = stats[..] else { panic!("{answer:?}") };
        assert_ne!(errors, "0", "{answer:?}");
    }

    #[test]
    fn vyre_7_a_folder_that_cannot_be_made_fails_nothing() {
        let place = Place::new();
        let parent = place.folder("parent", 0o555);
        assert_lowered_without(&place.load(&parent.join("cutile/shaders")));
        // Nor can a superuser make one there.
        assert_lowered_without(&place.load(Path::new("/proc/cutile/shaders")));
        // A file where the folder should be, and above it.
        let file = place.dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_lowered_without(&place.load(&file));
        assert_lowered_without(&place.load(&file.join("shaders")));
    }

    #[test]
    fn vyre_7_a_folder_that_cannot_be_written_is_read_and_fails_nothing() {
        let place = Place::new();
        let root = place.folder("cache", 0o700);
        let key = key_text(&cache_key(&request(Kind::SpirV)).unwrap());
        let shard = root.join(&key[..2]);
        fs::create_dir(&shard).unwrap();
        place.give(&shard);
        set_mode(&shard, 0o500);
        assert_lowered_without(&place.load(&root));
        assert_eq!(fs::read_dir(&shard).unwrap().count(), 0);

        // Filled, and then made read-only: it serves.
        set_mode(&shard, 0o700);
        assert_eq!(place.load(&root).source, "lowered");
        set_mode(&shard.join(format!("{key}.cubin")), 0o400);
        set_mode(&shard, 0o500);
        let served = place.load(&root);
        assert_eq!((&*served.source, &served.artifact), ("disk", &expected()), "{served:?}");
    }

    #[test]
    fn vyre_7_a_full_disk_fails_nothing_and_leaves_nothing() {
        let place = Place::new();
        let root = place.folder("cache", 0o700);
        // No file may grow: what the kernel says is another error than ENOSPC, at the same call.
        let program = place.command();
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        command.arg(program.get_program()).args(program.get_args()).current_dir("/");
        if let Some(user) = place.user {
            command.uid(user).gid(user);
        }
        assert_lowered_without(&place.load_by(command, &root));
        let left = fs::read_dir(&root)
            .unwrap()
            .map(Result::unwrap)
            .flat_map(|shard| fs::read_dir(shard.path()).unwrap().map(|file| file.unwrap().path()));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<PathBuf>::new());
        // With room again, it is stored.
        assert_eq!(place.load(&root).source, "lowered");
        assert_eq!(place.load(&root).source, "disk");
    }
}

#[test]
fn vyre_8_the_counters_say_0_of_1_and_then_1_of_1() {
    let disk = Disk::new();
    let root = disk.root();
    let run = || child::finish(start(&["load", root.to_str().unwrap()]));
    let (first, second, third) = (run(), run(), run());
    // Embedded, disk, lowered, disk errors, runs of the front end.
    assert_eq!(first.last().unwrap(), "stats: 0 0 1 0 1");
    assert_eq!(second.last().unwrap(), "stats: 0 1 0 0 0");
    assert_eq!(third.last().unwrap(), second.last().unwrap());
    let artifact = |said: &[String]| said[0].split_once(' ').unwrap().1.to_owned();
    assert_eq!(artifact(&first), artifact(&second));
    assert_eq!((first.len(), second.len()), (2, 2), "there are notes: {first:?} {second:?}");
}

/// Who may, and why. None is a test.
const MAY_SET_VARIABLES: [&str; 2] = [
    // Upstream asks the environment which compiler to run, and a program is told to have none.
    "cutile-embed/src/cuda/install.rs",
    // A program of one thread that is about what it is started with.
    "tests/fixtures/probe/build.rs",
];

#[test]
fn vyre_9_no_code_sets_a_variable_of_its_process() {
    // Where tests run as threads of one process, one that sets a variable changes all others.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = package.parent().filter(|parent| {
        let manifest = fs::read_to_string(parent.join("Cargo.toml")).unwrap_or_default();
        manifest.contains("[workspace]")
    });
    let top = workspace.unwrap_or(package);
    let mut sources = Vec::new();
    rust_files(top, &mut sources);
    assert!(sources.len() > 30, "{} files in {}", sources.len(), top.display());
    // Put together, so that this file is none of them.
    let names = [concat!("set_", "var"), concat!("remove_", "var"), concat!("put", "env")];
    let mut found = Vec::new();
    for source in &sources {
        let path = source.strip_prefix(top).unwrap();
        if MAY_SET_VARIABLES.iter().any(|allowed| path == Path::new(allowed)) {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(source).unwrap_or_default()).into_owned();
        for (at, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.into_iter().any(|word| names.contains(&word)) {
                found.push(format!("{}:{}: {}", path.display(), at + 1, line.trim()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "give a child its variables with Command::env:\n{}",
        found.join("\n")
    );
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    // What goes away meanwhile is some other test's.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                rust_files(&path, out);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}
