//! The virtual GPU, seen from programs that use it: a driver linked by its SONAME, an assembler
//! called as cutile calls tileiras.

use cutile_build::virtual_gpu::{RecordedJob, VirtualGpu, VirtualGpuError, placeholder_digest};
use object::{Object as _, ObjectSymbol as _};
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

#[allow(unreachable_pub, reason = "the assembler's module, taken into a test")]
#[path = "../src/virtual_gpu/assembler/sha256.rs"]
mod assembler_sha256;

const MANIFEST_DIR: &str = env!("CARGO_MANIFEST_DIR");
const RUSTC: &str = "rustc";

/// What the tests share: both programs, the program that calls the driver, cubins of ptxas.
struct Shared {
    gpu: VirtualGpu,
    directory: PathBuf,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("virtual-gpu");
    let gpu = VirtualGpu::build(&shared, RUSTC.as_ref()).unwrap();
    let directory = own_folder(&shared);
    let library = format!("-Clink-arg={}", gpu.library().display());
    succeed(
        Command::new(RUSTC)
            .args(["--edition=2024", "-Dwarnings", "-Copt-level=1"])
            .arg(library)
            .arg(Path::new(MANIFEST_DIR).join("tests/virtual_gpu/program.rs"))
            .arg("-o")
            .arg(directory.join("program")),
    );
    for sm in [80, 90, 103, 121] {
        let ptx = format!(
            ".version 8.8\n.target sm_{sm}\n.address_size 64\n.visible .global .align 4 .u32 seven \
             = 7;\n.visible .global .align 4 .b8 zeros[12];\n.visible .entry k() {{ ret; }}\n"
        );
        let file = directory.join(format!("{sm}.ptx"));
        fs::write(&file, ptx).unwrap();
        let cubin = directory.join(format!("{sm}.cubin"));
        let arch = format!("-arch=sm_{sm}");
        succeed(Command::new(toolkit().join("bin/ptxas")).arg(arch).arg(file).arg("-o").arg(cubin));
    }
    Shared { gpu, directory }
});

/// A folder of this process in `parent`, since a runner can start a process for every test: a program
/// that runs cannot be written anew. Nothing ends a process's statics, so those of others that are over
/// go here.
fn own_folder(parent: &Path) -> PathBuf {
    const PREFIX: &str = "process-";
    for entry in fs::read_dir(parent).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Another process may be at it, too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let own = parent.join(format!("{PREFIX}{}", std::process::id()));
    let _ = fs::remove_dir_all(&own);
    fs::create_dir(&own).unwrap();
    own
}

impl Shared {
    fn cubin(&self, sm: u32) -> String {
        self.directory.join(format!("{sm}.cubin")).to_str().unwrap().to_owned()
    }

    fn command(&self, targets: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(self.directory.join("program"));
        command.args(arguments).envs(self.gpu.environment(targets, None));
        command
    }

    /// What the program prints on a GPU of these targets.
    fn run(&self, targets: &[&str], arguments: &[&str]) -> String {
        stdout(succeed(&mut self.command(targets, arguments)))
    }
}

