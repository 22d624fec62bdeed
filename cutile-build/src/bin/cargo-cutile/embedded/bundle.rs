//! Which parts of a file belong together: what one crate embeds.
//!
//! Parts name their package and its version, and packs do not name their target. Of the indexes of
//! one package (a universal binary has all of them twice) a pack belongs to the one whose rows name
//! most of its keys, then to one that has no such pack yet, then to the nearest.

use super::scan::{Located, Parts, Unreadable, scan};
use super::shader::is_shader_entry;
use cutile_embed::entry::ENTRY_HEADER_LEN;
use cutile_embed::index::{Index, IndexRow};
use cutile_embed::manifest::{Manifest, Package};
use cutile_embed::pack::Pack;
use std::collections::BTreeSet;

/// What is embedded in a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embedded<'a> {
    /// In the order of their indexes; behind them what belongs to none.
    pub bundles: Vec<EmbeddedBundle<'a>>,
    /// Parts that are there and cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// What one crate embeds.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedBundle<'a> {
    /// The crate.
    pub package: Package,
    /// The index; `None` where none belongs to the other parts.
    pub index: Option<Located<Index<'a>>>,
    /// The manifest.
    pub manifest: Option<Located<Manifest>>,
    /// By `sm` number: what the index names, and the packs of targets that it does not name.
    pub targets: Vec<EmbeddedTarget<'a>>,
    /// The packs of shaders: one, or none.
    pub shaders: Vec<Located<Pack<'a>>>,
}

/// The images of one target.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedTarget<'a> {
    /// `sm_XX`, or `?` for a pack whose entries do not say.
    pub name: String,
    /// The rows of the index; with what is wrong where they do not decode.
    pub rows: Result<Vec<IndexRow>, String>,
    /// Whether the index names this target.
    pub in_index: bool,
    /// The pack.
    pub pack: Option<Located<Pack<'a>>>,
}

impl<'a> Embedded<'a> {
    /// Everything that is embedded in the bytes of a file.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Self {
        Self::of(scan(bytes))
    }

    /// Whether no trace of a bundle was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bundles.is_empty() && self.unreadable.is_empty()
    }

    fn of(parts: Parts<'a>) -> Self {
        let Parts { packs, indexes, manifests, unreadable } = parts;
        let mut bundles: Vec<EmbeddedBundle<'a>> =
            indexes.into_iter().map(EmbeddedBundle::of_index).collect();
        for manifest in manifests {
            let package = manifest.part.package.clone();
            let home = nearest(&bundles, &package, manifest.offset, |bundle| {
                (0, bundle.manifest.is_none())
            });
            let home = home.filter(|at| bundles[*at].manifest.is_none());
            bundle_at(&mut bundles, home, package).manifest = Some(manifest);
        }
        for pack in packs {
            let package = Package {
                name: pack.part.package().to_owned(),
                version: pack.part.version().to_owned(),
            };
            let is_shaders = pack
                .part
                .entries()
                .any(|entry| entry.unchecked().is_some_and(|payload| is_shader_entry(&payload)));
            if is_shaders {
                let home = nearest(&bundles, &package, pack.offset, |bundle| {
                    (0, bundle.shaders.is_empty())
                });
                bundle_at(&mut bundles, home, package).shaders.push(pack);
                continue;
            }
            let target = target_of(&pack.part);
            let target = target.as_deref();
            let home = nearest(&bundles, &package, pack.offset, |bundle| {
                let slot = bundle.slot(&pack.part, target);
                slot.map_or((0, false), |at| {
                    let target = &bundle.targets[at];
                    (shared(target, &pack.part), target.pack.is_none())
                })
            });
            bundle_at(&mut bundles, home, package).put(pack, target);
        }
        for bundle in &mut bundles {
            bundle.targets.sort_by_key(|target| (number(&target.name), target.name.clone()));
        }
        Self { bundles, unreadable }
    }
}

