//! The texts of `format!` and its kin: `{}`, `{0}`, `{name}`, `{name:>8.3}`.

use super::Reader;
use crate::program::ast::{ExprId, ExprKind, FormatSpec, Name, Piece};
use crate::program::{Code, Diagnostic, Span};
use std::collections::HashMap;
use std::sync::Arc;
use syn::{Expr, Lit};

/// What a hole takes its value from.
enum Argument {
    Next,
    Position(usize),
    Name(String),
}

/// A text whose bytes can be told from those of the literal that it came from, or not.
struct Text {
    value: String,
    span: Span,
    /// The source's byte of the text's first, where the literal has no escapes.
    base: Option<u32>,
}

impl Text {
    /// The place of a range of bytes of the text.
    fn place(&self, from: usize, to: usize) -> Span {
        match self.base {
            Some(base) => Span::new(base as usize + from, base as usize + to),
            None => self.span,
        }
    }
}

/// The arguments after the text.
#[derive(Default)]
struct Given {
    values: Vec<(ExprId, Span)>,
    used: Vec<bool>,
    /// The places of those that have names.
    names: HashMap<String, usize>,
}

impl Reader<'_> {
    /// The pieces of a text with the values in its holes; nothing after an error.
    pub(super) fn format(&mut self, macro_name: &str, format: &Expr, args: &[&Expr]) -> Option<Vec<Piece>> {
        let literal = match format {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Str(text) => Some(text),
                _ => None,
            },
            _ => None,
        };
        let Some(literal) = literal else {
            let (_, span) = self.spanned(format);
            let error = Diagnostic::new(Code::Syntax, span, format!("`{macro_name}!` takes a text in quotes here"));
            self.error(error.help("write `\"{}\"` before the value"));
            return None;
        };
        let span = self.span(literal.span());
        let written = self.positions.text(span);
        let quote = written.find('"').unwrap_or(0);
        let raw = written.starts_with('r');
        let plain = !written.contains('\r') && (raw || !written.contains('\\'));
        let base = plain.then_some(span.start + quote as u32 + 1);
        let text = Text { value: literal.value(), span, base };
        let mut given = self.given(args);
        let pieces = self.pieces(&text, &mut given)?;
        for (&(_, unused), _) in given.values.iter().zip(&given.used).filter(|(_, used)| !**used) {
            let error = Diagnostic::new(Code::Syntax, unused, "the text has no place for this argument");
            self.error(error.label("not used").related(span, "this text").help("write `{}` where it belongs"));
        }
        Some(pieces)
    }

    /// Arguments, named ones among them.
    fn given(&mut self, args: &[&Expr]) -> Given {
        let mut out = Given { used: vec![false; args.len()], ..Given::default() };
        for (i, arg) in args.iter().enumerate() {
            let named = match arg {
                Expr::Assign(assign) => match &*assign.left {
                    Expr::Path(path) => path.path.get_ident().map(|ident| (ident.to_string(), &*assign.right)),
                    _ => None,
                },
                _ => None,
            };
            let (value, span) = self.spanned(named.as_ref().map_or(*arg, |(_, value)| value));
            match named {
                Some((name, _)) => {
                    if out.names.insert(name, i).is_none() {
                        out.values.push((value, span));
                        continue;
                    }
                    let error = Diagnostic::new(Code::Twice, span, "two arguments have this name");
                    self.error(error.help("delete one of them"));
                }
                None if !out.names.is_empty() => {
                    let error = Diagnostic::new(Code::Syntax, span, "an argument without a name after one with a name");
                    self.error(error.help("put it first"));
                }
                None => {}
            }
            out.values.push((value, span));
        }
        out
    }

    fn pieces(&mut self, text: &Text, given: &mut Given) -> Option<Vec<Piece>> {
        let mut out = Vec::new();
        let mut plain = String::new();
        let mut next = 0;
        let bytes = text.value.as_bytes();
        let mut at = 0;
        while let Some(c) = text.value.get(at..).and_then(|rest| rest.chars().next()) {
            match c {
                '{' | '}' if bytes.get(at + 1) == Some(&(c as u8)) => {
                    plain.push(c);
                    at += 2;
                }
                '}' => {
                    let error = Diagnostic::new(Code::Syntax, text.place(at, at + 1), "a `}` without a `{` before it");
                    self.error(error.help("write `}}` for a brace in the text"));
                    return None;
                }
                '{' => {
                    let Some(length) = text.value.get(at..).and_then(|rest| rest.find('}')) else {
                        let error = Diagnostic::new(Code::Syntax, text.place(at, at + 1), "a `{` that is not closed");
                        self.error(error.help("write `{{` for a brace in the text"));
                        return None;
                    };
                    if !plain.is_empty() {
                        out.push(Piece::Text(std::mem::take(&mut plain).into()));
                    }
                    out.push(self.hole(text, at, at + length, given, &mut next)?);
                    at += length + 1;
                }
                c => {
                    plain.push(c);
                    at += c.len_utf8();
                }
            }
        }
        if !plain.is_empty() {
            out.push(Piece::Text(plain.into()));
        }
        Some(out)
    }

    /// The hole from `{` at `from` to `}` at `to`.
    fn hole(&mut self, text: &Text, from: usize, to: usize, given: &mut Given, next: &mut usize) -> Option<Piece> {
        let inside = text.value.get(from + 1..to)?;
        let place = text.place(from, to + 1);
        let (argument, spec) = match inside.split_once(':') {
            Some((argument, spec)) => (argument, spec),
            None => (inside, ""),
        };
        let spec = match parse_spec(spec.trim_end()) {
            Ok(spec) => spec,
            Err((code, message, help)) => {
                self.error(Diagnostic::new(code, place, message).help(help));
                return None;
            }
        };
        let named = argument.trim();
        let skipped = argument.len() - argument.trim_start().len();
        let Some(argument) = argument_of(named) else {
            let message = format!("`{named}` is no name and no number of an argument");
            let error = Diagnostic::new(Code::Syntax, place, message);
            self.error(error.help("write `{}` here and the expression after the text"));
            return None;
        };
        let position = match &argument {
            Argument::Next => {
                *next += 1;
                *next - 1
            }
            Argument::Position(n) => *n,
            Argument::Name(name) => {
                let Some(&found) = given.names.get(name) else {
                    let start = from + 1 + skipped;
                    let span = text.place(start, start + named.len());
                    let name = Name { text: Arc::from(named), span };
                    let value = self.tree.add(ExprKind::Path(vec![name], Vec::new()), span);
                    return Some(Piece::Value { value, spec });
                };
                found
            }
        };
        let Some(&(value, _)) = given.values.get(position) else {
            let message = match given.values.len() {
                0 => "there is no argument for this place".to_owned(),
                1 => "there is one argument, and this asks for another".to_owned(),
                n => format!("there are {n} arguments, and this asks for number {}, from 0", position),
            };
            self.error(
                Diagnostic::new(Code::Syntax, place, message)
                    .help("add the value after the text, or write its name inside the braces"),
            );
            return None;
        };
        given.used[position] = true;
        Some(Piece::Value { value, spec })
    }
}

