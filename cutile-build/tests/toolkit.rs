//! Finding, identifying and running a toolkit, on trees with programs that only answer.

use cutile_build::toolkit::{
    Chosen, INSTALL_COMMAND, MIN_TILEIRAS, SearchPlaces, Toolkit, ToolkitError, Version,
};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Writes a program. Another process does, so that none that this one starts at the same time
/// inherits it open for writing, which the system refuses to run.
fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut shell = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
}

fn says(text: &str, release: &str) -> String {
    format!(
        "#!/bin/sh\n\
         case $1 in\n\
         --version) echo '{text}'; echo 'tools, release {release}, V{release}.37' ;;\n\
         --list-versions) echo 13.1; echo 13.2 ;;\n\
         *) echo \"HOME=$HOME CUDA_HOME=$CUDA_HOME LD=$LD_LIBRARY_PATH PATH=$PATH \
         TMPDIR=$TMPDIR\" ;;\n\
         esac\n"
    )
}

fn toolkit(root: &Path, release: &str, libnvvm: &str) -> PathBuf {
    program(&root.join("bin/tileiras"), &says("tileiras", release));
    program(&root.join("bin/ptxas"), &says("ptxas", release));
    let library = root.join(libnvvm);
    fs::create_dir_all(library.parent().unwrap()).unwrap();
    fs::write(library, "nvvm").unwrap();
    fs::create_dir_all(root.join("include")).unwrap();
    fs::write(root.join("include/cuda.h"), "").unwrap();
    root.to_owned()
}

const WHEELS: &str = "lib/libnvvm.so.4";
const SYSTEM: &str = "nvvm/lib64/libnvvm.so";

fn named(root: &Path) -> SearchPlaces {
    SearchPlaces { cuda_toolkit_path: Some(root.into()), ..SearchPlaces::default() }
}

#[test]
fn both_layouts_are_found() {
    for libnvvm in [WHEELS, SYSTEM] {
        let dir = tempfile::tempdir().unwrap();
        let root = toolkit(dir.path(), "13.3", libnvvm);
        let found = Toolkit::find(&named(&root)).unwrap();
        assert_eq!(found.libnvvm, root.join(libnvvm));
        assert_eq!(found.tileiras, root.join("bin/tileiras"));
        assert_eq!(found.ptxas, root.join("bin/ptxas"));
        assert_eq!(found.include, Some(root.join("include")));
        assert_eq!(found.version, Version { major: 13, minor: 3 });
        assert_eq!(found.why, Chosen::ToolkitPath);
    }
}

#[test]
fn the_order_is_variable_own_home_usual() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| toolkit(&dir.path().join(name), "13.5", WHEELS);
    let (first, own, home, usual) = (at("a"), at("w/.cutile/toolkit"), at("c"), at("d"));
    let member = dir.path().join("w/member");
    fs::create_dir_all(&member).unwrap();
    let mut places = SearchPlaces {
        cuda_toolkit_path: Some(first.clone().into()),
        cuda_home: Some(home.clone().into()),
        below: Some(member),
        usual: vec![dir.path().join("none"), usual.clone()],
    };
    let root = |places: &SearchPlaces| Toolkit::find(places).map(|t| (t.root, t.why)).unwrap();
    assert_eq!(root(&places), (first, Chosen::ToolkitPath));
    places.cuda_toolkit_path = None;
    assert_eq!(root(&places), (own, Chosen::Own));
    places.below = None;
    assert_eq!(root(&places), (home, Chosen::CudaHome));
    places.cuda_home = None;
    assert_eq!(root(&places), (usual, Chosen::Usual));
}

#[test]
fn what_a_variable_names_is_never_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let good = toolkit(&dir.path().join("good"), "13.5", WHEELS);
    let old = toolkit(&dir.path().join("old"), "13.2", WHEELS);
    let none = dir.path().join("none");
    for (path, words) in [(&old, "its tileiras is 13.2"), (&none, "there is no such folder")] {
        let usual = vec![good.clone()];
        for places in [
            SearchPlaces { usual: usual.clone(), ..named(path) },
            SearchPlaces { cuda_home: Some(path.into()), usual, ..SearchPlaces::default() },
        ] {
            let error = Toolkit::find(&places).unwrap_err();
            assert!(matches!(error, ToolkitError::Named { .. }));
            let text = error.to_string();
            assert!(text.contains(words) && text.contains(path.to_str().unwrap()), "{text}");
            assert!(text.contains(INSTALL_COMMAND), "{text}");
        }
    }
}

