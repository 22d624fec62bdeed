//! A machine that has one program, its shared libraries and a driver, and nothing else.

use crate::places::virtual_gpu;
use crate::program::{Printed, Program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the container has its program, and the driver.
const PROGRAM: &str = "program";
const DRIVER: &str = "driver";

/// User and group of the program: nobody's on every Linux.
const NOBODY: &str = "65534:65534";

/// What `sh` does outside, in a mount namespace of its own: `root`, its only shared folder being
/// read-only, and a `/tmp` that the program may write and not run anything from. The environment is
/// emptied last, as a program of the container's own would have to be there to do it.
const ENTER: &str = r#"
root=$1 user=$2 gpus=$3
shift 3
mount --bind "$root" "$root" &&
mount -o remount,bind,ro,nosuid,nodev "$root" &&
mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 tmpfs "$root/tmp" || exit 99
env -i LD_LIBRARY_PATH=/driver CUTILE_VIRTUAL_GPU="$gpus" \
    "$(command -v chroot)" --userspec="$user" --groups= "$root" /program "$@"
status=$?
written=$(ls -A "$root/tmp")
[ -z "$written" ] || { echo "the program left in /tmp: $written" >&2; exit 98; }
exit $status
"#;

/// The folder that is the container's root.
#[derive(Debug)]
pub struct Container {
    root: tempfile::TempDir,
}

impl Container {
    /// A container for this program, with the virtual GPU for a driver.
    ///
    /// # Panics
    ///
    /// Where `ldd` does not say which libraries it needs.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let scratch = tempfile::Builder::new()
            .prefix("cutile-tests-root-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir();
        let container = Self { root: scratch.expect("a temporary folder") };
        let driver = virtual_gpu().library();
        container.put(program.path(), Path::new(PROGRAM));
        container.put(&driver, &Path::new(DRIVER).join("libcuda.so.1"));
        for library in libraries(program.path()).into_iter().chain(libraries(&driver)) {
            container.put(&library, library.strip_prefix("/").expect("an absolute path"));
        }
        fs::create_dir(container.root.path().join("tmp")).expect("a folder");
        container
    }

    fn put(&self, from: &Path, to: &Path) {
        let to = self.root.path().join(to);
        fs::create_dir_all(to.parent().expect("a file below the root")).expect("a folder");
        fs::copy(from, to).expect("a file of the container");
    }

    /// Runs the program: as nobody, on a root that is read-only, with a `/tmp` that is noexec, and
    /// with two variables, the driver's folder and that of the virtual GPU. No `HOME`, no `PATH`,
    /// no shell, no `/proc`.
    ///
    /// It fails where the test may not make namespaces, or the program leaves a file in `/tmp`.
    #[must_use]
    pub fn run(&self, gpus: &str, arguments: &[&str]) -> Printed {
        let output = Command::new("unshare")
            .args(["--mount", "--", "sh", "-c", ENTER, "enter"])
            .arg(self.root.path())
            .args([NOBODY, gpus])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("unshare starts");
        Printed {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The shared libraries that a program or library needs, and the loader, by their paths here.
fn libraries(of: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(of).output().expect("ldd runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("not found"), "{}: {text}", of.display());
    // `libc.so.6 => /lib/libc.so.6 (0x0)`, `/lib64/ld-linux-x86-64.so.2 (0x0)`, and the kernel's
    // own, which has no path.
    let words =
        text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    words.map(PathBuf::from).collect()
}
