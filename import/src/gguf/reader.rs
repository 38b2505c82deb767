//! One GGUF file: header, metadata, tensor directory.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use indexmap::IndexMap;
use tallow_format::encoding::gguf::GgmlType;

use super::types::{integer_size, type_name};
use super::value::{MAX_NESTING, Value, ValueKind, scalar};
use crate::error::{ImportError, Result, clip};
use crate::map::MappedFile;

/// Most dimensions a tensor may have.
pub const MAX_DIMENSIONS: u32 = 4;

/// Where tensor data is aligned to when the file does not say.
const DEFAULT_ALIGNMENT: u64 = 32;

/// Fewest bytes one metadata entry can take: an empty key, its kind, one byte.
const LEAST_ENTRY: u64 = 13;

/// Fewest bytes one tensor entry can take: an empty name, dimension count, type, offset.
const LEAST_TENSOR: u64 = 24;

/// A checked GGUF file.
#[derive(Debug)]
pub struct GgufFile {
    file: MappedFile,
    entries: IndexMap<String, Value>,
    tensors: Vec<GgufTensor>,
}

/// One entry of the tensor directory.
#[derive(Clone, Debug)]
pub struct GgufTensor {
    /// Name in the file.
    pub name: String,
    /// Dimensions as the file has them, fastest first: the reverse of row-major `[out, in]`.
    pub dims: Vec<u64>,
    /// Type number in the file.
    pub tag: u32,
    /// The type when its values can be read; `None` for integer types, which carry no weights.
    pub ty: Option<GgmlType>,
    /// Bytes of the data in the file.
    pub bytes: Range<usize>,
}

impl GgufFile {
    /// Maps and checks `path`: counts, strings, types, shapes, and that all data lies inside the file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path)?;
        let (entries, tensors) = Cursor { bytes: file.bytes(), at: 0, path }.file()?;
        Ok(Self { file, entries, tensors })
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The mapped bytes.
    pub fn file(&self) -> &MappedFile {
        &self.file
    }

    /// Gives up the file, for whoever reads the tensor data.
    pub fn into_file(self) -> MappedFile {
        self.file
    }

    /// Tensors in the order of the file.
    pub fn tensors(&self) -> &[GgufTensor] {
        &self.tensors
    }

    /// Keys in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// A key's text; an error if it is something else or not UTF-8.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(range)) => self.utf8(range, key).map(Some),
            Some(other) => Err(self.mistyped(key, other, "text")),
        }
    }

    /// A key's integer as u64; an error if it is something else or negative.
    pub fn uint(&self, key: &str) -> Result<Option<u64>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Int(n)) if u64::try_from(*n).is_ok() => Ok(u64::try_from(*n).ok()),
            Some(other) => Err(self.mistyped(key, other, "an integer of at least 0")),
        }
    }

    /// A key's number, integer or float, finite.
    pub fn float(&self, key: &str) -> Result<Option<f64>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Float(x, ValueKind::F32)) if x.is_finite() => Ok(Some(shortest(*x as f32))),
            Some(Value::Float(x, _)) if x.is_finite() => Ok(Some(*x)),
            Some(Value::Int(n)) => Ok(Some(*n as f64)),
            Some(other) => Err(self.mistyped(key, other, "a finite number")),
        }
    }

    /// A key's truth value.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(self.mistyped(key, other, "true or false")),
        }
    }

    /// A key's list of strings.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<&str>>> {
        let (kind, len, range) = match self.value(key) {
            None => return Ok(None),
            Some(Value::Array { kind, len, bytes }) => (*kind, *len, bytes.clone()),
            Some(other) => return Err(self.mistyped(key, other, "a list of strings")),
        };
        if kind != ValueKind::String {
            return Err(self.wrong(key, "a list of something else than strings", "a list of strings"));
        }
        let mut out = Vec::with_capacity(len);
        let mut cursor = Cursor { bytes: self.file.bytes(), at: range.start, path: self.path() };
        for n in 0..len {
            let range = cursor.string(&|| format!("key `{key}`, entry {n}"))?;
            out.push(self.utf8(&range, &format!("{key}, entry {n}"))?);
        }
        Ok(Some(out))
    }

    /// A key's list of numbers of any kind.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        let (kind, len, range) = match self.value(key) {
            None => return Ok(None),
            Some(Value::Array { kind, len, bytes }) => (*kind, *len, bytes.clone()),
            Some(other) => return Err(self.mistyped(key, other, "a list of numbers")),
        };
        let bytes = self.file.bytes().get(range).unwrap_or(&[]);
        let mut out = Vec::with_capacity(len);
        for chunk in bytes.chunks_exact(kind.least_size()) {
            out.push(match scalar(kind, chunk) {
                Some(Value::Int(n)) => n as f64,
                Some(Value::Float(x, _)) => x,
                Some(Value::Bool(b)) => f64::from(u8::from(b)),
                _ => {
                    return Err(self.wrong(key, "a list of lists or strings", "a list of numbers"));
                }
            });
        }
        Ok(Some(out))
    }

    pub(crate) fn mistyped(&self, key: &str, found: &Value, expected: &str) -> ImportError {
        self.wrong(key, &found.describe(), expected)
    }

    pub(crate) fn wrong(&self, key: &str, found: &str, expected: &str) -> ImportError {
        ImportError::malformed(
            self.path(),
            format!("key `{}`", clip(key)),
            format!("it is {found}, and must be {expected}"),
            "Convert the model again with a current converter.",
        )
    }

    fn utf8(&self, range: &Range<usize>, key: &str) -> Result<&str> {
        let bytes = self.file.bytes().get(range.clone()).unwrap_or(&[]);
        std::str::from_utf8(bytes).map_err(|e| {
            ImportError::malformed(
                self.path(),
                format!("key `{}`, byte {}", clip(key), range.start + e.valid_up_to()),
                "the text is not UTF-8",
                "Convert the model again with a current converter.",
            )
        })
    }
}

