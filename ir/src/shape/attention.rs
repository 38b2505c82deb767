//! Attention, caches and rotary embedding.

use super::elementwise::unknown;
use super::{Context, Types, bail, epsilon, float, overflow, rank, same_dim};
use crate::ops::Scaling;
use crate::{DType, Dim, Op, PAST, RuleError, SEQUENCE, Shape, TensorType};

/// How a query, key or value tensor holds its heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `[tokens, heads · head_dim]`.
    Wide,
    /// `[tokens · heads, head_dim]`, token-major.
    Rows,
    /// `[batch, heads, tokens, head_dim]`.
    Batched,
}

/// The form and number of tokens of `t`.
fn form(what: &str, t: &TensorType, heads: u32, head_dim: u32) -> Result<(Form, Dim), RuleError> {
    float(what, t)?;
    let (h, d) = (Dim::constant(heads.into()), Dim::constant(head_dim.into()));
    let wide = h.mul(&d).ok_or_else(overflow)?;
    match t.shape.dims() {
        [s, w] if *w == wide => Ok((Form::Wide, s.clone())),
        [r, w] if *w == d => match r.div_exact(&h) {
            Some(s) => Ok((Form::Rows, s)),
            None => bail!("{what} has {r} rows, no multiple of {heads} heads"),
        },
        [_, hh, s, w] if *w == d && *hh == h => Ok((Form::Batched, s.clone())),
        _ => bail!(
            "{what} has shape {}, expected [S, {wide}], [S·{heads}, {head_dim}] or [B, {heads}, S, {head_dim}]",
            t.shape
        ),
    }
}

/// q with `heads`, k and v with `kv_heads`; the result has q's type.
pub(crate) fn attention(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let (heads, kv_heads, head_dim) = match op {
        Op::Sdpa { heads, kv_heads, head_dim, .. }
        | Op::Attention { heads, kv_heads, head_dim, .. }
        | Op::FlashAttention { heads, kv_heads, head_dim } => (*heads, *kv_heads, *head_dim),
        Op::SdpaCross { heads, head_dim } | Op::SdpaWindow { heads, head_dim, .. } => (*heads, *heads, *head_dim),
        _ => bail!("not an attention"),
    };
    if heads == 0 || kv_heads == 0 || head_dim == 0 || heads % kv_heads != 0 {
        bail!("{heads} heads are not grouped evenly over {kv_heads} key/value heads of size {head_dim}");
    }
    if let Op::SdpaWindow { window: 0, .. } = op {
        bail!("a window of 0 keys sees nothing; use at least 1");
    }
    if let Op::Attention { causal: false, window: 1.., .. } = op {
        bail!("a window counts keys back from each query and needs causal = true; use window = 0 to see all keys");
    }
    if let Op::Attention { scale, softcap, .. } = op {
        if !scale.get().is_finite() {
            bail!("scale is {}, expected a finite number", scale.get());
        }
        epsilon("softcap", *softcap)?;
    }
    let (q_form, s) = form("q", &x[0], heads, head_dim)?;
    let (k_form, t) = form("k", &x[1], kv_heads, head_dim)?;
    let (v_form, t_v) = form("v", &x[2], kv_heads, head_dim)?;
    same_dim("the number of tokens of v", &t_v, &t)?;
    let batched = |f| f == Form::Batched;
    if batched(q_form) != batched(k_form) || batched(q_form) != batched(v_form) {
        bail!("q {}, k {} and v {} must all have a batch dimension or none", x[0], x[1], x[2]);
    }
    if batched(q_form) {
        same_dim("the batch of k", &x[1].shape.0[0], &x[0].shape.0[0])?;
        same_dim("the batch of v", &x[2].shape.0[0], &x[0].shape.0[0])?;
    }
    if let Some(mask) = x.get(3) {
        float("mask", mask)?;
        let mut full = Shape::new([Dim::constant(heads.into()), s, t]);
        if batched(q_form) && mask.shape.rank() == 4 {
            full.0.insert(0, x[0].shape.0[0].clone());
        }
        match super::elementwise::broadcast_shapes(&full, &mask.shape) {
            Ok(shape) if shape == full => {}
            _ => bail!("mask has shape {}, which does not broadcast to {full}", mask.shape),
        }
    }
    Ok(vec![x[0].clone()])
}

