//! The shader module against naga alone, over the corpus in `tests/wgsl`: what is accepted, what is
//! said about what is not, and what is written, which must not depend on the way through IR, packs
//! and entries, nor on the thread or process.
//!
//! Every test goes through all files and prints all that fail before it does.

#[path = "wgsl/child.rs"]
mod child;
#[path = "wgsl/corpus.rs"]
mod corpus;
#[path = "wgsl/naga_alone.rs"]
mod naga_alone;

use corpus::{File, Variant};
use cutile_embed::pack::{Pack, PackWriter};
use cutile_embed::shader::naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use cutile_embed::shader::naga::{EntryPoint, Module};
use cutile_embed::shader::{
    Artifact, Checked, Config, Kind, ShaderError, Source, Stage, capabilities, decode_entry,
    decode_ir, emit_spirv, encode_ir, entry_of, load_or_lower_with, parse, preimage, resolve,
};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Files that cannot be SPIR-V, and what naga says: it is an error, and not another shader.
const NOT_AS_SPIRV: [(&str, &str); 3] = [
    // A bound is asked for on every index, and naga knows none of this array.
    ("valid/binding_array_without_length.wgsl", "array length expression"),
    // We emit 1.3.
    ("valid/mesh_and_task.wgsl", "SPIRV-1.4"),
    // naga has a panic there.
    ("valid/texture_external.wgsl", "external textures"),
];

/// Files that cannot be WGSL again, and what our emitter says: naga's writer has a panic for rays,
/// and leaves the other two out without a word.
const NOT_AS_WGSL: [(&str, &str); 4] = [
    ("valid/early_depth_test.wgsl", "early depth test Some("),
    ("valid/ray_query.wgsl", "rays"),
    ("valid/ray_tracing_pipeline.wgsl", "rays"),
    ("valid/structure_with_explicit_layout.wgsl", "a variable: "),
];

/// Files whose emitted WGSL is other instructions for the same values.
const OTHERWISE_WRITTEN: [(&str, &str); 2] = [
    ("valid/arrays_with_dynamic_index.wgsl", "the place of a compound assignment is found twice"),
    ("valid/literals_of_every_kind.wgsl", "`let`s of literals are literals, which naga adds up"),
];

/// Collects what fails, so that one run shows all of it.
#[derive(Default)]
struct Failures(Vec<String>);

impl Failures {
    fn check(&mut self, what: &str, good: bool, why: impl FnOnce() -> String) {
        if !good {
            self.0.push(format!("{what}: {}", why()));
        }
    }

    fn none_of(self, all: usize) {
        assert!(all > 0, "nothing was compared");
        let Self(failures) = self;
        assert!(failures.is_empty(), "{} of {all}:\n{}", failures.len(), failures.join("\n"));
    }
}

fn no_disk() -> Config {
    Config::default().disk(None)
}

fn load(variant: Variant<'_>, kind: Kind) -> Result<Artifact, ShaderError> {
    let lowered = load_or_lower_with(&variant.request().kind(kind), &no_disk())?;
    assert_eq!(lowered.source, Source::Lowered);
    Ok(lowered.artifact)
}

fn spirv(variant: Variant<'_>) -> Result<Vec<u32>, ShaderError> {
    match load(variant, Kind::SpirV)? {
        Artifact::SpirV(words) => Ok(words),
        other => panic!("not SPIR-V: {other:?}"),
    }
}

fn wgsl(variant: Variant<'_>) -> Result<String, ShaderError> {
    match load(variant, Kind::Wgsl)? {
        Artifact::Wgsl(text) => Ok(text),
        other => panic!("not WGSL: {other:?}"),
    }
}

fn listed<'t>(list: &[(&str, &'t str)], file: &File) -> Option<&'t str> {
    list.iter().find(|(path, _)| *path == file.path).map(|(_, why)| *why)
}

