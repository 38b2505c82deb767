//! What can be assigned to: variables, and the elements and fields inside them.

use super::{Eval, Evaluator, Flow};
use crate::program::ast::{BinaryOp, ExprId, ExprKind, Span, UnaryOp};
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
        let mut place = std::borrow::Cow::Borrowed(self);
        for _ in 0..MOST_REFERENCES {
            match place.root.with(|root| read(root, &place.path)) {
                Ok(value) => return value,
                Err(inner) => place = std::borrow::Cow::Owned(inner),
            }
        }
        Value::Poison
    }

    /// Works on what is there; `None` where the path leads nowhere any more.
    pub fn with<T>(&self, f: impl FnOnce(&mut Value) -> T) -> Option<T> {
        self.with_hops(f, MOST_REFERENCES)
    }

    /// How many elements a change there copies, because others hold the same lists.
    fn copied(&self) -> usize {
        let mut copied = 0;
        self.root.with(|root| {
            let mut value = &*root;
            let mut steps = self.path.iter();
            loop {
                let (shared, len) = match value {
                    Value::List(items) | Value::Tuple(items) => (Arc::strong_count(items) > 1, items.len()),
                    Value::Map(map) => (Arc::strong_count(map) > 1, map.len()),
                    _ => (false, 0),
                };
                copied += if shared { len } else { 0 };
                let next = match (value, steps.next()) {
                    (Value::List(items) | Value::Tuple(items) | Value::Option(Some(items)), Some(Step::Element(n))) => {
                        items.get(*n)
                    }
                    (Value::Struct(of), Some(Step::Field(name))) => {
                        of.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v)
                    }
                    (Value::Map(map), Some(Step::Entry(key))) => map.get(key).map(|(_, v)| v),
                    _ => None,
                };
                match next {
                    Some(next) => value = next,
                    None => break,
                }
            }
        });
        copied
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

/// What an expression names, or gives.
pub(super) enum Located {
    /// A place; never one whose value is poisoned unnoticed: see [`Evaluator::loaded`].
    At(Place),
    /// A value that stands nowhere.
    Is(Value),
}

enum Reached<'v> {
    Here(&'v mut Value),
    /// A reference on the way, and what remains of the path.
    Reference(Arc<Place>, Vec<Step>),
    Nowhere,
}

/// What lies at the end of a path, or the place that a reference on the way leads to.
fn read(mut value: &Value, path: &[Step]) -> Result<Value, Place> {
    for i in 0..=path.len() {
        if let Value::Ref(place) = value {
            let mut whole = (**place).clone();
            whole.path.extend(path[i..].iter().cloned());
            return Err(whole);
        }
        let Some(step) = path.get(i) else { break };
        let next = match (value, step) {
            (Value::List(items) | Value::Tuple(items) | Value::Option(Some(items)), Step::Element(n)) => items.get(*n),
            (Value::Struct(of), Step::Field(name)) => of.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            (Value::Map(map), Step::Entry(key)) => map.get(key).map(|(_, v)| v),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return Ok(Value::Poison),
        }
    }
    Ok(value.clone())
}

