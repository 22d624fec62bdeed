//! A bundle is what one crate embeds; [`embed!`](crate::embed) puts it into the binary, and into
//! the list of all bundles of the program, so that crates that ship kernels compose.
//!
//! `OUT_DIR/cutile/` as `cutile-build` writes it:
//!
//! ```text
//! manifest.json            for people and tools
//! index.bin                for install: per target, its specializations
//! images-<target>.pack     one a target
//! shaders.pack             the shaders, where there are any
//! ```

use crate::index::{Index, IndexError};
use crate::pack::{Pack, PackError};
use include_dir::Dir;
use linkme::distributed_slice;

/// What one crate embeds.
#[derive(Debug)]
pub struct Bundle {
    files: &'static Dir<'static>,
}

/// The bundles of all crates of the program that call [`embed!`](crate::embed).
#[doc(hidden)]
#[distributed_slice]
pub static BUNDLES: [Bundle];

/// All bundles that are linked into this program.
#[must_use]
pub fn bundles() -> &'static [Bundle] {
    &BUNDLES
}

impl Bundle {
    /// A bundle over the files that [`embed!`](crate::embed) included.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(files: &'static Dir<'static>) -> Self {
        Self { files }
    }

    fn file(&self, name: &str) -> Option<&'static [u8]> {
        self.files.get_file(name).map(include_dir::File::contents)
    }

    /// The index, with its digest checked.
    ///
    /// # Errors
    ///
    /// [`IndexError`] when the bundle is damaged or of another version.
    pub fn index(&self) -> Result<Index<'static>, IndexError> {
        Index::parse(self.file("index.bin").ok_or(IndexError::Malformed("the bundle has none"))?)
    }

    /// The images of `target`, with header and index checked; `None` when it was not compiled for.
    /// An image is checked when it is read.
    ///
    /// # Errors
    ///
    /// [`PackError`] when the pack is damaged or of another version.
    pub fn images(&self, target: &str) -> Option<Result<Pack<'static>, PackError>> {
        Some(Pack::parse(self.file(&format!("images-{target}.pack"))?))
    }

    /// The shaders, with header and index checked; `None` where there are none. An entry is checked
    /// when it is read.
    ///
    /// # Errors
    ///
    /// [`PackError`] when the pack is damaged or of another version.
    pub fn shaders(&self) -> Option<Result<Pack<'static>, PackError>> {
        Some(Pack::parse(self.file("shaders.pack")?))
    }

    /// The manifest as it was written.
    #[must_use]
    pub fn manifest_json(&self) -> Option<&'static str> {
        self.files.get_file("manifest.json").and_then(include_dir::File::contents_utf8)
    }

    /// Bytes that the bundle adds to the binary.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.files().map(|file| file.contents().len() as u64).sum()
    }
}

/// Embeds the kernels that this crate's build script compiled. An item, once in each crate that
/// ships kernels:
///
/// ```text
/// cutile_embed::embed!();
/// ```
///
/// The crate needs a `build.rs` that calls `cutile_build::Builder`. What is embedded is as trusted
/// as the binary it is part of.
#[macro_export]
macro_rules! embed {
    () => {
        const _: () = {
            use $crate::__private::include_dir;
            $crate::__private::assert_schema(include_bytes!(concat!(
                env!("OUT_DIR", "cutile_embed::embed!() needs a build.rs that calls cutile_build"),
                "/cutile/index.bin"
            )));
            static FILES: include_dir::Dir<'static> = include_dir::include_dir!("$OUT_DIR/cutile");
            #[$crate::__private::linkme::distributed_slice($crate::__private::BUNDLES)]
            #[linkme(crate = $crate::__private::linkme)]
            static BUNDLE: $crate::Bundle = $crate::Bundle::new(&FILES);
        };
    };
}
