//! What can be assigned to: variables, and the elements and fields inside them.

use super::{Eval, Evaluator, Flow};
use crate::program::ast::{ExprId, ExprKind, UnaryOp};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::value::{Cell, Key, Place, Step, Value};
use std::sync::Arc;

/// Most references that refer to each other.
const MOST_REFERENCES: usize = 64;

impl Place {
    /// A variable.
    pub fn variable(root: Cell) -> Place {
        Place { root, path: Vec::new() }
    }

    /// The same place, one step further in.
    pub fn step(&self, step: Step) -> Place {
        let mut path = self.path.clone();
        path.push(step);
        Place { root: self.root.clone(), path }
    }

    /// What is there; `Poison` where the path leads nowhere any more.
    pub fn load(&self) -> Value {
        self.with(|value| value.clone()).unwrap_or(Value::Poison)
    }

    /// Works on what is there; `None` where the path leads nowhere any more.
    pub fn with<T>(&self, f: impl FnOnce(&mut Value) -> T) -> Option<T> {
        self.with_hops(f, MOST_REFERENCES)
    }

    fn with_hops<T>(&self, f: impl FnOnce(&mut Value) -> T, hops: usize) -> Option<T> {
        let hops = hops.checked_sub(1)?;
        // A variable that holds a reference stands for what it refers to.
        let target = self.root.with(|value| match value {
            Value::Ref(place) => Some(place.clone()),
            _ => None,
        });
        if let Some(place) = target {
            let mut whole = (*place).clone();
            whole.path.extend(self.path.iter().cloned());
            return whole.with_hops(f, hops);
        }
        let mut inner = None;
        let mut f = Some(f);
        let done = self.root.with(|value| match walk(value, &self.path) {
            Reached::Here(slot) => f.take().map(|f| f(slot)),
            Reached::Reference(place, rest) => {
                inner = Some((place, rest));
                None
            }
            Reached::Nowhere => None,
        });
        match (inner, f) {
            (Some((place, rest)), Some(f)) => {
                let mut whole = (*place).clone();
                whole.path.extend(rest);
                whole.with_hops(f, hops)
            }
            _ => done,
        }
    }
}

enum Reached<'v> {
    Here(&'v mut Value),
    /// A reference on the way, and what remains of the path.
    Reference(Arc<Place>, Vec<Step>),
    Nowhere,
}

fn walk<'v>(mut value: &'v mut Value, path: &[Step]) -> Reached<'v> {
    for (i, step) in path.iter().enumerate() {
        if let Value::Ref(place) = value {
            return Reached::Reference(place.clone(), path[i..].to_vec());
        }
        let next = match (value, step) {
            (Value::List(items) | Value::Tuple(items), Step::Element(n)) => Arc::make_mut(items).get_mut(*n),
            (Value::Struct(of), Step::Field(name)) => {
                Arc::make_mut(of).fields.iter_mut().find(|(n, _)| n == name).map(|(_, v)| v)
            }
            (Value::Map(map), Step::Entry(key)) => Arc::make_mut(map).get_mut(key).map(|(_, v)| v),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return Reached::Nowhere,
        }
    }
    if let Value::Ref(place) = value {
        return Reached::Reference(place.clone(), Vec::new());
    }
    Reached::Here(value)
}

