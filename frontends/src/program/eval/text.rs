//! `format!` and its kin: values as text, as Rust writes them.

use super::{Eval, Evaluator, Flow};
use crate::program::ast::{ExprId, FormatSpec, MacroKind, Piece, Span};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::host::Applied;
use crate::program::value::Value;
use std::fmt::Write as _;

/// Most lists and structs inside each other that are written out.
const MOST_NESTED: usize = 128;

impl Evaluator<'_> {
    /// `format!`; `id` is the expression itself.
    pub(super) fn format(&mut self, id: ExprId, pieces: &[Piece], span: Span) -> Eval {
        let ids: Vec<ExprId> = pieces
            .iter()
            .filter_map(|p| match p {
                Piece::Value { value, .. } => Some(*value),
                Piece::Text(_) => None,
            })
            .collect();
        let values = self.eval_all(&ids)?;
        if values.iter().any(|v| self.is_host(v)) {
            return self.apply_host(Applied::Format(id), values, span);
        }
        self.format_values(pieces, &values, span)
    }

    /// The text of pieces with these values.
    pub(crate) fn format_values(&mut self, pieces: &[Piece], values: &[Value], span: Span) -> Eval {
        let mut out = String::new();
        let mut values = values.iter();
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Value { value: at, spec } => {
                    let Some(value) = values.next() else { return Err(Flow::Poisoned) };
                    let text = self.shown(value, spec, self.span(*at))?;
                    pad(&mut out, &text, value, spec);
                }
            }
            self.make_text(out.len(), span)?;
        }
        self.make(out.len(), span)?;
        Ok(Value::Str(out.into()))
    }

    fn make_text(&mut self, len: usize, span: Span) -> Eval<()> {
        if len > super::MAX_LENGTH { self.make(len, span) } else { Ok(()) }
    }

    pub(crate) fn shown(&mut self, value: &Value, spec: &FormatSpec, span: Span) -> Eval<String> {
        let mut out = String::new();
        let debug = spec.kind == Some('?');
        match (value, spec.kind) {
            (Value::Ref(place), _) => return self.shown(&place.load(), spec, span),
            (Value::Int(n), Some(kind @ ('x' | 'X' | 'b' | 'o'))) => {
                let bits = n.ty.map_or(128, |t| t.bits());
                let raw = if bits < 128 { (n.value as u128) & ((1u128 << bits) - 1) } else { n.value as u128 };
                let _ = match (kind, spec.alternate) {
                    ('x', false) => write!(out, "{raw:x}"),
                    ('x', true) => write!(out, "{raw:#x}"),
                    ('X', false) => write!(out, "{raw:X}"),
                    ('X', true) => write!(out, "{raw:#X}"),
                    ('b', false) => write!(out, "{raw:b}"),
                    ('b', true) => write!(out, "{raw:#b}"),
                    ('o', false) => write!(out, "{raw:o}"),
                    _ => write!(out, "{raw:#o}"),
                };
            }
            (Value::Float(x), Some('e')) => {
                let _ = write!(out, "{x:e}");
            }
            (Value::Int(n), Some('e')) => {
                let _ = write!(out, "{:e}", n.value);
            }
            (_, Some('x' | 'X' | 'b' | 'o' | 'e')) => return Err(self.mismatch(value, "a number", span)),
            (Value::Float(x), _) => {
                let _ = match (spec.precision, debug) {
                    (Some(p), _) => write!(out, "{x:.p$}"),
                    (None, true) => write!(out, "{x:?}"),
                    (None, false) => write!(out, "{x}"),
                };
            }
            (Value::Str(text), _) if !debug => match spec.precision {
                Some(p) => out.extend(text.chars().take(p)),
                None => out.push_str(text),
            },
            _ => self.write_value(&mut out, value, spec, debug, span, 0)?,
        }
        if spec.plus && matches!(value, Value::Int(_) | Value::Float(_)) && !out.starts_with('-') {
            out.insert(0, '+');
        }
        Ok(out)
    }

    fn write_value(
        &mut self,
        out: &mut String,
        value: &Value,
        spec: &FormatSpec,
        debug: bool,
        span: Span,
        depth: usize,
    ) -> Eval<()> {
        if depth > MOST_NESTED {
            return Err(Diagnostic::new(Code::Nesting, span, "this value is nested too deeply to write out").into());
        }
        self.tick(span)?;
        self.make_text(out.len(), span)?;
        let each = |e: &mut Self, out: &mut String, open: &str, close: &str, items: &[Value]| -> Eval<()> {
            out.push_str(open);
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                e.write_value(out, item, spec, true, span, depth + 1)?;
            }
            out.push_str(close);
            Ok(())
        };
        match value {
            Value::Unit if debug => out.push_str("()"),
            Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Value::Int(n) => {
                let _ = write!(out, "{}", n.value);
            }
            Value::Float(x) => {
                let _ = match spec.precision {
                    Some(p) => write!(out, "{x:.p$}"),
                    None => write!(out, "{x:?}"),
                };
            }
            Value::Char(c) if debug => {
                let _ = write!(out, "{c:?}");
            }
            Value::Char(c) => out.push(*c),
            Value::Str(text) if debug => {
                let _ = write!(out, "{text:?}");
            }
            Value::Str(text) => out.push_str(text),
            Value::Ref(place) => self.write_value(out, &place.load(), spec, debug, span, depth + 1)?,
            Value::List(items) if debug => each(self, out, "[", "]", items)?,
            Value::Tuple(items) if debug => each(self, out, "(", if items.len() == 1 { ",)" } else { ")" }, items)?,
            Value::Option(None) if debug => out.push_str("None"),
            Value::Option(Some(item)) if debug => each(self, out, "Some(", ")", item)?,
            // What `to_uppercase` of a character gives.
            Value::Iter(iter) if !debug => {
                let copy = self.copy_iter(iter, span, 0, &mut |_, value| Ok(value))?;
                for item in self.drain(&copy, span)? {
                    self.write_value(out, &item, spec, false, span, depth + 1)?;
                }
            }
            Value::Range(range) if debug => {
                let _ = write!(out, "{}..", range.start.value);
                if let Some(end) = range.end {
                    let _ = write!(out, "{}", end.value);
                }
            }
            Value::Map(map) if debug => {
                out.push('{');
                for (i, (key, item)) in map.values().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    self.write_value(out, key, spec, true, span, depth + 1)?;
                    if !matches!(item, Value::Unit) {
                        out.push_str(": ");
                        self.write_value(out, item, spec, true, span, depth + 1)?;
                    }
                }
                out.push('}');
            }
            Value::Struct(of) if debug => {
                out.push_str(of.variant.as_ref().unwrap_or(&of.name));
                if of.fields.is_empty() {
                    return Ok(());
                }
                let tuple = of.fields.iter().all(|(n, _)| n.bytes().all(|b| b.is_ascii_digit()));
                out.push_str(if tuple { "(" } else { " { " });
                for (i, (name, field)) in of.fields.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    if !tuple {
                        let _ = write!(out, "{name}: ");
                    }
                    self.write_value(out, field, spec, true, span, depth + 1)?;
                }
                out.push_str(if tuple { ")" } else { " }" });
            }
            Value::Missing(_) | Value::Poison => return Err(self.mismatch(value, "a value", span)),
            _ => return Err(self.no_text(value, span)),
        }
        Ok(())
    }

    fn no_text(&self, value: &Value, span: Span) -> Flow {
        let d = Diagnostic::new(Code::Format, span, format!("{} cannot be written into a text", value.kind()));
        match value {
            Value::List(_) | Value::Tuple(_) | Value::Struct(_) | Value::Option(_) | Value::Map(_) | Value::Unit => {
                d.help("write it with `{:?}`").into()
            }
            Value::Tensor(_) | Value::Input(_) => d.help("its sizes are known: `x.shape()`").into(),
            Value::Sampled(_) | Value::Tokens | Value::Generated => {
                d.help("`tok.decode` gives the text of tokens").into()
            }
            _ => d.label("has no text while compiling").into(),
        }
    }

    /// `panic!`, `assert!` and their kin.
    pub(super) fn assertion(&mut self, kind: MacroKind, subjects: &[ExprId], pieces: &[Piece], span: Span) -> Eval {
        let (holds, what) = match (kind, subjects) {
            (MacroKind::Assert, [condition]) => match self.eval(*condition)? {
                Value::Bool(holds) => (holds, String::from("this does not hold")),
                other => return Err(self.mismatch(&other, "a truth value", self.span(*condition))),
            },
            (MacroKind::AssertEq | MacroKind::AssertNe, [left, right]) => {
                let (a, b) = (self.eval(*left)?, self.eval(*right)?);
                let equal = self.equal(&a, &b, span)?;
                let holds = equal == (kind == MacroKind::AssertEq);
                let relation = if equal { "equals" } else { "is not" };
                (holds, format!("{} {relation} {}", brief(&a), brief(&b)))
            }
            _ => (false, "the program gives up here".to_owned()),
        };
        if holds {
            return Ok(Value::Unit);
        }
        let message = match pieces {
            [] => what,
            _ => {
                let ids: Vec<ExprId> = pieces
                    .iter()
                    .filter_map(|p| match p {
                        Piece::Value { value, .. } => Some(*value),
                        Piece::Text(_) => None,
                    })
                    .collect();
                let values = self.eval_all(&ids)?;
                match self.format_values(pieces, &values, span)? {
                    Value::Str(text) => text.trim_end_matches('.').to_owned(),
                    _ => what,
                }
            }
        };
        Err(Diagnostic::new(Code::Panic, span, message).label("the program's own check").into())
    }
}

