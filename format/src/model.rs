//! A `.model`: a container whose sections have been checked against each other.

use std::path::Path;

use crate::FORMAT_VERSION;
use crate::chat::ChatSection;
use crate::check;
use crate::config::Config;
use crate::container::{Container, Entry, ReadOptions};
use crate::encoding::Encoding;
use crate::error::{ErrorKind, FormatError, Result, list};
use crate::tensors::{TensorEntry, TensorIndex};
use crate::toml_text::line_of;
use crate::vocab::Vocab;

const NO_CARD: &str = "the model has no `card`";
/// The warning about a model without a program section.
pub const NO_PROGRAM: &str = "the model has no `program`";
const NO_VOCAB: &str = "the model has no `vocab`";

/// The order in which the files of a `.model` are written.
pub const ORDER: [&str; 9] = ["card", "config", "program", "graph", "chat", "tensors", "vocab", "eval", "weights"];

/// The language of the program section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramFormat {
    /// Rust-like source.
    Rs,
    /// Trident source.
    Tri,
}

impl ProgramFormat {
    /// The value of `format` in the frontmatter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs => "rs",
            Self::Tri => "tri",
        }
    }

    /// The language of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Rs, Self::Tri].into_iter().find(|f| f.name() == name)
    }
}

/// How the graph section is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphFormat {
    /// The binary graph in hexadecimal.
    Hex,
    /// Tables.
    Toml,
}

impl GraphFormat {
    /// The value of `format` in the frontmatter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hex => "hex",
            Self::Toml => "toml",
        }
    }

    /// The form of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Hex, Self::Toml].into_iter().find(|f| f.name() == name)
    }
}

/// One tensor with its bytes in the memory map.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Row-major, `[out, in]` for matrices.
    pub shape: &'a [u64],
    /// How the values are stored.
    pub encoding: Encoding,
    /// The stored bytes.
    pub bytes: &'a [u8],
}

/// A checked `.model`. Opening reads the text sections apart from the vocabulary, and touches no tensor byte.
#[derive(Debug)]
pub struct ModelFile {
    container: Container,
    config: Config,
    tensors: TensorIndex,
    chat: Option<ChatSection>,
    program: Option<ProgramFormat>,
    graph: Option<GraphFormat>,
    weights: std::ops::Range<usize>,
    warnings: Vec<String>,
}

