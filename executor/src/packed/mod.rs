//! Where packed matrices live: in the memory of the process, or in a file that processes share.
//!
//! A matrix of a block encoding is multiplied in a layout of its own, which takes a moment to make. A [`PackedStore`]
//! has a place for each such matrix of a program in one region, and packs a matrix when it is first asked for, straight
//! from the source and once, whichever thread asks. The pages of the source are let go then.
//!
//! With a folder ([`PackedStore::set_folder`]) the region is written to a file there once all matrices are packed. The next
//! process maps that file instead of packing, and processes that run at once share its memory.
//!
//! | module | holds |
//! |---|---|
//! | `layout` | the place of each matrix, and the beginning of a file that has these |
//! | `memory` | memory of the process and mapped files: the only `unsafe` here |
//! | `store` | packing, checking, and who waits for whom |
//! | `file` | a file: its head, and whether it may be used |
//! | `folder` | the folder: names, what is remembered of a source, making room |
//! | `writer` | writing a file beside the running program |
//! | `digest` | checksums of packed bytes, and the digest of a source |
//!
//! # The file
//!
//! Its name has a SHA-256 over the encoded matrices and the layout, and the version of the packed form. One form serves
//! every instruction set, so processors do not occur in it. The file is the region as it lies in memory, with a head in
//! the first pages: everything that the layout says, the key, a checksum for each matrix, and a checksum of all that. The
//! head that fits is known before a file is opened and is compared as a whole, so that no number in a file is trusted. A
//! matrix is checked against its checksum before its first use in each process; one that differs makes the file go, and
//! this and all later matrices are packed again.
//!
//! A file is written under a temporary name and renamed when it is whole, so that another process sees all of it or
//! nothing, and the last of several writers wins with the same bytes. Files are never cut short or written to
//! after that, only removed, which leaves existing maps whole.
//!
//! Nothing that goes wrong with the folder ends a run: packing stays in memory, and [`PackedStore::report`] tells why.

mod digest;
mod file;
mod folder;
mod kernel;
mod layout;
mod memory;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use store::{PackedReport, PackedStore};

pub(crate) use kernel::Packed;
pub(crate) use store::Matrix;

/// Whether packed matrices are kept in a file for other runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackedCache {
    /// Where packing takes a while: the matrices come from a file and take at least 64 MiB together.
    #[default]
    Auto,
    /// Wherever the matrices come from a file.
    On,
    /// Never: matrices are packed anew in each process.
    Off,
}