impl<'a> EmbeddedBundle<'a> {
    fn of_index(index: Located<Index<'a>>) -> Self {
        let package = Package {
            name: index.part.package.to_owned(),
            version: index.part.package_version.to_owned(),
        };
        let targets = index.part.targets.iter().map(|target| EmbeddedTarget {
            name: target.target.to_owned(),
            rows: target.rows_exact().map_err(|error| error.to_string()),
            in_index: true,
            pack: None,
        });
        let targets = targets.collect();
        Self { package, targets, index: Some(index), manifest: None, shaders: vec![] }
    }

    fn without_index(package: Package) -> Self {
        Self { package, index: None, manifest: None, targets: vec![], shaders: vec![] }
    }

    /// The target of the index that a pack is for: the one that shares most keys, or of one that
    /// shares none, the one of that name, or for an empty pack one that needs no more than that.
    fn slot(&self, pack: &Pack<'_>, name: Option<&str>) -> Option<usize> {
        let best = (0..self.targets.len())
            .map(|at| (shared(&self.targets[at], pack), at))
            .filter(|(shared, _)| *shared > 0)
            .max_by_key(|(shared, at)| (*shared, std::cmp::Reverse(*at)));
        best.map(|(_, at)| at).or_else(|| {
            self.targets.iter().position(|target| match name {
                Some(name) => target.name == name,
                None => {
                    let needs_none = target.rows.as_ref().is_ok_and(Vec::is_empty);
                    pack.is_empty() && needs_none && target.pack.is_none()
                }
            })
        })
    }

    fn put(&mut self, pack: Located<Pack<'a>>, name: Option<&str>) {
        match self.slot(&pack.part, name) {
            Some(at) if self.targets[at].pack.is_none() => self.targets[at].pack = Some(pack),
            _ => self.targets.push(EmbeddedTarget {
                name: name.unwrap_or("?").to_owned(),
                rows: Ok(vec![]),
                in_index: false,
                pack: Some(pack),
            }),
        }
    }
}

fn bundle_at<'b, 'a>(
    bundles: &'b mut Vec<EmbeddedBundle<'a>>,
    home: Option<usize>,
    package: Package,
) -> &'b mut EmbeddedBundle<'a> {
    let at = home.unwrap_or_else(|| {
        bundles.push(EmbeddedBundle::without_index(package));
        bundles.len() - 1
    });
    &mut bundles[at]
}

