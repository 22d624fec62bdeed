//! The disk cache at run time.

use crate::probe;
use cutile_tests::{Run, toolkit};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::mem::MaybeUninit;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

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

/// Nobody's on every Linux, and not that of this test, which gives files away and so is root.
const NOBODY: u32 = 65534;

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
    let damages: [(&str, Damage); 8] = [
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
        // What it holds is right, and its owner could have written anything else.
        ("of another user", |path| chown(path, Some(NOBODY), None).unwrap()),
        ("in another user's folder", |path| {
            chown(path.parent().unwrap(), Some(NOBODY), None).unwrap();
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
        let owner = fs::metadata(cache.path()).unwrap().uid();
        chown(good.parent().unwrap(), Some(owner), None).unwrap();
        if good.is_dir() {
            fs::remove_dir(&good).unwrap();
        } else if good.exists() {
            fs::remove_file(&good).unwrap();
        }
        fs::write(&good, &bytes).unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn folder(path: &Path, mode: u32) {
    fs::create_dir_all(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn s23_a_cache_folder_that_others_can_enter_or_replace_is_not_used() {
    let (open, shared) = (cutile_tests::scratch(), cutile_tests::scratch());
    let root = open.path().join("cutile/kernels");
    folder(&root, 0o755);
    for _ in 0..2 {
        let run = compiling(open.path()).ok();
        let why = format!(
            "No disk cache: the cache folder {} is not used: group or others can enter it (mode \
             0755); delete it and retry",
            root.display()
        );
        assert!(run.stderr.contains(&why), "{}", run.stderr);
        assert_eq!(run.line("1:double"), COMPILED);
    }
    // Narrowing it would not make good what others have put there.
    assert_eq!(mode(&root), 0o755);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);

    let parent = shared.path().join("everybodys");
    folder(&parent, 0o777);
    let run = probe().program().on("sm_90").env("XDG_CACHE_HOME", &parent);
    let run = run.arguments(["install", "double"]).ok();
    let why = format!(
        "No disk cache: the cache folder {} is not used: everybody can write it (mode 0777)",
        parent.display()
    );
    assert!(run.stderr.contains(&why), "{}", run.stderr);
    assert_eq!(run.line("1:double"), crate::IN_MEMORY);
    assert!(!parent.join("cutile/kernels").exists());
}

#[test]
fn s23_a_relative_or_empty_cache_folder_does_not_count() {
    for value in ["", "relative"] {
        let home = cutile_tests::scratch();
        let run = probe().program().on("sm_90").env("HOME", home.path());
        let run = run.env("XDG_CACHE_HOME", value).arguments(["install"]).ok();
        let root = home.path().join(".cache/cutile/kernels");
        let text = format!("What is not embedded is cached in {}.", root.display());
        assert!(run.stderr.contains(&text), "{}", run.stderr);
        assert_eq!(mode(&root), 0o700);
        assert!(!Path::new("relative").exists());
    }
}

#[test]
fn s24_the_disk_is_full_in_the_middle_of_a_put() {
    let cache = cutile_tests::scratch();
    // Two pages: less than the image. What is left is listed where the program's lines are.
    let script = format!(
        "mount -t tmpfs -o size=8k,mode=0700 tmpfs '{cache}'; \"$@\"; echo files \
         $(find '{cache}' -type f -name '*.*') end",
        cache = cache.path().display()
    );
    let run = compiling(cache.path()).arguments(["double"]).in_script(&script).ok();
    assert_eq!(run.line("1:double"), COMPILED);
    assert_eq!(run.line("2:double"), crate::IN_MEMORY);
    assert_eq!(run.line("files"), "end", "a part of the entry is left");
}

#[test]
fn s24_the_entry_cannot_be_replaced() {
    let cache = cutile_tests::scratch();
    let _ = compiling(cache.path()).ok();
    let entry = entry(cache.path());
    fs::write(&entry, []).unwrap();
    // A file that something is mounted on is busy for `rename` and `unlink`.
    let script = format!("mount --bind '{entry}' '{entry}'; \"$@\"", entry = entry.display());
    let run = compiling(cache.path()).arguments(["double"]).in_script(&script).ok();
    assert_eq!(run.line("1:double"), COMPILED);
    assert_eq!(run.line("2:double"), crate::IN_MEMORY);
    let shard = entry.parent().unwrap();
    assert_eq!(fs::read_dir(shard).unwrap().count(), 1, "a part of the entry is left");
    assert_eq!(fs::read(&entry).unwrap(), [0u8; 0]);
    // Once it can be, it is.
    assert_eq!(compiling(cache.path()).ok().line("1:double"), COMPILED);
    assert_eq!(compiling(cache.path()).ok().line("1:double"), FROM_DISK);
}

#[test]
fn s25_eight_processes_on_an_empty_cache() {
    let cache = cutile_tests::scratch();
    for child in Vec::from_iter((0..8).map(|_| spawn(compiling(cache.path())))) {
        let stdout = printed(child);
        assert!(stdout.contains("1:double jit=1"), "{stdout}");
    }
    let _ = entry(cache.path());
    assert_eq!(compiling(cache.path()).ok().line("1:double"), FROM_DISK);
}

fn spawn(run: Run) -> Child {
    let mut command = run.into_command();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What a program printed that launched its kernel.
fn printed(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("done") && !stdout.contains("error"), "{stdout}\n{stderr}");
    stdout
}

/// A tileiras that waits for a second one to be started before it compiles, so that both write what
/// they made at the same moment.
fn in_twos(folder: &Path) -> PathBuf {
    let (path, gate) = (folder.join("tileiras"), folder.join("started"));
    fs::create_dir(&gate).unwrap();
    let script = format!(
        "#!/bin/sh\nPATH=/usr/bin:/bin\n\
         case \"$1\" in --version|--list-versions) exec '{real}' \"$@\";; esac\n\
         mktemp -p '{gate}' > /dev/null\n\
         for try in $(seq 3000); do [ $(ls '{gate}' | wc -l) -ge 2 ] && break; sleep 0.01; done\n\
         exec '{real}' \"$@\"\n",
        real = toolkit().tileiras.display(),
        gate = gate.display(),
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// A container's first process is pid 1 for itself, and so is that of the container beside it.
#[test]
fn s25_two_processes_that_are_both_pid_1_share_a_cache() {
    // Which entry it will be, from another cache: its folder is watched from the start.
    let (other, cache, tools) =
        (cutile_tests::scratch(), cutile_tests::scratch(), cutile_tests::scratch());
    let _ = compiling(other.path()).ok();
    let entry_there = entry(other.path());
    let key = entry_there.strip_prefix(other.path()).unwrap();
    let expected = cache.path().join(key);
    let shard = expected.parent().unwrap();
    DirBuilder::new().recursive(true).mode(0o700).create(shard).unwrap();
    let watch = inotify::init(CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, shard, WatchFlags::CREATE | WatchFlags::MOVED_TO).unwrap();

    let tileiras = in_twos(tools.path());
    let first = || {
        let run = compiling(cache.path()).env("CUTILE_TILEIRAS_PATH", &tileiras);
        spawn(run.arguments(["pid"]).in_namespaces(&["--pid", "--fork", "--mount-proc"]))
    };
    for child in [first(), first()] {
        let stdout = printed(child);
        assert!(stdout.contains(&format!("1:double {COMPILED}\n")), "{stdout}");
        assert!(stdout.contains("2:pid 1\n"), "{stdout}");
    }

    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(watch, &mut buffer);
    let (mut created, mut published) = (Vec::new(), Vec::new());
    while let Ok(event) = events.next() {
        let name = event.file_name().unwrap().to_str().unwrap().to_owned();
        match event.events().contains(ReadFlags::CREATE) {
            true => created.push(name),
            false => published.push(name),
        }
    }
    // Each wrote a file of its own and gave it the one name.
    assert_eq!(created.len(), 2, "{created:?}");
    assert_eq!(created.iter().collect::<BTreeSet<_>>().len(), 2, "{created:?}");
    let name = expected.file_name().unwrap().to_str().unwrap();
    assert_eq!(published, [name, name]);
    assert_eq!(fs::read_dir(shard).unwrap().count(), 1, "nothing but the entry is left");
    assert!(fs::read(&expected).unwrap() == fs::read(&entry_there).unwrap(), "it is torn");
    assert_eq!(compiling(cache.path()).ok().line("1:double"), FROM_DISK);
}
