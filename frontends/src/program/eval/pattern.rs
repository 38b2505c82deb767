//! Patterns.

use super::{Eval, Evaluator};
use crate::program::ast::{Literal, Name, Pattern, PatternKind};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::host::Applied;
use crate::program::value::{Place, Step, Value};
use std::sync::Arc;

impl Evaluator<'_> {
    /// Whether a value matches; what the pattern binds are then new variables. After `false` some may be.
    pub(super) fn matches(&mut self, pattern: &Pattern, value: Value) -> Eval<bool> {
        match &pattern.kind {
            PatternKind::Wildcard | PatternKind::Rest(None) => Ok(true),
            PatternKind::Bind { name, inner, .. } => {
                if let Some(inner) = inner
                    && !self.matches(inner, value.clone())?
                {
                    return Ok(false);
                }
                self.bind(name.text.clone(), value);
                Ok(true)
            }
            PatternKind::Rest(Some(name)) => {
                self.bind(name.text.clone(), value);
                Ok(true)
            }
            PatternKind::Literal(literal) => self.is_literal(&self.deref(value), literal, pattern),
            PatternKind::Range { start, end, inclusive } => {
                let value = self.deref(value);
                let order = |l: &Literal| self.order(&value, l, pattern);
                let above = match start {
                    Some(start) => order(start)?.is_ge(),
                    None => true,
                };
                let below = match end {
                    Some(end) if *inclusive => order(end)?.is_le(),
                    Some(end) => order(end)?.is_lt(),
                    None => true,
                };
                Ok(above && below)
            }
            PatternKind::Path(path) => self.matches_path(path, value, pattern),
            PatternKind::TupleStruct(path, inner) => self.matches_tuple_struct(path, inner, value, pattern),
            PatternKind::Struct { path, fields, .. } => {
                let place = referred(&value);
                let Value::Struct(of) = self.deref(value) else { return Ok(false) };
                if !names_variant(path, &of.name, of.variant.as_deref()) {
                    return Ok(false);
                }
                for (name, inner) in fields {
                    let mut field = self.field(&Value::Struct(of.clone()), name, name.span)?;
                    if let Some(place) = &place {
                        field = Value::Ref(Arc::new(place.step(Step::Field(name.text.clone()))));
                    }
                    if !self.matches(inner, field)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            PatternKind::Tuple(inner) => self.matches_sequence(inner, value, pattern),
            PatternKind::Slice(inner) => self.matches_sequence(inner, value, pattern),
            PatternKind::Or(choices) => {
                for choice in choices {
                    let mark = self.frame().vars.len();
                    if self.matches(choice, value.clone())? {
                        return Ok(true);
                    }
                    self.frame().vars.truncate(mark);
                }
                Ok(false)
            }
        }
    }

    fn matches_path(&mut self, path: &[Name], value: Value, pattern: &Pattern) -> Eval<bool> {
        let Some(last) = path.last() else { return Ok(false) };
        let value = self.deref(value);
        if path.len() == 1 && &*last.text == "None" {
            return Ok(matches!(value, Value::Option(None) | Value::Missing(_)));
        }
        if let Value::Struct(of) = &value {
            return Ok(names_variant(path, &of.name, of.variant.as_deref()));
        }
        let constant = self.path(path, pattern.span)?;
        self.equal(&value, &constant, pattern.span)
    }

    fn matches_tuple_struct(
        &mut self,
        path: &[Name],
        inner: &[Pattern],
        value: Value,
        pattern: &Pattern,
    ) -> Eval<bool> {
        let last = path.last().map(|n| &*n.text).unwrap_or_default();
        if path.len() == 1
            && let ("Some" | "Ok", [inner]) = (last, inner)
        {
            let place = referred(&value);
            return match self.deref(value) {
                Value::Option(Some(value)) => {
                    let whole = place.map(|place| Value::Ref(Arc::new(place.step(Step::Element(0)))));
                    self.matches(inner, whole.unwrap_or_else(|| value[0].clone()))
                }
                Value::Option(None) | Value::Missing(_) => Ok(false),
                Value::Host(_) => Err(self.run_time_branch(pattern.span)),
                Value::Poison => Err(super::Flow::Poisoned),
                // A config key that is there.
                present => self.matches(inner, present),
            };
        }
        if path.len() == 1 && last == "Err" {
            return match (self.deref(value), inner) {
                // What went wrong is not kept.
                (Value::Option(None) | Value::Missing(_), [inner]) => self.matches(inner, Value::Unit),
                _ => Ok(false),
            };
        }
        let place = referred(&value);
        let Value::Struct(of) = self.deref(value) else { return Ok(false) };
        if !names_variant(path, &of.name, of.variant.as_deref()) {
            return Ok(false);
        }
        let part = |(name, v): &(Arc<str>, Value)| match &place {
            Some(place) => Value::Ref(Arc::new(place.step(Step::Field(name.clone())))),
            None => v.clone(),
        };
        let fields = of.fields.iter().map(part).collect();
        self.matches_sequence(inner, Value::tuple(fields), pattern)
    }

    fn matches_sequence(&mut self, inner: &[Pattern], value: Value, pattern: &Pattern) -> Eval<bool> {
        let place = referred(&value);
        let value = self.deref(value);
        if let Value::List(items) | Value::Tuple(items) = &value {
            self.looked(items.len());
        }
        let items: Vec<Value> = match &value {
            Value::List(items) | Value::Tuple(items) => match &place {
                Some(place) => (0..items.len()).map(|i| Value::Ref(Arc::new(place.step(Step::Element(i))))).collect(),
                None => items.to_vec(),
            },
            Value::Unit => Vec::new(),
            Value::TopK { values, index } => vec![Value::Tensor(*values), Value::Tensor(*index)],
            Value::Host(_) => {
                let mut items = Vec::with_capacity(inner.len());
                for i in 0..inner.len() {
                    let applied = Applied::Field(Arc::from(i.to_string()));
                    items.push(self.apply_host(applied, vec![value.clone()], pattern.span)?);
                }
                items
            }
            other => return Err(self.mismatch(other, "a tuple or list", pattern.span)),
        };
        let rest = inner.iter().position(is_rest);
        match rest {
            None if items.len() != inner.len() => {
                let tuple = matches!(value, Value::Tuple(_) | Value::TopK { .. });
                if !tuple {
                    return Ok(false);
                }
                let message = format!("a pattern of {} parts for a tuple of {}", inner.len(), items.len());
                Err(Diagnostic::new(Code::Pattern, pattern.span, message).label("does not match").into())
            }
            None => self.matches_each(inner, &items),
            Some(_) if items.len() + 1 < inner.len() => Ok(false),
            Some(at) => {
                let tail = inner.len() - at - 1;
                self.make(items.len() - tail - at, pattern.span)?;
                let middle = items[at..items.len() - tail].to_vec();
                Ok(self.matches_each(&inner[..at], &items[..at])?
                    && self.matches(&inner[at], Value::list(middle))?
                    && self.matches_each(&inner[at + 1..], &items[items.len() - tail..])?)
            }
        }
    }

    fn matches_each(&mut self, inner: &[Pattern], items: &[Value]) -> Eval<bool> {
        for (pattern, item) in inner.iter().zip(items) {
            if !self.matches(pattern, item.clone())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_literal(&self, value: &Value, literal: &Literal, pattern: &Pattern) -> Eval<bool> {
        Ok(match (value, literal) {
            (Value::Int(a), Literal::Int(b, _)) => a.value == *b,
            (Value::Float(a), Literal::Float(b)) => a == b,
            (Value::Int(a), Literal::Float(b)) => a.value as f64 == *b,
            (Value::Float(a), Literal::Int(b, _)) => *a == *b as f64,
            (Value::Str(a), Literal::Str(b)) => a == b,
            (Value::Char(a), Literal::Char(b)) => a == b,
            (Value::Bool(a), Literal::Bool(b)) => a == b,
            (Value::Missing(_) | Value::Option(None), _) => false,
            (Value::Poison | Value::Host(_) | Value::Sampled(_), _) => {
                return Err(self.mismatch(value, "a known value", pattern.span));
            }
            _ => false,
        })
    }

    fn order(&self, value: &Value, literal: &Literal, pattern: &Pattern) -> Eval<std::cmp::Ordering> {
        let order = match (value, literal) {
            (Value::Int(a), Literal::Int(b, _)) => Some(a.value.cmp(b)),
            (Value::Char(a), Literal::Char(b)) => Some(a.cmp(b)),
            (Value::Float(a), Literal::Float(b)) => a.partial_cmp(b),
            _ => None,
        };
        order.ok_or_else(|| self.mismatch(value, "a number or character of the range", pattern.span))
    }
}

/// The place that a reference refers to.
fn referred(value: &Value) -> Option<Arc<Place>> {
    match value {
        Value::Ref(place) => Some(place.clone()),
        _ => None,
    }
}

fn is_rest(pattern: &Pattern) -> bool {
    matches!(pattern.kind, PatternKind::Rest(_))
}

/// Whether a path names a struct, or a variant of an enum.
fn names_variant(path: &[Name], name: &str, variant: Option<&str>) -> bool {
    let Some(last) = path.last() else { return false };
    match variant {
        Some(variant) => {
            &*last.text == variant && path.iter().rev().nth(1).is_none_or(|n| &*n.text == name || &*n.text == "Self")
        }
        None => &*last.text == name || &*last.text == "Self",
    }
}
