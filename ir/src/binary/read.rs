//! Reading the binary form.

use super::{HintForm, Input, Interface, RawGraph, RawNode};
use crate::ops::Reader;
use crate::{DType, Op, OpInfo};
use std::fmt;

/// Bytes of the shortest node: id, tag, two counts and the hint.
const LEAST_NODE: usize = 15;
/// Bytes of the shortest input: name, rank, dtype and the offset flag.
const LEAST_INPUT: usize = 10;
/// Bytes of the shortest string.
const LEAST_STRING: usize = 4;
/// Room for names that is made before they are read.
const USUAL_STRINGS: usize = 8;

impl RawGraph {
    /// Reads a whole blob in whichever form consumes it. Every count is checked against the bytes
    /// that remain before anything is allocated.
    ///
    /// # Errors
    /// Where no form fits, what stopped the one that came further.
    pub fn read(bytes: &[u8]) -> Result<RawGraph, BinaryError> {
        let normal = match read_form(bytes, HintForm::Flagged) {
            Ok(graph) => return Ok(graph),
            Err(error) => error,
        };
        match read_form(bytes, HintForm::Byte) {
            Ok(graph) => Ok(graph),
            Err(other) if other.offset > normal.offset => Err(other),
            Err(_) => Err(normal),
        }
    }
}

/// Why bytes are not a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BinaryError {
    /// Where, in bytes from the start of the blob.
    pub offset: usize,
    /// Which node, counted from 0 in order of the file; `None` outside the nodes.
    pub node: Option<usize>,
    /// What was being read.
    pub what: &'static str,
    /// Why it failed.
    pub cause: BinaryCause,
}

/// What is wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BinaryCause {
    /// The bytes contradict the layout or end too early.
    Corrupt(String),
    /// An operation that this version does not know.
    UnknownOperation(u16),
    /// An element type that this version does not know.
    UnknownType(u8),
}

impl BinaryError {
    /// Whether the file may be sound and only newer than this reader.
    pub fn is_unsupported(&self) -> bool {
        match self.cause {
            BinaryCause::Corrupt(_) => false,
            BinaryCause::UnknownOperation(_) | BinaryCause::UnknownType(_) => true,
        }
    }
}

impl fmt::Display for BinaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.offset)?;
        if let Some(node) = self.node {
            write!(f, ", node {node}")?;
        }
        write!(f, ", {}: ", self.what)?;
        match &self.cause {
            BinaryCause::Corrupt(text) => {
                write!(f, "{text}; the graph is damaged or of another format")
            }
            BinaryCause::UnknownOperation(tag) => {
                write!(f, "operation tag {tag} is not supported; a newer version may know it")
            }
            BinaryCause::UnknownType(tag) => {
                write!(f, "element type tag {tag} is not supported; a newer version may know it")
            }
        }
    }
}

fn read_form(bytes: &[u8], hints: HintForm) -> Result<RawGraph, BinaryError> {
    let mut cursor = Cursor { reader: Reader::new(bytes), node: None };
    let count = cursor.count("number of nodes", LEAST_NODE)?;
    let mut nodes = Vec::new();
    for number in 0..count {
        cursor.node = Some(number);
        nodes.push(cursor.node(hints)?);
    }
    cursor.node = None;
    let interface = if cursor.reader.remaining() == 0 { None } else { Some(cursor.interface()?) };
    match cursor.reader.remaining() {
        0 => Ok(RawGraph { nodes, interface, hints }),
        left => Err(cursor.corrupt(cursor.reader.position(), "end", format!("{left} bytes are left over"))),
    }
}

/// A reader that knows where it is.
struct Cursor<'a> {
    reader: Reader<'a>,
    node: Option<usize>,
}

type Read<T> = Result<T, BinaryError>;

