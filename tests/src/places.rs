//! Where things are.

use cutile_build::toolkit::{Chosen, Toolkit};
use cutile_build::virtual_gpu::VirtualGpu;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folder of the workspace.
#[must_use]
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is a folder of the workspace")
}

/// The target folder that all fixtures share: the workspace's, which has cutile compiled.
pub(crate) fn target_dir() -> PathBuf {
    variable("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

/// A target folder beside the shared one that has compiled what that has, by links: nothing of what
/// it links to is written again, as cargo gives each crate of another folder files of its own. It
/// goes when it is dropped.
///
/// # Panics
///
/// Where a file cannot be linked.
#[must_use]
pub fn linked_target_dir() -> tempfile::TempDir {
    fn link(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a target folder") {
            let entry = entry.expect("a target folder");
            let to = to.join(entry.file_name());
            match entry.file_type().expect("a target folder").is_dir() {
                true => link(&entry.path(), &to),
                false => fs::hard_link(entry.path(), to).expect("a link in the target folder"),
            }
        }
    }
    let folder = tempfile::Builder::new().prefix("linked-").tempdir_in(target_dir());
    let folder = folder.expect("a temporary folder");
    // Not what belongs to cargo's run: its lock, and the programs.
    for part in ["debug/.fingerprint", "debug/build", "debug/deps"] {
        link(&target_dir().join(part), &folder.path().join(part));
    }
    folder
}

/// Folder of what the tests make.
pub(crate) fn tests_dir() -> PathBuf {
    workspace_root().join("target/cutile-tests")
}

/// An empty folder that is removed when it is dropped, 0700 as caches demand it.
#[must_use]
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("cutile-tests-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir()
        .expect("a temporary folder")
}

/// The folder of the toolkit that the tests compile with.
#[must_use]
pub fn toolkit_root() -> PathBuf {
    let named = variable("CUDA_TOOLKIT_PATH").map(PathBuf::from);
    named.unwrap_or_else(|| workspace_root().join(".cutile/toolkit"))
}

/// The toolkit that the tests compile with.
///
/// # Panics
///
/// Where there is none, with the command that installs one.
#[must_use]
pub fn toolkit() -> &'static Toolkit {
    static TOOLKIT: OnceLock<Toolkit> = OnceLock::new();
    TOOLKIT.get_or_init(|| {
        Toolkit::at(&toolkit_root(), Chosen::ToolkitPath).unwrap_or_else(|why| {
            panic!(
                "these tests compile kernels, and {} is no CUDA toolkit: {why}. Run them with \
                 `cargo cutile test`, which installs one, or name one in CUDA_TOOLKIT_PATH",
                toolkit_root().display()
            )
        })
    })
}

/// The virtual GPU, compiled once.
#[must_use]
pub fn virtual_gpu() -> &'static VirtualGpu {
    static DRIVER: OnceLock<VirtualGpu> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let rustc = variable("RUSTC").unwrap_or_else(|| "rustc".into());
        VirtualGpu::build(&tests_dir().join("virtual-gpu"), OsStr::new(&rustc))
            .expect("the virtual GPU compiles")
    })
}

/// A variable of the test's process, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    #[allow(clippy::disallowed_methods, reason = "the one place of the tests that reads them")]
    std::env::var_os(name).filter(|value| !value.is_empty())
}