/// The double that prints as the single does: 0.1f32 gives 0.1, not 0.10000000149011612.
pub(crate) fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}

/// A place in the bytes of a file.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    path: &'a Path,
}

type Parsed = (IndexMap<String, Value>, Vec<GgufTensor>);

impl<'a> Cursor<'a> {
    fn file(mut self) -> Result<Parsed> {
        self.magic()?;
        let tensors = self.u64("the number of tensors")?;
        let entries = self.u64("the number of metadata entries")?;
        self.count(entries, LEAST_ENTRY, "metadata entries")?;
        let mut map = IndexMap::new();
        for n in 0..entries {
            let (key, value) = self.entry(n)?;
            if map.insert(key.clone(), value).is_some() {
                return Err(self.broken(format!("key `{}`", clip(&key)), "it stands there twice"));
            }
        }
        let alignment = self.alignment(&map)?;
        self.count(tensors, LEAST_TENSOR, "tensors")?;
        let mut headers = Vec::new();
        let mut seen = HashSet::new();
        for n in 0..tensors {
            let header = self.tensor(n)?;
            if !seen.insert(header.name.clone()) {
                return Err(self.broken(format!("tensor `{}`", clip(&header.name)), "the name stands there twice"));
            }
            headers.push(header);
        }
        let data = (self.at as u64).div_ceil(alignment) * alignment;
        let tensors = headers.into_iter().map(|h| self.place(h, data, alignment)).collect::<Result<_>>()?;
        Ok((map, tensors))
    }

    fn magic(&mut self) -> Result<()> {
        let magic = self.take(4, &|| "the magic number".into()).ok();
        if magic.is_none_or(|m| m != b"GGUF") {
            return Err(ImportError::malformed(
                self.path,
                "byte 0",
                "this is not a GGUF file: it does not begin with `GGUF`",
                "Check that the download is complete and that this is the file you meant.",
            ));
        }
        let version = self.u32("the version")?;
        match version {
            2 | 3 => Ok(()),
            1 => Err(ImportError::unsupported(
                self.path,
                "byte 4",
                "GGUF version 1 is not read",
                "Convert the original model again with a current converter, which writes version 3.",
            )),
            v if matches!(v.swap_bytes(), 1..=3) => Err(ImportError::unsupported(
                self.path,
                "byte 4",
                "this is a big-endian GGUF file, and only little-endian ones are read",
                "Turn it round first, for instance with `gguf-convert-endian FILE little`.",
            )),
            v => Err(ImportError::unsupported(
                self.path,
                "byte 4",
                format!("GGUF version {v} is not known; versions 2 and 3 are read"),
                "Use a newer Tallow, or convert the original model to version 3.",
            )),
        }
    }