#[test]
fn the_corpus_is_there() {
    let files = corpus::files();
    let invalid = files.iter().filter(|file| !file.valid).count();
    assert!(files.len() - invalid >= 70, "{} accepted files", files.len() - invalid);
    assert!(invalid >= 60, "{invalid} refused files");
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let named = NOT_AS_SPIRV.iter().chain(&NOT_AS_WGSL).chain(&OTHERWISE_WRITTEN);
    for (path, _) in named {
        assert!(paths.contains(path), "{path} is not there");
    }
    let mut failures = Failures::default();
    for file in files.iter().filter_map(|file| Some((file, file.same_text_as.as_ref()?))) {
        let (file, other) = file;
        let other = files.iter().find(|file| file.path == format!("{other}.wgsl")).unwrap();
        failures.check(&file.path, file.body() == other.body(), || {
            format!("it has not the text of {}", other.path)
        });
    }
    failures.none_of(files.len());
}

/// What is wrong with how we judge a text, as naga alone judges it.
fn misjudged(path: &str, text: &str, allowed: Capabilities) -> Option<String> {
    let ours = parse(path, text, allowed);
    match (naga_alone::check(path, text, allowed), ours) {
        (Ok(_), Ok(_)) => None,
        (Ok(_), Err(error)) => Some(format!("naga accepts it, and we say {error}")),
        (Err(refusal), Ok(_)) => Some(format!("we accept it, and naga says {}", refusal.shown)),
        (Err(refusal), Err(error)) => badly_said(path, text, &refusal, &error),
    }
}

/// What an error lacks of what naga knows.
fn badly_said(
    path: &str,
    text: &str,
    refusal: &naga_alone::Refusal,
    error: &ShaderError,
) -> Option<String> {
    let shown = error.to_string();
    let lacks = |what: &str| Some(format!("no {what} in: {shown}"));
    if !matches!(error.stage, Stage::Parse | Stage::Validate) || error.path != path {
        return lacks("right stage and path");
    }
    if !shown.contains(refusal.shown.trim_end()) {
        return lacks("text of naga");
    }
    // All of them are in there with the lines that naga breaks them into.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in &refusal.parts {
        let bare = shown.replace(['│', '╰', '╭', '='], " ");
        if !words(&bare).contains(&words(&part.replace('=', " "))) {
            return lacks(&format!("note `{part}`"));
        }
    }
    if error.advice.is_empty() || !shown.ends_with(&error.advice) {
        return lacks("advice");
    }
    let Some(place) = refusal.place else {
        return if error.at.is_some() { lacks("place to have") } else { None };
    };
    // naga counts bytes there, and characters where it marks the source.
    let line = text.lines().nth(place.line_number as usize - 1).unwrap_or_default();
    let before = line.get(..place.line_position as usize - 1).unwrap_or(line);
    let place = format!("{path}:{}:{}", place.line_number, before.chars().count() + 1);
    if !shown.starts_with(&format!("{place}: ")) {
        return lacks("place first");
    }
    // naga shows a longer character in place of these, and then marks what stands before.
    if text.contains(|c: char| c.is_control() && !c.is_whitespace()) {
        return None;
    }
    // Of several places it names the first in the text there, which need not be that of the fault.
    let named = error.message.contains(&format!("┌─ {path}:")) && error.message.contains('^');
    let marked = error.message.lines().any(|found| {
        // A tab is drawn as some spaces.
        found.contains('│') && words(found).ends_with(&words(line))
    });
    if named && marked { None } else { lacks("marked source line") }
}

