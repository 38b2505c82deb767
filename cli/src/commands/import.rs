//! `tallow import`: other formats into `.model`.

use crate::commands::tools::refuse_existing;
use crate::options::ImportBar;
use crate::ui::{self, Ui};
use anyhow::Result;
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::import::{EncodingChoice, ImportOptions};

/// Make a .model file from a GGUF file, its shards, or a Hugging Face folder.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow import qwen2.5-coder-0.5b.gguf\n  \
    tallow import ./SmolLM3-3B -o smollm3.model --encoding q4k\n  \
    tallow import ./SmolLM3-3B --graph -o smollm3.model\n  \
    tallow import weights.safetensors --graph=graph.txt --model-type my_classifier -o classifier.model\n  \
    tallow import weights.safetensors --program mine.rs --config mine.toml -o mine.model\n  \
    tallow import model.gguf --dry-run")]
pub struct Import {
    /// A .gguf file (any one of its shards), or a folder with config.json and .safetensors files.
    source: PathBuf,
    /// The file to write; by default the source's name with .model in the current folder.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Encoding of matrices: auto, or one of u32, u16, q8, q4, ternary, q2k, q3k, q4k, q5k, q6k.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    encoding: String,
    /// Name inside the file; by default what the source says.
    #[arg(long)]
    name: Option<String>,
    /// Leave a setting of the source's config out although Tallow does not know it; may be given
    /// several times.
    #[arg(long, value_name = "KEY")]
    ignore_setting: Vec<String>,
    /// Also write the graph of the model into it, as a graph section in hex: the file then runs wherever
    /// graphs do, without anything that knows its type. With a FILE (.txt, .hex or .toml) that graph
    /// instead, over the tensors of any .safetensors file or folder under the names that they have there.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    graph: Option<String>,
    /// A program (.rs or .tri) over the tensors of any .safetensors file or folder, under the names that they
    /// have there; it is compiled for --config, and goes into the model.
    #[arg(long, value_name = "FILE", requires = "config", conflicts_with = "graph")]
    program: Option<PathBuf>,
    /// The config of a model that is made with --program.
    #[arg(long, value_name = "FILE", requires = "program")]
    config: Option<PathBuf>,
    /// The model type of a model that is made with --graph=FILE: any name.
    #[arg(long, value_name = "NAME", default_value = "graph", requires = "graph")]
    model_type: String,
    /// Read, choose encodings and report, but write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Import {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let encoding: EncodingChoice = self.encoding.parse().map_err(tallow::Error::from)?;
        let output = self.output.clone().unwrap_or_else(|| default_output(&self.source));
        if !self.dry_run {
            refuse_existing(&output, self.force)?;
            refuse_source(&self.source, &output)?;
        }
        let options = ImportOptions {
            encoding,
            dry_run: self.dry_run,
            ignore_settings: self.ignore_setting.clone(),
            name: self.name.clone(),
            graph: self.graph.is_some(),
        };
        let mut bar = ImportBar::new(ui);
        let graph = self.graph.as_deref().filter(|path| !path.is_empty());
        let report = match (graph, self.program.as_deref().zip(self.config.as_deref())) {
            (None, Some((program, config))) => {
                let given = tallow::compiled::given(program, config)?;
                tallow::import::import_with_program(&self.source, &given, &output, &options, &mut bar)
            }
            (None, None) => tallow::import::import(&self.source, &output, &options, &mut bar),
            (Some(path), _) => {
                let given = tallow::graph_file::given(Path::new(path), &self.model_type)?;
                tallow::import::import_with_graph(&self.source, &given, &output, &options, &mut bar)
            }
        };
        bar.bar.finish_and_clear();
        let report = report.map_err(tallow::Error::from)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
        } else if !ui.quiet() {
            write!(out, "{report}")?;
        }
        if self.json {
            report.warnings.iter().for_each(|w| ui.warn(w));
        }
        if !self.json {
            match self.dry_run {
                true => ui.note("dry run: nothing was written"),
                false => ui.note(format!("wrote {} ({})", output.display(), ui::file_size(&output))),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Inputs are never modified: an output that exists may not be the source, nor lie beside its files
/// under a name that is no `.model`.
fn refuse_source(source: &Path, output: &Path) -> Result<()> {
    let (Ok(source), Ok(output)) = (source.canonicalize(), output.canonicalize()) else { return Ok(()) };
    let folder = if source.is_dir() { Some(source.as_path()) } else { source.parent() };
    let part = output.parent() == folder && output.extension().is_none_or(|e| e != "model");
    if source == output || part {
        return Err(tallow::Error::Usage(format!(
            "{} belongs to the source; give another name with -o",
            output.display()
        ))
        .into());
    }
    Ok(())
}

/// `NAME.model` in the current folder, from the last part of the source's path.
fn default_output(source: &Path) -> PathBuf {
    let absolute = std::fs::canonicalize(source).unwrap_or_else(|_| source.to_owned());
    let stem = if absolute.is_dir() { absolute.file_name() } else { absolute.file_stem() };
    PathBuf::from(format!("{}.model", stem.map_or("out".into(), |s| s.to_string_lossy())))
}
