//! Texts. Patterns are characters, texts, lists of characters, or functions of a character.

use super::{Call, Table};
use crate::program::ast::{IntType, Type};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::iter::{Iter, Kind};
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::{Int, Place, Value};
use std::sync::Arc;

pub(super) const METHODS: Table = &[
    ("len", 0),
    ("is_empty", 0),
    ("chars", 0),
    ("char_indices", 0),
    ("bytes", 0),
    ("as_bytes", 0),
    ("into_bytes", 0),
    ("to_vec", 0),
    ("as_str", 0),
    ("lines", 0),
    ("split", 1),
    ("rsplit", 1),
    ("splitn", 2),
    ("rsplitn", 2),
    ("split_terminator", 1),
    ("split_inclusive", 1),
    ("split_whitespace", 0),
    ("split_ascii_whitespace", 0),
    ("split_once", 1),
    ("rsplit_once", 1),
    ("split_at", 1),
    ("trim", 0),
    ("trim_start", 0),
    ("trim_end", 0),
    ("trim_matches", 1),
    ("trim_start_matches", 1),
    ("trim_end_matches", 1),
    ("strip_prefix", 1),
    ("strip_suffix", 1),
    ("starts_with", 1),
    ("ends_with", 1),
    ("contains", 1),
    ("find", 1),
    ("rfind", 1),
    ("matches", 1),
    ("match_indices", 1),
    ("replace", 2),
    ("replacen", 3),
    ("repeat", 1),
    ("to_lowercase", 0),
    ("to_uppercase", 0),
    ("to_ascii_lowercase", 0),
    ("to_ascii_uppercase", 0),
    ("eq_ignore_ascii_case", 1),
    ("is_ascii", 0),
    ("is_char_boundary", 1),
    ("get", 1),
    ("parse", 0),
];

pub(super) const CHANGES: Table = &[
    ("push", 1),
    ("push_str", 1),
    ("pop", 0),
    ("clear", 0),
    ("insert", 2),
    ("insert_str", 2),
    ("remove", 1),
    ("truncate", 1),
    ("retain", 1),
    ("extend", 1),
    ("drain", 1),
    ("split_off", 1),
    ("make_ascii_lowercase", 0),
    ("make_ascii_uppercase", 0),
];

/// What a text is searched for.
enum Needle {
    Text(Arc<str>),
    Chars(Vec<char>),
    Function(Value),
}

impl Needle {
    fn of(e: &Evaluator<'_>, call: &Call<'_>, i: usize) -> Eval<Needle> {
        match call.value(e, i) {
            Value::Str(text) => Ok(Needle::Text(text)),
            Value::Char(c) => Ok(Needle::Chars(vec![c])),
            Value::List(items) => {
                let char = |v: &Value| match v {
                    Value::Char(c) => Ok(*c),
                    other => Err(e.mismatch(other, "a character", call.args.at(i))),
                };
                Ok(Needle::Chars(items.iter().map(char).collect::<Eval<_>>()?))
            }
            f @ (Value::Closure(_) | Value::Function(_) | Value::Builtin(..)) => Ok(Needle::Function(f)),
            other => Err(e.mismatch(&other, "a text, a character or a function of one", call.args.at(i))),
        }
    }

    /// Where it stands in a text: pairs of start and end, which do not overlap.
    fn all(&self, e: &mut Evaluator<'_>, text: &str, call: &Call<'_>) -> Eval<Vec<(usize, usize)>> {
        e.work(text.len(), call.span)?;
        match self {
            Needle::Text(needle) => Ok(text.match_indices(&**needle).map(|(at, m)| (at, at + m.len())).collect()),
            Needle::Chars(chars) => Ok(text.match_indices(&chars[..]).map(|(at, m)| (at, at + m.len())).collect()),
            Needle::Function(f) => {
                let mut found = Vec::new();
                for (at, c) in text.char_indices() {
                    if e.holds(f, vec![Value::Char(c)], call.span)? {
                        found.push((at, at + c.len_utf8()));
                    }
                }
                Ok(found)
            }
        }
    }
}

