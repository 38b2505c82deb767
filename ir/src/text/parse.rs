//! Reading the text form: one pass over the bytes, no recursion, several errors at once.

use super::{is_bare_byte, is_number, nearest, snippet};
use crate::hint::{hint_from_name, hint_name};
use crate::ops::MAX_RANK;
use crate::{DType, Dim, Graph, NodeId, Op, OpInfo, Shape, TensorType, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

/// After so many errors reading stops: the rest would be noise.
const MAX_ERRORS: usize = 100;
/// The most characters of one message; what it quotes may be long.
const MAX_MESSAGE: usize = 500;
/// The most bytes that one dimension or one attribute outside a list may take.
const MAX_DIM: usize = 1024;
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
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
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
        let errors = located(text, parser.errors);
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

struct Parser<'a> {
    text: &'a str,
    at: usize,
    errors: Vec<(Range<usize>, String)>,
    graph: Graph,
    values: HashMap<Key<'a>, Value>,
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
            match self.values.get(&key) {
                Some(&value) => self.graph.connect(node, number, value),
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

    /// The text of one attribute: up to `,` or `}` outside brackets and quotes.
    fn field_text(&mut self) -> Parsed<(&'a str, Range<usize>)> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut bracket = false;
        let mut quoted = false;
        while let Some(&b) = bytes.get(self.at) {
            match b {
                b'\\' if quoted => self.at += 1,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'[' => bracket = true,
                b']' => bracket = false,
                b',' if !bracket => break,
                b'}' => break,
                _ => {}
            }
            self.at += 1;
        }
        self.at = self.at.min(bytes.len());
        let value = self.text[start..self.at].trim_end();
        let span = start..start + value.len();
        if value.is_empty() {
            return self.fail(start..start + 1, "expected the value of the attribute");
        }
        Ok((value, span))
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

    /// `%name`, `%"any name"` or `%12`.
    fn label(&mut self) -> Parsed<Label<'a>> {
        self.skip_blank();
        let start = self.at;
        self.expect(b'%', "a value such as `%x`")?;
        if self.peek() == Some(b'"') {
            let name = self.quoted()?;
            return Ok((Key::Name(name), start..self.at));
        }
        let word = self.word();
        if word.is_empty() {
            return self
                .fail(start..start + 1, "expected a name after `%`; a name with other characters stands in quotes");
        }
        let key = if is_number(word) { Key::Number(word) } else { Key::Name(Cow::Borrowed(word)) };
        Ok((key, start..self.at))
    }

    fn plain_name(&mut self, what: &str) -> Parsed<Cow<'a, str>> {
        if self.peek() == Some(b'"') {
            return self.quoted();
        }
        let start = self.at;
        let word = self.word();
        if word.is_empty() {
            return self.fail(start..start + 1, format!("expected {what}, bare or in quotes"));
        }
        Ok(Cow::Borrowed(word))
    }

    /// A text in quotes; a line break inside is an error.
    fn quoted(&mut self) -> Parsed<Cow<'a, str>> {
        self.expect(b'"', "a name in quotes")?;
        let start = self.at;
        let mut own: Option<String> = None;
        let rest = &self.text[start..];
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + at + 1;
                    return Ok(match own {
                        Some(own) => Cow::Owned(own),
                        None => Cow::Borrowed(&rest[..at]),
                    });
                }
                '\n' => break,
                '\\' => {
                    let own = own.get_or_insert_with(|| rest[..at].to_owned());
                    let read = match chars.next().map(|(_, c)| c) {
                        Some('n') => Some('\n'),
                        Some('r') => Some('\r'),
                        Some('t') => Some('\t'),
                        Some(c @ ('"' | '\\')) => Some(c),
                        Some('u') => unicode(&mut chars),
                        _ => None,
                    };
                    let Some(read) = read else {
                        let span = start + at..start + at + 1;
                        return self
                            .fail(span, r#"unknown escape; known are `\"`, `\\`, `\n`, `\r`, `\t` and `\u{…}`"#);
                    };
                    own.push(read);
                }
                c => {
                    if let Some(own) = &mut own {
                        own.push(c);
                    }
                }
            }
        }
        self.fail(start - 1..start, "the quote does not close on its line")
    }

    /// `: f32[S, 8]`.
    fn colon_type(&mut self) -> Parsed<TensorType> {
        self.expect(b':', "`:` and the type, for example `: f32[S, 8]`")?;
        self.skip_blank();
        let start = self.at;
        let word = self.word();
        let Some(dtype) = DType::from_name(word) else {
            let hint = nearest(word, DType::ALL.iter().map(|d| d.name()))
                .map(|k| format!("; did you mean `{k}`?"))
                .unwrap_or_default();
            return self.fail(start..self.at.max(start + 1), format!("`{word}` is no element type{hint}"));
        };
        self.expect(b'[', "`[` and the dimensions")?;
        let mut dims = Vec::new();
        loop {
            self.skip_blank();
            if self.peek() == Some(b']') && dims.is_empty() {
                self.at += 1;
                break;
            }
            let from = self.at;
            let bytes = self.text.as_bytes();
            let end =
                bytes[from..].iter().take(MAX_DIM + 1).position(|b| matches!(b, b',' | b']' | b'\n' | b'%' | b'='));
            let Some(end) = end.map(|n| from + n) else {
                return self.fail(
                    from..from + 1,
                    format!("expected a dimension of at most {MAX_DIM} characters and `,` or `]`"),
                );
            };
            let text = self.text[from..end].trim_end();
            match text.parse::<Dim>() {
                Ok(dim) => dims.push(dim),
                Err(message) => return self.fail(from..from + text.len().max(1), message),
            }
            if dims.len() > MAX_RANK {
                return self.fail(from..end, format!("a value has at most {MAX_RANK} dimensions"));
            }
            self.at = end;
            match bytes.get(end) {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => return self.fail(end..end + 1, "expected `,` or `]`"),
            }
        }
        Ok(TensorType::new(dtype, Shape(dims)))
    }

    fn define(&mut self, key: Key<'a>, span: Range<usize>, value: Value) -> Parsed<()> {
        if self.values.contains_key(&key) {
            return self.fail(span, format!("`{key}` is defined twice; give one of them another name"));
        }
        self.values.insert(key, value);
        Ok(())
    }

    /// Connects what was read before its definition, and the outputs.
    fn resolve(&mut self) {
        for (node, number, (key, span)) in std::mem::take(&mut self.pending) {
            match self.values.get(&key) {
                Some(&value) => self.graph.connect(node, number, value),
                None => self.undefined(&key, span),
            }
        }
        for (name, named, (key, span)) in std::mem::take(&mut self.outputs) {
            let Some(&value) = self.values.get(&key) else {
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
            Key::Name(name) if self.values.len() <= SEARCHED && self.hinted < HINTED => {
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

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Blanks, line breaks and comments.
    fn skip_blank(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
                self.at += 1;
            }
            if !bytes[self.at.min(bytes.len())..].starts_with(b"//") {
                return;
            }
            while bytes.get(self.at).is_some_and(|b| *b != b'\n') {
                self.at += 1;
            }
        }
    }

    /// The bare name at the cursor; empty where there is none.
    fn word(&mut self) -> &'a str {
        self.skip_blank();
        let start = self.at;
        while self.peek().is_some_and(is_bare_byte) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn expect(&mut self, byte: u8, what: &str) -> Parsed<()> {
        self.skip_blank();
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        let end = self.at + self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        self.fail(self.at..end, format!("expected {what}"))
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        self.skip_blank();
        let start = self.at;
        if self.word() == word {
            return Ok(());
        }
        self.fail(start..self.at.max(start), format!("expected `{word} {{`"))
    }

    fn error(&mut self, span: Range<usize>, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            let mut message = message.into();
            if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
                message.truncate(end);
                message.push('…');
            }
            self.errors.push((span, message));
        }
    }

    fn fail<T>(&mut self, span: Range<usize>, message: impl Into<String>) -> Parsed<T> {
        self.error(span, message);
        Err(Noted)
    }

    fn fail_now(&mut self, span: Range<usize>, message: String) -> Noted {
        self.error(span, message);
        Noted
    }
}

