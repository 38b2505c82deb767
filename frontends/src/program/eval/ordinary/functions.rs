//! Associated functions: `Vec::new`, `u32::from_str_radix`, `std::mem::swap` ….

use super::{Call, maps, texts};
use crate::program::ast::{IntType, Name, Span, Type, TypeKind};
use crate::program::builtins::{self, Args};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::iter::{Iter, Kind};
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::{Entries, Int, Value};
use std::sync::Arc;

/// An associated function such as `Vec::new`; `None` where there is none.
pub(crate) fn associated(
    e: &mut Evaluator<'_>,
    owner: &str,
    name: &Name,
    types: &[Type],
    values: &[Value],
    spans: &[Span],
    span: Span,
) -> Option<Eval> {
    let args = Args::new(None, values.to_vec(), spans, name.span, span);
    let call = Call { name, types, args: &args, at: spans.first().copied().unwrap_or(span), span };
    let wanted = arity(owner, &name.text, values.len())?;
    if wanted != values.len() {
        let message = format!("`{owner}::{}` takes {}, found {}", name.text, builtins::counted(wanted), values.len());
        return Some(Err(Diagnostic::new(Code::Arity, name.span, message).label("called here").into()));
    }
    Some(function(e, owner, &call))
}

/// How many arguments a function takes; `None` where there is none, or a method of that name does it.
fn arity(owner: &str, name: &str, given: usize) -> Option<usize> {
    let collection = maps::kind_of(owner).is_some() || matches!(owner, "Vec" | "VecDeque" | "String");
    Some(match (owner, name) {
        (_, "new") if collection => 0,
        (_, "with_capacity") if collection => 1,
        (_, "from" | "from_iter") if collection => 1,
        ("String", "from_utf8" | "from_utf8_lossy") | ("str", "from_utf8") => 1,
        ("Box" | "Rc" | "Arc" | "Cow" | "RefCell" | "Cell", "new" | "from") => 1,
        ("char", "from" | "from_u32") => 1,
        ("char", "from_digit") => 2,
        ("f32" | "f64", "from" | "from_bits") => 1,
        ("f64", "to_bits") => 1,
        ("bool", "from") => 1,
        (_, "from" | "try_from" | "from_str" | "from_le_bytes" | "from_be_bytes" | "from_ne_bytes")
            if IntType::from_name(owner).is_some() =>
        {
            1
        }
        (_, "from_str_radix") if IntType::from_name(owner).is_some() => 2,
        ("f32" | "f64", "from_str") => 1,
        ("iter", "repeat" | "once" | "from_fn") => 1,
        ("iter", "repeat_n" | "successors" | "zip") => 2,
        ("iter", "empty") => 0,
        ("iter", "repeat_with") => 1,
        ("cmp", "min" | "max") => 2,
        ("cmp", "Reverse") => 1,
        ("mem", "swap" | "replace") => 2,
        ("mem", "take") => 1,
        ("array", "from_fn") => 1,
        ("Some" | "Option", "Some") => 1,
        ("Result", "Ok" | "Err") => 1,
        (_, "default") if given == 0 => 0,
        _ => return None,
    })
}

/// The names of the functions of a type or module.
pub(crate) fn functions_of(owner: &str) -> impl Iterator<Item = &'static str> {
    const NAMES: &[&str] = &[
        "new",
        "with_capacity",
        "from",
        "from_iter",
        "from_utf8",
        "from_utf8_lossy",
        "from_u32",
        "from_digit",
        "from_bits",
        "to_bits",
        "try_from",
        "from_str",
        "from_le_bytes",
        "from_be_bytes",
        "from_ne_bytes",
        "from_str_radix",
        "repeat",
        "once",
        "from_fn",
        "repeat_n",
        "successors",
        "zip",
        "empty",
        "repeat_with",
        "min",
        "max",
        "Reverse",
        "swap",
        "replace",
        "take",
    ];
    NAMES.iter().copied().filter(move |name| arity(owner, name, usize::MAX).is_some())
}

