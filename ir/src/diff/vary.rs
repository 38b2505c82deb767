//! Texts of several places as one: `weight model.layers.*.mlp.up_proj.weight: q{4,6}k becomes f16`.

use crate::dump::names::{Piece, numbers, pieces, skeleton};

/// How many variants of a number or a text are shown.
const MOST_VARIANTS: usize = 3;

/// Texts that differ in numbers at most, each with the number of its layer, as one: `*` for a number that is the
/// layer's in each, and `{1,2,3,…}` for another that differs. `None` where they differ in more. Linear.
pub(super) fn joined(texts: &[(String, Option<i64>)]) -> Option<String> {
    let (first, _) = texts.first()?;
    let form = skeleton(first);
    let mut variants: Vec<Vec<String>> = numbers(first).map(|_| Vec::new()).collect();
    let mut layered = vec![true; variants.len()];
    for (text, layer) in texts {
        if skeleton(text) != form {
            return None;
        }
        for (at, number) in numbers(text).enumerate() {
            layered[at] &= *layer == Some(number.value);
            let spelt = &text[number.at..number.at + number.digits];
            if variants[at].len() <= MOST_VARIANTS && !variants[at].iter().any(|known| known == spelt) {
                variants[at].push(spelt.to_owned());
            }
        }
    }
    let mut out = String::new();
    let mut at = 0;
    for piece in pieces(first) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Number(_) => {
                out.push_str(&spelt(&variants[at], layered[at]));
                at += 1;
            }
        }
    }
    Some(out)
}

fn spelt(variants: &[String], layered: bool) -> String {
    match variants {
        [one] => one.clone(),
        _ if layered => "*".to_owned(),
        many if many.len() > MOST_VARIANTS => format!("{{{},…}}", many[..MOST_VARIANTS].join(",")),
        many => format!("{{{}}}", many.join(",")),
    }
}

/// Texts that differ in more than numbers: the first ones, each once.
pub(super) fn some(texts: impl Iterator<Item = String>) -> String {
    let mut out: Vec<String> = Vec::new();
    for text in texts {
        if out.contains(&text) {
            continue;
        }
        if out.len() == MOST_VARIANTS {
            out.push("…".to_owned());
            break;
        }
        out.push(text);
    }
    out.join("; ")
}