#[test]
fn what_naga_accepts_is_accepted_and_what_it_refuses_is_refused_in_its_words() {
    let files = corpus::files();
    let mut failures = Failures::default();
    for file in &files {
        let allowed = naga_alone::of(file);
        let judged = naga_alone::check(&file.path, &file.text, allowed);
        failures.check(&file.path, judged.is_ok() == file.valid, || {
            format!("naga judges otherwise: {:?}", judged.as_ref().map_err(|error| &error.shown))
        });
        let wrong = misjudged(&file.path, &file.text, allowed);
        failures.check(&file.path, wrong.is_none(), || wrong.unwrap_or_default());
        if let (Some(says), Err(refusal)) = (&file.says, judged) {
            let said = refusal.shown.to_lowercase().contains(&says.to_lowercase());
            failures.check(&file.path, said, || format!("not for `{says}`: {}", refusal.shown));
        }
        for variant in file.variants() {
            let lowered = load(variant, Kind::Ir);
            failures.check(&variant.name(), lowered.is_ok() == file.valid, || {
                lowered.map_or_else(|error| error.to_string(), |_| "it was lowered".to_owned())
            });
        }
    }
    failures.none_of(files.len());
}

#[test]
fn without_one_of_its_features_a_file_is_judged_as_naga_judges_it() {
    let files = corpus::valid();
    let mut failures = Failures::default();
    let (mut all, mut refused) = (0, 0);
    for file in &files {
        for left_out in &file.features {
            let rest: Vec<_> = file.features.iter().filter(|name| *name != left_out).collect();
            let allowed = capabilities(&rest).unwrap();
            let wrong = misjudged(&file.path, &file.text, allowed);
            failures.check(&file.path, wrong.is_none(), || wrong.unwrap_or_default());
            all += 1;
            if let Err(error) = parse(&file.path, &file.text, allowed) {
                refused += 1;
                // naga's words for it are "Unable to cast".
                let plain = file.path == "valid/atomics_of_64_bits_min_max_only.wgsl";
                let advised = plain || error.advice.contains("features");
                failures.check(&file.path, advised, || error.to_string());
            }
        }
    }
    assert!(refused > 20, "only {refused} of {all} need what they declare");
    failures.none_of(all);
}

#[test]
fn a_text_with_random_faults_is_judged_as_naga_judges_it() {
    const PIECES: [&str; 16] = [
        "\u{1b}", "\0", "é", "値", "\t", "\r", "(", "}", "<", ",", ";", "1e99", "0x", "vec4", "&",
        "@id(1)",
    ];
    let files = corpus::files();
    let mut failures = Failures::default();
    let mut random = Random(0x5eed);
    for _ in 0..1500 {
        let file = &files[random.below(files.len())];
        let mut text: Vec<char> = file.text.chars().collect();
        for _ in 0..=random.below(3) {
            let (at, other) = (random.below(text.len()), random.below(text.len()));
            match random.below(3) {
                0 => drop(text.remove(at)),
                1 => text.swap(at, other),
                _ => {
                    let piece = PIECES[random.below(PIECES.len())];
                    text.splice(at..at, piece.chars());
                }
            }
        }
        let text: String = text.into_iter().collect();
        let allowed = naga_alone::of(file);
        let wrong = misjudged(&file.path, &text, allowed);
        failures.check(&file.path, wrong.is_none(), || {
            format!("{}\nin the text\n{text}", wrong.unwrap_or_default())
        });
    }
    failures.none_of(1500);
}

