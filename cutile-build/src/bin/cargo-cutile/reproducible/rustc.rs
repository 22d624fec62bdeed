//! In front of rustc: cargo calls this program by another name, with rustc and its arguments, for
//! every unit, build scripts and macros too.

use super::{REMAP, SEPARATOR, WORKSPACE, WRAPPER, pair};
use crate::embedded::read::read_file;
use crate::environ::Environ;
use crate::output::{clean, say};
use crate::run_cargo::code;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The name by which it is called.
pub(crate) const NAME: &str = "cargo-cutile-rustc";

/// The option of rustc.
const OPTION: &str = "--remap-path-prefix";

/// How many paths that are left in a program are shown.
const SHOWN: usize = 3;

/// Whether this process was started in front of rustc.
pub(crate) fn is_called(program: Option<&OsString>) -> bool {
    program.and_then(|path| Path::new(path).file_name()) == Some(OsStr::new(NAME))
}

/// Runs rustc. `arguments` are rustc's path and what is for it.
pub(crate) fn run(arguments: &[OsString], environ: &Environ) -> ExitCode {
    let (Some(rustc), Some(remap)) = (arguments.first(), environ.get(REMAP)) else {
        say!(
            "error: {NAME} is called by cargo, in front of rustc, in a build by cargo cutile build \
             --reproducible; call that"
        );
        return ExitCode::FAILURE;
    };
    let remap = parts(remap);
    let mut command = match environ.get(WRAPPER) {
        Some(wrapper) => {
            let mut command = Command::new(wrapper);
            command.arg(rustc);
            command
        }
        None => Command::new(rustc),
    };
    command.args(&arguments[1..]);
    let own = own_folder(environ, std::env::current_dir().ok());
    for argument in remap.iter().chain(&own) {
        command.arg(OPTION).arg(argument);
    }
    let Some(linked) = linked(arguments).filter(|_| environ.get("CARGO_PRIMARY_PACKAGE").is_some())
    else {
        return not_run(rustc, &command.exec());
    };
    match command.status() {
        Ok(status) => {
            if status.success() {
                warn_of(&linked, &remap);
            }
            code(status)
        }
        Err(error) => not_run(rustc, &error),
    }
}

fn not_run(rustc: &OsStr, error: &std::io::Error) -> ExitCode {
    say!("error: {} does not run: {error}", rustc.to_string_lossy());
    ExitCode::FAILURE
}

fn parts(text: &OsStr) -> Vec<OsString> {
    let parts = text.as_bytes().split(|byte| [*byte] == *SEPARATOR.as_bytes());
    parts.filter(|part| !part.is_empty()).map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

/// The remap of the package's own folder, in both spellings: cargo compiles a package that is not of
/// the workspace in its own folder, and gives rustc absolute paths to it.
fn own_folder(environ: &Environ, current: Option<PathBuf>) -> Vec<OsString> {
    let workspace = environ.get(WORKSPACE).map(parts).unwrap_or_default();
    let Some(current) = current.filter(|current| !workspace.iter().any(|root| root == current))
    else {
        return Vec::new();
    };
    let Some(name) = current.file_name() else { return Vec::new() };
    let mut to = OsString::from("../");
    // rustc divides at the last `=`.
    to.push(OsString::from_vec(name.as_bytes().iter().map(|byte| without_equals(*byte)).collect()));
    let named = environ.get("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let named = named.filter(|named| *named != current && named.file_name() == Some(name));
    named.iter().chain([&current]).map(|from| pair(from, &to)).collect()
}

fn without_equals(byte: u8) -> u8 {
    if byte == b'=' { b'_' } else { byte }
}

/// What rustc links, where that is something to ship: a program or a library for others than rustc.
fn linked(arguments: &[OsString]) -> Option<PathBuf> {
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.to_str()
    };
    let name = value("--crate-name").filter(|name| !name.starts_with("build_script_"))?;
    let folder = value("--out-dir")?;
    let mut emitted =
        arguments.iter().filter_map(|argument| argument.to_str()?.strip_prefix("--emit="));
    emitted.find(|kinds| kinds.split(',').any(|kind| kind == "link"))?;
    let mut words = arguments.iter().filter_map(|argument| argument.to_str());
    let extra = words.find_map(|word| word.strip_prefix("extra-filename=")).unwrap_or_default();
    let file = match value("--crate-type")? {
        "bin" => format!("{name}{extra}"),
        "cdylib" | "dylib" => format!("lib{name}{extra}.so"),
        "staticlib" => format!("lib{name}{extra}.a"),
        _ => return None,
    };
    Some(Path::new(folder).join(file))
}

/// Cargo shows it, and again when nothing is to be done.
fn warn_of(linked: &Path, remap: &[OsString]) {
    // Another system has another name for it.
    let Ok(bytes) = read_file(linked) else { return };
    let froms: Vec<&[u8]> = remap.iter().filter_map(|pair| from_of(pair.as_bytes())).collect();
    let found = left(&bytes, &froms);
    if found.is_empty() {
        return;
    }
    let shown: Vec<String> = found.iter().take(SHOWN).map(|path| format!("  {path}")).collect();
    let more = found.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!("\n  and {more} more") };
    say!(
        "warning: {} is not the same in another folder: it has paths of this machine that no remap \
         reaches, as those of env!(\"CARGO_MANIFEST_DIR\") and of what build scripts write:\n{}{more}",
        linked.file_name().unwrap_or_default().to_string_lossy(),
        shown.join("\n"),
    );
}

