//! One safetensors file: an 8-byte header length, a JSON header, the data.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::de::{Deserializer, MapAccess, Visitor};

use tallow_format::encoding::gguf::GgmlType;

use crate::error::{ImportError, Result, clip};
use crate::map::MappedFile;

/// Largest header that is read, as the format itself sets it.
pub const MAX_HEADER: u64 = 100_000_000;

/// A checked safetensors file.
#[derive(Debug)]
pub struct SafetensorsFile {
    file: MappedFile,
    tensors: Vec<SafeTensor>,
}

/// One tensor of the header.
#[derive(Clone, Debug)]
pub struct SafeTensor {
    /// Name in the file.
    pub name: String,
    /// Row-major; empty for a scalar.
    pub shape: Vec<u64>,
    /// What the data is.
    pub dtype: DType,
    /// Bytes of the data in the file.
    pub bytes: Range<usize>,
}

/// Data types, by what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of a single.
    BF16,
    /// Integers and truth values: buffers, left out and listed. Holds the name in the file.
    Buffer(&'static str),
}

/// The integer and truth types with their sizes in bytes.
const BUFFERS: [(&str, u64); 9] =
    [("BOOL", 1), ("I8", 1), ("U8", 1), ("I16", 2), ("U16", 2), ("I32", 4), ("U32", 4), ("I64", 8), ("U64", 8)];

impl DType {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "F32" => Self::F32,
            "F16" => Self::F16,
            "BF16" => Self::BF16,
            other => Self::Buffer(BUFFERS.iter().find(|(n, _)| *n == other)?.0),
        })
    }

    /// The type of real numbers; `None` for a buffer.
    pub fn float(self) -> Option<GgmlType> {
        match self {
            Self::F32 => Some(GgmlType::F32),
            Self::F16 => Some(GgmlType::F16),
            Self::BF16 => Some(GgmlType::BF16),
            Self::Buffer(_) => None,
        }
    }

    /// Bytes of one value.
    pub fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Buffer(name) => BUFFERS.iter().find(|(n, _)| *n == name).map_or(1, |b| b.1),
        }
    }

    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Buffer(name) => name,
        }
    }
}

impl SafetensorsFile {
    /// Maps and checks `path`: header length, JSON, types, shapes against bytes, and that no two tensors overlap.
    pub fn open(path: &Path) -> Result<Self> {
        let file = MappedFile::open(path)?;
        let tensors = read_header(file.bytes(), path)?;
        Ok(Self { file, tensors })
    }

    /// Tensors in the order of the header.
    pub fn tensors(&self) -> &[SafeTensor] {
        &self.tensors
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Gives up the file, for whoever reads the data.
    pub fn into_file(self) -> MappedFile {
        self.file
    }
}

fn read_header(bytes: &[u8], path: &Path) -> Result<Vec<SafeTensor>> {
    let broken = |place: String, cause: String| {
        ImportError::malformed(path, place, cause, "The file seems damaged or cut short: download it again.")
    };
    let Some((len, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(broken(
            "byte 0".into(),
            format!("a safetensors file begins with 8 bytes of length, and this file has {}", bytes.len()),
        ));
    };
    let len = u64::from_le_bytes(*len);
    if len > rest.len() as u64 {
        return Err(broken(
            "byte 0".into(),
            format!("a header of {len} bytes is declared, and {} remain in the file", rest.len()),
        ));
    }
    if len > MAX_HEADER {
        return Err(broken("byte 0".into(), format!("the header has {len} bytes; the format allows {MAX_HEADER}")));
    }
    let (header, data) = rest.split_at(len as usize);
    let mut reader = serde_json::Deserializer::from_slice(header);
    let entries = reader
        .deserialize_map(HeaderVisitor)
        .and_then(|entries| reader.end().map(|()| entries))
        .map_err(|e| broken("header".into(), format!("{e}")))?;
    let base = 8 + len as usize;
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, entry) in entries {
        tensors.push(place(name, &entry, base, data.len() as u64, path, &broken)?);
    }
    let mut order: Vec<&SafeTensor> = tensors.iter().filter(|t| !t.bytes.is_empty()).collect();
    order.sort_by_key(|t| (t.bytes.start, t.bytes.end));
    if let Some(pair) = order.windows(2).find(|p| p[0].bytes.end > p[1].bytes.start) {
        return Err(broken(
            format!("tensor `{}`", clip(&pair[1].name)),
            format!("its data overlaps that of `{}`", clip(&pair[0].name)),
        ));
    }
    Ok(tensors)
}

fn place(
    name: String,
    entry: &Entry,
    base: usize,
    data: u64,
    path: &Path,
    broken: &dyn Fn(String, String) -> ImportError,
) -> Result<SafeTensor> {
    let at = format!("tensor `{}`", clip(&name));
    let Some(dtype) = DType::from_name(&entry.dtype) else {
        return Err(ImportError::unsupported(
            path,
            at,
            format!("data type {} is not read", clip(&entry.dtype)),
            "Save the model as F32, F16 or BF16, or take a GGUF file of it.",
        ));
    };
    let bytes = entry.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d)).and_then(|n| n.checked_mul(dtype.size()));
    let [start, end] = entry.data_offsets;
    if start > end || end > data {
        return Err(broken(at, format!("its data lies at bytes {start} to {end} of {data} bytes of data")));
    }
    if bytes != Some(end - start) {
        return Err(broken(
            at,
            format!(
                "shape {:?} in {} takes {} bytes, and its data has {}",
                entry.shape,
                dtype.name(),
                bytes.map_or("more than 2^64".into(), |b| b.to_string()),
                end - start
            ),
        ));
    }
    // Both ends lie inside the mapped file, so they fit usize.
    let bytes = base + start as usize..base + end as usize;
    Ok(SafeTensor { name, shape: entry.shape.clone(), dtype, bytes })
}

#[derive(serde::Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Reads the header in order and refuses a name that stands there twice.
struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = indexmap::IndexMap<String, Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one entry per tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut out = indexmap::IndexMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            }
            let entry = map.next_value::<Entry>()?;
            if out.contains_key(&name) {
                return Err(serde::de::Error::custom(format!("tensor `{}` stands there twice", clip(&name))));
            }
            out.insert(name, entry);
        }
        Ok(out)
    }
}
