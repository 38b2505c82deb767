//! Operations that do several at once. Their types are those of the plain operations one after another.

use super::matrix::product;
use super::norm::check_gain;
use super::{Context, Types, attention, bail, elementwise, epsilon, float, norm, rank, routing};
use crate::ops::{CachedParts, Real};
use crate::{Dim, Op, RuleError, Shape, TensorType};

/// `x`, and the operands after the gain that a norm reads.
fn normed(norm: Option<Real>, x: &[TensorType]) -> Result<(&TensorType, &[TensorType]), RuleError> {
    let (Some(first), rest) = (x.first(), x.get(1..).unwrap_or(&[])) else { bail!("x is missing") };
    let Some(eps) = norm else { return Ok((first, rest)) };
    epsilon("norm", eps)?;
    let Some((gain, rest)) = rest.split_first() else { bail!("the gain of the norm is missing") };
    check_gain("g", first, gain)?;
    Ok((first, rest))
}

/// A vector with a value for each column of `y`.
fn check_bias(what: &str, y: &TensorType, b: &TensorType) -> Result<(), RuleError> {
    float(what, b)?;
    match y.shape.last() {
        Some(width) if b.shape == Shape::new([width.clone()]) => Ok(()),
        width => {
            bail!("{what} has shape {}, expected [{}]", b.shape, width.map(ToString::to_string).unwrap_or_default())
        }
    }
}

/// `x g? W… b…`: a product for each matrix.
pub(crate) fn joined(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::JoinedMatmul { parts, norm, bias } = op else { bail!("not JoinedMatmul") };
    let (x, rest) = normed(*norm, x)?;
    if *parts == 0 || !bias.is_sorted_by(|a, b| a < b) || bias.last().is_some_and(|b| b >= parts) {
        bail!(
            "parts is {parts} and bias {bias:?}, expected at least one part, and numbers of parts in ascending order"
        );
    }
    let parts = *parts as usize;
    if parts.checked_add(bias.len()) != Some(rest.len()) {
        bail!("{parts} matrices and {} vectors are wanted, found {} operands", bias.len(), rest.len());
    }
    let (matrices, vectors) = rest.split_at(parts);
    let types = matrices.iter().map(|w| product(x, w)).collect::<Result<Vec<_>, _>>()?;
    for (&part, b) in bias.iter().zip(vectors) {
        check_bias("b", &types[part as usize], b)?;
    }
    Ok(types)
}

/// `x g? W_gate W_up b_gate? b_up?`.
pub(crate) fn gated_matmul(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::GatedMatmul { norm, bias, .. } = op else { bail!("not GatedMatmul") };
    let (x, rest) = normed(*norm, x)?;
    let (matrices, vectors) = rest.split_at_checked(2).unwrap_or((rest, &[]));
    let [gate, up] = matrices else { bail!("two matrices are wanted, found {}", rest.len()) };
    let (gate, up) = (product(x, gate)?, product(x, up)?);
    if gate != up {
        bail!("W_gate gives {gate} and W_up gives {up}; they must agree");
    }
    if vectors.len() != if *bias { 2 } else { 0 } {
        bail!("bias is {bias} and there are {} vectors", vectors.len());
    }
    for (what, b) in ["b_gate", "b_up"].into_iter().zip(vectors) {
        check_bias(what, &up, b)?;
    }
    Ok(vec![up])
}

