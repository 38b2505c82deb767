//! Rotary embedding with several positions a token.

use super::{Context, Types, bail, float, rank, same_dim};
use crate::{DType, Dim, Op, TensorType};

/// x `[S, heads, head_dim]`, `[S·heads, head_dim]` or `[B, heads, S, head_dim]`, pos `[axes, S]`: x's type.
pub(crate) fn rope_multi(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::RopeMulti { head_dim, base, sections, .. } = op else { bail!("not RopeMulti") };
    if *head_dim == 0 || head_dim % 2 != 0 {
        bail!("head_dim is {head_dim}, expected an even number, at least 2");
    }
    if !(base.get().is_finite() && base.get() > 0.0) {
        bail!("base is {}, expected a positive number", base.get());
    }
    let pairs: u64 = sections.iter().map(|&n| u64::from(n)).sum();
    if sections.contains(&0) || pairs != u64::from(head_dim / 2) {
        bail!("sections has {pairs} pairs in {} parts, expected {} and none empty", sections.len(), head_dim / 2);
    }
    float("x", &x[0])?;
    same_dim("the last dimension of x", super::last("x", &x[0])?, &Dim::constant((*head_dim).into()))?;
    if x[1].dtype == DType::Bool {
        bail!("pos has the type bool, expected numbers");
    }
    rank("pos", &x[1], 2)?;
    let [axes, tokens] = x[1].shape.dims() else { bail!("pos has shape {}", x[1].shape) };
    same_dim("the number of rows of pos", axes, &Dim::constant(sections.len() as i64))?;
    match x[0].shape.dims() {
        [rows, _] if rows.div_exact(tokens).is_some() => {}
        [rows, _] => bail!("x has {rows} rows, no multiple of the {tokens} tokens of pos"),
        [s, _, _] | [_, _, s, _] => same_dim("the number of tokens of pos", tokens, s)?,
        _ => bail!(
            "x has shape {}, expected [S, heads, {head_dim}], [S·heads, {head_dim}] or [B, heads, S, {head_dim}]",
            x[0].shape
        ),
    }
    Ok(vec![x[0].clone()])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    #[test]
    fn sections_divide_the_pairs_and_each_has_a_row_of_positions() {
        let op = |head_dim, base: f32, sections: &[u32]| Op::RopeMulti {
            head_dim,
            base: base.into(),
            interleaved: false,
            sections: sections.to_vec(),
            restart: false,
        };
        let (three, pos) = (|| op(16, 1e4, &[2, 3, 3]), t(DType::I64, "3, S"));
        assert_eq!(good(three(), &[f("S, 4, 16"), pos.clone()]), "f32[S, 4, 16]");
        assert_eq!(good(three(), &[f("4*S, 16"), f("3, S")]), "f32[4*S, 16]");
        assert_eq!(good(three(), &[f("B, 4, S, 16"), pos.clone()]), "f32[B, 4, S, 16]");
        bad(three(), &[f("S, 4, 15"), pos.clone()], "the last dimension of x is 15");
        bad(three(), &[f("S, 4, 16"), t(DType::I64, "2, S")], "the number of rows of pos is 2, expected 3");
        bad(three(), &[f("S, 4, 16"), t(DType::I64, "S")], "pos has shape [S]");
        bad(three(), &[f("S, 4, 16"), t(DType::Bool, "3, S")], "pos has the type bool");
        bad(three(), &[f("T, 4, 16"), pos.clone()], "the number of tokens of pos is S, expected T");
        bad(three(), &[f("7, 16"), t(DType::I64, "3, 2")], "x has 7 rows, no multiple of the 2 tokens");
        bad(three(), &[f("16"), pos.clone()], "x has shape [16]");
        bad(three(), &[t(DType::I64, "S, 4, 16"), pos.clone()], "x has the type i64");
        bad(op(16, 1e4, &[2, 3, 2]), &[f("S, 4, 16"), pos.clone()], "sections has 7 pairs in 3 parts, expected 8");
        bad(op(16, 1e4, &[8, 0]), &[f("S, 4, 16"), pos.clone()], "none empty");
        bad(op(16, 0.0, &[8]), &[f("S, 4, 16"), pos.clone()], "base is 0");
        bad(op(15, 1e4, &[7]), &[f("S, 4, 15"), pos.clone()], "head_dim is 15");
        bad(op(4, 1e4, &[u32::MAX, u32::MAX]), &[f("S, 4, 4"), pos], "sections has 8589934590 pairs");
    }
}
