//! One test a rule, and how violations are shown.

use super::*;
use crate::{Dim, Shape};

fn x(g: &mut Graph) -> Value {
    let s = Dim::symbol("S");
    g.input("x", TensorType::f32(Shape::new([s, 4.into()]))).unwrap()
}

fn rules(g: Graph) -> Vec<Rule> {
    let mut rules: Vec<Rule> = verify(g).expect_err("a bad graph").violations.iter().map(|v| v.rule).collect();
    rules.dedup();
    rules
}

#[test]
fn a_sound_graph_passes_and_comes_back() {
    let mut g = Graph::new();
    let x = x(&mut g);
    let y = g.op(Op::Add, &[x, x]).unwrap();
    g.output("y", y).unwrap();
    let verified = verify(g).unwrap();
    assert_eq!(verified.graph().len(), 2);
    assert_eq!(verified.into_inner().len(), 2);
}

#[test]
fn every_violation_is_shown_with_a_caret() {
    let mut g = Graph::new();
    let x = x(&mut g);
    let w = g.weight("w", TensorType::f32(Shape::fixed(&[8, 5]))).unwrap();
    let y = g.op_unchecked(Op::Matmul, &[x, w], vec![TensorType::f32(Shape::fixed(&[3, 8]))]);
    let z = g.op_unchecked(Op::Silu, &y, vec![TensorType::f32(Shape::fixed(&[3]))]);
    let v = g.op_unchecked(Op::Softmax { dim: 7 }, &z, vec![TensorType::f32(Shape::fixed(&[3]))]);
    g.name(y[0], "y");
    g.output("v", v[0]).unwrap();
    let error = verify(g).expect_err("three faults");
    assert_eq!(
        error.to_string(),
        "the graph is not valid, 3 violations:
  rule: node 2 Matmul %y: the last dimension of W is 5, expected 4
    %y: f32[3, 8] = Matmul(%x, %w)
                               ^^
  types: node 3 Silu %0: the recorded type is f32[3], the operation gives f32[3, 8]
    %0: f32[3] = Silu(%y)
        ^^^^^^
  rule: node 4 Softmax %1: dimension 7 does not exist in shape [3]
    %1: f32[3] = Softmax(%0) { dim = 7 }
                 ^^^^^^^"
    );
}

#[test]
fn each_rule_is_checked() {
    let f32x = |dims: &[i64]| TensorType::f32(Shape::fixed(dims));
    // Outputs.
    let mut g = Graph::new();
    x(&mut g);
    assert_eq!(rules(g), [Rule::Outputs]);
    // Arity, of operands and of results.
    let mut g = Graph::new();
    let v = x(&mut g);
    let y = g.op_unchecked(Op::Add, &[v], vec![]);
    assert!(y.is_empty());
    g.output("y", v).unwrap();
    assert_eq!(rules(g), [Rule::Arity]);
    // Operand numbers.
    let mut g = Graph::new();
    let v = x(&mut g);
    let y = g.op(Op::Add, &[v, v]).unwrap();
    g.connect(y.node, 5, v);
    g.output("y", y).unwrap();
    assert_eq!(rules(g), [Rule::Operands, Rule::Arity]);
    let mut g = Graph::new();
    let v = x(&mut g);
    let y = g.op_unchecked(Op::Neg, &[], vec![f32x(&[4])])[0];
    g.connect(y.node, 3, v);
    g.output("y", y).unwrap();
    assert_eq!(rules(g), [Rule::Operands]);
    // A result that its producer does not have, read and as an output.
    let mut g = Graph::new();
    let v = x(&mut g);
    let y = g.op(Op::Neg, &[v]).unwrap();
    let z = g.op(Op::Neg, &[y]).unwrap();
    g.output("y", y).unwrap();
    g.output("z", z).unwrap();
    g.set_results(y.node, vec![]);
    let error = verify(g).expect_err("bad");
    let found: Vec<Rule> = error.violations.iter().map(|v| v.rule).collect();
    assert_eq!(found, [Rule::Outputs, Rule::Arity, Rule::Operands]);
    // Dimensions.
    let mut g = Graph::new();
    let a = g.input("a", f32x(&[-1])).unwrap();
    let b = g.weight("b", TensorType::f32(Shape::new([Dim::symbol("odd name")]))).unwrap();
    let c = g.input("c", f32x(&[1; MAX_RANK + 1])).unwrap();
    for (name, v) in [("a", a), ("b", b), ("c", c)] {
        g.output(name, v).unwrap();
    }
    let error = verify(g).expect_err("bad");
    assert_eq!(error.violations.len(), 3);
    assert!(error.violations.iter().all(|v| v.rule == Rule::Dimensions));
    // Types: a pass forgot to update them.
    let mut g = Graph::new();
    let v = x(&mut g);
    let y = g.op(Op::Neg, &[v]).unwrap();
    g.set_results(v.node, vec![f32x(&[9])]);
    g.output("y", y).unwrap();
    assert_eq!(rules(g), [Rule::Types]);
}

#[test]
fn each_knot_of_cycles_is_reported_once() {
    let mut g = Graph::new();
    let v = x(&mut g);
    let knot = |g: &mut Graph| {
        let a = g.op(Op::Add, &[v, v]).unwrap();
        let b = g.op(Op::Neg, &[a]).unwrap();
        let c = g.op(Op::Exp, &[b]).unwrap();
        g.set_operand(a.node, 1, c).unwrap();
        c
    };
    let (c, d) = (knot(&mut g), knot(&mut g));
    let after = g.op(Op::Add, &[c, d]).unwrap();
    let own = g.op(Op::Add, &[after, after]).unwrap();
    g.set_operand(own.node, 0, own).unwrap();
    g.output("y", own).unwrap();
    assert!(g.topological().is_none());
    let error = verify(g).expect_err("cycles");
    assert_eq!(error.violations.len(), 3, "{error}");
    assert!(error.violations.iter().all(|v| v.rule == Rule::Acyclic));
    assert!(error.to_string().contains("node 1 Add, node 3 Exp, node 2 Neg, node 1"), "{error}");
}

#[test]
fn a_long_statement_is_cut() {
    let mut g = Graph::new();
    let v = x(&mut g);
    let many = vec![v; 5000];
    let y = g.op_unchecked(Op::Concat { axis: 3 }, &many, vec![g.ty(v).clone()]);
    g.output("y", y[0]).unwrap();
    let error = verify(g).expect_err("bad axis");
    assert!(error.violations[0].line.len() <= 2000);
    assert!(error.to_string().len() < 1000);
}
