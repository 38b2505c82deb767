//! Names with numbers in them: `model.layers.3.mlp` is `model.layers.{layer}.mlp` in layer 3.

use crate::text::{is_bare, quote};

/// The longest run of digits that counts as a number; longer ones are text.
const MOST_DIGITS: usize = 15;

/// A part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// What stands between numbers; it may hold digits too, where they are no number.
    Text(&'a str),
    /// A number.
    Number(Number),
}

/// A number in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// Its value.
    pub value: i64,
    /// Where it begins in the name, in bytes.
    pub at: usize,
    /// How many digits it is written in.
    pub digits: usize,
    /// Whether it begins with a zero that its value does not need.
    padded: bool,
}

impl Number {
    /// Whether `other` is written in the way of this one, so that one pattern spells both.
    fn like(&self, other: &Number) -> bool {
        if self.padded { self.digits == other.digits } else { !other.padded }
    }
}

/// The parts of a name: texts and numbers in turn, in order. Joined they are the name.
pub(crate) fn pieces(name: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == name.len() {
            return None;
        }
        let from = at;
        if let Some(number) = number_at(name, from) {
            at += number.digits;
            return Some(Piece::Number(number));
        }
        // Up to the next number: a run of digits that is too long to be one is passed over whole.
        while at < name.len() && number_at(name, at).is_none() {
            at += digits(&name[at..]).max(name[at..].chars().next().map_or(1, char::len_utf8));
        }
        Some(Piece::Text(&name[from..at]))
    })
}

/// The numbers of a name, in order.
pub(crate) fn numbers(name: &str) -> impl Iterator<Item = Number> {
    pieces(name).filter_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Number(number) => Some(number),
    })
}

/// The name with its numbers left out: equal for names that may differ in numbers only.
pub(crate) fn skeleton(name: &str) -> String {
    pieces(name).map(|piece| if let Piece::Text(text) = piece { text } else { "\0" }).collect()
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn number_at(name: &str, at: usize) -> Option<Number> {
    let n = digits(&name[at..]);
    if n == 0 || n > MOST_DIGITS {
        return None;
    }
    let text = &name[at..at + n];
    Some(Number { value: text.parse().ok()?, at, digits: n, padded: n > 1 && text.starts_with('0') })
}

/// By how much each number of `base` grows with each of `turns` steps to reach `other`; `None` where
/// the names differ in more than numbers, or a number does not grow evenly.
pub(super) fn strides(base: &str, other: &str, turns: i64) -> Option<Vec<i64>> {
    let mut out = Vec::new();
    let (mut a, mut b) = (pieces(base), pieces(other));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Some(out),
            (Some(Piece::Text(x)), Some(Piece::Text(y))) if x == y => {}
            (Some(Piece::Number(x)), Some(Piece::Number(y))) if x.like(&y) => {
                let grown = y.value - x.value;
                if grown.checked_rem(turns)? != 0 {
                    return None;
                }
                out.push(grown / turns);
            }
            _ => return None,
        }
    }
}

/// Whether [`strides`] gives `known`.
pub(super) fn grows(base: &str, other: &str, turns: i64, known: &[i64]) -> bool {
    let mut known = known.iter();
    let (mut a, mut b) = (pieces(base), pieces(other));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(Piece::Text(x)), Some(Piece::Text(y))) if x == y => {}
            (Some(Piece::Number(x)), Some(Piece::Number(y))) if x.like(&y) => {
                let by = known.next().and_then(|stride| stride.checked_mul(turns));
                if by != Some(y.value - x.value) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// One loop around a name: its variable, the turn that the name was taken from, and by how much each
/// number grows with each turn; empty where none does.
pub(super) struct Growth<'a> {
    pub variable: &'a str,
    pub turn: i64,
    pub strides: &'a [i64],
}

/// When a name stands in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    Always,
    /// Where the text form would put them.
    Needed,
    Never,
}

/// `name` as a pattern: numbers that grow become expressions in braces, braces of its own are doubled.
pub(super) fn pattern(name: &str, loops: &[Growth<'_>], quotes: Quotes) -> String {
    let mut out = String::new();
    let mut bare = !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit());
    let mut number = 0;
    for piece in pieces(name) {
        match piece {
            Piece::Text(text) => {
                bare &= is_bare(text);
                text.chars().for_each(|c| match c {
                    '{' | '}' => out.extend([c, c]),
                    c => out.push(c),
                });
            }
            Piece::Number(n) => {
                out.push_str(&expression(name, n, number, loops));
                number += 1;
            }
        }
    }
    match quotes {
        Quotes::Never => return out,
        Quotes::Needed if bare => return out,
        Quotes::Needed | Quotes::Always => {}
    }
    quoted(&out)
}

/// `name` in quotes.
pub(super) fn quoted(name: &str) -> String {
    let mut out = String::new();
    quote(&mut out, name);
    out
}

/// The end of a weight's name, or of a pattern of it, that people know it by: `down_proj.weight`. The
/// whole name, in quotes, where numbers or strange characters stand there.
pub(super) fn short(name: &str) -> String {
    let plain = |part: &&str| is_bare(part) && !part.bytes().all(|b| b.is_ascii_digit());
    let mut parts = name.rsplit('.');
    match (parts.next().filter(plain), parts.next().filter(plain)) {
        (Some(last), Some(module)) => format!("{module}.{last}"),
        (Some(last), None) => last.to_owned(),
        (None, _) => quoted(name),
    }
}

