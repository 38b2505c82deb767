//! The options of a comparison by numbers, and what it prints.

use anyhow::{Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tallow::compiler::Stage;
use tallow::executor::ProgramOptions;
use tallow::format::ModelFile;
use tallow::numeric::{self, Given, References, Report, Side};
use tallow::{CacheType, Engine, Error, Opened};

/// What is compared by numbers, and on which inputs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Numbers")]
pub struct Numeric {
    /// Run both graphs on the same inputs and compare every value that they have in common; each is reset to that of
    /// the first graph before the second goes on.
    #[arg(long)]
    numeric: bool,
    /// Compare what the graph computes with values in files: a .safetensors or .npy file, or a folder of them, named by
    /// module path, as in model.layers.0.self_attn.q_proj, or by value.
    #[arg(long, value_name = "PATH")]
    against: Option<PathBuf>,
    /// Run on this text.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Run on this input: NAME=FILE.npy, NAME=FILE.safetensors, NAME=1,2,3 or NAME=true,false; may be given several
    /// times. Others are generated.
    #[arg(long, value_name = "NAME=VALUE")]
    input: Vec<String>,
    /// Generate inputs of this size, as in S=7; may be given several times.
    #[arg(long, value_name = "SYMBOL=N")]
    size: Vec<String>,
    /// Generate other inputs.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The relative error that every value of real numbers may have, in place of one that follows its type and the
    /// encodings of weights.
    #[arg(long, value_name = "X", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Run the plain interpreter in f32.
    #[arg(long)]
    reference: bool,
    /// List every value that was compared.
    #[arg(long)]
    all: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x >= 0.0 => Ok(x),
        _ => Err("expected a number that is not negative, as in 1e-3".into()),
    }
}

impl Numeric {
    /// Whether numbers are compared at all, and not only structure.
    ///
    /// # Errors
    /// Options of such a comparison without it, and both kinds together.
    pub fn is_asked(&self) -> Result<bool> {
        if self.numeric && self.against.is_some() {
            bail!(Error::Usage(
                "--numeric compares two graphs, and --against one graph with values in files; give one of them".into()
            ));
        }
        let asked = self.numeric || self.against.is_some();
        let given: [(&str, bool); 7] = [
            ("--text", self.text.is_some()),
            ("--input", !self.input.is_empty()),
            ("--size", !self.size.is_empty()),
            ("--seed", self.seed.is_some()),
            ("--tolerance", self.tolerance.is_some()),
            ("--reference", self.reference),
            ("--all", self.all),
        ];
        match given.iter().find(|(_, given)| *given && !asked) {
            Some((option, _)) => {
                bail!(Error::Usage(format!("{option} is of a comparison by numbers; add --numeric, or --against PATH")))
            }
            None => Ok(asked),
        }
    }

    /// Compares: with `--against` one graph, else two, each at its stage.
    ///
    /// # Errors
    /// Another number of graphs; what the comparison refuses.
    pub fn report(&self, sides: Vec<(Opened, Stage)>) -> Result<Report> {
        let count = sides.len();
        match (&self.against, <[_; 2]>::try_from(sides)) {
            (None, Ok(sides)) => self.compare(sides),
            (None, Err(_)) => bail!(Error::Usage("--numeric compares two graphs; give B too".into())),
            (Some(path), Err(mut sides)) => match sides.pop().filter(|_| count == 1) {
                Some(side) => self.against(side, path),
                None => bail!(Error::Usage("--against compares one graph with values in files; give A".into())),
            },
            (Some(_), Ok(_)) => bail!(Error::Usage(
                "--against compares one graph with values in files; leave B out, or compare both with --numeric".into()
            )),
        }
    }

    /// The report for people.
    pub fn text(&self, report: &Report) -> String {
        report.text(self.all)
    }

    fn compare(&self, [left, right]: [(Opened, Stage); 2]) -> Result<Report> {
        let files = (left.0.file.clone(), right.0.file.clone());
        let left = self.side(left, files.1.as_ref())?;
        let right = self.side(right, files.0.as_ref())?;
        let sides = [&left, &right];
        let inputs = numeric::inputs(&sides, &self.given(&sides)?)?;
        let pairs = numeric::pairs(&left, &right)?;
        Ok(numeric::compare(&left, &right, &pairs, &inputs, self.tolerance)?)
    }

    fn against(&self, side: (Opened, Stage), path: &Path) -> Result<Report> {
        if !self.size.is_empty() || self.seed.is_some() {
            bail!(Error::Usage(
                "--size and --seed are of generated inputs, and values in files were computed from their own".into()
            ));
        }
        let side = self.side(side, None)?;
        let references = References::read(path)?;
        let inputs = references.inputs(&side, &self.given(&[&side])?)?;
        Ok(numeric::against(&side, &references, &inputs, self.tolerance)?)
    }

    fn side(&self, (opened, stage): (Opened, Stage), model: Option<&Arc<ModelFile>>) -> Result<Side> {
        let engine = if self.reference { Engine::Reference } else { Engine::Cpu };
        // Exact rows, so that attention is compared as closely as the rest.
        let options = ProgramOptions { engine, cache: CacheType::F32, stage: Some(stage), ..ProgramOptions::default() };
        let label = match stage {
            Stage::Raw => opened.label.clone(),
            Stage::Portable | Stage::Target => format!("{} ({})", opened.label, stage.name()),
        };
        Ok(Side::of_opened(opened, model, options)?.labelled(label))
    }

    fn given(&self, sides: &[&Side]) -> Result<Given> {
        let mut given = Given { text: self.text.clone(), seed: self.seed.unwrap_or(0), ..Given::default() };
        for text in &self.input {
            given.add_input(text, sides)?;
        }
        for text in &self.size {
            given.add_size(text)?;
        }
        Ok(given)
    }
}
