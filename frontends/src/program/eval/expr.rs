//! Expressions.

use super::{Eval, Evaluator, Flow};
use crate::program::ast::{ExprId, ExprKind, IntType, Literal, MacroKind, Name, Span, UnaryOp};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::host::Applied;
use crate::program::value::{Int, MissingKey, Range, StructValue, Value};
use std::sync::Arc;

impl Evaluator<'_> {
    pub(super) fn expr(&mut self, id: ExprId) -> Eval {
        let tree = self.tree;
        let expr = tree.expr(id);
        let span = expr.span;
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(literal_value(literal)),
            ExprKind::Path(path, _) => self.path(path, span),
            ExprKind::Field(of, name) => {
                let value = self.eval(*of)?;
                self.field(&value, name, span)
            }
            ExprKind::Index(of, at) => {
                let value = self.eval(*of)?;
                let at_value = self.eval(*at)?;
                self.index(&value, &at_value, self.span(*of), self.span(*at), span)
            }
            ExprKind::Call(callee, args) => self.call(*callee, args, span),
            ExprKind::Method { receiver, name, types, args } => {
                match self.method_call(*receiver, name, types, args, span) {
                    Err(Flow::Error(d)) if d.code == Code::RunTimeValue => self.method_later(id, d),
                    result => result,
                }
            }
            ExprKind::Unary(UnaryOp::Deref, of) => {
                let value = self.eval(*of)?;
                Ok(self.deref(value))
            }
            ExprKind::Unary(op, of) => {
                let value = self.eval(*of)?;
                self.unary(*op, value, span)
            }
            ExprKind::Ref { mutable: false, of } => self.eval(*of),
            ExprKind::Ref { mutable: true, of } => self.reference(*of),
            ExprKind::Binary(op, left, right) => self.binary_expr(*op, *left, *right, span),
            ExprKind::Assign(place, value) => {
                let value = self.eval(*value)?;
                self.assign(*place, value)
            }
            ExprKind::AssignOp(op, place, value) => self.assign_op(*op, *place, *value, span),
            ExprKind::Cast(of, ty) => {
                let value = self.eval(*of)?;
                self.cast(value, ty, span)
            }
            ExprKind::Range { start, end, inclusive } => self.range(*start, *end, *inclusive, span),
            ExprKind::Let(pattern, of) => {
                let value = self.eval(*of)?;
                if let Value::Host(_) = value {
                    return Err(self.run_time_branch(span));
                }
                Ok(Value::Bool(self.matches(pattern, value)?))
            }
            ExprKind::If { condition, then, otherwise } => self.branch(id, *condition, *then, *otherwise, span),
            ExprKind::Match(of, arms) => self.match_expr(id, *of, arms, span),
            ExprKind::Block(block) => self.block(block, span),
            ExprKind::For { label, pattern, iter, bound, body } => {
                self.for_loop(id, label.as_ref(), pattern, *iter, *bound, *body, span)
            }
            ExprKind::While { label, condition, body } => self.while_loop(id, label.as_ref(), *condition, *body, span),
            ExprKind::Loop { label, body } => self.endless_loop(id, label.as_ref(), *body, span),
            ExprKind::Break { label, value } => {
                let value = match value {
                    Some(value) => self.eval(*value)?,
                    None => Value::Unit,
                };
                self.left = Some(span);
                Err(Flow::Break(label.as_ref().map(|l| l.text.clone()), value))
            }
            ExprKind::Continue(label) => {
                self.left = Some(span);
                Err(Flow::Continue(label.as_ref().map(|l| l.text.clone())))
            }
            ExprKind::Return(value) => {
                let value = match value {
                    Some(value) => self.eval(*value)?,
                    None => Value::Unit,
                };
                Err(Flow::Return(value))
            }
            ExprKind::Closure { params, body } => Ok(self.closure(params, *body)),
            ExprKind::Tuple(items) => match items.is_empty() {
                true => Ok(Value::Unit),
                false => Ok(Value::tuple(self.eval_all(items)?)),
            },
            ExprKind::List(items) => {
                self.make(items.len(), span)?;
                Ok(Value::list(self.eval_all(items)?))
            }
            ExprKind::Repeat(value, count) => {
                let value = self.eval(*value)?;
                let counted = self.eval(*count)?;
                if let Value::Host(_) = counted {
                    return self.apply_host(Applied::Repeat, vec![value, counted], span);
                }
                let count = self.known_size(&counted, self.span(*count))?;
                self.make(count, span)?;
                Ok(Value::list(vec![value; count]))
            }
            ExprKind::Struct { path, fields, base } => self.struct_literal(path, fields, *base, span),
            ExprKind::Macro { kind: MacroKind::Format, pieces, .. } => self.format(id, pieces, span),
            ExprKind::Macro { kind, subjects, pieces } => self.assertion(*kind, subjects, pieces, span),
            ExprKind::Try(of) => match self.eval(*of)? {
                Value::Option(Some(value)) => Ok(value[0].clone()),
                Value::Option(None) | Value::Missing(_) => Err(Flow::Return(Value::none())),
                other => Ok(other),
            },
        }
    }

    /// `x.name` of a value.
    pub(crate) fn field(&mut self, value: &Value, name: &Name, span: Span) -> Eval {
        match value {
            Value::Ref(place) => self.field(&place.load(), name, span),
            Value::Poison => Err(Flow::Poisoned),
            Value::Struct(of) => match of.fields.iter().find(|(n, _)| *n == name.text) {
                Some((_, Value::Poison)) => Err(Flow::Poisoned),
                Some((_, field)) => Ok(field.clone()),
                None => {
                    let known: Vec<&str> = of.fields.iter().map(|(n, _)| &**n).collect();
                    Err(self.no_field(&format!("`{}`", of.name), name, &known))
                }
            },
            Value::Tuple(items) => match name.text.parse::<usize>().ok().and_then(|i| items.get(i)) {
                Some(item) => Ok(item.clone()),
                None => {
                    let known: Vec<String> = (0..items.len()).map(|i| i.to_string()).collect();
                    let known: Vec<&str> = known.iter().map(String::as_str).collect();
                    Err(self.no_field("a tuple", name, &known))
                }
            },
            Value::Config(table) => {
                self.note_key(table, &name.text);
                if let Some(found) = table.keys.get(&name.text) {
                    return Ok(found.clone());
                }
                if let Some(found) = self.config_fallback(table, &name.text, span)? {
                    return Ok(found);
                }
                let key = name.text.clone();
                Ok(Value::Missing(Arc::new(MissingKey { table: table.clone(), key, span: name.span })))
            }
            Value::TopK { values, index } => match &*name.text {
                "0" | "values" => Ok(Value::Tensor(*values)),
                "1" | "index" | "indices" => Ok(Value::Tensor(*index)),
                _ => Err(self.no_field("pairs of values and indices", name, &["values", "indices"])),
            },
            Value::Range(range) if &*name.text == "start" => Ok(Value::Int(range.start)),
            Value::Range(Range { end: Some(end), .. }) if &*name.text == "end" => Ok(Value::Int(*end)),
            Value::Host(_) => self.apply_host(Applied::Field(name.text.clone()), vec![value.clone()], span),
            other => Err(self.mismatch(other, &format!("something with a field `{}`", name.text), span)),
        }
    }

    /// `x[i]` of a value.
    pub(crate) fn index(&mut self, value: &Value, at: &Value, value_span: Span, at_span: Span, span: Span) -> Eval {
        let (value, at) = (self.deref(value.clone()), self.deref(at.clone()));
        if self.run.is_none() && (matches!(value, Value::Host(_)) || matches!(at, Value::Host(_))) {
            return self.apply_host(Applied::Index, vec![value, at], span);
        }
        match (&value, &at) {
            (Value::List(items) | Value::Tuple(items), Value::Int(n)) => {
                match usize::try_from(n.value).ok().and_then(|i| items.get(i)) {
                    Some(Value::Poison) => Err(Flow::Poisoned),
                    Some(item) => Ok(item.clone()),
                    None => Err(self.out_of_range(n.value, items.len(), at_span)),
                }
            }
            (Value::List(items), Value::Range(range)) => {
                let (start, end) = self.bounds(range, items.len(), at_span)?;
                self.make(end - start, span)?;
                Ok(Value::list(items[start..end].to_vec()))
            }
            (Value::Str(text), Value::Range(range)) => {
                let (start, end) = self.bounds(range, text.len(), at_span)?;
                self.make(end - start, span)?;
                match text.get(start..end) {
                    Some(part) => Ok(Value::str(part)),
                    None => {
                        let d = Diagnostic::new(
                            Code::Index,
                            at_span,
                            format!("{start}..{end} cuts a character of {} bytes", text.len()),
                        );
                        Err(d.into())
                    }
                }
            }
            (Value::Map(map), key) => {
                let key = self.key(key, at_span)?;
                match map.get(&key) {
                    Some((_, item)) => Ok(item.clone()),
                    None => Err(Diagnostic::new(Code::Index, at_span, "the map has no such key").into()),
                }
            }
            (Value::Config(_), Value::Str(key)) => self.field(&value, &Name { text: key.clone(), span: at_span }, span),
            (Value::Tensor(_) | Value::Input(_), _) => {
                let d = Diagnostic::new(Code::Type, value_span, "tensors are not indexed");
                Err(d.help("use `select(axis, index)`, `slice(axis, start, end)` or `gather`").into())
            }
            (Value::List(_) | Value::Tuple(_) | Value::Str(_), other) => Err(self.mismatch(other, "an index", at_span)),
            (other, _) => Err(self.mismatch(other, "a list", value_span)),
        }
    }

    /// The part of something of length `len` that a range names.
    pub(crate) fn bounds(&self, range: &Range, len: usize, span: Span) -> Eval<(usize, usize)> {
        let start = range.start.value;
        let end = range.end.map_or(len as i128, |e| e.value);
        let fits = |n: i128| usize::try_from(n).ok().filter(|&n| n <= len);
        match (fits(start), fits(end)) {
            (Some(start), Some(end)) if start <= end => Ok((start, end)),
            _ => {
                let message = format!("the range is {start}..{end}, and the length {len}");
                Err(Diagnostic::new(Code::Index, span, message).label("out of range").into())
            }
        }
    }

    /// `a..b` of two values; `None` as the second leaves the end open.
    pub(crate) fn range_of(&mut self, first: &Value, last: &Value, inclusive: bool, span: Span) -> Eval {
        let start = self.known_int(first, span)?;
        let end = match last {
            Value::Option(None) => None,
            other => {
                let mut n = self.known_int(other, span)?;
                n.value += i128::from(inclusive);
                Some(n)
            }
        };
        let start = Int { ty: start.ty.or(end.and_then(|e| e.ty)), ..start };
        Ok(Value::Range(Range { start, end, from_start: true, chars: false }))
    }

    fn no_field(&self, of: &str, name: &Name, known: &[&str]) -> Flow {
        let d = Diagnostic::new(Code::UnknownField, name.span, format!("{of} has no field `{}`", name.text));
        let help = match crate::nearest::nearest(&name.text, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "it has no fields".to_owned(),
            None => format!("its fields are {}", super::names::listed(known)),
        };
        d.label("no such field").help(help).into()
    }

    fn range(&mut self, start: Option<ExprId>, end: Option<ExprId>, inclusive: bool, span: Span) -> Eval {
        let from_start = start.is_some();
        let first = match start {
            Some(start) => self.eval(start)?,
            None => Value::int(0),
        };
        let last = match end {
            Some(end) => Some(self.eval(end)?),
            None => None,
        };
        if self.is_host(&first) || last.as_ref().is_some_and(|l| self.is_host(l)) {
            let last = last.unwrap_or(Value::none());
            return self.apply_host(Applied::Range { inclusive }, vec![first, last], span);
        }
        if let (Value::Char(a), Some(Value::Char(b))) = (&first, &last) {
            let end = u32::from(*b) as i128 + i128::from(inclusive);
            let start = Int { value: u32::from(*a).into(), ty: None };
            return Ok(Value::Range(Range { start, end: Some(Int { value: end, ty: None }), from_start, chars: true }));
        }
        let mut start_int = self.known_int(&first, start.map_or(span, |s| self.span(s)))?;
        let end_int = match (&last, end) {
            (Some(value), Some(at)) => {
                let mut n = self.known_int(value, self.span(at))?;
                n.value += i128::from(inclusive);
                Some(n)
            }
            _ => None,
        };
        if let Some(end) = end_int {
            start_int.ty = start_int.ty.or(end.ty);
        }
        Ok(Value::Range(Range { start: start_int, end: end_int, from_start, chars: false }))
    }

    fn struct_literal(&mut self, path: &[Name], fields: &[(Name, ExprId)], base: Option<ExprId>, span: Span) -> Eval {
        let (name, variant, declared) = self.struct_of(path)?;
        let ids: Vec<ExprId> = fields.iter().map(|(_, id)| *id).collect();
        let values = self.eval_all(&ids)?;
        let base = match base {
            Some(base) => match self.eval(base)? {
                Value::Struct(of) if of.name == name => Some(of),
                other => return Err(self.mismatch(&other, &format!("a `{name}`"), self.span(base))),
            },
            None => None,
        };
        if let Some((extra, _)) = fields.iter().find(|(n, _)| !declared.iter().any(|(d, _)| d.text == n.text)) {
            let known: Vec<&str> = declared.iter().map(|(n, _)| &*n.text).collect();
            return Err(self.no_field(&format!("`{name}`"), extra, &known));
        }
        let mut out = Vec::with_capacity(declared.len());
        for (field, ty) in declared {
            let given = fields.iter().zip(&values).find(|((n, _), _)| n.text == field.text).map(|(_, v)| v.clone());
            let from_base =
                || base.as_ref().and_then(|b| b.fields.iter().find(|(n, _)| *n == field.text).map(|(_, v)| v.clone()));
            match given.or_else(from_base) {
                Some(value) => out.push((field.text.clone(), self.as_type(value, ty, span)?)),
                None => {
                    let d =
                        Diagnostic::new(Code::UnknownField, span, format!("`{name}` needs its field `{}`", field.text))
                            .label("not given here")
                            .related(field.span, "declared here");
                    return Err(d.into());
                }
            }
        }
        Ok(Value::Struct(Arc::new(StructValue { name, variant, fields: out })))
    }

    /// An error where a value has another type than is needed; names the key where the config lacks one.
    pub(crate) fn mismatch(&self, value: &Value, wanted: &str, span: Span) -> Flow {
        match value {
            Value::Poison => Flow::Poisoned,
            Value::Missing(missing) => missing_key(missing).into(),
            Value::Size(_) if !matches!(wanted, "an integer" | "a number" | "an index" | "a value") => {
                let d = Diagnostic::new(Code::Type, span, format!("expected {wanted}, found {}", value.kind()));
                d.label("this is a size").into()
            }
            Value::Host(_) | Value::Size(_) | Value::Sampled(_) | Value::Stop(_) | Value::Counter(_) => {
                let (code, help) = match value {
                    Value::Size(_) => (
                        Code::RunTimeSize,
                        "loops, lists and weights need a known size; operations on the whole tensor do not",
                    ),
                    Value::Host(_) => (
                        Code::RunTimeValue,
                        "move code on text and numbers alone into a function of its own, which runs with the model",
                    ),
                    _ => (
                        Code::RunTimeValue,
                        "a sampled token is compared, appended to the list of tokens, embedded or decoded",
                    ),
                };
                let message = format!("{wanted} is needed here, found {}", value.kind());
                Diagnostic::new(code, span, message).label("known only when running").help(help).into()
            }
            other => {
                let d = Diagnostic::new(Code::Type, span, format!("expected {wanted}, found {}", other.kind()));
                let d = d.label(format!("this is {}", other.kind()));
                match other {
                    Value::Option(_) => {
                        d.help("`unwrap_or(default)` or `if let Some(x) = …` gives what is in it").into()
                    }
                    _ => d.into(),
                }
            }
        }
    }

    /// An integer that is known now.
    pub(crate) fn known_int(&self, value: &Value, span: Span) -> Eval<Int> {
        match value {
            Value::Int(n) => Ok(*n),
            Value::Ref(place) => self.known_int(&place.load(), span),
            Value::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => Ok(Int { value: *x as i128, ty: None }),
            other => Err(self.mismatch(other, "an integer", span)),
        }
    }

    /// A count that is known now.
    pub(crate) fn known_size(&self, value: &Value, span: Span) -> Eval<usize> {
        let n = self.known_int(value, span)?.value;
        usize::try_from(n).map_err(|_| {
            Diagnostic::new(Code::Type, span, format!("expected a count, found {n}")).label("not a count").into()
        })
    }
}

/// An error that names a missing key of the config.
pub(crate) fn missing_key(missing: &MissingKey) -> Diagnostic {
    let table = if missing.table.path.is_empty() {
        "the config".to_owned()
    } else {
        format!("[{}] of the config", missing.table.path)
    };
    let known: Vec<&str> = missing.table.keys.keys().map(|k| &**k).collect();
    let help = match crate::nearest::nearest(&missing.key, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "it is empty".to_owned(),
        None => format!("its keys are {}", super::names::listed(&known)),
    };
    Diagnostic::new(Code::UnknownConfigKey, missing.span, format!("{table} has no key `{}`", missing.key))
        .label("no such key")
        .help(help)
}

fn literal_value(literal: &Literal) -> Value {
    match literal {
        Literal::Int(value, ty) => Value::Int(Int { value: *value, ty: *ty }),
        Literal::Float(x) => Value::Float(*x),
        Literal::Str(text) => Value::Str(text.clone()),
        Literal::Bytes(bytes) => Value::list(bytes.iter().map(|&b| Value::typed(b.into(), IntType::U8)).collect()),
        Literal::Char(c) => Value::Char(*c),
        Literal::Bool(b) => Value::Bool(*b),
    }
}
