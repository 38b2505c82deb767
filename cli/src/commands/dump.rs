//! `tallow dump`: a graph to look at.

use crate::commands::compile::{Format, Output};
use crate::source::SourceOptions;
use crate::ui::{self, Ui};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use tallow::compiler::{Plan, Stage};
use tallow::executor::Variants;
use tallow::ir::dump::{Detail, dot, folded, json, mermaid};
use tallow::ir::{Bindings, Graph, page, text};
use tallow::page::{Staged, staged};
use tallow::{Error, Opened};

/// What of a graph is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// The graph as the front end made it.
    #[default]
    Raw,
    /// Simplified; the same on every device.
    Portable,
    /// Fused for the CPU.
    Target,
    /// What the CPU runs, step by step over numbered buffers.
    Plan,
}

impl Shown {
    fn stage(self) -> Stage {
        match self {
            Shown::Raw => Stage::Raw,
            Shown::Portable => Stage::Portable,
            Shown::Target | Shown::Plan => Stage::Target,
        }
    }
}

/// Show the graph of a model, a program or a graph file, with repeated layers folded.
///
/// FILE is a .model file, a GGUF file or a Hugging Face folder; a program in a .rs or .tri file; or a graph in a
/// .txt, .hex or .toml file. Without FILE the storyteller is shown. What `--full` prints without another option is
/// the text form, which can be read back; the folded text is for people only.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow dump qwen.model\n  \
    tallow dump qwen.model --full -o graph.txt\n  \
    tallow dump qwen.model --stage target\n  \
    tallow dump qwen.model --stage plan --size S=512\n  \
    tallow dump decoder.rs --model qwen.model\n  \
    tallow dump qwen.model -o graph.html\n  \
    tallow dump qwen.model --dot | dot -Tsvg -o graph.svg\n  \
    tallow dump qwen.model --json | jq '.nodes | length'")]
pub struct Dump {
    /// A model, a program, or a graph in a .txt, .hex or .toml file.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    from: SourceOptions,
    /// What is shown: the graph at one of its stages, or the plan made of it.
    #[arg(long, value_enum, default_value_t)]
    stage: Shown,
    /// The number that stands for a symbol in the memory figures of a plan; may be given several times.
    #[arg(long = "size", value_name = "SYMBOL=N", value_parser = size)]
    sizes: Vec<(String, i64)>,
    /// Every node, nothing folded.
    #[arg(long)]
    full: bool,
    /// Every node as JSON.
    #[arg(long, group = "form")]
    json: bool,
    /// A drawing in the language of Graphviz.
    #[arg(long, group = "form")]
    dot: bool,
    /// A flowchart in the language of Mermaid.
    #[arg(long, group = "form")]
    mermaid: bool,
    /// A web page to walk through: one file that needs nothing else.
    #[arg(long, group = "form")]
    html: bool,
    #[command(flatten)]
    output: Output,
}

/// The symbols of a plan's sizes.
fn symbols(plan: &Plan) -> BTreeSet<&str> {
    let made = plan.prelude.iter().chain(&plan.steps).flat_map(|s| &s.types);
    let types = plan.inputs.iter().map(|i| &i.ty).chain(made);
    types.flat_map(|ty| ty.shape.dims()).flat_map(|d| d.symbols()).collect()
}

fn size(text: &str) -> Result<(String, i64), String> {
    let (name, n) = text.split_once('=').ok_or("expected a symbol and a number, as in S=512")?;
    let n: i64 = n.parse().map_err(|e| format!("`{n}`: {e}"))?;
    if n < 0 || name.is_empty() {
        return Err("expected a symbol and a number that is not negative, as in S=512".into());
    }
    Ok((name.to_owned(), n))
}

impl Dump {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let format = self.format()?;
        self.output.check()?;
        let opened = self.from.open(self.file.as_deref(), ui)?;
        if self.stage == Shown::Plan {
            if format != Format::Txt || self.full {
                bail!(Error::Usage("a plan is shown as text alone, every step of it".into()));
            }
            self.output.write(&ui::printable(&self.plans(&opened)?), ui)?;
            return Ok(ExitCode::SUCCESS);
        }
        if !self.sizes.is_empty() {
            bail!(Error::Usage("--size goes with --stage plan".into()));
        }
        if self.wants_page() {
            let Staged { graph, about } = staged(&opened, self.stage.stage())?;
            self.output.put(&page::graph(graph.graph(), &about), graph.graph(), ui)?;
            return Ok(ExitCode::SUCCESS);
        }
        let graph = opened.at_stage(self.stage.stage())?;
        self.output.put(&self.render(graph.graph(), format), graph.graph(), ui)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Whether a web page is asked for, by option or by the output's ending.
    fn wants_page(&self) -> bool {
        let ending = self.output.output.as_ref().and_then(|path| path.extension());
        let other = self.json || self.dot || self.mermaid;
        self.html || (!other && ending.is_some_and(|e| e == "html" || e == "htm"))
    }

