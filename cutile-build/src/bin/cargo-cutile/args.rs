//! What may be written on the command line.

use crate::cache::Cache;
use crate::diff::Diff;
use crate::doctor::Doctor;
use crate::export::Export;
use crate::import::Import;
use crate::inspect::Inspect;
use crate::platform::Arch;
use crate::prebuild;
use crate::record::Record;
use crate::verify::Verify;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use cutile_build::targets::Target;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Finds or installs the CUDA toolkit that compiles cuTile kernels, then runs cargo
#[derive(Debug, Parser)]
#[command(
    name = "cargo cutile",
    bin_name = "cargo cutile",
    version,
    override_usage = "cargo cutile [OPTIONS] <CARGO-COMMAND> [ARGUMENTS]...\n       \
                      cargo cutile [OPTIONS] <COMMAND>",
    after_help = "Any other command is cargo's, and gets all that follows it; options of this\n\
                  command go before it:\n  \
                  cargo cutile run --release -p example-app\n  \
                  cargo cutile --virtual-gpu sm_90 test --workspace\n\n\
                  A command that compiles takes --report FILE.html as well, anywhere before --: a\n\
                  page of what took how long, and how large it got:\n  \
                  cargo cutile build --report kernels.html\n\n\
                  build and rustc take --reproducible: the same bytes in any folder, without paths\n\
                  of this machine and without a build cache, in target/reproducible:\n  \
                  cargo cutile build --release --reproducible\n\n\
                  The toolkit is taken from CUDA_TOOLKIT_PATH, .cutile/toolkit, CUDA_HOME or a\n\
                  usual place, in this order; without one it is installed into .cutile/."
)]
pub(crate) struct Cli {
    /// run, test, record on virtual GPUs, as sm_80,sm_90
    #[arg(long, global = true, display_order = 900, value_name = "TARGETS")]
    #[arg(value_parser = virtual_targets)]
    pub(crate) virtual_gpu: Option<String>,

    /// Download nothing; cargo gets it too
    #[arg(long, global = true, display_order = 901)]
    pub(crate) offline: bool,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the toolkit that is used and why, or install one
    #[command(after_help = "Examples:\n  \
                            cargo cutile toolkit install\n  \
                            cargo cutile toolkit fetch --to wheels --arch aarch64\n  \
                            cargo cutile toolkit install --from wheels")]
    Toolkit {
        #[command(subcommand)]
        action: Option<ToolkitAction>,
    },
    /// Build the virtual GPU, and say how to run a program on it
    #[command(after_help = "Example:\n  \
                            cargo cutile virtual-gpu --path")]
    VirtualGpu {
        /// Print only the folder for LD_LIBRARY_PATH
        #[arg(long)]
        path: bool,
    },
    /// Run a program, and write down which specializations it launched
    Record(Record),
    /// Compile a package's kernels into it, to be shipped with it
    Prebuild(prebuild::Arguments),
    /// Show what is embedded in a program or library
    Inspect(Inspect),
    /// Compare what two of them embed
    Diff(Diff),
    /// Check that what is embedded is whole and what it claims to be
    Verify(Verify),
    /// Write what is embedded as a disk cache, to seed machines
    Export(Export),
    /// Put entries of a file or a folder into your disk cache
    Import(Import),
    /// Show what this machine has for kernels, and what to do
    Doctor(Doctor),
    /// Sizes of the disk caches; evict or clear them
    Cache(Cache),
    /// A command of cargo.
    #[command(external_subcommand)]
    Cargo(Vec<OsString>),
}

impl Command {
    /// Whether it starts a program that may want a GPU, or is about the virtual one.
    fn runs_something(&self) -> bool {
        match self {
            Self::VirtualGpu { .. } | Self::Record(_) | Self::Prebuild(_) | Self::Cargo(_) => true,
            Self::Toolkit { .. }
            | Self::Inspect(_)
            | Self::Diff(_)
            | Self::Verify(_)
            | Self::Export(_)
            | Self::Import(_)
            | Self::Doctor(_)
            | Self::Cache(_) => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolkitAction {
    /// Install the toolkit into .cutile/ of this workspace
    Install {
        /// Take the wheels from here, not from the network
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
    },
    /// Download the wheels only, to carry them to a machine without network
    Fetch {
        /// The folder to put them into
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// The other machine's processor: x86_64 or aarch64
        #[arg(long, value_enum, hide_possible_values = true)]
        arch: Option<Arch>,
    },
}

/// The command line, or the end of this process with what is wrong with it.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Cli {
    let cli = Cli::try_parse_from(without_subcommand_name(arguments))
        .unwrap_or_else(|error| explained(error).exit());
    if cli.virtual_gpu.is_some() && !cli.command.runs_something() {
        let text = "this command runs nothing on a GPU: leave --virtual-gpu out";
        Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
    }
    cli
}

/// `--report` and `--reproducible` are taken out of cargo's arguments, and so are unknown wherever
/// else they stand.
fn explained(error: clap::Error) -> clap::Error {
    // Only `help` asks for one by its name: all others are cargo's.
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) {
        let text = format!("{name} is a command of cargo's: cargo help {name}");
        return Cli::command().error(ErrorKind::InvalidSubcommand, text);
    }
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) if name == "--reproducible" => Cli::command().error(
            ErrorKind::UnknownArgument,
            "--reproducible goes behind a command of cargo's that makes a program, as in cargo \
             cutile build --release --reproducible",
        ),
        Some(ContextValue::String(name)) if name == "--report" => Cli::command().error(
            ErrorKind::UnknownArgument,
            "--report goes behind a command of cargo's that compiles, as in cargo cutile build \
             --report kernels.html",
        ),
        _ => error,
    }
}

