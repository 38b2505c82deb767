//! `tallow diff`: what differs between two graphs.

use crate::numeric::Numeric;
use crate::options::GraphPath;
use crate::source::{Own, SourceOptions, StageName, at_stage};
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::Error;
use tallow::ir::diff::diff;
use tallow::ir::verify::Verified;

/// Exit codes: the two are equal, or different, or could not be compared for whatever reason.
const EQUAL: u8 = 0;
const DIFFERENT: u8 = 1;
const TROUBLE: u8 = 2;

/// Show what differs between two graphs, folded by layer.
///
/// A and B are each a .model file, a GGUF file or a Hugging Face folder; a program in a .rs or .tri file; or a graph in
/// a .txt, .hex or .toml file. A program or a graph section beside a model is taken to be for that model. Names of
/// values, the order of nodes and what symbols are called make no difference; operations, attributes, the order of
/// operands, types, weights, inputs and outputs do.
///
/// With --numeric both run on the same inputs, and every value that they have in common is compared: the first operation
/// out of tolerance is named. With --against there is only A, and its values are compared with those in files.
///
/// Exit code 0 where the graphs are equal, or all values within tolerance; 1 where they differ; 2 where something went
/// wrong. With --quiet the exit code is the whole answer.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow diff old.model new.model\n  \
    tallow diff qwen.model decoder.rs\n  \
    tallow diff mine.model mine.model --left-path graph --right-path family\n  \
    tallow diff qwen.model qwen.model --right-stage target\n  \
    tallow diff old.txt new.txt --json | jq '.entries[].text'\n  \
    tallow diff old.model new.model --numeric --text \"Once upon a time\"\n  \
    tallow diff qwen.model --against values.safetensors")]
pub struct Diff {
    /// The first: a model, a program, or a graph in a .txt, .hex or .toml file.
    #[arg(value_name = "A")]
    left: PathBuf,
    /// The second; left out with --against.
    #[arg(value_name = "B")]
    right: Option<PathBuf>,
    /// The stage at which both graphs are compared.
    #[arg(long, value_enum, default_value_t = StageName::Raw)]
    stage: StageName,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    from: SourceOptions,
    #[command(flatten)]
    own: Sides,
    #[command(flatten)]
    numeric: Numeric,
}

/// What holds for one side alone.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "For one side in place of both")]
struct Sides {
    /// Where the graph of A comes from.
    #[arg(long, value_enum)]
    left_path: Option<GraphPath>,
    /// Where the graph of B comes from.
    #[arg(long, value_enum)]
    right_path: Option<GraphPath>,
    /// The config that A is compiled for.
    #[arg(long, value_name = "FILE", conflicts_with = "left_model")]
    left_config: Option<PathBuf>,
    /// The config that B is compiled for.
    #[arg(long, value_name = "FILE", conflicts_with = "right_model")]
    right_config: Option<PathBuf>,
    /// The model that A is for.
    #[arg(long, value_name = "MODEL")]
    left_model: Option<PathBuf>,
    /// The model that B is for.
    #[arg(long, value_name = "MODEL")]
    right_model: Option<PathBuf>,
    /// Which graph of A, where it has several.
    #[arg(long, value_name = "NAME")]
    left_graph: Option<String>,
    /// Which graph of B, where it has several.
    #[arg(long, value_name = "NAME")]
    right_graph: Option<String>,
    /// The stage of A.
    #[arg(long, value_enum)]
    left_stage: Option<StageName>,
    /// The stage of B.
    #[arg(long, value_enum)]
    right_stage: Option<StageName>,
}

impl Sides {
    /// The options of A and those of B.
    fn each(&self) -> (Own<'_>, Own<'_>) {
        let left = Own {
            path: self.left_path,
            config: self.left_config.as_deref(),
            model: self.left_model.as_deref(),
            graph: self.left_graph.as_deref(),
        };
        let right = Own {
            path: self.right_path,
            config: self.right_config.as_deref(),
            model: self.right_model.as_deref(),
            graph: self.right_graph.as_deref(),
        };
        (left, right)
    }
}

