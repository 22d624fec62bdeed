//! What is embedded in a file of any kind, without running it or knowing its format.
//!
//! ```text
//! bytes of a file ─▶ scan ─▶ packs, indexes, manifests ─▶ bundle ─▶ per crate, what it embeds
//!                                                                     └─▶ check ─▶ problems
//! ```
//!
//! | file | one idea |
//! |---|---|
//! | `read` | a file, in bounded memory |
//! | `scan` | packs, indexes and manifests by their first bytes, at any alignment |
//! | `bundle` | which of them belong together |
//! | `kernel` | a specialization with its images of all targets |
//! | `words` | in few words, what a specialization's lengths are divisible by |
//! | `shader` | what the entry of a shader says about itself |
//! | `cubin` | which architecture a cubin is for |
//! | `check` | everything that has to hold |
//!
//! An executable, a library or an archive is the same here, and so are ELF, Mach-O and PE: the parts
//! are found by their first bytes, so a stripped file shows what it showed before.
//!
//! # Security
//!
//! Files are input. Nothing is allocated for a length that a file states and does not have, no path
//! is taken from one, and no byte of it is run. A file that passes [`check`](check::check) is whole;
//! who made it is another question.

pub mod bundle;
pub mod check;
pub mod cubin;
pub mod kernel;
pub mod read;
pub mod scan;
pub mod shader;
pub mod words;

#[cfg(test)]
pub mod fixture;
