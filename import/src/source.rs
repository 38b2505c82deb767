//! The tensors of a source under their Hugging Face names, read by rows, whatever file they come from.

use std::ops::Range;
use std::path::Path;

use tallow_format::Encoding;
use tallow_format::encoding::gguf::GgmlType;

use crate::error::{ImportError, Result};
use crate::map::MappedFile;

/// Where rows of a tensor lie in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// As in the result.
    Plain,
    /// Rotary pairs side by side: in each of so many heads, row `2j + p` of the source is row `p · size / 2 + j` of the
    /// result. GGUF stores q and k so for the types whose reader rotates neighbouring values.
    Interleaved {
        /// Query heads or key heads.
        heads: u64,
    },
    /// All queries, then all keys, then all values in the source; query, key and value of each of so many heads in the
    /// result.
    ByHead {
        /// Heads.
        heads: u64,
    },
    /// A matrix of which the source holds the columns one after another: `[in, out]`. Its type stores values one by
    /// one.
    Transposed,
    /// Of each of so many heads the columns one after another, `[heads, in, out / heads]`, in a matrix `[out, in]`.
    TurnedHeads {
        /// Heads.
        heads: u64,
    },
}

/// One tensor of the source, as it will stand in the `.model`.
#[derive(Clone, Debug)]
pub struct SourceTensor {
    /// Hugging Face name.
    pub name: String,
    /// Name in the source file.
    pub source_name: String,
    /// Row-major, `[out, in]` for matrices; at least one dimension, each at least 1.
    pub shape: Vec<u64>,
    /// How the source stores the values.
    pub ty: GgmlType,
    /// Added to every value on reading: −1 turns GGUF's gemma norms into the Hugging Face convention.
    pub shift: f32,
    /// Where the rows lie.
    pub order: RowOrder,
    /// Where the bytes are: equal numbers of whole rows in each piece, one piece after another.
    pub pieces: Vec<Piece>,
}

/// Bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the file.
    pub file: usize,
    /// Bytes in that file.
    pub bytes: Range<usize>,
}

/// A tensor that is not taken over, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Name in the source.
    pub name: String,
    /// Type name in the source.
    pub source_type: String,
    /// One clause.
    pub reason: String,
}

/// The tensors of a source and the files that hold them.
#[derive(Debug)]
pub struct Source {
    files: Vec<MappedFile>,
    tensors: Vec<SourceTensor>,
    left_out: Vec<LeftOut>,
}

impl SourceTensor {
    /// Bytes of all pieces.
    pub fn byte_len(&self) -> usize {
        self.pieces.iter().map(|p| p.bytes.len()).sum()
    }

    /// Number of values. The readers have checked that this fits.
    pub fn values(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Rows and values per row. A vector is one row, unless its entries are out of order: then each is a row.
    pub fn rows(&self) -> (u64, u64) {
        match (self.shape.as_slice(), self.order) {
            ([n], RowOrder::Interleaved { .. } | RowOrder::ByHead { .. }) => (*n, 1),
            (shape, _) => {
                let len = shape.last().copied().unwrap_or(1);
                (self.values() / len.max(1), len)
            }
        }
    }

    /// The encoding whose bytes the source already holds, when the values are taken as they are.
    pub fn same_encoding(&self) -> Option<Encoding> {
        let turned = matches!(self.order, RowOrder::TurnedHeads { .. });
        self.ty.same_bytes().filter(|_| self.shift == 0.0 && !turned)
    }

    /// Rows and values per row as the source stores them.
    fn stored_rows(&self) -> (u64, u64) {
        match (self.rows(), self.order) {
            ((rows, len), RowOrder::TurnedHeads { heads }) if heads > 0 => (heads * len, rows / heads),
            (rows, _) => rows,
        }
    }

    /// Coordinates of a value, for messages: `row 3, column 7` or `[1, 2, 3]`.
    pub fn position(&self, index: u64) -> String {
        match self.shape.as_slice() {
            [_] => format!("place {index}"),
            [_, cols] => format!("row {}, column {}", index / cols, index % cols),
            shape => {
                let mut rest = index;
                let mut at: Vec<u64> = shape
                    .iter()
                    .rev()
                    .map(|&d| {
                        let here = rest % d;
                        rest /= d;
                        here
                    })
                    .collect();
                at.reverse();
                format!("{at:?}")
            }
        }
    }

    fn source_row(&self, row: u64) -> u64 {
        match self.order {
            RowOrder::Plain | RowOrder::Transposed | RowOrder::TurnedHeads { .. } => row,
            RowOrder::Interleaved { heads } => {
                let size = self.rows().0 / heads;
                let (head, at) = (row / size, row % size);
                let half = size / 2;
                head * size + 2 * (at % half) + at / half
            }
            RowOrder::ByHead { heads } => {
                let size = self.rows().0 / (3 * heads);
                let (part, at) = (row / size, row % size);
                (part % 3 * heads + part / 3) * size + at
            }
        }
    }
}

impl Source {
    /// A source from opened files. Every tensor's `bytes` must lie inside its file and hold its shape in its type;
    /// an interleaved order must have whole heads of even size, and only matrices of types that store values one by one
    /// may be transposed.
    pub fn new(files: Vec<MappedFile>, tensors: Vec<SourceTensor>, left_out: Vec<LeftOut>) -> Result<Self> {
        tensors.iter().try_for_each(|tensor| check(tensor, &files))?;
        Ok(Self { files, tensors, left_out })
    }