    /// The plans of the calls that a session makes, with the memory that their intermediates need.
    fn plans(&self, opened: &Opened) -> Result<String> {
        let Variants { all, last, one } = Variants::new(&opened.graph, Stage::Target).map_err(Error::Executor)?;
        let (name, first) = match last {
            Some(last) => ("a prompt: the last row of the logits", last),
            None => ("a call", all),
        };
        let plans = [Some(&first.plan), one.as_ref().map(|one| &one.plan)];
        let symbols: BTreeSet<&str> = plans.into_iter().flatten().flat_map(symbols).collect();
        if let Some((name, _)) = self.sizes.iter().find(|(name, _)| !symbols.contains(name.as_str())) {
            let known: Vec<&str> = symbols.into_iter().collect();
            bail!(Error::Usage(format!("--size {name}: the plan has no such symbol; it has {}", known.join(", "))));
        }
        let mut out = String::new();
        self.plan(name, &first.plan, &[("S", 512), ("P", 0)], &mut out);
        if let Some(one) = one {
            out.push('\n');
            self.plan("one token that follows others", &one.plan, &[("S", 1), ("P", 511)], &mut out);
        }
        Ok(out)
    }

    fn plan(&self, name: &str, plan: &Plan, defaults: &[(&str, i64)], out: &mut String) {
        let symbols = symbols(plan);
        let defaults = defaults.iter().filter(|(s, _)| symbols.contains(s));
        let mut sizes: Bindings = defaults.map(|&(s, n)| (s.to_owned(), n)).collect();
        sizes.extend(self.sizes.iter().cloned());
        let _ =
            writeln!(out, "# plan of {name}: {} steps, {} before the first call", plan.steps.len(), plan.prelude.len());
        let used: Vec<String> = sizes.iter().map(|(s, n)| format!("{s} = {n}")).collect();
        let _ = match plan.memory(&sizes) {
            Some(m) => writeln!(
                out,
                "# memory at {}: {} in one block; {} each on its own",
                used.join(", "),
                ui::bytes(m.block),
                ui::bytes(m.sum)
            ),
            None if symbols.iter().all(|s| sizes.contains_key(*s)) => {
                writeln!(out, "# memory at {}: more than 64 bits count", used.join(", "))
            }
            None => writeln!(out, "# memory: some sizes are told only by running, or by --size SYMBOL=N"),
        };
        let _ = write!(out, "{plan}");
    }

    /// What is asked for, else what the output's ending says, else text.
    fn format(&self) -> Result<Format> {
        if self.wants_page() {
            // A page holds every node, as JSON does.
            return Ok(Format::Json);
        }
        let asked = [(self.json, Format::Json), (self.dot, Format::Dot), (self.mermaid, Format::Mmd)];
        if let Some((_, format)) = asked.into_iter().find(|(asked, _)| *asked) {
            return Ok(format);
        }
        let Some(path) = &self.output.output else { return Ok(Format::Txt) };
        match Format::of(path) {
            Some(format @ (Format::Txt | Format::Json | Format::Dot | Format::Mmd)) => Ok(format),
            Some(Format::Hex | Format::Toml) => {
                bail!("{}: a dump is for looking at; `tallow compile -o FILE` writes graph sections", path.display())
            }
            None => bail!(
                "no form of a dump goes with {}; use .txt, .json, .dot, .mmd or .html, or say --json, --dot, --mermaid or --html",
                path.display()
            ),
        }
    }

    fn render(&self, graph: &Graph, format: Format) -> String {
        let detail = if self.full { Detail::Full } else { Detail::Folded };
        match (format, detail) {
            (Format::Json, _) => format!("{:#}\n", json(graph)),
            (Format::Dot, _) => dot(graph, detail),
            (Format::Mmd, _) => mermaid(graph, detail),
            (Format::Txt | Format::Hex | Format::Toml, Detail::Folded) => folded(graph),
            (Format::Txt | Format::Hex | Format::Toml, Detail::Full) => text::print(graph),
        }
    }
}
