//! Payload fields of operations: their binary layout (little-endian) and their text.

use crate::DType;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

/// A field type of an operation: knows its bytes and its text, so that the codecs follow from the
/// operation table.
pub trait Payload: Sized {
    /// What the type is called in the documentation.
    const KIND: &'static str;
    /// Appends the bytes.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the bytes; the error says what is wrong.
    fn read(input: &mut Reader<'_>) -> Result<Self, String>;
    /// Appends the text.
    fn print(&self, out: &mut String);
    /// Reads the text of one value, without surrounding white space.
    fn parse(text: &str) -> Result<Self, String>;
}

/// A cursor over bytes whose every read is checked against what remains.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A cursor at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let left = self.remaining();
        if n > left {
            return Err(format!("needs {n} bytes, {left} remain"));
        }
        let slice = &self.bytes[self.at..self.at + n];
        self.at += n;
        Ok(slice)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// A u32 count of items of at least `item` bytes each, checked against what remains.
    pub fn count(&mut self, item: usize) -> Result<usize, String> {
        let n = u32::from_le_bytes(self.array()?);
        let left = self.remaining();
        match (n as usize).checked_mul(item) {
            Some(need) if need <= left => Ok(n as usize),
            _ => Err(format!("declares {n} items of at least {item} bytes, {left} bytes remain")),
        }
    }
}

/// An `f32` field, compared and hashed by its bits so that operations have equality.
#[derive(Clone, Copy, Debug)]
pub struct Real(f32);

impl Real {
    /// The value.
    pub fn get(self) -> f32 {
        self.0
    }
}

impl From<f32> for Real {
    fn from(value: f32) -> Self {
        Real(value)
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Real {}
impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

macro_rules! plain {
    ($ty:ty, $kind:literal) => {
        impl Payload for $ty {
            const KIND: &'static str = $kind;
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read(input: &mut Reader<'_>) -> Result<Self, String> {
                Ok(<$ty>::from_le_bytes(input.array()?))
            }
            fn print(&self, out: &mut String) {
                let _ = write!(out, "{self}");
            }
            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("`{text}` is not a value of type {}", $kind))
            }
        }
    };
}
plain!(u32, "u32");
plain!(i32, "i32");
plain!(i64, "i64");

impl Payload for Real {
    const KIND: &'static str = "f32";
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }
    fn read(input: &mut Reader<'_>) -> Result<Self, String> {
        Ok(Real(f32::from_le_bytes(input.array()?)))
    }
    /// The shortest decimal that reads back to the same bits; other NaNs than the usual one by bits.
    fn print(&self, out: &mut String) {
        let v = self.0;
        let _ = if v.is_nan() && v.to_bits() != f32::NAN.to_bits() {
            write!(out, "nan:{:08x}", v.to_bits())
        } else if v.is_nan() {
            write!(out, "nan")
        } else if v.is_infinite() {
            write!(out, "{}inf", if v < 0.0 { "-" } else { "" })
        } else if v != 0.0 && (v.abs() < 1e-3 || v.abs() >= 1e7) {
            write!(out, "{v:e}")
        } else {
            write!(out, "{v}")
        };
    }
    fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a number");
        if let Some(bits) = text.strip_prefix("nan:") {
            return Ok(Real(f32::from_bits(u32::from_str_radix(bits, 16).map_err(|_| bad())?)));
        }
        text.parse().map(Real).map_err(|_| bad())
    }
}

impl Payload for bool {
    const KIND: &'static str = "u8 (0 or 1)";
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn read(input: &mut Reader<'_>) -> Result<Self, String> {
        match input.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [n] => Err(format!("{n} is neither 0 nor 1")),
        }
    }
    fn print(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("`{text}` is neither true nor false"))
    }
}

impl Payload for DType {
    const KIND: &'static str = "u8 dtype";
    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
    }
    fn read(input: &mut Reader<'_>) -> Result<Self, String> {
        let [tag] = input.array()?;
        DType::from_tag(tag).ok_or_else(|| format!("dtype tag {tag} is unknown"))
    }
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
    }
    fn parse(text: &str) -> Result<Self, String> {
        DType::from_name(text).ok_or_else(|| format!("`{text}` is not a dtype"))
    }
}

