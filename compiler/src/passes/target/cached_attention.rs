//! A cache with the attention that reads it, and what turns queries and keys before, as one step with state.
//!
//! The pattern, from the cache: one attention reads all keys and values. Queries and keys come to it through a
//! reshape, a rotary embedding, a reshape, a norm of each head and a reshape, of which any may be absent, as long as
//! both sides have the same. The reshapes only move the borders between rows, heads and their elements, so that the
//! elements stay in their order.

use super::{Guard, device, sole};
use crate::body::Body;
use crate::patch::{Patch, Tap};
use crate::pipeline::{Context, Rule};
use tallow_ir::ops::CachedParts;
use tallow_ir::{Dim, NodeId, Op, SEQUENCE, Value};

/// The pass.
pub(in crate::passes) struct CachedAttention;

impl Rule for CachedAttention {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let Op::KvCache = body.op(at)? else { return None };
        fuse(body, at, cx).map_err(|why| cx.missed(at, "cache and attention", why)).ok()
    }
}

fn fuse(body: &Body, cache: NodeId, cx: &Context<'_>) -> Guard<Patch> {
    device(cx)?;
    let &[k, v] = body.operands(cache) else { return Err("it has not two operands".to_owned()) };
    for (what, side) in [("keys", k), ("values", v)] {
        if matches!(body.maker(side), Some((_, Op::KvCompress { .. }))) {
            return Err(format!("the {what} are compressed"));
        }
        if body.ty(side).shape.rank() != 2 {
            return Err(format!("the {what} have the shape {}, and not a row for each token", body.ty(side).shape));
        }
    }
    let reader = attention_of(body, cache)?;
    let (attention, [heads, kv_heads, head_dim]) = numbers(body, reader)?;
    let &[q, ..] = body.operands(reader) else { return Err("the attention has no operands".to_owned()) };
    for (what, side, heads) in [("keys", k, kv_heads), ("values", v, kv_heads)] {
        let width = i64::from(heads) * i64::from(head_dim);
        if body.ty(side).shape.last().and_then(Dim::as_const) != Some(width) {
            return Err(format!("the {what} have the shape {}, and not [S, {width}]", body.ty(side).shape));
        }
    }
    let (mut query, mut key) = (Side::of(body, q, heads, head_dim), Side::of(body, k, kv_heads, head_dim));
    let rope = match (&query.rope, &key.rope) {
        (None, None) => None,
        (Some(a), Some(b)) if a.0 == b.0 && a.1 == b.1 => Some(a.clone()),
        _ => return Err(format!("`{}` and `{}` turn differently", body.place(q.node), body.place(k.node))),
    };
    let norm = match (&query.norm, &key.norm) {
        (Some(a), Some(b)) if a.0 == b.0 => Some((a.0.clone(), [a.1, b.1])),
        _ => None,
    };
    let norms_differ = norm.is_none() && (query.norm.is_some() || key.norm.is_some());
    if norm.is_none() {
        // Norms of one side, or of two kinds, stay where they are.
        query.stop_at_norm();
        key.stop_at_norm();
    }
    for side in [&query, &key] {
        side.check(body)?;
    }
    let parts =
        CachedParts { attention, norm: norm.as_ref().map(|n| n.0.clone()), rope: rope.as_ref().map(|r| r.0.clone()) };
    let op = parts.op().ok_or("the heads have other sizes than those that turn")?;
    let mut patch = Patch::new(label(&parts, norms_differ));
    let fail = |e: tallow_ir::RuleError| e.to_string();
    let mut operands = vec![query.source(body, &mut patch)?, key.source(body, &mut patch)?, Tap::from(v)];
    operands.extend(norm.iter().flat_map(|n| n.1).map(Tap::from));
    operands.extend(rope.iter().map(|r| Tap::from(r.1)));
    let mut y = patch.op(body, op, &operands).map_err(fail)?;
    let result = Value { node: reader, port: 0 };
    if patch.ty(body, y) != body.ty(result) {
        let wanted = shape_of(&body.ty(result).shape).ok_or("the result has a shape that no Reshape gives")?;
        y = patch.op(body, wanted, &[y]).map_err(fail)?;
    }
    patch.replace(result, y);
    patch.supersede(cache);
    Ok(patch)
}

