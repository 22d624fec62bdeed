//! `export` and `import`, as processes, on files made here: no CUDA is needed.
#![cfg(all(feature = "cli", unix))]

mod embedded;

use cutile_embed::store::{FileSystemJitStore, JitStore as _};
use embedded::fixture::{self, Plan};
use embedded::{CUTILE, GEMM, Home, call};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Key to value of every entry below a cache.
fn entries(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for shard in fs::read_dir(root).into_iter().flatten().flatten() {
        for file in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
            let name = file.file_name().into_string().unwrap();
            let key = name.strip_suffix(".cubin").expect(&name).to_owned();
            assert!(key.starts_with(shard.file_name().to_str().unwrap()));
            found.push((key, fs::read(file.path()).unwrap()));
        }
    }
    found.sort();
    found
}

fn cache(home: &Home) -> PathBuf {
    home.path(".cache/cutile/kernels")
}

#[test]
fn export_writes_the_layout_that_a_store_reads() {
    let home = Home::new();
    let app = home.app("app");
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir)])
        .expect(0)
        .says(&["6 images for sm_80, sm_90", "Shaders are not exported"]);
    let found = entries(&dir);
    assert_eq!(found.len(), 6);
    let store = FileSystemJitStore::new(&dir).unwrap();
    for (key, value) in found {
        assert_eq!(store.get(&key).unwrap(), Some(value));
    }
}

#[test]
fn export_of_one_target_has_no_other() {
    let home = Home::new();
    let app = home.app("app");
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir), "--target", "sm_90"]).expect(0);
    assert_eq!(entries(&dir).len(), 3);
    home.cutile(&["export", text(&app), text(&dir), "--target", "sm_86"])
        .expect(1)
        .says(&["has no images for sm_86; it has some for sm_80, sm_90"]);
}

#[test]
fn export_of_a_damaged_file_names_the_kernel_and_writes_nothing() {
    let home = Home::new();
    let built = Plan::new("app", &["sm_90"]).build_with(|image| {
        image.gpu_name = if image.kernel == GEMM { "sm_80" } else { "sm_90" }.into()
    });
    let app = home.write("app", fixture::file(&built, 3));
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir)]).expect(1).says(&[
        "nothing was written",
        GEMM,
        "it is for sm_80",
    ]);
    assert!(!dir.exists());
}

#[test]
fn export_into_what_is_no_folder_is_refused() {
    let home = Home::new();
    let app = home.app("app");
    let file = home.write("file", "");
    let dangling = home.path("dangling");
    std::os::unix::fs::symlink("nothing", &dangling).unwrap();
    for dir in [&file, &dangling] {
        home.cutile(&["export", text(&app), text(dir)])
            .expect(1)
            .says(&["is there, and is no folder"]);
    }
    assert!(!home.path("nothing").exists());
}

#[test]
fn export_refuses_what_import_would() {
    let home = Home::new();
    let built = Plan::new("app", &["sm_90"]).build_with(|image| image.sm = 80);
    let app = home.write("app", fixture::file(&built, 3));
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir)])
        .expect(1)
        .says(&["nothing was written", "its cubin is for sm_80"]);
    assert!(!dir.exists());
}

#[test]
fn export_needs_no_memory_for_all_images_at_once() {
    let home = Home::new();
    let mut plan = Plan::new("app", &["sm_90"]);
    let kernel = plan.kernels[0].clone();
    plan.kernels = (0..40)
        .map(|at| {
            let mut kernel = kernel.clone();
            kernel.function = format!("kernel_{at}");
            kernel
        })
        .collect();
    // 40 × 1 MB, which zstd makes small.
    let built = plan.build_with(|image| image.code = vec![0; 1 << 20]);
    let app = home.write("app", fixture::file(&built, 3));
    let within = |megabytes: u64, arguments: &[&str]| {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={}", megabytes << 20)).arg(CUTILE).args(arguments);
        call(command.env("HOME", home.root()).current_dir(home.root()))
    };
    // What the program takes by itself is another amount on another machine.
    let looks = |megabytes: &u64| within(*megabytes, &["inspect", text(&app)]).code == Some(0);
    let enough = (16..1024).step_by(4).find(looks).expect("some amount is enough");
    within(enough + 12, &["export", text(&app), "seed"]).expect(0).says(&["40 images"]);
}

#[test]
fn a_full_disk_says_how_far_it_came_and_the_next_call_goes_on() {
    let home = Home::new();
    let app = home.app("app");
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir)]).expect(0);
    let all = entries(&dir);
    fs::remove_dir_all(&dir).unwrap();
    // In the way of one of them.
    let last = &all.last().unwrap().0;
    let shard = home.write(&format!("seed/{}", &last[..2]), "no folder");
    let before = all.iter().filter(|(key, _)| key[..2] < last[..2]).count();
    home.cutile(&["export", text(&app), text(&dir)]).expect(1).says(&[
        "is no folder; delete it",
        &format!("{before} of 6 images are written"),
        "Call it again",
    ]);
    fs::remove_file(shard).unwrap();
    home.cutile(&["export", text(&app), text(&dir)]).expect(0);
    assert_eq!(entries(&dir), all);
}

