//! What `install` does not do, by real means: memory that must not be read is memory that cannot be,
//! and a file that is opened ends the process.
//!
//! `cargo cutile test` has no GPU and `cargo cutile --virtual-gpu sm_90 test` has one: each runs the
//! half that is for it.

#![cfg(target_os = "linux")]

use cutile_embed::cuda::{BundleState, StoreState};
use cutile_embed::index::{CUTILE_VERSION, Index, IndexRow, IndexTarget, encode_rows};
use cutile_embed::manifest::{Codegen, Options, Specialization, Validator};
use cutile_embed::pack::PackWriter;
use cutile_embed::{Bundle, Devices, Disk, Installer};
use include_dir::{Dir, DirEntry, File};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use std::ptr::null_mut;

const TARGETS: [&str; 3] = ["sm_80", "sm_90", "sm_120"];
const KERNELS: usize = 1000;
/// Each is of two kernels.
const IMAGES: usize = KERNELS / 2;

/// Bytes in pages of their own.
struct Pages {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Pages {
    fn of(bytes: &[u8]) -> (Self, &'static [u8]) {
        let length = bytes.len().next_multiple_of(1 << 16);
        // SAFETY: new memory, nobody else's, never unmapped, filled before it is lent.
        unsafe {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            let start = mmap_anonymous(null_mut(), length, flags, MapFlags::PRIVATE).unwrap();
            let copy = std::slice::from_raw_parts_mut(start.cast::<u8>(), bytes.len());
            copy.copy_from_slice(bytes);
            (Self { start, length }, copy)
        }
    }

    /// From here on, whoever touches one of them is killed by signal 11.
    fn forbid(&self) {
        // SAFETY: the bytes are lent to a bundle, which must not look at them; that is the test.
        unsafe { mprotect(self.start, self.length, MprotectFlags::empty()) }.unwrap();
    }
}

fn codegen() -> Codegen {
    use cutile::tile_kernel::{CodegenMode, CompileOptions};
    match CompileOptions::default().codegen {
        CodegenMode::Debug => Codegen::Debug,
        CodegenMode::Optimized { level, lineinfo } => Codegen::Optimized { level, lineinfo },
    }
}

fn specialization(at: usize) -> Specialization {
    Specialization {
        source_hash: "ab".repeat(32),
        generics: vec!["f32".into(), at.to_string()],
        ..Specialization::new("kernels", &format!("kernel_{at}"), Options::new(codegen()))
    }
}

/// A bundle of 1,000 kernels for three targets, and the pages of its packs.
fn bundle() -> (&'static [Bundle], Vec<(&'static str, Pages)>) {
    let key = |at: usize| {
        let mut key = [7; 32];
        key[..8].copy_from_slice(&at.to_be_bytes());
        key
    };
    let row = |at: usize| IndexRow {
        specialization: specialization(at),
        image: key(at / 2),
        validator: Validator { params: vec![], launch_checks: vec![] },
    };
    let rows: Vec<IndexRow> = (0..KERNELS).map(row).collect();
    let encoded = encode_rows(&rows);
    let index = Index {
        package: "thousand",
        package_version: "1.0.0",
        cutile: CUTILE_VERSION,
        codegen: codegen(),
        prebuilt: false,
        skipped: None,
        kernels: KERNELS as u32,
        targets: TARGETS.map(|target| IndexTarget::new(target, &rows, &encoded)).to_vec(),
    };
    let file = |name: String, bytes: &'static [u8]| DirEntry::File(File::new(name.leak(), bytes));
    let mut files = vec![file("index.bin".into(), index.write().leak())];
    let mut pages = Vec::new();
    for target in TARGETS {
        let mut pack = PackWriter::new("thousand", "1.0.0").compress(1);
        for at in 0..IMAGES {
            pack.insert(key(at), format!("not a cubin {at} ").repeat(40).into_bytes()).unwrap();
        }
        let (of_pack, bytes) = Pages::of(&pack.finish());
        files.push(file(format!("images-{target}.pack"), bytes));
        pages.push((target, of_pack));
    }
    let dir: &'static Dir<'static> = Box::leak(Box::new(Dir::new("", files.leak())));
    (vec![Bundle::new(dir)].leak(), pages)
}

/// From here on a thread that opens a file, and those that it starts, are killed with the process
/// by signal 31.
fn forbid_files() {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let number = |call: libc::c_long| u32::try_from(call).unwrap();
    let mut calls = vec![number(libc::SYS_openat), number(libc::SYS_openat2)];
    #[cfg(target_arch = "x86_64")]
    calls.extend([number(libc::SYS_open), number(libc::SYS_creat)]);
    // The number of the call is the first word of what a filter is given.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        filter.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call));
        filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_TRAP));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a filter that the kernel copies and checks.
    let (privileges, filtered) = unsafe {
        (
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        )
    };
    assert_eq!((privileges, filtered), (0, 0), "{}", std::io::Error::last_os_error());
}

fn has_device() -> bool {
    use cutile::cuda_core::{Context, sys};
    sys::is_cuda_driver_available() && Context::device_count().is_ok_and(|count| count > 0)
}

#[test]
fn without_a_gpu_no_file_is_opened_and_no_pack_is_touched() {
    // The look for the driver is the loader's, and made once by whoever comes first.
    if has_device() {
        return;
    }
    let (bundles, pages) = bundle();
    // The report names the driver's error, with the loader's text.
    let _ = Installer::new().bundles(&[]).disk(Disk::Off).install();
    pages.iter().for_each(|(_, pages)| pages.forbid());
    // Of that thread only: a filter stays.
    let report = std::thread::spawn(move || {
        forbid_files();
        Installer::new().bundles(bundles).devices(Devices::All).install()
    })
    .join()
    .unwrap();
    assert!(report.no_device.is_some(), "{report}");
    assert_eq!(report.bundles[0].state, BundleState::Used, "{report}");
    assert_eq!((report.bundles[0].kernels, report.bundles[0].images), (KERNELS, 3 * IMAGES));
    assert_eq!(report.store, StoreState::None);
}

#[test]
fn packs_of_targets_that_are_not_on_the_machine_are_not_touched() {
    if !has_device() {
        return;
    }
    use cutile::cutile_compiler::cuda_tile_runtime_utils::get_gpu_name;
    let here = get_gpu_name(0);
    let (bundles, pages) = bundle();
    pages.iter().filter(|(target, _)| *target != here).for_each(|(_, pages)| pages.forbid());
    let report = Installer::new().bundles(bundles).disk(Disk::Off).install();
    let device = &report.devices[0];
    assert_eq!(device.target, here);
    // Those of this one were read: they are no cubins, and each of the two kernels is named.
    let names = |at| format!("kernels::kernel_{at}<f32, {at}> for {here}: ");
    let expected = if TARGETS.contains(&&*here) { KERNELS } else { 0 };
    let is_named = |at: &usize| {
        let start = names(*at);
        device.failed.iter().filter(|failed| failed.starts_with(&start)).count() == 1
    };
    assert_eq!((device.filled, device.failed.len()), (0, expected), "{report}");
    assert_eq!((0..expected).filter(is_named).count(), expected, "{report}");
    assert!(matches!(report.store, StoreState::Installed { .. }), "{report}");
}