fn toolkit() -> PathBuf {
    let of_project = Path::new(MANIFEST_DIR).ancestors().map(|dir| dir.join(".cutile/toolkit"));
    #[allow(clippy::disallowed_methods, reason = "a test takes its toolkit from where it is told")]
    std::env::var_os("CUDA_TOOLKIT_PATH")
        .map(PathBuf::from)
        .into_iter()
        .chain(of_project)
        .find(|toolkit| toolkit.join("bin/ptxas").is_file())
        .expect(
            "this test needs a CUDA toolkit: install one as .cutile/toolkit of the project, or \
             set CUDA_TOOLKIT_PATH to a directory that has bin/ptxas",
        )
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

fn stdout(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

// The driver

#[test]
fn each_target_is_an_ordinal_with_its_compute_capability() {
    let targets = ["sm_80", "sm_103", "sm_121"];
    let expected = "cuTile virtual GPU sm_80: 8.0, warps of 32, pools 1\n\
                    cuTile virtual GPU sm_103: 10.3, warps of 32, pools 1\n\
                    cuTile virtual GPU sm_121: 12.1, warps of 32, pools 1";
    assert_eq!(SHARED.run(&targets, &["devices"]), expected);
}

#[test]
fn without_targets_there_is_no_device_and_one_sentence_says_so() {
    let output = succeed(SHARED.command(&[], &["init", "twice"]).env_remove("CUTILE_VIRTUAL_GPU"));
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(stdout(output), "100 100");
    assert_eq!(said.matches("CUTILE_VIRTUAL_GPU is not set").count(), 1, "{said}");
    assert_eq!(SHARED.run(&[""], &["init"]), "100");
}

#[test]
fn malformed_targets_are_named() {
    for list in
        ["90", "sm_", "sm_9", "sm_9a", "sm_90a", "sm_1200", "sm_090", "sm_90,", "sm_90;sm_80"]
    {
        let output = succeed(&mut SHARED.command(&[list], &["init", "twice"]));
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(stdout(output), "1 1", "{list}");
        assert_eq!(said.matches(&format!("CUTILE_VIRTUAL_GPU={list}: found")).count(), 1, "{said}");
    }
    assert_eq!(SHARED.run(&["sm_80", " sm_90"], &["init"]), "0");
}

#[test]
fn nothing_works_before_init() {
    assert_eq!(SHARED.run(&["sm_90"], &["early"]), "ok");
}

#[test]
fn contexts_are_per_device_and_current_per_thread() {
    assert_eq!(SHARED.run(&["sm_80", "sm_90"], &["contexts"]), "ok");
}

#[test]
fn memory_is_zeroed_holds_what_is_copied_and_is_checked() {
    assert_eq!(SHARED.run(&["sm_90"], &["memory"]), "ok");
}

#[test]
fn handles_that_were_not_given_out_are_refused() {
    assert_eq!(SHARED.run(&["sm_90"], &["handles"]), "ok");
}

#[test]
fn host_functions_run_in_stream_order_on_a_thread_of_the_driver() {
    assert_eq!(SHARED.run(&["sm_90"], &["order"]), "ok");
}

#[test]
fn graphs_capture_and_replay() {
    assert_eq!(SHARED.run(&["sm_90"], &["graph", &SHARED.cubin(90)]), "ok");
}

#[test]
fn threads_share_a_device() {
    assert_eq!(SHARED.run(&["sm_80"], &["threads", &SHARED.cubin(80)]), "ok");
}

#[test]
fn a_cubin_loads_on_its_own_architecture_only() {
    for sm in [80, 90, 103, 121] {
        for target in ["sm_80", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"] {
            let expected = if target == format!("sm_{sm}") { "0" } else { "209" };
            let answered = SHARED.run(&[target], &["load", &SHARED.cubin(sm)]);
            assert_eq!(answered, expected, "sm_{sm} on {target}");
        }
    }
}

#[test]
fn an_older_abi_states_its_architecture_elsewhere() {
    let directory = TempDir::new().unwrap();
    let mut cubin = fs::read(SHARED.cubin(90)).unwrap();
    cubin[8] = 7;
    cubin[48..52].copy_from_slice(&0x005a_055a_u32.to_le_bytes());
    let file = directory.path().join("7.cubin");
    fs::write(&file, cubin).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(SHARED.run(&["sm_90"], &["load", file]), "0");
    assert_eq!(SHARED.run(&["sm_80"], &["load", file]), "209");
}

#[test]
fn what_is_no_whole_image_is_refused() {
    let directory = TempDir::new().unwrap();
    let cubin = fs::read(SHARED.cubin(90)).unwrap();
    let mut other_machine = cubin.clone();
    other_machine[18] = 62;
    let (_, placeholder) = assemble(&directory, b"bytecode", &["--gpu-name", "sm_90"]);
    let mut longer = placeholder.clone();
    longer[64] += 1;
    let images: [&[u8]; 9] = [
        b".version 8.8\n.target sm_90\n",
        b"\x7fELF",
        b"",
        &cubin[..64],
        &cubin[..cubin.len() / 2],
        &other_machine,
        &placeholder[..40],
        &placeholder[..64],
        &longer,
    ];
    for (number, image) in images.iter().enumerate() {
        let file = directory.path().join(format!("{number}.image"));
        fs::write(&file, image).unwrap();
        let answered = SHARED.run(&["sm_90"], &["load", file.to_str().unwrap()]);
        assert_eq!(answered, "200", "image {number}");
    }
}

#[test]
fn functions_and_variables_are_those_of_the_cubin() {
    let cubin = SHARED.cubin(121);
    assert_eq!(SHARED.run(&["sm_121"], &["launch", &cubin, "k", "3"]), "0");
    assert_eq!(SHARED.run(&["sm_121"], &["launch", &cubin, "other", "3"]), "500");
    assert_eq!(SHARED.run(&["sm_121"], &["launch", &cubin, "seven", "3"]), "500");
    assert_eq!(SHARED.run(&["sm_121"], &["global", &cubin, "seven"]), "0 4 7");
    assert_eq!(SHARED.run(&["sm_121"], &["global", &cubin, "zeros"]), "0 12 0");
    assert_eq!(SHARED.run(&["sm_121"], &["global", &cubin, "k"]), "500 0 0");
}

#[test]
fn loads_and_launches_are_logged_for_other_processes() {
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("log");
    let (_, placeholder) = assemble(&directory, b"bytecode", &["--gpu-name", "sm_90"]);
    let image = directory.path().join("placeholder");
    fs::write(&image, &placeholder).unwrap();
    for (file, function) in [(image.to_str().unwrap(), "any_name"), (&SHARED.cubin(90), "k")] {
        let mut command = SHARED.command(&["sm_90"], &["launch", file, function, "2"]);
        assert_eq!(stdout(succeed(command.env("CUTILE_VIRTUAL_GPU_LOG", &log))), "0");
    }
    let job = hex(placeholder_digest(&placeholder).unwrap());
    let length = fs::metadata(SHARED.cubin(90)).unwrap().len();
    let expected = format!(
        "load sm_90 job {job}\nlaunch sm_90 any_name\nlaunch sm_90 any_name\n\
         load sm_90 cubin {length}\nlaunch sm_90 k\nlaunch sm_90 k\n"
    );
    assert_eq!(fs::read_to_string(log).unwrap(), expected);
}

/// What an unmodified program on cutile 0.5 calls.
const ENTRY_POINTS: &str = "
    cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetAttribute
    cuDeviceGetUuid_v2 cuDeviceTotalMem_v2 cuDeviceCanAccessPeer cuDevicePrimaryCtxRetain
    cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxGetState cuDevicePrimaryCtxSetFlags_v2
    cuCtxSetCurrent cuCtxGetCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetDevice
    cuCtxSynchronize cuCtxGetApiVersion cuCtxGetLimit cuCtxSetLimit cuCtxSetFlags
    cuCtxGetStreamPriorityRange cuStreamCreate cuStreamCreateWithPriority cuStreamDestroy_v2
    cuStreamSynchronize cuStreamQuery cuStreamGetCtx cuStreamGetPriority cuStreamWaitEvent
    cuStreamIsCapturing cuStreamAddCallback cuStreamAttachMemAsync cuStreamBeginCapture_v2
    cuStreamEndCapture cuGraphInstantiateWithFlags cuGraphLaunch cuGraphUpload cuGraphDestroy
    cuGraphExecDestroy cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventQuery
    cuEventSynchronize cuEventElapsedTime cuEventElapsedTime_v2 cuModuleLoad cuModuleLoadData
    cuModuleLoadDataEx cuModuleGetFunction cuModuleGetGlobal_v2 cuModuleUnload cuFuncGetAttribute
    cuFuncSetAttribute cuFuncSetCacheConfig cuMemAllocAsync cuMemAllocFromPoolAsync cuMemAlloc_v2
    cuMemAllocHost_v2 cuMemAllocManaged cuMemFreeAsync cuMemFree_v2 cuMemFreeHost cuMemHostAlloc
    cuMemHostGetDevicePointer_v2 cuMemGetAddressRange_v2 cuMemGetInfo_v2 cuMemAdvise_v2
    cuMemPrefetchAsync_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2
    cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 cuMemsetD8Async cuMemsetD8_v2 cuMemsetD32_v2
    cuLaunchKernel cuLaunchKernelEx cuLaunchHostFunc cuLaunchHostFunc_v2 cuGetErrorString
    cuGetErrorName cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuMemPoolSetAttribute
    cuMemPoolGetAttribute cuMemPoolCreate cuMemPoolDestroy
    cuOccupancyMaxActiveBlocksPerMultiprocessor cuOccupancyMaxPotentialClusterSize
    cuOccupancyMaxActiveClusters";

#[test]
fn the_driver_exports_the_entry_points_of_cuda_and_nothing_else() {
    let library = fs::read(SHARED.gpu.library()).unwrap();
    let library = object::File::parse(&*library).unwrap();
    let exports: Vec<&str> = library
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .map(|symbol| symbol.name().unwrap())
        .collect();
    let missing: Vec<&str> =
        ENTRY_POINTS.split_whitespace().filter(|name| !exports.contains(name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
    let foreign = |name: &&&str| !name.starts_with("cu");
    assert_eq!(exports.iter().find(foreign), None, "exports of std would shadow a program's");
}

#[test]
fn what_the_driver_lacks_is_named_once() {
    let output = SHARED.command(&["sm_90"], &["lacking"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "801\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("the program calls cuMemCreate, which a virtual GPU lacks").count(), 1);
    assert_eq!(said.lines().count(), 1, "{said}");
}

// The recording assembler

/// Runs the recording assembler as cutile runs tileiras; the answer is the job and the output.
fn assemble(directory: &TempDir, bytecode: &[u8], options: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let rehearsal = directory.path().join("rehearsal");
    let [input, output] = ["in.bc", "out.cubin"].map(|name| directory.path().join(name));
    fs::write(&input, bytecode).unwrap();
    succeed(
        assembler(&rehearsal)
            .args(options)
            .args(["--opt-level", "3", "-o"])
            .args([&output, &input]),
    );
    let output = fs::read(output).unwrap();
    let digest = hex(placeholder_digest(&output).unwrap());
    let job = fs::read(rehearsal.join("jobs").join(format!("{digest}.job"))).unwrap();
    assert_eq!(hex(Sha256::digest(&job)), digest);
    (job, output)
}

fn assembler(rehearsal: &Path) -> Command {
    let mut command = Command::new(SHARED.gpu.assembler());
    command.env("CUTILE_BUILD_REHEARSAL_DIR", rehearsal);
    command
}

#[test]
fn sha256_of_the_assembler_is_sha256() {
    let vectors = [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
    ];
    for (message, digest) in vectors {
        assert_eq!(hex(assembler_sha256::sha256(message.as_bytes())), digest);
    }
    for length in 0..300 {
        let message = vec![length as u8; length];
        assert_eq!(
            assembler_sha256::sha256(&message)[..],
            Sha256::digest(&message)[..],
            "{length}"
        );
    }
}

#[test]
fn versions_are_the_bytes_of_the_files() {
    let directory = TempDir::new().unwrap();
    let answers =
        [("--version", "tileiras-version"), ("--list-versions", "tileiras-list-versions")];
    for (question, file) in answers {
        let output = assembler(directory.path()).arg(question).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && said.contains(file), "{said}");

        let text = format!("{file}\n\n  13.5 \u{e9}\n").into_bytes();
        fs::write(directory.path().join(file), &text).unwrap();
        assert_eq!(succeed(assembler(directory.path()).arg(question)).stdout, text);
    }
}

#[test]
fn a_job_holds_options_and_bytecode() {
    let directory = TempDir::new().unwrap();
    let bytecode = b"\x7fTileIR\n\0 1\n2 ab\n".repeat(100);
    let (job, placeholder) = assemble(&directory, &bytecode, &["--gpu-name", "sm_100"]);
    let job = RecordedJob::parse(&job).unwrap();
    assert_eq!(job.args, ["--gpu-name", "sm_100", "--opt-level", "3"]);
    assert_eq!(job.bytecode, bytecode);
    assert_eq!((job.gpu_name(), job.opt_level()), (Some("sm_100"), Some(3)));
    assert!(!job.lineinfo() && !job.device_debug() && !job.sanitize_memcheck());
    assert_eq!(placeholder.len(), 72);

    let options = [
        ["--gpu-name", "sm_90", "--lineinfo", "--sanitize=memcheck"].as_slice(),
        &["--preview=simt", "-l", "/a path/\nwith a line.bc", "-l", "b", "--device-debug"],
    ]
    .concat();
    let (job, _) = assemble(&directory, b"", &options);
    let job = RecordedJob::parse(&job).unwrap();
    assert_eq!(job.args[..options.len()], options);
    assert!(job.lineinfo() && job.device_debug() && job.sanitize_memcheck());
    assert_eq!(job.tile_libraries(), ["/a path/\nwith a line.bc", "b"]);
    assert!(job.bytecode.is_empty());
}

#[test]
fn a_job_is_named_by_everything_in_it_and_by_no_path() {
    let [here, there] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let digest = |directory: &TempDir, bytecode: &[u8], options: &[&str]| {
        placeholder_digest(&assemble(directory, bytecode, options).1).unwrap()
    };
    let options = ["--gpu-name", "sm_90"];
    let first = digest(&here, b"a", &options);
    assert_eq!(first, digest(&there, b"a", &options), "paths are not in it");
    assert_eq!(first, digest(&here, b"a", &options), "and it can be recorded again");
    assert_ne!(first, digest(&here, b"b", &options));
    assert_ne!(first, digest(&here, b"a", &["--gpu-name", "sm_80"]));
    assert_ne!(first, digest(&here, b"a", &["--gpu-name", "sm_90", "--lineinfo"]));
    let jobs = fs::read_dir(here.path().join("rehearsal/jobs")).unwrap();
    let names: Vec<_> = jobs.map(|job| job.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.iter().all(|name| name.len() == 68 && name.ends_with(".job")), "{names:?}");
}

#[test]
fn malformed_calls_are_refused_in_a_sentence() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("in"), "bytecode").unwrap();
    let calls = [
        ("", "needed"),
        ("--gpu-name sm_90 -o out in", "--opt-level"),
        ("--opt-level 3 -o out in", "--gpu-name"),
        ("--gpu-name sm_90 --opt-level 4 -o out in", "--opt-level 4"),
        ("--gpu-name sm_90 --gpu-name sm_80 --opt-level 3 -o out in", "--gpu-name sm_80"),
        ("--gpu-name 90 --opt-level 3 -o out in", "--gpu-name 90"),
        ("--gpu-name sm_90 --opt-level 3 in", "-o is missing"),
        ("--gpu-name sm_90 --opt-level 3 -o a -o b in", "-o is given twice"),
        ("--gpu-name sm_90 --opt-level 3 in -o", "no value"),
        ("--gpu-name sm_90 --opt-level 3 -o out", "one input file, found 0"),
        ("--gpu-name sm_90 --opt-level 3 -o out in in", "one input file, found 2"),
        ("--gpu-name sm_90 --opt-level 3 --fast-math -o out in", "--fast-math"),
        ("--gpu-name sm_90 --opt-level 3 -o out absent", "cannot read absent"),
    ];
    for (call, sentence) in calls {
        let mut command = assembler(directory.path());
        let output =
            command.current_dir(directory.path()).args(call.split_whitespace()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{call}");
        assert!(said.starts_with("recording assembler: ") && said.contains(sentence), "{said}");
        assert!(!directory.path().join("out").exists() && !directory.path().join("jobs").exists());
    }
    let mut alone = Command::new(SHARED.gpu.assembler());
    let output = alone.env_remove("CUTILE_BUILD_REHEARSAL_DIR").arg("--version").output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("CUTILE_BUILD_REHEARSAL_DIR"));
}

#[test]
fn damaged_jobs_are_refused() {
    let directory = TempDir::new().unwrap();
    let (job, placeholder) = assemble(&directory, b"bytecode", &["--gpu-name", "sm_90"]);
    for length in 0..job.len() {
        assert!(RecordedJob::parse(&job[..length]).is_err(), "the first {length} bytes");
    }
    assert!(RecordedJob::parse(&[&job[..], b"x"].concat()).is_err());
    let text = String::from_utf8(job).unwrap();
    for (from, to) in
        [("job 1", "job 2"), ("\n4\n", "\n+4\n"), ("\n10 ", "\n9 "), ("\n8\n", "\n7\n")]
    {
        assert!(text.contains(from), "{text}");
        assert!(RecordedJob::parse(text.replacen(from, to, 1).as_bytes()).is_err(), "{from:?}");
    }
    assert_eq!(placeholder_digest(&placeholder[..71]), None);
    assert_eq!(placeholder_digest(&fs::read(SHARED.cubin(90)).unwrap()), None);
}

// Building

#[test]
fn builders_at_once_share_one_result_and_it_is_reused() {
    let directory = TempDir::new().unwrap();
    let build = || VirtualGpu::build(directory.path(), RUSTC.as_ref()).unwrap();
    let gpus: Vec<VirtualGpu> = std::thread::scope(|scope| {
        let builders: Vec<_> = (0..3).map(|_| scope.spawn(build)).collect();
        builders.into_iter().map(|builder| builder.join().unwrap()).collect()
    });
    assert!(gpus.iter().all(|gpu| *gpu == gpus[0]));
    let built = || fs::metadata(gpus[0].library()).unwrap().modified().unwrap();
    let before = built();
    assert_eq!(build(), gpus[0]);
    assert_eq!(built(), before);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no drafts are left");
    for program in [VirtualGpu::library, VirtualGpu::assembler] {
        let [here, there] = [&gpus[0], &SHARED.gpu].map(|gpu| fs::read(program(gpu)).unwrap());
        assert!(here == there, "the same bytes in any directory");
    }
}

#[test]
fn a_compiler_that_fails_is_quoted() {
    let directory = TempDir::new().unwrap();
    let error = VirtualGpu::build(directory.path(), "/no/such/rustc".as_ref()).unwrap_err();
    assert!(matches!(error, VirtualGpuError::CompilerNotRun { .. }));
    assert!(error.to_string().contains("/no/such/rustc"), "{error}");

    let failing = directory.path().join("failing-rustc");
    write_script(&failing, "[ \"$1\" = -vV ] && exit 0; echo 'linker `cc` not found' >&2; exit 1");
    let out = directory.path().join("out");
    let error = VirtualGpu::build(&out, failing.as_os_str()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("linker `cc` not found") && said.contains("C linker"), "{said}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "nothing is left of it");

    let colon = directory.path().join("a:b");
    let error = VirtualGpu::build(&colon, RUSTC.as_ref()).unwrap_err();
    assert!(matches!(error, VirtualGpuError::ColonInPath { .. }), "{error}");
}

fn write_script(file: &Path, body: &str) {
    // By another process: a file that this one has open for writing cannot be run by its threads.
    succeed(
        Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(file)
            .arg(body),
    );
}

#[test]
fn the_environment_puts_the_driver_first_and_keeps_the_rest() {
    let gpu = &SHARED.gpu;
    let value = |existing: Option<&str>, name| {
        let variables = gpu.environment(&["sm_80", "sm_90"], existing.map(OsStr::new));
        let found = variables.into_iter().find(|(variable, _)| *variable == name);
        found.unwrap().1.into_string().unwrap()
    };
    let directory = gpu.library_dir().to_str().unwrap();
    assert_eq!(value(None, "LD_LIBRARY_PATH"), directory);
    assert_eq!(value(Some(""), "LD_LIBRARY_PATH"), directory);
    assert_eq!(value(Some("/a:/b"), "LD_LIBRARY_PATH"), format!("{directory}:/a:/b"));
    assert_eq!(value(None, "CUTILE_VIRTUAL_GPU"), "sm_80,sm_90");
    assert_eq!(value(None, "CUTILE_TILEIRAS_PATH"), gpu.assembler().to_str().unwrap());
}

/// The embedded sources are no modules of this crate: nothing else formats or lints them.
#[test]
fn the_embedded_sources_are_formatted_and_without_warnings() {
    let out = TempDir::new().unwrap();
    for (root, kind) in [("driver/lib.rs", "cdylib"), ("assembler/main.rs", "bin")] {
        let root = Path::new(MANIFEST_DIR).join("src/virtual_gpu").join(root);
        succeed(
            Command::new(RUSTC)
                .args(["--edition=2024", "-Cpanic=abort", "-Dwarnings", "-Wmissing-docs"])
                .args(["-Wunreachable-pub", "-Wmissing-debug-implementations"])
                .args(["--crate-name=embedded", &format!("--crate-type={kind}"), "--out-dir"])
                .args([out.path(), &root]),
        );
        succeed(Command::new("rustfmt").args(["--edition=2024", "--check"]).arg(root));
    }
}