    fn entry(&mut self, n: u64) -> Result<(String, Value)> {
        let place = || format!("metadata entry {n}");
        let range = self.string(&place)?;
        let key = self.text_of(range, &place)?;
        let place = || format!("key `{}`", clip(&key));
        let kind = self.kind(&place)?;
        let value = self.value(kind, 0, &place)?;
        Ok((key, value))
    }

    fn kind(&mut self, place: &dyn Fn() -> String) -> Result<ValueKind> {
        let tag = self.u32_at(place)?;
        ValueKind::from_tag(tag).ok_or_else(|| self.broken(place(), format!("value kind {tag} does not exist")))
    }

    fn value(&mut self, kind: ValueKind, depth: usize, place: &dyn Fn() -> String) -> Result<Value> {
        match kind {
            ValueKind::String => Ok(Value::String(self.string(place)?)),
            ValueKind::Array => {
                if depth == MAX_NESTING {
                    return Err(self.broken(place(), format!("lists are nested more than {MAX_NESTING} deep")));
                }
                let kind = self.kind(place)?;
                let len = self.u64_at(place)?;
                let least = kind.least_size() as u64;
                let fits = len.checked_mul(least).is_some_and(|b| b <= self.left());
                if !fits {
                    return Err(self.broken(
                        place(),
                        format!(
                            "a list of {len} values of at least {least} bytes is declared, and {} bytes remain in the file",
                            self.left()
                        ),
                    ));
                }
                let start = self.at;
                match kind {
                    ValueKind::String | ValueKind::Array => {
                        for _ in 0..len {
                            self.value(kind, depth + 1, place)?;
                        }
                    }
                    _ => {
                        self.take((len * least) as usize, place)?;
                    }
                }
                Ok(Value::Array { kind, len: len as usize, bytes: start..self.at })
            }
            kind => {
                let at = self.at;
                let bytes = self.take(kind.least_size(), place)?;
                if kind == ValueKind::Bool && bytes[0] > 1 {
                    let byte = bytes[0];
                    return Err(self.broken(place(), format!("a truth value is the byte {byte}, not 0 or 1")));
                }
                scalar(kind, bytes).ok_or_else(|| self.broken(format!("byte {at}"), "this is no scalar"))
            }
        }
    }

    fn tensor(&mut self, n: u64) -> Result<Header> {
        let place = || format!("tensor entry {n}");
        let range = self.string(&place)?;
        let name = self.text_of(range, &place)?;
        let place = || format!("tensor `{}`", clip(&name));
        let rank = self.u32_at(&place)?;
        if rank == 0 || rank > MAX_DIMENSIONS {
            return Err(self.broken(place(), format!("it has {rank} dimensions, and must have 1 to {MAX_DIMENSIONS}")));
        }
        let mut dims = Vec::with_capacity(rank as usize);
        for _ in 0..rank {
            dims.push(self.u64_at(&place)?);
        }
        let tag = self.u32_at(&place)?;
        let offset = self.u64_at(&place)?;
        Ok(Header { name, dims, tag, offset })
    }

