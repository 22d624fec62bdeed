//! Images that are there before a build, in place of compiling them.

use crate::virtual_gpu::RecordedJob;
#[cfg(feature = "cuda")]
use cutile_embed::{entry::EntryHeader, pack::Pack};
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Images by what one toolkit makes them of: target, digest of the bytecode, level and flags.
#[derive(Debug, Default)]
pub(crate) struct Reuse {
    cubins: HashMap<(String, [u8; 32], u8, u8), Vec<u8>>,
}

impl Reuse {
    /// The images of packs, by target, that the tileiras with this fingerprint made.
    #[cfg(feature = "cuda")]
    pub(crate) fn new(packs: &[(&str, Pack<'_>)], fingerprint: &str) -> Self {
        let mut cubins = HashMap::new();
        for (target, pack) in packs {
            for entry in pack.entries() {
                let Ok(payload) = entry.payload() else { continue };
                let Ok(header) = EntryHeader::parse(&payload) else { continue };
                if header.tileiras_fp() == fingerprint && header.gpu_name() == *target {
                    let (level, flags) = (header.opt_level(), header.flags());
                    let key = ((*target).to_owned(), header.bc_sha256(), level, flags);
                    cubins.insert(key, header.cubin().to_vec());
                }
            }
        }
        Self { cubins }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.cubins.len()
    }

    /// The image of a job.
    pub(crate) fn cubin(&self, job: &RecordedJob) -> Option<&[u8]> {
        // A library that is linked is not in the key.
        if !job.tile_libraries().is_empty() {
            return None;
        }
        let bytecode = Sha256::digest(&job.bytecode).into();
        let key = (job.gpu_name()?.to_owned(), bytecode, job.opt_level()?, job.flags());
        self.cubins.get(&key).map(Vec::as_slice)
    }
}
