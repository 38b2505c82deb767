//! Dynamic dimensions that must be equal.
//!
//! The binary form knows no symbols: each dynamic dimension of an input begins as a symbol of its
//! own, `d1`, `d2` …. Where an operation refuses two of them that it would take if they were equal,
//! they are made one, so that running checks what the form cannot say.

use crate::{Dim, Graph, Op, Shape, TensorType};

/// The most symbols that are put together in one graph: each time costs a walk over it.
const MOST: usize = 256;
/// The most choices that are tried in one graph, fitting or not: a file with many operations that
/// fit by no choice must end soon.
const MOST_TRIED: usize = 100_000;
/// The most that one operation may put together at once.
const AT_ONCE: usize = 3;
/// Operations of more operands are left as they are: each trial looks at all of them.
const MOST_OPERANDS: usize = 16;

/// Symbols of dynamic dimensions, and what became of them.
#[derive(Default)]
pub(super) struct Unifier {
    settled: usize,
    tried: usize,
}

impl Unifier {
    /// The results of `op` once the fewest dynamic dimensions of its operands are equal to others, and
    /// `graph` with all its types changed so; `None` where no such choice makes the operands fit.
    pub(super) fn settle(&mut self, graph: &mut Graph, op: &Op, types: &[TensorType]) -> Option<Vec<TensorType>> {
        if types.len() > MOST_OPERANDS {
            return None;
        }
        let candidates = candidates(types);
        for count in 1..=AT_ONCE.min(candidates.len()) {
            let mut chosen: Vec<usize> = (0..count).collect();
            loop {
                self.tried += 1;
                if self.tried > MOST_TRIED {
                    return None;
                }
                let choice: Vec<&Replacement> = chosen.iter().map(|&i| &candidates[i]).collect();
                let changed: Option<Vec<TensorType>> = types.iter().map(|t| replaced(t, &choice)).collect();
                if let Some(results) = changed.and_then(|types| op.infer(&types).ok()) {
                    self.settled += count;
                    if self.settled > MOST {
                        return None;
                    }
                    apply(graph, &choice);
                    return Some(results);
                }
                if !next(&mut chosen, candidates.len()) {
                    break;
                }
            }
        }
        None
    }
}

/// A symbol and what it is equal to.
struct Replacement {
    symbol: String,
    by: Dim,
}

/// Whether a symbol stands for a dynamic dimension that has no other meaning, and which.
fn number(dim: &Dim) -> Option<u32> {
    dim.as_symbol()?.strip_prefix('d')?.parse().ok()
}

/// What a dynamic dimension of one operand may be equal to in another: first the dimensions at the
/// same place from either end, then the others, as in a mask over keys. The later symbol becomes the
/// other dimension.
fn candidates(types: &[TensorType]) -> Vec<Replacement> {
    const MOST_CANDIDATES: usize = 24;
    let mut found: Vec<Replacement> = Vec::new();
    let mut consider = |x: &Dim, y: &Dim| {
        let (from, to) = match (number(x), number(y)) {
            (Some(p), Some(q)) if p < q => (y, x),
            (Some(_), _) => (x, y),
            (None, Some(_)) => (y, x),
            (None, None) => return,
        };
        let Some(symbol) = from.as_symbol() else { return };
        let known = found.iter().any(|r: &Replacement| r.symbol == symbol && r.by == *to);
        if !to.symbols().contains(&symbol) && !known && found.len() < MOST_CANDIDATES {
            found.push(Replacement { symbol: symbol.to_owned(), by: to.clone() });
        }
    };
    let pairs = || types.iter().enumerate().flat_map(|(i, a)| types[i + 1..].iter().map(move |b| (a, b)));
    for (a, b) in pairs() {
        let (a, b) = (a.shape.dims(), b.shape.dims());
        a.iter().zip(b).chain(a.iter().rev().zip(b.iter().rev())).for_each(|(x, y)| consider(x, y));
    }
    for (a, b) in pairs() {
        for x in a.shape.dims() {
            b.shape.dims().iter().filter(|y| number(x).is_some() && number(y).is_some()).for_each(|y| consider(x, y));
        }
    }
    found
}

