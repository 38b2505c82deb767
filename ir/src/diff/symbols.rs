//! Types of two graphs, whatever their symbols are called.

use super::matching::Matching;
use super::side::{Item, NONE, Side};
use crate::{Dim, Shape, TensorType};
use std::collections::{BTreeMap, HashMap};

/// What symbols of the right graph are called in the left one.
pub(super) struct Symbols {
    /// By the name in the right graph; only names that differ.
    names: BTreeMap<String, Dim>,
}

impl Symbols {
    /// Symbols are the same that stand in the same places of inputs, in most of them where they contradict each other.
    pub fn new(left: &Side<'_>, right: &Side<'_>, matching: &Matching) -> Self {
        let mut votes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for node in 0..left.len() as u32 {
            let other = matching.to_right[node as usize];
            if !matches!(left.item(node), Item::Input(_)) || other == NONE {
                continue;
            }
            let (Some(a), Some(b)) = (left.types(node).first(), right.types(other).first()) else { continue };
            let (a, b) = (a.shape.dims(), b.shape.dims());
            if a.len() != b.len() {
                continue;
            }
            for (x, y) in a.iter().zip(b) {
                if let (Some(x), Some(y)) = (x.as_symbol(), y.as_symbol()) {
                    *votes.entry((x, y)).or_default() += 1;
                }
            }
        }
        // The order is the same from either side: by votes, then equal names first, then both names as a set.
        let mut pairs: Vec<((&str, &str), usize)> = votes.into_iter().collect();
        pairs.sort_by_key(|&((x, y), n)| (std::cmp::Reverse(n), x != y, x.min(y), x.max(y), x));
        let mut taken: (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        let mut names = BTreeMap::new();
        for ((x, y), _) in pairs {
            if taken.0.contains(&x) || taken.1.contains(&y) {
                continue;
            }
            taken.0.push(x);
            taken.1.push(y);
            if x != y {
                names.insert(y.to_owned(), Dim::symbol(x));
            }
        }
        // What keeps its name must not be taken for one that another was renamed to.
        for x in &taken.0 {
            if !taken.1.contains(x) {
                names.insert((*x).to_owned(), Dim::symbol(&format!("\u{1}{x}")));
            }
        }
        Symbols { names }
    }

    /// Whether a type of the left graph is one of the right.
    pub fn same(&self, left: &TensorType, right: &TensorType) -> bool {
        if self.names.is_empty() {
            return left == right;
        }
        let plain = |ty: &TensorType| ty.shape.dims().iter().all(|d| d.as_const().is_some());
        if plain(left) || plain(right) {
            return left == right;
        }
        left.dtype == right.dtype && left.shape == self.renamed(&right.shape)
    }

    fn renamed(&self, shape: &Shape) -> Shape {
        Shape::new(shape.dims().iter().map(|dim| {
            if let Some(name) = dim.as_symbol() {
                return self.names.get(name).unwrap_or(dim).clone();
            }
            // By way of names that no graph has, so that none is renamed twice.
            let own: Vec<String> = dim.symbols().into_iter().map(str::to_owned).collect();
            let changed: HashMap<String, &Dim> =
                own.iter().filter_map(|s| Some((format!("\u{2}{s}"), self.names.get(s)?))).collect();
            let apart = own
                .iter()
                .filter(|s| self.names.contains_key(*s))
                .try_fold(dim.clone(), |d, s| d.substitute(s, &Dim::symbol(&format!("\u{2}{s}"))));
            let named = apart.and_then(|d| {
                let symbols: Vec<String> = d.symbols().into_iter().map(str::to_owned).collect();
                symbols.iter().try_fold(d, |d, s| match changed.get(s) {
                    Some(by) => d.substitute(s, by),
                    None => Some(d),
                })
            });
            named.unwrap_or_else(|| dim.clone())
        }))
    }
}
