//! Writes a `.model` in one pass over its weights.
//!
//! The header is not known before the last tensor is encoded: encodings may be chosen on the way, and with them every
//! offset and the size of the weights. So room is reserved for the longest header that the plan allows, the weights
//! are written behind it, and the header comes last; a comment line in the frontmatter (`#pad` and spaces) takes up what
//! is left. The weights begin on a multiple of [`PAGE`] bytes of the file, and so does each tensor.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use indexmap::IndexMap;
use toml_edit::DocumentMut;

use crate::atomic::AtomicFile;
use crate::container::find_delimiter;
use crate::encoding::Encoding;
use crate::error::{ErrorKind, FormatError, Result, list};
use crate::frontmatter::{self, Declared};
use crate::model::{GraphFormat, ProgramFormat};
use crate::tensors::{TensorEntry, TensorIndex, byte_size, push_entry};
use crate::{FORMAT_VERSION, PAGE};

/// The sections of a new model apart from `tensors` and `weights`. Each is stored with a final LF, which is added where
/// it lacks one.
#[derive(Clone, Debug, Default)]
pub struct ModelParts {
    /// The name in the frontmatter.
    pub name: String,
    /// Markdown for people.
    pub card: String,
    /// TOML: see [`crate::Config`].
    pub config: String,
    /// The program with its language.
    pub program: Option<(ProgramFormat, String)>,
    /// The graph with its form.
    pub graph: Option<(GraphFormat, String)>,
    /// TOML: see [`crate::ChatSection::to_text`].
    pub chat: Option<String>,
    /// TOML: see [`crate::Vocab::to_text`].
    pub vocab: String,
    /// TOML: benchmarks and scores.
    pub eval: String,
}

/// A tensor to come.
#[derive(Clone, Debug)]
pub struct TensorPlan {
    /// Its name.
    pub name: String,
    /// Row-major, `[out, in]` for matrices.
    pub shape: Vec<u64>,
    /// The encodings among which [`ModelWriter::begin`] may choose.
    pub candidates: Vec<Encoding>,
}

/// A model being written. [`ModelWriter::finish`] gives the file its name; dropping the writer leaves nothing behind.
pub struct ModelWriter {
    file: AtomicFile,
    header: Header,
    plan: IndexMap<String, TensorPlan>,
    /// The file offset of the first byte of the weights.
    start: u64,
    done: Vec<TensorEntry>,
    /// The end of the last tensor with bytes of its own, counted as offsets are.
    end: u64,
    /// Bytes of the last of `done` that have been written.
    written: u64,
    /// Whether the last of `done` has bytes of its own.
    open: bool,
}

impl ModelWriter {
    /// Checks the plan, reserves the header and opens a temporary file beside `path`. Tensors are written in the order of the plan.
    pub fn create(path: &Path, parts: ModelParts, plan: Vec<TensorPlan>) -> Result<Self> {
        let header = Header::new(parts);
        Self::with_header(path, header, plan)
    }

    pub(crate) fn with_header(path: &Path, header: Header, plan: Vec<TensorPlan>) -> Result<Self> {
        let mut named = IndexMap::with_capacity(plan.len());
        let mut widest = Vec::with_capacity(plan.len());
        let mut end = 0u64;
        for tensor in plan {
            let entry = widest_entry(&tensor, end).map_err(|e| e.with_file(path))?;
            end = entry.offset + entry.size;
            widest.push(entry);
            let name = tensor.name.clone();
            if named.insert(name.clone(), tensor).is_some() {
                return Err(refused(format!("two tensors are named `{name}`")).with_file(path));
            }
        }
        let longest = header.render(&widest_text(&widest, &named), end).map_err(|e| e.with_file(path))?;
        let start = longest.total();
        let mut file = AtomicFile::create(path)?;
        let seek = file.seek(SeekFrom::Start(start));
        seek.map_err(|e| file.error("cannot write the file", e))?;
        Ok(Self { file, header, plan: named, start, done: Vec::new(), end: 0, written: 0, open: false })
    }

