//! Module images. `cuModuleLoadData` takes no length: an image says itself how long it is.
//!
//! A cubin is an ELF64 file for machine 190. Where it states its architecture, read from images
//! of ptxas 13.5 (ABI version 8) and, for 7 and before, from LLVM's `ELF.h`:
//!
//! | `e_ident[8]` | architecture in `e_flags` |
//! |---|---|
//! | 8 and up | bits 8–15: `0x06005a04` is sm_90, `0x06007902` is sm_121 |
//! | up to 7 | bits 0–7: `0x005a055a` is sm_90 |
//!
//! The recording assembler's placeholder starts like an ELF file and is none: see
//! `cutile_build::virtual_gpu`.

use crate::{Checked, errors};

/// Longer images are taken for damaged ones.
const MAX_BYTES: usize = 1 << 30;
const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const EM_CUDA: u16 = 190;
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;

const PLACEHOLDER_MAGIC: &[u8; 16] = b"cutile-rehearsal";
const PLACEHOLDER: usize = 72;

/// A loaded image: our own copy, read once.
pub(crate) struct Image {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// Compute capability as one number (90), functions, and variables with their first bytes.
    Cubin { sm: u32, functions: Vec<String>, variables: Vec<(String, Box<[u8]>)> },
    /// The digest of the recorded job, in hexadecimal.
    Placeholder { job: String },
}

impl Image {
    /// Copies and reads the image at `start`.
    ///
    /// # Safety
    /// `start` is null, or readable for as many bytes as the image there says that it has.
    pub(crate) unsafe fn read(start: *const u8) -> Checked<Self> {
        if start.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: within the image by this function's contract, here and in the two places
        // below; each reads no more than what the part before it announced.
        let at = |bytes: usize| unsafe { std::slice::from_raw_parts(start, bytes) };
        if at(4) != b"\x7fELF" {
            return Err(errors::INVALID_IMAGE);
        }
        let bytes = if at(32)[16..] == PLACEHOLDER_MAGIC[..] {
            at(PLACEHOLDER)
        } else {
            let header = Header::parse(at(HEADER))?;
            at(header.length(at(header.sections_end()?))?)
        };
        Self::parse(bytes)
    }

    /// Reads an image of known length.
    pub(crate) fn parse(bytes: &[u8]) -> Checked<Self> {
        let content = if bytes.get(16..32) == Some(&PLACEHOLDER_MAGIC[..]) {
            if bytes.len() != PLACEHOLDER || u64_at(bytes, 64)? != PLACEHOLDER as u64 {
                return Err(errors::INVALID_IMAGE);
            }
            Content::Placeholder { job: bytes[32..64].iter().map(|b| format!("{b:02x}")).collect() }
        } else {
            let header = Header::parse(bytes)?;
            if header.length(bytes)? > bytes.len() {
                return Err(errors::INVALID_IMAGE);
            }
            let (functions, variables) = header.symbols(bytes)?;
            Content::Cubin { sm: header.sm, functions, variables }
        };
        Ok(Self { bytes: bytes.into(), content })
    }
}

struct Header {
    sm: u32,
    sections_at: usize,
    sections: usize,
    segments_end: usize,
}

type Symbols = (Vec<String>, Vec<(String, Box<[u8]>)>);

impl Header {
    fn parse(bytes: &[u8]) -> Checked<Self> {
        let ident = bytes.get(..16).ok_or(errors::INVALID_IMAGE)?;
        // 64-bit, little endian, ELF version 1.
        let known = ident[..7] == *b"\x7fELF\x02\x01\x01" && u16_at(bytes, 18)? == EM_CUDA;
        let sections = usize::from(u16_at(bytes, 60)?);
        if !known || sections == 0 || usize::from(u16_at(bytes, 58)?) != SECTION {
            return Err(errors::INVALID_IMAGE);
        }
        let segments = usize::from(u16_at(bytes, 56)?) * usize::from(u16_at(bytes, 54)?);
        let flags = u32_at(bytes, 48)?;
        Ok(Self {
            sm: if ident[8] >= 8 { flags >> 8 & 0xff } else { flags & 0xff },
            sections_at: offset_at(bytes, 40)?,
            sections,
            segments_end: offset_at(bytes, 32)? + segments,
        })
    }