pub(super) fn method(e: &mut Evaluator<'_>, text: &Arc<str>, call: &Call<'_>) -> Eval {
    let name = &*call.name.text;
    let walk = |kind: Kind| Ok(Value::Iter(Iter::new(kind, Vec::new(), vec![Value::Str(text.clone())])));
    let some = |value: Option<Value>| value.map_or(Value::none(), Value::some);
    let at_bytes = |n: usize| Value::len(n);
    match name {
        "len" => return Ok(Value::len(text.len())),
        "is_empty" => return Ok(Value::Bool(text.is_empty())),
        "as_str" => return Ok(Value::Str(text.clone())),
        "chars" => return walk(Kind::Chars { at: 0, end: text.len(), indices: false }),
        "char_indices" => return walk(Kind::Chars { at: 0, end: text.len(), indices: true }),
        "bytes" => return walk(Kind::Bytes { at: 0, end: text.len() }),
        _ => e.work(text.len(), call.span)?,
    }
    match name {
        "as_bytes" | "into_bytes" | "to_vec" => {
            e.make(text.len(), call.span)?;
            Ok(Value::list(text.bytes().map(|b| Value::typed(b.into(), IntType::U8)).collect()))
        }
        "lines" => parts(e, text.lines().collect(), call),
        "split_whitespace" => parts(e, text.split_whitespace().collect(), call),
        "split_ascii_whitespace" => parts(e, text.split_ascii_whitespace().collect(), call),
        "trim" => Ok(Value::str(text.trim())),
        "trim_start" => Ok(Value::str(text.trim_start())),
        "trim_end" => Ok(Value::str(text.trim_end())),
        "to_lowercase" => Ok(Value::str(text.to_lowercase())),
        "to_uppercase" => Ok(Value::str(text.to_uppercase())),
        "to_ascii_lowercase" => Ok(Value::str(text.to_ascii_lowercase())),
        "to_ascii_uppercase" => Ok(Value::str(text.to_ascii_uppercase())),
        "eq_ignore_ascii_case" => Ok(Value::Bool(text.eq_ignore_ascii_case(&call.text(e, 0)?))),
        "is_ascii" => Ok(Value::Bool(text.is_ascii())),
        "is_char_boundary" => Ok(Value::Bool(text.is_char_boundary(call.count(e, 0)?))),
        "parse" => parse(e, text, call.turbofish(), call),
        "repeat" => {
            let n = call.count(e, 0)?;
            e.make(text.len().saturating_mul(n), call.span)?;
            Ok(Value::str(text.repeat(n)))
        }
        "get" => match call.value(e, 0) {
            Value::Range(range) => {
                let start = usize::try_from(range.start.value).ok();
                let end = range.end.map_or(Some(text.len()), |n| usize::try_from(n.value).ok());
                let part = start.zip(end).and_then(|(start, end)| text.get(start..end));
                Ok(some(part.map(Value::str)))
            }
            other => Err(e.mismatch(&other, "a range", call.args.at(0))),
        },
        "split_at" => {
            let at = call.count(e, 0)?;
            match text.split_at_checked(at) {
                Some((a, b)) => Ok(Value::tuple(vec![Value::str(a), Value::str(b)])),
                None => call.fail(Code::Index, format!("{at} is no place between characters of {} bytes", text.len())),
            }
        }
        "starts_with" | "ends_with" | "strip_prefix" | "strip_suffix" => {
            let found = end(e, text, name.ends_with("prefix") || name.starts_with("starts"), call)?;
            Ok(match name {
                "starts_with" | "ends_with" => Value::Bool(found.is_some()),
                _ => some(found.map(Value::str)),
            })
        }
        "trim_matches" | "trim_start_matches" | "trim_end_matches" => {
            let mut rest: &str = text;
            while name != "trim_end_matches"
                && let Some(shorter) = end(e, rest, true, call)?
                && shorter.len() < rest.len()
            {
                e.tick(call.span)?;
                rest = &rest[rest.len() - shorter.len()..];
            }
            while name != "trim_start_matches"
                && let Some(shorter) = end(e, rest, false, call)?
                && shorter.len() < rest.len()
            {
                e.tick(call.span)?;
                rest = &rest[..shorter.len()];
            }
            Ok(Value::str(rest))
        }
        "splitn" | "rsplitn" => {
            let most = call.count(e, 0)?;
            let found = Needle::of(e, call, 1)?.all(e, text, call)?;
            let cut = most.saturating_sub(1);
            let mut pieces = match name {
                "splitn" => cut_at(text, &found[..cut.min(found.len())]),
                _ => cut_at(text, &found[found.len().saturating_sub(cut)..]),
            };
            if name == "rsplitn" {
                pieces.reverse();
            }
            parts(e, if most == 0 { Vec::new() } else { pieces }, call)
        }
        "replace" | "replacen" => {
            let mut found = Needle::of(e, call, 0)?.all(e, text, call)?;
            let by = call.text(e, 1)?;
            if name == "replacen" {
                found.truncate(call.count(e, 2)?);
            }
            e.make(found.len().saturating_mul(by.len()).saturating_add(text.len()), call.span)?;
            Ok(Value::str(cut_at(text, &found).join(&by)))
        }
        _ => {
            let found = Needle::of(e, call, 0)?.all(e, text, call)?;
            match name {
                "contains" => Ok(Value::Bool(!found.is_empty())),
                "find" => Ok(some(found.first().map(|(at, _)| at_bytes(*at)))),
                "rfind" => Ok(some(match Needle::of(e, call, 0)? {
                    Needle::Text(needle) => text.rfind(&*needle).map(at_bytes),
                    _ => found.last().map(|(at, _)| at_bytes(*at)),
                })),
                "split" => parts(e, cut_at(text, &found), call),
                "rsplit" => {
                    let mut pieces = cut_at(text, &found);
                    pieces.reverse();
                    parts(e, pieces, call)
                }
                "split_terminator" => {
                    let mut pieces = cut_at(text, &found);
                    if pieces.last().is_some_and(|p| p.is_empty()) {
                        pieces.pop();
                    }
                    parts(e, pieces, call)
                }
                "split_inclusive" => {
                    let ends: Vec<(usize, usize)> = found.iter().map(|(_, end)| (*end, *end)).collect();
                    let mut pieces = cut_at(text, &ends);
                    if pieces.last().is_some_and(|p| p.is_empty()) {
                        pieces.pop();
                    }
                    parts(e, pieces, call)
                }
                "split_once" | "rsplit_once" => {
                    let place = if name == "split_once" { found.first() } else { found.last() };
                    Ok(some(place.map(|&(a, b)| Value::tuple(vec![Value::str(&text[..a]), Value::str(&text[b..])]))))
                }
                "matches" => parts(e, found.iter().map(|&(a, b)| &text[a..b]).collect(), call),
                "match_indices" => {
                    e.make(found.len(), call.span)?;
                    let pair = |&(a, b): &(usize, usize)| Value::tuple(vec![at_bytes(a), Value::str(&text[a..b])]);
                    Ok(Value::Iter(Iter::of(found.iter().map(pair).collect())))
                }
                _ => Err(Flow::Poisoned),
            }
        }
    }
}

