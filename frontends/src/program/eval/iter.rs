//! Iterators: lazy, one element at a time.
//!
//! An iterator is a small machine over its sources. While one computes an element nobody can reach into it, so that
//! a closure that walks the iterator it belongs to meets an error. Elements, also those that only pass through an
//! adapter, count as steps; an iterator without end meets the limit of steps.

use super::{Eval, Evaluator, MAX_DEPTH};
use crate::program::ast::{IntType, Span};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::value::{Cell, Int, Items, Place, Range, Step, Value, drop_in_turn};
use std::sync::{Arc, Mutex, PoisonError};

/// Most adapters on top of each other in an iterator that is copied.
const MOST_COPIED: usize = 256;

/// An iterator, shared by whoever holds it.
#[derive(Clone, Debug)]
pub struct Iter(Arc<Mutex<State>>);

/// Where an iterator stands.
#[derive(Debug)]
struct State {
    kind: Kind,
    /// What it takes elements from.
    sources: Vec<Iter>,
    /// Its function first, where it has one; else what it walks over.
    values: Vec<Value>,
}

impl Drop for State {
    fn drop(&mut self) {
        let sources = std::mem::take(&mut self.sources).into_iter().map(Value::Iter);
        drop_in_turn(sources.chain(std::mem::take(&mut self.values)));
    }
}

/// What an iterator does. Unless said otherwise, it has one source, and one value: a function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Elements `at..end` of a list: its value.
    Items { at: usize, end: usize },
    /// Integers, or characters by their numbers; neither source nor value.
    Numbers { at: Int, end: Option<i128>, chars: bool },
    /// Characters of a text between two bytes, perhaps each with its place.
    Chars { at: usize, end: usize, indices: bool },
    /// Bytes of a text.
    Bytes { at: usize, end: usize },
    /// Overlapping parts of a list: `at..end` are their starts.
    Windows { at: usize, end: usize, size: usize },
    /// Parts of a list side by side.
    Chunks { at: usize, end: usize, size: usize },
    /// `map`
    Map,
    /// `filter`
    Filter,
    /// `filter_map`
    FilterMap,
    /// `map_while`
    MapWhile,
    /// `take_while`
    TakeWhile { done: bool },
    /// `skip_while`
    SkipWhile { begun: bool },
    /// `inspect`
    Inspect,
    /// `flat_map`, or `flatten` without a function; the second source is walked now.
    Flat,
    /// `enumerate`
    Enumerate { n: usize },
    /// Two sources.
    Zip,
    /// Two sources.
    Chain { first_done: bool },
    /// `take`
    Take { left: usize },
    /// `skip`
    Skip { left: usize },
    /// `step_by`
    StepBy { step: usize, begun: bool },
    /// `rev`
    Rev,
    /// Its value is the option that was seen ahead.
    Peekable,
    /// The second value is a reference to what it carries.
    Scan,
    /// Its values are the elements that have been seen.
    Cycle { at: usize, again: bool },
    /// Its value, again and again; no source.
    Repeat { left: Option<usize> },
    /// `from_fn`; no source.
    FromFn,
    /// `repeat_with`; no source.
    RepeatWith,
    /// The second value is the next element as an option; no source.
    Successors,
    /// An element is being computed.
    Busy,
}

impl Iter {
    pub(crate) fn new(kind: Kind, sources: Vec<Iter>, values: Vec<Value>) -> Iter {
        Iter(Arc::new(Mutex::new(State { kind, sources, values })))
    }

    /// Over the elements of a list.
    pub(crate) fn items(items: Arc<Items>) -> Iter {
        let end = items.len();
        Iter::new(Kind::Items { at: 0, end }, Vec::new(), vec![Value::List(items)])
    }