    fn sections_end(&self) -> Checked<usize> {
        let end = self.sections_at + self.sections * SECTION;
        if self.sections_at < HEADER || end > MAX_BYTES {
            return Err(errors::INVALID_IMAGE);
        }
        Ok(end)
    }

    fn section(&self, bytes: &[u8], index: usize) -> Checked<Section> {
        let at = self.sections_at + index * SECTION;
        if index >= self.sections {
            return Err(errors::INVALID_IMAGE);
        }
        Ok(Section {
            kind: u32_at(bytes, at + 4)?,
            start: offset_at(bytes, at + 24)?,
            length: offset_at(bytes, at + 32)?,
            link: u32_at(bytes, at + 40)? as usize,
        })
    }

    /// The length of the whole image, of which `bytes` holds at least the section headers.
    fn length(&self, bytes: &[u8]) -> Checked<usize> {
        let mut length = self.sections_end()?.max(self.segments_end);
        let mut has_symbols = false;
        for index in 0..self.sections {
            let section = self.section(bytes, index)?;
            has_symbols |= section.kind == SHT_SYMTAB;
            if section.kind != SHT_NOBITS {
                length = length.max(section.start + section.length);
            }
        }
        // A cubin without symbols has nothing to launch: what follows its header is not its own.
        if !has_symbols || length > MAX_BYTES {
            return Err(errors::INVALID_IMAGE);
        }
        Ok(length)
    }

    /// Names of functions, and variables with their initial bytes.
    fn symbols(&self, bytes: &[u8]) -> Checked<Symbols> {
        let mut symbols = Symbols::default();
        for index in 0..self.sections {
            let table = self.section(bytes, index)?;
            if table.kind != SHT_SYMTAB {
                continue;
            }
            let names = self.section(bytes, table.link)?.bytes(bytes)?;
            for symbol in table.bytes(bytes)?.chunks_exact(SYMBOL) {
                let home = usize::from(u16_at(symbol, 6)?);
                let name = names.get(u32_at(symbol, 0)? as usize..).unwrap_or_default();
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let name = String::from_utf8_lossy(name).into_owned();
                match symbol[4] & 0xf {
                    // STT_OBJECT and STT_FUNC; undefined ones live elsewhere.
                    1 if home != 0 && home < self.sections => {
                        let (start, length) = (offset_at(symbol, 8)?, offset_at(symbol, 16)?);
                        let home = self.section(bytes, home)?;
                        let content = match home.kind {
                            SHT_NOBITS => vec![0; length],
                            _ => {
                                let home = home.bytes(bytes)?;
                                let content = home.get(start..start + length);
                                content.ok_or(errors::INVALID_IMAGE)?.to_vec()
                            }
                        };
                        symbols.1.push((name, content.into()));
                    }
                    2 if home != 0 => symbols.0.push(name),
                    _ => {}
                }
            }
        }
        Ok(symbols)
    }
}

struct Section {
    kind: u32,
    start: usize,
    length: usize,
    link: usize,
}

impl Section {
    fn bytes<'a>(&self, image: &'a [u8]) -> Checked<&'a [u8]> {
        image.get(self.start..self.start + self.length).ok_or(errors::INVALID_IMAGE)
    }
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Checked<[u8; N]> {
    let field = bytes.get(at..at + N).and_then(|field| field.try_into().ok());
    field.ok_or(errors::INVALID_IMAGE)
}

fn u16_at(bytes: &[u8], at: usize) -> Checked<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Checked<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Checked<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

/// An offset or a length: bounded, so that sums of two do not overflow.
fn offset_at(bytes: &[u8], at: usize) -> Checked<usize> {
    let offset = usize::try_from(u64_at(bytes, at)?).map_err(|_| errors::INVALID_IMAGE)?;
    if offset > MAX_BYTES { Err(errors::INVALID_IMAGE) } else { Ok(offset) }
}
