//! Methods and associated functions of ordinary values, as Rust has them.
//!
//! Each module holds those of one type: a table of names and numbers of arguments, and a function that does them.
//! A value that is no option stands for `Some` of itself where a method of options is called on it, so that config
//! keys can be asked for with `unwrap_or` and its kin whether they are there or not.

mod chars;
mod common;
mod floats;
mod functions;
mod ints;
mod iterators;
mod lists;
mod maps;
mod options;
mod sort;
mod texts;

use super::{Eval, Evaluator, Flow};
use crate::program::ast::{Name, Span, Type, TypeKind};
use crate::program::builtins::{self, Args};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::value::{Items, Place, Value};
use std::sync::Arc;

pub(crate) use common::ordering_constant;
pub(crate) use functions::{associated, functions_of};

/// Names of methods, and how many arguments they take.
type Table = &'static [(&'static str, usize)];

/// The number of arguments of a method that checks it itself.
const SEVERAL: usize = usize::MAX;

/// Every table, by type, in the order of the documentation.
pub static TABLES: &[(&str, Table)] = &[
    ("integers", ints::METHODS),
    ("real numbers", floats::METHODS),
    ("characters", chars::METHODS),
    ("texts", texts::METHODS),
    ("texts, changed in place", texts::CHANGES),
    ("lists", lists::METHODS),
    ("lists, changed in place", lists::CHANGES),
    ("maps and sets", maps::METHODS),
    ("maps and sets, changed in place", maps::CHANGES),
    ("entries of maps", maps::ENTRY),
    ("options and results", options::METHODS),
    ("options, changed in place", options::CHANGES),
    ("iterators and ranges", iterators::METHODS),
    ("iterators and ranges, advanced in place", iterators::CHANGES),
    ("truth values", common::BOOL),
    ("orderings", common::ORDERING),
    ("tables of the config", maps::CONFIG),
    ("all values", common::METHODS),
];

/// A call of a method or function.
pub(crate) struct Call<'a> {
    name: &'a Name,
    types: &'a [Type],
    args: &'a Args,
    /// Where the receiver stands.
    at: Span,
    span: Span,
}

impl Call<'_> {
    /// Argument `i`, references followed.
    fn value(&self, e: &Evaluator<'_>, i: usize) -> Value {
        e.deref(self.args.value(i).clone())
    }

    fn int(&self, e: &Evaluator<'_>, i: usize) -> Eval<i128> {
        Ok(e.known_int(self.args.value(i), self.args.at(i))?.value)
    }

    fn count(&self, e: &Evaluator<'_>, i: usize) -> Eval<usize> {
        e.known_size(self.args.value(i), self.args.at(i))
    }

    fn float(&self, e: &Evaluator<'_>, i: usize) -> Eval<f64> {
        self.args.float(e, i)
    }

    /// Argument `i`, a text or character.
    fn text(&self, e: &Evaluator<'_>, i: usize) -> Eval<Arc<str>> {
        match self.value(e, i) {
            Value::Str(text) => Ok(text),
            Value::Char(c) => Ok(c.to_string().into()),
            other => Err(e.mismatch(&other, "a text", self.args.at(i))),
        }
    }

    fn char(&self, e: &Evaluator<'_>, i: usize) -> Eval<char> {
        match self.value(e, i) {
            Value::Char(c) => Ok(c),
            other => Err(e.mismatch(&other, "a character", self.args.at(i))),
        }
    }

    /// Argument `i`, a list.
    fn list(&self, e: &Evaluator<'_>, i: usize) -> Eval<Arc<Items>> {
        match self.value(e, i) {
            Value::List(items) => Ok(items),
            other => Err(e.mismatch(&other, "a list", self.args.at(i))),
        }
    }

    /// The elements of argument `i`, anything that is walked over.
    fn elements(&self, e: &mut Evaluator<'_>, i: usize) -> Eval<Vec<Value>> {
        let iter = e.iterate(self.args.value(i).clone(), self.args.at(i))?;
        e.drain(&iter, self.span)
    }

    /// Argument `i`, a function, applied.
    fn apply(&self, e: &mut Evaluator<'_>, i: usize, args: Vec<Value>) -> Eval {
        e.apply(self.args.value(i), args, self.args.at(i))
    }

    /// Whether argument `i`, a function, gives `true`.
    fn holds(&self, e: &mut Evaluator<'_>, i: usize, args: Vec<Value>) -> Eval<bool> {
        e.holds(self.args.value(i), args, self.args.at(i))
    }

    /// The type written as `f::<T>`.
    fn turbofish(&self) -> Option<&Type> {
        self.types.first().filter(|ty| !matches!(ty.kind, TypeKind::Inferred))
    }

    /// The name of the method, with another text.
    fn renamed(&self, name: &str) -> Name {
        Name { text: name.into(), span: self.name.span }
    }

    fn fail<T>(&self, code: Code, message: impl Into<String>) -> Eval<T> {
        Err(Diagnostic::new(code, self.span, message).into())
    }

    /// An error of the program's own making, such as `unwrap` of nothing.
    fn panic<T>(&self, message: impl Into<String>) -> Eval<T> {
        self.fail(Code::Panic, message)
    }

    /// An error about an index.
    fn out_of_range<T>(&self, e: &Evaluator<'_>, i: usize, index: usize, len: usize) -> Eval<T> {
        Err(e.out_of_range(index as i128, len, self.args.at(i)))
    }
}

