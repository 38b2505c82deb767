//! `tallow check`: whether everything that gives a model its graph agrees.

use crate::commands::compile::open;
use crate::options::Reading;
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::check::{Comparison, Report, Way, check};

/// At most so many unread tensors are named.
const NAMED: usize = 8;

/// Check a model: its graph section, its family and its program against each other, and its tensors.
///
/// Exit code 0 where nothing is wrong, 1 where something is. A program that differs from the family is
/// worth a warning; a graph section that does is wrong, unless `--allow` says that it is meant.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow check qwen.model\n  \
    tallow check qwen.model --json")]
pub struct Check {
    /// A .model file, a GGUF file or a Hugging Face folder; without it the storyteller.
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The graph section may be another computation than the family.
    #[arg(long)]
    allow: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

impl Check {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let file = open(self.model.as_deref(), &self.reading, ui)?;
        let report = check(&file)?;
        let wrong = report.is_wrong(self.allow);
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{:#}", json(&report, wrong))?;
        } else {
            write!(out, "{}", text(&report, self.allow))?;
        }
        Ok(ExitCode::from(u8::from(wrong)))
    }
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
    let Some(parting) = &c.parting else { return format!("{left} = {right}: the same graph\n") };
    let contradiction = c.left == tallow::check::Origin::Section && !allow;
    let level = if contradiction { "error" } else { "warning" };
    let how = parting.how.replace("the first", &format!("the {left}")).replace("the second", &format!("the {right}"));
    let mut out = format!("\n{level}: the {left} is another computation than the {right}: {how}\n");
    if !c.place.is_empty() {
        out.push_str(&format!("  {}\n", c.place));
    }
    let width = left.len().max(right.len());
    for (name, side) in [(left, &parting.left), (right, &parting.right)] {
        let text = side.as_ref().map_or("nothing", |p| p.text.as_str());
        out.push_str(&format!("  {name:width$}  {text}\n"));
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
            let side = |p: &Option<tallow::ir::canonical::Place>| p.as_ref().map(|p| p.text.clone());
            serde_json::json!({
                "left": c.left.name(),
                "right": c.right.name(),
                "equal": c.parting.is_none(),
                "how": c.parting.as_ref().map(|p| p.how.clone()),
                "left_statement": c.parting.as_ref().and_then(|p| side(&p.left)),
                "right_statement": c.parting.as_ref().and_then(|p| side(&p.right)),
                "program": Some(&c.place).filter(|p| !p.is_empty()),
            })
        })
        .collect();
    serde_json::json!({ "ok": !wrong, "graphs": ways, "comparisons": comparisons, "unread_tensors": report.unread })
}
