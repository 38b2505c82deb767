//! Maps and sets. Those named `BTree…` are walked in the order of their keys, others in that of insertion. Tables of
//! the config are asked for their keys.

use super::{Call, Table};
use crate::program::ast::Name;
use crate::program::eval::iter::Iter;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::{ConfigTable, Entries, Entry, Place, Step, Value};
use std::sync::Arc;

pub(super) const METHODS: Table = &[
    ("len", 0),
    ("is_empty", 0),
    ("get", 1),
    ("get_key_value", 1),
    ("contains_key", 1),
    ("contains", 1),
    ("keys", 0),
    ("into_keys", 0),
    ("values", 0),
    ("into_values", 0),
    ("iter", 0),
    ("into_iter", 0),
    ("first", 0),
    ("last", 0),
    ("first_key_value", 0),
    ("last_key_value", 0),
    ("union", 1),
    ("intersection", 1),
    ("difference", 1),
    ("symmetric_difference", 1),
    ("is_subset", 1),
    ("is_superset", 1),
    ("is_disjoint", 1),
];

pub(super) const CHANGES: Table = &[
    ("insert", super::SEVERAL),
    ("remove", 1),
    ("entry", 1),
    ("get_mut", 1),
    ("values_mut", 0),
    ("iter_mut", 0),
    ("clear", 0),
    ("retain", 1),
    ("extend", 1),
    ("take", 1),
    ("replace", 1),
    ("drain", 0),
    ("pop_first", 0),
    ("pop_last", 0),
];

pub(super) const ENTRY: Table =
    &[("or_insert", 1), ("or_insert_with", 1), ("or_default", 0), ("and_modify", 1), ("key", 0)];

pub(super) const CONFIG: Table =
    &[("get", 1), ("contains_key", 1), ("keys", 0), ("len", 0), ("is_empty", 0), ("clone", 0)];

pub(super) fn method(e: &mut Evaluator<'_>, map: &Arc<Entries>, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let some = |value: Option<Value>| value.map_or(Value::none(), Value::some);
    let pair = |(key, value): &(Value, Value)| Value::tuple(vec![key.clone(), value.clone()]);
    // An entry as it is seen: a set has keys alone.
    let seen = |entry: &(Value, Value)| if map.set { entry.0.clone() } else { pair(entry) };
    let all = |e: &mut Evaluator<'_>, f: &dyn Fn(&(Value, Value)) -> Value| -> Eval {
        e.make(map.len(), call.span)?;
        Ok(Value::Iter(Iter::of(map.values().map(f).collect())))
    };
    let key = |e: &Evaluator<'_>| e.key(call.args.value(0), call.args.at(0));
    match name {
        "len" => Ok(Value::len(map.len())),
        "is_empty" => Ok(Value::Bool(map.is_empty())),
        "get" if map.set => Ok(some(map.get(&key(e)?).map(|entry| entry.0.clone()))),
        "get" => Ok(some(map.get(&key(e)?).map(|entry| entry.1.clone()))),
        "get_key_value" => Ok(some(map.get(&key(e)?).map(pair))),
        "contains_key" | "contains" => Ok(Value::Bool(map.contains_key(&key(e)?))),
        "keys" | "into_keys" => all(e, &|entry| entry.0.clone()),
        "values" | "into_values" => all(e, &|entry| entry.1.clone()),
        "iter" | "into_iter" => all(e, &seen),
        "first" | "first_key_value" => Ok(some(map.values().next().map(seen))),
        "last" | "last_key_value" => Ok(some(map.values().next_back().map(seen))),
        _ => {
            let other = match call.value(e, 0) {
                Value::Map(other) => other,
                other => return Err(e.mismatch(&other, "a set", call.args.at(0))),
            };
            e.work(map.len() + other.len(), call.span)?;
            let only = |a: &Entries, b: &Entries, inside: bool| -> Vec<Value> {
                a.iter().filter(|(k, _)| b.contains_key(*k) == inside).map(|(_, entry)| entry.0.clone()).collect()
            };
            let mut keys = match name {
                "is_subset" => return Ok(Value::Bool(map.keys().all(|k| other.contains_key(k)))),
                "is_superset" => return Ok(Value::Bool(other.keys().all(|k| map.contains_key(k)))),
                "is_disjoint" => return Ok(Value::Bool(!map.keys().any(|k| other.contains_key(k)))),
                "intersection" => only(map, &other, true),
                "difference" => only(map, &other, false),
                "symmetric_difference" => [only(map, &other, false), only(&other, map, false)].concat(),
                _ => [map.values().map(|entry| entry.0.clone()).collect(), only(&other, map, false)].concat(),
            };
            e.make(keys.len(), call.span)?;
            if map.sorted {
                let mut order = |a: &Value, b: &Value| e.total_order(a, b, call);
                keys = super::sort::sort(keys, &mut order)?;
            }
            Ok(Value::Iter(Iter::of(keys)))
        }
    }
}