fn label(parts: &CachedParts, norms_differ: bool) -> String {
    let mut steps = Vec::new();
    steps.extend(parts.norm.iter().map(|_| "norm of heads"));
    steps.extend(parts.rope.iter().map(|_| "rotary embedding"));
    steps.extend(["cache", "attention"]);
    let without = if norms_differ { "; the norms of queries and keys differ and stay" } else { "" };
    steps.join(", ") + without
}

/// The one attention that reads all rows of the cache.
fn attention_of(body: &Body, cache: NodeId) -> Guard<NodeId> {
    let mut found = None;
    for (port, what) in [(0, "keys"), (1, "values")] {
        let all = Value { node: cache, port };
        let readers = body.uses(all);
        if let Some(name) = body.output_names(all).first() {
            return Err(format!("the {what} are the output `{name}`"));
        }
        if readers != 1 {
            return Err(format!("the {what} have {readers} readers"));
        }
        let reads = body.readers(all).first().copied();
        match reads {
            Some((id, at)) if at == port + 1 && found.is_none_or(|f| f == id) => found = Some(id),
            Some((id, _)) => return Err(format!("`{}` reads the {what}", body.place(id))),
            None => return Err(format!("nothing reads the {what}")),
        }
    }
    let id = found.ok_or("nothing reads it")?;
    if let Some(Op::KvDecompress { .. }) = body.op(id) {
        return Err("the rows are compressed".to_owned());
    }
    Ok(id)
}

/// An attention as `Attention`, with heads of queries and of keys and the size of each.
fn numbers(body: &Body, id: NodeId) -> Guard<(Op, [u32; 3])> {
    let plain = |heads, kv_heads, head_dim: u32, causal, window| Op::Attention {
        heads,
        kv_heads,
        head_dim,
        causal,
        window,
        // As kernels have it where there is no field for it.
        scale: (1.0 / (head_dim as f32).sqrt()).into(),
        softcap: 0.0.into(),
    };
    let op = match body.op(id) {
        Some(op @ Op::Attention { .. }) => op.clone(),
        Some(&Op::Sdpa { heads, kv_heads, head_dim, causal }) => plain(heads, kv_heads, head_dim, causal, 0),
        Some(&Op::SdpaWindow { heads, head_dim, window }) => plain(heads, heads, head_dim, true, window),
        Some(&Op::FlashAttention { heads, kv_heads, head_dim }) => plain(heads, kv_heads, head_dim, true, 0),
        _ => return Err(format!("`{}`, which reads it, is no attention over a cache", body.place(id))),
    };
    if body.operands(id).len() != 3 {
        return Err(format!("`{}` has a mask", body.place(id)));
    }
    match op {
        Op::Attention { heads, kv_heads, head_dim, .. } => Ok((op, [heads, kv_heads, head_dim])),
        _ => Err("it is no attention".to_owned()),
    }
}

/// The way of queries, or keys, to where they are used.
struct Side {
    heads: u32,
    head_dim: u32,
    /// What is used.
    base: Value,
    /// What is there before the steps that the fused one takes over.
    from: Value,
    /// What is there after the norm.
    after_norm: Option<Value>,
    rope: Option<(Op, Value)>,
    norm: Option<(Op, Value)>,
    /// The values in between, from `base` on.
    inner: Vec<Value>,
    /// How many of them there are down to the norm.
    inner_to_norm: usize,
}

