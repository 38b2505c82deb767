//! Metadata values: scalars by value, strings and arrays as places in the file.

use std::ops::Range;

/// How deep arrays may nest in metadata. Real files have no array of arrays at all.
pub const MAX_NESTING: usize = 4;

/// The kinds of metadata values, with their tags in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// IEEE single.
    F32,
    /// One byte, 0 or 1.
    Bool,
    /// UTF-8 with a 64-bit length in front.
    String,
    /// Element kind, 64-bit count, elements.
    Array,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// IEEE double.
    F64,
}

impl ValueKind {
    pub(super) fn from_tag(tag: u32) -> Option<Self> {
        Some(match tag {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::String,
            9 => Self::Array,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return None,
        })
    }

    /// Bytes of one value, or the fewest it can take: a string has its length, an array its kind and count.
    pub(super) fn least_size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }

    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 | Self::I8 | Self::U16 | Self::I16 | Self::U32 | Self::I32 | Self::U64 | Self::I64 => "an integer",
            Self::F32 | Self::F64 => "a number",
            Self::Bool => "true or false",
            Self::String => "text",
            Self::Array => "a list",
        }
    }
}

/// One metadata value. Strings and arrays point into the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Any integer kind.
    Int(i128),
    /// Either float kind; a single keeps its exact value.
    Float(f64, ValueKind),
    /// True or false.
    Bool(bool),
    /// The bytes of a string.
    String(Range<usize>),
    /// Elements of one kind, one after the other in `bytes`.
    Array {
        /// Kind of every element.
        kind: ValueKind,
        /// How many.
        len: usize,
        /// Where they lie.
        bytes: Range<usize>,
    },
}

impl Value {
    /// What messages call this value.
    pub fn describe(&self) -> String {
        match self {
            Self::Int(n) => n.to_string(),
            Self::Float(x, _) => x.to_string(),
            Self::Bool(b) => b.to_string(),
            Self::String(_) => "text".into(),
            Self::Array { len, .. } => format!("a list of {len}"),
        }
    }
}

/// Reads one scalar of a fixed-size kind. `bytes` must hold `kind.least_size()` bytes.
pub(super) fn scalar(kind: ValueKind, bytes: &[u8]) -> Option<Value> {
    fn le<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.get(..N)?.try_into().ok()
    }
    Some(match kind {
        ValueKind::U8 => Value::Int(u8::from_le_bytes(le(bytes)?).into()),
        ValueKind::I8 => Value::Int(i8::from_le_bytes(le(bytes)?).into()),
        ValueKind::U16 => Value::Int(u16::from_le_bytes(le(bytes)?).into()),
        ValueKind::I16 => Value::Int(i16::from_le_bytes(le(bytes)?).into()),
        ValueKind::U32 => Value::Int(u32::from_le_bytes(le(bytes)?).into()),
        ValueKind::I32 => Value::Int(i32::from_le_bytes(le(bytes)?).into()),
        ValueKind::U64 => Value::Int(u64::from_le_bytes(le(bytes)?).into()),
        ValueKind::I64 => Value::Int(i64::from_le_bytes(le(bytes)?).into()),
        ValueKind::F32 => Value::Float(f32::from_le_bytes(le(bytes)?).into(), kind),
        ValueKind::F64 => Value::Float(f64::from_le_bytes(le(bytes)?), kind),
        ValueKind::Bool => Value::Bool(*bytes.first()? != 0),
        ValueKind::String | ValueKind::Array => return None,
    })
}
