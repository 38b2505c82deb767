//! Recurrences over tokens.

use super::{Context, Types, bail, float, rank, same_dim};
use crate::{Op, Shape, TensorType};

/// q, k `[S, heads, Dk]`, v `[S, heads, Dv]`, g and beta `[S, heads]`, state `[heads, Dk, Dv]`: y as v, and
/// the state after the last token.
pub(crate) fn gated_delta(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    for (what, t) in ["q", "k", "v", "g", "beta", "state"].into_iter().zip(x) {
        float(what, t)?;
    }
    rank("q", &x[0], 3)?;
    rank("v", &x[2], 3)?;
    let [s, heads, key] = x[0].shape.dims() else { bail!("q has shape {}", x[0].shape) };
    let [s_v, heads_v, value] = x[2].shape.dims() else { bail!("v has shape {}", x[2].shape) };
    same("k", &x[1], &Shape::new([s.clone(), heads.clone(), key.clone()]))?;
    same_dim("the number of tokens of v", s_v, s)?;
    same_dim("the number of heads of v", heads_v, heads)?;
    let gates = Shape::new([s.clone(), heads.clone()]);
    same("g", &x[3], &gates)?;
    same("beta", &x[4], &gates)?;
    let state = Shape::new([heads.clone(), key.clone(), value.clone()]);
    if let Some(given) = x.get(5) {
        same("state", given, &state)?;
    }
    Ok(vec![TensorType::f32(x[2].shape.clone()), TensorType::f32(state)])
}

fn same(what: &str, t: &TensorType, expected: &Shape) -> Result<(), crate::RuleError> {
    if t.shape == *expected {
        return Ok(());
    }
    bail!("{what} has shape {}, expected {expected}", t.shape)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;

    #[test]
    fn the_state_is_optional_and_every_operand_has_the_same_heads() {
        let x = [f("S, 4, 8"), f("S, 4, 8"), f("S, 4, 16"), f("S, 4"), f("S, 4"), f("4, 8, 16")];
        assert_eq!(good(Op::GatedDelta, &x), "f32[S, 4, 16] f32[4, 8, 16]");
        assert_eq!(good(Op::GatedDelta, &x[..5]), "f32[S, 4, 16] f32[4, 8, 16]");
        let with = |at: usize, t: TensorType| {
            let mut x = x.to_vec();
            x[at] = t;
            x
        };
        bad(Op::GatedDelta, &with(0, f("S, 32")), "q has shape [S, 32]");
        bad(Op::GatedDelta, &with(1, f("S, 2, 8")), "k has shape [S, 2, 8], expected [S, 4, 8]");
        bad(Op::GatedDelta, &with(2, f("S, 2, 16")), "the number of heads of v is 2, expected 4");
        bad(Op::GatedDelta, &with(3, f("S, 4, 1")), "g has shape [S, 4, 1], expected [S, 4]");
        bad(Op::GatedDelta, &with(4, f("S")), "beta has shape [S]");
        bad(Op::GatedDelta, &with(5, f("4, 16, 8")), "state has shape [4, 16, 8], expected [4, 8, 16]");
        bad(Op::GatedDelta, &with(5, t(DType::I64, "4, 8, 16")), "state has the type i64");
    }
}