    /// Over these.
    pub(crate) fn of(values: Vec<Value>) -> Iter {
        Iter::items(Arc::new(Items(values)))
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is left of a range.
    pub(crate) fn range(&self, whole: Range) -> Range {
        match self.with(|state| state.kind) {
            Kind::Numbers { at, end, .. } => {
                let end = end.zip(whole.end).map(|(value, end)| Int { value, ..end });
                Range { start: at, end, ..whole }
            }
            _ => whole,
        }
    }

    /// Calls `f` with the values inside, iterators it takes from among them.
    pub(crate) fn visit(&self, mut f: impl FnMut(&Value)) {
        let inside = self.with(|state| {
            let sources = state.sources.iter().cloned().map(Value::Iter);
            sources.chain(state.values.iter().cloned()).collect::<Vec<_>>()
        });
        inside.iter().for_each(&mut f);
    }
}

impl Evaluator<'_> {
    /// What a `for` or an adapter walks over. Behind `&mut` are references to the elements.
    pub(crate) fn iterate(&mut self, value: Value, span: Span) -> Eval<Iter> {
        match value {
            Value::Ref(place) => match place.load() {
                Value::List(_) | Value::Map(_) => Ok(Iter::of(self.places(&place, span)?)),
                other => self.iterate(other, span),
            },
            Value::Iter(iter) => Ok(iter),
            Value::List(items) => Ok(Iter::items(items)),
            Value::Range(Range { start, end, chars, .. }) => {
                let end = end.map(|e| e.value);
                Ok(Iter::new(Kind::Numbers { at: start, end, chars }, Vec::new(), Vec::new()))
            }
            Value::Map(map) => {
                self.make(map.len(), span)?;
                let pair = |(key, value): &(Value, Value)| match map.set {
                    true => key.clone(),
                    false => Value::tuple(vec![key.clone(), value.clone()]),
                };
                Ok(Iter::of(map.values().map(pair).collect()))
            }
            Value::Option(Some(item)) => Ok(Iter::items(item)),
            Value::Option(None) | Value::Missing(_) | Value::Default => Ok(Iter::of(Vec::new())),
            Value::Str(_) => {
                let d = Diagnostic::new(Code::Type, span, "a text is no iterator").label("this is a text");
                Err(d.help("walk over `.chars()`, `.bytes()` or `.lines()` of it").into())
            }
            other => Err(self.mismatch(&other, "something to walk over", span)),
        }
    }

    /// References to the elements of a list or the values of a map, these in pairs with their keys.
    pub(crate) fn places(&mut self, place: &Place, span: Span) -> Eval<Vec<Value>> {
        let step = |step: Step| Value::Ref(Arc::new(place.step(step)));
        match place.load() {
            Value::List(items) => {
                self.make(items.len(), span)?;
                Ok((0..items.len()).map(|i| step(Step::Element(i))).collect())
            }
            Value::Map(map) => {
                self.make(map.len(), span)?;
                let pair = |(key, (shown, _)): (&_, &(Value, Value))| {
                    Value::tuple(vec![shown.clone(), step(Step::Entry(Clone::clone(key)))])
                };
                Ok(map.iter().map(pair).collect())
            }
            other => Err(self.mismatch(&other, "a list", span)),
        }
    }

    /// The next element.
    pub(crate) fn next(&mut self, iter: &Iter, span: Span) -> Eval<Option<Value>> {
        self.tick(span)?;
        self.turn(iter, span, Evaluator::advance)
    }

    /// The last element that is left; what comes before it may be computed for that.
    pub(crate) fn next_back(&mut self, iter: &Iter, span: Span) -> Eval<Option<Value>> {
        self.tick(span)?;
        self.turn(iter, span, Evaluator::retreat)
    }

    fn turn<T>(&mut self, iter: &Iter, span: Span, f: impl FnOnce(&mut Self, &mut State, Span) -> Eval<T>) -> Eval<T> {
        if self.depth >= MAX_DEPTH {
            let d = Diagnostic::new(Code::CallDepth, span, "iterators are nested too deeply");
            return self.abort(d.help("`collect` into a list between them"));
        }
        let busy = State { kind: Kind::Busy, sources: Vec::new(), values: Vec::new() };
        let mut state = iter.with(|state| std::mem::replace(state, busy));
        self.depth += 1;
        let result = match state.kind {
            Kind::Busy => {
                let d = Diagnostic::new(Code::Type, span, "this iterator takes elements from itself");
                Err(d.help("`collect` it into a list first").into())
            }
            _ => f(self, &mut state, span),
        };
        self.depth -= 1;
        iter.with(|slot| std::mem::swap(slot, &mut state));
        result
    }