impl Diff {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        match self.compare(ui) {
            Ok(code) => Ok(ExitCode::from(code)),
            // The reader has gone, or the user has stopped it: as for every command.
            Err(e) if ui::is_broken_pipe(&e) || ui::interrupted() => Err(e),
            Err(e) => {
                ui.error(&e);
                Ok(ExitCode::from(TROUBLE))
            }
        }
    }

    fn compare(&self, ui: &Ui) -> Result<u8> {
        let (left, right) = self.own.each();
        if self.numeric.is_asked()? {
            return self.numbers(&left, &right, ui);
        }
        let Some(file) = &self.right else {
            bail!(Error::Usage("give B too, the graph that A is compared with".into()));
        };
        self.from.check_for(&[&self.left, file])?;
        let (left_name, a) = self.side(&self.left, &left, self.own.left_stage, file, ui)?;
        let (right_name, b) = self.side(file, &right, self.own.right_stage, &self.left, ui)?;
        let found = diff(a.graph(), b.graph())?;
        let code = if found.is_equal() { EQUAL } else { DIFFERENT };
        if ui.quiet() {
            return Ok(code);
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            let mut json = found.json(a.graph(), b.graph());
            json["left"] = left_name.into();
            json["right"] = right_name.into();
            writeln!(out, "{json:#}")?;
            return Ok(code);
        }
        if !found.is_equal() {
            write!(out, "{}", coloured(&format!("--- {left_name}\n+++ {right_name}\n"), ui))?;
        }
        write!(out, "{}", coloured(&found.text(), ui))?;
        Ok(code)
    }

    /// The comparison by numbers.
    fn numbers(&self, left: &Own<'_>, right: &Own<'_>, ui: &Ui) -> Result<u8> {
        let stage = |own: Option<StageName>| own.unwrap_or(self.stage).into();
        let mut sides = Vec::new();
        match &self.right {
            Some(file) => {
                self.from.check_for(&[&self.left, file])?;
                sides.push((self.from.open_side(&self.left, left, file, ui)?, stage(self.own.left_stage)));
                sides.push((self.from.open_side(file, right, &self.left, ui)?, stage(self.own.right_stage)));
            }
            None => {
                self.from.check_for(&[&self.left])?;
                sides.push((self.from.open_side(&self.left, left, &self.left, ui)?, stage(self.own.left_stage)));
            }
        }
        let report = self.numeric.report(sides)?;
        if !ui.quiet() {
            let mut out = std::io::stdout().lock();
            match self.json {
                true => writeln!(out, "{:#}", report.json())?,
                false => out.write_all(self.numeric.text(&report).as_bytes())?,
            }
        }
        Ok(if report.is_within() { EQUAL } else { DIFFERENT })
    }

    /// What one side is called, and its graph.
    fn side(
        &self,
        file: &Path,
        own: &Own<'_>,
        stage: Option<StageName>,
        other: &Path,
        ui: &Ui,
    ) -> Result<(String, Verified)> {
        let opened = self.from.open_side(file, own, other, ui)?;
        let stage = stage.unwrap_or(self.stage);
        let name = match stage {
            StageName::Raw => opened.label.clone(),
            StageName::Portable => format!("{} (portable)", opened.label),
            StageName::Target => format!("{} (target)", opened.label),
        };
        Ok((name, at_stage(&opened, stage)?))
    }
}

/// Lines of the first graph in red and of the second in green, on a terminal.
fn coloured(text: &str, ui: &Ui) -> String {
    if !ui.paints_stdout() {
        return text.to_owned();
    }
    let paint = |line: &str| {
        let colour = match line.trim_start().chars().next() {
            Some('-') => "31",
            Some('+') => "32",
            Some(_) | None => return format!("{line}\n"),
        };
        format!("\x1b[{colour}m{line}\x1b[0m\n")
    };
    text.lines().map(paint).collect()
}
