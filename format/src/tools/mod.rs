//! What the container commands do, as functions: they compute and write; the command line prints.

mod assemble;
mod edit;
mod extract;
mod pack;
mod reencode;
mod upgrade;
mod verify;

pub use edit::{Destination, Edit, edit};
pub use extract::{Extracted, cat, extract};
pub use pack::{PackOptions, Packed, PackedFile, pack};
pub use reencode::Reencoded;
pub use upgrade::{Meanings, Upgraded, upgrade};
pub use verify::{VerifyReport, verify};

/// Called with the bytes done and the bytes in all; gives `false` to stop.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// The error of work that a progress callback stopped.
fn stopped() -> crate::FormatError {
    crate::FormatError::new(crate::ErrorKind::Refused, "the work was stopped").cure("Nothing was written")
}
