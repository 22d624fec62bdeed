use super::*;
use crate::embedded::fixture::{Plan, file};

fn diff(a: &Plan, b: &Plan) -> Vec<BundleDiff> {
    // Other places in the file are no difference.
    let (a, b) = (file(&a.build(), 3), file(&b.build(), 8));
    compare(&Embedded::read(&a), &Embedded::read(&b))
}

fn plan() -> Plan {
    Plan::new("app", &["sm_80", "sm_90"])
}

#[test]
fn the_same_bundle_elsewhere_is_the_same() {
    assert_eq!(diff(&plan(), &plan()), []);
}

#[test]
fn kernels_come_and_go() {
    let mut other = plan();
    let removed = other.kernels.remove(0);
    let found = diff(&plan(), &other);
    assert_eq!(found.len(), 1);
    let [kernel] = found[0].kernels.as_slice() else { panic!("{found:?}") };
    assert_eq!((kernel.status, &kernel.kernel), (Status::Removed, &removed.name()));
    assert_eq!(kernel.images.len(), 2);
    let found = diff(&other, &plan());
    assert_eq!(found[0].kernels[0].status, Status::Added);
    assert!(found[0].bytes[0] < found[0].bytes[1]);
}

#[test]
fn an_edited_kernel_is_changed_and_not_another() {
    let mut other = plan();
    other.kernels[0].source_hash = "00".repeat(32);
    other.kernels[1].modules[0].sha256 = "11".repeat(32);
    let found = diff(&plan(), &other);
    let why: Vec<_> = found[0].kernels.iter().map(|kernel| kernel.why.clone()).collect();
    assert_eq!(why, [vec!["its module's text"], vec!["the text of a module it uses"]]);
    assert!(found[0].kernels.iter().all(|kernel| kernel.status == Status::Changed));
}

#[test]
fn another_debug_level_is_a_change_of_the_same_kernel() {
    let mut other = plan();
    for kernel in &mut other.kernels {
        kernel.options.codegen = Codegen::Debug;
    }
    let found = diff(&plan(), &other);
    assert_eq!(found[0].kernels.len(), 3);
    for kernel in &found[0].kernels {
        assert_eq!((kernel.status, &*kernel.why), (Status::Changed, &["its debug level"][..]));
    }
}

#[test]
fn an_image_that_differs_in_one_byte_is_named() {
    let a = file(&plan().build(), 1);
    let b = plan().build_with(|image| {
        if image.kernel.starts_with("gemm") && image.target == "sm_90" {
            image.code[0] ^= 1;
        }
    });
    let b = file(&b, 1);
    let found = compare(&Embedded::read(&a), &Embedded::read(&b));
    let [kernel] = found[0].kernels.as_slice() else { panic!("{found:?}") };
    let [image] = kernel.images.as_slice() else { panic!("{kernel:?}") };
    assert_eq!((image.target.as_str(), image.status), ("sm_90", Status::Changed));
    assert_eq!(image.bytes[0], image.bytes[1]);
}

#[test]
fn targets_versions_and_shaders_are_compared() {
    let mut other = Plan::new("app", &["sm_90", "sm_120"]);
    other.package.version = "2.0.0".into();
    other.shaders = false;
    let found = diff(&plan(), &other);
    let fields: Vec<_> = found[0].fields.iter().map(|field| field.field).collect();
    assert_eq!(fields, ["version", "targets"]);
    let targets: Vec<_> =
        found[0].kernels[0].images.iter().map(|image| (&*image.target, image.status)).collect();
    assert_eq!(targets, [("sm_80", Status::Removed), ("sm_120", Status::Added)]);
    assert_eq!(found[0].shaders[0].status, Status::Removed);
}

#[test]
fn another_crate_is_added_and_removed() {
    let found = diff(&plan(), &Plan::new("other", &["sm_90"]));
    let statuses: Vec<_> = found.iter().map(|diff| (&*diff.package, diff.status)).collect();
    assert_eq!(statuses, [("app", Status::Removed), ("other", Status::Added)]);
}