/// A u32 count, then the items; `[1, 2]` in text.
impl<T: Payload + Fixed> Payload for Vec<T> {
    const KIND: &'static str = T::LIST;
    fn write(&self, out: &mut Vec<u8>) {
        // Counts come from u32 fields or from short lists of dimensions: they fit.
        out.extend_from_slice(&u32::try_from(self.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.iter().for_each(|item| item.write(out));
    }
    fn read(input: &mut Reader<'_>) -> Result<Self, String> {
        let n = input.count(T::BYTES)?;
        (0..n).map(|_| T::read(input)).collect()
    }
    fn print(&self, out: &mut String) {
        print_list(self, out);
    }
    fn parse(text: &str) -> Result<Self, String> {
        parse_list(text)
    }
}

impl<const N: usize> Payload for [u32; N] {
    const KIND: &'static str = "u32 each";
    fn write(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.write(out));
    }
    fn read(input: &mut Reader<'_>) -> Result<Self, String> {
        let mut out = [0; N];
        for slot in &mut out {
            *slot = u32::read(input)?;
        }
        Ok(out)
    }
    fn print(&self, out: &mut String) {
        print_list(self, out);
    }
    fn parse(text: &str) -> Result<Self, String> {
        let items: Vec<u32> = parse_list(text)?;
        items.try_into().map_err(|v: Vec<u32>| format!("expected {N} numbers, found {}", v.len()))
    }
}

/// A u8 (0 or 1), then the value if it is 1; `none` in text.
impl Payload for Option<Real> {
    const KIND: &'static str = "u8 has, f32 if it has";
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }
    fn read(input: &mut Reader<'_>) -> Result<Self, String> {
        bool::read(input)?.then(|| Real::read(input)).transpose()
    }
    fn print(&self, out: &mut String) {
        match self {
            Some(value) => value.print(out),
            None => out.push_str("none"),
        }
    }
    fn parse(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(None) } else { Real::parse(text).map(Some) }
    }
}

/// A short text, such as the name of a function: 1 to [`Text::MAX_BYTES`] bytes; quoted in the text
/// form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text(String);

impl Text {
    /// The most bytes that a text may have.
    pub const MAX_BYTES: usize = 256;

    /// A text; an error where it is empty or too long.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        match text.len() {
            0 => Err("the text is empty".into()),
            1..=Self::MAX_BYTES => Ok(Text(text)),
            n => Err(format!("the text has {n} bytes, at most {} are possible", Self::MAX_BYTES)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A u32 count of bytes, then UTF-8.
impl Payload for Text {
    const KIND: &'static str = "text (u32 length, 1 to 256 bytes of UTF-8)";
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        out.extend_from_slice(self.0.as_bytes());
    }
    fn read(input: &mut Reader<'_>) -> Result<Self, String> {
        let length = input.count(1)?;
        let bytes = input.take(length)?;
        Text::new(std::str::from_utf8(bytes).map_err(|e| format!("the text is not valid UTF-8: {e}"))?)
    }
    fn print(&self, out: &mut String) {
        crate::text::quote(out, &self.0);
    }
    fn parse(text: &str) -> Result<Self, String> {
        let quoted = text.strip_prefix('"').ok_or_else(|| format!("`{text}` is not a text in quotes"))?;
        let (read, end) = crate::text::unquote(quoted).map_err(|(_, cause)| cause.to_owned())?;
        if end != quoted.len() {
            return Err(format!("`{text}` has more after the closing quote"));
        }
        Text::new(read)
    }
}

/// Items of lists: their least size in bytes and the name of a list of them.
pub trait Fixed {
    /// Bytes of one item.
    const BYTES: usize;
    /// Name of a list of items.
    const LIST: &'static str;
}
impl Fixed for u32 {
    const BYTES: usize = 4;
    const LIST: &'static str = "[u32]";
}
impl Fixed for i64 {
    const BYTES: usize = 8;
    const LIST: &'static str = "[i64]";
}
impl Fixed for Real {
    const BYTES: usize = 4;
    const LIST: &'static str = "[f32]";
}

fn print_list<T: Payload>(items: &[T], out: &mut String) {
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        item.print(out);
    }
    out.push(']');
}

fn parse_list<T: Payload>(text: &str) -> Result<Vec<T>, String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .ok_or_else(|| format!("`{text}` is not a list; write for example `[1, 2]`"))?
        .trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    inner.split(',').map(|item| T::parse(item.trim())).collect()
}

/// Declares a field type that is one byte among named values.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $tag:literal $variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $crate::ops::payload::Payload for $name {
            const KIND: &'static str = concat!("u8:", $(" ", stringify!($tag), " ", $text, ";"),*);
            fn write(&self, out: &mut Vec<u8>) {
                out.push(match self { $($name::$variant => $tag),* });
            }
            fn read(input: &mut $crate::ops::payload::Reader<'_>) -> Result<Self, String> {
                match input.array::<1>()? {
                    $([$tag] => Ok($name::$variant),)*
                    [n] => Err(format!("{n} is unknown; known are {}", Self::KIND)),
                }
            }
            fn print(&self, out: &mut String) {
                out.push_str(match self { $($name::$variant => $text),* });
            }
            fn parse(text: &str) -> Result<Self, String> {
                match text { $($text => Ok($name::$variant),)* _ => Err(format!("`{text}` is unknown; known are {}", Self::KIND)) }
            }
        }
    };
}
pub(crate) use choice;