/// The table in which a value's own methods stand.
fn table(value: &Value) -> Option<Table> {
    Some(match value {
        Value::Int(_) | Value::Size(_) => ints::METHODS,
        Value::Float(_) => floats::METHODS,
        Value::Char(_) => chars::METHODS,
        Value::Str(_) => texts::METHODS,
        Value::List(_) | Value::Default => lists::METHODS,
        Value::Map(_) => maps::METHODS,
        Value::Config(_) => maps::CONFIG,
        Value::Entry(_) => maps::ENTRY,
        Value::Option(_) | Value::Missing(_) => options::METHODS,
        Value::Range(_) | Value::Iter(_) => iterators::METHODS,
        Value::Bool(_) => common::BOOL,
        Value::Struct(of) if &*of.name == "Ordering" => common::ORDERING,
        _ => return None,
    })
}

/// The table of methods that change such a value.
fn change_table(value: &Value) -> Table {
    match value {
        Value::List(_) | Value::Default => lists::CHANGES,
        Value::Map(_) => maps::CHANGES,
        Value::Str(_) => texts::CHANGES,
        Value::Option(_) => options::CHANGES,
        Value::Range(_) | Value::Iter(_) => iterators::CHANGES,
        _ => &[],
    }
}

fn row(table: Table, name: &str) -> Option<usize> {
    table.iter().find(|(n, _)| *n == name).map(|(_, arity)| *arity)
}

fn check_arity(call: &Call<'_>, wanted: usize) -> Eval<()> {
    let found = call.args.values.len();
    if found == wanted || wanted == SEVERAL {
        return Ok(());
    }
    let message = format!("`{}` takes {}, found {found}", call.name.text, builtins::counted(wanted));
    Err(Diagnostic::new(Code::Arity, call.name.span, message).label("called here").into())
}

/// Whether a method changes what it is called on.
pub(crate) fn changes(value: &Value, name: &str) -> bool {
    row(change_table(value), name).is_some()
        // `resize` and the like of a default make it a list first, `push_str` a text.
        || (matches!(value, Value::Default) && (row(texts::CHANGES, name).is_some() || row(maps::CHANGES, name).is_some()))
}

/// A method that changes what stands at a place: `value`.
pub(crate) fn change(
    e: &mut Evaluator<'_>,
    place: &Place,
    value: Value,
    name: &Name,
    types: &[Type],
    args: &Args,
    span: Span,
) -> Eval {
    let call = Call { name, types, args, at: span, span };
    let value = match value {
        Value::Default => {
            let own = match () {
                () if row(lists::CHANGES, &name.text) == Some(args.values.len()) && &*name.text != "insert" => {
                    Value::list(Vec::new())
                }
                () if row(maps::CHANGES, &name.text).is_some() => {
                    Value::Map(Arc::new(crate::program::value::Entries::new(false, args.values.len() == 1)))
                }
                () => Value::str(""),
            };
            let copy = own.clone();
            e.write(place, span, |slot| *slot = copy)?;
            own
        }
        value => value,
    };
    if let Some(arity) = row(change_table(&value), &name.text) {
        check_arity(&call, arity)?;
    }
    match value {
        Value::List(items) => lists::change(e, place, items, &call),
        Value::Map(map) => maps::change(e, place, map, &call),
        Value::Str(text) => texts::change(e, place, &text, &call),
        Value::Option(inner) => options::change(e, place, inner, &call),
        value => iterators::change(e, place, value, &call),
    }
}

