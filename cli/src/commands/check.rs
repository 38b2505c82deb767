//! `tallow check`: whether everything that gives a model its graph agrees.

use crate::commands::compile::open;
use crate::options::Reading;
use crate::remarks;
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tallow::Opened;
use tallow::check::{self, Agreement, Comparison, Report, Way, check};
use tallow::compiler::Stage;
use tallow::numeric::Given;

/// At most so many unread tensors are named.
const NAMED: usize = 8;
/// At most so many differences are shown of a pair.
const SHOWN: usize = 10;

/// Check a model: its graph section, its family and its program against each other, and its tensors.
///
/// Exit code 0 where nothing is wrong, 1 where something is. A program that differs from the family is
/// worth a warning; a graph section that does is wrong, unless `--allow` says that it is meant.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow check qwen.model\n  \
    tallow check qwen.model --numeric --text \"Hello\"\n  \
    tallow check qwen.model --remarks\n  \
    tallow check qwen.model --json")]
pub struct Check {
    /// A .model file, a GGUF file or a Hugging Face folder; without it the storyteller.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The graph section may be another computation than the family.
    #[arg(long)]
    allow: bool,
    /// Run it too: compiled for the CPU against the raw graph in the plain interpreter, for each way and between
    /// ways, all values on the same inputs.
    #[arg(long)]
    numeric: bool,
    /// A text for the inputs; without it they are generated.
    #[arg(long, value_name = "TEXT", requires = "numeric")]
    text: Option<String>,
    /// Tell what the compiler left alone in the graph that runs, and why.
    #[arg(long)]
    remarks: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Check {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let file = Arc::new(open(self.model.as_deref(), &self.reading, ui)?);
        let report = check(&file)?;
        let agreements = match self.numeric && report.ways.iter().all(|w| w.graph.is_ok()) {
            true => check::agreements(&file, &Given { text: self.text.clone(), ..Given::default() })?,
            false => Vec::new(),
        };
        let wrong = report.is_wrong(self.allow) || agreements.iter().any(|a| a.is_wrong(self.allow));
        let missed = match self.remarks {
            true => Some(Opened::of_model(file.clone(), tallow::Path::Auto)?.compiled(Stage::Target)?),
            false => None,
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            let mut object = json(&report, wrong);
            if self.numeric {
                object["numeric"] = agreements.iter().map(agreement_json).collect();
            }
            if let Some(made) = &missed {
                object["remarks"] = remarks::json(made, false);
            }
            writeln!(out, "{object:#}")?;
        } else {
            write!(out, "{}", ui::printable(&text(&report, self.allow)))?;
            for agreement in &agreements {
                write!(out, "{}", ui::printable(&agreement_text(agreement, self.allow)))?;
            }
            if let Some(made) = &missed {
                match remarks::missed(made) {
                    text if text.is_empty() => writeln!(out, "\nthe compiler missed nothing")?,
                    text => write!(out, "\n{text}")?,
                }
            }
        }
        Ok(ExitCode::from(u8::from(wrong)))
    }
}

fn agreement_text(agreement: &Agreement, allow: bool) -> String {
    let [left, right] = &agreement.of;
    let report = &agreement.report;
    match report.is_within() {
        true => format!("{left} = {right}: {} values agree in numbers\n", report.values.len()),
        false => {
            let level = if agreement.is_wrong(allow) { "error" } else { "warning" };
            format!("\n{level}: {left} and {right} part in numbers\n{}\n", report.text(false))
        }
    }
}

fn agreement_json(agreement: &Agreement) -> serde_json::Value {
    let [left, right] = &agreement.of;
    serde_json::json!({ "left": left, "right": right, "report": agreement.report.json() })
}

fn text(report: &Report, allow: bool) -> String {
    let mut out = ui::table(&report.ways.iter().map(row).collect::<Vec<_>>());
    for way in &report.ways {
        if let Err(error) = &way.graph {
            out.push_str(&format!("\n{error}\n"));
        }
    }
    for note in report.ways.iter().filter_map(|w| w.module.as_ref()).flat_map(|m| &m.notes) {
        out.push_str(&format!("\nwarning: {note}\n"));
    }
    for comparison in &report.comparisons {
        out.push_str(&compared(comparison, allow));
    }
    if !report.unread.is_empty() {
        let shown: Vec<&str> = report.unread.iter().take(NAMED).map(String::as_str).collect();
        let more = report.unread.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        out.push_str(&format!("\nwarning: nothing reads {}{more}\n", shown.join(", ")));
    }
    out
}

fn row(way: &Way) -> Vec<String> {
    let state = match &way.graph {
        Ok(graph) => format!("{} nodes", graph.len()),
        Err(_) => "gives no graph".to_owned(),
    };
    vec![way.origin.name().to_owned(), way.detail.clone(), state]
}

fn compared(c: &Comparison, allow: bool) -> String {
    let (left, right) = (c.left.name(), c.right.name());
    if c.difference.is_equal() {
        return format!("{left} = {right}: the same graph\n");
    }
    let contradiction = c.left == check::Origin::Section && !allow;
    let level = if contradiction { "error" } else { "warning" };
    let head = c.difference.head();
    let mut out = format!("\n{level}: the {left} is another computation than the {right}: {head}");
    let width = left.len().max(right.len());
    for (entry, place) in c.difference.entries.iter().zip(&c.places).take(SHOWN) {
        out.push_str(&format!("\n  {}\n", entry.text));
        if !place.is_empty() {
            out.push_str(&format!("    {place}\n"));
        }
        for (name, side) in [(left, &entry.left), (right, &entry.right)] {
            let text = side.first().map_or("nothing", |p| p.text.as_str());
            out.push_str(&format!("    {name:width$}  {text}\n"));
        }
    }
    let more = c.difference.entries.len().saturating_sub(SHOWN);
    if more > 0 {
        out.push_str(&format!("\n  and {more} more; `tallow diff` shows all\n"));
    }
    if contradiction {
        out.push_str("  If the graph is meant so, say --allow; else remove the section or make it anew.\n");
    }
    out
}

fn json(report: &Report, wrong: bool) -> serde_json::Value {
    let ways: Vec<_> = report
        .ways
        .iter()
        .map(|w| {
            serde_json::json!({
                "from": w.origin.name(),
                "detail": w.detail,
                "nodes": w.graph.as_ref().ok().map(|g| g.len()),
                "error": w.graph.as_ref().err().map(ToString::to_string),
            })
        })
        .collect();
    let comparisons: Vec<_> = report
        .comparisons
        .iter()
        .map(|c| {
            let graph = |origin| report.ways.iter().find(|w| w.origin == origin).and_then(|w| w.graph.as_ref().ok());
            let entries = graph(c.left).zip(graph(c.right)).map(|(l, r)| c.difference.json(l, r)["entries"].take());
            serde_json::json!({
                "left": c.left.name(),
                "right": c.right.name(),
                "equal": c.difference.is_equal(),
                "entries": entries,
                "program": c.places.iter().map(|p| Some(p).filter(|p| !p.is_empty())).collect::<Vec<_>>(),
            })
        })
        .collect();
    serde_json::json!({ "ok": !wrong, "graphs": ways, "comparisons": comparisons, "unread_tensors": report.unread })
}
