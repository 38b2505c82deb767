//! Characters; those with `ascii` in their names are methods of bytes too.

use super::{Call, Table};
use crate::program::ast::IntType;
use crate::program::eval::iter::Iter;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::Value;

pub(super) const METHODS: Table = &[
    ("is_alphabetic", 0),
    ("is_numeric", 0),
    ("is_alphanumeric", 0),
    ("is_whitespace", 0),
    ("is_uppercase", 0),
    ("is_lowercase", 0),
    ("is_control", 0),
    ("is_digit", 1),
    ("is_ascii", 0),
    ("is_ascii_alphabetic", 0),
    ("is_ascii_digit", 0),
    ("is_ascii_hexdigit", 0),
    ("is_ascii_alphanumeric", 0),
    ("is_ascii_punctuation", 0),
    ("is_ascii_whitespace", 0),
    ("is_ascii_uppercase", 0),
    ("is_ascii_lowercase", 0),
    ("is_ascii_graphic", 0),
    ("is_ascii_control", 0),
    ("to_ascii_uppercase", 0),
    ("to_ascii_lowercase", 0),
    ("eq_ignore_ascii_case", 1),
    ("to_uppercase", 0),
    ("to_lowercase", 0),
    ("to_digit", 1),
    ("len_utf8", 0),
];

pub(super) fn method(e: &mut Evaluator<'_>, c: char, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let is = |f: fn(&char) -> bool| Ok(Value::Bool(f(&c)));
    // Iterators, whose `to_string` is a text.
    let several = |chars: Vec<char>| Ok(Value::Iter(Iter::of(chars.into_iter().map(Value::Char).collect())));
    match name {
        "is_alphabetic" => Ok(Value::Bool(c.is_alphabetic())),
        "is_numeric" => Ok(Value::Bool(c.is_numeric())),
        "is_alphanumeric" => Ok(Value::Bool(c.is_alphanumeric())),
        "is_whitespace" => Ok(Value::Bool(c.is_whitespace())),
        "is_uppercase" => Ok(Value::Bool(c.is_uppercase())),
        "is_lowercase" => Ok(Value::Bool(c.is_lowercase())),
        "is_control" => Ok(Value::Bool(c.is_control())),
        "is_ascii" => is(char::is_ascii),
        "is_ascii_alphabetic" => is(char::is_ascii_alphabetic),
        "is_ascii_digit" => is(char::is_ascii_digit),
        "is_ascii_hexdigit" => is(char::is_ascii_hexdigit),
        "is_ascii_alphanumeric" => is(char::is_ascii_alphanumeric),
        "is_ascii_punctuation" => is(char::is_ascii_punctuation),
        "is_ascii_whitespace" => is(char::is_ascii_whitespace),
        "is_ascii_uppercase" => is(char::is_ascii_uppercase),
        "is_ascii_lowercase" => is(char::is_ascii_lowercase),
        "is_ascii_graphic" => is(char::is_ascii_graphic),
        "is_ascii_control" => is(char::is_ascii_control),
        "to_ascii_uppercase" => Ok(Value::Char(c.to_ascii_uppercase())),
        "to_ascii_lowercase" => Ok(Value::Char(c.to_ascii_lowercase())),
        "eq_ignore_ascii_case" => match call.value(e, 0) {
            Value::Char(other) => Ok(Value::Bool(c.eq_ignore_ascii_case(&other))),
            Value::Int(n) => {
                Ok(Value::Bool(u8::try_from(n.value).is_ok_and(|b| char::from(b).eq_ignore_ascii_case(&c))))
            }
            other => Err(e.mismatch(&other, "a character", call.args.at(0))),
        },
        "to_uppercase" => several(c.to_uppercase().collect()),
        "to_lowercase" => several(c.to_lowercase().collect()),
        "is_digit" | "to_digit" => {
            let radix = radix(e, call, 0)?;
            let digit = c.to_digit(radix);
            Ok(match name {
                "is_digit" => Value::Bool(digit.is_some()),
                _ => digit.map_or(Value::none(), |d| Value::some(Value::typed(d.into(), IntType::U32))),
            })
        }
        "len_utf8" => Ok(Value::len(c.len_utf8())),
        _ => Err(Flow::Poisoned),
    }
}

/// The base of digits: 2 to 36.
pub(super) fn radix(e: &Evaluator<'_>, call: &Call<'_>, i: usize) -> Eval<u32> {
    match call.int(e, i)? {
        n @ 2..=36 => Ok(n as u32),
        n => call.panic(format!("digits have a base of 2 to 36, not {n}")),
    }
}