    /// Begins the next tensor of the plan, in one of its candidate encodings.
    pub fn begin(&mut self, name: &str, encoding: Encoding) -> Result<()> {
        self.try_begin(name, encoding).map_err(|e| e.with_file(self.file.path()))
    }

    fn try_begin(&mut self, name: &str, encoding: Encoding) -> Result<()> {
        self.close()?;
        let shape = self.expect(name, encoding)?.shape.clone();
        // The plan was checked for its widest encodings, so neither sum overflows.
        let offset = self.end.next_multiple_of(PAGE);
        let size = byte_size(&shape, encoding).map_err(|e| e.at(tensor(name)))?;
        self.fill(offset - self.end)?;
        self.done.push(TensorEntry { name: name.to_owned(), shape, encoding, offset, size });
        self.end = offset + size;
        self.written = 0;
        self.open = true;
        Ok(())
    }

    /// Makes the next tensor of the plan share the bytes of one that has been written and takes as many.
    pub fn share(&mut self, name: &str, with: &str) -> Result<()> {
        self.try_share(name, with).map_err(|e| e.with_file(self.file.path()))
    }

    fn try_share(&mut self, name: &str, with: &str) -> Result<()> {
        self.close()?;
        let source = self.done.iter().find(|t| t.name == with).cloned().ok_or_else(|| {
            refused(format!("`{name}` cannot share the bytes of `{with}`, which has not been written"))
        })?;
        let shape = self.expect(name, source.encoding)?.shape.clone();
        let size = byte_size(&shape, source.encoding).map_err(|e| e.at(tensor(name)))?;
        if size != source.size {
            return Err(refused(format!(
                "`{name}` takes {size} bytes, so it cannot share the {} bytes of `{with}`",
                source.size
            )));
        }
        self.done.push(TensorEntry { name: name.to_owned(), shape, ..source });
        self.open = false;
        Ok(())
    }

    /// Writes bytes of the tensor that was begun, in any chunks.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.try_write(bytes).map_err(|e| e.with_file(self.file.path()))
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(entry) = self.done.last().filter(|_| self.open) else {
            return Err(refused("bytes were written before any tensor was begun".into()));
        };
        let written = self.written + bytes.len() as u64;
        if written > entry.size {
            return Err(refused(format!("{written} bytes were written, but the tensor takes {}", entry.size))
                .at(tensor(&entry.name)));
        }
        self.file.write_all(bytes).map_err(|e| FormatError::io("cannot write the weights", e))?;
        self.written = written;
        Ok(())
    }

    /// Checks that every tensor is whole, writes the header, and gives the file its name.
    pub fn finish(mut self) -> Result<()> {
        self.write_header().map_err(|e| e.with_file(self.file.path()))?;
        self.file.commit()
    }

    fn write_header(&mut self) -> Result<()> {
        self.close()?;
        if self.done.len() != self.plan.len() {
            let missing: Vec<&String> = self.plan.keys().skip(self.done.len()).collect();
            return Err(refused(format!("tensors of the plan were not written: {}", list(&missing, 5))));
        }
        let index = TensorIndex::new(std::mem::take(&mut self.done), self.end)?;
        let header = self.header.render(&index.to_text(), self.end)?.fit(self.start)?;
        let fail = |e| FormatError::io("cannot write the header", e);
        self.file.seek(SeekFrom::Start(0)).map_err(fail)?;
        self.file.write_all(&header).map_err(fail)
    }

    /// Demands that the last tensor is whole.
    fn close(&self) -> Result<()> {
        match self.done.last() {
            Some(entry) if self.open && self.written != entry.size => {
                Err(refused(format!("only {} of the tensor's {} bytes were written", self.written, entry.size))
                    .at(tensor(&entry.name)))
            }
            _ => Ok(()),
        }
    }

    fn expect(&self, name: &str, encoding: Encoding) -> Result<&TensorPlan> {
        let next = self.plan.get_index(self.done.len()).map(|(_, plan)| plan);
        match next {
            Some(plan) if plan.name != name => {
                Err(refused(format!("`{name}` was begun, but the next tensor of the plan is `{}`", plan.name)))
            }
            Some(plan) if !plan.candidates.contains(&encoding) => Err(refused(format!(
                "`{}` is none of the encodings in the plan: {}",
                encoding.name(),
                list(&plan.candidates.iter().map(|e| e.name()).collect::<Vec<_>>(), 10)
            ))
            .at(tensor(name))),
            Some(plan) => Ok(plan),
            None => Err(refused(format!("`{name}` was begun, but the plan has no more tensors"))),
        }
    }

    fn fill(&mut self, bytes: u64) -> Result<()> {
        let zeros = [0u8; PAGE as usize];
        // Gaps between tensors are shorter than a page.
        let gap = zeros.get(..bytes as usize).unwrap_or(&zeros);
        self.file.write_all(gap).map_err(|e| FormatError::io("cannot write the weights", e))
    }
}