    fn advance(&mut self, state: &mut State, span: Span) -> Eval<Option<Value>> {
        let State { kind, sources, values } = state;
        match kind {
            Kind::Busy => Ok(None),
            Kind::Items { at, end } => Ok(take_item(values, at, *end)),
            Kind::Numbers { at, end, chars } => {
                if end.is_some_and(|end| at.value >= end) {
                    return Ok(None);
                }
                let now = *at;
                at.value = now.value.saturating_add(1);
                Ok(Some(number(now, *chars)))
            }
            Kind::Chars { at, end, indices } => {
                let Some(Value::Str(text)) = values.first() else { return Ok(None) };
                let Some(c) = text.get(*at..*end).and_then(|t| t.chars().next()) else { return Ok(None) };
                let place = *at;
                *at += c.len_utf8();
                Ok(Some(if *indices { Value::tuple(vec![Value::len(place), Value::Char(c)]) } else { Value::Char(c) }))
            }
            Kind::Bytes { at, end } => {
                let Some(Value::Str(text)) = values.first() else { return Ok(None) };
                let byte = if at < end { text.as_bytes().get(*at) } else { None };
                *at += 1;
                Ok(byte.map(|&b| Value::typed(b.into(), IntType::U8)))
            }
            Kind::Windows { at, end, size } => {
                if at >= end {
                    return Ok(None);
                }
                *at += 1;
                self.cut_part(values, *at - 1, *at - 1 + *size, span)
            }
            Kind::Chunks { at, end, size } => {
                if at >= end {
                    return Ok(None);
                }
                let from = *at;
                *at = end.min(&mut from.saturating_add(*size)).to_owned();
                self.cut_part(values, from, *at, span)
            }
            Kind::Map => match self.next(&sources[0], span)? {
                Some(item) => self.apply(&values[0], vec![item], span).map(Some),
                None => Ok(None),
            },
            Kind::Inspect => {
                let item = self.next(&sources[0], span)?;
                if let Some(item) = &item {
                    self.apply(&values[0], vec![item.clone()], span)?;
                }
                Ok(item)
            }
            Kind::Filter => loop {
                let Some(item) = self.next(&sources[0], span)? else { return Ok(None) };
                if self.holds(&values[0], vec![item.clone()], span)? {
                    return Ok(Some(item));
                }
            },
            Kind::FilterMap => loop {
                let Some(item) = self.next(&sources[0], span)? else { return Ok(None) };
                let found = self.apply(&values[0], vec![item], span)?;
                if let Some(found) = self.as_option(found) {
                    return Ok(Some(found));
                }
            },
            Kind::MapWhile => match self.next(&sources[0], span)? {
                Some(item) => {
                    let found = self.apply(&values[0], vec![item], span)?;
                    Ok(self.as_option(found))
                }
                None => Ok(None),
            },
            Kind::TakeWhile { done } => {
                if *done {
                    return Ok(None);
                }
                let Some(item) = self.next(&sources[0], span)? else { return Ok(None) };
                *done = !self.holds(&values[0], vec![item.clone()], span)?;
                Ok((!*done).then_some(item))
            }
            Kind::SkipWhile { begun } => loop {
                let Some(item) = self.next(&sources[0], span)? else { return Ok(None) };
                if *begun || !self.holds(&values[0], vec![item.clone()], span)? {
                    *begun = true;
                    return Ok(Some(item));
                }
            },
            Kind::Flat => loop {
                if let Some(inner) = sources.get(1) {
                    if let Some(item) = self.next(inner, span)? {
                        return Ok(Some(item));
                    }
                    sources.truncate(1);
                }
                let Some(item) = self.next(&sources[0], span)? else { return Ok(None) };
                let item = match values.first() {
                    Some(f) => self.apply(f, vec![item], span)?,
                    None => item,
                };
                let inner = self.iterate(item, span)?;
                sources.push(inner);
            },
            Kind::Enumerate { n } => {
                let item = self.next(&sources[0], span)?;
                *n += usize::from(item.is_some());
                Ok(item.map(|item| Value::tuple(vec![Value::len(*n - 1), item])))
            }
            Kind::Zip => {
                let Some(a) = self.next(&sources[0], span)? else { return Ok(None) };
                let b = self.next(&sources[1], span)?;
                Ok(b.map(|b| Value::tuple(vec![a, b])))
            }
            Kind::Chain { first_done } => {
                if !*first_done {
                    if let Some(item) = self.next(&sources[0], span)? {
                        return Ok(Some(item));
                    }
                    *first_done = true;
                }
                self.next(&sources[1], span)
            }
            Kind::Take { left: 0 } => Ok(None),
            Kind::Take { left } => {
                *left -= 1;
                self.next(&sources[0], span)
            }
            Kind::Skip { left } => {
                while *left > 0 {
                    *left -= 1;
                    if self.next(&sources[0], span)?.is_none() {
                        return Ok(None);
                    }
                }
                self.next(&sources[0], span)
            }
            Kind::StepBy { step, begun } => {
                if *begun {
                    for _ in 1..*step {
                        if self.next(&sources[0], span)?.is_none() {
                            return Ok(None);
                        }
                    }
                }
                *begun = true;
                self.next(&sources[0], span)
            }
            Kind::Rev => self.next_back(&sources[0], span),
            Kind::Peekable => match values.pop() {
                Some(seen) => Ok(self.as_option(seen)),
                None => self.next(&sources[0], span),
            },
            Kind::Scan => match self.next(&sources[0], span)? {
                Some(item) => {
                    let found = self.apply(&values[0], vec![values[1].clone(), item], span)?;
                    Ok(self.as_option(found))
                }
                None => Ok(None),
            },
            Kind::Cycle { at, again } => {
                if !*again {
                    if let Some(item) = self.next(&sources[0], span)? {
                        self.make(1, span)?;
                        values.push(item.clone());
                        return Ok(Some(item));
                    }
                    *again = true;
                }
                let item = values.get(*at).cloned();
                *at = if values.is_empty() { 0 } else { (*at + 1) % values.len() };
                Ok(item)
            }
            Kind::Repeat { left } => {
                if let Some(left) = left {
                    let Some(less) = left.checked_sub(1) else { return Ok(None) };
                    *left = less;
                }
                Ok(values.first().cloned())
            }
            Kind::FromFn => {
                let found = self.apply(&values[0], Vec::new(), span)?;
                Ok(self.as_option(found))
            }
            Kind::RepeatWith => self.apply(&values[0], Vec::new(), span).map(Some),
            Kind::Successors => {
                let Some(now) = self.as_option(values[1].clone()) else { return Ok(None) };
                values[1] = self.apply(&values[0], vec![now.clone()], span)?;
                Ok(Some(now))
            }
        }
    }

