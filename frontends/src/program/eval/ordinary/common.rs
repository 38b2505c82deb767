//! Methods of all values, of truth values and of orderings.

use super::{Call, Table};
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::{StructValue, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const METHODS: Table = &[
    ("clone", 0),
    ("to_owned", 0),
    ("to_string", 0),
    ("into", 0),
    ("try_into", 0),
    ("as_ref", 0),
    ("as_mut", 0),
    ("min", 1),
    ("max", 1),
    ("clamp", 2),
    ("cmp", 1),
    ("partial_cmp", 1),
    ("total_cmp", 1),
    ("eq", 1),
    ("ne", 1),
    ("lt", 1),
    ("le", 1),
    ("gt", 1),
    ("ge", 1),
];

pub(super) const BOOL: Table = &[("then", 1), ("then_some", 1)];

pub(super) const ORDERING: Table = &[
    ("reverse", 0),
    ("then", 1),
    ("then_with", 1),
    ("is_lt", 0),
    ("is_le", 0),
    ("is_gt", 0),
    ("is_ge", 0),
    ("is_eq", 0),
    ("is_ne", 0),
];

impl Evaluator<'_> {
    /// The order of two values; NaN is an error.
    pub(crate) fn total_order(&mut self, a: &Value, b: &Value, call: &Call<'_>) -> Eval<Ordering> {
        match self.order_of(a, b, call.span)? {
            Some(order) => Ok(order),
            None => call.fail(crate::program::codes::Code::Arithmetic, "NaN has no order"),
        }
    }
}

pub(super) fn method(e: &mut Evaluator<'_>, value: &Value, call: &Call<'_>) -> Eval {
    match &*call.name.text {
        "clone" | "to_owned" | "into" | "as_ref" => match value {
            Value::Missing(_) => Err(e.mismatch(value, "a value", call.at)),
            // A copy of an iterator goes its own way.
            Value::Iter(iter) => Ok(Value::Iter(e.copy_iter(iter, call.span, 0, &mut |_, value| Ok(value))?)),
            _ => Ok(value.clone()),
        },
        "as_mut" => Ok(value.clone()),
        "try_into" => Ok(Value::some(value.clone())),
        "to_string" => match value {
            Value::Str(_) => Ok(value.clone()),
            Value::Int(n) => Ok(Value::str(n.value.to_string())),
            Value::Char(c) => Ok(Value::str(c.to_string())),
            Value::Bool(_) | Value::Float(_) => {
                let spec = crate::program::ast::FormatSpec::default();
                Ok(Value::str(e.shown(value, &spec, call.at)?))
            }
            other => Err(e.mismatch(other, "a text, number or character", call.at)),
        },
        "min" | "max" => {
            let other = call.value(e, 0);
            // As in Rust, NaN gives way, and of equal ones `max` gives the argument.
            if let (Value::Float(x), Value::Float(y)) = (value, &other)
                && (x.is_nan() || y.is_nan())
            {
                return Ok(if x.is_nan() { other } else { value.clone() });
            }
            let order = e.total_order(value, &other, call)?;
            let first = if &*call.name.text == "min" { order.is_le() } else { order.is_gt() };
            Ok(like(if first { value } else { &other }, value, &other))
        }
        "clamp" => {
            let (low, high) = (call.value(e, 0), call.value(e, 1));
            if e.total_order(&low, &high, call)?.is_gt() {
                return call.panic("the least is above the most");
            }
            match e.order_of(value, &low, call.span)? {
                Some(Ordering::Less) => return Ok(like(&low, value, &high)),
                None => return Ok(value.clone()),
                _ => {}
            }
            let above = e.order_of(value, &high, call.span)? == Some(Ordering::Greater);
            Ok(like(if above { &high } else { value }, value, &low))
        }
        "cmp" => {
            let other = call.value(e, 0);
            e.total_order(value, &other, call).map(Value::ordering)
        }
        "total_cmp" => match (value, call.value(e, 0)) {
            (Value::Float(x), Value::Float(y)) => Ok(Value::ordering(x.total_cmp(&y))),
            (_, other) => e.total_order(value, &other, call).map(Value::ordering),
        },
        "partial_cmp" => {
            let order = e.order_of(value, &call.value(e, 0), call.span)?;
            Ok(order.map_or(Value::none(), |o| Value::some(Value::ordering(o))))
        }
        "eq" => Ok(Value::Bool(e.equal(value, &call.value(e, 0), call.span)?)),
        "ne" => Ok(Value::Bool(!e.equal(value, &call.value(e, 0), call.span)?)),
        name @ ("lt" | "le" | "gt" | "ge") => {
            let order = e.order_of(value, &call.value(e, 0), call.span)?;
            Ok(Value::Bool(order.is_some_and(|o| match name {
                "lt" => o.is_lt(),
                "le" => o.is_le(),
                "gt" => o.is_gt(),
                _ => o.is_ge(),
            })))
        }
        _ => Err(Flow::Poisoned),
    }
}

/// A chosen number in the type of either that it was chosen from.
fn like(chosen: &Value, a: &Value, b: &Value) -> Value {
    match (chosen, a, b) {
        (Value::Int(n), Value::Int(x), Value::Int(y)) => {
            let mut n = *n;
            n.ty = n.ty.or(x.ty).or(y.ty);
            Value::Int(n)
        }
        (Value::Int(n), Value::Float(_), _) | (Value::Int(n), _, Value::Float(_)) => Value::Float(n.value as f64),
        _ => chosen.clone(),
    }
}

pub(super) fn bool_method(e: &mut Evaluator<'_>, value: bool, call: &Call<'_>) -> Eval {
    match (&*call.name.text, value) {
        ("then", true) => Ok(Value::some(call.apply(e, 0, Vec::new())?)),
        ("then_some", true) => Ok(Value::some(call.args.value(0).clone())),
        _ => Ok(Value::none()),
    }
}

pub(super) fn ordering_method(e: &mut Evaluator<'_>, variant: Option<&str>, call: &Call<'_>) -> Eval {
    let order = order(variant);
    Ok(match &*call.name.text {
        "reverse" => Value::ordering(order.reverse()),
        "then" if order.is_eq() => call.value(e, 0),
        "then_with" if order.is_eq() => call.apply(e, 0, Vec::new())?,
        "then" | "then_with" => Value::ordering(order),
        "is_lt" => Value::Bool(order.is_lt()),
        "is_le" => Value::Bool(order.is_le()),
        "is_gt" => Value::Bool(order.is_gt()),
        "is_ge" => Value::Bool(order.is_ge()),
        "is_eq" => Value::Bool(order.is_eq()),
        _ => Value::Bool(order.is_ne()),
    })
}

fn order(variant: Option<&str>) -> Ordering {
    match variant {
        Some("Less") => Ordering::Less,
        Some("Greater") => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// `Less`, `Equal` or `Greater`, that a closure gives.
pub(super) fn ordering(e: &Evaluator<'_>, value: &Value, call: &Call<'_>) -> Eval<Ordering> {
    match value {
        Value::Struct(of) if &*of.name == "Ordering" => Ok(order(of.variant.as_deref())),
        other => Err(e.mismatch(other, "an ordering", call.span)),
    }
}

/// `Ordering::Less` and its kin.
pub(crate) fn ordering_constant(of: &str, name: &str) -> Option<Value> {
    let ("Ordering", "Less" | "Equal" | "Greater") = (of, name) else { return None };
    let value = StructValue { name: Arc::from(of), variant: Some(Arc::from(name)), fields: Vec::new() };
    Some(Value::Struct(Arc::new(value)))
}
