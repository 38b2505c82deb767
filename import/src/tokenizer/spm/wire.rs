//! Protocol buffers: fields of a message, one after another, without trust in any length.

use std::path::Path;

use crate::error::{ImportError, Result};

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Number(u64),
    Float(f32),
    /// Eight bytes, which no field that is read has.
    Wide,
    Bytes(Message<'a>),
}

/// A message, or the bytes of a field, and where they stand in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    start: usize,
}

impl<'a> Message<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, start: 0 }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes as text. Errors: they are no UTF-8.
    pub(super) fn text(&self, what: &str) -> Result<&'a str> {
        std::str::from_utf8(self.bytes).map_err(|e| self.broken(e.valid_up_to(), format!("{what} is no UTF-8: {e}")))
    }

    /// Gives every field with its number to `each`. Errors: those of `each`; a field that ends behind its message, or is of a
    /// kind that is none.
    pub(super) fn fields(&self, mut each: impl FnMut(u64, Wire<'a>) -> Result<()>) -> Result<()> {
        let mut at = 0;
        while at < self.bytes.len() {
            let begun = at;
            let key = self.varint(&mut at)?;
            let wire = match key & 7 {
                0 => Wire::Number(self.varint(&mut at)?),
                1 => {
                    self.take(&mut at, 8)?;
                    Wire::Wide
                }
                2 => {
                    let length = self.varint(&mut at)?;
                    let start = at;
                    Wire::Bytes(Message { bytes: self.take(&mut at, length)?, start: self.start + start, ..*self })
                }
                5 => {
                    let bytes = self.take(&mut at, 4)?;
                    Wire::Float(bytes.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes)))
                }
                other => return Err(self.broken(begun, format!("a field has the kind {other}, which there is not"))),
            };
            if key >> 3 == 0 {
                return Err(self.broken(begun, "a field has the number 0"));
            }
            each(key >> 3, wire)?;
        }
        Ok(())
    }

    fn take(&self, at: &mut usize, length: u64) -> Result<&'a [u8]> {
        let rest = &self.bytes[*at..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(bytes) => {
                *at += bytes.len();
                Ok(bytes)
            }
            None => {
                Err(self.broken(*at, format!("a field claims {length} bytes, and its message has {} left", rest.len())))
            }
        }
    }

    fn varint(&self, at: &mut usize) -> Result<u64> {
        let begun = *at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(*at) else {
                return Err(self.broken(begun, "a number is cut short"));
            };
            *at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.broken(begun, "a number has more than ten bytes"))
    }

    /// An error at a byte of this message.
    pub(super) fn broken(&self, at: usize, cause: impl Into<String>) -> ImportError {
        ImportError::malformed(
            self.path,
            format!("byte {}", self.start + at),
            cause,
            "Download the file again; it must be a SentencePiece model.",
        )
    }
}