    fn retreat(&mut self, state: &mut State, span: Span) -> Eval<Option<Value>> {
        let State { kind, sources, values } = state;
        match kind {
            Kind::Items { at, end } => {
                if at >= end {
                    return Ok(None);
                }
                *end -= 1;
                Ok(item_at(values, *end))
            }
            Kind::Numbers { at, end: Some(end), chars } => {
                if at.value >= *end {
                    return Ok(None);
                }
                *end -= 1;
                Ok(Some(number(Int { value: *end, ty: at.ty }, *chars)))
            }
            Kind::Numbers { end: None, .. } | Kind::Repeat { left: None } | Kind::RepeatWith => {
                let d = Diagnostic::new(Code::Type, span, "an iterator without end has no last element");
                Err(d.help("bound it first, as with `take`").into())
            }
            Kind::Chars { at, end, indices: false } => {
                let Some(Value::Str(text)) = values.first() else { return Ok(None) };
                let Some(c) = text.get(*at..*end).and_then(|t| t.chars().next_back()) else { return Ok(None) };
                *end -= c.len_utf8();
                Ok(Some(Value::Char(c)))
            }
            Kind::Windows { at, end, size } => {
                if at >= end {
                    return Ok(None);
                }
                *end -= 1;
                self.cut_part(values, *end, *end + *size, span)
            }
            Kind::Map => match self.next_back(&sources[0], span)? {
                Some(item) => self.apply(&values[0], vec![item], span).map(Some),
                None => Ok(None),
            },
            Kind::Filter => loop {
                let Some(item) = self.next_back(&sources[0], span)? else { return Ok(None) };
                if self.holds(&values[0], vec![item.clone()], span)? {
                    return Ok(Some(item));
                }
            },
            Kind::Chain { first_done } => {
                if let Some(item) = self.next_back(&sources[1], span)? {
                    return Ok(Some(item));
                }
                if *first_done { Ok(None) } else { self.next_back(&sources[0], span) }
            }
            Kind::Rev => self.next(&sources[0], span),
            Kind::Busy => Ok(None),
            _ => {
                self.settle_items(state, span)?;
                self.retreat(state, span)
            }
        }
    }

    /// Computes all that is left of an iterator into a list that it then walks over.
    fn settle_items(&mut self, state: &mut State, span: Span) -> Eval<usize> {
        if let Kind::Items { at, end } = state.kind {
            return Ok(end - at);
        }
        let mut rest = Vec::new();
        loop {
            self.tick(span)?;
            let Some(item) = self.advance(state, span)? else { break };
            self.make(1, span)?;
            rest.push(item);
        }
        let end = rest.len();
        *state = State { kind: Kind::Items { at: 0, end }, sources: Vec::new(), values: vec![Value::list(rest)] };
        Ok(end)
    }

    /// How many elements are left.
    pub(crate) fn iter_len(&mut self, iter: &Iter, span: Span) -> Eval<usize> {
        self.turn(iter, span, Evaluator::settle_items)
    }

