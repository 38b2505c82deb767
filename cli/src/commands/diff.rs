//! `tallow diff`: what differs between two graphs.

use crate::commands::compile::Output;
use crate::numeric::Numeric;
use crate::options::GraphPath;
use crate::source::{Own, SourceOptions, StageName};
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::Error;
use tallow::compiler::Stage;
use tallow::ir::diff::diff;
use tallow::ir::page;
use tallow::page::{Staged, staged};

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
    tallow diff old.txt new.txt -o difference.html\n  \
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
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// A web page with the two graphs side by side: one file that needs nothing else.
    #[arg(long)]
    html: bool,
    #[command(flatten)]
    output: Output,
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
    /// Whether something is said of B.
    fn has_right(&self) -> bool {
        let files = self.right_config.is_some() || self.right_model.is_some() || self.right_graph.is_some();
        files || self.right_path.is_some() || self.right_stage.is_some()
    }

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
        let form = self.form()?;
        self.output.check()?;
        self.from.check_for(&[&self.left, file])?;
        let a = self.side(&self.left, &left, self.own.left_stage, file, ui)?;
        let b = self.side(file, &right, self.own.right_stage, &self.left, ui)?;
        let (a_graph, b_graph) = (a.graph.graph(), b.graph.graph());
        let found = diff(a_graph, b_graph)?;
        let code = if found.is_equal() { EQUAL } else { DIFFERENT };
        if ui.quiet() && self.output.output.is_none() {
            return Ok(code);
        }
        let text = match form {
            Form::Page => page::diff(a_graph, b_graph, &found, &a.about, &b.about),
            Form::Json => {
                let mut json = found.json(a_graph, b_graph);
                json["left"] = a.about.title.into();
                json["right"] = b.about.title.into();
                format!("{json:#}\n")
            }
            Form::Text => {
                let heads = match found.is_equal() {
                    true => String::new(),
                    false => format!("--- {}\n+++ {}\n", a.about.title, b.about.title),
                };
                let text = format!("{heads}{}", found.text());
                let text = ui::printable(&text);
                if self.output.output.is_some() { text.into_owned() } else { coloured(&text, ui) }
            }
        };
        self.output.write(&text, ui)?;
        Ok(code)
    }

    /// What is asked for, else what the output's ending says, else text.
    fn form(&self) -> Result<Form> {
        let ending = self.output.output.as_ref().map(|path| (path, path.extension().and_then(|e| e.to_str())));
        Ok(match (self.html, self.json, ending) {
            (true, _, _) | (_, false, Some((_, Some("html" | "htm")))) => Form::Page,
            (_, true, _) | (_, _, Some((_, Some("json")))) => Form::Json,
            (_, _, None | Some((_, Some("txt")))) => Form::Text,
            (_, _, Some((path, _))) => bail!(Error::Usage(format!(
                "no form of a difference goes with {}; use .txt, .json or .html, or say --json or --html",
                path.display()
            ))),
        })
    }

    /// The comparison by numbers.
    fn numbers(&self, left: &Own<'_>, right: &Own<'_>, ui: &Ui) -> Result<u8> {
        let form = self.form()?;
        if form == Form::Page {
            bail!(Error::Usage("a page shows how graphs differ, and no numbers; leave out --html or --numeric".into()));
        }
        self.output.check()?;
        let stage = |own: Option<StageName>| own.unwrap_or(self.stage).into();
        let mut sides = Vec::new();
        match &self.right {
            Some(file) => {
                self.from.check_for(&[&self.left, file])?;
                sides.push((self.from.open_side(&self.left, left, file, ui)?, stage(self.own.left_stage)));
                sides.push((self.from.open_side(file, right, &self.left, ui)?, stage(self.own.right_stage)));
            }
            None => {
                if self.own.has_right() {
                    bail!(Error::Usage("there is no B with --against; leave out the --right- options".into()));
                }
                self.from.check_for(&[&self.left])?;
                sides.push((self.from.open_side(&self.left, left, &self.left, ui)?, stage(self.own.left_stage)));
            }
        }
        let report = self.numeric.report(sides)?;
        if !ui.quiet() || self.output.output.is_some() {
            let text = match form {
                Form::Json => format!("{:#}\n", report.json()),
                Form::Text | Form::Page => ui::printable(&self.numeric.text(&report)).into_owned(),
            };
            self.output.write(&text, ui)?;
        }
        Ok(if report.is_within() { EQUAL } else { DIFFERENT })
    }

    /// The graph of one side, and what is known of it.
    fn side(&self, file: &Path, own: &Own<'_>, stage: Option<StageName>, other: &Path, ui: &Ui) -> Result<Staged> {
        let opened = self.from.open_side(file, own, other, ui)?;
        let stage: Stage = stage.unwrap_or(self.stage).into();
        let mut side = match self.form()? {
            Form::Page => staged(&opened, stage)?,
            Form::Text | Form::Json => {
                Staged { graph: opened.at_stage(stage)?, about: page::About::titled(&opened.label) }
            }
        };
        if stage != Stage::Raw {
            side.about.title = format!("{} ({})", opened.label, stage.name());
        }
        Ok(side)
    }
}

/// How a difference is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Page,
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