fn walk<'v>(mut value: &'v mut Value, path: &[Step]) -> Reached<'v> {
    for (i, step) in path.iter().enumerate() {
        if let Value::Ref(place) = value {
            return Reached::Reference(place.clone(), path[i..].to_vec());
        }
        let next = match (value, step) {
            (Value::List(items) | Value::Tuple(items) | Value::Option(Some(items)), Step::Element(n)) => {
                Arc::make_mut(items).get_mut(*n)
            }
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

    /// The place that an expression names, or the value that it gives. Evaluates it once.
    pub(super) fn locate(&mut self, id: ExprId) -> Eval<Located> {
        self.depth += 1;
        let result = match self.depth > super::MAX_DEPTH {
            true => self.too_deep(self.span(id)),
            false => self.located(id),
        };
        self.depth -= 1;
        Ok(match result? {
            Located::Is(Value::Ref(place)) => Located::At((*place).clone()),
            Located::Is(Value::Poison) => return Err(Flow::Poisoned),
            other => other,
        })
    }

    fn located(&mut self, id: ExprId) -> Eval<Located> {
        let tree = self.tree;
        let expr = tree.expr(id);
        Ok(match &expr.kind {
            ExprKind::Path(path, _) => match path.as_slice() {
                [name] => match self.lookup(&name.text) {
                    Some(cell) => Located::At(Place::variable(cell.clone())),
                    None => Located::Is(self.eval(id)?),
                },
                _ => Located::Is(self.eval(id)?),
            },
            ExprKind::Unary(UnaryOp::Deref, of) | ExprKind::Ref { of, .. } => self.locate(*of)?,
            ExprKind::Field(of, name) => match self.locate(*of)? {
                Located::At(place) => {
                    let whole = self.loaded(&place)?;
                    let step = match (&whole, name.text.parse::<usize>()) {
                        (Value::Tuple(items), Ok(n)) if n < items.len() => Some(Step::Element(n)),
                        (Value::Struct(of), _) if of.fields.iter().any(|(n, _)| *n == name.text) => {
                            Some(Step::Field(name.text.clone()))
                        }
                        _ => None,
                    };
                    match step {
                        Some(step) => Located::At(place.step(step)),
                        None => Located::Is(self.field(&whole, name, expr.span)?),
                    }
                }
                Located::Is(whole) => Located::Is(self.field(&whole, name, expr.span)?),
            },
            ExprKind::Index(of, at) => {
                let whole = self.locate(*of)?;
                let index = self.eval(*at)?;
                let index = self.deref(index);
                let (place, value) = match whole {
                    Located::At(place) => {
                        let value = self.loaded(&place)?;
                        (Some(place), value)
                    }
                    Located::Is(value) => (None, value),
                };
                let step = match (&value, &index) {
                    (Value::List(items), Value::Int(n)) => {
                        usize::try_from(n.value).ok().filter(|&n| n < items.len()).map(Step::Element)
                    }
                    (Value::Map(map), _) => {
                        self.key(&index, self.span(*at)).ok().filter(|k| map.contains_key(k)).map(Step::Entry)
                    }
                    _ => None,
                };
                match (place, step) {
                    (Some(place), Some(step)) => Located::At(place.step(step)),
                    _ => Located::Is(self.index(&value, &index, self.span(*of), self.span(*at), expr.span)?),
                }
            }
            _ => Located::Is(self.eval(id)?),
        })
    }

    /// References to the elements that `list[a..b]` names; `None` where an expression is something else.
    pub(super) fn part(&mut self, id: ExprId) -> Eval<Option<Value>> {
        let tree = self.tree;
        let ExprKind::Index(of, at) = &tree.expr(id).kind else { return Ok(None) };
        if !matches!(tree.expr(*at).kind, ExprKind::Range { .. }) {
            return Ok(None);
        }
        let Located::At(place) = self.locate(*of)? else { return Ok(None) };
        let Value::List(items) = self.loaded(&place)? else { return Ok(None) };
        let Value::Range(range) = self.eval(*at)? else { return Ok(None) };
        let (start, end) = self.bounds(&range, items.len(), self.span(*at))?;
        self.make(end - start, self.span(id))?;
        let element = |i: usize| match &items[i] {
            reference @ Value::Ref(_) => reference.clone(),
            _ => Value::Ref(Arc::new(place.step(Step::Element(i)))),
        };
        Ok(Some(Value::list((start..end).map(element).collect())))
    }

    /// What a place holds.
    pub(super) fn loaded(&mut self, place: &Place) -> Eval {
        match place.load() {
            Value::Poison => Err(Flow::Poisoned),
            Value::Host(id) if self.run.is_some() => self.resolve(id),
            value => Ok(value),
        }
    }

    /// `&mut x`.
    pub(super) fn reference(&mut self, id: ExprId) -> Eval {
        if let Some(part) = self.part(id)? {
            return Ok(Value::Ref(Arc::new(Place::variable(Cell::new(part)))));
        }
        let place = match self.locate(id)? {
            Located::At(place) => place,
            Located::Is(value) => Place::variable(Cell::new(value)),
        };
        self.loaded(&place)?;
        Ok(Value::Ref(Arc::new(self.settled(place))))
    }

    /// Changes what is at a place. Lists that others hold too are copied for that, which counts as work.
    pub(crate) fn write<T>(&mut self, place: &Place, span: Span, f: impl FnOnce(&mut Value) -> T) -> Eval<T> {
        let copied = place.copied();
        if copied > 0 {
            self.make(copied, span)?;
            self.work(copied, span)?;
        }
        place.with(f).ok_or_else(|| {
            Diagnostic::new(Code::Assign, span, "what this refers to is there no more")
                .label("a stale reference")
                .into()
        })
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
        match self.locate(id)? {
            Located::At(place) => self.assign_at(&place, value, id),
            Located::Is(_) => Err(self.not_assignable(id)),
        }
    }

    /// `place += value`.
    pub(super) fn assign_op(&mut self, op: BinaryOp, id: ExprId, value: ExprId, span: Span) -> Eval {
        let right = self.eval(value)?;
        match self.locate(id)? {
            Located::At(place) => {
                let left = self.loaded(&place)?;
                let result = self.binary(op, left, right, span)?;
                self.assign_at(&place, result, id)
            }
            Located::Is(_) => Err(self.not_assignable(id)),
        }
    }

    fn assign_at(&mut self, place: &Place, value: Value, id: ExprId) -> Eval {
        let value = match (place.load(), value) {
            (Value::Int(old), Value::Int(mut new)) if new.ty.is_none() => {
                new.ty = old.ty;
                Value::Int(new)
            }
            (Value::Float(_), Value::Int(n)) => Value::Float(n.value as f64),
            (_, value) => value,
        };
        // A reference is assigned as what it refers to, so that places never refer in a circle.
        let value = self.deref(value);
        self.write(place, self.span(id), |slot| drop(std::mem::replace(slot, value)))?;
        Ok(Value::Unit)
    }

    fn not_assignable(&self, id: ExprId) -> Flow {
        if let ExprKind::Path(path, _) = &self.tree.expr(id).kind
            && let [name] = path.as_slice()
            && let Some(constant) = self.tree.consts.iter().find(|c| c.name.text == name.text)
        {
            let d = Diagnostic::new(Code::Assign, self.span(id), format!("`{}` is a constant", name.text));
            let d = d.label("cannot be assigned to").related(constant.name.span, "declared here");
            return d.help("bring a variable with `let mut`").into();
        }
        Diagnostic::new(Code::Assign, self.span(id), "this cannot be assigned to")
            .label("neither a variable nor a part of one")
            .into()
    }

    pub(crate) fn out_of_range(&self, index: i128, len: usize, span: Span) -> Flow {
        let message = format!("the index is {index}, and the length {len}");
        Diagnostic::new(Code::Index, span, message).label("out of range").into()
    }

    /// A value as the key of a map.
    pub(crate) fn key(&self, value: &Value, span: Span) -> Eval<Key> {
        // A key is a copy of its value, with nothing shared.
        self.look(16, span)?;
        Ok(match value {
            Value::Int(n) => Key::Int(n.value),
            Value::Bool(b) => Key::Bool(*b),
            Value::Char(c) => Key::Char(*c),
            Value::Str(text) => {
                self.looked(text.len() / 16);
                Key::Str(text.clone())
            }
            Value::Ref(place) => self.key(&place.load(), span)?,
            Value::Tuple(items) | Value::List(items) => {
                Key::List(items.iter().map(|v| self.key(v, span)).collect::<Eval<_>>()?)
            }
            Value::Struct(of) => {
                let name = match &of.variant {
                    Some(variant) => Arc::from(format!("{}::{variant}", of.name)),
                    None => of.name.clone(),
                };
                Key::Struct(name, of.fields.iter().map(|(_, v)| self.key(v, span)).collect::<Eval<_>>()?)
            }
            Value::Option(inner) => {
                let name = if inner.is_some() { "Some" } else { "None" };
                let parts = inner.iter().flat_map(|i| i.iter()).map(|v| self.key(v, span));
                Key::Struct(Arc::from(name), parts.collect::<Eval<_>>()?)
            }
            other => return Err(self.mismatch(other, "a key: an integer, text, character or truth value", span)),
        })
    }
}