/// `{1f}` after `\u`.
fn unicode(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    if chars.next()?.1 != '{' {
        return None;
    }
    let mut code = 0u32;
    for _ in 0..7 {
        let c = chars.next()?.1;
        if c == '}' {
            return char::from_u32(code);
        }
        code = code.checked_mul(16)?.checked_add(c.to_digit(16)?)?;
    }
    None
}

/// Turns byte ranges into lines, columns and snippets, in one pass.
fn located(text: &str, mut errors: Vec<(Range<usize>, String)>) -> Vec<TextError> {
    errors.sort_by_key(|(span, _)| span.start);
    let mut line = 1;
    let mut line_start = 0;
    let mut out = Vec::with_capacity(errors.len());
    for (span, message) in errors {
        let start = span.start.min(text.len());
        for (i, b) in text.as_bytes()[line_start..start].iter().enumerate().rev() {
            if *b == b'\n' {
                line += text.as_bytes()[line_start..line_start + i + 1].iter().filter(|b| **b == b'\n').count();
                line_start += i + 1;
                break;
            }
        }
        let end = text[line_start..].find('\n').map_or(text.len(), |n| line_start + n);
        let shown = text[line_start..end].trim_end_matches('\r');
        let from = start - line_start;
        let to = span.end.saturating_sub(line_start).clamp(from, shown.len().max(from));
        out.push(TextError {
            line,
            column: shown.get(..from).unwrap_or(shown).chars().count() + 1,
            message,
            snippet: snippet(shown, from..to, "  "),
        });
    }
    out
}