pub(super) fn change(e: &mut Evaluator<'_>, place: &Place, map: Arc<Entries>, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let set = map.set;
    let some = |value: Option<Value>| value.map_or(Value::none(), Value::some);
    let key = |e: &Evaluator<'_>| e.key(call.args.value(0), call.args.at(0));
    let step = |key| Arc::new(place.step(Step::Entry(key)));
    match name {
        "iter_mut" | "values_mut" => {
            drop(map);
            let mut all = e.places(place, call.span)?;
            if name == "values_mut" {
                for pair in &mut all {
                    if let Value::Tuple(parts) = pair {
                        *pair = parts[1].clone();
                    }
                }
            }
            return Ok(Value::Iter(Iter::of(all)));
        }
        "get_mut" => {
            let key = key(e)?;
            return Ok(some(map.contains_key(&key).then(|| Value::Ref(step(key)))));
        }
        "entry" => {
            let shown = call.value(e, 0);
            return Ok(Value::Entry(Arc::new(Entry { map: place.clone(), key: key(e)?, shown })));
        }
        "retain" => {
            let mut gone = Vec::new();
            drop(map);
            for pair in {
                let iter = match set {
                    true => e.iterate(place.load(), call.span)?,
                    false => Iter::of(e.places(place, call.span)?),
                };
                e.drain(&iter, call.span)?
            } {
                let args = match &pair {
                    Value::Tuple(parts) if !set => parts.to_vec(),
                    _ => vec![pair.clone()],
                };
                let key = e.key(&args[0], call.span)?;
                if !call.holds(e, 0, args)? {
                    gone.push(key);
                }
            }
            return edit(e, place, call, &mut |map| {
                let gone: std::collections::HashSet<_> = gone.drain(..).collect();
                map.retain(|key, _| !gone.contains(key));
                Value::Unit
            });
        }
        _ => {}
    }
    drop(map);
    if name == "pop_first" {
        shifted(e, place);
    }
    match name {
        "insert" | "replace" => {
            e.make(1, call.span)?;
            let wanted = if set { 1 } else { 2 };
            super::check_arity(call, wanted)?;
            let (key, shown) = (key(e)?, call.value(e, 0));
            shifted(e, place);
            let value = if set { Value::Unit } else { call.value(e, 1) };
            let replace = name == "replace";
            edit(e, place, call, &mut |map| {
                let before = map.put(key.clone(), shown.clone(), value.clone());
                match set {
                    true if replace => some(before.map(|_| shown.clone())),
                    true => Value::Bool(before.is_none()),
                    false => some(before),
                }
            })
        }
        "remove" | "take" => {
            let key = key(e)?;
            shifted(e, place);
            let take = name == "take";
            edit(e, place, call, &mut |map| {
                let found = map.shift_remove(&key);
                match (set, take) {
                    (true, false) => Value::Bool(found.is_some()),
                    (true, true) => some(found.map(|f| f.0)),
                    _ => some(found.map(|f| f.1)),
                }
            })
        }
        "clear" => edit(e, place, call, &mut |map| {
            map.clear();
            Value::Unit
        }),
        "drain" => {
            let iter = e.iterate(place.load(), call.span)?;
            edit(e, place, call, &mut |map| {
                map.clear();
                Value::Unit
            })?;
            Ok(Value::Iter(iter))
        }
        "extend" => {
            for item in call.elements(e, 0)? {
                e.make(1, call.span)?;
                let (shown, value) = entry_of(e, item, set, call)?;
                let key = e.key(&shown, call.span)?;
                edit(e, place, call, &mut |map| {
                    map.put(key.clone(), shown.clone(), value.clone());
                    Value::Unit
                })?;
            }
            Ok(Value::Unit)
        }
        _ => edit(e, place, call, &mut |map| {
            let at = if name == "pop_first" { Some(0) } else { map.len().checked_sub(1) };
            let found = at.and_then(|at| map.shift_remove_index(at)).map(|(_, entry)| entry);
            some(found.map(|(key, value)| if set { key } else { Value::tuple(vec![key, value]) }))
        }),
    }
}

