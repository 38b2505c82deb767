//! The container tools, one file each, and what they share.

mod cat;
mod edit;
mod extract;
pub mod hash;
mod pack;
mod upgrade;
mod verify;

pub use cat::Cat;
pub use edit::Edit;
pub use extract::Extract;
pub use hash::Hash;
pub use pack::Pack;
pub use upgrade::Upgrade;
pub use verify::Verify;

pub use crate::options::Reading;

use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tallow::Error;
use tallow::format::tools::Destination;
use tallow::format::{ErrorKind, FormatError};

/// Where a changed container goes.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The file to write.
    #[arg(long, short, value_name = "FILE", required_unless_present = "in_place")]
    output: Option<PathBuf>,
    /// Replace FILE itself, whole or not at all.
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
}

impl Target {
    /// As the library takes it; an error where the output exists and may not be replaced.
    pub fn destination(&self) -> Result<Destination> {
        match &self.output {
            Some(path) => {
                refuse_existing(path, self.force)?;
                Ok(Destination::File(path.clone()))
            }
            None => Ok(Destination::InPlace),
        }
    }

    /// What will have been written.
    pub fn path<'a>(&'a self, source: &'a Path) -> &'a Path {
        self.output.as_deref().unwrap_or(source)
    }
}

/// An error where `path` exists, unless `force` is given.
pub fn refuse_existing(path: &Path, force: bool) -> Result<()> {
    if force || path.symlink_metadata().is_err() {
        return Ok(());
    }
    bail!(Error::Usage(format!("{} exists; give another name, or use --force to replace it", path.display())))
}

/// An error of the library, where a request that cannot be honoured is a wrong use of the command.
pub fn refused(error: FormatError) -> Error {
    match error.kind() {
        ErrorKind::Refused => Error::Usage(error.to_string()),
        _ => Error::Format(error),
    }
}

/// `name`, with control characters spelt out, so that no file can steer the terminal.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// A progress bar that appears when work takes longer than a second, and stops the work on Ctrl-C.
pub struct LateBar<'a> {
    ui: &'a Ui,
    what: String,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl<'a> LateBar<'a> {
    /// A bar that says what is being done, as in `hashing`.
    pub fn new(ui: &'a Ui, what: impl Into<String>) -> Self {
        LateBar { ui, what: what.into(), started: Instant::now(), bar: None }
    }

    /// Takes the bytes done and the bytes in all; false where the work should stop.
    pub fn tick(&mut self, done: u64, total: u64) -> bool {
        if self.bar.is_none() && self.started.elapsed() > Duration::from_secs(1) {
            self.bar = Some(self.ui.bytes_bar(total, &self.what));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
        !ui::interrupted()
    }
}

impl Drop for LateBar<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
