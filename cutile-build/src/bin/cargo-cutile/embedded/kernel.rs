//! A specialization with its images of all targets, wherever its rows came from.

use super::bundle::{EmbeddedBundle, number};
use cutile_embed::entry::ENTRY_HEADER_LEN;
use cutile_embed::key::key_bytes;
use cutile_embed::manifest::{Specialization, Validator};
use cutile_embed::pack::PackEntry;
use std::collections::BTreeMap;

/// A specialization of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedKernel<'b> {
    /// The specialization.
    pub specialization: &'b Specialization,
    /// Target to image.
    pub images: BTreeMap<&'b str, EmbeddedImage<'b>>,
}

/// An image of a specialization.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedImage<'b> {
    /// The key of its entry.
    pub key: [u8; 32],
    /// What the launcher checks; of the index where there is one.
    pub validator: &'b Validator,
    /// The entry and where it starts in the file; `None` where no pack has it.
    pub entry: Option<(usize, PackEntry<'b>)>,
}

impl<'b> EmbeddedKernel<'b> {
    /// The images by the number of their target: `sm_90` before `sm_100`.
    #[must_use]
    pub fn by_number(&self) -> Vec<(&'b str, &EmbeddedImage<'b>)> {
        let mut images: Vec<_> = self.images.iter().map(|(name, image)| (*name, image)).collect();
        images.sort_by_key(|(name, _)| (number(name), *name));
        images
    }
}

impl EmbeddedImage<'_> {
    /// Length of the cubin as the header of the entry says it; of what is no entry, of all of it. Not
    /// what it takes in the file, where it may be compressed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let Some((_, entry)) = &self.entry else { return 0 };
        let len = entry.unchecked().map_or(entry.plain_len, |payload| cubin_of(&payload).len());
        len as u64
    }
}

/// The cubin in an entry, which is not checked; all of it where the header makes no sense.
#[must_use]
pub fn cubin_of(entry: &[u8]) -> &[u8] {
    let len = |at: usize| {
        entry.get(at..at + 2).map_or(0, |pair| usize::from(u16::from_le_bytes([pair[0], pair[1]])))
    };
    entry.get(ENTRY_HEADER_LEN + len(80) + len(82)..).unwrap_or(entry)
}

impl EmbeddedBundle<'_> {
    /// All specializations with their images, sorted. By the index; without one, by the manifest.
    #[must_use]
    pub fn kernels(&self) -> Vec<EmbeddedKernel<'_>> {
        let mut kernels: BTreeMap<&Specialization, BTreeMap<&str, EmbeddedImage<'_>>> =
            BTreeMap::new();
        let mut add = |specialization, target, key, validator| {
            let image = EmbeddedImage { key, validator, entry: self.entry(target, &key) };
            kernels.entry(specialization).or_default().insert(target, image);
        };
        if self.index.is_some() {
            for target in &self.targets {
                for row in target.rows.as_deref().unwrap_or_default() {
                    add(&row.specialization, target.name.as_str(), row.image, &row.validator);
                }
            }
        } else if let Some(manifest) = &self.manifest {
            for row in &manifest.part.kernels {
                for (target, image) in &row.images {
                    if let Some(key) = key_bytes(&image.key) {
                        add(&row.specialization, target.as_str(), key, &image.validator);
                    }
                }
            }
        }
        let kernels = kernels.into_iter();
        kernels.map(|(specialization, images)| EmbeddedKernel { specialization, images }).collect()
    }

    /// An entry of a target's pack, and where it starts in the file.
    #[must_use]
    pub fn entry(&self, target: &str, key: &[u8; 32]) -> Option<(usize, PackEntry<'_>)> {
        let packs = self.targets.iter().filter(|found| found.name == target);
        packs.filter_map(|found| found.pack.as_ref()).find_map(|pack| {
            let entry = pack.part.get(key)?;
            Some((pack.offset + entry.offset, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::bundle::Embedded;
    use super::super::fixture::{Plan, bundle, cubin, file};

    #[test]
    fn every_kernel_has_its_images_by_target() {
        let bytes = file(&bundle("app", &["sm_80", "sm_90"]), 3);
        let embedded = Embedded::read(&bytes);
        let kernels = embedded.bundles[0].kernels();
        let names: Vec<_> = kernels.iter().map(|kernel| kernel.specialization.name()).collect();
        assert_eq!(
            names,
            ["gemm::matmul<f16, 64, 64>", "vector::add<f32, 128>", "vector::add<f32, 128>"]
        );
        for kernel in &kernels {
            assert_eq!(kernel.images.keys().copied().collect::<Vec<_>>(), ["sm_80", "sm_90"]);
            for image in kernel.images.values() {
                let (offset, entry) = image.entry.as_ref().unwrap();
                assert!(bytes[*offset..].starts_with(entry.stored));
                let payload = entry.payload().unwrap();
                assert!(payload.starts_with(b"CUTILECUBIN"));
                assert_eq!(image.bytes(), super::cubin_of(&payload).len() as u64);
                assert!(super::cubin_of(&payload).starts_with(b"\x7fELF"));
            }
        }
    }

    #[test]
    fn without_an_index_the_manifest_says_what_there_is() {
        let mut built = bundle("app", &["sm_90"]);
        built.index.clear();
        let bytes = file(&built, 0);
        let embedded = Embedded::read(&bytes);
        assert_eq!(embedded.bundles.len(), 1);
        let kernels = embedded.bundles[0].kernels();
        assert_eq!(kernels.len(), 3);
        assert!(kernels.iter().all(|kernel| kernel.images["sm_90"].entry.is_some()));
    }

    #[test]
    fn an_image_that_no_pack_has_is_without_entry() {
        let built = Plan::new("app", &["sm_90"])
            .build_with(|image| image.in_pack = image.kernel.starts_with("vector"));
        let bytes = file(&built, 0);
        let embedded = Embedded::read(&bytes);
        let kernels = embedded.bundles[0].kernels();
        assert_eq!(kernels[0].images["sm_90"].entry, None);
        assert_eq!(kernels[0].images["sm_90"].bytes(), 0);
        assert!(kernels[1].images["sm_90"].entry.is_some());
        assert_eq!(super::cubin_of(b"short"), b"short");
        assert!(!cubin(90, "f", b"x").is_empty());
    }
}