/// An iterator over parts of a text.
fn parts(e: &mut Evaluator<'_>, parts: Vec<&str>, call: &Call<'_>) -> Eval {
    e.make(parts.len(), call.span)?;
    Ok(Value::Iter(Iter::of(parts.into_iter().map(Value::str).collect())))
}

/// A text without these parts of it, in pieces.
fn cut_at<'t>(text: &'t str, found: &[(usize, usize)]) -> Vec<&'t str> {
    let mut pieces = Vec::with_capacity(found.len() + 1);
    let mut from = 0;
    for &(start, end) in found {
        pieces.push(&text[from..start]);
        from = end;
    }
    pieces.push(&text[from..]);
    pieces
}

/// A text without the pattern that it begins or ends with.
fn end<'t>(e: &mut Evaluator<'_>, text: &'t str, first: bool, call: &Call<'_>) -> Eval<Option<&'t str>> {
    let needle = Needle::of(e, call, 0)?;
    if let Needle::Text(needle) = &needle {
        return Ok(if first { text.strip_prefix(&**needle) } else { text.strip_suffix(&**needle) });
    }
    let c = if first { text.chars().next() } else { text.chars().next_back() };
    let Some(c) = c else { return Ok(None) };
    let fits = match &needle {
        Needle::Function(f) => e.holds(f, vec![Value::Char(c)], call.span)?,
        Needle::Chars(chars) => chars.contains(&c),
        Needle::Text(_) => false,
    };
    let n = c.len_utf8();
    Ok(fits.then(|| if first { &text[n..] } else { &text[..text.len() - n] }))
}

