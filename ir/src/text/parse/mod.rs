//! Reading the text form: one pass over the bytes, no recursion, several errors at once.

mod lex;

use super::nearest;
use crate::hint::{hint_from_name, hint_name};
use crate::{Graph, NodeId, Op, OpInfo, TensorType, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

/// After so many errors reading stops: the rest would be noise.
const MAX_ERRORS: usize = 100;
/// The most results that one statement may have.
const MAX_RESULTS: usize = 1 << 20;

/// One error of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
    /// The line with a caret line below it.
    pub snippet: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextError { line, column, message, snippet } = self;
        write!(f, "line {line}, column {column}: {message}\n{snippet}")
    }
}

/// The errors of one text, in order of place; at least one, at most a hundred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TextErrors {
    /// The errors.
    pub errors: Vec<TextError>,
}

impl fmt::Display for TextErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::error::one_a_line(f, &self.errors)
    }
}

/// Reads the text form. The graph has the types that the text records, which
/// [`verify`](crate::verify::verify) compares with what the operations give; a value may be read
/// before the line that defines it.
///
/// # Errors
/// Every error that can be told apart, with its place.
pub fn parse(text: &str) -> Result<Graph, TextErrors> {
    let mut parser = Parser {
        text,
        at: 0,
        errors: Vec::new(),
        graph: Graph::new(),
        values: HashMap::new(),
        numbered: Vec::new(),
        types: HashMap::new(),
        pending: Vec::new(),
        outputs: Vec::new(),
        hinted: 0,
        doubtful: HashSet::new(),
    };
    parser.whole();
    parser.resolve();
    if parser.errors.is_empty() {
        Ok(parser.graph)
    } else {
        let errors = lex::located(text, parser.errors);
        Err(TextErrors { errors })
    }
}

/// How a text refers to a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key<'a> {
    /// A value without a name.
    Number(&'a str),
    Name(Cow<'a, str>),
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Number(n) => write!(f, "%{n}"),
            Key::Name(n) => write!(f, "%{n}"),
        }
    }
}

/// A reference to a value, and where it stands.
type Label<'a> = (Key<'a>, Range<usize>);

/// An attribute: name, text of its value, and where that stands.
type Field<'a> = (&'static str, &'a str, Range<usize>);