/// Of the bundles of a package the one that fits best, and of those the nearest.
fn nearest<'a>(
    bundles: &[EmbeddedBundle<'a>],
    package: &Package,
    offset: usize,
    fit: impl Fn(&EmbeddedBundle<'a>) -> (usize, bool),
) -> Option<usize> {
    (0..bundles.len()).filter(|at| bundles[*at].package == *package).max_by_key(|at| {
        let place = bundles[*at].index.as_ref().map_or(offset, |index| index.offset);
        (fit(&bundles[*at]), std::cmp::Reverse(place.abs_diff(offset)))
    })
}

/// How many keys of the rows are in the pack.
fn shared(target: &EmbeddedTarget<'_>, pack: &Pack<'_>) -> usize {
    let rows = target.rows.as_deref().unwrap_or_default();
    let keys: BTreeSet<&[u8; 32]> = rows.iter().map(|row| &row.image).collect();
    keys.into_iter().filter(|key| pack.get(key).is_some()).count()
}

/// The target that the first readable entry of a pack names. Nothing of it is checked here.
fn target_of(pack: &Pack<'_>) -> Option<String> {
    pack.entries().find_map(|entry| {
        let payload = entry.unchecked()?;
        let len = u16::from_le_bytes(*payload.get(80..82)?.first_chunk()?);
        let name = payload.get(ENTRY_HEADER_LEN..)?.get(..len.into())?;
        let name = std::str::from_utf8(name).ok()?;
        number(name).map(|_| name.to_owned())
    })
}

/// 90 of `sm_90`.
#[must_use]
pub fn number(target: &str) -> Option<u32> {
    let digits = target.strip_prefix("sm_")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, Plan, bundle, file};
    use super::*;

    fn names(bundle: &EmbeddedBundle<'_>) -> Vec<String> {
        bundle.targets.iter().map(|target| target.name.clone()).collect()
    }

    fn is_whole(bundle: &EmbeddedBundle<'_>) -> bool {
        bundle.index.is_some()
            && bundle.manifest.is_some()
            && bundle.shaders.len() == 1
            && bundle.targets.iter().all(|target| target.in_index && target.pack.is_some())
    }

    #[test]
    fn the_parts_of_two_crates_are_told_apart() {
        let mut bytes = file(&bundle("first", &["sm_90", "sm_100"]), 5);
        bytes.extend(file(&bundle("second", &["sm_80"]), 3));
        let embedded = Embedded::read(&bytes);
        assert_eq!(embedded.bundles.len(), 2);
        assert!(embedded.bundles.iter().all(is_whole), "{embedded:?}");
        assert_eq!(names(&embedded.bundles[0]), ["sm_90", "sm_100"]);
        assert_eq!(names(&embedded.bundles[1]), ["sm_80"]);
    }

    #[test]
    fn a_universal_binary_has_each_part_twice_and_each_is_put_with_its_own() {
        let once = file(&bundle("app", &["sm_80", "sm_90"]), 9);
        let bytes = [once.clone(), once.clone()].concat();
        let embedded = Embedded::read(&bytes);
        assert_eq!(embedded.bundles.len(), 2);
        for (at, bundle) in embedded.bundles.iter().enumerate() {
            assert!(is_whole(bundle), "{bundle:?}");
            let own = at * once.len()..(at + 1) * once.len();
            let packs = bundle.targets.iter().filter_map(|target| target.pack.as_ref());
            assert!(packs.chain(&bundle.shaders).all(|pack| own.contains(&pack.offset)));
            assert!(own.contains(&bundle.manifest.as_ref().unwrap().offset));
        }
    }

    #[test]
    fn two_builds_of_one_crate_are_told_apart_by_their_keys() {
        let one = Plan::new("app", &["sm_90"]);
        let mut two = one.clone();
        two.kernels.remove(0);
        two.kernels[0].generics.push("i8".into());
        let (one, two) = (one.build(), two.build());
        // Each pack lies beside the other's index.
        let mut bytes = Vec::new();
        for part in [&one.packs[0].1, &two.index, &two.packs[0].1, &one.index] {
            bytes.extend_from_slice(part);
        }
        let embedded = Embedded::read(&bytes);
        for bundle in &embedded.bundles {
            let target = &bundle.targets[0];
            let rows = target.rows.as_ref().unwrap();
            let pack = target.pack.as_ref().unwrap();
            assert!(rows.iter().all(|row| pack.part.get(&row.image).is_some()));
        }
    }

    #[test]
    fn packs_without_an_index_are_a_bundle_of_their_own() {
        let crate_ = bundle("app", &["sm_100", "sm_90"]);
        let bytes = [crate_.packs[0].1.as_slice(), &crate_.packs[1].1, b"more"].concat();
        let embedded = Embedded::read(&bytes);
        assert_eq!(embedded.bundles.len(), 1);
        assert!(embedded.bundles[0].index.is_none());
        assert_eq!(names(&embedded.bundles[0]), ["sm_90", "sm_100"]);
    }

    #[test]
    fn an_empty_pack_goes_to_a_target_without_rows() {
        let plan = Plan::new("app", &["sm_80", "sm_90"]);
        let built = plan.build_with(|image| {
            let is_there = image.target == "sm_90";
            (image.in_pack, image.in_index, image.in_manifest) = (is_there, is_there, is_there);
        });
        let bytes = file(&built, 2);
        let embedded = Embedded::read(&bytes);
        assert!(is_whole(&embedded.bundles[0]), "{embedded:?}");
    }

    #[test]
    fn a_file_without_anything_is_empty() {
        assert!(Embedded::read(b"").is_empty());
        let mut noise = fixture::Noise(1);
        let bytes: Vec<u8> = (0..100_000).map(|_| noise.byte()).collect();
        assert!(Embedded::read(&bytes).is_empty());
    }
}