fn pad(out: &mut String, text: &str, value: &Value, spec: &FormatSpec) {
    let width = spec.width.unwrap_or(0).min(super::MAX_LENGTH);
    let missing = width.saturating_sub(text.chars().count());
    if missing == 0 {
        return out.push_str(text);
    }
    let number = matches!(value, Value::Int(_) | Value::Float(_));
    if spec.zero && number {
        let digits = text.find(|c: char| c.is_ascii_hexdigit()).unwrap_or(0);
        let prefix =
            if text[digits..].starts_with("0x") || text[digits..].starts_with("0b") || text[digits..].starts_with("0o")
            {
                digits + 2
            } else {
                digits
            };
        out.push_str(&text[..prefix]);
        out.extend(std::iter::repeat_n('0', missing));
        return out.push_str(&text[prefix..]);
    }
    let fill = spec.fill.unwrap_or(' ');
    let before = match spec.align {
        Some('<') => 0,
        Some('^') => missing / 2,
        Some('>') => missing,
        _ if number => missing,
        _ => 0,
    };
    out.extend(std::iter::repeat_n(fill, before));
    out.push_str(text);
    out.extend(std::iter::repeat_n(fill, missing - before));
}

/// A value for a message.
pub(crate) fn brief(value: &Value) -> String {
    match value {
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.value.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::Char(c) => format!("{c:?}"),
        Value::Str(text) => {
            let mut short: String = text.chars().take(60).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            format!("{short:?}")
        }
        Value::Struct(of) => match &of.variant {
            Some(variant) => format!("`{}::{variant}`", of.name),
            None => format!("a `{}`", of.name),
        },
        Value::Ref(place) => match place.load() {
            Value::Ref(_) => "a reference".to_owned(),
            inner => brief(&inner),
        },
        other => other.kind().to_owned(),
    }
}