impl Side {
    /// Walks up from what is used.
    fn of(body: &Body, base: Value, heads: u32, head_dim: u32) -> Side {
        let mut side = Side {
            heads,
            head_dim,
            base,
            from: base,
            after_norm: None,
            rope: None,
            norm: None,
            inner: Vec::new(),
            inner_to_norm: 0,
        };
        side.skip_reshape(body);
        if let Some((node, op @ (Op::Rope { .. } | Op::RopeScaled { .. }))) = body.maker(side.from)
            && side.turns_heads(body)
            && let &[x, pos] = body.operands(node)
        {
            side.rope = Some((op.clone(), pos));
            side.inner.push(side.from);
            side.from = x;
            side.skip_reshape(body);
        }
        (side.after_norm, side.inner_to_norm) = (Some(side.from), side.inner.len());
        if let Some((node, op @ Op::RmsNorm { .. })) = body.maker(side.from)
            && body.ty(side.from).shape.last().and_then(Dim::as_const) == Some(head_dim.into())
            && let &[x, gain] = body.operands(node)
        {
            side.norm = Some((op.clone(), gain));
            side.inner.push(side.from);
            side.from = x;
            side.skip_reshape(body);
        }
        side
    }

    /// Whether what turns are rows of heads: `[tokens, heads, head_dim]` or `[tokens · heads, head_dim]`.
    fn turns_heads(&self, body: &Body) -> bool {
        match body.ty(self.from).shape.dims() {
            [_, _] => true,
            [_, heads, _] => heads.as_const() == Some(self.heads.into()),
            _ => false,
        }
    }

    /// Reshapes, a few at most: what simplifies a graph leaves one.
    fn skip_reshape(&mut self, body: &Body) {
        const MOST: usize = 4;
        let end = self.inner.len() + MOST;
        while self.inner.len() < end
            && let Some((node, Op::Reshape { .. } | Op::Flatten { .. } | Op::Unflatten { .. })) = body.maker(self.from)
            && let Some(x) = body.operand(node, 0)
            && !body.is_weight(x)
        {
            self.inner.push(self.from);
            self.from = x;
        }
    }

    fn stop_at_norm(&mut self) {
        if let Some(value) = self.after_norm {
            self.from = value;
            self.inner.truncate(self.inner_to_norm);
            self.norm = None;
        }
    }

    /// Everything in between is read by the next step alone, and rows turn with the tokens of a call.
    fn check(&self, body: &Body) -> Guard {
        for &value in &self.inner {
            sole(body, value)?;
        }
        let (h, d) = (Dim::constant(self.heads.into()), Dim::constant(self.head_dim.into()));
        let tokens = body.ty(self.base).shape.elements().and_then(|n| n.div_exact(&h.mul(&d)?));
        match tokens {
            None => Err(format!("`{}` is not divided into heads of {d}", body.place(self.base.node))),
            // Rows of heads take their number of tokens from the call, and not from the shape.
            Some(n) if self.rope.is_some() && n.as_symbol() != Some(SEQUENCE) && n.as_const() != Some(1) => {
                Err(format!("`{}` has rows for {n} tokens, and a call {SEQUENCE}", body.place(self.base.node)))
            }
            Some(_) => Ok(()),
        }
    }

    /// The operand of the fused step: a row for each token.
    fn source(&self, body: &Body, patch: &mut Patch) -> Guard<Tap> {
        let width = i64::from(self.heads) * i64::from(self.head_dim);
        let shape = &body.ty(self.from).shape;
        if shape.rank() == 2 && shape.last().and_then(Dim::as_const) == Some(width) {
            return Ok(self.from.into());
        }
        let wide = Op::Reshape { shape: vec![-1, width] };
        patch.op(body, wide, &[self.from.into()]).map_err(|e| e.to_string())
    }
}

/// The reshape to a shape, of which at most one size is told by a call.
fn shape_of(shape: &tallow_ir::Shape) -> Option<Op> {
    let shape: Vec<i64> = shape.dims().iter().map(|d| d.as_const().unwrap_or(-1)).collect();
    (shape.iter().filter(|&&n| n < 0).count() <= 1).then_some(Op::Reshape { shape })
}