/// Cargo calls `cargo-cutile cutile ARGUMENTS`; the alias calls `cargo-cutile ARGUMENTS`.
pub(crate) fn without_subcommand_name(
    arguments: impl Iterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    let mut before = true;
    arguments.enumerate().filter_map(move |(index, argument)| {
        let name = before && index == 1 && argument == OsStr::new("cutile");
        before = index == 0;
        (!name).then_some(argument)
    })
}

fn virtual_targets(text: &str) -> Result<String, String> {
    let names: Vec<&str> = text.split(',').collect();
    // The same target may stand twice here: two devices of one architecture.
    for name in &names {
        Target::parse_list("it", &[*name]).map_err(|error| error.to_string())?;
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Cli, clap::Error> {
        let arguments = words.split_whitespace().map(OsString::from);
        Cli::try_parse_from(without_subcommand_name(arguments))
    }

    fn cargo(cli: Cli) -> Vec<String> {
        let Command::Cargo(arguments) = cli.command else { panic!("{cli:?}") };
        arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn called_by_cargo_or_by_the_alias_it_is_the_same() {
        for words in ["cargo-cutile build -p a", "cargo-cutile cutile build -p a"] {
            assert_eq!(cargo(parse(words).unwrap()), ["build", "-p", "a"]);
        }
        // Only the first is cargo's.
        assert_eq!(cargo(parse("x cutile run cutile").unwrap()), ["run", "cutile"]);
        assert_eq!(cargo(parse("x run cutile").unwrap()), ["run", "cutile"]);
    }

    #[test]
    fn what_follows_a_cargo_command_is_its_own() {
        let cli = parse("x --virtual-gpu sm_80,sm_80 run --offline -- --virtual-gpu no").unwrap();
        assert_eq!(cli.virtual_gpu.as_deref(), Some("sm_80,sm_80"));
        assert!(!cli.offline);
        assert_eq!(cargo(cli), ["run", "--offline", "--", "--virtual-gpu", "no"]);
    }

    #[test]
    fn options_may_stand_anywhere_for_our_own_commands() {
        assert!(parse("x toolkit install --offline").unwrap().offline);
        assert!(parse("x --offline toolkit install").unwrap().offline);
        let cli = parse("x virtual-gpu --path --virtual-gpu sm_90").unwrap();
        assert_eq!(cli.virtual_gpu.as_deref(), Some("sm_90"));
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_valid_ones() {
        let error = explained(parse("x help build").unwrap_err()).to_string();
        assert!(error.contains("build is a command of cargo's: cargo help build"), "{error}");
        let error = parse("x --virtual-gpu sm_81 run").unwrap_err().to_string();
        assert!(error.contains("sm_81") && error.contains("sm_80"), "{error}");
    }

    #[test]
    fn an_option_before_the_command_says_where_it_goes() {
        for words in ["x --report a.html build", "x --report=a.html build", "x doctor --report a"] {
            let error = explained(parse(words).unwrap_err()).to_string();
            assert!(error.contains("cargo cutile build --report kernels.html"), "{error}");
        }
        for words in ["x --reproducible build", "x doctor --reproducible"] {
            let error = explained(parse(words).unwrap_err()).to_string();
            assert!(error.contains("cutile build --release --reproducible"), "{error}");
        }
        let error = explained(parse("x doctor --repor").unwrap_err()).to_string();
        assert!(error.contains("'--repor'"), "{error}");
    }

    #[test]
    fn no_command_is_an_error() {
        assert!(parse("x").is_err());
        assert!(parse("x --offline").is_err());
    }
}
