use super::super::bundle::Embedded;
use super::super::fixture::{self, Bundle, Image, Plan};
use super::super::scan::scan;
use super::*;

const GEMM: &str = "gemm::matmul<f16, 64, 64>";

fn verdict(bytes: &[u8]) -> Verdict {
    let (mut last, mut all) = (0, 0);
    let verdict = check(&Embedded::read(bytes), &mut |done, of| {
        assert_eq!(done, last + 1);
        (last, all) = (done, of);
    });
    assert_eq!(last, all);
    verdict
}

fn of(bundle: &Bundle) -> Verdict {
    verdict(&fixture::file(bundle, 3))
}

fn plan() -> Plan {
    Plan::new("app", &["sm_80", "sm_90"])
}

/// The problems of a bundle with an image of the gemm for sm_90 changed.
fn changed(change: impl Fn(&mut Image)) -> Vec<Problem> {
    let built = plan().build_with(|image| {
        if image.kernel == GEMM && image.target == "sm_90" {
            change(image);
        }
    });
    of(&built).problems().cloned().collect()
}

#[track_caller]
fn names_the_gemm(problems: &[Problem], words: &str) {
    let problem = problems.iter().find(|problem| problem.what.contains(words));
    let problem = problem.unwrap_or_else(|| panic!("{words:?} is not in {problems:#?}"));
    assert_eq!(problem.kernel.as_deref(), Some(GEMM), "{problem:?}");
    assert_eq!(problem.target.as_deref(), Some("sm_90"), "{problem:?}");
}

#[test]
fn a_whole_bundle_has_no_problem() {
    let verdict = of(&plan().build());
    assert!(verdict.is_whole(), "{verdict:#?}");
    let checked = &verdict.bundles[0];
    assert_eq!((checked.rows, checked.entries), (6, 9));
    assert_eq!(changed(|_| {}), []);
}

#[test]
fn a_header_that_is_not_its_rows_is_told() {
    names_the_gemm(&changed(|image| image.gpu_name = "sm_80".into()), "it is for sm_80");
    names_the_gemm(&changed(|image| image.opt_level = 2), "level 2 and flags 0, its row 3 and 0");
    names_the_gemm(&changed(|image| image.flags = 4), "level 3 and flags 4");
    names_the_gemm(&changed(|image| image.fingerprint = "another".into()), "\"another\"");
}

#[test]
fn a_cubin_that_is_not_what_is_claimed_is_told() {
    names_the_gemm(&changed(|image| image.sm = 100), "its cubin is for sm_100");
    names_the_gemm(
        &changed(|image| image.symbol = "other_entry".into()),
        "no function matmul_entry, but: other_entry",
    );
}

#[test]
fn a_row_without_an_entry_and_an_entry_without_a_row_are_told() {
    names_the_gemm(&changed(|image| image.in_pack = false), "the pack has no entry");
    names_the_gemm(&changed(|image| image.in_manifest = false), "the manifest has no such row");
    let problems = changed(|image| image.in_index = false);
    names_the_gemm(&problems, "the index has none");
    let entry = problems.iter().find(|problem| problem.what.contains("no row names the entry"));
    let entry = entry.expect("the entry without a row");
    assert_eq!((entry.kernel.as_deref(), entry.target.as_deref()), (None, Some("sm_90")));
    assert!(entry.offset.is_some());
}

#[test]
fn the_manifest_is_compared_with_the_index_and_the_cubins() {
    for (from, to, words) in [
        ("\"cutile\": \"0.5.0\"", "\"cutile\": \"0.6.0\"", "the index says cutile 0.5.0"),
        ("\"level\": 3", "\"level\": 2", "debug level"),
        ("\"f16\"", "\"f32\"", "the manifest has no such row"),
        ("    \"sm_90\"\n", "    \"sm_89\"\n", "targets sm_80, sm_90, the manifest sm_80, sm_89"),
        ("\"kind\": \"wgsl\"", "\"kind\": \"ir\"", "it is wgsl, ir by the manifest"),
    ] {
        let mut built = plan().build();
        let text = String::from_utf8(built.manifest).unwrap();
        assert!(text.contains(from), "{from}");
        built.manifest = text.replacen(from, to, 1).into_bytes();
        let verdict = of(&built);
        assert!(verdict.problems().any(|problem| problem.what.contains(words)), "{verdict:#?}");
    }
    for member in ["key", "sha256", "bytes"] {
        let mut built = plan().build();
        let text = String::from_utf8(built.manifest).unwrap();
        let at = text.find("\"images\"").unwrap();
        let at = at + text[at..].find(&format!("\"{member}\": ")).unwrap() + member.len() + 4;
        let digit = at + text[at..].find(|c: char| c.is_ascii_digit()).unwrap();
        let mut bytes = text.into_bytes();
        bytes[digit] = if bytes[digit] == b'9' { b'8' } else { bytes[digit] + 1 };
        built.manifest = bytes;
        let verdict = of(&built);
        assert!(!verdict.is_whole(), "{member}");
        assert!(verdict.problems().all(|problem| problem.kernel.is_some()), "{verdict:#?}");
    }
}

