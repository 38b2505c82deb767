//! The graph of a call that holds one token: the sequence length is 1 in every type.
//!
//! Where the length is known, moves of rows are no moves any more; the passes that follow find that out.

use tallow_ir::{Dim, Effect, Graph, IrError, NodeKind, SEQUENCE, Shape, TensorType};

/// The graph with one token in each call; `None` where it keeps no cache, or takes no `input_ids` of open length: it
/// then continues no text token by token.
///
/// # Errors
/// None for a verified graph.
pub fn for_one_token(graph: &Graph) -> Result<Option<Graph>, IrError> {
    let stateful = |id| matches!(&graph.node(id).kind, NodeKind::Op(op) if op.info().effect == Effect::State);
    let is_open = |ty: &TensorType| ty.shape.dims().iter().any(|d| d.as_symbol() == Some(SEQUENCE));
    let reads_tokens = graph.input_named("input_ids").is_some_and(|v| is_open(graph.ty(v)));
    if !reads_tokens || !graph.nodes().any(stateful) {
        return Ok(None);
    }
    let Some(order) = graph.topological() else { return Ok(None) };
    let mut g = graph.clone();
    for id in order {
        let results = match &graph.node(id).kind {
            NodeKind::Input(_) => {
                let ty = &graph.node(id).results[0];
                let dims: Option<Vec<Dim>> =
                    ty.shape.dims().iter().map(|d| d.substitute(SEQUENCE, &Dim::constant(1))).collect();
                let Some(dims) = dims else { return Ok(None) };
                vec![TensorType::new(ty.dtype, Shape::new(dims))]
            }
            NodeKind::Weight(_) => continue,
            NodeKind::Op(op) => {
                let types: Vec<TensorType> = g.operands(id).iter().map(|&v| g.ty(v).clone()).collect();
                // An operation that wants more than one token has no such form.
                match op.infer(&types) {
                    Ok(results) => results,
                    Err(_) => return Ok(None),
                }
            }
        };
        if g.node(id).results != results {
            g.set_results(id, results);
        }
    }
    Ok(Some(g))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::{text, verify::verify};

    fn graph(statements: &str) -> Graph {
        verify(text::parse(&format!("graph {{\n{statements}\n}}")).unwrap()).unwrap().into_inner()
    }

    #[test]
    fn types_hold_one_token_and_the_past() {
        let g = graph(
            "input %input_ids: i64[S]
             weight %e = \"e\": f32[9, 8]
             %h: f32[S, 8] = TokenEmbed(%input_ids, %e)
             %k: f32[P + S, 8], %v: f32[P + S, 8] = KvCache(%h, %h)
             %y: f32[S, 8] = SdpaCross(%h, %k, %v) { heads = 2, head_dim = 4 }
             output logits = %y",
        );
        let one = verify(for_one_token(&g).unwrap().unwrap()).unwrap();
        let text = text::print(one.graph());
        assert!(text.contains("%k: f32[P + 1, 8]") && text.contains("%y: f32[1, 8]"), "{text}");
    }

    #[test]
    fn what_keeps_no_cache_has_no_such_form() {
        let g = graph("input %input_ids: i64[S]\n%y: i64[S] = Neg(%input_ids)\noutput logits = %y");
        assert!(for_one_token(&g).unwrap().is_none());
    }
}