/// What the part before the colon names.
fn argument_of(text: &str) -> Option<Argument> {
    if text.is_empty() {
        return Some(Argument::Next);
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().map(Argument::Position);
    }
    let mut chars = text.chars();
    let first = chars.next()?;
    let name = (first.is_alphabetic() || first == '_') && chars.all(|c| c.is_alphanumeric() || c == '_');
    name.then(|| Argument::Name(text.to_owned()))
}

/// The largest width and precision: a text of that many characters is an error by itself.
const MAX_WIDTH: usize = 1 << 16;

/// What stands after the colon.
fn parse_spec(text: &str) -> Result<FormatSpec, (Code, String, &'static str)> {
    let mut spec = FormatSpec::default();
    let mut rest = text;
    let aligns = |c: char| matches!(c, '<' | '^' | '>');
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some(fill), Some(align)) if aligns(align) => {
            (spec.fill, spec.align) = (Some(fill), Some(align));
            rest = chars.as_str();
        }
        (Some(align), _) if aligns(align) => {
            spec.align = Some(align);
            rest = &rest[1..];
        }
        _ => {}
    }
    let eat = |rest: &mut &str, c: char| match rest.strip_prefix(c) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    };
    spec.plus = eat(&mut rest, '+');
    spec.alternate = eat(&mut rest, '#');
    if rest.starts_with('0') && !rest.starts_with("0$") {
        spec.zero = eat(&mut rest, '0');
    }
    let help = "write the number itself: `{:8.3}`";
    if text.contains('$') || rest.contains(".*") {
        let message = "widths and precisions that come from an argument are not in the language of programs";
        return Err((Code::NotInLanguage, message.into(), help));
    }
    spec.width = number(&mut rest)?;
    if eat(&mut rest, '.') {
        spec.precision = number(&mut rest)?;
        if spec.precision.is_none() {
            return Err((Code::Syntax, "a point without a number after it".into(), help));
        }
    }
    spec.kind = match rest {
        "" => None,
        "?" | "x" | "X" | "b" | "o" | "e" => rest.chars().next(),
        "E" | "p" | "x?" | "X?" => {
            let message = format!("the form `{rest}` is not in the language of programs");
            return Err((Code::NotInLanguage, message, "there are `?`, `x`, `X`, `b`, `o` and `e`"));
        }
        other => {
            let message = format!("`{other}` is no form of a value");
            return Err((
                Code::Syntax,
                message,
                "after the colon stand width, `.` and precision, and one of `?`, `x`, `X`, `b`, `o`, `e`",
            ));
        }
    };
    Ok(spec)
}

/// The digits at the beginning.
fn number(rest: &mut &str) -> Result<Option<usize>, (Code, String, &'static str)> {
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(count);
    if digits.is_empty() {
        return Ok(None);
    }
    *rest = after;
    match digits.parse() {
        Ok(n) if n <= MAX_WIDTH => Ok(Some(n)),
        _ => Err((Code::Literal, format!("{digits} is too large for a width"), "widths are at most 65536")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_read() {
        let spec = parse_spec("*>+#08.3e").unwrap();
        let want = FormatSpec {
            fill: Some('*'),
            align: Some('>'),
            plus: true,
            alternate: true,
            zero: true,
            width: Some(8),
            precision: Some(3),
            kind: Some('e'),
        };
        assert_eq!(spec, want);
        assert_eq!(parse_spec("").unwrap(), FormatSpec::default());
        assert_eq!(parse_spec("0").unwrap(), FormatSpec { zero: true, ..FormatSpec::default() });
        assert_eq!(parse_spec("<>5").unwrap().fill, Some('<'));
        assert_eq!(parse_spec("é^5").unwrap().fill, Some('é'));
        assert_eq!(parse_spec(".2").unwrap().precision, Some(2));
        for wrong in ["w$", ".*", ".p$", "99999999999999999999", ".", "q", "5q", "E"] {
            assert!(parse_spec(wrong).is_err(), "{wrong}");
        }
    }
}
