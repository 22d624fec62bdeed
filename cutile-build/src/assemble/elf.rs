//! Whether a file is a whole cubin, and which kernels it has. A cubin is a 64-bit ELF file.

use object::Endianness;
use object::elf::{FileHeader64, PT_NULL, SHN_UNDEF, SHT_NOBITS, SHT_NULL, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use std::error::Error;
use std::fmt;

type Header = FileHeader64<Endianness>;

/// Length of the file header.
const HEADER: usize = 64;

/// Why a file is no cubin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotCubin {
    /// No byte.
    Empty,
    /// It ends before it should.
    Truncated(String),
    /// It is something else.
    NotElf(String),
}

impl fmt::Display for NotCubin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::Truncated(what) => write!(f, "the file is cut short: {what}"),
            Self::NotElf(what) => write!(f, "the file is no ELF file: {what}"),
        }
    }
}

impl Error for NotCubin {}

/// Checks that a file is a whole 64-bit ELF file: every header, section and segment lies in it.
///
/// # Errors
///
/// [`NotCubin`].
pub fn check_cubin(file: &[u8]) -> Result<(), NotCubin> {
    let truncated = |what: &str| NotCubin::Truncated(format!("{what} ({} bytes)", file.len()));
    if file.is_empty() {
        return Err(NotCubin::Empty);
    }
    if !file.starts_with(b"\x7fELF") {
        let start = &file[..file.len().min(8)];
        return Err(NotCubin::NotElf(format!(
            "it starts with {:?}",
            start.escape_ascii().to_string()
        )));
    }
    if file.len() < HEADER {
        return Err(truncated("it ends in the file header"));
    }
    let header = Header::parse(file).map_err(|error| NotCubin::NotElf(error.to_string()))?;
    let endian = header.endian().map_err(|error| NotCubin::NotElf(error.to_string()))?;
    let sections = header
        .section_headers(endian, file)
        .map_err(|_| truncated("the section headers are not in it"))?;
    if sections.is_empty() {
        return Err(truncated("it has no section headers"));
    }
    let within =
        |offset: u64, len: u64| offset.checked_add(len).is_some_and(|end| end <= file.len() as u64);
    for section in sections {
        let kind = section.sh_type(endian);
        if kind != SHT_NULL
            && kind != SHT_NOBITS
            && !within(section.sh_offset(endian), section.sh_size(endian))
        {
            return Err(truncated("a section ends after it"));
        }
    }
    let segments = header
        .program_headers(endian, file)
        .map_err(|_| truncated("the program headers are not in it"))?;
    for segment in segments {
        if segment.p_type(endian) != PT_NULL
            && !within(segment.p_offset(endian), segment.p_filesz(endian))
        {
            return Err(truncated("a segment ends after it"));
        }
    }
    Ok(())
}

/// Names of the functions that a cubin defines, sorted: its entries, and what they call.
///
/// # Errors
///
/// [`NotCubin`] where it is not whole, or its symbol table cannot be read.
pub fn entry_symbols(cubin: &[u8]) -> Result<Vec<String>, NotCubin> {
    check_cubin(cubin)?;
    read_symbols(cubin).map_err(|error| NotCubin::NotElf(error.to_string()))
}

fn read_symbols(cubin: &[u8]) -> object::Result<Vec<String>> {
    let header = Header::parse(cubin)?;
    let endian = header.endian()?;
    let table = header.sections(endian, cubin)?.symbols(endian, cubin, SHT_SYMTAB)?;
    let mut names = Vec::new();
    for symbol in table.iter() {
        if symbol.st_type() == STT_FUNC && symbol.st_shndx(endian) != SHN_UNDEF {
            let name = symbol.name(endian, table.strings())?;
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Whether a cubin defines a function of this name.
///
/// # Errors
///
/// As [`entry_symbols`].
pub fn has_function(cubin: &[u8], name: &str) -> Result<bool, NotCubin> {
    Ok(entry_symbols(cubin)?.iter().any(|symbol| symbol == name))
}