fn from_of(pair: &[u8]) -> Option<&[u8]> {
    pair.iter().rposition(|byte| *byte == b'=').map(|at| &pair[..at])
}

/// The texts that begin with one of these paths, each once.
fn left(bytes: &[u8], froms: &[&[u8]]) -> Vec<String> {
    let mut found = Vec::new();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    for (at, _) in slashes {
        let rest = &bytes[at..];
        let is_path = |from: &&&[u8]| {
            rest.strip_prefix(**from).is_some_and(ends) && begins(&bytes[..at], from)
        };
        if froms.iter().find(is_path).is_some() {
            let printable = rest.iter().take_while(|byte| byte.is_ascii_graphic()).count();
            let text = String::from_utf8_lossy(&rest[..printable.min(100)]);
            let text = clean(&text);
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

/// Whether a path may begin behind this. `/src` is in the middle of very many; of a longer one it is
/// not asked, because texts stand one behind the other in a program.
fn begins(before: &[u8], from: &[u8]) -> bool {
    let is_short = from.iter().filter(|byte| **byte == b'/').count() < 2;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    !(is_short && before.last().is_some_and(is_name))
}

/// Whether the name ends here: `/home/me` is not in `/home/merlin`.
fn ends(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| *byte == b'/' || !byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn it_is_known_by_its_name() {
        let called = |path: &str| is_called(Some(&OsString::from(path)));
        assert!(called("/w/target/reproducible/cargo-cutile-rustc") && called(NAME));
        assert!(!called("/bin/cargo-cutile") && !is_called(None));
    }

    #[test]
    fn a_package_of_a_registry_gets_a_name_that_leads_back_to_it() {
        let environ = |manifest: &str| {
            let workspace = "/w\u{1f}/real/w";
            Environ::of(&[(WORKSPACE, workspace), ("CARGO_MANIFEST_DIR", manifest)])
        };
        let own =
            |manifest: &str, current: &str| own_folder(&environ(manifest), Some(current.into()));
        assert_eq!(own("/c/src/a-1.0.0", "/c/src/a-1.0.0"), ["/c/src/a-1.0.0=../a-1.0.0"]);
        assert_eq!(
            own("/link/a-1.0.0", "/c/src/a-1.0.0"),
            ["/link/a-1.0.0=../a-1.0.0", "/c/src/a-1.0.0=../a-1.0.0"]
        );
        assert_eq!(own("/x/a=b", "/x/a=b"), ["/x/a=b=../a_b"]);
        // Packages of the workspace are compiled in its root, in either spelling.
        assert!(own("/w/app", "/w").is_empty() && own("/w/app", "/real/w").is_empty());
        assert!(own("/", "/").is_empty() && own_folder(&environ("/a"), None).is_empty());
    }

    #[test]
    fn only_what_is_shipped_is_looked_into() {
        let unit = |name: &str, kind: &str, emit: &str| {
            linked(&words(&format!(
                "rustc --crate-name {name} src/main.rs --crate-type {kind} --emit={emit} -C \
                 metadata=1 -C extra-filename=-9f --out-dir /t/deps"
            )))
        };
        assert_eq!(unit("app", "bin", "dep-info,link"), Some("/t/deps/app-9f".into()));
        assert_eq!(unit("app", "cdylib", "link"), Some("/t/deps/libapp-9f.so".into()));
        for (name, kind, emit) in [
            ("build_script_build", "bin", "dep-info,link"),
            ("app", "lib", "dep-info,metadata,link"),
            ("app", "bin", "dep-info,metadata"),
        ] {
            assert_eq!(unit(name, kind, emit), None, "{name} {kind} {emit}");
        }
        assert_eq!(linked(&words("rustc -vV")), None);
        assert_eq!(linked(&words("rustc --crate-name")), None);
    }

    #[test]
    fn a_path_is_found_in_a_program_and_a_part_of_a_name_is_not() {
        let froms: [&[u8]; 2] = [b"/home/me", b"/src"];
        let left = |bytes: &[u8]| left(bytes, &froms);
        assert_eq!(
            left(b"text/home/me/app/data\0x /home/me\n/home/me/app/data"),
            ["/home/me/app/data", "/home/me"]
        );
        assert!(left(b"/home/merlin ../a-1.0.0/src/lib.rs /workspace").is_empty());
        assert_eq!(left(b"\0/src/main.rs"), ["/src/main.rs"]);
        assert_eq!(from_of(b"/a=b=/workspace"), Some(&b"/a=b"[..]));
    }
}
