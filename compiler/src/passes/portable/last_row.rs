//! Last-token logits: computes an output for the last row of the sequence only.
//!
//! `out(f(x))` where every step of `f` treats rows on their own becomes `out(f(x[-1:]))`, with the
//! slice as far up as rows stay on their own and nothing else reads them. A vocabulary is wide: for
//! a prompt of hundreds of tokens this saves most of the work of the head.

use tallow_ir::{DType, Effect, Graph, IrError, NodeId, NodeKind, Op, SEQUENCE, Value};

/// The graph with output `name` cut down to its last row; `None` where that output does not
/// exist or is no `[S, …]` tensor, and where the graph reads no tokens and keeps no cache: its rows are
/// then no text, but perhaps the pictures of a batch.
pub fn last_row(graph: &Graph, name: &str) -> Result<Option<Graph>, IrError> {
    let Some(output) = graph.output_named(name) else { return Ok(None) };
    let stateful = |id| matches!(&graph.node(id).kind, NodeKind::Op(op) if op.info().effect == Effect::State);
    let text = graph.input_named("input_ids").is_some() || graph.nodes().any(stateful);
    if !text || !is_sequence(graph, output) {
        return Ok(None);
    }
    let mut g = graph.clone();
    // The nodes from the output upwards whose rows are on their own.
    let mut chain: Vec<NodeId> = Vec::new();
    let mut value = output;
    while let NodeKind::Op(op) = &g.node(value.node).kind
        && by_row(op)
        && let Some(&x) = g.operands(value.node).first()
        && is_sequence(&g, x)
        && others_are_vectors(&g, value.node)
        && readers(&g, value) == 1
    {
        chain.push(value.node);
        value = x;
    }
    let slice = Op::Slice { axis: 0, start: -1, end: i64::MAX };
    let mut cut = g.op(slice, &[value])?;
    for &node in chain.iter().rev() {
        g.set_operand(node, 0, cut)?;
        let NodeKind::Op(op) = g.node(node).kind.clone() else {
            continue;
        };
        let types: Vec<_> = g.operands(node).iter().map(|&v| g.ty(v).clone()).collect();
        let results = op.infer(&types).map_err(|source| IrError::Rule { op: op.name(), name: None, source })?;
        g.set_results(node, results);
        cut = Value { node, port: 0 };
    }
    g.replace_output(name, cut)?;
    Ok(Some(g))
}

/// Graph outputs and nodes that read a value.
fn readers(g: &Graph, value: Value) -> usize {
    g.readers(value).len() + g.outputs().filter(|(_, v)| *v == value).count()
}

fn is_sequence(g: &Graph, value: Value) -> bool {
    let ty = g.ty(value);
    ty.dtype == DType::F32 && ty.shape.rank() == 2 && ty.shape.dims()[0].as_symbol() == Some(SEQUENCE)
}

/// Whether every operand but the first is a weight, or holds no rows.
fn others_are_vectors(g: &Graph, node: NodeId) -> bool {
    g.operands(node)[1..]
        .iter()
        .all(|&v| matches!(g.node(v.node).kind, NodeKind::Weight(_)) || g.ty(v).shape.rank() < 2)
}

/// Operations that treat each row of their first operand on its own.
fn by_row(op: &Op) -> bool {
    matches!(
        op,
        Op::Matmul
            | Op::Add
            | Op::Mul
            | Op::MulScalar { .. }
            | Op::AddScalar { .. }
            | Op::Tanh
            | Op::RmsNorm { .. }
            | Op::LayerNorm { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::{Dim, Shape, TensorType};

    fn rows(width: i64) -> TensorType {
        TensorType::f32(Shape::new([Dim::symbol("S"), width.into()]))
    }

    fn with_ids() -> Graph {
        let mut g = Graph::new();
        g.input("input_ids", TensorType::i64(Shape::new([Dim::symbol("S")]))).unwrap();
        g
    }

    #[test]
    fn rows_that_are_no_tokens_all_stay() {
        let mut g = Graph::new();
        let x = g.input("x", rows(4)).unwrap();
        g.output("logits", x).unwrap();
        assert!(last_row(&g, "logits").unwrap().is_none());
    }

    #[test]
    fn slices_above_the_norm_and_keeps_types() {
        let mut g = with_ids();
        let x = g.input("x", rows(4)).unwrap();
        let h = g.op(Op::Silu, &[x]).unwrap();
        let gain = g.weight("g", TensorType::f32(Shape::fixed(&[4]))).unwrap();
        let n = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain]).unwrap();
        let w = g.weight("w", TensorType::f32(Shape::fixed(&[9, 4]))).unwrap();
        let y = g.op(Op::Matmul, &[n, w]).unwrap();
        g.output("logits", y).unwrap();
        let cut = last_row(&g, "logits").unwrap().unwrap();
        let (_, out) = cut.outputs().next().unwrap();
        assert_eq!(cut.ty(out).to_string(), "f32[1, 9]");
        let norm = cut.operands(out.node)[0];
        let slice = cut.operands(norm.node)[0];
        assert!(matches!(cut.node(slice.node).kind, NodeKind::Op(Op::Slice { .. })));
        assert_eq!(cut.operands(slice.node)[0], h);
    }

    #[test]
    fn stops_where_another_reader_needs_all_rows() {
        let mut g = with_ids();
        let x = g.input("x", rows(4)).unwrap();
        let t = g.op(Op::Tanh, &[x]).unwrap();
        let y = g.op(Op::MulScalar { value: 2.0.into() }, &[t]).unwrap();
        g.output("logits", y).unwrap();
        g.output("all", t).unwrap();
        let cut = last_row(&g, "logits").unwrap().unwrap();
        let types: Vec<_> = cut.outputs().map(|(_, v)| cut.ty(v).to_string()).collect();
        assert_eq!(types, ["f32[1, 4]", "f32[S, 4]"]);
    }
}
