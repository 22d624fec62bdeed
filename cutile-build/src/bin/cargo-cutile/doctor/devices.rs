//! The driver, its devices, and what is embedded for them.

use super::Check;
use super::driver::Driver;
use crate::embedded::bundle::{Embedded, EmbeddedBundle};
use crate::embedded::check::check as verify;
use crate::output::{clean, count};
use crate::subject;
use cutile_build::targets::{TARGETS, Target};
use cutile_build::toolkit::{INSTALL_COMMAND, MIN_TILEIRAS};
use std::collections::BTreeSet;
use std::path::Path;

const UPDATE: &str = "install NVIDIA's driver 580 or newer (https://www.nvidia.com/drivers)";

/// The checks; `binary` is the program that is to run here.
pub(super) fn check(driver: &Driver, has_toolkit: bool, binary: Option<&Path>) -> Vec<Check> {
    let mut checks = vec![driver_line(driver)];
    let embedded = binary.map(|path| read(path, &mut checks));
    for (ordinal, device) in driver.devices.iter().enumerate() {
        let name = format!("device {ordinal}");
        let text = format!("{}, {}", device.name, device.target);
        checks.push(match &embedded {
            _ if Target::parse(&device.target).is_none() => Check::fail(
                &name,
                text,
                format!("cutile does not compile for it; it compiles for {}", TARGETS.join(", ")),
            ),
            None => Check::ok(&name, text),
            Some(targets) if targets.contains(&device.target) => {
                Check::ok(&name, format!("{text}: there are images for it"))
            }
            Some(_) => missing(&name, &text, &device.target, has_toolkit),
        });
    }
    checks
}

fn missing(name: &str, text: &str, target: &str, has_toolkit: bool) -> Check {
    let found = format!("{text}: there are no images for it");
    let add = format!("add {target:?} to `targets` of [package.metadata.cutile] and build again");
    if has_toolkit {
        Check::warn(name, found, format!("launches compile at run time; {add}"))
    } else {
        Check::fail(
            name,
            found,
            format!("{add}. A toolkit would compile them at run time, and there is none here"),
        )
    }
}

fn driver_line(driver: &Driver) -> Check {
    let Driver { library, cuda, fault, devices, is_virtual } = driver;
    let name = "driver";
    let Some(library) = library else {
        let fault = fault.as_deref().unwrap_or_default();
        return Check::warn(
            name,
            format!("there is none ({fault})"),
            format!(
                "to run kernels {UPDATE}, in a container with --gpus all. Building needs none; \
                 without one `cargo cutile run` takes a virtual GPU"
            ),
        );
    };
    let version = cuda.map_or_else(String::new, |cuda| {
        format!("for CUDA {}.{}, ", cuda / 1000, cuda % 1000 / 10)
    });
    let module = kernel_module().map_or_else(String::new, |module| format!(" (module {module})"));
    let text = format!("{version}{library}{module}");
    if let (Some(fault), true) = (fault, *is_virtual) {
        return Check::fail(
            name,
            format!("the virtual GPU, {library}: {fault}"),
            "let CUTILE_VIRTUAL_GPU name its devices, as sm_90, or take its folder off \
             LD_LIBRARY_PATH",
        );
    }
    if let Some(fault) = fault {
        return Check::fail(
            name,
            format!("{text}: {fault}"),
            format!(
                "does nvidia-smi work? The library and the kernel module must be of one release: \
                 {UPDATE} and start the machine anew. In a container: --gpus all"
            ),
        );
    }
    if *is_virtual {
        return Check::warn(
            name,
            format!("the virtual GPU, {library}: it records, and computes nothing"),
            "to run on a GPU, take its folder off LD_LIBRARY_PATH",
        );
    }
    let needed = i32::try_from(MIN_TILEIRAS.major).unwrap_or(i32::MAX);
    match cuda {
        Some(cuda) if cuda / 1000 < needed => Check::fail(
            name,
            text,
            format!("images are built with CUDA {needed}, which it does not load: {UPDATE}"),
        ),
        _ if devices.is_empty() => Check::fail(
            name,
            format!("{text}: it has no device"),
            "does CUDA_VISIBLE_DEVICES hide it?",
        ),
        _ => Check::ok(name, text),
    }
}

