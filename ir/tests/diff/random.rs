//! Properties that hold for all graphs and edits.

use crate::common;
use crate::edits::{Item, Plan};
use proptest::prelude::*;
use tallow_ir::diff::{Diff, diff};
use tallow_ir::{Graph, NodeKind, Op, Shape, TensorType};

/// Numbers that follow from one.
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) as usize % below.max(1)
    }
}

/// A net of operations on vectors, all of one type, some of which read weights.
pub fn net(seed: u64, nodes: usize) -> Plan {
    let mut next = numbers(seed);
    let ty = TensorType::f32(Shape::fixed(&[8]));
    let item = |kind, operands| Item { kind, operands, results: vec![ty.clone()], name: None };
    let mut items = vec![item(NodeKind::Input("x".into()), vec![]), item(NodeKind::Input("y".into()), vec![])];
    let mut values = vec![0, 1];
    while items.len() < nodes {
        // Mostly recent values, sometimes old ones.
        let mut pick = |values: &[usize]| {
            let back = if next(5) == 0 { values.len() } else { 4 };
            values[values.len() - 1 - next(back.min(values.len()))]
        };
        let (a, b) = (pick(&values), pick(&values));
        let op = random_op(&mut next);
        let operands = match binary(&op) {
            true if next(4) == 0 => {
                items.push(item(NodeKind::Weight(format!("w.{}", items.len())), vec![]));
                vec![(a, 0), (items.len() - 1, 0)]
            }
            true => vec![(a, 0), (b, 0)],
            false => vec![(a, 0)],
        };
        values.push(items.len());
        items.push(item(NodeKind::Op(op), operands));
    }
    let mut plan = Plan { items, outputs: Vec::new() };
    // Whatever nothing reads goes into the output, or is an output.
    let mut open: Vec<usize> =
        values.into_iter().filter(|&v| !plan.items.iter().any(|i| i.operands.contains(&(v, 0)))).collect();
    while let [a, b, ..] = open[..] {
        open.drain(..2);
        open.push(plan.items.len());
        plan.items.push(item(NodeKind::Op(Op::Add), vec![(a, 0), (b, 0)]));
    }
    plan.outputs.push(("out".into(), open[0], 0));
    plan
}

fn random_op(next: &mut impl FnMut(usize) -> usize) -> Op {
    match next(10) {
        0 => Op::Silu,
        1 => Op::Neg,
        2 => Op::Exp,
        3 => Op::AddScalar { value: (next(3) as f32).into() },
        4 => Op::Tanh,
        5 => Op::Sub,
        6 => Op::Div,
        7 => Op::Mul,
        _ => Op::Add,
    }
}

fn binary(op: &Op) -> bool {
    matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div)
}

/// One random edit at an operation; what it was, if it could be done.
fn edit(plan: &mut Plan, at: usize, next: &mut impl FnMut(usize) -> usize) -> Option<&'static str> {
    let NodeKind::Op(op) = plan.items[at].kind.clone() else { return None };
    match next(6) {
        0 => {
            plan.items[at].kind = NodeKind::Op(match op {
                Op::Add | Op::Mul => Op::Div,
                Op::Sub | Op::Div => Op::Mul,
                Op::AddScalar { .. } => Op::AddScalar { value: 77.0.into() },
                _ => Op::Sigmoid,
            });
            Some("another operation")
        }
        1 if plan.items[at].operands.len() == 2 && plan.items[at].operands[0] != plan.items[at].operands[1] => {
            plan.items[at].operands.swap(0, 1);
            Some("swapped operands")
        }
        2 => {
            plan.insert(at, Op::MulScalar { value: 3.0.into() }, None);
            Some("inserted")
        }
        3 => {
            let only = plan.items.iter().position(|i| i.operands.contains(&(at, 0)))?;
            plan.insert(at, Op::Sqrt, Some(only));
            Some("inserted before one reader")
        }
        4 if !matches!(plan.items[plan.items[at].operands[0].0].kind, NodeKind::Weight(_)) => {
            let all: Vec<usize> = plan.items[at].operands.iter().map(|o| o.0).collect();
            let others_read = all[1..].iter().all(|o| {
                matches!(plan.items[*o].kind, NodeKind::Weight(_))
                    || plan.items.iter().enumerate().any(|(i, item)| i != at && item.operands.iter().any(|p| p.0 == *o))
            });
            if !others_read {
                return None;
            }
            plan.remove(at);
            Some("removed")
        }
        5 => {
            let to = next(at.max(1));
            let number = next(plan.items[at].operands.len());
            let had = plan.items[at].operands[number];
            let read = plan.items.iter().enumerate().any(|(i, item)| i != at && item.operands.contains(&had));
            if had.0 == to || !read || plan.needs(to, at) || matches!(plan.items[to].kind, NodeKind::Weight(_)) {
                return None;
            }
            plan.items[at].operands[number] = (to, 0);
            Some("reads another value")
        }
        _ => None,
    }
}

