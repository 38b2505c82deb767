//! Inputs, outputs, types and symbols.

use crate::common::f;
use tallow_ir::diff::{Change, Kind, diff};
use tallow_ir::{DType, Graph, Op, TensorType, Value};

/// `y = x · Wᵀ + b` over rows of the size that `dims` says.
fn model(dims: [&str; 2], build: impl Fn(&mut Graph, [Value; 2])) -> Graph {
    let mut g = Graph::new();
    let x = g.input("x", f(dims[0])).unwrap();
    let m = g.input("mask", f(dims[1])).unwrap();
    build(&mut g, [x, m]);
    g
}

fn plain(dims: [&str; 2]) -> Graph {
    model(dims, |g, [x, m]| {
        let w = g.weight("w", TensorType::new(DType::Q8, crate::common::shape("8, 8"))).unwrap();
        let y = g.op(Op::Matmul, &[x, w]).unwrap();
        let z = g.op(Op::Softmax { dim: -1 }, &[m]).unwrap();
        let both = g.op(Op::Concat { axis: 0 }, &[y, z]).unwrap();
        g.output("y", both).unwrap();
        g.output("z", z).unwrap();
    })
}

fn texts(a: &Graph, b: &Graph) -> Vec<String> {
    diff(a, b).unwrap().entries.into_iter().map(|e| e.text).collect()
}

#[test]
fn symbols_that_are_renamed_alike_are_the_same() {
    let a = plain(["S, 8", "T, 8"]);
    assert_eq!(texts(&a, &plain(["N, 8", "M, 8"])), [""; 0]);
    assert_eq!(texts(&a, &plain(["T, 8", "S, 8"])), [""; 0]);
    // Two that become one are another computation, once.
    assert_eq!(texts(&a, &plain(["S, 8", "S, 8"])), ["input mask: [T, 8] becomes [S, 8]"]);
    assert_eq!(texts(&plain(["S, 8", "S, 8"]), &a), ["input mask: [S, 8] becomes [T, 8]"]);
    assert_eq!(texts(&a, &plain(["4, 8", "T, 8"])), ["input x: [S, 8] becomes [4, 8]"]);
}

#[test]
fn what_follows_from_a_type_is_no_entry_but_is_told_of_the_pairs() {
    let found = diff(&plain(["S, 8", "T, 8"]), &plain(["4, 8", "T, 8"])).unwrap();
    let follows =
        found.pairs.iter().flat_map(|p| &p.changes).filter(|c| matches!(c, Change::Type { follows: true, .. }));
    assert_eq!(follows.count(), 2);
    assert_eq!(found.pairs.iter().filter(|p| p.is_changed()).count(), 1);
}

#[test]
fn inputs_and_outputs_come_go_and_change() {
    let a = plain(["S, 8", "T, 8"]);
    let renamed = model(["S, 8", "T, 8"], |g, [x, m]| {
        let w = g.weight("w", TensorType::new(DType::Q8, crate::common::shape("8, 8"))).unwrap();
        let y = g.op(Op::Matmul, &[x, w]).unwrap();
        let z = g.op(Op::Softmax { dim: -1 }, &[m]).unwrap();
        let both = g.op(Op::Concat { axis: 0 }, &[y, z]).unwrap();
        g.output("y", both).unwrap();
        g.output("probabilities", z).unwrap();
    });
    let found = diff(&a, &renamed).unwrap();
    assert_eq!(found.entries[0].text, "output z is now called probabilities");
    assert_eq!((found.entries.len(), found.entries[0].kind), (1, Kind::Output));
    let fewer = model(["S, 8", "T, 8"], |g, [x, m]| {
        let w = g.weight("w", TensorType::new(DType::Q8, crate::common::shape("8, 8"))).unwrap();
        let y = g.op(Op::Matmul, &[x, w]).unwrap();
        let z = g.op(Op::Softmax { dim: -1 }, &[m]).unwrap();
        let both = g.op(Op::Concat { axis: 0 }, &[y, z]).unwrap();
        g.output("y", both).unwrap();
    });
    assert_eq!(texts(&a, &fewer), ["output z is gone"]);
    assert_eq!(texts(&fewer, &a), ["output z is new"]);
    let mut other = plain(["S, 8", "T, 8"]);
    let m = other.input_named("mask").unwrap();
    other.replace_output("z", m).unwrap();
    assert_eq!(texts(&a, &other), ["output z: is mask and not the result of Softmax"]);
    let mut more = plain(["S, 8", "T, 8"]);
    more.input("spare", f("8")).unwrap();
    assert_eq!(texts(&a, &more), ["input spare is new"]);
    assert_eq!(texts(&more, &a), ["input spare is gone"]);
    // Weights that nothing reads say nothing about the computation.
    more = plain(["S, 8", "T, 8"]);
    more.weight("spare", f("8")).unwrap();
    assert_eq!(texts(&a, &more), [""; 0]);
}

#[test]
fn an_optional_operand_comes_with_its_weight() {
    let make = |bias: bool| {
        let mut g = Graph::new();
        let x = g.input("x", f("1, 4, 8")).unwrap();
        let w = g.weight("conv.weight", f("4, 4, 3")).unwrap();
        let b = g.weight("conv.bias", f("4")).unwrap();
        let op = Op::Conv1d { kernel: 3, stride: 1, padding: 1, dilation: 1, groups: 1 };
        let y = g.op(op, &[x, w, b][..if bias { 3 } else { 2 }]).unwrap();
        g.output("y", y).unwrap();
        g
    };
    assert_eq!(texts(&make(true), &make(false)), ["Conv1d: no operand b any more (conv.bias)"]);
    assert_eq!(texts(&make(false), &make(true)), ["Conv1d: new operand b (conv.bias)"]);
}

#[test]
fn empty_graphs() {
    let (empty, full) = (Graph::new(), plain(["S, 8", "T, 8"]));
    assert!(diff(&empty, &empty).unwrap().is_equal());
    assert!(!diff(&empty, &full).unwrap().is_equal());
    assert!(!diff(&full, &empty).unwrap().is_equal());
}