fn function(e: &mut Evaluator<'_>, owner: &str, call: &Call<'_>) -> Eval {
    let span = call.span;
    let some = |value: Option<Value>| Ok(value.map_or(Value::none(), Value::some));
    if let (Some((sorted, set)), name) = (maps::kind_of(owner), &*call.name.text) {
        return match name {
            "from" | "from_iter" => {
                let items = call.elements(e, 0)?;
                e.map_of(items, sorted, set, call)
            }
            _ => Ok(Value::Map(Arc::new(Entries::new(sorted, set)))),
        };
    }
    if let Some(ty) = IntType::from_name(owner) {
        return integer(e, ty, call);
    }
    match (owner, &*call.name.text) {
        ("Vec" | "VecDeque", "new" | "with_capacity" | "default") => Ok(Value::list(Vec::new())),
        ("Vec" | "VecDeque", _) => match call.value(e, 0) {
            Value::Str(text) => super::texts::method(e, &text, &Call { name: &call.renamed("as_bytes"), ..*call }),
            _ => Ok(Value::list(call.elements(e, 0)?)),
        },
        ("String", "new" | "with_capacity" | "default") => Ok(Value::str("")),
        ("String", "from_iter") => {
            let items = call.elements(e, 0)?;
            let ty = Type { kind: TypeKind::Named("String".into(), Vec::new()), span };
            e.as_type(Value::list(items), &ty, span)
        }
        ("String", "from") => match call.value(e, 0) {
            host @ Value::Host(_) => Ok(host),
            _ => Ok(Value::Str(call.text(e, 0)?)),
        },
        ("String" | "str", _) => {
            let mut bytes = Vec::new();
            for item in call.elements(e, 0)? {
                let n = e.known_int(&item, call.args.at(0))?.value;
                match u8::try_from(n) {
                    Ok(byte) => bytes.push(byte),
                    Err(_) => return call.fail(Code::Type, format!("expected bytes, found {n}")),
                }
            }
            match &*call.name.text {
                "from_utf8_lossy" => Ok(Value::str(String::from_utf8_lossy(&bytes))),
                _ => some(String::from_utf8(bytes).ok().map(Value::str)),
            }
        }
        ("Box" | "Rc" | "Arc" | "Cow" | "RefCell" | "Cell", _) => Ok(call.args.value(0).clone()),
        ("char", "from") => match call.value(e, 0) {
            c @ Value::Char(_) => Ok(c),
            _ => match u8::try_from(call.int(e, 0)?) {
                Ok(byte) => Ok(Value::Char(char::from(byte))),
                Err(_) => call.fail(Code::Type, "`char::from` takes a `u8`"),
            },
        },
        ("char", "from_u32") => some(u32::try_from(call.int(e, 0)?).ok().and_then(char::from_u32).map(Value::Char)),
        ("char", "from_digit") => {
            let radix = super::chars::radix(e, call, 1)?;
            some(u32::try_from(call.int(e, 0)?).ok().and_then(|n| char::from_digit(n, radix)).map(Value::Char))
        }
        ("f32", "from_bits") => {
            let bits = call.int(e, 0)?;
            Ok(Value::Float(f32::from_bits(bits as u32).into()))
        }
        ("f64", "from_bits") => Ok(Value::Float(f64::from_bits(call.int(e, 0)? as u64))),
        ("f64", "to_bits") => Ok(Value::typed(call.float(e, 0)?.to_bits().into(), IntType::U64)),
        ("f32" | "f64", "from") => Ok(Value::Float(match call.value(e, 0) {
            Value::Bool(b) => f64::from(u8::from(b)),
            _ => call.float(e, 0)?,
        })),
        ("f32" | "f64", "from_str") => {
            let (text, ty) = (call.text(e, 0)?, named(owner, span));
            texts::parse(e, &text, Some(&ty), call)
        }
        ("bool", "from") => Ok(call.value(e, 0)),
        ("iter", "repeat") => Ok(walk(Kind::Repeat { left: None }, vec![call.value(e, 0)])),
        ("iter", "repeat_n") => Ok(walk(Kind::Repeat { left: Some(call.count(e, 1)?) }, vec![call.value(e, 0)])),
        ("iter", "once") => Ok(Value::Iter(Iter::of(vec![call.args.value(0).clone()]))),
        ("iter", "empty") => Ok(Value::Iter(Iter::of(Vec::new()))),
        ("iter", "from_fn") => Ok(walk(Kind::FromFn, vec![call.args.value(0).clone()])),
        ("iter", "repeat_with") => {
            // Whatever the function gives is an element, options too.
            Ok(walk(Kind::RepeatWith, vec![call.args.value(0).clone()]))
        }
        ("iter", "successors") => Ok(walk(Kind::Successors, vec![call.args.value(1).clone(), call.value(e, 0)])),
        ("iter", "zip") => {
            let a = e.iterate(call.args.value(0).clone(), call.args.at(0))?;
            let b = e.iterate(call.args.value(1).clone(), call.args.at(1))?;
            Ok(Value::Iter(Iter::new(Kind::Zip, vec![a, b], Vec::new())))
        }
        // Elements by their places, as many as the type of the array says.
        ("array", _) => {
            let at = Int { value: 0, ty: Some(IntType::Usize) };
            let places = Iter::new(Kind::Numbers { at, end: None, chars: false }, Vec::new(), Vec::new());
            Ok(Value::Iter(Iter::new(Kind::Map, vec![places], vec![call.args.value(0).clone()])))
        }
        ("cmp", "Reverse") => Ok(Value::reversed(call.value(e, 0))),
        ("cmp", _) => {
            let rest = Args::new(None, vec![call.value(e, 1)], &[call.args.at(1)], call.name.span, span);
            let first = call.value(e, 0);
            super::common::method(e, &first, &Call { args: &rest, ..*call })
        }
        ("mem", name) => memory(e, name, call),
        ("Some" | "Option" | "Result", "Some" | "Ok") => Ok(Value::some(call.args.value(0).clone())),
        ("Result", "Err") => Ok(Value::none()),
        (owner, "default") => {
            let ty = named(owner, span);
            e.default_of(&ty, span, 0)
        }
        (owner, name) => call.fail(Code::UnknownName, format!("there is no function `{owner}::{name}`")),
    }
}