    /// Turns an offset into bytes of the file, with type, shape and place checked.
    fn place(&self, header: Header, data: u64, alignment: u64) -> Result<GgufTensor> {
        let Header { name, dims, tag, offset } = header;
        let place = || format!("tensor `{}`", clip(&name));
        if dims.contains(&0) {
            return Err(self.broken(place(), format!("a dimension is 0: {dims:?}")));
        }
        let ty = GgmlType::from_tag(tag).ok();
        let (block, size) = match (ty, integer_size(tag)) {
            (Some(ty), _) => (ty.block_len() as u64, ty.block_bytes() as u64),
            (None, Some(size)) => (1, size),
            (None, None) => {
                return Err(ImportError::unsupported(
                    self.path,
                    place(),
                    format!("tensor type {} is not read", type_name(tag)),
                    "Take another quantisation of the model: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are read.",
                ));
            }
        };
        if dims[0] % block != 0 {
            return Err(self.broken(
                place(),
                format!("rows of {} values are not whole blocks of {block} in {}", dims[0], type_name(tag)),
            ));
        }
        let values = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let bytes = values.and_then(|n| (n / block).checked_mul(size));
        let Some(bytes) = bytes.filter(|&b| i64::try_from(b).is_ok()) else {
            return Err(self.broken(place(), format!("its shape {dims:?} is beyond 64-bit sizes")));
        };
        if offset % alignment != 0 {
            return Err(
                self.broken(place(), format!("its offset {offset} is no multiple of the alignment, {alignment}"))
            );
        }
        let start = data.checked_add(offset);
        let end = start.and_then(|s| s.checked_add(bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.bytes.len() as u64 => {
                Ok(GgufTensor { name, dims, tag, ty, bytes: start as usize..end as usize })
            }
            _ => Err(ImportError::malformed(
                self.path,
                place(),
                format!(
                    "its {bytes} bytes at offset {offset} of the data end after the file, which has {} bytes",
                    self.bytes.len()
                ),
                "The file seems to be cut short: download or copy it again.",
            )),
        }
    }

    fn alignment(&self, map: &IndexMap<String, Value>) -> Result<u64> {
        match map.get("general.alignment") {
            None => Ok(DEFAULT_ALIGNMENT),
            Some(Value::Int(n)) => match u64::try_from(*n) {
                Ok(n) if n.is_power_of_two() && n <= 1 << 30 => Ok(n),
                _ => Err(self.broken(
                    "key `general.alignment`".into(),
                    format!("it is {n}, and must be a power of two below 2^31"),
                )),
            },
            Some(other) => Err(self.broken(
                "key `general.alignment`".into(),
                format!("it is {}, and must be an integer", other.describe()),
            )),
        }
    }

    fn count(&self, n: u64, least: u64, what: &str) -> Result<()> {
        if n.checked_mul(least).is_some_and(|b| b <= self.left()) {
            return Ok(());
        }
        Err(self.broken(
            format!("byte {}", self.at),
            format!(
                "{n} {what} are declared, each of at least {least} bytes, and {} bytes remain in the file",
                self.left()
            ),
        ))
    }

    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take(&mut self, n: usize, place: &dyn Fn() -> String) -> Result<&'a [u8]> {
        let all: &'a [u8] = self.bytes;
        let end = self.at.checked_add(n).filter(|&end| end <= all.len());
        match end {
            Some(end) => {
                let bytes = &all[self.at..end];
                self.at = end;
                Ok(bytes)
            }
            None => Err(ImportError::malformed(
                self.path,
                place(),
                format!("{n} bytes are needed at byte {}, and {} remain", self.at, self.left()),
                "The file seems to be cut short: download or copy it again.",
            )),
        }
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        self.u32_at(&|| what.to_owned())
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        self.u64_at(&|| what.to_owned())
    }

    fn u32_at(&mut self, place: &dyn Fn() -> String) -> Result<u32> {
        let bytes = self.take(4, place)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u64_at(&mut self, place: &dyn Fn() -> String) -> Result<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8, place)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn string(&mut self, place: &dyn Fn() -> String) -> Result<Range<usize>> {
        let len = self.u64_at(place)?;
        if len > self.left() {
            return Err(self.broken(
                place(),
                format!(
                    "text of {len} bytes is declared at byte {}, and {} bytes remain in the file",
                    self.at,
                    self.left()
                ),
            ));
        }
        let start = self.at;
        self.at += len as usize;
        Ok(start..self.at)
    }

    fn text_of(&self, range: Range<usize>, place: &dyn Fn() -> String) -> Result<String> {
        let start = range.start;
        match std::str::from_utf8(&self.bytes[range]) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.broken(format!("{}, byte {start}", place()), "the name is not UTF-8")),
        }
    }

    fn broken(&self, place: String, cause: impl Into<String>) -> ImportError {
        ImportError::malformed(
            self.path,
            place,
            cause,
            "Download the file again, or convert the model again with a current converter.",
        )
    }
}

/// A tensor entry before its place has been checked.
struct Header {
    name: String,
    dims: Vec<u64>,
    tag: u32,
    offset: u64,
}