fn refused(cause: String) -> FormatError {
    FormatError::new(ErrorKind::Refused, cause)
}

fn tensor(name: &str) -> String {
    format!("tensor `{name}`")
}

/// The entry of a planned tensor in the encoding that takes the most bytes.
fn widest_entry(plan: &TensorPlan, end: u64) -> Result<TensorEntry> {
    let place = |e: FormatError| e.or_at(tensor(&plan.name));
    let mut widest: Option<(u64, Encoding)> = None;
    for &encoding in &plan.candidates {
        let size = byte_size(&plan.shape, encoding).map_err(place)?;
        if widest.is_none_or(|(most, _)| size > most) {
            widest = Some((size, encoding));
        }
    }
    let (size, encoding) = widest.ok_or_else(|| place(refused("the plan names no encoding".into())))?;
    let offset = end.checked_next_multiple_of(PAGE);
    let offset = offset.filter(|o| o.checked_add(size).is_some_and(|end| i64::try_from(end).is_ok()));
    Ok(TensorEntry {
        name: plan.name.clone(),
        shape: plan.shape.clone(),
        encoding,
        offset: offset
            .ok_or_else(|| place(FormatError::new(ErrorKind::TooLarge, "the weights are longer than 2^63 bytes")))?,
        size,
    })
}

/// A text as long as the longest index that the plan allows: the greatest numbers with the longest encoding names.
fn widest_text(entries: &[TensorEntry], plan: &IndexMap<String, TensorPlan>) -> String {
    let mut out = String::new();
    for (entry, plan) in entries.iter().zip(plan.values()) {
        let longest = plan.candidates.iter().max_by_key(|e| e.name().len());
        push_entry(&mut out, &TensorEntry { encoding: longest.copied().unwrap_or(entry.encoding), ..entry.clone() });
    }
    out
}

/// Everything before the weights, apart from the text of `tensors` and the size of the weights.
pub(crate) struct Header {
    /// Declares every file of `texts`, then the weights.
    doc: DocumentMut,
    /// The files before the weights, in order; that of `tensors` is replaced.
    texts: Vec<HeaderFile>,
}

/// One file before the weights.
pub(crate) struct HeaderFile {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
    /// Store it with a size even where it could do without.
    pub(crate) sized: bool,
}

