//! The wheels that the toolkit comes in: versions and digests, pinned.
//!
//! NVIDIA publishes them. They are never part of this repository.

use crate::platform::Arch;

/// A wheel for both processors.
#[derive(Debug)]
pub(crate) struct Wheel {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 and bytes.
    x86_64: (&'static str, u64),
    aarch64: (&'static str, u64),
}

impl Wheel {
    pub(crate) fn sha256(&self, arch: Arch) -> &'static str {
        self.file(arch).0
    }

    pub(crate) fn bytes(&self, arch: Arch) -> u64 {
        self.file(arch).1
    }

    fn file(&self, arch: Arch) -> (&'static str, u64) {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }

    /// How the names of its files begin.
    pub(crate) fn file_prefix(&self) -> String {
        format!("{}-{}-", self.name.replace('-', "_"), self.version)
    }

    /// A line of a requirements file of pip's.
    pub(crate) fn requirement(&self) -> String {
        let Self { name, version, x86_64: (x86_64, _), aarch64: (aarch64, _) } = self;
        format!("{name}=={version} --hash=sha256:{x86_64} --hash=sha256:{aarch64}\n")
    }
}

/// tileiras, ptxas, libnvvm and the headers.
pub(crate) const TOOLKIT: [Wheel; 6] = [
    Wheel {
        name: "nvidia-cuda-tileiras",
        version: "13.5.37",
        x86_64: ("d1657aa03ef05bba0ae22baa34728d955fa11524ef3be5a4f6401ef589dba5b5", 42_173_556),
        aarch64: ("095bc8ab525f5c551a1fff55f00e684d7c3ef6303513307e60d28924f5fb02bc", 41_077_409),
    },
    Wheel {
        name: "nvidia-cuda-nvcc",
        version: "13.5.37",
        x86_64: ("f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7", 47_028_279),
        aarch64: ("588eda18eb5076ae859fe272844b526459228af22df0b117f54eec3aa82bc9c8", 40_745_418),
    },
    Wheel {
        name: "nvidia-nvvm",
        version: "13.5.37",
        x86_64: ("c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070", 75_141_406),
        aarch64: ("b659bd3115b7ac7ec8931e67d0e2c0dd09cd35b08a6a7372df6f8f22c67da80a", 71_213_582),
    },
    Wheel {
        name: "nvidia-cuda-runtime",
        version: "13.5.37",
        x86_64: ("df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d", 2_504_024),
        aarch64: ("de2dc5a7367974228b0a69588a9acc9340d3768bef1bf38bf0801eb08497cd2d", 2_520_010),
    },
    Wheel {
        name: "nvidia-cuda-crt",
        version: "13.5.37",
        x86_64: ("e898b7f73d3035fa89915a3f7bf3b54a73e90249746111aed295822c4729bb29", 166_163),
        aarch64: ("9ed2c565fdf3244fa6719769a80a466b85bfd4b1467ea339353bc91c971d09e0", 166_163),
    },
    Wheel {
        name: "nvidia-curand",
        version: "10.4.5.25",
        x86_64: ("22bb226a857e5888fe6b54ae465fc4371296bcff13a35f79e19691bcf454f529", 77_113_015),
        aarch64: ("07c75d8ba14b627d1a01d2c1bfa1eece88f25d564d3aae7e6b6fb44f7bbec9c1", 77_529_633),
    },
];

/// What bindgen reads the headers with, where the system has none.
pub(crate) const LIBCLANG: Wheel = Wheel {
    name: "libclang",
    version: "18.1.1",
    x86_64: ("c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b", 24_515_943),
    aarch64: ("54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592", 23_784_972),
};

/// What is to be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) toolkit: bool,
    pub(crate) libclang: bool,
}

impl Parts {
    pub(crate) const ALL: Self = Self { toolkit: true, libclang: true };

    pub(crate) fn is_empty(self) -> bool {
        self == Self { toolkit: false, libclang: false }
    }

    pub(crate) fn wheels(self) -> impl Iterator<Item = &'static Wheel> {
        let toolkit = TOOLKIT.iter().filter(move |_| self.toolkit);
        toolkit.chain(Some(&LIBCLANG).filter(|_| self.libclang))
    }

    /// Where a file of a wheel goes below `.cutile`, if it is kept.
    pub(crate) fn place(wheel: &Wheel, file: &str) -> Option<String> {
        let license = |folder: &str| format!("{folder}/licenses/{}.txt", wheel.name);
        if wheel.name == LIBCLANG.name {
            return match file.rsplit('/').next()? {
                "libclang.so" => Some("libclang/libclang.so".to_owned()),
                "LICENSE.TXT" => Some(license("libclang")),
                _ => None,
            };
        }
        if file.ends_with("/licenses/License.txt") {
            return Some(license("toolkit"));
        }
        let file = file.strip_prefix("nvidia/cu13/")?;
        let kept =
            matches!(file, "bin/tileiras" | "bin/tileirdisasm" | "bin/ptxas" | "lib/libnvvm.so.4")
                || file.starts_with("include/")
                || file.starts_with("nvvm/libdevice/");
        kept.then(|| format!("toolkit/{file}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wheel_is_pinned_for_both_processors() {
        for wheel in Parts::ALL.wheels() {
            for arch in [Arch::X86_64, Arch::Aarch64] {
                let digest = wheel.sha256(arch);
                assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
                assert!(wheel.requirement().contains(&format!("--hash=sha256:{digest}")));
            }
            assert!(
                wheel.requirement().starts_with(&format!("{}=={} ", wheel.name, wheel.version))
            );
        }
        assert_eq!(LIBCLANG.file_prefix(), "libclang-18.1.1-");
        assert_eq!(TOOLKIT[0].file_prefix(), "nvidia_cuda_tileiras-13.5.37-");
    }

    #[test]
    fn what_is_said_about_the_size_is_so() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let bytes: u64 = Parts::ALL.wheels().map(|wheel| wheel.bytes(arch)).sum();
            assert!((250_000_000..275_000_000).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn what_is_needed_is_kept_and_nothing_else() {
        let table = [
            ("nvidia/cu13/bin/tileiras", Some("toolkit/bin/tileiras")),
            ("nvidia/cu13/bin/nvcc", None),
            ("nvidia/cu13/nvvm/bin/cicc", None),
            ("nvidia/cu13/lib/libcurand.so.10", None),
            ("nvidia/cu13/include/crt/mma.h", Some("toolkit/include/crt/mma.h")),
            ("x.dist-info/licenses/License.txt", Some("toolkit/licenses/nvidia-cuda-tileiras.txt")),
            ("x.dist-info/METADATA", None),
        ];
        for (file, place) in table {
            assert_eq!(Parts::place(&TOOLKIT[0], file).as_deref(), place, "{file}");
        }
        let library = "libclang-18.1.1.data/platlib/clang/native/libclang.so";
        assert_eq!(Parts::place(&LIBCLANG, library).as_deref(), Some("libclang/libclang.so"));
    }
}