/// q, k and v in the wide form, of the same tokens; segments is one number a token.
pub(crate) fn segment_attention(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let &Op::SegmentAttention { heads, kv_heads, head_dim, scale, softcap, .. } = op else {
        bail!("not SegmentAttention")
    };
    if heads == 0 || kv_heads == 0 || head_dim == 0 || heads % kv_heads != 0 {
        bail!("{heads} heads are not grouped evenly over {kv_heads} key/value heads of size {head_dim}");
    }
    if !scale.get().is_finite() {
        bail!("scale is {}, expected a finite number", scale.get());
    }
    epsilon("softcap", softcap)?;
    let s = wide("q", &x[0], heads, head_dim)?;
    for (what, t) in [("k", &x[1]), ("v", &x[2])] {
        let tokens = wide(what, t, kv_heads, head_dim)?;
        same_dim(&format!("the number of tokens of {what}"), &tokens, &s)?;
    }
    if !x[3].dtype.is_integer() {
        bail!("segments has the type {}, expected integers", x[3].dtype);
    }
    rank("segments", &x[3], 1)?;
    same_dim("the number of tokens of segments", &x[3].shape.0[0], &s)?;
    if let Some(bias) = x.get(4) {
        float("bias", bias)?;
        let full = Shape::new([Dim::constant(heads.into()), s.clone(), s]);
        match super::elementwise::broadcast_shapes(&full, &bias.shape) {
            Ok(shape) if shape == full => {}
            _ => bail!("bias has shape {}, which does not broadcast to {full}", bias.shape),
        }
    }
    Ok(vec![x[0].clone()])
}

/// The tokens of `t`, which is in the wide form.
fn wide(what: &str, t: &TensorType, heads: u32, head_dim: u32) -> Result<Dim, RuleError> {
    let width = Dim::constant(heads.into()).mul(&Dim::constant(head_dim.into())).ok_or_else(overflow)?;
    float(what, t)?;
    match t.shape.dims() {
        [s, w] if *w == width => Ok(s.clone()),
        _ => bail!("{what} has shape {}, expected [S, {width}]", t.shape),
    }
}

/// Rows of earlier calls come before those of this one: `S` tokens become `P + S`.
pub(crate) fn kv_cache(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    x.iter()
        .zip(["k", "v"])
        .map(|(t, what)| {
            // Real numbers, or the blocks of KvCompress.
            if t.dtype != DType::U8 {
                float(what, t)?;
            }
            let at = match t.shape.rank() {
                2 => 0,
                4 => 2,
                _ => bail!("{what} has shape {}, expected [S, …] or [B, heads, S, …]", t.shape),
            };
            let mut dims = t.shape.0.clone();
            dims[at] = if dims[at].symbols().contains(&SEQUENCE) {
                let all = Dim::symbol(PAST).add(&Dim::symbol(SEQUENCE)).ok_or_else(overflow)?;
                dims[at].substitute(SEQUENCE, &all)
            } else {
                // Graphs for one token a call: every earlier call added as many rows as this one.
                Dim::symbol(PAST).add(&Dim::constant(1)).and_then(|n| n.mul(&dims[at]))
            }
            .ok_or_else(overflow)?;
            Ok(TensorType::new(t.dtype, Shape(dims)))
        })
        .collect()
}

/// Number of bytes that one head row of `head_dim` values takes: an f32 scale, little-endian, then
/// the values: for 8 bits one signed byte each; for 4 bits two to a byte, the first in the low half,
/// each stored as value + 8. The scale is the largest magnitude over 127 (over 7), a value the nearest
/// multiple of it, half to even; a row of zeros has the scale 0. Values that are not finite have no
/// block: compressing them is a run-time error, and so is decompressing a scale that is not finite.
fn block_bytes(head_dim: u32, bits: u32) -> Result<i64, RuleError> {
    match bits {
        _ if head_dim == 0 => bail!("head_dim is 0, expected at least 1"),
        8 => Ok(i64::from(head_dim) + 4),
        4 if head_dim.is_multiple_of(2) => Ok(i64::from(head_dim) / 2 + 4),
        _ => bail!("{bits} bits for a head of {head_dim} values: 8, or 4 with an even size, are possible"),
    }
}

/// `[…, n · head_dim]` becomes bytes `[…, n · block]`.
pub(crate) fn kv_compress(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::KvCompress { head_dim, bits } = op else { bail!("not KvCompress") };
    float("x", &x[0])?;
    let block = block_bytes(*head_dim, *bits)?;
    let mut t = scale_last(&x[0], i64::from(*head_dim), block)?;
    t.dtype = DType::U8;
    Ok(vec![t])
}