#[test]
fn too_old_or_broken_ones_in_a_usual_place_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let old = toolkit(&dir.path().join("old"), "12.9", SYSTEM);
    let broken = toolkit(&dir.path().join("broken"), "13.5", SYSTEM);
    fs::remove_file(broken.join("bin/ptxas")).unwrap();
    let silent = toolkit(&dir.path().join("silent"), "13.5", SYSTEM);
    program(&silent.join("bin/tileiras"), "#!/bin/sh\necho oops >&2\nexit 3\n");
    let good = toolkit(&dir.path().join("good"), "13.10", SYSTEM);
    let mut places =
        SearchPlaces { usual: vec![old, broken, silent, good.clone()], ..SearchPlaces::default() };
    assert_eq!(Toolkit::find(&places).unwrap().root, good);
    places.usual.pop();
    let text = Toolkit::find(&places).unwrap_err().to_string();
    for words in ["its tileiras is 12.9", "it has no bin/ptxas", "oops", INSTALL_COMMAND] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains(&MIN_TILEIRAS.to_string()));
}

#[test]
fn without_any_the_error_says_where_and_what_next() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("a/b");
    let places = SearchPlaces { below: Some(below.clone()), ..SearchPlaces::default() };
    let text = Toolkit::find(&places).unwrap_err().to_string();
    assert!(text.contains(below.join(".cutile/toolkit").to_str().unwrap()), "{text}");
    assert!(text.contains("nor in a folder above it"), "{text}");
    assert!(text.contains(INSTALL_COMMAND) && text.contains("CUTILE_BUILD=skip"), "{text}");
}

#[test]
fn s01_the_files_to_watch_exist_when_there_is_a_toolkit_and_do_not_when_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("w/.cutile/toolkit");
    let member = dir.path().join("w/member");
    fs::create_dir_all(&member).unwrap();
    let places = SearchPlaces { below: Some(member), ..SearchPlaces::default() };
    let absent = places.files();
    assert!(absent.contains(&root.join("bin/tileiras")));
    assert!(absent.iter().all(|file| !file.exists()));
    toolkit(&root, "13.5", WHEELS);
    // A file that is not there would start the build script each time.
    let present = places.files();
    assert!(present.iter().all(|file| file.is_file()));
    assert_eq!(present.len(), 3);
}

#[test]
fn s07_tileiras_sees_nothing_of_the_callers_environment() {
    let dir = tempfile::tempdir().unwrap();
    let root = toolkit(dir.path(), "13.5", WHEELS);
    let found = Toolkit::find(&named(&root)).unwrap();
    // This process has HOME and PATH; cargo sets LD_LIBRARY_PATH for tests.
    let output = found.command(Path::new("/scratch")).arg("job").output().unwrap();
    let expected =
        format!("HOME= CUDA_HOME= LD= PATH={} TMPDIR=/scratch\n", root.join("bin").display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let set: Vec<OsString> =
        found.command(Path::new("/s")).get_envs().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(set, ["PATH", "TMPDIR"]);
}

#[test]
fn the_identity_is_that_of_all_three_programs() {
    let dir = tempfile::tempdir().unwrap();
    let root = toolkit(dir.path(), "13.5", WHEELS);
    let found = Toolkit::find(&named(&root)).unwrap();
    let before = found.identity().unwrap();
    assert_eq!(before.tileiras, "tileiras\ntools, release 13.5, V13.5.37\n");
    assert_eq!(before.fingerprint(), "tileiras\ntools, release 13.5, V13.5.37");
    assert_eq!(before.list_versions, "13.1\n13.2\n");
    assert_eq!(found.identity().unwrap().digest(), before.digest());

    fs::write(&found.libnvvm, "another").unwrap();
    let nvvm = found.identity().unwrap();
    assert_ne!(nvvm.digest(), before.digest());
    program(&found.ptxas, &says("ptxas", "13.3"));
    let ptxas = found.identity().unwrap();
    assert_ne!(ptxas.digest(), nvvm.digest());
    // A patched tileiras says the same version.
    program(&found.tileiras, &format!("{}# patched\n", says("tileiras", "13.5")));
    let tileiras = found.identity().unwrap();
    assert_eq!(tileiras.tileiras, before.tileiras);
    assert_ne!(tileiras.digest(), ptxas.digest());
}