/// `x index weights W_gate W_up W_down`, or with one `W_gate_up`.
pub(crate) fn expert_feed_forward(op: &Op, x: &[TensorType], cx: &mut Context) -> Types {
    let Op::ExpertFeedForward { joined, .. } = op else { bail!("not ExpertFeedForward") };
    let [x, index, weights, matrices @ ..] = x else { bail!("x, index and weights are wanted") };
    let mut product = |x: &TensorType, w: &TensorType| {
        routing::expert_matmul(&Op::ExpertMatmul, &[x.clone(), w.clone(), index.clone()], cx).map(|y| y[0].clone())
    };
    rank("x", x, 2)?;
    let (inner, down) = match (joined, matrices) {
        (false, [gate, up, down]) => {
            let (gate, up) = (product(x, gate)?, product(x, up)?);
            if gate != up {
                bail!("W_gate gives {gate} and W_up gives {up}; they must agree");
            }
            (up, down)
        }
        (true, [both, down]) => {
            let both = product(x, both)?;
            let [rows, chosen, width] = both.shape.dims() else { bail!("W_gate_up gives {both}") };
            match width.as_const() {
                Some(n) if n % 2 == 0 => {
                    (TensorType::f32(Shape::new([rows.clone(), chosen.clone(), Dim::constant(n / 2)])), down)
                }
                _ => bail!("W_gate_up gives rows of {width}, which are no two halves"),
            }
        }
        (joined, others) => bail!("{} matrices are wanted, found {}", if *joined { 2 } else { 3 }, others.len()),
    };
    float("weights", weights)?;
    if weights.shape != index.shape {
        bail!("weights has shape {} and index {}; they must agree", weights.shape, index.shape);
    }
    let y = product(&inner, down)?;
    let [rows, _, width] = y.shape.dims() else { bail!("W_down gives {y}") };
    Ok(vec![TensorType::f32(Shape::new([rows.clone(), width.clone()]))])
}

/// `gate up` of one type.
pub(crate) fn gated(op: &Op, x: &[TensorType], cx: &mut Context) -> Types {
    elementwise::gated(op, x, cx)
}

/// `x g? W b`.
pub(crate) fn matmul_bias(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::MatmulBias { norm, .. } = op else { bail!("not MatmulBias") };
    let (x, rest) = normed(*norm, x)?;
    let [w, b] = rest else { bail!("a matrix and a vector are wanted, found {} operands", rest.len()) };
    let y = product(x, w)?;
    check_bias("b", &y, b)?;
    Ok(vec![y])
}

/// x and skip of one type; the norm and the sum.
pub(crate) fn skip_layer_norm(op: &Op, x: &[TensorType], cx: &mut Context) -> Types {
    let Op::SkipLayerNorm { eps } = op else { bail!("not SkipLayerNorm") };
    let types = norm::skip_norm(&Op::FusedSkipNorm { eps: *eps }, &x[..3], cx)?;
    check_gain("b", &x[0], &x[3])?;
    Ok(types)
}

