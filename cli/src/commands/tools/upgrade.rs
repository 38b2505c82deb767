//! `tallow upgrade`: a model from before format version 2, brought up to date.

use super::{LateBar, Reading, Target, clean, refused};
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::format::tools::{self, Reencoded};

/// What the names of encodings mean in an old file.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Meanings {
    /// IEEE f32 and f16, GGUF Q4_0 and Q8_0, under the names u32, u16, q4 and q8.
    Legacy,
    /// The fixed-point numbers of today; only the version is missing.
    Canonical,
}

impl From<Meanings> for tools::Meanings {
    fn from(meanings: Meanings) -> Self {
        match meanings {
            Meanings::Legacy => tools::Meanings::Legacy,
            Meanings::Canonical => tools::Meanings::Canonical,
        }
    }
}

/// Bring a .model file without `format_version = 2` up to date.
///
/// Encodings bear the same names in older files, with other meanings. Where the file does not
/// settle which ones it uses, --meanings must say so.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow upgrade old.model -o new.model\n  \
    tallow upgrade old.model --meanings legacy --in-place")]
pub struct Upgrade {
    /// A .model file.
    file: PathBuf,
    /// What its encodings mean.
    #[arg(long, value_enum)]
    meanings: Option<Meanings>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    reading: Reading,
}

impl Upgrade {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let destination = self.target.destination()?;
        let meanings = self.meanings.map(Into::into);
        let options = self.reading.options();
        let mut bar = LateBar::new(ui, "upgrading");
        let upgraded =
            tools::upgrade(&self.file, meanings, &destination, &options, &mut |done, total| bar.tick(done, total));
        drop(bar);
        let upgraded = upgraded.map_err(refused)?;
        ui.note(format!("meanings: {}, because {}", upgraded.meanings.name(), upgraded.because));
        if !upgraded.tensors.is_empty() {
            ui.note(ui::table(&rows(&upgraded.tensors)).trim_end());
        }
        for tensor in upgraded.tensors.iter().filter(|t| t.coarse) {
            let percent = tensor.error * 100.0;
            ui.warn(format!("tensor `{}` loses {percent:.2} % in {}", clean(&tensor.name), tensor.to.name()));
        }
        upgraded.warnings.iter().for_each(|w| ui.warn(clean(w)));
        ui.note(format!("wrote {}", self.target.path(&self.file).display()));
        Ok(ExitCode::SUCCESS)
    }
}

/// How many tensors went from which type to which, and the worst error among them.
fn rows(tensors: &[Reencoded]) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<(&str, &str), (usize, f64)> = BTreeMap::new();
    for tensor in tensors {
        let group = groups.entry((tensor.from.unwrap_or("copied"), tensor.to.name())).or_default();
        *group = (group.0 + 1, group.1.max(tensor.error));
    }
    let mut rows = vec![["from", "to", "tensors", "worst error"].map(String::from).to_vec()];
    for ((from, to), (count, error)) in groups {
        rows.push(vec![from.into(), to.into(), count.to_string(), format!("{:.3} %", error * 100.0)]);
    }
    rows
}