/// The inverse of [`kv_compress`].
pub(crate) fn kv_decompress(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::KvDecompress { head_dim, bits } = op else { bail!("not KvDecompress") };
    if x[0].dtype != DType::U8 {
        bail!("x has the type {}, expected the bytes (u8) of KvCompress", x[0].dtype);
    }
    let block = block_bytes(*head_dim, *bits)?;
    let mut t = scale_last(&x[0], block, i64::from(*head_dim))?;
    t.dtype = DType::F32;
    Ok(vec![t])
}

fn scale_last(x: &TensorType, from: i64, to: i64) -> Result<TensorType, RuleError> {
    let width = super::last("x", x)?;
    match width.div_exact(&Dim::constant(from)) {
        Some(n) => Ok(super::with_last(x, n.mul(&Dim::constant(to)).ok_or_else(overflow)?)),
        None => bail!("the last dimension {width} is no multiple of {from}"),
    }
}

/// x `[tokens, heads, head_dim]`, `[tokens · heads, head_dim]` or `[B, heads, tokens, head_dim]`.
pub(crate) fn rope(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let (head_dim, rope_dim) = match op {
        Op::Rope { head_dim, rope_dim, .. } | Op::RopeScaled { head_dim, rope_dim, .. } => (*head_dim, *rope_dim),
        _ => bail!("not a rotary embedding"),
    };
    if head_dim == 0 || head_dim % 2 != 0 || rope_dim % 2 != 0 || rope_dim > head_dim {
        bail!("rope_dim {rope_dim} of head_dim {head_dim}: both must be even, the first no larger");
    }
    float("x", &x[0])?;
    if x[1].dtype == DType::Bool {
        bail!("pos has the type bool, expected numbers");
    }
    if let Op::Rope { base, .. } | Op::RopeScaled { base, .. } = op
        && !(base.get().is_finite() && base.get() > 0.0)
    {
        bail!("base is {}, expected a positive number", base.get());
    }
    scaling_numbers(op)?;
    same_dim("the last dimension of x", super::last("x", &x[0])?, &Dim::constant(head_dim.into()))?;
    if !(2..=4).contains(&x[0].shape.rank()) {
        bail!(
            "x has shape {}, expected [S, heads, {head_dim}], [S·heads, {head_dim}] or [B, heads, S, {head_dim}]",
            x[0].shape
        );
    }
    match x[1].shape.dims() {
        [] => {}
        [n] if n.as_const() == Some(1) || unknown(n) => {}
        [n] => {
            let fits = match x[0].shape.dims() {
                [s, _, _] | [_, _, s, _] => s == n || unknown(s),
                [rows, _] => rows.div_exact(n).is_some() || unknown(rows),
                _ => false,
            };
            if !fits {
                bail!("pos has {n} positions, which are not one per token of x {}", x[0].shape);
            }
        }
        _ => bail!("pos has shape {}, expected a scalar or one position per token", x[1].shape),
    }
    Ok(vec![x[0].clone()])
}

