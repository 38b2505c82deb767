//! Folds of invented graphs, each claim of which is checked against the graph.

use super::fold::{Fold, Item};
use super::kinds::{Meaning, Strides};
use super::listing::Listing;
use super::{Detail, dot, folded, json, mermaid};
use crate::{DType, Graph, Op, Shape, TensorType, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A number between 0 and `n`, from a state.
fn random(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % n
}

/// What is repeated: an operation, or a motif so many times.
enum Motif {
    Operation(usize),
    Times(usize, Vec<Motif>),
}

fn motif(state: &mut u64, depth: usize) -> Vec<Motif> {
    (0..1 + random(state, 4))
        .map(|_| match depth {
            0 => Motif::Operation(random(state, 7)),
            _ if random(state, 2) == 0 => Motif::Operation(random(state, 7)),
            _ => Motif::Times(1 + random(state, 5), motif(state, depth - 1)),
        })
        .collect()
}

/// Builds motifs, with a surprise now and then.
fn build(g: &mut Graph, motifs: &[Motif], values: &mut Vec<Value>, state: &mut u64, path: &str, odd: usize) {
    for (i, motif) in motifs.iter().enumerate() {
        match motif {
            Motif::Times(n, inner) => {
                for turn in 0..*n {
                    build(g, inner, values, state, &format!("{path}m{i}.{turn}."), odd);
                }
            }
            Motif::Operation(kind) => {
                let last = values[values.len() - 1];
                let before = values[values.len().saturating_sub(3)];
                let surprise = odd > 0 && random(state, odd) == 0;
                let other = if surprise { values[random(state, values.len())] } else { values[0] };
                let made = match kind {
                    0 => g.op(Op::Silu, &[if surprise { other } else { last }]),
                    1 => g.op(Op::Add, &[last, before]),
                    2 => g.op(Op::Mul, &[last, other]),
                    3 => {
                        let dtype =
                            if odd == 0 { DType::F32 } else { [DType::F32, DType::F16, DType::BF16][random(state, 3)] };
                        let w =
                            g.weight(&format!("{path}w{i}"), TensorType::new(dtype, Shape::fixed(&[4, 4]))).unwrap();
                        g.op(Op::Matmul, &[last, w])
                    }
                    4 => g.op(Op::AddScalar { value: (i as f32).into() }, &[before]),
                    5 => g.op(Op::Sub, &[before, last]),
                    _ => g.op(Op::Neg, &[last]),
                };
                let value = made.unwrap();
                if random(state, 3) == 0 {
                    g.name(value, if surprise { "odd".into() } else { format!("{path}v{i}") });
                }
                values.push(value);
            }
        }
    }
}

fn invented(seed: u64) -> Graph {
    let mut state = seed;
    let mut g = Graph::new();
    let x = g.input("x", TensorType::f32(Shape::fixed(&[4, 4]))).unwrap();
    let mut values = vec![x];
    let depth = 1 + random(&mut state, 3);
    let motifs = motif(&mut state, depth);
    let odd = [0, 0, 5, 40][random(&mut state, 4)];
    build(&mut g, &motifs, &mut values, &mut state, "", odd);
    let last = values[values.len() - 1];
    g.output("y", last).unwrap();
    g
}

/// Every place stands in the folded form once, itself or in a loop; and what a loop says is so.
fn check(fold: &Fold<'_>) {
    let listing = &fold.listing;
    let mut times = vec![0; listing.len()];
    let mut todo = vec![0];
    while let Some(group) = todo.pop() {
        for item in &fold.groups[group] {
            match item {
                Item::Operations(range) => range.clone().for_each(|place| times[place] += 1),
                Item::Group(group) => todo.push(*group),
                Item::Loop(at) => todo.extend(&fold.loops[*at].bodies),
            }
        }
    }
    // From the inside out: the other blocks of a kind are covered by the one that is printed.
    for l in fold.loops.iter().rev() {
        assert!(l.blocks.windows(2).all(|w| w[0].end == w[1].start && w[0].number < w[1].number));
        let mut members: Vec<usize> = l.kinds.iter().flat_map(|k| k.members.clone()).collect();
        members.sort_unstable();
        assert_eq!(members, (0..l.blocks.len()).collect::<Vec<_>>());
        for kind in &l.kinds {
            for &member in &kind.members {
                let block = l.blocks[member];
                assert_eq!(block.len(), kind.model.len());
                if block != kind.model {
                    (0..block.len()).for_each(|i| times[block.start + i] += times[kind.model.start + i]);
                }
            }
        }
        for kind in &l.kinds {
            kind.members.iter().for_each(|&member| claims(fold, l, kind, member));
        }
    }
    assert!(times.iter().all(|&n| n == 1), "{times:?}");
    encodings(fold);
}

/// Every printed weight has all encodings of those that it stands for, and each block those of its own.
fn encodings(fold: &Fold<'_>) {
    let listing = &fold.listing;
    let dtype = |place: usize, at: usize| {
        let value = fold.value_at(place, at);
        listing.weight(value).map(|_| listing.graph.ty(value).dtype)
    };
    // From the inside out: what each place of a block that is printed stands for.
    let mut stands: HashMap<(usize, usize), BTreeSet<DType>> = HashMap::new();
    for place in 0..listing.len() {
        for at in 0..listing.operands(place).len() {
            stands.insert((place, at), dtype(place, at).into_iter().collect());
        }
    }
    for (at, l) in fold.loops.iter().enumerate().rev() {
        for (k, kind) in l.kinds.iter().enumerate() {
            let told: HashMap<_, &BTreeMap<i64, Vec<DType>>> = fold.encodings.blocks((at, k)).collect();
            for offset in 0..kind.model.len() {
                let place = kind.model.start + offset;
                for operand in 0..listing.operands(place).len() {
                    let slot = kind.starts[offset] as usize + operand;
                    let usual = |m: &&usize| !kind.odd.iter().any(|o| (o.slot, o.member) == (slot, **m));
                    let mut all = BTreeSet::new();
                    for &member in kind.members.iter().filter(usual) {
                        let block = l.blocks[member];
                        let own = &stands[&(block.start + offset, operand)];
                        if l.depth == 0
                            && let Some(blocks) = told.get(&(place, operand))
                        {
                            assert_eq!(blocks[&block.number].iter().copied().collect::<BTreeSet<_>>(), *own);
                        }
                        all.extend(own);
                    }
                    stands.insert((place, operand), all);
                }
            }
        }
    }
    for (place, &shown) in fold.shown.iter().enumerate().filter(|(place, shown)| place == *shown) {
        for at in 0..listing.operands(shown).len() {
            let all = &stands[&(place, at)];
            let told = fold.encodings.several(place, at).unwrap_or_default();
            let want = if all.len() > 1 { all.clone() } else { BTreeSet::new() };
            assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), want, "{place} {at}");
        }
    }
}