    /// Tensors in the order in which they will be written.
    pub fn tensors(&self) -> &[SourceTensor] {
        &self.tensors
    }

    /// What is not taken over.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The tensor of a Hugging Face name.
    pub fn tensor(&self, name: &str) -> Option<&SourceTensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// The file that holds a tensor, or its first piece.
    pub fn path(&self, tensor: &SourceTensor) -> &Path {
        path(tensor, &self.files)
    }

    /// Leaves a tensor out.
    pub fn leave_out(&mut self, name: &str, reason: &str) {
        let Some(at) = self.tensors.iter().position(|t| t.name == name) else {
            return;
        };
        let tensor = self.tensors.remove(at);
        self.left_out.push(LeftOut {
            name: tensor.source_name,
            source_type: tensor.ty.name().to_owned(),
            reason: reason.to_owned(),
        });
    }

    /// Gives a tensor another name.
    pub fn rename(&mut self, name: &str, to: &str) {
        if let Some(tensor) = self.tensors.iter_mut().find(|t| t.name == name) {
            tensor.name = to.to_owned();
        }
    }

    /// True if two tensors have the same shape, type, order and bytes, in pieces of the same sizes.
    pub fn same(&self, a: &SourceTensor, b: &SourceTensor) -> bool {
        let alike = a.shape == b.shape && a.ty == b.ty && a.order == b.order && a.shift == b.shift;
        let pieces = || a.pieces.iter().zip(&b.pieces);
        alike && a.pieces.len() == b.pieces.len() && pieces().all(|(a, b)| self.data(a) == self.data(b))
    }

    /// Appends the stored bytes of `rows` of a tensor, in the order of the result.
    pub fn raw_rows(&self, tensor: &SourceTensor, rows: Range<u64>, out: &mut Vec<u8>) {
        match tensor.order {
            RowOrder::Plain => self.stretches(tensor, rows).for_each(|part| out.extend_from_slice(part)),
            RowOrder::Interleaved { .. } | RowOrder::ByHead { .. } => {
                for row in rows.map(|row| tensor.source_row(row)) {
                    self.stretches(tensor, row..row + 1).for_each(|part| out.extend_from_slice(part));
                }
            }
            // They are read by their values alone.
            RowOrder::TurnedHeads { .. } => {}
            RowOrder::Transposed => {
                // A stretch of each column lies together, and the whole matrix in one piece.
                let Some(piece) = tensor.pieces.first() else { return };
                let (data, len) = (self.data(piece), row_bytes(tensor));
                let size = tensor.ty.block_bytes();
                let (first, count) = (rows.start as usize, (rows.end - rows.start) as usize);
                let (all, columns) = (tensor.rows().0 as usize, tensor.rows().1 as usize);
                let start = out.len();
                out.resize(start + count * len, 0);
                for column in 0..columns {
                    let from = (column * all + first) * size;
                    for (row, value) in data[from..from + count * size].chunks_exact(size).enumerate() {
                        let to = start + row * len + column * size;
                        out[to..to + size].copy_from_slice(value);
                    }
                }
            }
        }
    }

    /// Decodes `rows` of a tensor into `out`, which must hold exactly their values.
    pub fn read_rows(&self, tensor: &SourceTensor, rows: Range<u64>, raw: &mut Vec<u8>, out: &mut [f32]) -> Result<()> {
        let broken = |e: tallow_format::EncodingError| {
            ImportError::malformed(
                self.path(tensor),
                format!("tensor `{}`", tensor.source_name),
                e.to_string(),
                "Download the file again.",
            )
        };
        match tensor.order {
            RowOrder::Plain => self.decode(tensor, rows, out).map_err(broken)?,
            RowOrder::TurnedHeads { .. } => {
                let (len, size) = (tensor.rows().1, tensor.stored_rows().1);
                let mut head = vec![0.0; (len * size) as usize];
                let mut held = None;
                for (row, out) in rows.zip(out.chunks_exact_mut(len as usize)) {
                    let (number, column) = (row / size, (row % size) as usize);
                    if held != Some(number) {
                        self.decode(tensor, number * len..(number + 1) * len, &mut head).map_err(broken)?;
                        held = Some(number);
                    }
                    out.iter_mut().zip(head.chunks_exact(size as usize)).for_each(|(out, row)| *out = row[column]);
                }
            }
            RowOrder::Interleaved { .. } | RowOrder::ByHead { .. } | RowOrder::Transposed => {
                raw.clear();
                self.raw_rows(tensor, rows, raw);
                tensor.ty.decode(raw, out).map_err(broken)?;
            }
        }
        if tensor.shift != 0.0 {
            out.iter_mut().for_each(|x| *x += tensor.shift);
        }
        Ok(())
    }

