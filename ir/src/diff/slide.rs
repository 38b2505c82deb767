//! Which one of several equal operations in a chain is gone: of `Exp(Exp(x))` against `Exp(x)` the one that leaves the
//! fewest readers with another value.

use super::matching::Matching;
use super::side::{NONE, Side};

/// Nodes with more readers stay as they are.
const MOST_READERS: usize = 32;

/// Goes through the nodes of `a` without a partner, and lets each change places with an equal neighbour that has one, as
/// long as fewer operands differ for it. Each step makes them fewer, so it ends; linear in nodes without a partner and
/// steps.
pub(super) fn slide(a: &Side<'_>, b: &Side<'_>, matching: &mut Matching) {
    let mut open: Vec<u32> = matching.unmatched_left().filter(|&n| a.item(n).is_op()).collect();
    open.reverse();
    while let Some(node) = open.pop() {
        let label = a.labels[node as usize];
        let neighbours = a.operands(node).iter().chain(a.readers(node).iter().take(MOST_READERS)).map(|l| l.node);
        let equal = |&m: &u32| a.labels[m as usize] == label && matching.to_right[m as usize] != NONE;
        let mut neighbours: Vec<u32> = neighbours.filter(equal).collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        let mut best: Option<(usize, u32)> = None;
        for m in neighbours {
            let Some(around) = around(a, b, matching, node, m) else { continue };
            let before = cost(a, b, matching, &around);
            exchange(matching, m, node);
            let after = cost(a, b, matching, &around);
            exchange(matching, node, m);
            if after < before && best.is_none_or(|(gain, _)| before - after > gain) {
                best = Some((before - after, m));
            }
        }
        if let Some((_, m)) = best {
            exchange(matching, m, node);
            open.push(m);
        }
    }
}

/// Gives the partner of one node to another that has none.
fn exchange(matching: &mut Matching, from: u32, to: u32) {
    let partner = std::mem::replace(&mut matching.to_right[from as usize], NONE);
    matching.to_right[to as usize] = partner;
    matching.to_left[partner as usize] = to;
}

/// The nodes whose operands an exchange can make other ones; `None` where there are many.
fn around(a: &Side<'_>, b: &Side<'_>, matching: &Matching, node: u32, m: u32) -> Option<Vec<u32>> {
    let there = b.readers(matching.to_right[m as usize]);
    if [a.readers(node), a.readers(m), there].iter().any(|readers| readers.len() > MOST_READERS) {
        return None;
    }
    let here = a.readers(node).iter().chain(a.readers(m)).map(|r| r.node);
    let back = there.iter().map(|r| matching.to_left[r.node as usize]).filter(|&n| n != NONE);
    let mut out: Vec<u32> = here.chain(back).chain([node, m]).collect();
    out.sort_unstable();
    out.dedup();
    Some(out)
}

/// How many operands of nodes differ by themselves: not only because what one of them reads has no partner.
fn cost(a: &Side<'_>, b: &Side<'_>, matching: &Matching, nodes: &[u32]) -> usize {
    let of = |&x: &u32| {
        let y = matching.to_right[x as usize];
        if y == NONE {
            return 0;
        }
        let (left, right) = (a.operands(x), b.operands(y));
        let pairs = left.iter().zip(right);
        let differ = pairs.filter(|(v, w)| {
            let (p, q) = (matching.to_right[v.node as usize], matching.to_left[w.node as usize]);
            p != NONE && q != NONE && (p != w.node || v.port != w.port)
        });
        differ.count()
    };
    nodes.iter().map(of).sum()
}
