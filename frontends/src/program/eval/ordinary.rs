//! Methods of ordinary values.

use super::{Eval, Evaluator};
use crate::program::ast::{Name, Span, Type};
use crate::program::builtins::Args;
use crate::program::value::{Place, Value};

/// An associated function such as `Vec::new`; `None` where there is none.
pub(crate) fn associated(
    _e: &mut Evaluator<'_>,
    owner: &str,
    name: &Name,
    _types: &[Type],
    values: &[Value],
    _spans: &[Span],
    _span: Span,
) -> Option<Eval> {
    match (owner, &*name.text, values) {
        ("Vec", "new", []) => Some(Ok(Value::list(Vec::new()))),
        _ => None,
    }
}

/// A method that changes what stands at a place; `None` where there is none.
pub(crate) fn change(
    e: &mut Evaluator<'_>,
    place: &Place,
    value: &Value,
    name: &Name,
    args: &Args,
    span: Span,
) -> Option<Eval> {
    match (value, &*name.text) {
        (Value::List(items), "push") => {
            if let Err(flow) = e.make(1, span) {
                return Some(Err(flow));
            }
            let _ = items;
            let item = args.value(0).clone();
            place.with(|slot| {
                if let Value::List(items) = slot {
                    std::sync::Arc::make_mut(items).push(item);
                }
            });
            Some(Ok(Value::Unit))
        }
        _ => None,
    }
}

/// Any other method.
pub(crate) fn method(
    e: &mut Evaluator<'_>,
    value: &Value,
    name: &Name,
    _types: &[Type],
    args: &Args,
    _at: Span,
    _span: Span,
) -> Eval {
    let _ = args;
    match (value, &*name.text) {
        (_, "clone" | "to_string" | "to_owned" | "into") => Ok(value.clone()),
        (Value::List(items), "len") => Ok(Value::len(items.len())),
        _ => Err(e.no_method(value, name, &[])),
    }
}