    /// The next element, which stays the next: of a `peekable`.
    pub(crate) fn peek(&mut self, iter: &Iter, span: Span) -> Eval<Option<Value>> {
        self.tick(span)?;
        let seen = iter.with(|state| match state.kind {
            Kind::Peekable => Some((state.sources.first().cloned(), state.values.last().cloned())),
            _ => None,
        });
        let (source, seen) = match seen {
            Some((Some(source), seen)) => (source, seen),
            _ => {
                let d = Diagnostic::new(Code::UnknownMethod, span, "only a `peekable` iterator is looked ahead in");
                return Err(d.help("make it one: `let mut it = it.peekable();`").into());
            }
        };
        if let Some(seen) = seen {
            return Ok(self.as_option(seen));
        }
        let next = self.next(&source, span)?;
        let kept = next.clone().map_or(Value::none(), Value::some);
        iter.with(|state| state.values.push(kept));
        Ok(next)
    }

    /// All that is left.
    pub(crate) fn drain(&mut self, iter: &Iter, span: Span) -> Eval<Vec<Value>> {
        // A whole list is not walked.
        let whole = iter.with(|state| match (&mut state.kind, state.values.first()) {
            (Kind::Items { at, end }, Some(Value::List(items))) => {
                let part = items.get(*at..*end).map(<[Value]>::to_vec);
                *at = *end;
                part
            }
            _ => None,
        });
        if let Some(part) = whole {
            self.make(part.len(), span)?;
            self.work(part.len(), span)?;
            return Ok(part);
        }
        let mut out = Vec::new();
        while let Some(item) = self.next(iter, span)? {
            self.make(1, span)?;
            out.push(item);
        }
        Ok(out)
    }

    /// An independent copy, with each value inside it as `f` gives it.
    pub(crate) fn copy_iter(
        &mut self,
        iter: &Iter,
        span: Span,
        depth: usize,
        f: &mut dyn FnMut(&mut Self, Value) -> Eval,
    ) -> Eval<Iter> {
        self.look(16, span)?;
        if depth > MOST_COPIED {
            return Err(Diagnostic::new(Code::Nesting, span, "this iterator is nested too deeply to be copied").into());
        }
        let (kind, sources, values) = iter.with(|s| (s.kind, s.sources.clone(), s.values.clone()));
        let sources =
            sources.iter().map(|source| self.copy_iter(source, span, depth + 1, f)).collect::<Eval<Vec<_>>>()?;
        let mut values = values.into_iter().map(|value| f(self, value)).collect::<Eval<Vec<_>>>()?;
        if kind == Kind::Scan
            && let Some(carried) = values.get_mut(1)
        {
            let now = self.deref(carried.clone());
            *carried = Value::Ref(Arc::new(Place::variable(Cell::new(now))));
        }
        Ok(Iter::new(kind, sources, values))
    }

    /// A value as an option; what is none stands for itself.
    pub(crate) fn as_option(&self, value: Value) -> Option<Value> {
        match value {
            Value::Option(inner) => inner.map(|items| items[0].clone()),
            Value::Missing(_) => None,
            other => Some(other),
        }
    }

    /// A function applied to arguments.
    pub(crate) fn apply(&mut self, function: &Value, args: Vec<Value>, span: Span) -> Eval {
        let spans = vec![span; args.len()];
        match self.call_value(function, args, &spans, span, span)? {
            Value::Poison => Err(super::Flow::Poisoned),
            value => Ok(value),
        }
    }

    /// Whether a function gives `true`.
    pub(crate) fn holds(&mut self, function: &Value, args: Vec<Value>, span: Span) -> Eval<bool> {
        let value = self.apply(function, args, span)?;
        self.truth(value, span)
    }

    /// A known truth value.
    pub(crate) fn truth(&self, value: Value, span: Span) -> Eval<bool> {
        match self.deref(value) {
            Value::Bool(b) => Ok(b),
            other => Err(self.mismatch(&other, "a truth value", span)),
        }
    }

    fn cut_part(&mut self, values: &[Value], from: usize, to: usize, span: Span) -> Eval<Option<Value>> {
        let Some(Value::List(items)) = values.first() else { return Ok(None) };
        let Some(part) = items.get(from..to) else { return Ok(None) };
        self.make(part.len(), span)?;
        Ok(Some(Value::list(part.to_vec())))
    }
}

fn number(n: Int, chars: bool) -> Value {
    match u32::try_from(n.value).ok().and_then(char::from_u32) {
        Some(c) if chars => Value::Char(c),
        _ => Value::Int(n),
    }
}

fn item_at(values: &[Value], at: usize) -> Option<Value> {
    match values.first() {
        Some(Value::List(items)) => items.get(at).cloned(),
        _ => None,
    }
}

fn take_item(values: &[Value], at: &mut usize, end: usize) -> Option<Value> {
    if *at >= end {
        return None;
    }
    *at += 1;
    item_at(values, *at - 1)
}
