//! `cargo cutile import`: entries of a file or of an exported folder into this user's cache.

use crate::embedded::bundle::Embedded;
use crate::embedded::cubin::architecture;
use crate::environ::Environ;
use crate::failure::Failure;
use crate::output::{clean, count, print, say, shown, size};
use crate::progress::Progress;
use crate::stores::{Kind, Place, Survey};
use crate::subject;
use clap::Args;
use cutile_embed::entry::{EntryHeader, EntryParams, encode_entry};
use cutile_embed::key::key_text;
use cutile_embed::store::{FileSystemJitStore, JitStore as _};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
An entry is device code. cutile loads it without another question and runs it
on the GPU, on what your programs put there. Its digest tells that it is
whole, and nobody can tell from it who made it. Import only what you would
also run.

Each entry is taken apart and written anew, its digest worked out again, its
cubin checked to be whole and for the GPU that it names. Its key is taken as
it is: that is a digest of the Tile IR, of which an entry has only another
digest. What your cache has already is not replaced. Shaders are not imported.

Examples:
  cargo cutile import --trust /mnt/cache-of-the-build-machine
  cargo cutile import --trust target/release/app";

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Import {
    /// A program, library or archive, or the folder of a cache
    #[arg(value_name = "FILE_OR_DIR")]
    from: PathBuf,

    /// You trust whoever made it to run code on your GPU
    #[arg(long)]
    trust: bool,
}

/// How many refused entries are named.
const NAMED: usize = 10;

pub(crate) fn run(arguments: &Import, environ: &Environ) -> Result<ExitCode, Failure> {
    let Import { from, trust } = arguments;
    if !trust {
        return Err(Failure(format!(
            "{} would put device code into your cache, which runs on your GPU with the next \
             launch that asks for it. Its digests tell that it is whole, and not who made it. If \
             you trust where it came from, add --trust",
            from.display()
        )));
    }
    let place = Place::of(Kind::Kernels, environ)?;
    let mut import = Importing::default();
    // Refused before the cache is made or opened.
    if from.is_dir() {
        let survey = Survey::of(from)?.unwrap_or_default();
        let keys = survey.keys();
        import.others = survey.others;
        if keys.is_empty() {
            return Err(Failure(format!(
                "{} is no cache: it has no <2 digits>/<key>.cubin. Name the folder that `cargo \
                 cutile export` wrote, or a cutile/kernels",
                from.display()
            )));
        }
        let source = FileSystemJitStore::builder(from)
            .capacity_bytes(0)
            .open()
            .map_err(Failure::io("read", from))?;
        let store = open(&place)?;
        let mut progress = Progress::of("imported");
        for (at, key) in keys.iter().enumerate() {
            match source.get(key) {
                Ok(Some(entry)) => import.one(&store, key, &entry)?,
                // Another process removed it.
                Ok(None) => {}
                Err(error) => import.refused.push(format!("{key}: {error}")),
            }
            progress.step(at + 1, keys.len());
        }
    } else {
        let bytes = subject::read(from)?;
        let embedded = subject::embedded(from, &bytes)?;
        if !has_images(&embedded) {
            return Err(Failure(format!("{} has no images of kernels", from.display())));
        }
        let store = open(&place)?;
        for bundle in &embedded.bundles {
            let packs = bundle.targets.iter().filter_map(|target| target.pack.as_ref());
            for entry in packs.flat_map(|pack| pack.part.entries()) {
                let key = key_text(&entry.key);
                match entry.payload() {
                    Ok(payload) => import.one(&store, &key, &payload)?,
                    Err(error) => import.refused.push(format!("{key}: {error}")),
                }
            }
        }
    }
    import.report(&place)
}

fn has_images(embedded: &Embedded<'_>) -> bool {
    let targets = embedded.bundles.iter().flat_map(|bundle| &bundle.targets);
    targets.filter_map(|target| target.pack.as_ref()).any(|pack| !pack.part.is_empty())
}

fn open(place: &Place) -> Result<FileSystemJitStore, Failure> {
    // Its text names the folder and says what to do.
    FileSystemJitStore::private(&place.path).map_err(|error| Failure(error.to_string()))
}

#[derive(Debug, Default)]
struct Importing {
    put: usize,
    bytes: u64,
    kept: usize,
    refused: Vec<String>,
    /// What is in the folder and is no entry by its name.
    others: Vec<PathBuf>,
}