/// Names of numbered turns as one pattern, if they count up with the turns; there must be two or more.
pub(super) fn counted(names: &[(i64, &str)], variable: &str) -> Option<String> {
    let &[(turn, base), (next, second), ..] = names else { return None };
    let strides = strides(base, second, next - turn)?;
    let even = names.iter().all(|(n, name)| grows(base, name, n - turn, &strides));
    even.then(|| pattern(base, &[Growth { variable, turn, strides: &strides }], Quotes::Needed))
}

fn expression(name: &str, number: Number, at: usize, loops: &[Growth<'_>]) -> String {
    let mut constant = number.value;
    let mut terms: Vec<(i64, &str)> = Vec::new();
    for growth in loops {
        let stride = growth.strides.get(at).copied().unwrap_or(0);
        if stride != 0 {
            constant = constant.saturating_sub(stride.saturating_mul(growth.turn));
            terms.push((stride, growth.variable));
        }
    }
    if terms.is_empty() {
        return name[number.at..number.at + number.digits].to_owned();
    }
    let mut out = String::from("{");
    for (stride, variable) in terms {
        match (stride, out.len() == 1) {
            (1, true) => out.push_str(variable),
            (-1, _) => out.push_str(&format!("-{variable}")),
            (1, false) => out.push_str(&format!("+{variable}")),
            (n, true) => out.push_str(&format!("{n}*{variable}")),
            (n, false) => out.push_str(&format!("{n:+}*{variable}")),
        }
    }
    if constant != 0 {
        out.push_str(&format!("{constant:+}"));
    }
    if number.padded {
        out.push_str(&format!(":0{}", number.digits));
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, strides: &[i64], turn: i64) -> String {
        pattern(name, &[Growth { variable: "layer", turn, strides }], Quotes::Needed)
    }

    #[test]
    fn names_part_into_texts_and_numbers() {
        let parts: Vec<Piece<'_>> = pieces("h.12.x007").collect();
        let number = |value, at, digits, padded| Piece::Number(Number { value, at, digits, padded });
        assert_eq!(parts, [Piece::Text("h."), number(12, 2, 2, false), Piece::Text(".x"), number(7, 6, 3, true)]);
        let long = "a1234567890123456789b2";
        assert_eq!(pieces(long).count(), 2);
        assert_eq!(numbers(long).map(|n| n.value).collect::<Vec<_>>(), [2]);
        assert_eq!(pieces("").count(), 0);
        assert_eq!(pieces("é9ü").count(), 3);
        assert_eq!(skeleton("a1b22"), skeleton("a7b3"));
        assert_ne!(skeleton("a1b"), skeleton("ab"));
    }

    #[test]
    fn numbers_that_grow_evenly_have_strides() {
        assert_eq!(strides("layer1.q2", "layer4.q2", 3), Some(vec![1, 0]));
        assert_eq!(strides("t12", "t31", 1), Some(vec![19]));
        assert_eq!(strides("t12", "t31", 2), None);
        assert_eq!(strides("a1", "b1", 1), None);
        assert_eq!(strides("a1", "a1.1", 1), None);
        assert_eq!(strides("a09", "a10", 1), Some(vec![1]));
        assert_eq!(strides("a9", "a09", 1), None);
        assert_eq!(strides("a3", "a1", -2), Some(vec![1]));
        assert_eq!(strides("", "", 1), Some(vec![]));
    }

    #[test]
    fn patterns_are_quoted_like_names_and_keep_their_braces() {
        assert_eq!(shown("layer1.q", &[1], 1), "layer{layer}.q");
        assert_eq!(shown("layer1.q", &[1], 2), "layer{layer-1}.q");
        assert_eq!(shown("t31", &[19], 1), "t{19*layer+12}");
        assert_eq!(shown("a{1} b", &[1], 1), "\"a{{{layer}}} b\"");
        assert_eq!(shown("a09", &[1], 9), "a{layer:02}");
        assert_eq!(shown("plain7", &[0], 3), "plain7");
        assert_eq!(shown("7", &[], 3), "\"7\"");
        let two = [Growth { variable: "i", turn: 2, strides: &[4] }, Growth { variable: "j", turn: 1, strides: &[1] }];
        assert_eq!(pattern("x10", &two, Quotes::Needed), "x{4*i+j+1}");
        assert_eq!(pattern("a b1", &two, Quotes::Never), "a b{4*i+j-8}");
        assert_eq!(short("model.layers.{layer}.mlp.fc1.weight"), "fc1.weight");
        assert_eq!(short("blocks.{block}.w"), "w");
        assert_eq!(
            (short("w"), short("w{i}"), short("a.3"), short("x.\n")),
            ("w".into(), "\"w{i}\"".into(), "\"a.3\"".into(), "\"x.\\n\"".into())
        );
        let least = [Growth { variable: "i", turn: i64::MAX, strides: &[i64::MIN] }];
        assert!(pattern("x10", &least, Quotes::Always).starts_with("\"x{"));
    }
}