fn claims(fold: &Fold<'_>, l: &super::fold::Loop, kind: &super::kinds::Kind, member: usize) {
    let (graph, listing) = (fold.listing.graph, &fold.listing);
    let block = l.blocks[member];
    let mut slot = 0;
    for offset in 0..block.len() {
        let (own, model) = (listing.node(block.start + offset), listing.node(kind.model.start + offset));
        assert_eq!(graph.node(own).kind, graph.node(model).kind);
        assert_eq!(graph.node(own).results, graph.node(model).results);
        let reads = listing.operands(block.start + offset).len();
        for at in 0..reads + listing.results(block.start + offset) {
            let value = fold.value_at(block.start + offset, at);
            let said = &kind.slots[slot];
            let odd = kind.odd.iter().find(|o| (o.member, o.slot) == (member, slot));
            slot += 1;
            if let Some(odd) = odd {
                assert_eq!(odd.value, value);
                continue;
            }
            if at >= reads {
                continue;
            }
            match said.meaning() {
                Meaning::Inside(operation, port) => {
                    assert_eq!(value, listing.result(block.start + operation as usize, port as usize));
                }
                Meaning::Back(back) => {
                    let from = l.blocks[member - back.turns as usize];
                    assert_eq!(value, listing.result(from.end - back.from_end as usize, back.port as usize));
                }
                Meaning::Value(same) if same == value => {}
                Meaning::Value(base) => {
                    let turns = block.number - kind.model.number;
                    let (base, name) = (listing.name(base).unwrap(), listing.name(value).unwrap());
                    let Strides::Even(strides) = &said.growth else { panic!("{base} is not {name}") };
                    assert!(super::names::grows(base, name, turns, strides), "{base} {name} {strides:?}");
                }
            }
        }
    }
}

#[test]
fn folds_say_what_is_so() {
    let (mut loops, mut odd, mut inner, mut kinds, mut mixed) = (0, 0, 0, 0, 0);
    for seed in 0..2000 {
        let g = invented(seed);
        let fold = Fold::new(Listing::new(&g));
        check(&fold);
        loops += fold.loops.len();
        odd += fold.loops.iter().flat_map(|l| &l.kinds).filter(|k| !k.odd.is_empty()).count();
        inner += fold.loops.iter().filter(|l| l.depth > 0).count();
        kinds += fold.loops.iter().filter(|l| l.kinds.len() > 1).count();
        for place in 0..fold.listing.len() {
            let operands = 0..fold.listing.operands(place).len();
            mixed += operands.filter(|&at| fold.encodings.several(place, at).is_some()).count();
        }
    }
    // The invented graphs are of use only if they have all of it.
    let enough = loops > 500 && odd > 100 && inner > 20 && kinds > 20 && mixed > 100;
    assert!(enough, "{loops} {odd} {inner} {kinds} {mixed}");
}

#[test]
fn every_form_is_the_same_each_time_and_survives_any_graph() {
    for seed in 0..200 {
        let g = invented(seed);
        assert_eq!(folded(&g), folded(&invented(seed)));
        assert_eq!(json(&g), json(&invented(seed)));
        for detail in [Detail::Folded, Detail::Full] {
            assert_eq!(dot(&g, detail), dot(&invented(seed), detail));
            let drawn = mermaid(&g, detail);
            let frames = |word: &str| drawn.lines().filter(|l| l.trim_start().starts_with(word)).count();
            assert_eq!(frames("subgraph "), frames("end"));
        }
    }
    assert!(folded(&Graph::new()).starts_with("// nothing repeats"));
    assert!(dot(&Graph::new(), Detail::Folded).ends_with("}\n"));
}