fn edit(e: &mut Evaluator<'_>, place: &Place, call: &Call<'_>, f: &mut dyn FnMut(&mut Entries) -> Value) -> Eval {
    e.write(place, call.span, |slot| match slot {
        Value::Map(map) => f(Arc::make_mut(map)),
        _ => Value::Poison,
    })
}

/// What an element of a list is in a map or set.
fn entry_of(e: &Evaluator<'_>, item: Value, set: bool, call: &Call<'_>) -> Eval<(Value, Value)> {
    match e.deref(item) {
        item if set => Ok((item, Value::Unit)),
        Value::Tuple(pair) if pair.len() == 2 => Ok((e.deref(pair[0].clone()), e.deref(pair[1].clone()))),
        other => Err(e.mismatch(&other, "a pair of a key and a value", call.span)),
    }
}

impl Evaluator<'_> {
    /// A map or set of these elements.
    pub(in crate::program) fn map_of(&mut self, items: Vec<Value>, sorted: bool, set: bool, call: &Call<'_>) -> Eval {
        let mut map = Entries::new(sorted, set);
        self.make(items.len(), call.span)?;
        for item in items {
            let (shown, value) = entry_of(self, item, set, call)?;
            let key = self.key(&shown, call.span)?;
            map.put(key, shown, value);
        }
        Ok(Value::Map(Arc::new(map)))
    }
}

/// Whether a type is a map or set: sorted, and a set.
pub(super) fn kind_of(name: &str) -> Option<(bool, bool)> {
    Some(match name {
        "HashMap" | "IndexMap" => (false, false),
        "BTreeMap" => (true, false),
        "HashSet" | "IndexSet" => (false, true),
        "BTreeSet" => (true, true),
        _ => return None,
    })
}

pub(super) fn entry_method(e: &mut Evaluator<'_>, entry: &Arc<Entry>, call: &Call<'_>) -> Eval {
    let place = Arc::new(entry.map.step(Step::Entry(entry.key.clone())));
    let there = match entry.map.load() {
        Value::Map(map) => map.contains_key(&entry.key),
        _ => return Err(Flow::Poisoned),
    };
    let value = match &*call.name.text {
        "key" => return Ok(entry.shown.clone()),
        "and_modify" => {
            if there {
                call.apply(e, 0, vec![Value::Ref(place)])?;
            }
            return Ok(Value::Entry(entry.clone()));
        }
        _ if there => return Ok(Value::Ref(place)),
        "or_insert" => call.value(e, 0),
        "or_insert_with" => call.apply(e, 0, Vec::new())?,
        _ => Value::Default,
    };
    e.make(1, call.span)?;
    edit(e, &entry.map, call, &mut |map| {
        map.put(entry.key.clone(), entry.shown.clone(), value.clone());
        Value::Unit
    })?;
    Ok(Value::Ref(place))
}

pub(super) fn config_method(e: &mut Evaluator<'_>, table: &Arc<ConfigTable>, call: &Call<'_>) -> Eval {
    let found = |e: &mut Evaluator<'_>| -> Eval<Option<Value>> {
        let name = Name { text: call.text(e, 0)?, span: call.args.at(0) };
        let value = e.field(&Value::Config(table.clone()), &name, call.span)?;
        Ok(e.as_option(value))
    };
    match &*call.name.text {
        "get" => Ok(found(e)?.map_or(Value::none(), Value::some)),
        "contains_key" => Ok(Value::Bool(found(e)?.is_some())),
        "keys" => {
            let keys: Vec<Value> = table.keys.keys().map(|k| Value::Str(k.clone())).collect();
            e.make(keys.len(), call.span)?;
            Ok(Value::Iter(Iter::of(keys)))
        }
        "len" => Ok(Value::len(table.keys.len())),
        "is_empty" => Ok(Value::Bool(table.keys.is_empty())),
        _ => Ok(Value::Config(table.clone())),
    }
}

/// Counts the entries of a map that may move, where one comes or goes in the middle.
fn shifted(e: &Evaluator<'_>, place: &Place) {
    place.with(|value| {
        if let Value::Map(map) = value {
            e.looked(map.len() / 8);
        }
    });
}