/// `q k v g_q? g_k? pos?`: q `[S, heads · head_dim]` or `[S · heads, head_dim]`, k and v
/// `[S, kv_heads · head_dim]`; the result has q's type.
pub(crate) fn cached_attention(op: &Op, x: &[TensorType], cx: &mut Context) -> Types {
    let Some(parts) = CachedParts::of(op) else { bail!("not CachedAttention") };
    let Op::CachedAttention { heads, kv_heads, head_dim, .. } = op else { bail!("not CachedAttention") };
    let wanted = 3 + if parts.norm.is_some() { 2 } else { 0 } + usize::from(parts.rope.is_some());
    if x.len() != wanted {
        bail!("{wanted} operands are wanted, found {}", x.len());
    }
    // The types in which heads lie apart.
    let mut apart = Vec::new();
    for ((what, t), heads) in ["q", "k", "v"].into_iter().zip(x).zip([heads, kv_heads, kv_heads]) {
        let (h, d) = (i64::from(*heads), i64::from(*head_dim));
        let tokens = match t.shape.dims() {
            [tokens, width] if width.as_const() == Some(h * d) => Some(tokens.clone()),
            [rows, width] if what == "q" && width.as_const() == Some(d) => rows.div_exact(&h.into()),
            _ => None,
        };
        let Some(tokens) = tokens else { bail!("{what} has shape {}, expected [S, {}]", t.shape, h * d) };
        apart.push(TensorType::new(t.dtype, Shape::new([tokens, h.into(), d.into()])));
    }
    if apart.iter().any(|t| t.shape.0[0] != apart[0].shape.0[0]) {
        bail!("q, k and v hold {}, {} and {}: as many tokens are wanted", x[0], x[1], x[2]);
    }
    if parts.norm.is_some() {
        for (at, what) in [(0, "g_q"), (1, "g_k")] {
            check_gain(what, &apart[at], &x[3 + at])?;
        }
    }
    if let (Some(rope), Some(pos)) = (&parts.rope, x.last()) {
        for t in &apart[..2] {
            attention::rope(rope, &[t.clone(), pos.clone()], cx)?;
        }
    }
    if let Op::CachedAttention { norm: Some(eps), .. } = op {
        epsilon("norm", *eps)?;
    }
    let all = attention::kv_cache(&Op::KvCache, &x[1..3], cx)?;
    attention::attention(&parts.attention, &[x[0].clone(), all[0].clone(), all[1].clone()], cx)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use crate::ops::{Activation, CachedParts};
    use crate::{DType, Op, TensorType};

    #[test]
    fn several_products_of_one_operand() {
        let joined = |parts, norm: Option<f32>, bias: &[u32]| Op::JoinedMatmul {
            parts,
            norm: norm.map(Into::into),
            bias: bias.to_vec(),
        };
        let (x, g) = (f("S, 4"), f("4"));
        let (w, v) = (t(DType::Q8, "8, 4"), f("2, 4"));
        assert_eq!(good(joined(2, None, &[]), &[x.clone(), w.clone(), v.clone()]), "f32[S, 8] f32[S, 2]");
        let all = [x.clone(), g.clone(), w.clone(), v.clone(), f("2")];
        assert_eq!(good(joined(2, Some(1e-6), &[1]), &all), "f32[S, 8] f32[S, 2]");
        bad(joined(2, Some(1e-6), &[0]), &all, "b has shape [2], expected [8]");
        bad(joined(2, Some(-1.0), &[1]), &all, "norm is -1");
        bad(joined(2, Some(1e-6), &[]), &all, "2 matrices and 0 vectors are wanted, found 3");
        bad(joined(1, None, &[1]), &[x.clone(), w.clone(), g.clone()], "numbers of parts");
        bad(joined(2, None, &[1, 0]), &all, "ascending");
        bad(joined(0, None, &[]), std::slice::from_ref(&x), "at least one part");
        bad(joined(u32::MAX, None, &[]), std::slice::from_ref(&x), "are wanted");
        bad(joined(1, Some(1e-6), &[]), std::slice::from_ref(&x), "the gain of the norm is missing");
        bad(joined(1, None, &[]), &[x, f("8, 5")], "the last dimension of W is 5");
    }

    #[test]
    fn gates_and_biases() {
        let activation = Activation::GeluTanh;
        assert_eq!(good(Op::Gated { activation }, &[f("S, 8"), f("S, 8")]), "f32[S, 8]");
        bad(Op::Gated { activation }, &[f("S, 8"), f("8")], "they must agree");
        let gated = |norm: Option<f32>, bias| Op::GatedMatmul { activation, norm: norm.map(Into::into), bias };
        let (x, g, w, b) = (f("S, 4"), f("4"), f("8, 4"), f("8"));
        let four = [x.clone(), g.clone(), w.clone(), w.clone()];
        assert_eq!(good(gated(Some(1e-6), false), &four), "f32[S, 8]");
        let five = [x.clone(), w.clone(), w.clone(), b.clone(), b.clone()];
        assert_eq!(good(gated(None, true), &five), "f32[S, 8]");
        bad(gated(None, true), &five[..4], "bias is true and there are 1 vectors");
        bad(gated(None, false), &[x.clone(), w.clone(), f("9, 4")], "they must agree");
        bad(gated(None, false), &[x.clone(), w.clone()], "two matrices are wanted");
        bad(gated(None, true), &[x.clone(), w.clone(), w.clone(), b.clone(), f("7")], "b_up has shape [7]");
        let bias = |norm: Option<f32>| Op::MatmulBias { activation, norm: norm.map(Into::into) };
        assert_eq!(good(bias(None), &[x.clone(), w.clone(), b.clone()]), "f32[S, 8]");
        assert_eq!(good(bias(Some(1e-5)), &[x.clone(), g.clone(), w.clone(), b.clone()]), "f32[S, 8]");
        assert_eq!(good(bias(None), &[g, w.clone(), b.clone()]), "f32[8]");
        bad(bias(None), &[x.clone(), w.clone(), f("1, 8")], "b has shape [1, 8], expected [8]");
        bad(bias(Some(1e-5)), &[x, w, b], "g has shape [8, 4]");
        let skip = |eps: f32| Op::SkipLayerNorm { eps: eps.into() };
        let rows = [f("S, 8"), f("S, 8"), f("8"), f("8")];
        assert_eq!(good(skip(1e-5), &rows), "f32[S, 8] f32[S, 8]");
        bad(skip(1e-5), &[f("S, 8"), f("S, 8"), f("8"), f("9")], "the length of b is 9");
        bad(skip(-1.0), &rows, "eps is -1");
    }

    #[test]
    fn feed_forwards_of_experts() {
        let op = |joined| Op::ExpertFeedForward { activation: Activation::Silu, joined };
        let (x, index, weights) = (f("S, 4"), t(DType::I64, "S, 2"), f("S, 2"));
        let (w, both, down) = (t(DType::Q8, "6, 8, 4"), f("6, 16, 4"), f("6, 4, 8"));
        let first = [x.clone(), index.clone(), weights.clone()];
        let with = |matrices: &[TensorType]| [&first[..], matrices].concat();
        assert_eq!(good(op(false), &with(&[w.clone(), w.clone(), down.clone()])), "f32[S, 4]");
        assert_eq!(good(op(true), &with(&[both.clone(), down.clone()])), "f32[S, 4]");
        bad(op(true), &with(&[w.clone(), w.clone(), down.clone()]), "2 matrices are wanted, found 3");
        bad(op(false), &with(&[both.clone(), down.clone()]), "3 matrices are wanted, found 2");
        bad(op(false), &with(&[w.clone(), f("6, 9, 4"), down.clone()]), "they must agree");
        bad(op(false), &with(&[w.clone(), w.clone(), f("6, 4, 9")]), "the last dimension of x is 8, expected 9");
        bad(op(true), &with(&[f("6, 15, 4"), down.clone()]), "no two halves");
        bad(op(false), &[x.clone(), index, f("S, 3"), w.clone(), w.clone(), down.clone()], "they must agree");
        bad(op(false), &first, "3 matrices are wanted, found 0");
        let each = [f("S, 2, 4"), first[1].clone(), weights, w.clone(), w, down];
        bad(op(false), &each, "x has shape [S, 2, 4]");
    }

    #[test]
    fn attention_over_a_cache_of_its_own() {
        let attention = Op::Attention {
            heads: 4,
            kv_heads: 2,
            head_dim: 8,
            causal: true,
            window: 0,
            scale: 0.5.into(),
            softcap: 0.0.into(),
        };
        let parts = |norm: bool, rope: bool| {
            let norm = norm.then(|| Op::RmsNorm { eps: 1e-6.into() });
            let rope = rope.then(|| Op::Rope { head_dim: 8, rope_dim: 8, base: 1e4.into() });
            CachedParts { attention: attention.clone(), norm, rope }.op().unwrap()
        };
        let (q, k, g, pos) = (f("S, 32"), f("S, 16"), f("8"), t(DType::I64, ""));
        let plain = [q.clone(), k.clone(), k.clone()];
        assert_eq!(good(parts(false, false), &plain), "f32[S, 32]");
        assert_eq!(good(parts(false, false), &[f("4*S, 8"), k.clone(), k.clone()]), "f32[4*S, 8]");
        let all = [q.clone(), k.clone(), k.clone(), g.clone(), g.clone(), pos.clone()];
        assert_eq!(good(parts(true, true), &all), "f32[S, 32]");
        assert_eq!(good(parts(false, true), &[f("1, 32"), f("1, 16"), f("1, 16"), pos.clone()]), "f32[1, 32]");
        bad(parts(true, true), &all[..5], "6 operands are wanted, found 5");
        bad(parts(false, false), &[f("T, 32"), k.clone(), k.clone()], "as many tokens are wanted");
        bad(parts(false, false), &[q.clone(), f("2*S, 8"), k.clone()], "k has shape [2*S, 8], expected [S, 16]");
        let short = [q.clone(), k.clone(), k.clone(), f("9"), g, pos];
        bad(parts(true, true), &short, "the length of g_q is 9");
        bad(parts(false, true), &[q, k.clone(), k, t(DType::I64, "3")], "pos has 3 positions");
    }
}