/// The number that a text writes as a printer does, without leading zeros.
fn number(text: &str) -> Option<usize> {
    if text.len() > 1 && text.starts_with('0') { None } else { text.parse().ok() }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    errors: Vec<(Range<usize>, String)>,
    graph: Graph,
    values: HashMap<Key<'a>, Value>,
    /// Values `%0`, `%1` …, as far as they were defined in this order: what a printer writes.
    numbered: Vec<Value>,
    /// Types by their text, up to the bracket that closes them.
    types: HashMap<&'a [u8], TensorType>,
    /// Operands that were read before their definition.
    pending: Vec<(NodeId, u32, Label<'a>)>,
    /// Name of the output, where it stands, and the value.
    outputs: Vec<(Cow<'a, str>, Range<usize>, Label<'a>)>,
    /// Names that were looked up for a hint.
    hinted: u32,
    /// What a statement that failed would have defined: its readers are not reported too.
    doubtful: HashSet<Key<'a>>,
}

/// The error is noted in the parser already.
struct Noted;

type Parsed<T> = Result<T, Noted>;

impl<'a> Parser<'a> {
    /// `graph { statement… }`.
    fn whole(&mut self) {
        let opened = self.expect_word("graph").and_then(|()| self.expect(b'{', "`{` after `graph`"));
        if opened.is_err() {
            return;
        }
        loop {
            self.skip_blank();
            match self.peek() {
                None => {
                    self.error(self.at..self.at, "expected `}` that closes the graph");
                    return;
                }
                Some(b'}') => break,
                Some(_) => {
                    let begin = self.at;
                    if self.statement().is_err() {
                        if self.errors.len() >= MAX_ERRORS {
                            return;
                        }
                        self.recover(begin);
                    }
                }
            }
        }
        self.at += 1;
        self.skip_blank();
        if self.at < self.text.len() {
            self.error(self.at..self.at + 1, "expected nothing after the closing `}`");
        }
    }

    /// Goes on at the next line, past what the failed statement read.
    fn recover(&mut self, begin: usize) {
        let read = self.text[..self.at].trim_end().len();
        let from = read.max(begin);
        self.note_doubtful(begin);
        let rest = &self.text[from..];
        self.at = from
            + match rest.find('\n') {
                Some(n) => n + 1,
                // On the last line the brace that closes the graph still counts.
                None if rest.trim_end().ends_with('}') => rest.trim_end().len() - 1,
                None => rest.len(),
            };
    }

    /// Notes the values that the statement at `begin` defines, as far as it can be read.
    fn note_doubtful(&mut self, begin: usize) {
        let known = self.errors.len();
        self.at = begin;
        if self.peek() != Some(b'%') {
            self.word();
        }
        while let Ok((key, _)) = self.label() {
            self.doubtful.insert(key);
            // Over the type to the next result; what stands after `=` are operands.
            let rest = &self.text[self.at..];
            match rest.find(['%', '=', '\n']) {
                Some(n) if rest[n..].starts_with('%') => self.at += n,
                _ => break,
            }
        }
        self.errors.truncate(known);
    }

    fn statement(&mut self) -> Parsed<()> {
        match self.peek() {
            Some(b'%' | b'=') => self.operation(),
            _ => {
                let start = self.at;
                let word = self.word();
                match word {
                    "input" => self.input(),
                    "weight" => self.weight(),
                    "output" => self.output(),
                    _ => {
                        self.at = start;
                        let end = start + self.text[start..].chars().next().map_or(0, char::len_utf8);
                        let span = start..end.max(start + word.len());
                        let hint = nearest(word, ["input", "weight", "output"].into_iter())
                            .map(|k| format!("; did you mean `{k}`?"))
                            .unwrap_or_default();
                        self.fail(
                            span,
                            format!("expected `input`, `weight`, `output`, a value such as `%x`, or `}}`{hint}"),
                        )
                    }
                }
            }
        }
    }

    /// `input %x: f32[4]`.
    fn input(&mut self) -> Parsed<()> {
        let (key, span) = self.label()?;
        let ty = self.colon_type()?;
        let hint = self.device()?;
        let Key::Name(name) = &key else {
            return self.fail(span, "an input needs a name; write for example `%x`, or `%\"0\"` for a number");
        };
        match self.graph.input(name, ty) {
            Ok(value) => {
                self.wish(value.node, hint);
                self.define(key, span, value)
            }
            Err(error) => self.fail(span, error.to_string()),
        }
    }

    /// `weight %w = "name": q8[4, 8]`.
    fn weight(&mut self) -> Parsed<()> {
        let (key, span) = self.label()?;
        self.expect(b'=', "`=` and the quoted name of the tensor")?;
        self.skip_blank();
        let start = self.at;
        let tensor = self.quoted()?;
        let named = start..self.at;
        let ty = self.colon_type()?;
        let hint = self.device()?;
        if self.graph.weight_named(&tensor).is_some() {
            return self.fail(named, format!("the weight `{tensor}` stands twice; use the first"));
        }
        match self.graph.weight(&tensor, ty) {
            Ok(value) => {
                self.wish(value.node, hint);
                match &key {
                    Key::Name(name) => self.graph.name(value, name.as_ref()),
                    Key::Number(_) => self.graph.forget_name(value),
                }
                self.define(key, span, value)
            }
            Err(error) => self.fail(named, error.to_string()),
        }
    }

    /// `output y = %y`.
    fn output(&mut self) -> Parsed<()> {
        self.skip_blank();
        let start = self.at;
        let name = self.plain_name("the name of the output")?;
        let named = start..self.at;
        self.expect(b'=', "`=` and the value")?;
        let label = self.label()?;
        self.outputs.push((name, named, label));
        Ok(())
    }

    /// `%y: f32[4], %z: f32[4] = Name(%a, %b) { field = value } @device`.
    fn operation(&mut self) -> Parsed<()> {
        let mut labels = Vec::new();
        let mut types = Vec::new();
        while self.peek() != Some(b'=') {
            if !labels.is_empty() {
                self.expect(b',', "`,` and another result, or `=` and the operation")?;
            }
            let label = self.label()?;
            types.push(self.colon_type()?);
            if labels.len() == MAX_RESULTS {
                return self.fail(label.1, format!("an operation has at most {MAX_RESULTS} results"));
            }
            labels.push(label);
            self.skip_blank();
        }
        self.at += 1;
        self.skip_blank();
        let start = self.at;
        let word = self.word();
        let named = start..self.at.max(start + 1).min(self.text.len().max(start));
        let info = match OpInfo::by_name(word) {
            Some(info) => Ok(info),
            None if word.is_empty() => Err(self.fail_now(named.clone(), "expected the name of an operation".into())),
            None => {
                let hint = nearest(word, OpInfo::all().iter().map(|i| i.name))
                    .map(|k| format!("; did you mean `{k}`?"))
                    .unwrap_or_default();
                Err(self.fail_now(named.clone(), format!("there is no operation `{word}`{hint}")))
            }
        };
        self.expect(b'(', "`(` and the operands")?;
        let mut operands: Vec<Label<'a>> = Vec::new();
        loop {
            self.skip_blank();
            if self.peek() == Some(b')') {
                self.at += 1;
                break;
            }
            if !operands.is_empty() {
                self.expect(b',', "`,` and another operand, or `)`")?;
            }
            operands.push(self.label()?);
        }
        let fields = self.fields(info.as_ref().ok().copied());
        let (Ok(info), Ok(fields)) = (info, fields) else {
            return Err(Noted);
        };
        let hint = self.device()?;
        let mut asked = "";
        let op = Op::from_fields(info.name, |field| {
            asked = info.fields.iter().find(|f| f.name == field).map_or("", |f| f.name);
            match fields.iter().find(|(name, ..)| *name == field) {
                Some((_, value, _)) => Ok((*value).to_owned()),
                None => Err(format!("the attribute `{field}` is missing")),
            }
        });
        let op = match op {
            Ok(op) => op,
            Err(message) => {
                let at = fields.iter().find(|(name, ..)| *name == asked).map_or(named, |(.., span)| span.clone());
                return self.fail(at, message);
            }
        };
        // Types are not trusted here; the verifier compares them with the operation's.
        let node = self.graph.op_node(op, &[], types);
        let results = self.graph.results(node);
        self.wish(node, hint);
        for (number, (key, span)) in (0u32..).zip(operands) {
            match self.defined(&key) {
                Some(value) => self.graph.connect(node, number, value),
                None => self.pending.push((node, number, (key, span))),
            }
        }
        let mut clean = Ok(());
        for ((key, span), value) in labels.into_iter().zip(results) {
            if let Key::Name(name) = &key {
                self.graph.name(value, name.as_ref());
            }
            if self.define(key, span, value).is_err() {
                clean = Err(Noted);
            }
        }
        clean
    }

    /// `{ name = value, … }`, or nothing. Names are those of `info`, each at most once.
    fn fields(&mut self, info: Option<&'static OpInfo>) -> Parsed<Vec<Field<'a>>> {
        let mut out: Vec<Field<'a>> = Vec::new();
        self.skip_blank();
        if self.peek() != Some(b'{') {
            return Ok(out);
        }
        self.at += 1;
        let mut clean = true;
        let mut first = true;
        loop {
            self.skip_blank();
            if self.peek() == Some(b'}') {
                self.at += 1;
                break;
            }
            if !first {
                self.expect(b',', "`,` and another attribute, or `}`")?;
                self.skip_blank();
            }
            first = false;
            let start = self.at;
            let name = self.word();
            if name.is_empty() {
                return self.fail(start..start + 1, "expected the name of an attribute or `}`");
            }
            let named = start..self.at;
            self.expect(b'=', "`=` and the value of the attribute")?;
            self.skip_blank();
            let (value, span) = self.field_text()?;
            let Some(info) = info else { continue };
            match info.fields.iter().find(|f| f.name == name) {
                Some(field) if out.iter().any(|(n, ..)| *n == field.name) => {
                    self.error(named, format!("the attribute `{name}` stands twice"));
                    clean = false;
                }
                Some(field) => out.push((field.name, value, span)),
                None => {
                    let known: Vec<&str> = info.fields.iter().map(|f| f.name).collect();
                    let message = if known.is_empty() {
                        format!("{} has no attributes", info.name)
                    } else {
                        format!("{} has no attribute `{name}`, only `{}`", info.name, known.join("`, `"))
                    };
                    self.error(named, message);
                    clean = false;
                }
            }
            if self.errors.len() >= MAX_ERRORS {
                return Err(Noted);
            }
        }
        if clean { Ok(out) } else { Err(Noted) }
    }

    /// `@cuda` or `@9`, or nothing.
    fn device(&mut self) -> Parsed<Option<u8>> {
        self.skip_blank();
        if self.peek() != Some(b'@') {
            return Ok(None);
        }
        self.at += 1;
        let start = self.at;
        let word = self.word();
        let hint = hint_from_name(word).or_else(|| word.parse().ok());
        if hint.is_none() {
            let known: Vec<&str> = (0..=u8::MAX).filter_map(hint_name).collect();
            return self.fail(
                start..self.at.max(start + 1),
                format!("`{word}` is no device, only `{}` or a number below 256", known.join("`, `")),
            );
        }
        Ok(hint)
    }

    fn wish(&mut self, node: NodeId, hint: Option<u8>) {
        if let Some(hint) = hint {
            self.graph.set_hint(node, hint);
        }
    }

    fn define(&mut self, key: Key<'a>, span: Range<usize>, value: Value) -> Parsed<()> {
        if self.defined(&key).is_some() {
            return self.fail(span, format!("`{key}` is defined twice; give one of them another name"));
        }
        match key {
            Key::Number(text) if number(text) == Some(self.numbered.len()) => self.numbered.push(value),
            Key::Number(_) | Key::Name(_) => {
                self.values.insert(key, value);
            }
        }
        Ok(())
    }

    /// The value that a key stands for so far.
    fn defined(&self, key: &Key<'a>) -> Option<Value> {
        if let Key::Number(text) = key
            && let Some(value) = number(text).and_then(|n| self.numbered.get(n))
        {
            return Some(*value);
        }
        self.values.get(key).copied()
    }

    /// Connects what was read before its definition, and the outputs.
    fn resolve(&mut self) {
        for (node, number, (key, span)) in std::mem::take(&mut self.pending) {
            match self.defined(&key) {
                Some(value) => self.graph.connect(node, number, value),
                None => self.undefined(&key, span),
            }
        }
        for (name, named, (key, span)) in std::mem::take(&mut self.outputs) {
            let Some(value) = self.defined(&key) else {
                self.undefined(&key, span);
                continue;
            };
            if let Err(error) = self.graph.output(&name, value) {
                self.error(named, error.to_string());
            }
        }
    }

    fn undefined(&mut self, key: &Key<'a>, span: Range<usize>) {
        if self.doubtful.contains(key) {
            return;
        }
        // A search over all names is worth it for a few errors in a text of ordinary size only.
        const SEARCHED: usize = 4_000;
        const HINTED: u32 = 10;
        let hint = match key {
            Key::Name(name) if self.values.len() + self.numbered.len() <= SEARCHED && self.hinted < HINTED => {
                self.hinted += 1;
                let mut known: Vec<&str> = self
                    .values
                    .keys()
                    .filter_map(|k| match k {
                        Key::Name(n) => Some(n.as_ref()),
                        Key::Number(_) => None,
                    })
                    .collect();
                known.sort_unstable();
                nearest(name, known.into_iter()).map(|k| format!("; did you mean `%{k}`?"))
            }
            Key::Name(_) | Key::Number(_) => None,
        };
        let message = format!("nothing defines `{key}`{}", hint.unwrap_or_default());
        self.error(span, message);
    }
}