impl Importing {
    fn one(&mut self, store: &FileSystemJitStore, key: &str, entry: &[u8]) -> Result<(), Failure> {
        let anew = match encoded_anew(entry) {
            Ok(anew) => anew,
            Err(why) => {
                self.refused.push(format!("{key}: {why}"));
                return Ok(());
            }
        };
        let known = store.get(key).ok().flatten();
        if known.is_some_and(|known| EntryHeader::parse(&known).is_ok()) {
            self.kept += 1;
            return Ok(());
        }
        match store.put(key, &anew) {
            Ok(()) => {}
            // What is in the way of this one is not in the way of the others.
            Err(error)
                if matches!(error.kind(), ErrorKind::IsADirectory | ErrorKind::NotADirectory) =>
            {
                let root = store.root().display();
                self.refused.push(format!("{key}: cannot be put below {root}: {error}"));
                return Ok(());
            }
            Err(error) => {
                return Err(Failure(format!(
                    "cannot write an entry below {}: {error}; {} were put there before it, and can \
                     be used. Call it again for the others",
                    store.root().display(),
                    count(self.put, "image")
                )));
            }
        }
        self.put += 1;
        self.bytes += anew.len() as u64;
        Ok(())
    }

    fn report(self, place: &Place) -> Result<ExitCode, Failure> {
        let Self { put, bytes, kept, refused, others } = self;
        print(&format!(
            "{} ({}) put into {}, {kept} were there already\n",
            count(put, "image"),
            size(bytes),
            place.path.display()
        ))?;
        if let Some(first) = others.first() {
            say!(
                "warning: {} passed over, which is no <2 digits>/<key>.cubin: {}{}",
                count(others.len(), "file"),
                shown(first),
                if others.len() > 1 { " and others" } else { "" }
            );
        }
        if refused.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        for line in refused.iter().take(NAMED) {
            say!("refused: {}", clean(line));
        }
        if refused.len() > NAMED {
            say!("and {} more", refused.len() - NAMED);
        }
        Err(Failure(format!(
            "{} refused, for these reasons. What is damaged: export it anew from a file for which \
             `cargo cutile verify` says that all holds",
            count(refused.len(), "image")
        )))
    }
}

/// The entry as this command's codec writes it: what is not read of one is not taken over.
fn encoded_anew(entry: &[u8]) -> Result<Vec<u8>, String> {
    let header = EntryHeader::parse(entry).map_err(|error| error.to_string())?;
    let found = architecture(header.cubin()).map_err(|error| error.to_string())?;
    if found != header.gpu_name() {
        return Err(format!("its cubin is for {found}, and its header says {}", header.gpu_name()));
    }
    let params = EntryParams {
        bc_sha256: header.bc_sha256(),
        gpu_name: header.gpu_name(),
        opt_level: header.opt_level(),
        flags: header.flags(),
        tileiras_fp: header.tileiras_fp(),
    };
    encode_entry(&params, header.cubin()).ok_or_else(|| "a name in it is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::fixture::cubin;

    fn entry(gpu_name: &str, image: &[u8]) -> Vec<u8> {
        let params =
            EntryParams { bc_sha256: [1; 32], gpu_name, opt_level: 3, flags: 0, tileiras_fp: "fp" };
        encode_entry(&params, image).unwrap()
    }

    #[test]
    fn what_an_entry_has_in_reserved_bytes_is_not_taken_over() {
        let whole = entry("sm_90", &cubin(90, "f", b"code"));
        let mut other = whole.clone();
        (other[14], other[86]) = (7, 7);
        assert!(EntryHeader::parse(&other).is_ok());
        assert_eq!(encoded_anew(&other).unwrap(), whole);
    }

    #[test]
    fn what_is_not_whole_or_for_another_gpu_is_refused() {
        let image = cubin(90, "f", b"code");
        assert!(encoded_anew(&entry("sm_80", &image)).unwrap_err().contains("is for sm_90"));
        assert!(encoded_anew(&entry("sm_90", &image[..100])).is_err());
        assert!(encoded_anew(&entry("sm_90", b"no cubin")).is_err());
        let mut torn = entry("sm_90", &image);
        torn.pop();
        assert!(encoded_anew(&torn).is_err());
        assert!(encoded_anew(b"").is_err());
    }
}