fn walk(kind: Kind, values: Vec<Value>) -> Value {
    Value::Iter(Iter::new(kind, Vec::new(), values))
}

fn named(name: &str, span: Span) -> Type {
    Type { kind: TypeKind::Named(name.into(), Vec::new()), span }
}

fn integer(e: &mut Evaluator<'_>, ty: IntType, call: &Call<'_>) -> Eval {
    let some = |value: Option<Value>| Ok(value.map_or(Value::none(), Value::some));
    let (least, most) = super::ints::range(ty);
    match &*call.name.text {
        "default" => Ok(Value::typed(0, ty)),
        "from" => match call.value(e, 0) {
            Value::Char(c) => e.int(Some(u32::from(c).into()), Some(ty), "from", call.span),
            Value::Bool(b) => Ok(Value::typed(b.into(), ty)),
            Value::Int(n) => e.int(Some(n.value), Some(ty), "from", call.span),
            size @ Value::Size(_) => Ok(size),
            other => Err(e.mismatch(&other, "an integer, character or truth value", call.args.at(0))),
        },
        "try_from" => match call.value(e, 0) {
            Value::Char(c) => {
                let n = i128::from(u32::from(c));
                some((least..=most).contains(&n).then(|| Value::typed(n, ty)))
            }
            size @ Value::Size(_) => Ok(Value::some(size)),
            _ => {
                let n = call.int(e, 0)?;
                some((least..=most).contains(&n).then(|| Value::typed(n, ty)))
            }
        },
        "from_str" => {
            let (text, ty) = (call.text(e, 0)?, named(ty.name(), call.span));
            texts::parse(e, &text, Some(&ty), call)
        }
        "from_str_radix" => {
            let text = call.text(e, 0)?;
            let radix = super::chars::radix(e, call, 1)?;
            let sign = ty.is_signed() || !text.starts_with('-');
            let n = i128::from_str_radix(&text, radix).ok().filter(|n| sign && (least..=most).contains(n));
            some(n.map(|value| Value::Int(Int { value, ty: Some(ty) })))
        }
        _ => {
            let mut bytes = Vec::new();
            for item in call.elements(e, 0)? {
                bytes.push(e.known_int(&item, call.args.at(0))?.value as u8);
            }
            if bytes.len() * 8 != ty.bits() as usize {
                let message = format!("`{}` has {} bytes, found {}", ty.name(), ty.bits() / 8, bytes.len());
                return call.fail(Code::Type, message);
            }
            if &*call.name.text != "from_be_bytes" {
                bytes.reverse();
            }
            let raw = bytes.iter().fold(0i128, |n, &b| n << 8 | i128::from(b));
            Ok(Value::typed(crate::program::eval::arith::wrap(raw, ty), ty))
        }
    }
}

/// `std::mem::swap` and its kin, on what `&mut` refers to.
fn memory(e: &mut Evaluator<'_>, name: &str, call: &Call<'_>) -> Eval {
    let place = |i: usize, e: &Evaluator<'_>| match call.args.value(i) {
        Value::Ref(place) => Ok(place.clone()),
        other => Err(e.mismatch(other, "a reference (`&mut`)", call.args.at(i))),
    };
    let first = place(0, e)?;
    let before = first.load();
    let new = match name {
        "swap" => {
            let second = place(1, e)?;
            let other = second.load();
            let moved = before.clone();
            e.write(&second, call.span, |slot| drop(std::mem::replace(slot, moved)))?;
            other
        }
        "replace" => call.value(e, 1),
        _ => match &before {
            Value::Int(n) => Value::Int(Int { value: 0, ty: n.ty }),
            Value::Float(_) => Value::Float(0.0),
            Value::Bool(_) => Value::Bool(false),
            Value::Char(_) => Value::Char('\0'),
            Value::Str(_) => Value::str(""),
            Value::List(_) => Value::list(Vec::new()),
            Value::Map(map) => Value::Map(Arc::new(Entries::new(map.sorted, map.set))),
            Value::Option(_) => Value::none(),
            Value::Struct(of) => {
                let ty = named(&of.name, call.span);
                e.default_of(&ty, call.span, 0)?
            }
            other => return Err(e.mismatch(other, "a value with a default", call.args.at(0))),
        },
    };
    e.write(&first, call.span, |slot| drop(std::mem::replace(slot, new)))?;
    Ok(if name == "swap" { Value::Unit } else { before })
}
