//! `cargo cutile toolkit`: what was found and why; `install`; `fetch`.

use crate::args::{Cli, ToolkitAction};
use crate::choice::{Choice, Libclang};
use crate::download;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::install::{Install, announcement};
use crate::output::{clean, print, say};
use crate::platform::Facts;
use crate::wheels::Parts;
use crate::workspace::{DotCutile, INCLUDE_LINE, Recorded};
use cutile_build::toolkit::Chosen;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(
    cli: &Cli,
    action: Option<&ToolkitAction>,
    environ: &Environ,
) -> Result<ExitCode, Failure> {
    let offline = cli.offline || environ.offline();
    match action {
        None => show(environ),
        Some(ToolkitAction::Install { from }) => install(environ, from.as_deref(), offline),
        Some(ToolkitAction::Fetch { to, arch }) => {
            if offline {
                return Err("`toolkit fetch` downloads, and --offline or CARGO_NET_OFFLINE \
                            forbids it: call it where there is a network"
                    .into());
            }
            let here = Facts::probe(Some(environ.python()));
            // The machine that the wheels are for may be another: only python has to be here.
            let arch = match arch {
                Some(arch) => {
                    Facts { os: "linux", arch: arch.name(), musl: false, ..here }.supported()?
                }
                None => here.supported()?,
            };
            say!("Downloading for {} into {}", arch.name(), to.display());
            say!("{}", announcement(Parts::ALL, arch));
            download::download(environ, Parts::ALL, arch, to)?;
            print(&format!(
                "Carry {} to the other machine, and call there\n  \
                 cargo cutile toolkit install --from DIR\n",
                to.display()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn install(environ: &Environ, from: Option<&Path>, offline: bool) -> Result<ExitCode, Failure> {
    let dot = DotCutile::locate(environ, None)?;
    let choice = Choice::of(environ, &dot);
    // This command installs whatever toolkit the system has, and libclang only if it has none.
    let parts = Parts {
        toolkit: !choice.toolkit.as_ref().is_ok_and(|found| found.root == dot.toolkit()),
        libclang: choice.libclang == Libclang::Missing,
    };
    let nothing = parts.is_empty();
    if !nothing {
        Install { environ: choice.environ(), dot: &dot, parts, from, offline }.run()?;
    }
    Choice::of(environ, &dot).publish()?;
    print(&format!(
        "{} in {}\n",
        if nothing { "The toolkit is already installed" } else { "The toolkit is installed" },
        dot.toolkit().display()
    ))?;
    show(environ)
}

fn show(environ: &Environ) -> Result<ExitCode, Failure> {
    let dot = DotCutile::here(environ)?;
    let choice = Choice::of(environ, &dot);
    let toolkit = match &choice.toolkit {
        Ok(toolkit) => toolkit,
        Err(error) => return Err(error.to_string().into()),
    };
    let identity = toolkit.identity().map_err(|error| error.to_string())?;
    let below =
        |path: &Path| path.strip_prefix(&toolkit.root).unwrap_or(path).display().to_string();
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<10}{}", clean(value));
    };
    row("toolkit", &toolkit.root.display().to_string());
    row("why", &toolkit.why.to_string());
    row(
        "tileiras",
        &format!(
            "{}, compiles Tile IR {}",
            release(&identity.tileiras),
            identity.list_versions.split_whitespace().collect::<Vec<_>>().join(" ")
        ),
    );
    row("ptxas", &release(&identity.ptxas));
    row("libnvvm", &format!("{}, {}…", below(&toolkit.libnvvm), &identity.nvvm_digest[..23]));
    match &toolkit.include {
        Some(include) => row("headers", &below(include)),
        None => row("headers", "none: there is no cuda.h; the CUDA crates cannot be built"),
    }
    match &choice.libclang {
        Libclang::Named(path) => row("libclang", &format!("{} (LIBCLANG_PATH)", path.display())),
        Libclang::Installed(path) => row("libclang", &path.display().to_string()),
        Libclang::System(found) => {
            row("libclang", &format!("{} (system)", found.library.display()))
        }
        Libclang::Missing => row("libclang", "none; the next `cargo cutile` command installs one"),
    }
    let recorded = Recorded::read(&DotCutile::at(toolkit.root.parent().unwrap_or(dot.path())));
    if toolkit.why == Chosen::Own && recorded.toolkit.as_deref() == Some(&*toolkit.root) {
        row("cargo", "plain cargo has it from .cutile/cargo.toml");
    }
    if toolkit.why == Chosen::Own {
        let beside = DotCutile::at(toolkit.root.parent().unwrap_or(dot.path()));
        if let Some(hint) = include_hint(&beside) {
            let _ = writeln!(text, "{hint}");
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// `13.5, V13.5.37` of what a program prints for `--version`.
pub(crate) fn release(version: &str) -> String {
    let line = version.lines().find_map(|line| line.split_once("release "));
    line.map_or_else(|| version.trim().replace('\n', " "), |(_, release)| release.to_owned())
}

/// What is left to do for plain cargo, in a workspace that does not include the file.
fn include_hint(dot: &DotCutile) -> Option<String> {
    let folder = dot.workspace().join(".cargo");
    // Not only `config.toml`: it may take in another file that includes this one.
    let includes = fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(".cutile/cargo.toml"))
    });
    (!includes).then(|| {
        format!(
            "For plain cargo (1.94 or newer), put this at the top of .cargo/config.toml:\n  \
             {INCLUDE_LINE}"
        )
    })
}
