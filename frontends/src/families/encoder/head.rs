//! From the last layer to what a model gives: embeddings, labels, words.

use super::texts::Texts;
use super::{EncoderSpec, Pooling, Rows, Step};
use crate::families::parts::{Built, Parts};
use tallow_ir::ops::Reduction;
use tallow_ir::{IrError, Op, Value};

/// The outputs of `spec` over the last layer `h` (`[S, hidden]`).
pub(super) fn outputs(parts: &mut Parts<'_>, spec: &EncoderSpec, texts: &Texts, h: Value) -> Result<(), IrError> {
    parts.graph.output("last_hidden_state", h)?;
    if let Some(pooler) = &spec.pooler {
        let first = texts.first(parts, h)?;
        let pooled = steps(parts, first, pooler, "pooler")?;
        parts.graph.output("pooler_output", pooled)?;
        if let Some(step) = &spec.next_sentence {
            let logits = steps(parts, pooled, std::slice::from_ref(step), "next_sentence")?;
            parts.graph.output("seq_relationship_logits", logits)?;
        }
    }
    if let Some(head) = &spec.head {
        let rows = match head.rows {
            Rows::Tokens => h,
            Rows::First => texts.first(parts, h)?,
            Rows::Mean => texts.combined(parts, h, Reduction::Mean)?,
        };
        let logits = steps(parts, rows, &head.steps, "head")?;
        parts.graph.name(logits, "logits");
        return parts.graph.output("logits", logits);
    }
    let mut pooled = match spec.pooling {
        Pooling::First => texts.first(parts, h)?,
        Pooling::Mean => texts.combined(parts, h, Reduction::Mean)?,
        Pooling::Max => texts.combined(parts, h, Reduction::Max)?,
    };
    if spec.normalize {
        pooled = parts.unit_length(pooled)?;
    }
    parts.graph.name(pooled, "embedding");
    parts.graph.output("embedding", pooled)
}

/// One step after another.
fn steps(parts: &mut Parts<'_>, x: Value, steps: &[Step], says: &str) -> Built {
    let mut x = x;
    for (number, step) in steps.iter().enumerate() {
        let says = format!("{says}.{number}");
        x = match step {
            Step::Linear { weight, shape, bias } => {
                let w = parts.weight(weight, shape)?;
                let y = parts.op(Op::Matmul, &[x, w], &says)?;
                match bias {
                    Some(bias) => {
                        let b = parts.weight(bias, &shape[..1])?;
                        parts.op(Op::Add, &[y, b], says)?
                    }
                    None => y,
                }
            }
            Step::Activate(activation) => match activation.op() {
                Some(op) => parts.op(op, &[x], says)?,
                None => x,
            },
            Step::Norm { name, width, norm } => parts.layer_norm(x, name, *width, norm.eps, norm.bias, says)?,
        };
    }
    Ok(x)
}