/// All valid variants as IR in one pack, as a build makes it.
fn packed(variants: &[Variant<'_>]) -> Vec<u8> {
    let mut pack = PackWriter::new("corpus", "1.0.0");
    for variant in variants {
        let (key, entry) = entry_of(&variant.request()).unwrap();
        // Constants are no part of IR: two that differ in nothing else must be the same bytes.
        pack.insert(key, entry).unwrap_or_else(|error| panic!("{}: {error}", variant.name()));
    }
    pack.finish()
}

/// The module of a request from its entry in a pack, without the text.
fn from_pack(pack: &Pack<'_>, variant: Variant<'_>) -> Result<Checked, String> {
    let request = variant.request();
    let preimage = preimage(&request).unwrap();
    let key = Sha256::digest(&preimage).into();
    let entry = pack.get(&key).ok_or("its key is not in the pack")?;
    let entry = entry.payload().map_err(|error| error.to_string())?;
    let payload = decode_entry(&entry, &preimage).map_err(|error| error.to_string())?;
    let module = decode_ir(payload).ok_or("its IR does not decode")?;
    if encode_ir(&module) != payload {
        return Err("its IR is not the same when it is encoded again".to_owned());
    }
    let capabilities = request.capabilities().unwrap();
    // `Checked` is made by `parse` only.
    let mut checked = parse("nothing", "", capabilities).unwrap();
    checked.info = validated(&module, capabilities)?;
    checked.module = module;
    Ok(checked)
}

fn validated(module: &Module, capabilities: Capabilities) -> Result<ModuleInfo, String> {
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(module)
        .map_err(|error| error.as_inner().to_string())
}

#[test]
fn spirv_from_embedded_ir_is_spirv_from_text() {
    let files = corpus::valid();
    let variants: Vec<_> = files.iter().flat_map(File::variants).collect();
    let bytes = packed(&variants);
    let pack = Pack::parse(&bytes).unwrap();
    let mut failures = Failures::default();
    let mut equal = 0;
    for variant in &variants {
        let name = variant.name();
        let expected = catch_unwind(AssertUnwindSafe(|| naga_alone::spirv(*variant)))
            .unwrap_or_else(|_| Err("naga panicked".to_owned()));
        let from_ir = from_pack(&pack, *variant).and_then(|checked| {
            let constants: Vec<_> =
                variant.constants.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let path = &variant.file.path;
            let allowed = naga_alone::of(variant.file);
            resolve(path, "", &checked, &constants, allowed)
                .and_then(|resolved| emit_spirv(path, &resolved))
                .map_err(|error| error.to_string())
        });
        let loaded = spirv(*variant).map_err(|error| error.to_string());
        match listed(&NOT_AS_SPIRV, variant.file) {
            None => {
                failures.check(&name, expected.is_ok(), || format!("naga alone: {expected:?}"));
                failures.check(&name, from_ir == expected, || differs(&from_ir, &expected));
                failures.check(&name, loaded == expected, || differs(&loaded, &expected));
                equal += usize::from(expected.is_ok());
            }
            Some(why) => {
                failures.check(&name, expected.is_err(), || "naga can".to_owned());
                for ours in [from_ir, loaded] {
                    let said = ours.as_ref().is_err_and(|error| error.contains(why));
                    failures.check(&name, said, || format!("not `{why}`: {ours:?}"));
                }
            }
        }
    }
    assert!(equal >= 100, "only {equal} are SPIR-V");
    failures.none_of(variants.len());
}

fn differs(ours: &Result<Vec<u32>, String>, naga: &Result<Vec<u32>, String>) -> String {
    match (ours, naga) {
        (Ok(ours), Ok(naga)) => {
            let at = ours.iter().zip(naga).position(|(a, b)| a != b);
            format!("{} words, naga alone {}; the first other one {at:?}", ours.len(), naga.len())
        }
        (Err(error), _) => error.clone(),
        (Ok(_), Err(error)) => format!("naga alone cannot: {error}"),
    }
}

#[test]
fn values_that_naga_refuses_are_refused() {
    let files = corpus::valid();
    let mut failures = Failures::default();
    let mut all = 0;
    for file in &files {
        for constants in &file.refused {
            let variant = Variant { file, entry_points: &file.entry_points[0], constants };
            all += 1;
            let alone = naga_alone::spirv(variant);
            failures.check(&variant.name(), alone.is_err(), || "naga takes them".to_owned());
            for kind in [Kind::SpirV, Kind::Wgsl] {
                let ours = load(variant, kind);
                let good = ours
                    .as_ref()
                    .is_err_and(|error| matches!(error.stage, Stage::Constants | Stage::Validate));
                failures.check(&variant.name(), good, || format!("{kind:?}: {ours:?}"));
            }
        }
    }
    failures.none_of(all);
}

/// The entry points of a module, each with what it uses of the bindings, and how.
fn used(module: &Module, info: &ModuleInfo) -> Vec<String> {
    let row = |(at, entry): (usize, &EntryPoint)| {
        let info = info.get_entry_point(at);
        let used: BTreeSet<_> = module
            .global_variables
            .iter()
            .filter(|(variable, _)| !info[*variable].is_empty())
            .filter_map(|(variable, global)| Some((global.binding?, info[variable].bits())))
            .collect();
        let EntryPoint { name, stage, workgroup_size, early_depth_test, .. } = entry;
        format!("{name} {stage:?} {workgroup_size:?} {early_depth_test:?} {used:?}")
    };
    module.entry_points.iter().enumerate().map(row).collect()
}

/// How often each instruction is in a module, without types, constants and parts of values: of
/// those, the writer names what was not named and leaves out what nothing uses.
fn instructions(words: &[u32]) -> BTreeMap<u32, u32> {
    const TYPES_AND_CONSTANTS: std::ops::RangeInclusive<u32> = 19..=46;
    const DECORATE: u32 = 71;
    const COMPOSITE_EXTRACT: u32 = 81;
    let mut counts = BTreeMap::new();
    let mut at = 5;
    while let Some(first) = words.get(at) {
        let opcode = first & 0xffff;
        if !TYPES_AND_CONSTANTS.contains(&opcode)
            && ![DECORATE, COMPOSITE_EXTRACT].contains(&opcode)
        {
            *counts.entry(opcode).or_insert(0) += 1;
        }
        at += (first >> 16) as usize;
    }
    counts
}

#[test]
fn emitted_wgsl_is_the_same_shader_or_an_error() {
    let files = corpus::valid();
    let mut failures = Failures::default();
    let mut all = 0;
    for file in &files {
        let allowed = naga_alone::of(file);
        for variant in file.variants() {
            let name = variant.name();
            all += 1;
            let emitted = wgsl(variant);
            if let Some(why) = listed(&NOT_AS_WGSL, file) {
                let said = emitted.as_ref().is_err_and(|error| {
                    error.stage == Stage::Emit && error.to_string().contains(why)
                });
                failures.check(&name, said, || format!("not `{why}`: {emitted:?}"));
                continue;
            }
            let emitted = match emitted {
                Ok(text) => text,
                Err(error) => {
                    failures.check(&name, false, || error.to_string());
                    continue;
                }
            };
            let (found, info) = match naga_alone::check("emitted.wgsl", &emitted, allowed) {
                Ok(found) => found,
                Err(refusal) => {
                    failures.check(&name, false, || refusal.shown);
                    continue;
                }
            };
            // The other side from the text, resolved by what does not write WGSL.
            let constants: Vec<_> =
                variant.constants.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let names: Vec<&str> = variant.entry_points.iter().map(String::as_str).collect();
            let resolved = parse(&file.path, &file.text, allowed)
                .and_then(|checked| checked.select(&file.path, &file.text, &names, allowed))
                .and_then(|one| resolve(&file.path, &file.text, &one, &constants, allowed))
                .unwrap();
            let (expected, found) = (used(&resolved.module, &resolved.info), used(&found, &info));
            failures.check(&name, expected == found, || format!("{expected:#?} and {found:#?}"));

            let again = cutile_embed::shader::Request::new("emitted.wgsl", &emitted)
                .features(file.features.iter().map(String::as_str))
                .kind(Kind::SpirV);
            let again = load_or_lower_with(&again, &no_disk()).map(|lowered| lowered.artifact);
            match (spirv(variant), again) {
                (Ok(_), Ok(_)) if listed(&OTHERWISE_WRITTEN, file).is_some() => {}
                (Ok(first), Ok(Artifact::SpirV(second))) => {
                    let (first, second) = (instructions(&first), instructions(&second));
                    failures.check(&name, first == second, || format!("{first:?} and {second:?}"));
                }
                (Ok(_), second) => failures.check(&name, false, || format!("{second:?}")),
                (Err(_), _) => {}
            }
        }
    }
    failures.none_of(all);
}

/// A line for each request: what it is, and the digests of its IR and of its SPIR-V.
fn digests() -> Vec<String> {
    let files = corpus::valid();
    let variants: Vec<_> = files.iter().flat_map(File::variants).collect();
    let hex = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let mut lines = vec![format!("pack {}", hex(&packed(&variants)))];
    lines.extend(variants.iter().flat_map(|variant| {
        let (key, entry) = entry_of(&variant.request()).unwrap();
        let mut lines = vec![format!("{} ir {} {}", variant.name(), hex(&key), hex(&entry))];
        for kind in [Kind::SpirV, Kind::Wgsl] {
            let made = entry_of(&variant.request().kind(kind)).map(|(_, entry)| hex(&entry));
            lines.push(format!("{} {} {made:?}", variant.name(), kind.name()));
        }
        // An error is said on several lines; a line is what comes from a child.
        lines.iter().map(|line| line.replace('\n', " ")).collect::<Vec<_>>()
    }));
    lines
}

/// Run by `bytes_are_the_same_in_every_thread_and_process`.
#[test]
fn child_that_prints_digests() {
    if child::lines() == ["digests"] {
        digests().iter().for_each(|line| child::say(line));
    }
}

#[test]
fn bytes_are_the_same_in_every_thread_and_process() {
    let processes: Vec<_> = (0..2)
        .map(|_| child::start(child::command("child_that_prints_digests"), &["digests"]))
        .collect();
    let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(digests)).collect();
    let expected = digests();
    let mut failures = Failures::default();
    let threads = threads.into_iter().map(|thread| thread.join().unwrap());
    for found in threads.chain(processes.into_iter().map(child::finish)) {
        failures.check("lines", found.len() == expected.len(), || found.len().to_string());
        for (found, expected) in found.iter().zip(&expected) {
            failures.check(expected, found == expected, || found.clone());
        }
    }
    failures.none_of(expected.len());
}