/// The release of the driver's kernel module, on Linux.
fn kernel_module() -> Option<String> {
    module_release(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}

/// `580.65.06` of `NVRM version: NVIDIA UNIX … Kernel Module  580.65.06  Sun …`.
fn module_release(text: &str) -> Option<String> {
    let is_release =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.lines().next()?.split_whitespace().find(is_release).map(str::to_owned)
}

/// The targets that are embedded in a file, with a line for each crate.
fn read(path: &Path, checks: &mut Vec<Check>) -> BTreeSet<String> {
    let bytes = subject::read(path);
    let bytes = match bytes.as_ref() {
        Ok(bytes) => bytes,
        Err(failure) => {
            let advice = "name the program or library that embeds kernels";
            checks.push(Check::fail("embedded", failure.to_string(), advice));
            return BTreeSet::new();
        }
    };
    let embedded = Embedded::read(bytes);
    if embedded.is_empty() {
        let found = format!("nothing in {}", path.display());
        let advice = "does a crate of it call cutile_embed::embed!(), and is its build.rs there?";
        checks.push(Check::fail("embedded", found, advice));
    }
    let verdict = verify(&embedded, &mut |_, _| {});
    let mut problems = verdict.problems();
    if let Some(first) = problems.next() {
        let more = match problems.count() {
            0 => String::new(),
            more => format!(", and {} more", count(more, "problem")),
        };
        let kernel = first.kernel.as_ref().map_or_else(String::new, |kernel| format!("{kernel}: "));
        let advice = format!("cargo cutile verify {}", path.display());
        checks.push(Check::fail("embedded", format!("{kernel}{}{more}", first.what), advice));
    }
    checks.extend(embedded.bundles.iter().map(bundle_line));
    let targets = embedded.bundles.iter().flat_map(|bundle| &bundle.targets);
    let with_images = targets.filter(|target| target.pack.is_some());
    with_images.map(|target| target.name.clone()).collect()
}

fn bundle_line(bundle: &EmbeddedBundle<'_>) -> Check {
    let title = subject::title(bundle);
    if let Some(reason) = bundle.index.as_ref().and_then(|index| index.part.skipped) {
        let found = format!("{title}: nothing was built: {}", clean(reason));
        return Check::warn(
            "embedded",
            found,
            "build it with a toolkit and without CUTILE_BUILD=skip",
        );
    }
    if bundle.index.is_none() {
        let found = format!("{title}: there is no index that can be read, so nothing is installed");
        return Check::fail("embedded", found, "build it again");
    }
    let kernels = count(bundle.kernels().len(), "kernel");
    let targets: Vec<String> = bundle.targets.iter().map(|target| clean(&target.name)).collect();
    let shaders = bundle.manifest.as_ref().map_or(0, |manifest| manifest.part.shaders.len());
    let mut found = match targets.as_slice() {
        [] => format!("{title}: no kernels"),
        targets => format!("{title}: {kernels} for {}", targets.join(", ")),
    };
    if shaders > 0 {
        found.push_str(&format!(", {}", count(shaders, "shader")));
    }
    Check::ok("embedded", found)
}

/// What to do where there is no toolkit.
pub(super) fn install_toolkit() -> String {
    format!("to build kernels, or to compile at run time what is not embedded: {INSTALL_COMMAND}")
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::super::driver::Device;
    use super::*;
    use crate::embedded::fixture::{bundle, file};

    fn driver(targets: &[&str]) -> Driver {
        let device = |target: &&str| Device { name: "GPU".into(), target: (*target).into() };
        Driver {
            library: Some("/lib/libcuda.so.1".into()),
            cuda: Some(13_050),
            fault: None,
            devices: targets.iter().map(device).collect(),
            is_virtual: false,
        }
    }

    fn statuses(checks: &[Check]) -> Vec<(&str, Status)> {
        checks.iter().map(|check| (check.name.as_str(), check.status)).collect()
    }

    #[test]
    fn no_driver_is_a_warning_that_says_what_needs_one() {
        let none = Driver { fault: Some("no such file".into()), ..Driver::default() };
        let checks = check(&none, false, None);
        assert_eq!(statuses(&checks), [("driver", Status::Warn)]);
        assert!(checks[0].advice.as_ref().unwrap().contains("Building needs none"));
    }

    #[test]
    fn a_driver_that_cannot_be_used_is_a_failure() {
        let old = Driver { cuda: Some(12_080), ..driver(&["sm_90"]) };
        assert_eq!(check(&old, true, None)[0].status, Status::Fail);
        let broken = Driver { fault: Some("cuInit says X".into()), ..driver(&[]) };
        assert!(check(&broken, true, None)[0].found.contains("for CUDA 13.5"));
        assert_eq!(check(&broken, true, None)[0].status, Status::Fail);
        assert_eq!(check(&driver(&[]), true, None)[0].status, Status::Fail);
        let virtual_one = Driver { is_virtual: true, ..driver(&["sm_90"]) };
        assert_eq!(check(&virtual_one, true, None)[0].status, Status::Warn);
    }

    #[test]
    fn each_device_is_compared_with_what_is_embedded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app");
        std::fs::write(&path, file(&bundle("app", &["sm_90", "sm_120"]), 7)).unwrap();
        let checks = check(&driver(&["sm_90", "sm_86", "sm_75"]), true, Some(&path));
        let expected = [
            ("driver", Status::Ok),
            ("embedded", Status::Ok),
            ("device 0", Status::Ok),
            ("device 1", Status::Warn),
            ("device 2", Status::Fail),
        ];
        assert_eq!(statuses(&checks), expected);
        assert_eq!(checks[1].found, "app 1.2.3: 3 kernels for sm_90, sm_120, 1 shader");
        assert!(checks[3].advice.as_ref().unwrap().contains("add \"sm_86\" to `targets`"));
        // With nothing that could compile it, the launch fails.
        assert_eq!(check(&driver(&["sm_86"]), false, Some(&path))[2].status, Status::Fail);
    }

    #[test]
    fn a_file_that_embeds_nothing_or_is_not_there_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app");
        assert_eq!(check(&driver(&["sm_90"]), true, Some(&path))[1].status, Status::Fail);
        std::fs::write(&path, "nothing").unwrap();
        assert!(check(&driver(&["sm_90"]), true, Some(&path))[1].found.contains("nothing in"));
    }

    #[test]
    fn the_release_of_the_kernel_module_is_read() {
        let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release \
                    Build  (x)\nGCC version:  gcc 12.2.0";
        assert_eq!(module_release(text).as_deref(), Some("580.65.06"));
        assert_eq!(module_release(""), None);
    }
}
