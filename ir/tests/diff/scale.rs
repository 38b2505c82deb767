//! Large graphs: what is found, not how long it takes.

use crate::common;
use crate::decoder::{Edit, Names, Weights, decoder};
use tallow_ir::diff::diff;
use tallow_ir::{Graph, IrError, Op, Value};

#[test]
fn three_edits_in_a_long_chain() {
    let a = common::chain(40_000);
    let mut b = common::chain(40_000);
    let scalars: Vec<_> =
        b.nodes().filter(|&id| matches!(b.node(id).kind, tallow_ir::NodeKind::Op(Op::Silu))).collect();
    // An operation between two, at three places.
    for part in 1..4 {
        let at = Value { node: scalars[scalars.len() / 4 * part], port: 0 };
        let readers = b.readers(at);
        let new = b.op(Op::Neg, &[at]).unwrap();
        readers.into_iter().for_each(|(node, number)| b.set_operand(node, number, new).unwrap());
    }
    let found = diff(&a, &b).unwrap();
    assert_eq!(found.entries.len(), 1, "{}", found.text());
    assert_eq!((found.entries[0].count(), found.added.len(), found.removed.len()), (3, 3, 0));
    assert_eq!(found.pairs.len(), a.len());
}

#[test]
fn a_thousand_equal_layers() {
    let every: Vec<usize> = (0..1000).collect();
    for weights in [Weights::Layers, Weights::Shared, Weights::None] {
        let a = decoder(1000, &[], Names::None, weights);
        for (at, places) in [(&every[..], 1000), (&[500], 1), (&[3, 4, 700], 3)] {
            let b = decoder(1000, &[(Edit::Activation, at)], Names::None, weights);
            let found = diff(&a, &b).unwrap();
            assert_eq!((found.entries.len(), found.entries[0].count()), (1, places), "{weights:?} {}", found.text());
        }
        // One more of them is one entry, wherever it is said to be.
        let b = decoder(1001, &[], Names::None, weights);
        let found = diff(&a, &b).unwrap();
        assert_eq!((found.entries.len(), found.removed.len()), (1, 0), "{weights:?} {}", found.text());
    }
}

#[test]
fn one_value_with_many_readers() {
    let make = |op: fn(usize) -> Op| {
        let mut g = Graph::new();
        let x = g.input("x", common::f("8")).unwrap();
        let parts: Vec<Value> = (0..20_000).map(|i| g.op(op(i), &[x]).unwrap()).collect();
        let all = g.op(Op::Concat { axis: 0 }, &parts).unwrap();
        g.output("y", all).unwrap();
        g
    };
    let (a, b) = (make(|_| Op::Neg), make(|i| if i == 9_000 { Op::Exp } else { Op::Neg }));
    let found = diff(&a, &b).unwrap();
    assert_eq!(found.entries.len(), 1);
    assert_eq!(found.entries[0].text, "Neg becomes Exp");
    assert!(diff(&a, &a).unwrap().is_equal());
    assert_eq!(diff(&a, &make(|_| Op::Exp)).unwrap().entries.len(), 1);
}

#[test]
fn cycles_are_refused() {
    let mut g = Graph::new();
    let x = g.input("x", common::f("8")).unwrap();
    let a = g.op(Op::Neg, &[x]).unwrap();
    let b = g.op(Op::Exp, &[a]).unwrap();
    g.set_operand(a.node, 0, b).unwrap();
    g.output("y", b).unwrap();
    let sound = common::chain(3);
    for (left, right) in [(&g, &sound), (&sound, &g)] {
        let error = diff(left, right).unwrap_err();
        assert!(matches!(error, IrError::Cycle { .. }));
        assert!(error.to_string().contains("node 1 Neg"), "{error}");
    }
}