impl Header {
    fn new(parts: ModelParts) -> Self {
        let mut doc = frontmatter::new(&parts.name, &["model".to_owned()], Some(FORMAT_VERSION));
        let mut texts = Vec::new();
        let mut put = |name: &str, format: &str, text: Option<String>| {
            let Some(mut text) = text else { return };
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            texts.push((name.to_owned(), format.to_owned(), text.into_bytes()));
        };
        put("card", "md", Some(parts.card));
        put("config", "toml", Some(parts.config));
        let (format, text) = parts.program.map(|(f, t)| (f.name(), t)).unzip();
        put("program", format.unwrap_or_default(), text);
        let (format, text) = parts.graph.map(|(f, t)| (f.name(), t)).unzip();
        put("graph", format.unwrap_or_default(), text);
        put("chat", "toml", parts.chat);
        put("tensors", "toml", Some(String::new()));
        put("vocab", "toml", Some(parts.vocab));
        put("eval", "toml", Some(parts.eval));
        let weights = ("weights".to_owned(), "tensors".to_owned(), Vec::new());
        for (index, (name, format, _)) in texts.iter().chain([&weights]).enumerate() {
            let file = Declared {
                name: name.clone(),
                format: format.clone(),
                size: (name == "weights").then_some(0),
                kind: None,
            };
            // The only failure is a size beyond TOML's integers.
            let _ = frontmatter::insert(&mut doc, index, &file);
        }
        Self {
            doc,
            texts: texts.into_iter().map(|(name, _, content)| HeaderFile { name, content, sized: false }).collect(),
        }
    }

    /// A header that keeps the frontmatter of an existing model. `texts` are its files before the weights, in its order.
    pub(crate) fn keeping(mut doc: DocumentMut, texts: Vec<HeaderFile>) -> Self {
        frontmatter::modernise(&mut doc);
        frontmatter::strip_pad(&mut doc);
        Self { doc, texts }
    }

    /// Fills in the index and the size of the weights.
    fn render(&self, tensors: &str, weights_len: u64) -> Result<Rendered> {
        let mut doc = self.doc.clone();
        let mut body = Vec::new();
        for (index, file) in self.texts.iter().enumerate() {
            let next = self.texts.get(index + 1).map_or("weights", |next| &next.name);
            let index_text = file.name == "tensors";
            let text = if index_text { tensors.as_bytes() } else { &file.content };
            let sized = (file.sized && !index_text) || needs_size(text, Some(next));
            frontmatter::set_size(&mut doc, index, sized.then_some(text.len() as u64))?;
            push_file(&mut body, &file.name, text, sized);
        }
        frontmatter::set_size(&mut doc, self.texts.len(), Some(weights_len))?;
        body.extend_from_slice(b"~~~weights\n");
        Ok(Rendered { doc, body })
    }
}

/// A header but for its padding.
struct Rendered {
    doc: DocumentMut,
    /// From the first delimiter up to the first byte of the weights.
    body: Vec<u8>,
}

impl Rendered {
    /// The length with the least padding that ends on a page.
    fn total(&self) -> u64 {
        let body = self.body.len() as u64;
        frontmatter::render_aligned(&self.doc, body).len() as u64 + body
    }

    /// The bytes, padded to exactly `len`.
    fn fit(self, len: u64) -> Result<Vec<u8>> {
        let text = len
            .checked_sub(self.body.len() as u64)
            .and_then(|len| frontmatter::render_exact(&self.doc, len))
            .ok_or_else(|| refused("the header outgrew the room reserved for it".into()))?;
        let mut out = text.into_bytes();
        out.extend_from_slice(&self.body);
        Ok(out)
    }
}

/// Whether a file must be stored with its size: a reader would end it early, or not find the next file.
pub(crate) fn needs_size(content: &[u8], next: Option<&str>) -> bool {
    let Some(next) = next else { return false };
    let unended = content.last().is_some_and(|&b| b != b'\n');
    unended || find_delimiter(content, 0, next).is_some()
}

/// Appends delimiter and content; an LF ends a file that has a size.
fn push_file(out: &mut Vec<u8>, name: &str, content: &[u8], sized: bool) {
    out.extend_from_slice(b"~~~");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(content);
    if sized {
        out.push(b'\n');
    }
}