fn texts(d: &Diff) -> Vec<&str> {
    d.entries.iter().map(|e| e.text.as_str()).collect()
}

/// Pairs, removed and added nodes, and entries.
type Found = (Vec<(usize, usize)>, Vec<usize>, Vec<usize>, Vec<String>);

/// What of a difference must be the mirror image of that from the other side.
fn mirror(d: &Diff) -> Found {
    let mut pairs: Vec<(usize, usize)> = d.pairs.iter().map(|p| (p.left.index(), p.right.index())).collect();
    pairs.sort_unstable();
    let ids = |ids: &[tallow_ir::NodeId]| {
        let mut ids: Vec<usize> = ids.iter().map(|id| id.index()).collect();
        ids.sort_unstable();
        ids
    };
    let spots = |e: &tallow_ir::diff::Entry| {
        let mut spots: Vec<_> = e.spots.iter().map(|s| (ids(&s.left), ids(&s.right))).collect();
        spots.sort();
        format!("{spots:?}")
    };
    let mut entries: Vec<String> = d.entries.iter().map(spots).collect();
    entries.sort_unstable();
    (pairs, ids(&d.removed), ids(&d.added), entries)
}

fn flipped(d: &Diff) -> Diff {
    let mut out = d.clone();
    for p in &mut out.pairs {
        std::mem::swap(&mut p.left, &mut p.right);
    }
    for s in out.entries.iter_mut().flat_map(|e| &mut e.spots) {
        std::mem::swap(&mut s.left, &mut s.right);
    }
    std::mem::swap(&mut out.removed, &mut out.added);
    out
}

fn shuffled(plan: &Plan, seed: u64) -> Graph {
    let mut next = numbers(seed);
    plan.build(&mut next, false)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_is_equal_to_itself_in_another_order(seed in any::<u64>(), bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for plan in [net(seed, 10 + (seed % 120) as usize), Plan::of(&common::random(&bytes))] {
            let (a, b) = (plan.plain(), shuffled(&plan, seed));
            let d = diff(&a, &b).unwrap();
            prop_assert!(d.is_equal(), "{:#?}\n{}", texts(&d), a);
            prop_assert_eq!((d.removed.len(), d.added.len()), (0, 0));
            prop_assert!(d.pairs.iter().all(|p| p.changes.is_empty()));
        }
    }

    #[test]
    fn edits_are_seen_and_mirrored(seed in any::<u64>(), edits in 1usize..4) {
        let mut next = numbers(seed);
        let plan = net(seed, 20 + next(100));
        let mut other = plan.clone();
        let mut done = Vec::new();
        for _ in 0..edits {
            let at = next(other.items.len());
            done.extend(edit(&mut other, at, &mut next).map(|what| format!("{what} at {at}")));
        }
        let (a, b) = (plan.plain(), shuffled(&other, seed));
        let (there, back) = (diff(&a, &b).unwrap(), diff(&b, &a).unwrap());
        // Without shuffling, as that equality takes the order of inputs for a difference.
        prop_assert_eq!(there.is_equal(), tallow_ir::graphs_equal(&a, &other.plain()), "{:?}", done);
        prop_assert_eq!(mirror(&there), mirror(&flipped(&back)));
    }

    #[test]
    fn any_two_graphs_have_a_difference(
        x in proptest::collection::vec(any::<u8>(), 0..400),
        y in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let (a, b) = (common::random(&x), common::random(&y));
        let (there, back) = (diff(&a, &b).unwrap(), diff(&b, &a).unwrap());
        prop_assert_eq!(there.is_equal(), tallow_ir::graphs_equal(&a, &b));
        prop_assert_eq!(mirror(&there), mirror(&flipped(&back)));
    }
}

/// One entry an edit at most, as long as edits do not run into each other: in nets as random as these a few do.
#[test]
fn edits_are_no_more_entries_than_edits() {
    for edits in 1..4 {
        let mut over = 0;
        for seed in 0..500u64 {
            let mut next = numbers(seed * 3 + edits);
            let plan = net(seed, 20 + next(100));
            let mut other = plan.clone();
            let done = (0..edits).filter(|_| {
                let at = next(other.items.len());
                edit(&mut other, at, &mut next).is_some()
            });
            let done = done.count();
            let found = diff(&plan.plain(), &shuffled(&other, seed)).unwrap();
            over += usize::from(found.entries.iter().map(|e| e.count()).sum::<usize>() > done);
        }
        assert!(over <= 3, "{over} of 500 with {edits} edits");
    }
}