    /// The values of `rows`, numbered as in the source, into `out`.
    fn decode(
        &self,
        tensor: &SourceTensor,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> std::result::Result<(), tallow_format::EncodingError> {
        let len = tensor.stored_rows().1 as usize;
        let mut rest = out;
        for part in self.stretches(tensor, rows) {
            let values = part.len() / row_bytes(tensor).max(1) * len;
            let (here, after) = rest.split_at_mut(values);
            tensor.ty.decode(part, here)?;
            rest = after;
        }
        Ok(())
    }

    /// All values of a small tensor.
    pub fn values(&self, tensor: &SourceTensor) -> Result<Vec<f32>> {
        let mut out = vec![0.0; tensor.values() as usize];
        self.read_rows(tensor, 0..tensor.rows().0, &mut Vec::new(), &mut out)?;
        Ok(out)
    }

    /// Lets the system drop the pages of a tensor that has been written.
    pub fn release(&self, tensor: &SourceTensor) {
        tensor.pieces.iter().for_each(|p| self.files[p.file].release(p.bytes.clone()));
    }

    /// The stored bytes of `rows`, numbered as in the source: one stretch of each piece that has some of them.
    fn stretches<'a>(&'a self, tensor: &'a SourceTensor, rows: Range<u64>) -> impl Iterator<Item = &'a [u8]> {
        let each = (tensor.stored_rows().0 / tensor.pieces.len() as u64).max(1);
        let len = row_bytes(tensor);
        let pieces = tensor.pieces.iter().enumerate().skip((rows.start / each) as usize);
        pieces.map_while(move |(n, piece)| {
            let first = n as u64 * each;
            let part = rows.start.max(first) - first..rows.end.min(first + each).saturating_sub(first);
            (part.start < part.end).then(|| &self.data(piece)[part.start as usize * len..part.end as usize * len])
        })
    }

    fn data(&self, piece: &Piece) -> &[u8] {
        &self.files[piece.file].bytes()[piece.bytes.clone()]
    }
}

/// Rows that are worked on at once: about 64 Ki values, whatever the thread count, so that results do not depend on it.
pub(crate) fn chunk_rows(row_len: u64) -> u64 {
    (65_536 / row_len.max(1)).max(1)
}

fn row_bytes(tensor: &SourceTensor) -> usize {
    tensor.stored_rows().1 as usize / tensor.ty.block_len() * tensor.ty.block_bytes()
}

/// The file of a tensor's first piece.
fn path<'a>(tensor: &SourceTensor, files: &'a [MappedFile]) -> &'a Path {
    tensor.pieces.first().map_or(Path::new(""), |p| files[p.file].path())
}

fn check(tensor: &SourceTensor, files: &[MappedFile]) -> Result<()> {
    let fail = |cause: String| {
        ImportError::malformed(
            path(tensor, files),
            format!("tensor `{}`", tensor.source_name),
            cause,
            "Convert or download the model again.",
        )
    };
    if tensor.shape.is_empty() || tensor.shape.contains(&0) || tensor.pieces.is_empty() {
        return Err(fail(format!("its shape {:?} holds nothing", tensor.shape)));
    }
    if let RowOrder::TurnedHeads { heads } = tensor.order
        && (heads == 0 || tensor.shape.len() != 2 || !tensor.shape[0].is_multiple_of(heads))
    {
        return Err(fail(format!("its shape {:?} is no matrix of {heads} heads", tensor.shape)));
    }
    let (rows, len) = tensor.stored_rows();
    if !(len as usize).is_multiple_of(tensor.ty.block_len()) {
        return Err(fail(format!(
            "rows of {len} values are not whole blocks of {} in {}",
            tensor.ty.block_len(),
            tensor.ty.name()
        )));
    }
    let bytes = rows as usize * row_bytes(tensor);
    let each = tensor.pieces[0].bytes.len();
    let inside = |p: &Piece| p.bytes.len() == each && p.bytes.end <= files[p.file].bytes().len();
    let whole = rows.is_multiple_of(tensor.pieces.len() as u64);
    if tensor.byte_len() != bytes || !whole || !tensor.pieces.iter().all(inside) {
        return Err(fail(format!(
            "shape {:?} takes {bytes} bytes, and the file holds {}",
            tensor.shape,
            tensor.byte_len()
        )));
    }
    if let RowOrder::Interleaved { heads } = tensor.order
        && (heads == 0 || !rows.is_multiple_of(2 * heads))
    {
        return Err(fail(format!("{rows} rows cannot be split into {heads} heads of even size")));
    }
    if let RowOrder::ByHead { heads } = tensor.order
        && (heads == 0 || !rows.is_multiple_of(heads.saturating_mul(3)))
    {
        return Err(fail(format!("{rows} rows cannot be split into queries, keys and values of {heads} heads")));
    }
    if tensor.order == RowOrder::Transposed && (tensor.shape.len() != 2 || tensor.ty.block_len() != 1) {
        return Err(fail(format!("{} of shape {:?} cannot be transposed", tensor.ty.name(), tensor.shape)));
    }
    Ok(())
}