impl Cursor<'_> {
    fn node(&mut self, hints: HintForm) -> Read<RawNode> {
        let id = u32::from_le_bytes(self.array("id")?);
        let at = self.reader.position();
        let tag = u16::from_le_bytes(self.array("operation tag")?);
        if OpInfo::by_tag(tag).is_none() {
            return Err(self.error(at, "operation tag", BinaryCause::UnknownOperation(tag)));
        }
        let at = self.reader.position();
        let op = Op::read_payload(tag, &mut self.reader).map_err(|text| self.corrupt(at, "payload", text))?;
        let inputs = self.strings("inputs")?;
        let outputs = self.strings("outputs")?;
        let at = self.reader.position();
        let [byte] = self.array("hint")?;
        let hint = match (hints, byte) {
            (_, 0) => None,
            (HintForm::Flagged, 1) => {
                let [hint] = self.array("hint")?;
                Some(hint)
            }
            (HintForm::Byte, 1..=4) => Some(byte),
            (HintForm::Flagged, _) => {
                return Err(self.corrupt(at, "hint", format!("the flag is {byte}, neither 0 nor 1")));
            }
            (HintForm::Byte, _) => {
                return Err(self.corrupt(at, "hint", format!("the hint is {byte}, expected 0 to 4")));
            }
        };
        Ok(RawNode { id, op, inputs, outputs, hint })
    }

    fn interface(&mut self) -> Read<Interface> {
        let count = self.count("number of inputs", LEAST_INPUT)?;
        let mut inputs = Vec::new();
        for _ in 0..count {
            inputs.push(self.input()?);
        }
        let outputs = self.strings("outputs")?;
        Ok(Interface { inputs, outputs })
    }

    fn input(&mut self) -> Read<Input> {
        let name = self.string("name of an input")?;
        let rank = self.count("rank of an input", 8)?;
        let mut dims = Vec::new();
        for _ in 0..rank {
            let at = self.reader.position();
            let dim = i64::from_le_bytes(self.array("dimension of an input")?);
            if dim < -1 {
                return Err(self.corrupt(at, "dimension of an input", format!("{dim} is neither a size nor -1")));
            }
            dims.push(dim);
        }
        let at = self.reader.position();
        let [tag] = self.array("type of an input")?;
        let dtype =
            DType::from_tag(tag).ok_or_else(|| self.error(at, "type of an input", BinaryCause::UnknownType(tag)))?;
        let at = self.reader.position();
        let place = match self.array("offset flag")? {
            [0] => None,
            [1] => Some((u64::from_le_bytes(self.array("offset")?), u64::from_le_bytes(self.array("size")?))),
            [n] => {
                return Err(self.corrupt(at, "offset flag", format!("the flag is {n}, neither 0 nor 1")));
            }
        };
        Ok(Input { name, dims, dtype, place })
    }

    fn strings(&mut self, what: &'static str) -> Read<Vec<String>> {
        let count = self.count(what, LEAST_STRING)?;
        let mut strings = Vec::with_capacity(count.min(USUAL_STRINGS));
        for _ in 0..count {
            strings.push(self.string(what)?);
        }
        Ok(strings)
    }

    fn string(&mut self, what: &'static str) -> Read<String> {
        let length = self.count(what, 1)?;
        let at = self.reader.position();
        let bytes = self.reader.take(length).map_err(|text| self.corrupt(at, what, text))?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(self.corrupt(at + error.valid_up_to(), what, "a name is not valid UTF-8".into())),
        }
    }

    fn count(&mut self, what: &'static str, item: usize) -> Read<usize> {
        let at = self.reader.position();
        self.reader.count(item).map_err(|text| self.corrupt(at, what, text))
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Read<[u8; N]> {
        let at = self.reader.position();
        self.reader.array().map_err(|text| self.corrupt(at, what, text))
    }

    fn corrupt(&self, offset: usize, what: &'static str, text: String) -> BinaryError {
        self.error(offset, what, BinaryCause::Corrupt(text))
    }

    fn error(&self, offset: usize, what: &'static str, cause: BinaryCause) -> BinaryError {
        BinaryError { offset, node: self.node, what, cause }
    }
}