#[test]
fn what_is_no_entry_by_its_name_is_passed_over_and_named() {
    let home = Home::new();
    let app = home.app("app");
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir)]).expect(0);
    let (key, _) = entries(&dir).remove(0);
    let shard = dir.join(&key[..2]);
    fs::rename(shard.join(format!("{key}.cubin")), shard.join("renamed.cubin")).unwrap();
    home.cutile(&["import", "--trust", text(&dir)]).expect(0).says(&[
        "5 images",
        "warning: 1 file passed over, which is no <2 digits>/<key>.cubin",
        "renamed.cubin",
    ]);
}

#[test]
fn a_file_in_the_way_of_the_cache_is_named() {
    let home = Home::new();
    let app = home.app("app");
    let file = home.write("file", "");
    let mut command = home.command(&["import", "--trust", text(&app)]);
    call(command.env("XDG_CACHE_HOME", &file))
        .expect(1)
        .says(&[&format!("{} is no folder", file.display()), "set XDG_CACHE_HOME"]);
}

#[test]
fn import_needs_trust_and_touches_nothing_without() {
    let home = Home::new();
    let app = home.app("app");
    home.cutile(&["import", text(&app)]).expect(1).says(&[
        "device code",
        "not who made it",
        "add --trust",
    ]);
    assert!(!home.path(".cache").exists());
}

#[test]
fn what_was_exported_is_imported_once() {
    let home = Home::new();
    let app = home.app("app");
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir)]).expect(0);
    home.cutile(&["import", "--trust", text(&dir)])
        .expect(0)
        .says(&["6 images", "0 were there already"]);
    assert_eq!(entries(&cache(&home)), entries(&dir));
    let mode = fs::metadata(cache(&home)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // From the file it is the same.
    home.cutile(&["import", "--trust", text(&app)])
        .expect(0)
        .says(&["0 images", "6 were there already"]);
}

#[test]
fn what_the_cache_has_is_kept_unless_it_is_damaged() {
    let home = Home::new();
    let app = home.app("app");
    home.cutile(&["import", "--trust", text(&app)]).expect(0);
    let all = entries(&cache(&home));
    let store = FileSystemJitStore::new(cache(&home)).unwrap();
    let (own, torn) = (&all[0], &all[1]);
    // Whole, and another's; and what a power cut left.
    store.put(&own.0, &all[2].1).unwrap();
    store.put(&torn.0, &torn.1[..50]).unwrap();
    home.cutile(&["import", "--trust", text(&app)]).expect(0).says(&["1 image ", "5 were there"]);
    assert_eq!(store.get(&own.0).unwrap().as_ref(), Some(&all[2].1));
    assert_eq!(store.get(&torn.0).unwrap().as_ref(), Some(&torn.1));
}

#[test]
fn a_damaged_entry_is_refused_and_the_others_are_imported() {
    let home = Home::new();
    let app = home.app("app");
    let dir = home.path("seed");
    home.cutile(&["export", text(&app), text(&dir)]).expect(0);
    let (key, mut value) = entries(&dir).remove(0);
    let at = value.len() - 100;
    value[at] ^= 1;
    fs::write(dir.join(&key[..2]).join(format!("{key}.cubin")), value).unwrap();
    home.cutile(&["import", "--trust", text(&dir)]).expect(1).says(&[
        "5 images",
        &format!("refused: {key}"),
        "does not match the digest",
    ]);
    let found = entries(&cache(&home));
    assert_eq!(found.len(), 5);
    assert!(found.iter().all(|(found, _)| *found != key));
}

#[test]
fn an_image_for_another_gpu_than_its_header_says_is_refused() {
    let home = Home::new();
    let built = Plan::new("app", &["sm_90"]).build_with(|image| image.sm = 80);
    let app = home.write("app", fixture::file(&built, 3));
    home.cutile(&["import", "--trust", text(&app)]).expect(1).says(&["its cubin is for sm_80"]);
    assert_eq!(entries(&cache(&home)), []);
}

#[test]
fn what_is_in_the_way_of_one_entry_is_not_in_the_way_of_the_others() {
    let home = Home::new();
    let app = home.app("app");
    home.cutile(&["import", "--trust", text(&app)]).expect(0);
    let (key, _) = entries(&cache(&home)).remove(0);
    fs::remove_dir_all(cache(&home).join(&key[..2])).unwrap();
    fs::create_dir_all(cache(&home).join(&key[..2]).join(format!("{key}.cubin/x"))).unwrap();
    home.cutile(&["import", "--trust", text(&app)]).expect(1).says(&[
        "5 were there already",
        &format!("refused: {key}: cannot be put below"),
        "1 image refused",
    ]);
}

#[test]
fn a_cache_that_others_can_enter_is_not_written() {
    let home = Home::new();
    let app = home.app("app");
    fs::create_dir_all(cache(&home)).unwrap();
    fs::set_permissions(cache(&home), fs::Permissions::from_mode(0o755)).unwrap();
    home.cutile(&["import", "--trust", text(&app)]).expect(1).says(&["mode 0755", "delete it"]);
    assert_eq!(entries(&cache(&home)), []);
}

#[test]
fn what_is_no_cache_and_no_program_is_refused() {
    let home = Home::new();
    let folder = home.path("folder");
    fs::create_dir(&folder).unwrap();
    home.cutile(&["import", "--trust", text(&folder)]).expect(1).says(&["is no cache"]);
    let file = home.write("file", "text");
    home.cutile(&["import", "--trust", text(&file)]).expect(1).says(&["nothing is embedded"]);
    assert!(!home.path(".cache").exists());
}
