//! The recording assembler: it stands where tileiras stands during a rehearsal.
//!
//! It answers `--version` and `--list-versions` with the bytes of two files, and a call to
//! compile by storing the job and writing a placeholder. It compiles nothing. The formats are in
//! `cutile_build::virtual_gpu`; this program is compiled by the `rustc` of the build that uses it.
//!
//! | below `CUTILE_BUILD_REHEARSAL_DIR` | |
//! |---|---|
//! | `tileiras-version` | read: what the real tileiras prints for `--version` |
//! | `tileiras-list-versions` | read: what it prints for `--list-versions` |
//! | `jobs/<sha256>.job` | written: one file a job, published by a rename |

mod sha256;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const DIRECTORY: &str = "CUTILE_BUILD_REHEARSAL_DIR";
const JOB_MAGIC: &str = "cutile-rehearsal-job 1";
const PLACEHOLDER_MAGIC: &[u8; 16] = b"cutile-rehearsal";

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("recording assembler: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<(), String> {
    let directory = std::env::var_os(DIRECTORY).filter(|directory| !directory.is_empty());
    let directory = directory.map(PathBuf::from).ok_or_else(|| {
        format!("{DIRECTORY} is not set; this program only works within a rehearsal")
    })?;
    let arguments = arguments
        .into_iter()
        .map(OsString::into_string)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|argument| format!("the argument {argument:?} is not UTF-8"))?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--version"] => print(&directory.join("tileiras-version")),
        ["--list-versions"] => print(&directory.join("tileiras-list-versions")),
        _ => record(&directory, Call::parse(arguments)?),
    }
}

fn print(file: &Path) -> Result<(), String> {
    let text =
        fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    std::io::stdout().write_all(&text).map_err(|error| format!("cannot write the answer: {error}"))
}

/// A call to compile.
struct Call {
    options: Vec<String>,
    output: PathBuf,
    input: PathBuf,
}

impl Call {
    /// Takes the options that cutile 0.5 gives, and no other: an option that a newer one adds
    /// must be looked at before jobs with it are believed.
    fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let (mut options, mut output, mut inputs) = (Vec::new(), None, Vec::new());
        let (mut has_target, mut has_level) = (false, false);
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().ok_or_else(|| format!("{argument} is given no value"));
            match argument.as_str() {
                "-o" => {
                    if output.replace(PathBuf::from(value()?)).is_some() {
                        return Err("-o is given twice".to_owned());
                    }
                    continue;
                }
                "--gpu-name" => {
                    let target = value()?;
                    let is_target = target.strip_prefix("sm_").is_some_and(|digits| {
                        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
                    });
                    if has_target || !is_target {
                        return Err(format!(
                            "--gpu-name {target}: expected one target such as sm_90"
                        ));
                    }
                    has_target = true;
                    options.extend([argument, target]);
                }
                "--opt-level" => {
                    let level = value()?;
                    if has_level || !matches!(level.as_str(), "0" | "1" | "2" | "3") {
                        return Err(format!(
                            "--opt-level {level}: expected one level of 0, 1, 2 or 3"
                        ));
                    }
                    has_level = true;
                    options.extend([argument, level]);
                }
                "-l" => {
                    let library = value()?;
                    options.extend([argument, library]);
                }
                "--device-debug" | "--lineinfo" | "--sanitize=memcheck" => options.push(argument),
                preview if preview.starts_with("--preview=") => options.push(argument),
                other if other.starts_with('-') => {
                    return Err(format!("the option {other} is not one that cutile 0.5 gives"));
                }
                _ => inputs.push(PathBuf::from(argument)),
            }
        }
        // Upstream asks with incomplete calls which bytecode versions an assembler takes, where
        // it has no --list-versions. This one takes all, and would lead it astray.
        if !has_target || !has_level {
            return Err("--gpu-name and --opt-level are both needed".to_owned());
        }
        let output = output.ok_or("-o is missing")?;
        match <[PathBuf; 1]>::try_from(inputs) {
            Ok([input]) => Ok(Self { options, output, input }),
            Err(inputs) => Err(format!("expected one input file, found {}", inputs.len())),
        }
    }
}

fn record(directory: &Path, call: Call) -> Result<(), String> {
    let input = call.input.display();
    let bytecode =
        fs::read(&call.input).map_err(|error| format!("cannot read {input}: {error}"))?;
    let mut job = format!("{JOB_MAGIC}\n{}\n", call.options.len()).into_bytes();
    for option in &call.options {
        job.extend(format!("{} {option}\n", option.len()).into_bytes());
    }
    job.extend(format!("{}\n", bytecode.len()).into_bytes());
    job.extend(bytecode);

    let digest = sha256::sha256(&job);
    let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    publish(&directory.join("jobs"), &format!("{name}.job"), &job)
        .map_err(|error| format!("cannot store a job in {}: {error}", directory.display()))?;

    let mut placeholder = b"\x7fELF".to_vec();
    placeholder.extend([0; 12]);
    placeholder.extend(PLACEHOLDER_MAGIC);
    placeholder.extend(digest);
    placeholder.extend((placeholder.len() as u64 + 8).to_le_bytes());
    let output = call.output.display();
    fs::write(&call.output, placeholder).map_err(|error| format!("cannot write {output}: {error}"))
}

/// Writes a whole file under a name that nobody reads, then gives it its own.
fn publish(directory: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let file = directory.join(name);
    if file.exists() {
        return Ok(());
    }
    // Processes of several containers may share a process id, but not the moment too.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let draft = directory.join(format!(".{name}.{}.{now}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&draft)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&draft, &file));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}
