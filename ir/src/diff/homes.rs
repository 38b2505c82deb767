//! In which layer a node is, by the numbers in names: those of the weights that it reads, else those of what it depends
//! on.

use super::side::{Item, NONE, Side};
use crate::dump::names::numbers;
use crate::dump::scopes::noun;
use std::collections::{BTreeSet, HashMap};

/// How many operands of a node are looked at for weights near it.
const MOST_NEAR: usize = 16;
/// How many steps up weights count as near.
const STEPS: usize = 3;

/// A layer: the number of what stands before the number in names, and the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Home {
    pub prefix: u32,
    pub number: i64,
}

/// The layers of the nodes of both graphs.
pub(super) struct Homes<'g> {
    prefixes: Vec<&'g str>,
    left: Vec<Option<Home>>,
    right: Vec<Option<Home>>,
    /// How many layers the larger graph has, by prefix.
    pub sizes: Vec<usize>,
}

impl<'g> Homes<'g> {
    /// Linear in nodes, edges and the lengths of names.
    pub fn new(left: &Side<'g>, right: &Side<'g>) -> Self {
        let mut known: HashMap<&'g str, u32> = HashMap::new();
        let mut prefixes = Vec::new();
        let [of_left, of_right] = [left, right].map(|side| homes(side, &mut known, &mut prefixes));
        let count = |homes: &[Option<Home>]| {
            let all: BTreeSet<Home> = homes.iter().flatten().copied().collect();
            let mut sizes = vec![0; prefixes.len()];
            all.iter().for_each(|home| sizes[home.prefix as usize] += 1);
            sizes
        };
        let sizes = count(&of_left).into_iter().zip(count(&of_right)).map(|(l, r): (usize, usize)| l.max(r)).collect();
        Homes { prefixes, left: of_left, right: of_right, sizes }
    }

    pub fn left(&self, node: u32) -> Option<Home> {
        self.left[node as usize]
    }

    pub fn right(&self, node: u32) -> Option<Home> {
        self.right[node as usize]
    }

    /// What stands before the number: `model.layers.`.
    pub fn prefix(&self, home: Home) -> &'g str {
        self.prefixes[home.prefix as usize]
    }
}

/// What stands before the first number of a name, and the number, where that can be a layer's.
fn key(name: &str) -> Option<(&str, i64)> {
    let number = numbers(name).next()?;
    let prefix = &name[..number.at];
    (prefix.ends_with(['.', '_', '/', '-']) || noun(prefix).is_some()).then_some((prefix, number.value))
}

/// The part of a name behind the number of its layer: `mlp.up_proj.weight`; all of it where it has none.
pub(super) fn inner(name: &str) -> &str {
    let Some((_, number)) = key(name).zip(numbers(name).next()) else { return name };
    let rest = name[number.at + number.digits..].trim_start_matches(['.', '_', '/', '-']);
    if rest.is_empty() { name } else { rest }
}

fn homes<'g>(side: &Side<'g>, known: &mut HashMap<&'g str, u32>, prefixes: &mut Vec<&'g str>) -> Vec<Option<Home>> {
    let mut home = |name: &'g str| {
        let (prefix, number) = key(name)?;
        let prefix = *known.entry(prefix).or_insert_with(|| {
            prefixes.push(prefix);
            prefixes.len() as u32 - 1
        });
        Some(Home { prefix, number })
    };
    let mut out: Vec<Option<Home>> = vec![None; side.len()];
    let mut by_weights = false;
    for node in 0..side.len() as u32 {
        if let Item::Weight(name) = side.item(node) {
            out[node as usize] = home(name);
            by_weights |= out[node as usize].is_some();
        }
    }
    for node in 0..side.len() as u32 {
        if !side.item(node).is_op() {
            continue;
        }
        let operands = side.operands(node).iter();
        let weights = || operands.clone().filter(|o| matches!(side.item(o.node), Item::Weight(_)));
        let told = match by_weights {
            true => weights().find_map(|o| out[o.node as usize]),
            false => side.value_name(node).and_then(&mut home),
        };
        // One that reads weights of no layer is in none.
        let apart = by_weights && told.is_none() && weights().next().is_some();
        out[node as usize] = match told {
            Some(home) => Some(home),
            None if apart => None,
            None => {
                let above = operands.clone().filter(|o| side.item(o.node).is_op());
                let above: Vec<Home> = above.filter_map(|o| out[o.node as usize]).collect();
                let first = above.first().map(|home| home.prefix);
                above.into_iter().filter(|home| Some(home.prefix) == first).max()
            }
        };
    }
    out
}

/// The weights that a node reads, or the nearest that it depends on in its layer, by their names behind the number of
/// the layer; in order of those names, each once.
pub(super) fn near<'g>(side: &Side<'g>, homes: &[Option<Home>], node: u32) -> Vec<&'g str> {
    let own = homes[node as usize];
    let mut level = vec![node];
    // Outside of layers what is further up says little.
    for _ in 0..if own.is_some() { STEPS } else { 1 } {
        let mut next: Vec<u32> = Vec::new();
        let mut found: Vec<&str> = Vec::new();
        for o in level.iter().flat_map(|&n| side.operands(n)).take(MOST_NEAR) {
            match side.item(o.node) {
                Item::Weight(name) if homes[o.node as usize] == own => found.push(inner(name)),
                Item::Op(_) if homes[o.node as usize] == own => next.push(o.node),
                Item::Weight(_) | Item::Op(_) | Item::Input(_) | Item::Output(_) => {}
            }
        }
        if !found.is_empty() {
            found.sort_unstable();
            found.dedup();
            return found;
        }
        level = next;
    }
    Vec::new()
}

impl<'g> Homes<'g> {
    /// See [`near`].
    pub fn near(&self, side: &Side<'g>, is_left: bool, node: u32) -> Vec<&'g str> {
        near(side, if is_left { &self.left } else { &self.right }, node)
    }
}

/// A list of numbers for people: `0-27`, `3, 7, 11`, `0-3, 8`.
pub(super) fn ranges(numbers: &[i64]) -> String {
    let mut out = String::new();
    for run in numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        if !out.is_empty() {
            out.push_str(", ");
        }
        out.push_str(&match run.len() {
            1 => first.to_string(),
            2 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        });
    }
    out
}

/// A node, if it is one.
pub(super) fn known(node: u32) -> Option<u32> {
    (node != NONE).then_some(node)
}
