//! `tallow edit`: text sections replaced, added or removed.

use super::{Reading, Target, clean, refused};
use crate::ui::Ui;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tallow::format::container::DEFAULT_MAX_TEXT as MAX_TEXT;
use tallow::format::tools::{self, Edit as Change};
use tallow::format::{Container, GraphFormat, ModelFile, ReadOptions};
use tallow::graph_file::GraphFile;

/// Replace, add or remove text sections of a .cyb or .model file.
///
/// No byte of a binary section changes. An edit after which a model could no longer be opened is
/// refused, and leaves the file as it was.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tallow edit qwen.model --card README.md --in-place\n  \
    tallow edit qwen.model --set config=config.toml --remove eval -o new.model\n  \
    tallow edit qwen.model --graph graph.txt -o new.model\n  \
    tallow cat qwen.model chat | sed s/You/Thou/ | tallow edit qwen.model --set chat=- --in-place")]
pub struct Edit {
    /// A .cyb or .model file.
    file: PathBuf,
    /// Give a section the content of a file, or of stdin where FILE is `-`; a section that is not
    /// there is added.
    #[arg(long, value_name = "SECTION=FILE")]
    set: Vec<String>,
    /// Take a section out.
    #[arg(long, value_name = "SECTION")]
    remove: Vec<String>,
    /// Set the graph section: from a .hex or .toml file as it is, from a .txt file in the form that
    /// `tallow compile` prints; `none` takes it out. The graph is checked against the model.
    #[arg(long, value_name = "FILE|none")]
    graph: Option<PathBuf>,
    /// Set the card; short for --set card=FILE.
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    reading: Reading,
}

/// What is to become of one section.
struct Wish {
    section: String,
    /// Format and text; `None` takes the section out.
    content: Option<(String, String)>,
}

impl Edit {
    pub fn execute(self, ui: &Ui) -> Result<ExitCode> {
        let destination = self.target.destination()?;
        let options = self.reading.options();
        let wishes = self.wishes()?;
        if wishes.is_empty() {
            bail!("nothing to change; say --set, --remove, --graph or --card");
        }
        if let Some(twice) =
            wishes.iter().enumerate().find(|(i, w)| wishes[..*i].iter().any(|o| o.section == w.section))
        {
            bail!("the section `{}` is to be changed twice; say what it should become in the end", twice.1.section);
        }
        let container = Container::open_with(&self.file, &options)?;
        if self.graph.as_ref().is_some_and(|g| g.as_os_str() == "none") && container.entry("graph").is_none() {
            bail!(tallow::Error::Usage(format!("{}: has no graph section to take out", self.file.display())));
        }
        let changes: Vec<Change> = wishes.iter().flat_map(|wish| changes(wish, &container)).collect();
        drop(container);
        let warnings = tools::edit(&self.file, &changes, &destination, &options).map_err(refused)?;
        warnings.iter().for_each(|w| ui.warn(clean(w)));
        ui.note(format!("wrote {}", self.target.path(&self.file).display()));
        Ok(ExitCode::SUCCESS)
    }

    fn wishes(&self) -> Result<Vec<Wish>> {
        let from_stdin = self.set.iter().filter(|pair| pair.ends_with("=-")).count()
            + usize::from(self.card.as_ref().is_some_and(|path| path.as_os_str() == "-"));
        if from_stdin > 1 {
            bail!("stdin holds one text, but {from_stdin} sections are to be read from it");
        }
        let mut wishes: Vec<Wish> =
            self.remove.iter().map(|section| Wish { section: section.clone(), content: None }).collect();
        let mut set = |section: &str, path: &Path| {
            let content = Some((format_of(section, path), text(path)?));
            wishes.push(Wish { section: section.to_owned(), content });
            Ok::<_, anyhow::Error>(())
        };
        for pair in &self.set {
            let parts = pair.split_once('=').filter(|(section, path)| !section.is_empty() && !path.is_empty());
            let (section, path) = parts.with_context(|| format!("--set {pair}: expected SECTION=FILE"))?;
            set(section, Path::new(path))?;
        }
        if let Some(path) = &self.card {
            set("card", path)?;
        }
        match &self.graph {
            None => {}
            Some(path) if path.as_os_str() == "none" => wishes.push(Wish { section: "graph".into(), content: None }),
            Some(path) => {
                let (format, text) = graph(&self.file, path, &self.reading.options())?;
                wishes.push(Wish { section: "graph".into(), content: Some((format.name().into(), text)) });
            }
        }
        Ok(wishes)
    }
}

/// The library's changes for a wish. A section whose format changes is taken out and added.
fn changes(wish: &Wish, container: &Container) -> Vec<Change> {
    let name = wish.section.clone();
    let Some((format, content)) = wish.content.clone() else {
        return vec![Change::Remove { name }];
    };
    match container.entry(&name) {
        None => vec![Change::Add { name, format, content }],
        // Only these two may be written in more than one way; elsewhere a file's ending says nothing.
        Some(entry) if entry.format != format && ["graph", "program"].contains(&name.as_str()) => {
            vec![Change::Remove { name: name.clone() }, Change::Add { name, format, content }]
        }
        Some(_) => vec![Change::Replace { name, content }],
    }
}

/// The format of a new section: that of a model's section of this name, else the file's ending.
fn format_of(section: &str, path: &Path) -> String {
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    match (section, ending.as_deref()) {
        ("card", _) => "md",
        ("config" | "chat" | "tensors" | "vocab" | "eval", _) => "toml",
        ("graph", None) => "hex",
        ("program", None) => "rs",
        (_, Some(ending)) => ending,
        (_, None) => "txt",
    }
    .to_owned()
}

/// The text of a file, or of stdin for `-`.
fn text(path: &Path) -> Result<String> {
    let fail = |source| tallow::Error::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(fail)?;
    } else {
        let file = std::fs::File::open(path).map_err(fail)?;
        file.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(fail)?;
    }
    let refuse = |cause: String| {
        let path = path.display();
        tallow::Error::Usage(format!(
            "{path}: {cause}; binary sections are changed with `tallow extract` and `tallow pack`"
        ))
    };
    if bytes.len() as u64 > MAX_TEXT {
        bail!(refuse(format!("longer than {MAX_TEXT} bytes, the most that a text section holds")));
    }
    String::from_utf8(bytes).map_err(|e| refuse(format!("byte {} is not UTF-8", e.utf8_error().valid_up_to())).into())
}

/// A graph section from a file, checked against the model at `model`.
fn graph(model: &Path, path: &Path, options: &ReadOptions) -> Result<(GraphFormat, String)> {
    let model = ModelFile::open_with(model, options)?;
    let file = GraphFile::read(path, Some(&model))?;
    let section = file.section(path, &model)?;
    if file.graph.graph().output_named("logits").is_none() {
        eprintln!(
            "warning: the graph has no output `logits`, so the model runs on inputs (run --input) and not on text"
        );
    }
    Ok(section)
}