/// `parse`: an option, in the type where one is written.
pub(super) fn parse(e: &mut Evaluator<'_>, text: &str, ty: Option<&Type>, call: &Call<'_>) -> Eval {
    let some = |value: Option<Value>| Ok(value.map_or(Value::none(), Value::some));
    // As Rust reads integers: a sign, then digits alone.
    let int = || text.parse::<i128>().ok();
    let name = ty.and_then(Type::name);
    match name {
        Some("f32") => some(text.parse::<f32>().ok().map(|x| Value::Float(x.into()))),
        Some("f64") => some(text.parse::<f64>().ok().map(Value::Float)),
        Some("bool") => some(text.parse().ok().map(Value::Bool)),
        Some("char") => some(text.parse().ok().map(Value::Char)),
        Some("String") => some(Some(Value::str(text))),
        None => {
            let number = int().map(|value| Value::Int(Int { value, ty: None }));
            some(number.or_else(|| text.parse().ok().map(Value::Float)).or_else(|| text.parse().ok().map(Value::Bool)))
        }
        Some(name) => match IntType::from_name(name) {
            Some(ty) => {
                let (least, most) = super::ints::range(ty);
                let sign = ty.is_signed() || !text.starts_with('-');
                some(int().filter(|n| sign && (least..=most).contains(n)).map(|n| Value::typed(n, ty)))
            }
            None => {
                let d = Diagnostic::new(Code::Type, call.span, format!("no text is parsed as `{name}`"));
                let _ = e;
                Err(d.help("numbers, `bool`, `char` and `String` are").into())
            }
        },
    }
}

pub(super) fn change(e: &mut Evaluator<'_>, place: &Place, text: &Arc<str>, call: &Call<'_>) -> Eval {
    e.work(text.len() / 16, call.span)?;
    let boundary = |i: usize, n: usize| match text.is_char_boundary(n) {
        true => Ok(n),
        false => {
            let message = format!("{n} is no place between characters of {} bytes", text.len());
            Err(Flow::from(Diagnostic::new(Code::Index, call.args.at(i), message)))
        }
    };
    let mut new = String::with_capacity(text.len() + 16);
    new.push_str(text);
    let result = match &*call.name.text {
        "push" => {
            new.push(call.char(e, 0)?);
            Value::Unit
        }
        "push_str" => {
            let more = call.text(e, 0)?;
            e.make(more.len(), call.span)?;
            new.push_str(&more);
            Value::Unit
        }
        "extend" => {
            for item in call.elements(e, 0)? {
                match e.deref(item) {
                    Value::Char(c) => new.push(c),
                    Value::Str(text) => {
                        e.make(text.len(), call.span)?;
                        new.push_str(&text);
                    }
                    other => return Err(e.mismatch(&other, "a text or character", call.args.at(0))),
                }
            }
            Value::Unit
        }
        "pop" => new.pop().map_or(Value::none(), |c| Value::some(Value::Char(c))),
        "clear" => {
            new.clear();
            Value::Unit
        }
        "insert" => {
            let at = boundary(0, call.count(e, 0)?)?;
            new.insert(at, call.char(e, 1)?);
            Value::Unit
        }
        "insert_str" => {
            let at = boundary(0, call.count(e, 0)?)?;
            let more = call.text(e, 1)?;
            e.make(more.len(), call.span)?;
            new.insert_str(at, &more);
            Value::Unit
        }
        "remove" => {
            let at = boundary(0, call.count(e, 0)?)?;
            if at == text.len() {
                return call.out_of_range(e, 0, at, text.len());
            }
            Value::Char(new.remove(at))
        }
        "truncate" => {
            let at = call.count(e, 0)?;
            if at < text.len() {
                new.truncate(boundary(0, at)?);
            }
            Value::Unit
        }
        "split_off" => {
            let at = boundary(0, call.count(e, 0)?)?;
            Value::str(new.split_off(at))
        }
        "drain" => {
            let Value::Range(range) = call.value(e, 0) else {
                return Err(e.mismatch(&call.value(e, 0), "a range", call.args.at(0)));
            };
            let (start, end) = e.bounds(&range, text.len(), call.args.at(0))?;
            let (start, end) = (boundary(0, start)?, boundary(0, end)?);
            let cut: Vec<Value> = new.drain(start..end).map(Value::Char).collect();
            e.make(cut.len(), call.span)?;
            Value::Iter(Iter::of(cut))
        }
        "retain" => {
            new.clear();
            for c in text.chars() {
                if call.holds(e, 0, vec![Value::Char(c)])? {
                    new.push(c);
                }
            }
            Value::Unit
        }
        "make_ascii_lowercase" => {
            new.make_ascii_lowercase();
            Value::Unit
        }
        _ => {
            new.make_ascii_uppercase();
            Value::Unit
        }
    };
    if new.len() > crate::program::eval::MAX_LENGTH {
        e.make(new.len(), call.span)?;
    }
    e.write(place, call.span, |slot| *slot = Value::Str(new.into()))?;
    Ok(result)
}