impl ModelFile {
    /// Opens a file with default limits.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_container(Container::open(path)?)
    }

    /// Opens a file.
    pub fn open_with(path: &Path, options: &ReadOptions) -> Result<Self> {
        Self::from_container(Container::open_with(path, options)?)
    }

    /// The same file, which messages call otherwise than by its path: by the source that it was made of.
    #[must_use]
    pub fn named(mut self, label: &str) -> Self {
        self.container.set_label(label);
        self
    }

    /// Reads bytes compiled into the program; `label` stands for the path in messages.
    pub fn from_static(bytes: &'static [u8], label: &str) -> Result<Self> {
        Self::from_container(Container::from_static(bytes, label)?)
    }

    /// Checks a container that has been opened.
    pub fn from_container(container: Container) -> Result<Self> {
        let label = container.label();
        Self::check(container).map_err(|e| e.with_label(&label))
    }

    fn check(container: Container) -> Result<Self> {
        check_version(&container)?;
        let weights = weights_of(&container)?;
        for name in ["config", "tensors", "vocab", "chat", "eval"] {
            if let Some(entry) = container.entry(name).filter(|e| e.format != "toml") {
                return Err(unsupported_format(entry, &["toml"]));
            }
        }
        let config = section(&container, "config", Config::parse)?.ok_or_else(|| required("config", "toml"))?;
        let length = weights.len() as u64;
        let tensors = section(&container, "tensors", |text| TensorIndex::parse(text, length))?
            .ok_or_else(|| required("tensors", "toml"))?;
        let chat = section(&container, "chat", ChatSection::parse)?;
        let program = format_of(&container, "program", ProgramFormat::from_name, &["rs", "tri"])?;
        let graph = format_of(&container, "graph", GraphFormat::from_name, &["hex", "toml"])?;
        for name in ["card", "eval"] {
            container.text(name)?;
        }
        let mut warnings = container.warnings().to_vec();
        for (name, warning) in [("card", NO_CARD), ("program", NO_PROGRAM), ("vocab", NO_VOCAB)] {
            if container.entry(name).is_none() {
                warnings.push(warning.to_owned());
            }
        }
        if config.model_type().is_empty() {
            warnings.push("`model_type` is missing from the config, so no family can be chosen".into());
        }
        let (_, unread) = config.sampling_with_unread().map_err(|e| e.or_at("config"))?;
        warnings.extend(unread.iter().map(|key| format!("`sampling.{key}` has no effect")));
        check::config_and_tensors(&config, &tensors).map_err(|e| e.or_at("config"))?;
        Ok(Self { container, config, tensors, chat, program, graph, weights, warnings })
    }

    /// The container underneath.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The path, or what stands for it in messages.
    pub fn label(&self) -> String {
        self.container.label()
    }

    /// The name in the frontmatter; empty where there is none.
    pub fn name(&self) -> &str {
        self.container.name().unwrap_or_default()
    }

    /// The config.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where each tensor lies.
    pub fn tensors(&self) -> &TensorIndex {
        &self.tensors
    }

    /// One tensor with its bytes.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        let entry = self.tensors.get(name)?;
        Some(TensorView {
            name: &entry.name,
            shape: &entry.shape,
            encoding: entry.encoding,
            bytes: &self.container.bytes()[self.range_of(entry)],
        })
    }

    /// The bytes of all tensors.
    pub fn weights(&self) -> &[u8] {
        &self.container.bytes()[self.weights.clone()]
    }

    /// Where an entry of the index lies in the file.
    pub fn range_of(&self, entry: &TensorEntry) -> std::ops::Range<usize> {
        // The index was checked against the length of the weights, which fits memory.
        let start = self.weights.start + entry.offset as usize;
        start..start + entry.size as usize
    }

    /// Parses the vocabulary; empty where the model has none. Takes up to 300 ms for the largest.
    pub fn vocab(&self) -> Result<Vocab> {
        Ok(section(&self.container, "vocab", Vocab::parse)
            .map_err(|e| e.with_label(&self.label()))?
            .unwrap_or_default())
    }

    /// Every id that ends a sequence: those of the config, and that of `eos_token`, looked up in the vocabulary.
    pub fn end_ids(&self, vocab: &Vocab) -> Result<Vec<u32>> {
        let place = |e: FormatError| e.or_at("config").with_label(&self.label());
        let mut ids = self.config.end_ids().map_err(place)?;
        if let Some(text) = self.config.tokenizer().map_err(place)?.eos_token {
            let id = vocab.find(&text).ok_or_else(|| {
                place(
                    FormatError::new(
                        ErrorKind::Mismatch,
                        format!(
                            "`tokenizer.eos_token` is \"{}\", which the vocabulary does not hold",
                            text.escape_debug()
                        ),
                    )
                    .cure("Correct it, or give `eos_token_ids`"),
                )
            })?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// The chat section.
    pub fn chat(&self) -> Option<&ChatSection> {
        self.chat.as_ref()
    }

    /// The program with its language.
    pub fn program(&self) -> Option<(ProgramFormat, &str)> {
        self.program.zip(self.text("program"))
    }

    /// The graph with its form.
    pub fn graph(&self) -> Option<(GraphFormat, &str)> {
        self.graph.zip(self.text("graph"))
    }

    /// The card, in Markdown.
    pub fn card(&self) -> Option<&str> {
        self.text("card")
    }

    /// The eval section; see [`crate::eval::benchmarks`].
    pub fn eval(&self) -> Option<&str> {
        self.text("eval")
    }

    /// What is odd about the model without making it unusable.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Lets the system drop the memory pages of a tensor; they are read again when touched.
    pub fn release_pages(&self, name: &str) {
        if let Some(entry) = self.tensors.get(name) {
            self.container.release(self.range_of(entry));
        }
    }

    /// A section that was found to be UTF-8 on opening.
    fn text(&self, name: &str) -> Option<&str> {
        self.container.text(name).ok().flatten()
    }
}

/// Demands `types = ["model"]` and `format_version = 2`.
fn check_version(container: &Container) -> Result<()> {
    let types = container.types();
    if !types.iter().any(|t| t == "model") {
        return Err(FormatError::new(
            ErrorKind::Mismatch,
            format!("this is a container, but no model: its types are {}", list(&types, 10)),
        )
        .cure("A model has `types = [\"model\"]` in `[cyb]`")
        .at("frontmatter"));
    }
    let version = container.frontmatter().get("cyb").and_then(|c| c.get("format_version"));
    match version.map(|v| (v, v.as_integer())) {
        Some((_, Some(FORMAT_VERSION))) => Ok(()),
        None => Err(FormatError::new(
            ErrorKind::Version,
            "`format_version` is missing, so its encodings may have other meanings under the same names",
        )
        .cure("Convert it with `tallow upgrade FILE`, which asks for `--meanings legacy|canonical` where the file does not settle it")
        .at("frontmatter")),
        Some((_, Some(version))) if version > FORMAT_VERSION => Err(FormatError::new(
            ErrorKind::Unsupported,
            format!("`format_version` is {version}; this version of Tallow reads {FORMAT_VERSION}"),
        )
        .cure("Use a newer Tallow")
        .at("frontmatter")),
        Some((value, _)) => Err(FormatError::new(
            ErrorKind::Version,
            format!("`format_version` is {}, not {FORMAT_VERSION}", value.to_string().trim()),
        )
        .cure("Convert it with `tallow upgrade FILE`, which asks for `--meanings legacy|canonical` where the file does not settle it")
        .at("frontmatter")),
    }
}

/// The range of the weights, which come last and have a declared size.
pub(crate) fn weights_of(container: &Container) -> Result<std::ops::Range<usize>> {
    let entry = container.entry("weights").ok_or_else(|| required("weights", "tensors"))?;
    if entry.format != "tensors" {
        return Err(unsupported_format(entry, &["tensors"]));
    }
    if entry.size.is_none() {
        return Err(FormatError::new(ErrorKind::Missing, "`weights` has no `size`")
            .cure("Add the number of its bytes to its entry in `[[files]]`")
            .at("frontmatter"));
    }
    match container.entries().last() {
        Some(last) if last.name != "weights" => Err(FormatError::new(
            ErrorKind::Malformed,
            format!("`weights` must be the last file, but `{}` follows it", last.name),
        )
        .cure("Move `weights` to the end")
        .at("frontmatter")),
        _ => Ok(entry.range.clone()),
    }
}

fn required(name: &str, format: &str) -> FormatError {
    FormatError::new(ErrorKind::Missing, format!("the model has no `{name}`"))
        .cure(format!("A model needs a file named `{name}` with format `{format}`"))
        .at("frontmatter")
}

fn unsupported_format(entry: &Entry, known: &[&str]) -> FormatError {
    FormatError::new(
        ErrorKind::Unsupported,
        format!("`{}` has the format `{}`, which is not read", entry.name, entry.format),
    )
    .cure(format!("It should be {}", list(known, 9)))
    .at("frontmatter")
}

/// Parses a text section; errors name the section, and the line in the file beside the line in the section.
pub(crate) fn section<T>(
    container: &Container,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T>,
) -> Result<Option<T>> {
    let Some(text) = container.text(name)? else {
        return Ok(None);
    };
    parse(text).map(Some).map_err(|e| {
        let start = container.entry(name).map_or(0, |e| e.range.start);
        let place = match e.place() {
            None => name.to_owned(),
            Some(inner) => match inner.strip_prefix("line ").and_then(leading_number) {
                Some(line) => {
                    let line = line + line_of(container.bytes(), start) - 1;
                    format!("{name}, {inner} (line {line} of the file)")
                }
                None => format!("{name}, {inner}"),
            },
        };
        e.at(place)
    })
}

fn leading_number(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The format of an optional section whose text is UTF-8.
fn format_of<T>(
    container: &Container,
    name: &str,
    from_name: impl Fn(&str) -> Option<T>,
    known: &[&str],
) -> Result<Option<T>> {
    let Some(entry) = container.entry(name) else {
        return Ok(None);
    };
    let format = from_name(&entry.format).ok_or_else(|| unsupported_format(entry, known))?;
    container.text(name)?;
    Ok(Some(format))
}
