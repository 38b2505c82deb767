//! Methods of iterators and ranges: adapters, which are lazy, and what uses elements up.

use super::{Call, Table, common};
use crate::program::ast::{BinaryOp, Type, TypeKind};
use crate::program::eval::iter::{Iter, Kind};
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::{Cell, Int, Items, Place, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const METHODS: Table = &[
    // Adapters.
    ("map", 1),
    ("filter", 1),
    ("filter_map", 1),
    ("flat_map", 1),
    ("flatten", 0),
    ("map_while", 1),
    ("take_while", 1),
    ("skip_while", 1),
    ("inspect", 1),
    ("enumerate", 0),
    ("zip", 1),
    ("chain", 1),
    ("take", 1),
    ("skip", 1),
    ("step_by", 1),
    ("rev", 0),
    ("peekable", 0),
    ("fuse", 0),
    ("scan", 2),
    ("cycle", 0),
    ("copied", 0),
    ("cloned", 0),
    ("iter", 0),
    ("into_iter", 0),
    ("by_ref", 0),
    // Consumers.
    ("collect", 0),
    ("count", 0),
    ("len", 0),
    ("is_empty", 0),
    ("sum", 0),
    ("product", 0),
    ("min", 0),
    ("max", 0),
    ("min_by", 1),
    ("max_by", 1),
    ("min_by_key", 1),
    ("max_by_key", 1),
    ("fold", 2),
    ("rfold", 2),
    ("try_fold", 2),
    ("reduce", 1),
    ("for_each", 1),
    ("any", 1),
    ("all", 1),
    ("find", 1),
    ("find_map", 1),
    ("position", 1),
    ("rposition", 1),
    ("last", 0),
    ("unzip", 0),
    ("partition", 1),
    ("cmp", 1),
    ("partial_cmp", 1),
    ("eq", 1),
    ("ne", 1),
    ("lt", 1),
    ("le", 1),
    ("gt", 1),
    ("ge", 1),
    ("is_sorted", 0),
    // Of ranges.
    ("contains", 1),
    ("start", 0),
    ("end", 0),
    // Of texts that are walked: the rest, and a text of what remains.
    ("as_str", 0),
    ("to_string", 0),
    ("join", 1),
    ("clone", 0),
];

pub(super) const CHANGES: Table = &[
    ("next", 0),
    ("next_back", 0),
    ("nth", 1),
    ("nth_back", 1),
    ("next_if", 1),
    ("next_if_eq", 1),
    ("peek", 0),
    ("by_ref", 0),
];

pub(super) fn change(e: &mut Evaluator<'_>, place: &Place, value: Value, call: &Call<'_>) -> Eval {
    let iter = match value {
        Value::Iter(iter) => iter,
        Value::Range(range) => {
            let iter = e.iterate(Value::Range(range.clone()), call.at)?;
            if &*call.name.text != "by_ref" {
                let result = advance(e, &iter, call)?;
                let rest = iter.range(range);
                e.write(place, call.span, |slot| *slot = Value::Range(rest))?;
                return Ok(result);
            }
            // Borrowed, it becomes the iterator over it.
            let walked = Value::Iter(iter.clone());
            e.write(place, call.span, |slot| *slot = walked)?;
            iter
        }
        other => return Err(e.mismatch(&other, "an iterator", call.at)),
    };
    advance(e, &iter, call)
}

fn advance(e: &mut Evaluator<'_>, iter: &Iter, call: &Call<'_>) -> Eval {
    let some = |value: Option<Value>| Ok(value.map_or(Value::none(), Value::some));
    let span = call.span;
    match &*call.name.text {
        "next" => some(e.next(iter, span)?),
        "next_back" => some(e.next_back(iter, span)?),
        "nth" | "nth_back" => {
            let back = &*call.name.text == "nth_back";
            for _ in 0..call.count(e, 0)? {
                let item = if back { e.next_back(iter, span)? } else { e.next(iter, span)? };
                if item.is_none() {
                    return Ok(Value::none());
                }
            }
            some(if back { e.next_back(iter, span)? } else { e.next(iter, span)? })
        }
        "peek" => some(e.peek(iter, span)?),
        "next_if" | "next_if_eq" => {
            let Some(item) = e.peek(iter, span)? else { return Ok(Value::none()) };
            let fits = match &*call.name.text {
                "next_if" => call.holds(e, 0, vec![item])?,
                _ => e.equal(&item, &call.value(e, 0), span)?,
            };
            if fits { some(e.next(iter, span)?) } else { Ok(Value::none()) }
        }
        _ => Ok(Value::Iter(iter.clone())),
    }
}

pub(super) fn method(e: &mut Evaluator<'_>, value: &Value, call: &Call<'_>) -> Eval {
    if let Value::Range(range) = value {
        match (&*call.name.text, range.end) {
            ("clone", _) => return Ok(value.clone()),
            ("start", _) => return Ok(Value::Int(range.start)),
            // Only inclusive ranges have this method.
            ("end", Some(end)) => return Ok(Value::Int(Int { value: end.value - 1, ..end })),
            ("len", Some(end)) => return Ok(Value::len(usize::try_from(end.value - range.start.value).unwrap_or(0))),
            ("is_empty", Some(end)) => return Ok(Value::Bool(range.start.value >= end.value)),
            ("contains", end) => {
                let start = range.start.value;
                return Ok(Value::Bool(match call.value(e, 0) {
                    Value::Char(c) if range.chars => {
                        let n = i128::from(u32::from(c));
                        n >= start && end.is_none_or(|end| n < end.value)
                    }
                    Value::Float(x) => x >= start as f64 && end.is_none_or(|end| x < end.value as f64),
                    _ => {
                        let n = call.int(e, 0)?;
                        (!range.from_start || n >= start) && end.is_none_or(|end| n < end.value)
                    }
                }));
            }
            _ => {}
        }
    }
    let iter = e.iterate(value.clone(), call.at)?;
    let function = || vec![call.args.value(0).clone()];
    let adapt = |kind: Kind, values: Vec<Value>| Ok(Value::Iter(Iter::new(kind, vec![iter.clone()], values)));
    match &*call.name.text {
        "map" => adapt(Kind::Map, function()),
        "filter" => adapt(Kind::Filter, function()),
        "filter_map" => adapt(Kind::FilterMap, function()),
        "flat_map" => adapt(Kind::Flat, function()),
        "flatten" => adapt(Kind::Flat, Vec::new()),
        "map_while" => adapt(Kind::MapWhile, function()),
        "take_while" => adapt(Kind::TakeWhile { done: false }, function()),
        "skip_while" => adapt(Kind::SkipWhile { begun: false }, function()),
        "inspect" => adapt(Kind::Inspect, function()),
        "enumerate" => adapt(Kind::Enumerate { n: 0 }, Vec::new()),
        "take" => adapt(Kind::Take { left: call.count(e, 0)? }, Vec::new()),
        "skip" => adapt(Kind::Skip { left: call.count(e, 0)? }, Vec::new()),
        "step_by" => match call.count(e, 0)? {
            0 => call.panic("a step of 0"),
            step => adapt(Kind::StepBy { step, begun: false }, Vec::new()),
        },
        "rev" => adapt(Kind::Rev, Vec::new()),
        "peekable" => adapt(Kind::Peekable, Vec::new()),
        "cycle" => adapt(Kind::Cycle { at: 0, again: false }, Vec::new()),
        "scan" => {
            let carried = Place::variable(Cell::new(call.value(e, 0)));
            adapt(Kind::Scan, vec![call.args.value(1).clone(), Value::Ref(Arc::new(carried))])
        }
        name @ ("zip" | "chain") => {
            let other = e.iterate(call.args.value(0).clone(), call.args.at(0))?;
            let kind = if name == "zip" { Kind::Zip } else { Kind::Chain { first_done: false } };
            Ok(Value::Iter(Iter::new(kind, vec![iter, other], Vec::new())))
        }
        "copied" | "cloned" | "iter" | "into_iter" | "fuse" | "by_ref" => Ok(Value::Iter(iter)),
        "clone" => Ok(Value::Iter(e.copy_iter(&iter, call.span, 0, &mut |_, value| Ok(value))?)),
        _ => consume(e, &iter, call),
    }
}

fn consume(e: &mut Evaluator<'_>, iter: &Iter, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let span = call.span;
    let some = |value: Option<Value>| Ok(value.map_or(Value::none(), Value::some));
    match name {
        "collect" => {
            let items = e.drain(iter, span)?;
            collected(e, items, call)
        }
        "count" => {
            let mut n = 0;
            while e.next(iter, span)?.is_some() {
                n += 1;
            }
            Ok(Value::len(n))
        }
        "len" => Ok(Value::len(e.iter_len(iter, span)?)),
        "is_empty" => Ok(Value::Bool(e.iter_len(iter, span)? == 0)),
        "sum" | "product" => {
            let (op, start) = if name == "sum" { (BinaryOp::Add, 0) } else { (BinaryOp::Mul, 1) };
            let mut all = match e.next(iter, span)? {
                Some(first) => e.deref(first),
                None => Value::int(start),
            };
            while let Some(item) = e.next(iter, span)? {
                all = e.binary(op, all, item, span)?;
            }
            match call.turbofish() {
                Some(ty) => e.as_type(all, ty, span),
                None => Ok(all),
            }
        }
        "min" | "max" | "min_by" | "max_by" | "min_by_key" | "max_by_key" => extreme(e, iter, call),
        "fold" => {
            let mut all = call.value(e, 0);
            while let Some(item) = e.next(iter, span)? {
                all = call.apply(e, 1, vec![all, item])?;
            }
            Ok(all)
        }
        "rfold" => {
            let mut all = call.value(e, 0);
            while let Some(item) = e.next_back(iter, span)? {
                all = call.apply(e, 1, vec![all, item])?;
            }
            Ok(all)
        }
        "try_fold" => {
            let mut all = call.value(e, 0);
            while let Some(item) = e.next(iter, span)? {
                let found = call.apply(e, 1, vec![all, item])?;
                match e.as_option(found) {
                    Some(next) => all = next,
                    None => return Ok(Value::none()),
                }
            }
            Ok(Value::some(all))
        }
        "reduce" => {
            let Some(mut all) = e.next(iter, span)? else { return Ok(Value::none()) };
            while let Some(item) = e.next(iter, span)? {
                all = call.apply(e, 0, vec![all, item])?;
            }
            Ok(Value::some(all))
        }
        "for_each" => {
            while let Some(item) = e.next(iter, span)? {
                call.apply(e, 0, vec![item])?;
            }
            Ok(Value::Unit)
        }
        "any" | "all" => {
            while let Some(item) = e.next(iter, span)? {
                if call.holds(e, 0, vec![item])? == (name == "any") {
                    return Ok(Value::Bool(name == "any"));
                }
            }
            Ok(Value::Bool(name == "all"))
        }
        "find" => {
            while let Some(item) = e.next(iter, span)? {
                if call.holds(e, 0, vec![item.clone()])? {
                    return Ok(Value::some(item));
                }
            }
            Ok(Value::none())
        }
        "find_map" => {
            while let Some(item) = e.next(iter, span)? {
                let found = call.apply(e, 0, vec![item])?;
                if let Some(found) = e.as_option(found) {
                    return Ok(Value::some(found));
                }
            }
            Ok(Value::none())
        }
        "position" => {
            let mut n = 0;
            while let Some(item) = e.next(iter, span)? {
                if call.holds(e, 0, vec![item])? {
                    return Ok(Value::some(Value::len(n)));
                }
                n += 1;
            }
            Ok(Value::none())
        }
        "rposition" => {
            let mut n = e.iter_len(iter, span)?;
            while let Some(item) = e.next_back(iter, span)? {
                n -= 1;
                if call.holds(e, 0, vec![item])? {
                    return Ok(Value::some(Value::len(n)));
                }
            }
            Ok(Value::none())
        }
        "last" => {
            let mut last = None;
            while let Some(item) = e.next(iter, span)? {
                last = Some(item);
            }
            some(last)
        }
        "unzip" => {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for item in e.drain(iter, span)? {
                match e.deref(item) {
                    Value::Tuple(pair) if pair.len() == 2 => {
                        a.push(pair[0].clone());
                        b.push(pair[1].clone());
                    }
                    other => return Err(e.mismatch(&other, "a pair", span)),
                }
            }
            let both = Value::tuple(vec![Value::list(a), Value::list(b)]);
            match call.turbofish() {
                Some(_) if call.types.len() == 4 => {
                    let types = Type { kind: TypeKind::Tuple(call.types[2..].to_vec()), span };
                    e.as_type(both, &types, span)
                }
                _ => Ok(both),
            }
        }
        "partition" => {
            let (mut yes, mut no) = (Vec::new(), Vec::new());
            for item in e.drain(iter, span)? {
                match call.holds(e, 0, vec![item.clone()])? {
                    true => yes.push(item),
                    false => no.push(item),
                }
            }
            let both = [yes, no].map(Value::list);
            let mut out = Vec::new();
            for list in both {
                out.push(match call.turbofish() {
                    Some(ty) => e.as_type(list, ty, span)?,
                    None => list,
                });
            }
            Ok(Value::tuple(out))
        }
        "cmp" | "partial_cmp" | "eq" | "ne" | "lt" | "le" | "gt" | "ge" => {
            let (a, b) = (e.drain(iter, span)?, call.elements(e, 0)?);
            let (a, b) = (Value::list(a), Value::Tuple(Arc::new(Items(vec![Value::list(b)]))));
            let Value::Tuple(args) = b else { return Err(Flow::Poisoned) };
            let args =
                crate::program::builtins::Args::new(None, args.to_vec(), &[call.args.at(0)], call.name.span, span);
            common::method(e, &a, &Call { args: &args, ..*call })
        }
        "is_sorted" => {
            let mut last: Option<Value> = None;
            while let Some(item) = e.next(iter, span)? {
                if let Some(last) = &last
                    && e.order_of(last, &item, span)? == Some(Ordering::Greater)
                {
                    return Ok(Value::Bool(false));
                }
                last = Some(item);
            }
            Ok(Value::Bool(true))
        }
        "contains" => {
            let wanted = call.value(e, 0);
            while let Some(item) = e.next(iter, span)? {
                if e.equal(&item, &wanted, span)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        "as_str" | "to_string" => {
            let copy = e.copy_iter(iter, span, 0, &mut |_, value| Ok(value))?;
            let items = e.drain(&copy, span)?;
            text_of(e, &items, call)
        }
        "join" => {
            let items = e.drain(iter, span)?;
            let (list, join) = (Arc::new(Items(items)), call);
            super::lists::method(e, &list, join)
        }
        _ => call.fail(crate::program::codes::Code::UnknownMethod, format!("an iterator has no method `{name}`")),
    }
}

/// `min`, `max` and their kin: of equal elements the first least and the last greatest.
fn extreme(e: &mut Evaluator<'_>, iter: &Iter, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let (by_key, by) = (name.ends_with("_key"), name.ends_with("_by"));
    let mut best: Option<(Value, Value)> = None;
    while let Some(item) = e.next(iter, call.span)? {
        let key = if by_key { call.apply(e, 0, vec![item.clone()])? } else { item.clone() };
        let better = match &best {
            None => true,
            Some((best, _)) => {
                let order = if by {
                    let order = call.apply(e, 0, vec![best.clone(), key.clone()])?;
                    common::ordering(e, &order, call)?
                } else {
                    e.total_order(best, &key, call)?
                };
                if name.starts_with("min") { order.is_gt() } else { order.is_le() }
            }
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::none(), |(_, item)| Value::some(e.deref(item))))
}

/// Elements in the type that is written, else as a list.
fn collected(e: &mut Evaluator<'_>, items: Vec<Value>, call: &Call<'_>) -> Eval {
    let items = items.into_iter().map(|item| e.deref(item)).collect();
    match call.turbofish() {
        Some(ty) => e.as_type(Value::list(items), ty, call.span),
        None => Ok(Value::list(items)),
    }
}

/// Texts and characters as one text.
fn text_of(e: &mut Evaluator<'_>, items: &[Value], call: &Call<'_>) -> Eval {
    let mut out = String::new();
    for item in items {
        match e.deref(item.clone()) {
            Value::Char(c) => out.push(c),
            Value::Str(text) => out.push_str(&text),
            other => return Err(e.mismatch(&other, "a text or character", call.span)),
        }
    }
    e.make(out.len(), call.span)?;
    Ok(Value::str(out))
}

impl Evaluator<'_> {
    /// A list where another type is written: what `collect` would have made of its elements.
    pub(crate) fn collected_as(&mut self, items: &Arc<Items>, ty: &Type, span: crate::program::ast::Span) -> Eval {
        let list = Value::List(items.clone());
        let TypeKind::Named(name, args) = &ty.kind else { return Ok(list) };
        let arguments = crate::program::builtins::Args::new(None, Vec::new(), &[], span, span);
        let written = crate::program::ast::Name { text: name.clone(), span };
        let call = Call { name: &written, types: &[], args: &arguments, at: span, span };
        if let Some((sorted, set)) = super::maps::kind_of(name) {
            let items = items.to_vec();
            let map = self.map_of(items, sorted, set, &call)?;
            return self.as_type(map, ty, span);
        }
        match &**name {
            "String" => text_of(self, items, &call),
            // Options inside out: nothing where one of them is nothing.
            "Option" | "Result" => {
                let mut inner = Vec::with_capacity(items.len());
                for item in items.iter() {
                    match self.as_option(item.clone()) {
                        Some(item) => inner.push(item),
                        None => return Ok(Value::none()),
                    }
                }
                let list = Value::list(inner);
                Ok(Value::some(match args.first() {
                    Some(of) => self.as_type(list, of, span)?,
                    None => list,
                }))
            }
            _ => Ok(list),
        }
    }

    /// The default of a type.
    pub(crate) fn default_of(&mut self, ty: &Type, span: crate::program::ast::Span, depth: usize) -> Eval {
        use crate::program::ast::IntType;
        if depth > 64 {
            return Err(Flow::from(crate::program::diagnostic::Diagnostic::new(
                crate::program::codes::Code::Nesting,
                span,
                "a default of a type that contains itself",
            )));
        }
        Ok(match &ty.bare().kind {
            TypeKind::Slice(_) => Value::list(Vec::new()),
            TypeKind::Array(of, n) => {
                let n = self.eval(*n)?;
                let n = self.known_size(&n, span)?;
                self.make(n, span)?;
                Value::list(vec![self.default_of(of, span, depth + 1)?; n])
            }
            TypeKind::Tuple(types) if types.is_empty() => Value::Unit,
            TypeKind::Tuple(types) => {
                Value::tuple(types.iter().map(|ty| self.default_of(ty, span, depth + 1)).collect::<Eval<_>>()?)
            }
            TypeKind::Named(name, _) => {
                if let Some(ty) = IntType::from_name(name) {
                    return Ok(Value::Int(Int { value: 0, ty: Some(ty) }));
                }
                if let Some((sorted, set)) = super::maps::kind_of(name) {
                    return Ok(Value::Map(Arc::new(crate::program::value::Entries::new(sorted, set))));
                }
                if super::options::is_option(&ty.bare().kind) {
                    return Ok(Value::none());
                }
                match &**name {
                    "f32" | "f64" => Value::Float(0.0),
                    "bool" => Value::Bool(false),
                    "char" => Value::Char('\0'),
                    "String" | "str" => Value::str(""),
                    "Vec" | "VecDeque" => Value::list(Vec::new()),
                    name => {
                        let tree = self.tree;
                        let Some(of) = tree.structs.iter().find(|s| &*s.name.text == name) else {
                            return Ok(Value::Default);
                        };
                        let mut fields = Vec::with_capacity(of.fields.len());
                        for (field, ty) in &of.fields {
                            fields.push((field.text.clone(), self.default_of(ty, span, depth + 1)?));
                        }
                        let name = of.name.text.clone();
                        Value::Struct(Arc::new(crate::program::value::StructValue { name, variant: None, fields }))
                    }
                }
            }
            TypeKind::Inferred | TypeKind::Opaque | TypeKind::Reference { .. } => Value::Default,
        })
    }
}
