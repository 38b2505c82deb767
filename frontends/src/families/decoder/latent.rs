//! Latent attention: keys and values of all heads come from one narrow row for each token, and queries may too.
//!
//! A head of a query or key is `plain` lanes that do not turn, then `turned` ones that do; the turned lanes of the key are
//! the same for all heads. Heads of values may have another size: the shorter kind is filled up with zeros, which change
//! neither scores nor sums. The cache holds the keys and values of all heads.

use super::DecoderSpec;
use crate::families::parts::{Built, Parts};
use tallow_ir::Op;
use tallow_ir::Value;
use tallow_ir::ops::PadMode;

/// ε of the norms of the narrow rows, whatever the other norms have.
const EPS: f32 = 1e-6;

/// The sizes of latent attention.
#[derive(Clone, Debug, PartialEq)]
pub struct Latent {
    /// Width of the narrow rows that queries come from; `None`: they come from the residual stream.
    pub q_rank: Option<u32>,
    /// Width of the narrow rows that keys and values come from.
    pub kv_rank: u32,
    /// Lanes of a head of queries and keys that do not turn.
    pub plain: u32,
    /// Lanes that do.
    pub turned: u32,
    /// Lanes of a head of values.
    pub value: u32,
    /// Scores are multiplied by this.
    pub scale: f32,
}

impl Latent {
    /// Attention of a layer over `x` (`[S, hidden]`): `[S, hidden]`.
    ///
    /// # Errors
    /// Operations that do not fit together.
    pub(super) fn build(&self, parts: &mut Parts<'_>, spec: &DecoderSpec, layer: usize, x: Value) -> Built {
        let (a, hidden) = (&spec.attention, spec.hidden);
        let part = |p: &str| spec.names.in_layer(layer, &format!("self_attn.{p}"));
        let says = |what: &str| format!("layer{layer}.{what}");
        let (heads, size) = (a.heads, self.plain + self.turned);

        let q_rows = heads * size;
        let q = match self.q_rank {
            None => parts.linear(x, &part("q_proj"), [q_rows, hidden], false, says("q"))?,
            Some(rank) => {
                let narrow = parts.linear(x, &part("q_a_proj"), [rank, hidden], a.qkv_bias, says("q_narrow"))?;
                let narrow = parts.rms_norm(narrow, &part("q_a_layernorm"), rank, EPS, says("q_narrow_norm"))?;
                parts.linear(narrow, &part("q_b_proj"), [q_rows, rank], false, says("q"))?
            }
        };
        let q = self.heads_of(parts, q, heads, [self.plain, self.turned])?;
        let turned = self.turn(parts, spec, layer, q[1], "q")?;
        let q = parts.op(Op::Concat { axis: 2 }, &[q[0], turned], says("q_heads"))?;

        let narrow_rows = [self.kv_rank + self.turned, hidden];
        let narrow = parts.linear(x, &part("kv_a_proj_with_mqa"), narrow_rows, a.qkv_bias, says("kv_narrow"))?;
        let narrow = parts.split(narrow, &[self.kv_rank, self.turned])?;
        let row = parts.rms_norm(narrow[0], &part("kv_a_layernorm"), self.kv_rank, EPS, says("kv_narrow_norm"))?;
        let kv = self.keys_and_values(parts, row, &part, heads, &says)?;
        // The turned lanes of the one key stand in every head.
        let one = parts.graph.op(Op::Reshape { shape: vec![-1, 1, self.turned.into()] }, &[narrow[1]])?;
        let one = self.turn(parts, spec, layer, one, "k")?;
        let turned = parts.graph.op(Op::Expand { shape: vec![-1, heads.into(), -1] }, &[one])?;
        let k = parts.op(Op::Concat { axis: 2 }, &[kv[0], turned], says("k_heads"))?;

        let full = size.max(self.value);
        let (q, k) = (rows(parts, q, heads, size, full)?, rows(parts, k, heads, size, full)?);
        let v = rows(parts, kv[1], heads, self.value, full)?;
        let (k, v) = match a.causal {
            true => {
                let cached = parts.graph.op_many(Op::KvCache, &[k, v])?;
                parts.graph.name(cached[0], says("k_all"));
                parts.graph.name(cached[1], says("v_all"));
                (cached[0], cached[1])
            }
            false => (k, v),
        };
        let op = Op::Attention {
            heads,
            kv_heads: heads,
            head_dim: full,
            causal: a.causal,
            window: 0,
            scale: self.scale.into(),
            softcap: 0.0.into(),
        };
        let mut mixed = parts.op(op, &[q, k, v], says("attn"))?;
        if full > self.value {
            let (n, d) = (i64::from(heads), i64::from(self.value));
            mixed = parts.graph.op(Op::Reshape { shape: vec![-1, n, full.into()] }, &[mixed])?;
            mixed = parts.graph.op(Op::Slice { axis: 2, start: 0, end: d }, &[mixed])?;
            mixed = parts.graph.op(Op::Reshape { shape: vec![-1, n * d] }, &[mixed])?;
        }
        parts.linear(mixed, &part("o_proj"), [hidden, heads * self.value], a.out_bias, says("attn_out"))
    }

