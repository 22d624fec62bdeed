//! Which architecture a cubin is for.
//!
//! A cubin is a 64-bit ELF file of machine 190 (`EM_CUDA`). The number of its `sm_XX` is in the
//! flags of the file header; where, its ABI version says:
//!
//! | ABI version | number of the architecture | LLVM calls it |
//! |---|---|---|
//! | 7 | bits 0 to 7 | `ELFABIVERSION_CUDA_V1`, `EF_CUDA_SM` |
//! | 8 | bits 8 to 15 | `ELFABIVERSION_CUDA_V2`, `EF_CUDA_SM_MASK` |
//!
//! tileiras 13.5 writes version 8 for every target. Of the images of `example-app`, optimized and with
//! debug information:
//!
//! | target | flags | with debug information |
//! |---|---|---|
//! | `sm_80` | `0x06005004` | `0x0f005004` |
//! | `sm_90` | `0x06005a04` | `0x0f005a04` |
//! | `sm_100` | `0x06006402` | `0x0f006402` |
//! | `sm_120` | `0x06007802` | `0x0f007802` |

use cutile_build::assemble::{NotCubin, check_cubin};

const EM_CUDA: u16 = 190;
const MACHINE: usize = 18;
const ABI_VERSION: usize = 8;
const FLAGS: usize = 48;

/// The architecture that a cubin says it is for, as `sm_90`.
///
/// # Errors
///
/// [`NotCubin`] where it is not a whole ELF file, or one of another machine.
pub fn architecture(cubin: &[u8]) -> Result<String, NotCubin> {
    check_cubin(cubin)?;
    let header = cubin
        .first_chunk::<64>()
        .ok_or_else(|| NotCubin::Truncated("it ends in the file header".into()))?;
    let machine = u16::from_le_bytes([header[MACHINE], header[MACHINE + 1]]);
    if machine != EM_CUDA {
        return Err(NotCubin::NotElf(format!(
            "it is one of machine {machine}, and a cubin is of {EM_CUDA}"
        )));
    }
    let flags = u32::from_le_bytes([
        header[FLAGS],
        header[FLAGS + 1],
        header[FLAGS + 2],
        header[FLAGS + 3],
    ]);
    match header[ABI_VERSION] {
        7 => Ok(format!("sm_{}", flags & 0xff)),
        8 => Ok(format!("sm_{}", flags >> 8 & 0xff)),
        other => Err(NotCubin::NotElf(format!(
            "it has ABI version {other}, and this command reads 7 and 8"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::cubin;
    use super::*;

    #[test]
    fn the_architecture_of_either_abi_is_read() {
        for sm in [80, 90, 100, 120] {
            assert_eq!(architecture(&cubin(sm, "f", b"")).unwrap(), format!("sm_{sm}"));
        }
        let mut old = cubin(0, "f", b"");
        old[ABI_VERSION] = 7;
        old[FLAGS..FLAGS + 4].copy_from_slice(&0x0056_0556_u32.to_le_bytes());
        assert_eq!(architecture(&old).unwrap(), "sm_86");
    }

    #[test]
    fn the_flags_of_real_cubins_are_read() {
        for (flags, name) in [
            (0x0600_5004_u32, "sm_80"),
            (0x0f00_5004, "sm_80"),
            (0x0600_5a04, "sm_90"),
            (0x0600_6402, "sm_100"),
            (0x0f00_7802, "sm_120"),
        ] {
            let mut image = cubin(1, "f", b"");
            image[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_le_bytes());
            assert_eq!(architecture(&image).unwrap(), name);
        }
    }

    #[test]
    fn what_is_no_cubin_says_why() {
        let mut image = cubin(90, "f", b"");
        image[MACHINE] = 62;
        image[MACHINE + 1] = 0;
        let error = architecture(&image).unwrap_err().to_string();
        assert!(error.contains("machine 62"), "{error}");
        let mut image = cubin(90, "f", b"");
        image[ABI_VERSION] = 9;
        assert!(architecture(&image).unwrap_err().to_string().contains("ABI version 9"));
        for len in 0..80 {
            assert!(architecture(&cubin(90, "f", b"")[..len]).is_err());
        }
    }
}