impl Evaluator<'_> {
    /// A value behind references.
    pub(crate) fn deref(&self, value: Value) -> Value {
        match value {
            Value::Ref(place) => place.load(),
            other => other,
        }
    }

    /// The place that an expression names; `None` where it names none, as a call does.
    pub(super) fn place(&mut self, id: ExprId) -> Eval<Option<Place>> {
        let tree = self.tree;
        let expr = tree.expr(id);
        match &expr.kind {
            ExprKind::Path(path, _) => match path.as_slice() {
                [name] => Ok(self.lookup(&name.text).cloned().map(Place::variable)),
                _ => Ok(None),
            },
            ExprKind::Unary(UnaryOp::Deref, of) | ExprKind::Ref { of, .. } => self.place(*of),
            ExprKind::Field(of, name) => {
                let Some(place) = self.place(*of)? else { return Ok(None) };
                let step = match (place.load(), name.text.parse::<usize>()) {
                    (Value::Tuple(items), Ok(n)) if n < items.len() => Step::Element(n),
                    (Value::Struct(of), _) if of.fields.iter().any(|(n, _)| *n == name.text) => {
                        Step::Field(name.text.clone())
                    }
                    _ => return Ok(None),
                };
                Ok(Some(place.step(step)))
            }
            ExprKind::Index(of, at) => {
                let Some(place) = self.place(*of)? else { return Ok(None) };
                let index = self.eval(*at)?;
                match place.load() {
                    Value::List(items) => match self.deref(index) {
                        Value::Int(n) => match usize::try_from(n.value).ok().filter(|&n| n < items.len()) {
                            Some(n) => Ok(Some(place.step(Step::Element(n)))),
                            None => Err(self.out_of_range(n.value, items.len(), self.span(*at))),
                        },
                        _ => Ok(None),
                    },
                    Value::Map(map) => match self.key(&index, self.span(*at)) {
                        Ok(key) if map.contains_key(&key) => Ok(Some(place.step(Step::Entry(key)))),
                        _ => Ok(None),
                    },
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// `&mut x`.
    pub(super) fn reference(&mut self, id: ExprId) -> Eval {
        match self.place(id)? {
            Some(place) => match place.load() {
                Value::Poison => Err(Flow::Poisoned),
                _ => Ok(Value::Ref(Arc::new(self.settled(place)))),
            },
            None => self.eval(id),
        }
    }

    /// A place whose root is no reference.
    fn settled(&self, mut place: Place) -> Place {
        for _ in 0..MOST_REFERENCES {
            let inner = place.root.with(|value| match value {
                Value::Ref(inner) => Some(inner.clone()),
                _ => None,
            });
            let Some(inner) = inner else { break };
            let mut whole = (*inner).clone();
            whole.path.extend(place.path);
            place = whole;
        }
        place
    }

    /// `place = value`.
    pub(super) fn assign(&mut self, id: ExprId, value: Value) -> Eval {
        let tree = self.tree;
        let expr = tree.expr(id);
        match &expr.kind {
            ExprKind::Tuple(items) => {
                // (a, b) = (x, y)
                let Value::Tuple(values) = self.deref(value) else {
                    return Err(self.not_assignable(id));
                };
                for (item, value) in items.iter().zip(values.iter()) {
                    self.assign(*item, value.clone())?;
                }
                return Ok(Value::Unit);
            }
            ExprKind::Path(path, _) if path.len() == 1 && &*path[0].text == "_" => return Ok(Value::Unit),
            _ => {}
        }
        if let ExprKind::Path(path, _) = &expr.kind
            && let [name] = path.as_slice()
            && self.lookup(&name.text).is_none()
        {
            return self.path(path, expr.span).and(Err(self.not_assignable(id)));
        }
        if let ExprKind::Path(path, _) = &expr.kind
            && let [name] = path.as_slice()
        {
            self.name_value(&name.text, &value);
        }
        let Some(place) = self.place(id)? else { return Err(self.not_assignable(id)) };
        // Assigning through a name that holds a poisoned value makes it good again.
        let value = match (place.load(), value) {
            (Value::Int(old), Value::Int(mut new)) if new.ty.is_none() => {
                new.ty = old.ty;
                Value::Int(new)
            }
            (Value::Float(_), Value::Int(n)) => Value::Float(n.value as f64),
            (_, value) => value,
        };
        match place.with(|slot| *slot = value) {
            Some(()) => Ok(Value::Unit),
            None => Err(self.not_assignable(id)),
        }
    }

    fn not_assignable(&self, id: ExprId) -> Flow {
        Diagnostic::new(Code::Assign, self.span(id), "this cannot be assigned to")
            .label("neither a variable nor a part of one")
            .into()
    }

    pub(crate) fn out_of_range(&self, index: i128, len: usize, span: crate::program::ast::Span) -> Flow {
        let message = format!("the index is {index}, and the length {len}");
        Diagnostic::new(Code::Index, span, message).label("out of range").into()
    }

    /// A value as the key of a map.
    pub(crate) fn key(&self, value: &Value, span: crate::program::ast::Span) -> Eval<Key> {
        Ok(match value {
            Value::Int(n) => Key::Int(n.value),
            Value::Bool(b) => Key::Bool(*b),
            Value::Char(c) => Key::Char(*c),
            Value::Str(text) => Key::Str(text.clone()),
            Value::Ref(place) => self.key(&place.load(), span)?,
            Value::Tuple(items) | Value::List(items) => {
                Key::List(items.iter().map(|v| self.key(v, span)).collect::<Eval<_>>()?)
            }
            other => return Err(self.mismatch(other, "a key: an integer, text, character or truth value", span)),
        })
    }
}
