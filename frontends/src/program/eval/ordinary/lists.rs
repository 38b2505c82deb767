//! Lists: vectors, arrays, slices and queues.

use super::{Call, Table, common, sort::sort};
use crate::program::codes::Code;
use crate::program::eval::iter::{Iter, Kind};
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::{Items, Place, Range, Step, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const METHODS: Table = &[
    ("len", 0),
    ("is_empty", 0),
    ("iter", 0),
    ("into_iter", 0),
    ("to_vec", 0),
    ("into_boxed_slice", 0),
    ("as_slice", 0),
    ("as_mut_slice", 0),
    ("first", 0),
    ("last", 0),
    ("front", 0),
    ("back", 0),
    ("get", 1),
    ("split_first", 0),
    ("split_last", 0),
    ("split_at", 1),
    ("contains", 1),
    ("starts_with", 1),
    ("ends_with", 1),
    ("concat", 0),
    ("join", 1),
    ("repeat", 1),
    ("windows", 1),
    ("chunks", 1),
    ("chunks_exact", 1),
    ("rchunks", 1),
    ("split", 1),
    ("binary_search", 1),
    ("binary_search_by", 1),
    ("binary_search_by_key", 2),
    ("partition_point", 1),
    ("is_sorted", 0),
    ("map", 1),
];

pub(super) const CHANGES: Table = &[
    ("push", 1),
    ("push_back", 1),
    ("push_front", 1),
    ("pop", 0),
    ("pop_back", 0),
    ("pop_front", 0),
    ("insert", 2),
    ("remove", 1),
    ("swap_remove", 1),
    ("clear", 0),
    ("truncate", 1),
    ("resize", 2),
    ("resize_with", 2),
    ("extend", 1),
    ("extend_from_slice", 1),
    ("extend_from_within", 1),
    ("append", 1),
    ("drain", 1),
    ("split_off", 1),
    ("retain", 1),
    ("retain_mut", 1),
    ("dedup", 0),
    ("dedup_by_key", 1),
    ("sort", 0),
    ("sort_unstable", 0),
    ("sort_by", 1),
    ("sort_unstable_by", 1),
    ("sort_by_key", 1),
    ("sort_unstable_by_key", 1),
    ("sort_by_cached_key", 1),
    ("reverse", 0),
    ("rotate_left", 1),
    ("rotate_right", 1),
    ("swap", 2),
    ("fill", 1),
    ("copy_from_slice", 1),
    ("clone_from_slice", 1),
    ("iter_mut", 0),
    ("get_mut", 1),
    ("first_mut", 0),
    ("last_mut", 0),
    ("chunks_mut", 1),
    ("chunks_exact_mut", 1),
    ("split_at_mut", 1),
];

pub(super) fn method(e: &mut Evaluator<'_>, items: &Arc<Items>, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let list = || Value::List(items.clone());
    let some = |value: Option<Value>| value.map_or(Value::none(), Value::some);
    let walk = |kind: Kind| Ok(Value::Iter(Iter::new(kind, Vec::new(), vec![list()])));
    let size = |e: &Evaluator<'_>| match call.count(e, 0)? {
        0 => call.panic(format!("`{name}` of parts of 0 elements")),
        n => Ok(n),
    };
    let cut = |e: &mut Evaluator<'_>, from: usize, to: usize| -> Eval {
        e.make(to - from, call.span)?;
        Ok(Value::list(items[from..to].to_vec()))
    };
    match name {
        "len" => Ok(Value::len(items.len())),
        "is_empty" => Ok(Value::Bool(items.is_empty())),
        "iter" | "into_iter" => Ok(Value::Iter(Iter::items(items.clone()))),
        "to_vec" | "into_boxed_slice" | "as_slice" | "as_mut_slice" => Ok(list()),
        "first" | "front" => Ok(some(items.first().cloned())),
        "last" | "back" => Ok(some(items.last().cloned())),
        "get" => match call.value(e, 0) {
            Value::Range(range) => {
                let start = usize::try_from(range.start.value).ok();
                let end = range.end.map_or(Some(items.len()), |n| usize::try_from(n.value).ok());
                match start.zip(end) {
                    Some((start, end)) if start <= end && end <= items.len() => Ok(Value::some(cut(e, start, end)?)),
                    _ => Ok(Value::none()),
                }
            }
            _ => {
                let n = call.int(e, 0)?;
                Ok(some(usize::try_from(n).ok().and_then(|n| items.get(n)).cloned()))
            }
        },
        "split_first" | "split_last" => {
            let Some(rest) = items.len().checked_sub(1) else { return Ok(Value::none()) };
            let (one, rest) = match name {
                "split_first" => (items[0].clone(), cut(e, 1, items.len())?),
                _ => (items[rest].clone(), cut(e, 0, rest)?),
            };
            Ok(Value::some(Value::tuple(vec![one, rest])))
        }
        "split_at" => {
            let at = call.count(e, 0)?;
            if at > items.len() {
                return call.out_of_range(e, 0, at, items.len());
            }
            Ok(Value::tuple(vec![cut(e, 0, at)?, cut(e, at, items.len())?]))
        }
        "contains" => {
            e.work(items.len(), call.span)?;
            let wanted = call.value(e, 0);
            for item in items.iter() {
                if e.equal(item, &wanted, call.span)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        "starts_with" | "ends_with" => {
            let part = call.list(e, 0)?;
            e.work(part.len(), call.span)?;
            let Some(from) = items.len().checked_sub(part.len()) else { return Ok(Value::Bool(false)) };
            let from = if name == "starts_with" { 0 } else { from };
            for (a, b) in items[from..].iter().zip(part.iter()) {
                if !e.equal(a, b, call.span)? {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        }
        "concat" => joined(e, items, None, call),
        "join" => {
            let between = call.value(e, 0);
            joined(e, items, Some(&between), call)
        }
        "repeat" => {
            let n = call.count(e, 0)?;
            e.make(items.len().saturating_mul(n), call.span)?;
            Ok(Value::list((0..n).flat_map(|_| items.iter().cloned()).collect()))
        }
        "windows" => {
            let size = size(e)?;
            walk(Kind::Windows { at: 0, end: (items.len() + 1).saturating_sub(size), size })
        }
        "chunks" => walk(Kind::Chunks { at: 0, end: items.len(), size: size(e)? }),
        "chunks_exact" => {
            let size = size(e)?;
            walk(Kind::Chunks { at: 0, end: items.len() / size * size, size })
        }
        "rchunks" => {
            e.make(items.len(), call.span)?;
            let parts = items.rchunks(size(e)?).map(|part| Value::list(part.to_vec())).collect();
            Ok(Value::Iter(Iter::of(parts)))
        }
        "split" => {
            e.make(items.len(), call.span)?;
            let mut parts = vec![Vec::new()];
            for item in items.iter() {
                match (call.holds(e, 0, vec![item.clone()])?, parts.last_mut()) {
                    (false, Some(last)) => last.push(item.clone()),
                    _ => parts.push(Vec::new()),
                }
            }
            Ok(Value::Iter(Iter::of(parts.into_iter().map(Value::list).collect())))
        }
        "binary_search" | "binary_search_by" | "binary_search_by_key" | "partition_point" => search(e, items, call),
        "is_sorted" => {
            e.work(items.len(), call.span)?;
            for pair in items.windows(2) {
                if !matches!(e.order_of(&pair[0], &pair[1], call.span)?, Some(Ordering::Less | Ordering::Equal)) {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        }
        "map" => {
            e.make(items.len(), call.span)?;
            let mut out = Vec::with_capacity(items.len());
            for item in items.iter() {
                out.push(call.apply(e, 0, vec![item.clone()])?);
            }
            Ok(Value::list(out))
        }
        _ => Err(Flow::Poisoned),
    }
}

/// The elements one after another: texts into a text, lists into a list.
fn joined(e: &mut Evaluator<'_>, items: &Items, between: Option<&Value>, call: &Call<'_>) -> Eval {
    if items.iter().any(|v| matches!(v, Value::List(_))) {
        let mut out = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let before = out.len();
            match between {
                Some(Value::List(between)) if i > 0 => out.extend_from_slice(between),
                Some(one) if i > 0 => out.push(one.clone()),
                _ => {}
            }
            match item {
                Value::List(part) => out.extend_from_slice(part),
                other => return Err(e.mismatch(other, "a list", call.at)),
            }
            e.make(out.len() - before, call.span)?;
        }
        return Ok(Value::list(out));
    }
    let between = match between {
        Some(_) => call.text(e, 0)?,
        None => "".into(),
    };
    let mut out = String::new();
    for (i, item) in items.iter().enumerate() {
        let before = out.len();
        if i > 0 {
            out.push_str(&between);
        }
        match e.deref(item.clone()) {
            Value::Str(text) => out.push_str(&text),
            other => return Err(e.mismatch(&other, "a text or list", call.at)),
        }
        e.make(out.len() - before, call.span)?;
    }
    Ok(Value::str(out))
}

fn search(e: &mut Evaluator<'_>, items: &Items, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let (mut low, mut high) = (0, items.len());
    while low < high {
        e.tick(call.span)?;
        let middle = low + (high - low) / 2;
        let item = items[middle].clone();
        let order = match name {
            "partition_point" => {
                if call.holds(e, 0, vec![item])? {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            "binary_search" => {
                let wanted = call.value(e, 0);
                e.total_order(&item, &wanted, call)?
            }
            "binary_search_by" => {
                let order = call.apply(e, 0, vec![item])?;
                common::ordering(e, &order, call)?
            }
            _ => {
                let key = call.apply(e, 1, vec![item])?;
                let wanted = call.value(e, 0);
                e.total_order(&key, &wanted, call)?
            }
        };
        match order {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(Value::some(Value::len(middle))),
        }
    }
    Ok(if name == "partition_point" { Value::len(low) } else { Value::none() })
}

pub(super) fn change(e: &mut Evaluator<'_>, place: &Place, items: Arc<Items>, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    if !items.is_empty() && items.iter().all(|v| matches!(v, Value::Ref(_))) {
        return change_part(e, &items, call);
    }
    let len = items.len();
    let inside = |n: usize| Value::Ref(Arc::new(place.step(Step::Element(n))));
    let some = |value: Option<Value>| value.map_or(Value::none(), Value::some);
    let (first, second) = (call.args.value(0).clone(), call.args.value(1).clone());
    // An element that is there.
    let index = |e: &Evaluator<'_>, i: usize| match call.count(e, i)? {
        n if n < len => Ok(n),
        n => call.out_of_range(e, i, n, len),
    };
    let own = |value: Value, e: &Evaluator<'_>| e.deref(value);
    match name {
        "iter_mut" => {
            drop(items);
            return Ok(Value::Iter(Iter::of(e.places(place, call.span)?)));
        }
        "get_mut" => {
            let n = call.int(e, 0)?;
            return Ok(some(usize::try_from(n).ok().filter(|&n| n < len).map(inside)));
        }
        "first_mut" => return Ok(some((len > 0).then(|| inside(0)))),
        "last_mut" => return Ok(some(len.checked_sub(1).map(inside))),
        "chunks_mut" | "chunks_exact_mut" | "split_at_mut" => {
            let at = call.count(e, 0)?;
            let all = e.places(place, call.span)?;
            if name == "split_at_mut" {
                if at > len {
                    return call.out_of_range(e, 0, at, len);
                }
                let (a, b) = all.split_at(at);
                return Ok(Value::tuple(vec![Value::list(a.to_vec()), Value::list(b.to_vec())]));
            }
            if at == 0 {
                return call.panic(format!("`{name}` of parts of 0 elements"));
            }
            let end = if name == "chunks_mut" { len } else { len / at * at };
            let parts = all[..end].chunks(at).map(|part| Value::list(part.to_vec())).collect();
            return Ok(Value::Iter(Iter::of(parts)));
        }
        "sort"
        | "sort_unstable"
        | "sort_by"
        | "sort_unstable_by"
        | "sort_by_key"
        | "sort_unstable_by_key"
        | "sort_by_cached_key" => {
            let sorted = sorted(e, &items, call)?;
            return e.write(place, call.span, |slot| *slot = Value::list(sorted)).map(|()| Value::Unit);
        }
        "retain" | "retain_mut" | "dedup" | "dedup_by_key" => {
            let mut kept: Vec<Value> = Vec::new();
            let mut last: Option<Value> = None;
            for item in items.iter() {
                let keep = match name {
                    "retain" => call.holds(e, 0, vec![item.clone()])?,
                    "retain_mut" => {
                        let cell = crate::program::value::Cell::new(item.clone());
                        let keep = call.holds(e, 0, vec![Value::Ref(Arc::new(Place::variable(cell.clone())))])?;
                        if keep {
                            kept.push(cell.get());
                        }
                        continue;
                    }
                    _ => {
                        let key = if name == "dedup" { item.clone() } else { call.apply(e, 0, vec![item.clone()])? };
                        let same = match &last {
                            Some(last) => e.equal(last, &key, call.span)?,
                            None => false,
                        };
                        last = Some(key);
                        !same
                    }
                };
                e.tick(call.span)?;
                if keep {
                    kept.push(item.clone());
                }
            }
            return e.write(place, call.span, |slot| *slot = Value::list(kept)).map(|()| Value::Unit);
        }
        _ => {}
    }
    // What follows changes the list itself: nobody else may hold it.
    drop(items);
    let edit = |e: &mut Evaluator<'_>, f: &mut dyn FnMut(&mut Vec<Value>) -> Value| {
        e.write(place, call.span, |slot| match slot {
            Value::List(items) => f(&mut Arc::make_mut(items).0),
            _ => Value::Poison,
        })
    };
    match name {
        "push" | "push_back" => {
            e.make(1, call.span)?;
            let item = own(first, e);
            if len >= crate::program::eval::MAX_LENGTH {
                e.make(len + 1, call.span)?;
            }
            edit(e, &mut |items| {
                items.push(item.clone());
                Value::Unit
            })
        }
        "push_front" | "insert" => {
            e.make(1, call.span)?;
            e.work(len, call.span)?;
            let (at, item) = match name {
                "insert" => (call.count(e, 0)?, own(second, e)),
                _ => (0, own(first, e)),
            };
            if at > len {
                return call.out_of_range(e, 0, at, len);
            }
            edit(e, &mut |items| {
                items.insert(at, item.clone());
                Value::Unit
            })
        }
        "pop" | "pop_back" => edit(e, &mut |items| some(items.pop())),
        "pop_front" => {
            e.work(len, call.span)?;
            edit(e, &mut |items| if items.is_empty() { Value::none() } else { Value::some(items.remove(0)) })
        }
        "remove" => {
            e.work(len, call.span)?;
            let at = index(e, 0)?;
            edit(e, &mut |items| items.remove(at))
        }
        "swap_remove" => {
            let at = index(e, 0)?;
            edit(e, &mut |items| items.swap_remove(at))
        }
        "clear" => edit(e, &mut |items| {
            items.clear();
            Value::Unit
        }),
        "truncate" => {
            let to = call.count(e, 0)?;
            edit(e, &mut |items| {
                items.truncate(to);
                Value::Unit
            })
        }
        "resize" | "resize_with" => {
            let to = call.count(e, 0)?;
            e.make(to.saturating_sub(len), call.span)?;
            let mut more = Vec::new();
            for _ in len..to {
                more.push(if name == "resize" { own(second.clone(), e) } else { call.apply(e, 1, Vec::new())? });
            }
            edit(e, &mut |items| {
                items.truncate(to);
                items.append(&mut more);
                Value::Unit
            })
        }
        "extend" | "extend_from_slice" | "extend_from_within" | "append" => {
            let mut more = match name {
                "extend_from_within" => {
                    let Value::Range(range) = own(first.clone(), e) else {
                        return Err(e.mismatch(&first, "a range", call.args.at(0)));
                    };
                    let (start, end) = e.bounds(&range, len, call.args.at(0))?;
                    e.make(end - start, call.span)?;
                    match place.load() {
                        Value::List(items) => items[start..end].to_vec(),
                        _ => Vec::new(),
                    }
                }
                "append" => {
                    let more = match own(first.clone(), e) {
                        Value::List(items) => items.to_vec(),
                        other => return Err(e.mismatch(&other, "a list", call.args.at(0))),
                    };
                    e.make(more.len(), call.span)?;
                    if let Value::Ref(other) = &first {
                        e.write(other, call.span, |slot| *slot = Value::list(Vec::new()))?;
                    }
                    more
                }
                _ => {
                    let source = own(first, e);
                    let iter = e.iterate(source, call.args.at(0))?;
                    e.drain(&iter, call.span)?
                }
            };
            for item in &mut more {
                if let Value::Ref(_) = item {
                    *item = own(item.clone(), e);
                }
            }
            if len + more.len() > crate::program::eval::MAX_LENGTH {
                e.make(len + more.len(), call.span)?;
            }
            edit(e, &mut |items| {
                items.append(&mut more);
                Value::Unit
            })
        }
        "drain" => {
            let Value::Range(range) = own(first.clone(), e) else {
                return Err(e.mismatch(&first, "a range", call.args.at(0)));
            };
            let Range { .. } = &range;
            let (start, end) = e.bounds(&range, len, call.args.at(0))?;
            e.work(len, call.span)?;
            edit(e, &mut |items| Value::Iter(Iter::of(items.drain(start..end).collect())))
        }
        "split_off" => {
            let at = call.count(e, 0)?;
            if at > len {
                return call.out_of_range(e, 0, at, len);
            }
            edit(e, &mut |items| Value::list(items.split_off(at)))
        }
        "reverse" => {
            e.work(len, call.span)?;
            edit(e, &mut |items| {
                items.reverse();
                Value::Unit
            })
        }
        "rotate_left" | "rotate_right" => {
            e.work(len, call.span)?;
            let by = call.count(e, 0)?;
            if by > len {
                return call.out_of_range(e, 0, by, len);
            }
            edit(e, &mut |items| {
                items.rotate_left(if name == "rotate_left" { by } else { len - by });
                Value::Unit
            })
        }
        "swap" => {
            let (a, b) = (index(e, 0)?, index(e, 1)?);
            edit(e, &mut |items| {
                items.swap(a, b);
                Value::Unit
            })
        }
        "fill" => {
            e.work(len, call.span)?;
            let item = own(first, e);
            edit(e, &mut |items| {
                items.fill(item.clone());
                Value::Unit
            })
        }
        "copy_from_slice" | "clone_from_slice" => {
            let from = call.list(e, 0)?;
            if from.len() != len {
                return call.fail(Code::Index, format!("{} elements are copied over {len}", from.len()));
            }
            e.work(len, call.span)?;
            edit(e, &mut |items| {
                items.clone_from_slice(&from);
                Value::Unit
            })
        }
        _ => Err(Flow::Poisoned),
    }
}

/// Changes part of a list: references to its elements.
fn change_part(e: &mut Evaluator<'_>, part: &Arc<Items>, call: &Call<'_>) -> Eval {
    let some = |value: Option<&Value>| Ok(value.map_or(Value::none(), |v| Value::some(v.clone())));
    match &*call.name.text {
        "iter_mut" => return Ok(Value::Iter(Iter::items(part.clone()))),
        "get_mut" => return some(usize::try_from(call.int(e, 0)?).ok().and_then(|n| part.get(n))),
        "first_mut" => return some(part.first()),
        "last_mut" => return some(part.last()),
        "split_at_mut" => return method(e, part, &Call { name: &call.renamed("split_at"), ..*call }),
        "chunks_mut" => return method(e, part, &Call { name: &call.renamed("chunks"), ..*call }),
        "chunks_exact_mut" => return method(e, part, &Call { name: &call.renamed("chunks_exact"), ..*call }),
        _ => {}
    }
    let before = Arc::new(Items(part.iter().map(|v| e.deref(v.clone())).collect()));
    let copy = Place::variable(crate::program::value::Cell::new(Value::List(before.clone())));
    let result = change(e, &copy, before, call)?;
    match copy.load() {
        Value::List(after) if after.len() == part.len() => {
            e.work(after.len(), call.span)?;
            for (slot, value) in part.iter().zip(after.iter()) {
                if let Value::Ref(place) = slot {
                    e.write(place, call.span, |slot| drop(std::mem::replace(slot, value.clone())))?;
                }
            }
            Ok(result)
        }
        _ => {
            let message = format!("`{}` changes the length of part of a list", call.name.text);
            call.fail(Code::Assign, message)
        }
    }
}

/// The elements in order, as one of the `sort…` methods has it.
fn sorted(e: &mut Evaluator<'_>, items: &Items, call: &Call<'_>) -> Eval<Vec<Value>> {
    e.work(items.len(), call.span)?;
    match &*call.name.text {
        "sort" | "sort_unstable" => {
            let mut order = |a: &Value, b: &Value| {
                e.tick(call.span)?;
                e.total_order(a, b, call)
            };
            sort(items.to_vec(), &mut order)
        }
        "sort_by" | "sort_unstable_by" => {
            let mut order = |a: &Value, b: &Value| {
                let order = call.apply(e, 0, vec![a.clone(), b.clone()])?;
                common::ordering(e, &order, call)
            };
            sort(items.to_vec(), &mut order)
        }
        _ => {
            let mut keyed = Vec::with_capacity(items.len());
            for item in items.iter() {
                let key = call.apply(e, 0, vec![item.clone()])?;
                keyed.push(Value::tuple(vec![key, item.clone()]));
            }
            let part = |pair: &Value, i: usize| match pair {
                Value::Tuple(parts) => parts[i].clone(),
                other => other.clone(),
            };
            let mut order = |a: &Value, b: &Value| {
                e.tick(call.span)?;
                e.total_order(&part(a, 0), &part(b, 0), call)
            };
            Ok(sort(keyed, &mut order)?.iter().map(|pair| part(pair, 1)).collect())
        }
    }
}