    /// What keys do not turn, and values, of the heads: `[S, heads, …]`, from narrow rows. One matrix gives both, or each has
    /// its own.
    fn keys_and_values(
        &self,
        parts: &mut Parts<'_>,
        row: Value,
        part: &dyn Fn(&str) -> String,
        heads: u32,
        says: &dyn Fn(&str) -> String,
    ) -> Result<Vec<Value>, tallow_ir::IrError> {
        if !parts.has(&format!("{}.weight", part("k_b_proj"))) {
            let rows = [heads * (self.plain + self.value), self.kv_rank];
            let kv = parts.linear(row, &part("kv_b_proj"), rows, false, says("kv"))?;
            return self.heads_of(parts, kv, heads, [self.plain, self.value]);
        }
        let each = [("k_b_proj", self.plain, "k_plain"), ("v_b_proj", self.value, "v")];
        let mut made = Vec::with_capacity(2);
        for (name, size, what) in each {
            let x = parts.linear(row, &part(name), [heads * size, self.kv_rank], false, says(what))?;
            made.push(parts.graph.op(Op::Reshape { shape: vec![-1, heads.into(), size.into()] }, &[x])?);
        }
        Ok(made)
    }

    /// The two parts of each head of `x`, `[S, heads, …]`.
    fn heads_of(
        &self,
        parts: &mut Parts<'_>,
        x: Value,
        heads: u32,
        sizes: [u32; 2],
    ) -> Result<Vec<Value>, tallow_ir::IrError> {
        let shape = vec![-1, heads.into(), (sizes[0] + sizes[1]).into()];
        let x = parts.graph.op(Op::Reshape { shape }, &[x])?;
        parts.graph.op_many(Op::Split { axis: 2, sizes: sizes.to_vec() }, &[x])
    }

    /// `x` (`[S, heads, turned]`) turned by the positions of its tokens.
    fn turn(&self, parts: &mut Parts<'_>, spec: &DecoderSpec, layer: usize, x: Value, what: &str) -> Built {
        let Some(rope) = &spec.layers[layer].rope else { return Ok(x) };
        let pos = parts.graph.pos()?;
        parts.op(rope.op(self.turned), &[x, pos], format!("layer{layer}.{what}_rope"))
    }
}

/// Heads `[S, heads, size]` as rows `[S, heads · full]`, with zeros behind the lanes of each head.
fn rows(parts: &mut Parts<'_>, x: Value, heads: u32, size: u32, full: u32) -> Built {
    let mut x = x;
    if size < full {
        let pads = vec![0, 0, 0, 0, 0, (full - size).into()];
        x = parts.graph.op(Op::Pad { mode: PadMode::Constant, pads, value: 0.0.into() }, &[x])?;
    }
    parts.graph.op(Op::Reshape { shape: vec![-1, (heads * full).into()] }, &[x])
}