#[test]
fn a_part_that_is_missing_is_told() {
    let mut built = plan().build();
    built.index.clear();
    assert!(of(&built).problems().any(|problem| problem.what.contains("there is no index")));
    let mut built = plan().build();
    built.manifest.clear();
    assert!(of(&built).problems().any(|problem| problem.what.contains("no manifest")));
    let mut built = plan().build();
    built.packs.remove(0);
    let problems: Vec<_> = of(&built).problems().cloned().collect();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert_eq!(problems[0].target.as_deref(), Some("sm_80"));
    assert!(problems[0].what.contains("no pack that can be read has its 3 images"));
    let mut built = plan().build();
    built.shaders = None;
    let verdict = of(&built);
    let paths: Vec<_> = verdict.problems().filter_map(|problem| problem.kernel.clone()).collect();
    assert_eq!(paths, ["shaders/nothing.wgsl"; 3]);
}

#[test]
fn every_flipped_byte_of_pack_and_index_fails_but_what_carries_nothing() {
    let plan = Plan { shaders: true, ..Plan::new("app", &["sm_90"]) };
    let built = plan.build();
    let bytes = fixture::file(&built, 3);
    let parts = scan(&bytes);
    // Between payloads there are zeros that no digest covers and nothing reads; so are four bytes
    // of the index's header.
    let mut carries = vec![false; bytes.len()];
    for pack in &parts.packs {
        let rows = pack.part.entries().map(|entry| entry.offset).min().unwrap();
        // The last rows end up to 15 bytes before the first payload.
        let names = "app".len() + "1.2.3".len();
        let header = 80 + names + 88 * pack.part.len();
        assert!(rows - header < 16);
        carries[pack.offset..pack.offset + header].fill(true);
        for entry in pack.part.entries() {
            let start = pack.offset + entry.offset;
            carries[start..start + entry.stored.len()].fill(true);
        }
    }
    let index = &parts.indexes[0];
    carries[index.offset..index.offset + index.bytes].fill(true);
    carries[index.offset + 20..index.offset + 24].fill(false);
    for at in (0..bytes.len()).filter(|at| carries[*at]).step_by(11) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(!verdict(&damaged).is_whole(), "byte {at}");
    }
}

#[test]
fn a_flipped_byte_inside_an_image_names_its_kernel_and_target() {
    let bytes = fixture::file(&plan().build(), 3);
    let embedded = Embedded::read(&bytes);
    for kernel in embedded.bundles[0].kernels() {
        for (target, image) in &kernel.images {
            let (offset, entry) = image.entry.as_ref().unwrap();
            let mut damaged = bytes.clone();
            damaged[offset + entry.stored.len() / 2] ^= 0x10;
            let verdict = verdict(&damaged);
            let problems: Vec<_> = verdict.problems().collect();
            assert_eq!(problems.len(), 1, "{problems:#?}");
            assert_eq!(problems[0].kernel, Some(kernel.specialization.name()));
            assert_eq!(problems[0].target.as_deref(), Some(*target));
            assert_eq!(problems[0].offset, Some(*offset));
            assert!(problems[0].what.contains("does not match its digest"));
        }
    }
}

#[test]
fn an_entry_of_a_shader_under_another_key_is_told() {
    use cutile_embed::pack::{Pack, PackWriter};
    let mut built = plan().build();
    let old = built.shaders.take().unwrap();
    let old = Pack::parse(&old).unwrap();
    let mut pack = PackWriter::new("app", "1.2.3");
    for entry in old.entries() {
        let mut key = entry.key;
        key[0] ^= 1;
        pack.insert(key, entry.stored.to_vec()).unwrap();
    }
    built.shaders = Some(pack.finish());
    let verdict = of(&built);
    let stored = verdict.problems().filter(|problem| problem.what.contains("it is stored under"));
    assert_eq!(stored.count(), 3, "{verdict:#?}");
}

#[test]
fn a_damaged_pack_of_one_target_leaves_the_others_checked() {
    let mut built = plan().build();
    built.packs[0].1[60] ^= 1;
    let verdict = of(&built);
    assert_eq!(verdict.unreadable.len(), 1);
    assert!(verdict.unreadable[0].what.contains("index does not match its digest"));
    assert_eq!(verdict.bundles[0].problems.len(), 1);
    assert_eq!(verdict.bundles[0].problems[0].target.as_deref(), Some("sm_80"));
}

#[test]
fn whatever_the_bytes_are_nothing_panics() {
    let bytes = fixture::file(&plan().build(), 3);
    let mut noise = fixture::Noise(7);
    let mut place =
        || (0..4).fold(0usize, |at, _| at << 8 | usize::from(noise.byte())) % bytes.len();
    for _ in 0..400 {
        let mut damaged = bytes.clone();
        for _ in 0..3 {
            let (at, from) = (place(), place());
            damaged[at] = bytes[from];
        }
        damaged.truncate(bytes.len() - place() % 50);
        let embedded = Embedded::read(&damaged);
        let _ = check(&embedded, &mut |_, _| {});
    }
}
