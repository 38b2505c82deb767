//! Options and results (`Ok(x)` is `Some(x)`, and `Err(…)` is `None`). A value that is none stands for `Some` of it.

use super::{Call, Table};
use crate::program::ast::TypeKind;
use crate::program::eval::iter::Iter;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::{Items, Place, Step, Value};
use std::sync::Arc;

pub(super) const METHODS: Table = &[
    ("unwrap", 0),
    ("expect", 1),
    ("unwrap_or", 1),
    ("unwrap_or_else", 1),
    ("unwrap_or_default", 0),
    ("is_some", 0),
    ("is_none", 0),
    ("is_ok", 0),
    ("is_err", 0),
    ("is_some_and", 1),
    ("is_ok_and", 1),
    ("is_none_or", 1),
    ("ok", 0),
    ("ok_or", 1),
    ("ok_or_else", 1),
    ("map", 1),
    ("map_or", 2),
    ("map_or_else", 2),
    ("map_err", 1),
    ("and", 1),
    ("and_then", 1),
    ("or", 1),
    ("or_else", 1),
    ("xor", 1),
    ("filter", 1),
    ("zip", 1),
    ("flatten", 0),
    ("inspect", 1),
    ("copied", 0),
    ("cloned", 0),
    ("as_deref", 0),
    ("as_ref", 0),
    ("iter", 0),
    ("into_iter", 0),
    ("unzip", 0),
    ("transpose", 0),
];

pub(super) const CHANGES: Table = &[
    ("take", 0),
    ("replace", 1),
    ("insert", 1),
    ("get_or_insert", 1),
    ("get_or_insert_with", 1),
    ("as_mut", 0),
    ("iter_mut", 0),
];

pub(super) fn method(e: &mut Evaluator<'_>, value: &Value, call: &Call<'_>) -> Eval {
    let inner = e.as_option(value.clone());
    let some = |value: Option<Value>| value.map_or(Value::none(), Value::some);
    let arg = |i: usize| call.args.value(i).clone();
    match (&*call.name.text, inner) {
        ("unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default", Some(x)) => Ok(x),
        ("unwrap" | "expect", None) => match value {
            Value::Missing(missing) => Err(crate::program::eval::missing_key(missing).into()),
            _ if &*call.name.text == "unwrap" => call.panic("`unwrap` of `None`"),
            _ => call.panic(call.text(e, 0)?.to_string()),
        },
        ("unwrap_or", None) => Ok(arg(0)),
        ("unwrap_or_else", None) => {
            // That of a result is given the error, which is not kept.
            let takes_error = matches!(&arg(0), Value::Closure(c) if c.params.len() == 1);
            call.apply(e, 0, if takes_error { vec![Value::Unit] } else { Vec::new() })
        }
        ("unwrap_or_default", None) => Ok(Value::Default),
        ("is_some" | "is_ok", inner) => Ok(Value::Bool(inner.is_some())),
        ("is_none" | "is_err", inner) => Ok(Value::Bool(inner.is_none())),
        ("is_some_and" | "is_ok_and", Some(x)) => Ok(Value::Bool(call.holds(e, 0, vec![x])?)),
        ("is_some_and" | "is_ok_and", None) => Ok(Value::Bool(false)),
        ("is_none_or", Some(x)) => Ok(Value::Bool(call.holds(e, 0, vec![x])?)),
        ("is_none_or", None) => Ok(Value::Bool(true)),
        ("ok" | "ok_or" | "ok_or_else" | "map_err" | "copied" | "cloned" | "as_deref" | "as_ref", inner) => {
            Ok(some(inner))
        }
        ("map", Some(x)) => Ok(Value::some(call.apply(e, 0, vec![x])?)),
        ("map" | "and" | "and_then" | "filter" | "zip" | "flatten", None) => Ok(Value::none()),
        ("map_or", Some(x)) => call.apply(e, 1, vec![x]),
        ("map_or", None) => Ok(arg(0)),
        ("map_or_else", Some(x)) => call.apply(e, 1, vec![x]),
        ("map_or_else", None) => call.apply(e, 0, Vec::new()),
        ("and", Some(_)) => Ok(arg(0)),
        ("and_then", Some(x)) => call.apply(e, 0, vec![x]),
        ("or", Some(x)) | ("or_else", Some(x)) => Ok(Value::some(x)),
        ("or", None) => Ok(arg(0)),
        ("or_else", None) => {
            let takes_error = matches!(&arg(0), Value::Closure(c) if c.params.len() == 1);
            call.apply(e, 0, if takes_error { vec![Value::Unit] } else { Vec::new() })
        }
        ("xor", inner) => {
            let other = call.value(e, 0);
            Ok(some(match (inner, e.as_option(other)) {
                (Some(x), None) | (None, Some(x)) => Some(x),
                _ => None,
            }))
        }
        ("filter", Some(x)) => Ok(some(call.holds(e, 0, vec![x.clone()])?.then_some(x))),
        ("zip", Some(x)) => {
            let other = call.value(e, 0);
            Ok(some(e.as_option(other).map(|y| Value::tuple(vec![x, y]))))
        }
        ("flatten" | "transpose", Some(x)) => Ok(match x {
            Value::Option(_) => x,
            other => Value::some(other),
        }),
        ("transpose", None) => Ok(Value::some(Value::none())),
        ("inspect", inner) => {
            if let Some(x) = &inner {
                call.apply(e, 0, vec![x.clone()])?;
            }
            Ok(some(inner))
        }
        ("iter" | "into_iter", inner) => Ok(Value::Iter(Iter::of(inner.into_iter().collect()))),
        ("unzip", Some(Value::Tuple(pair))) if pair.len() == 2 => {
            Ok(Value::tuple(vec![Value::some(pair[0].clone()), Value::some(pair[1].clone())]))
        }
        ("unzip", None) => Ok(Value::tuple(vec![Value::none(), Value::none()])),
        (_, Some(x)) => Err(e.mismatch(&x, "a pair", call.at)),
        (_, None) => Err(Flow::Poisoned),
    }
}

pub(super) fn change(e: &mut Evaluator<'_>, place: &Place, inner: Option<Arc<Items>>, call: &Call<'_>) -> Eval {
    let before = Value::Option(inner.clone());
    let inside = || Value::Ref(Arc::new(place.step(Step::Element(0))));
    let new = match (&*call.name.text, &inner) {
        ("take", _) => Value::none(),
        ("replace", _) => Value::some(call.args.value(0).clone()),
        ("insert", _) | ("get_or_insert", None) => Value::some(call.args.value(0).clone()),
        ("get_or_insert_with", None) => Value::some(call.apply(e, 0, Vec::new())?),
        ("as_mut", Some(_)) => return Ok(Value::some(inside())),
        ("iter_mut", _) => return Ok(Value::Iter(Iter::of(inner.iter().map(|_| inside()).collect()))),
        ("as_mut", None) => return Ok(Value::none()),
        _ => return Ok(inside()),
    };
    drop(inner);
    e.write(place, call.span, |slot| drop(std::mem::replace(slot, new)))?;
    match &*call.name.text {
        "take" | "replace" => Ok(before),
        _ => Ok(inside()),
    }
}

/// Whether a type is an option or a result.
pub(super) fn is_option(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Named(name, _) if matches!(&**name, "Option" | "Result"))
}