/// The next choice of as many among `n`, in order; false after the last.
fn next(chosen: &mut [usize], n: usize) -> bool {
    let count = chosen.len();
    for i in (0..count).rev() {
        if chosen[i] < n - count + i {
            chosen[i] += 1;
            for j in i + 1..count {
                chosen[j] = chosen[j - 1] + 1;
            }
            return true;
        }
    }
    false
}

/// `ty` with the symbols replaced one after another; `None` where a dimension overflows.
fn replaced(ty: &TensorType, choice: &[&Replacement]) -> Option<TensorType> {
    let dims: Option<Vec<Dim>> = ty
        .shape
        .dims()
        .iter()
        .map(|d| choice.iter().try_fold(d.clone(), |d, r| d.substitute(&r.symbol, &r.by)))
        .collect();
    Some(TensorType::new(ty.dtype, Shape::new(dims?)))
}

/// Every type of the graph changed. Results that were inferred before change as their operands do,
/// which the verifier checks in the end.
fn apply(graph: &mut Graph, choice: &[&Replacement]) {
    let touched: Vec<_> = graph
        .nodes()
        .filter(|&id| {
            let dims = |t: &TensorType| {
                t.shape.dims().iter().any(|d| choice.iter().any(|r| d.symbols().contains(&&*r.symbol)))
            };
            graph.node(id).results.iter().any(dims)
        })
        .collect();
    for id in touched {
        let results: Option<Vec<TensorType>> = graph.node(id).results.iter().map(|t| replaced(t, choice)).collect();
        if let Some(results) = results {
            graph.set_results(id, results);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::testing::f;

    fn settled(op: Op, types: &[TensorType]) -> Option<String> {
        let mut graph = Graph::new();
        for (i, t) in types.iter().enumerate() {
            graph.input(&format!("x{i}"), t.clone()).unwrap();
        }
        Unifier::default().settle(&mut graph, &op, types)?;
        Some(graph.inputs().map(|(_, v)| graph.ty(v).to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_fewest_symbols_become_equal() {
        assert_eq!(settled(Op::Add, &[f("d1, d2, 4"), f("d3, d4, 4")]).unwrap(), "f32[d1, d2, 4] f32[d1, d2, 4]");
        assert_eq!(settled(Op::Add, &[f("S, 4"), f("d2, 4")]).unwrap(), "f32[S, 4] f32[S, 4]");
        assert_eq!(settled(Op::Add, &[f("d1, 4"), f("7, 4")]).unwrap(), "f32[7, 4] f32[7, 4]");
        let attention = Op::Sdpa { heads: 2, kv_heads: 2, head_dim: 4, causal: false };
        let heads = [f("d1, 2, d2, 4"), f("d3, 2, d4, 4"), f("d5, 2, d6, 4")];
        // Queries may be of another number than keys, which are as many as values.
        assert_eq!(settled(attention, &heads).unwrap(), "f32[d1, 2, d2, 4] f32[d1, 2, d4, 4] f32[d1, 2, d4, 4]");
        // A mask lies over keys, which stand elsewhere in k.
        let masked = [f("d1, 2, d2, 4"), f("d1, 2, d2, 4"), f("d1, 2, d2, 4"), f("d5, 1, 1, d6")];
        let attention = Op::Sdpa { heads: 2, kv_heads: 2, head_dim: 4, causal: false };
        assert!(settled(attention, &masked).unwrap().ends_with("f32[d1, 1, 1, d2]"));
        assert_eq!(settled(Op::Add, &[f("S, 4"), f("T, 4")]), None);
        assert_eq!(settled(Op::Add, &[f("d1, 4"), f("d2, 5")]), None);
    }
}