/// xorshift64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[test]
fn every_mutated_entry_is_refused() {
    const MUTATIONS: usize = 20_000;
    let files = corpus::valid();
    let variants: Vec<_> = files.iter().flat_map(File::variants).collect();
    let entries: Vec<(Vec<u8>, Vec<u8>)> = variants
        .iter()
        .flat_map(|variant| [Kind::Ir, Kind::SpirV].map(|kind| variant.request().kind(kind)))
        .filter_map(|request| Some((preimage(&request).unwrap(), entry_of(&request).ok()?.1)))
        // What is refused is hashed whole: long ones only take longer.
        .filter(|(_, entry)| entry.len() < 6000)
        .collect();
    assert!(entries.len() >= 100, "{} entries", entries.len());
    let mut random = Random(0xc0ffee);
    let mut mutated = 0;
    while mutated < MUTATIONS {
        let (preimage, entry) = &entries[random.below(entries.len())];
        let (_, other) = &entries[random.below(entries.len())];
        let mut bytes = entry.clone();
        match random.below(4) {
            0 => {
                for _ in 0..=random.below(4) {
                    let at = random.below(bytes.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            1 => bytes.truncate(random.below(bytes.len())),
            2 => {
                // The start of one and the end of another, cut at any two places.
                bytes.truncate(random.below(bytes.len()));
                bytes.extend_from_slice(&other[random.below(other.len())..]);
            }
            _ => {
                // A piece of another one at the same place, so that lengths hold.
                let at = random.below(bytes.len().min(other.len()));
                let end = (at + 1 + random.below(64)).min(bytes.len().min(other.len()));
                bytes[at..end].copy_from_slice(&other[at..end]);
            }
        }
        if bytes == *entry {
            continue;
        }
        mutated += 1;
        // A panic in it fails the test, too.
        assert!(decode_entry(&bytes, preimage).is_err(), "mutation {mutated} was served");
    }
    for (at, (preimage, entry)) in entries.iter().enumerate() {
        assert!(decode_entry(entry, preimage).is_ok());
        let (other, _) = &entries[(at + 1) % entries.len()];
        assert!(other == preimage || decode_entry(entry, other).is_err());
    }
}