/// The names of all methods of ordinary values.
pub(crate) fn methods() -> Vec<&'static str> {
    TABLES.iter().flat_map(|(_, table)| table.iter().map(|(name, _)| *name)).collect()
}

/// Whether ordinary values have a method of this name at all.
pub(crate) fn is_method(name: &str) -> bool {
    TABLES.iter().any(|(_, table)| row(table, name).is_some())
}

/// Whether a method changes the elements of a list in place, so that it may be called on a part of one.
pub(crate) fn changes_part(name: &str) -> bool {
    row(lists::CHANGES, name).is_some()
}

/// Any other method.
pub(crate) fn method(
    e: &mut Evaluator<'_>,
    value: &Value,
    name: &Name,
    types: &[Type],
    args: &Args,
    at: Span,
    span: Span,
) -> Eval {
    let call = Call { name, types, args, at, span };
    if let Value::Poison = value {
        return Err(Flow::Poisoned);
    }
    if let Some(arity) = table(value).and_then(|t| row(t, &name.text)) {
        check_arity(&call, arity)?;
        return match value {
            Value::Int(n) => ints::method(e, *n, &call),
            Value::Size(_) => ints::size_method(e, value, &call),
            Value::Float(x) => floats::method(e, *x, &call),
            Value::Char(c) => chars::method(e, *c, &call),
            Value::Str(text) => texts::method(e, text, &call),
            Value::List(items) => lists::method(e, items, &call),
            Value::Default => lists::method(e, &Arc::default(), &call),
            Value::Map(map) => maps::method(e, map, &call),
            Value::Config(table) => maps::config_method(e, table, &call),
            Value::Entry(entry) => maps::entry_method(e, entry, &call),
            Value::Option(_) | Value::Missing(_) => options::method(e, value, &call),
            Value::Range(_) | Value::Iter(_) => iterators::method(e, value, &call),
            Value::Bool(b) => common::bool_method(e, *b, &call),
            Value::Struct(of) => common::ordering_method(e, of.variant.as_deref(), &call),
            _ => Err(Flow::Poisoned),
        };
    }
    // Numbers of a config are real ones where the program takes them so; bytes have what characters have.
    if let Value::Int(n) = value {
        if n.ty.is_none() && row(floats::METHODS, &name.text).is_some() {
            check_arity(&call, row(floats::METHODS, &name.text).unwrap_or_default())?;
            return floats::method(e, n.value as f64, &call);
        }
        if name.text.contains("ascii")
            && let (Ok(byte), Some(arity)) = (u8::try_from(n.value), row(chars::METHODS, &name.text))
        {
            check_arity(&call, arity)?;
            let byte_of = |value: Value| match value {
                Value::Char(c) => Value::typed(u32::from(c).into(), crate::program::ast::IntType::U8),
                other => other,
            };
            return if byte.is_ascii() {
                chars::method(e, char::from(byte), &call).map(byte_of)
            } else if name.text.starts_with("is_") || name.text.starts_with("eq_") {
                Ok(Value::Bool(false))
            } else {
                Ok(value.clone())
            };
        }
    }
    if let Some(arity) = row(common::METHODS, &name.text) {
        check_arity(&call, arity)?;
        return common::method(e, value, &call);
    }
    if let Some(arity) = row(options::METHODS, &name.text)
        && !matches!(value, Value::Iter(_) | Value::Range(_) | Value::Map(_) | Value::Entry(_))
    {
        check_arity(&call, arity)?;
        return options::method(e, value, &call);
    }
    if let Value::List(_) | Value::Map(_) = value
        && row(iterators::METHODS, &name.text).is_some()
    {
        let d =
            Diagnostic::new(Code::UnknownMethod, name.span, format!("{} has no method `{}`", value.kind(), name.text));
        return Err(d.label("a method of iterators").help(format!("walk over it: `.iter().{}(…)`", name.text)).into());
    }
    if let Value::Function(_) | Value::Closure(_) | Value::Builtin(..) = value
        && &*name.text == "clone"
    {
        return Ok(value.clone());
    }
    let mut known: Vec<&str> = Vec::new();
    for table in [table(value).unwrap_or_default(), change_table(value), common::METHODS] {
        known.extend(table.iter().map(|(n, _)| *n));
    }
    if let Value::Int(n) = value
        && n.ty.is_none()
    {
        known.extend(floats::METHODS.iter().map(|(n, _)| *n));
    }
    Err(e.no_method(value, name, &known))
}