/// What the scaling of `RopeScaled` divides by must not be zero; every number must be finite, used
/// or not.
fn scaling_numbers(op: &Op) -> Result<(), RuleError> {
    let Op::RopeScaled { rope_dim, base, scaling, factor, original, low, high, attention_factor, short, long, .. } = op
    else {
        return Ok(());
    };
    for (what, value) in [("factor", factor), ("low", low), ("high", high), ("attention_factor", attention_factor)] {
        if !value.get().is_finite() {
            bail!("{what} is {}, expected a finite number", value.get());
        }
    }
    for (what, list) in [("short", short), ("long", long)] {
        if !list.is_empty() && list.len() != *rope_dim as usize / 2 {
            bail!("`{what}` has {} factors, expected {} (rope_dim/2) or none", list.len(), rope_dim / 2);
        }
        if let Some(value) = list.iter().map(|v| v.get()).find(|v| !(v.is_finite() && *v > 0.0)) {
            bail!("`{what}` holds {value}, expected finite numbers above 0");
        }
    }
    let name = || {
        let mut text = String::new();
        crate::ops::Payload::print(scaling, &mut text);
        text
    };
    let (by_factor, by_length) = match scaling {
        Scaling::Unscaled | Scaling::Factors => (false, false),
        Scaling::Linear => (true, false),
        Scaling::LongRope => (false, true),
        Scaling::Dynamic | Scaling::Yarn | Scaling::YarnExact | Scaling::Llama3 => (true, true),
    };
    let (factor, low, high) = (factor.get(), low.get(), high.get());
    if by_factor && factor <= 0.0 {
        bail!("factor is {factor}, the scaling {} needs a number above 0", name());
    }
    if by_length && *original == 0 {
        bail!("original is 0, the scaling {} needs the length that the model was trained on", name());
    }
    match scaling {
        Scaling::Yarn | Scaling::YarnExact if low <= 0.0 || high <= 0.0 => {
            bail!("low is {low} and high {high}, the scaling {} needs numbers above 0", name())
        }
        Scaling::Yarn | Scaling::YarnExact if base.get() == 1.0 => {
            bail!("base is 1, the scaling {} divides by its logarithm", name())
        }
        Scaling::Llama3 if low == high => bail!("low and high are both {low}, the scaling llama3 needs a band"),
        Scaling::Unscaled
        | Scaling::Linear
        | Scaling::Dynamic
        | Scaling::Yarn
        | Scaling::YarnExact
        | Scaling::Llama3
        | Scaling::LongRope
        | Scaling::Factors => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::ops::Scaling;

    fn sdpa(heads: u32, kv_heads: u32) -> Op {
        Op::Sdpa { heads, kv_heads, head_dim: 8, causal: true }
    }

    #[test]
    fn heads_stand_in_three_forms() {
        let (k, v) = (f("P + S, 16"), f("P + S, 16"));
        assert_eq!(good(sdpa(4, 2), &[f("S, 32"), k.clone(), v.clone()]), "f32[S, 32]");
        assert_eq!(good(sdpa(4, 2), &[f("4*S, 8"), k.clone(), v.clone()]), "f32[4*S, 8]");
        let rows = f("2*P + 2*S, 8");
        assert_eq!(good(sdpa(4, 2), &[f("S, 32"), rows, v.clone()]), "f32[S, 32]");
        let batched = [f("B, 4, S, 8"), f("B, 2, T, 8"), f("B, 2, T, 8")];
        assert_eq!(good(sdpa(4, 2), &batched), "f32[B, 4, S, 8]");
        bad(sdpa(4, 3), &[f("S, 32"), k.clone(), v.clone()], "not grouped evenly");
        bad(sdpa(4, 2), &[f("S, 33"), k.clone(), v.clone()], "q has shape [S, 33]");
        bad(sdpa(4, 2), &[f("S, 8"), k.clone(), v.clone()], "no multiple of 4 heads");
        bad(sdpa(4, 2), &[f("S, 32"), k.clone(), f("S, 16")], "the number of tokens of v");
        bad(sdpa(4, 2), &[f("B, 4, S, 8"), k.clone(), v.clone()], "a batch dimension or none");
        let other = [f("B, 4, S, 8"), f("C, 2, T, 8"), f("C, 2, T, 8")];
        bad(sdpa(4, 2), &other, "the batch of k is C");
        bad(sdpa(4, 2), &[t(DType::I64, "S, 32"), k.clone(), v.clone()], "q has the type i64");
        let masked = |mask: &str| [f("S, 32"), k.clone(), v.clone(), f(mask)];
        assert_eq!(good(sdpa(4, 2), &masked("S, P + S")), "f32[S, 32]");
        assert_eq!(good(sdpa(4, 2), &masked("4, ?q_len, ?k_len")), "f32[S, 32]");
        bad(sdpa(4, 2), &masked("3, S, P + S"), "mask has shape");
        bad(sdpa(4, 2), &masked("9, 4, S, P + S"), "mask has shape");
    }

    #[test]
    fn kinds_of_attention() {
        let x = [f("S, 32"), f("T, 32"), f("T, 32")];
        let window = |window| Op::SdpaWindow { heads: 4, head_dim: 8, window };
        assert_eq!(good(window(3), &x), "f32[S, 32]");
        bad(window(0), &x, "a window of 0 keys");
        assert_eq!(good(Op::SdpaCross { heads: 4, head_dim: 8 }, &x), "f32[S, 32]");
        bad(Op::SdpaCross { heads: 4, head_dim: 0 }, &x, "size 0");
        let flash = |heads| Op::FlashAttention { heads, kv_heads: 4, head_dim: 8 };
        assert_eq!(good(flash(4), &x), "f32[S, 32]");
        bad(flash(0), &x, "0 heads");
        let scaled = |scale: f32, softcap: f32| Op::Attention {
            heads: 4,
            kv_heads: 4,
            head_dim: 8,
            causal: true,
            window: 0,
            scale: scale.into(),
            softcap: softcap.into(),
        };
        assert_eq!(good(scaled(0.1, 50.0), &x), "f32[S, 32]");
        bad(scaled(f32::NAN, 0.0), &x, "scale is NaN");
        bad(scaled(1.0, -1.0), &x, "softcap is -1");
        let Op::Attention { heads, kv_heads, head_dim, scale, softcap, .. } = scaled(1.0, 0.0) else { panic!() };
        let both_ways = Op::Attention { heads, kv_heads, head_dim, causal: false, window: 2, scale, softcap };
        bad(both_ways, &x, "needs causal = true");
    }

    #[test]
    fn segments() {
        let op = |heads, kv_heads| Op::SegmentAttention {
            heads,
            kv_heads,
            head_dim: 8,
            window: 0,
            scale: 0.5.into(),
            softcap: 0.0.into(),
        };
        let x = [f("S, 32"), f("S, 16"), f("S, 16"), t(DType::I64, "S")];
        let with = |at: usize, ty: TensorType| {
            let mut x = x.to_vec();
            x.splice(at..(at + 1).min(4), [ty]);
            x
        };
        assert_eq!(good(op(4, 2), &x), "f32[S, 32]");
        assert_eq!(good(op(4, 2), &with(4, f("4, ?q_len, ?k_len"))), "f32[S, 32]");
        assert_eq!(good(op(4, 2), &with(4, f("S, S"))), "f32[S, 32]");
        bad(op(4, 3), &x, "not grouped evenly");
        bad(op(4, 2), &with(0, f("4*S, 8")), "q has shape [4*S, 8], expected [S, 32]");
        bad(op(4, 2), &with(1, f("T, 16")), "the number of tokens of k is T");
        bad(op(4, 2), &with(2, t(DType::I64, "S, 16")), "v has the type i64");
        bad(op(4, 2), &with(3, f("S")), "segments has the type f32");
        bad(op(4, 2), &with(3, t(DType::I64, "T")), "the number of tokens of segments is T");
        bad(op(4, 2), &with(4, f("3, S, S")), "bias has shape");
    }

    #[test]
    fn caches() {
        let made = good(Op::KvCache, &[f("S, 16"), f("2*S, 8")]);
        assert_eq!(made, "f32[P + S, 16] f32[2*P + 2*S, 8]");
        assert_eq!(good(Op::KvCache, &[f("1, 16"), f("2, 8")]), "f32[P + 1, 16] f32[2*P + 2, 8]");
        bad(Op::KvCache, &[f("S"), f("S, 8")], "k has shape [S]");
        let small = |bits| Op::KvCompress { head_dim: 64, bits };
        let wide = |bits| Op::KvDecompress { head_dim: 64, bits };
        assert_eq!(good(small(8), &[f("S, 128")]), "u8[S, 136]");
        assert_eq!(good(small(4), &[f("S, 128")]), "u8[S, 72]");
        assert_eq!(good(wide(4), &[t(DType::U8, "S, 72")]), "f32[S, 128]");
        bad(small(4), &[f("S, 100")], "no multiple of 64");
        bad(small(3), &[f("S, 128")], "3 bits");
        bad(small(8), &[t(DType::U8, "S, 128")], "x has the type u8");
        bad(wide(8), &[f("S, 136")], "expected the bytes");
        bad(wide(8), &[t(DType::U8, "S, 128")], "no multiple of 68");
        bad(Op::KvCompress { head_dim: 0, bits: 8 }, &[f("S, 128")], "head_dim is 0");
        bad(Op::KvCompress { head_dim: 3, bits: 4 }, &[f("S, 3")], "an even size");
    }

    #[test]
    fn rotary() {
        let plain = |rope_dim, base: f32| Op::Rope { head_dim: 8, rope_dim, base: base.into() };
        let pos = t(DType::I64, "");
        assert_eq!(good(plain(8, 1e4), &[f("S, 4, 8"), pos.clone()]), "f32[S, 4, 8]");
        assert_eq!(good(plain(4, 1e4), &[f("4*S, 8"), f("1")]), "f32[4*S, 8]");
        bad(plain(10, 1e4), &[f("S, 4, 8"), pos.clone()], "rope_dim 10 of head_dim 8");
        bad(plain(8, 0.0), &[f("S, 4, 8"), pos.clone()], "base is 0");
        bad(plain(8, 1e4), &[f("S, 4, 9"), pos.clone()], "the last dimension of x is 9");
        bad(plain(8, 1e4), &[f("8"), pos.clone()], "x has shape [8]");
        bad(plain(8, 1e4), &[f("S, 4, 8"), f("1, 1")], "pos has shape [1, 1]");
        let scaled = |short: Vec<crate::ops::Real>| Op::RopeScaled {
            head_dim: 8,
            rope_dim: 4,
            base: 1e4.into(),
            interleaved: false,
            scaling: Scaling::Factors,
            factor: 1.0.into(),
            original: 0,
            low: 0.0.into(),
            high: 0.0.into(),
            attention_factor: 1.0.into(),
            short,
            long: vec![],
        };
        let two = vec![1.0.into(), 2.0.into()];
        assert_eq!(good(scaled(two), &[f("S, 4, 8"), pos.clone()]), "f32[S, 4, 8]");
        bad(scaled(vec![1.0.into()]), &[f("S, 4, 8"), pos], "`short` has 1 factors, expected 2");
        bad(scaled(vec![1.0.into(), 0.0.into()]), &[f("S, 4, 8"), f("")], "`short` holds 0");
        bad(scaled(vec![1.0.into(), f32::NAN.into()]), &[f("S, 4, 8"), f("")], "`short` holds NaN");
        assert_eq!(good(plain(8, 1e4), &[f("S, 4, 8"), f("S")]), "f32[S, 4, 8]");
        assert_eq!(good(plain(8, 1e4), &[f("2, 4, S, 8"), f("S")]), "f32[2, 4, S, 8]");
        assert_eq!(good(plain(8, 1e4), &[f("4*S, 8"), f("S")]), "f32[4*S, 8]");
        bad(plain(8, 1e4), &[f("3, 4, 8"), f("2")], "pos has 2 positions");
        bad(plain(8, 1e4), &[f("2, 3, 4, 8"), f("3")], "pos has 3 positions");
        bad(plain(8, 1e4), &[f("5, 8"), f("2")], "pos has 2 positions");
    }

    #[test]
    fn scalings_refuse_what_they_divide_by() {
        let x = [f("S, 4, 8"), f("")];
        let scaled = |scaling, base: f32, factor: f32, original, low: f32, high: f32, attention: f32| Op::RopeScaled {
            head_dim: 8,
            rope_dim: 8,
            base: base.into(),
            interleaved: false,
            scaling,
            factor: factor.into(),
            original,
            low: low.into(),
            high: high.into(),
            attention_factor: attention.into(),
            short: vec![],
            long: vec![],
        };
        use Scaling::*;
        for scaling in [Unscaled, Linear, Dynamic, Yarn, YarnExact, Llama3, LongRope, Factors] {
            good(scaled(scaling, 1e4, 2.0, 64, 1.0, 4.0, 1.0), &x);
            bad(scaled(scaling, 1e4, f32::NAN, 64, 1.0, 4.0, 1.0), &x, "factor is NaN");
            bad(scaled(scaling, 1e4, 2.0, 64, f32::INFINITY, 4.0, 1.0), &x, "low is inf");
            bad(scaled(scaling, 1e4, 2.0, 64, 1.0, f32::NAN, 1.0), &x, "high is NaN");
            bad(scaled(scaling, 1e4, 2.0, 64, 1.0, 4.0, f32::NAN), &x, "attention_factor is NaN");
        }
        // Zeros where a number is not used, as writers leave them.
        good(scaled(Unscaled, 1e4, 0.0, 0, 0.0, 0.0, 1.0), &x);
        good(scaled(Factors, 1e4, 0.0, 0, 0.0, 0.0, 1.0), &x);
        for scaling in [Linear, Dynamic, Yarn, YarnExact, Llama3] {
            bad(scaled(scaling, 1e4, 0.0, 64, 1.0, 4.0, 1.0), &x, "factor is 0");
            bad(scaled(scaling, 1e4, -2.0, 64, 1.0, 4.0, 1.0), &x, "factor is -2");
        }
        for scaling in [Dynamic, Yarn, YarnExact, Llama3, LongRope] {
            bad(scaled(scaling, 1e4, 2.0, 0, 1.0, 4.0, 1.0), &x, "original is 0");
        }
        bad(scaled(Yarn, 1e4, 2.0, 64, 0.0, 4.0, 1.0), &x, "low is 0 and high 4, the scaling yarn");
        bad(scaled(YarnExact, 1.0, 2.0, 64, 1.0, 4.0, 1.0), &x, "the scaling yarn_exact divides");
        bad(scaled(Llama3, 1e4, 2.0, 64, 4.0, 4.0, 1.0), &x, "low and high are both 4");
    }
}
