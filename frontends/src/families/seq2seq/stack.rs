//! A stack of layers, on either side of an encoder-decoder: what varies, and its pieces.

use crate::families::decoder::Activation;
use crate::families::parts::{Built, Parts};
use tallow_ir::ops::{Comparison, Real};
use tallow_ir::{DType, IrError, Op, TensorType, Value};

/// The layers of one side.
#[derive(Clone, Debug)]
pub struct Stack {
    /// What names of values begin with: `enc` or `dec`.
    pub side: &'static str,
    /// Number of layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Heads of every attention.
    pub heads: u32,
    /// Size of a head.
    pub head_dim: u32,
    /// Width between the matrices of the feed-forward.
    pub width: u32,
    /// The norm at every place.
    pub norm: StackNorm,
    /// Whether norms stand before the branches; else behind the sums.
    pub pre_norm: bool,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// Whether linear maps have biases, and whether that to keys has one.
    pub bias: bool,
    /// See `bias`.
    pub key_bias: bool,
    /// Whether the feed-forward is gated.
    pub gated: bool,
    /// Its activation.
    pub activation: Activation,
    /// Names of tensors.
    pub names: StackNames,
    /// The last norm, where there is one.
    pub final_norm: Option<String>,
    /// Attention bias by distance, the same for all layers.
    pub relative: Option<Relative>,
}

/// A norm of a stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StackNorm {
    /// Root mean square with a gain.
    Rms {
        /// Added to the mean square.
        eps: f32,
    },
    /// Mean and deviation, with gain and shift.
    Layer {
        /// Added to the variance.
        eps: f32,
    },
}

/// Names of tensors in a layer, which follow `{prefix}.{number}.`.
#[derive(Clone, Debug)]
pub struct StackNames {
    /// The list of layers.
    pub prefix: String,
    /// Attention of the side to itself.
    pub own: AttentionNames,
    /// Attention of the decoder to the encoder.
    pub cross: AttentionNames,
    /// The norm of the feed-forward.
    pub feed_norm: &'static str,
    /// Its first matrix, or the half that is not activated.
    pub up: &'static str,
    /// The activated half of a gated one.
    pub gate: &'static str,
    /// Its last matrix.
    pub down: &'static str,
}

/// Names of an attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionNames {
    /// Its norm.
    pub norm: &'static str,
    /// Projections to queries, keys, values, and back.
    pub q: &'static str,
    /// See `q`.
    pub k: &'static str,
    /// See `q`.
    pub v: &'static str,
    /// See `q`.
    pub out: &'static str,
}

/// Attention bias by the bucket of the distance between query and key (T5, section 2.1).
#[derive(Clone, Debug)]
pub struct Relative {
    /// The table, `[buckets, heads]`.
    pub tensor: String,
    /// Its rows.
    pub buckets: u32,
    /// Distances from here on share the last bucket.
    pub farthest: u32,
    /// Whether keys behind the query have buckets of their own; else they count as distance 0.
    pub both_ways: bool,
}

impl Relative {
    /// The bucket of each distance from 0 to `farthest`, on one side.
    fn table(&self) -> Vec<u32> {
        let buckets = if self.both_ways { self.buckets / 2 } else { self.buckets };
        let exact = (buckets / 2).max(1);
        let bucket = |distance: u32| {
            if distance < exact {
                return distance.min(buckets.saturating_sub(1));
            }
            // In single precision and in this order, as the reference counts.
            let share =
                (distance as f32 / exact as f32).ln() / (f64::from(self.farthest) / f64::from(exact)).ln() as f32;
            let far = exact + (share * (buckets - exact) as f32) as u32;
            far.min(buckets - 1)
        };
        (0..=self.farthest).map(bucket).collect()
    }

    /// The bias `[heads, S, T]` of the rows of `queries`, which follow `past` earlier ones, to those of `keys`.
    fn bias(&self, parts: &mut Parts<'_>, heads: u32, queries: Value, keys: Value, past: bool) -> Built {
        let number = |n: f32| vec![Real::from(n)];
        let constant = |n: f32| Op::Constant { dtype: DType::I64, shape: vec![], values: number(n) };
        let table = parts.weight(&self.tensor, &[self.buckets, heads])?;
        let g = &mut parts.graph;
        let mut q = g.op(Op::Iota { axis: 0 }, &[queries])?;
        if past {
            let pos = g.pos()?;
            q = g.op(Op::Add, &[q, pos])?;
        }
        let k = g.op(Op::Iota { axis: 0 }, &[keys])?;
        let q = g.op(Op::Unsqueeze { axes: vec![1] }, &[q])?;
        let k = g.op(Op::Unsqueeze { axes: vec![0] }, &[k])?;
        let ahead = g.op(Op::Sub, &[k, q])?;
        let zero = g.op(constant(0.0), &[])?;
        let farthest = g.op(constant(self.farthest as f32), &[])?;
        let behind = g.op(Op::Sub, &[q, k])?;
        let distance = match self.both_ways {
            true => g.op(Op::Maximum, &[ahead, behind])?,
            false => g.op(Op::Maximum, &[behind, zero])?,
        };
        let distance = g.op(Op::Minimum, &[distance, farthest])?;
        let values: Vec<Real> = self.table().into_iter().map(|n| Real::from(n as f32)).collect();
        let buckets = g.op(Op::Constant { dtype: DType::I64, shape: vec![values.len() as i64], values }, &[])?;
        let mut bucket = g.op(Op::Gather { axis: 0 }, &[buckets, distance])?;
        if self.both_ways {
            let later = g.op(Op::Compare { how: Comparison::Greater }, &[ahead, zero])?;
            let later = g.op(Op::Cast { dtype: DType::I64 }, &[later])?;
            let half = g.op(constant((self.buckets / 2) as f32), &[])?;
            let shift = g.op(Op::Mul, &[later, half])?;
            bucket = g.op(Op::Add, &[bucket, shift])?;
        }
        let rows = g.op(Op::Gather { axis: 0 }, &[table, bucket])?;
        parts.op(Op::Permute { dims: vec![2, 0, 1] }, &[rows], "relative_bias")
    }
}

/// Keys and values of the encoder for each layer of the decoder.
pub type Cross = Vec<(Value, Value)>;

impl Stack {
    fn part(&self, layer: u32, name: &str) -> String {
        format!("{}.{layer}.{name}", self.names.prefix)
    }

    fn says(&self, layer: u32, what: &str) -> String {
        format!("{}{layer}.{what}", self.side)
    }

    /// The norm of a name.
    pub fn normed(&self, parts: &mut Parts<'_>, x: Value, name: &str, says: impl Into<String>) -> Built {
        match self.norm {
            StackNorm::Layer { eps } => parts.layer_norm(x, name, self.hidden, eps, true, says),
            StackNorm::Rms { eps } => {
                let gain = parts.weight(&format!("{name}.weight"), &[self.hidden])?;
                parts.op(Op::RmsNorm { eps: eps.into() }, &[x, gain], says)
            }
        }
    }

    /// `h + branch(h)` with the norm before the branch, or behind the sum.
    fn join(
        &self,
        parts: &mut Parts<'_>,
        h: Value,
        (norm, says): (String, String),
        branch: impl FnOnce(&mut Parts<'_>, Value) -> Built,
    ) -> Built {
        if self.pre_norm {
            let x = self.normed(parts, h, &norm, format!("{says}_norm"))?;
            let made = branch(parts, x)?;
            return parts.op(Op::Add, &[h, made], says);
        }
        let made = branch(parts, h)?;
        let sum = parts.op(Op::Add, &[h, made], format!("{says}_sum"))?;
        self.normed(parts, sum, &norm, says)
    }

    fn attention_width(&self) -> u32 {
        self.heads * self.head_dim
    }

    /// A projection of an attention: `x` to `[S, heads · head_dim]`.
    fn project(&self, parts: &mut Parts<'_>, x: Value, name: &str, bias: bool, says: String) -> Built {
        parts.linear(x, name, [self.attention_width(), self.hidden], bias, says)
    }

    fn attend(
        &self,
        parts: &mut Parts<'_>,
        [q, k, v]: [Value; 3],
        causal: bool,
        bias: Option<Value>,
        (out, says): (String, String),
    ) -> Built {
        let (heads, head_dim) = (self.heads, self.head_dim);
        let (scale, softcap) = (self.scale.into(), 0.0.into());
        let op = Op::Attention { heads, kv_heads: heads, head_dim, causal, window: 0, scale, softcap };
        let operands: Vec<Value> = [q, k, v].into_iter().chain(bias).collect();
        let mixed = parts.op(op, &operands, format!("{says}_mixed"))?;
        parts.linear(mixed, &out, [self.hidden, self.attention_width()], self.bias, says)
    }

    /// All layers over `h` `[S, hidden]`, and the last norm: of an encoder without `cross`, where all rows see each other;
    /// of a decoder with the keys and values of the encoder, where each row sees those before it, and the cache.
    pub fn layers(&self, parts: &mut Parts<'_>, mut h: Value, cross: Option<&Cross>) -> Built {
        let mut bias = None;
        for layer in 0..self.layers {
            let own = &self.names.own;
            let norm = (self.part(layer, own.norm), self.says(layer, "attn"));
            h = self.join(parts, h, norm, |parts, x| {
                let say = |what: &str| self.says(layer, what);
                let q = self.project(parts, x, &self.part(layer, own.q), self.bias, say("q"))?;
                let mut k = self.project(parts, x, &self.part(layer, own.k), self.key_bias, say("k"))?;
                let mut v = self.project(parts, x, &self.part(layer, own.v), self.bias, say("v"))?;
                if cross.is_some() {
                    let all = parts.graph.op_many(Op::KvCache, &[k, v])?;
                    (k, v) = (all[0], all[1]);
                }
                if let (None, Some(relative)) = (bias, &self.relative) {
                    bias = Some(relative.bias(parts, self.heads, q, k, cross.is_some())?);
                }
                let out = (self.part(layer, own.out), say("attn_out"));
                self.attend(parts, [q, k, v], cross.is_some(), bias, out)
            })?;
            if let Some(&(k, v)) = cross.and_then(|c| c.get(layer as usize)) {
                let names = &self.names.cross;
                let norm = (self.part(layer, names.norm), self.says(layer, "cross"));
                h = self.join(parts, h, norm, |parts, x| {
                    let q =
                        self.project(parts, x, &self.part(layer, names.q), self.bias, self.says(layer, "cross_q"))?;
                    let out = (self.part(layer, names.out), self.says(layer, "cross_out"));
                    self.attend(parts, [q, k, v], false, None, out)
                })?;
            }
            let norm = (self.part(layer, self.names.feed_norm), self.says(layer, "ffn"));
            h = self.join(parts, h, norm, |parts, x| self.feed_forward(parts, x, layer))?;
        }
        match &self.final_norm {
            Some(name) => self.normed(parts, h, name, format!("{}_norm", self.side)),
            None => Ok(h),
        }
    }

    fn feed_forward(&self, parts: &mut Parts<'_>, x: Value, layer: u32) -> Built {
        let inner = [self.width, self.hidden];
        let mut y = parts.linear(x, &self.part(layer, self.names.up), inner, self.bias, self.says(layer, "up"))?;
        if self.gated {
            let name = self.part(layer, self.names.gate);
            let gate = parts.linear(x, &name, inner, self.bias, self.says(layer, "gate"))?;
            y = crate::families::decoder::gated(&mut parts.graph, gate, y, self.activation)?;
        } else {
            y = parts.graph.op(self.activation.op(), &[y])?;
        }
        parts.graph.name(y, self.says(layer, "active"));
        parts.linear(
            y,
            &self.part(layer, self.names.down),
            [self.hidden, self.width],
            self.bias,
            self.says(layer, "ffn_out"),
        )
    }

    /// Keys and values of all layers of this decoder for `encoded` `[T, hidden]`, as outputs of the encoder's graph.
    pub fn put_cross(&self, parts: &mut Parts<'_>, encoded: Value) -> Result<(), IrError> {
        for layer in 0..self.layers {
            for (what, name, bias) in [("k", self.names.cross.k, self.key_bias), ("v", self.names.cross.v, self.bias)] {
                let says = cross_name(what, layer);
                let value = self.project(parts, encoded, &self.part(layer, name), bias, says.clone())?;
                parts.graph.output(&says, value)?;
            }
        }
        Ok(())
    }

    /// The same as inputs of the decoder's graph, `length` rows each.
    pub fn take_cross(&self, parts: &mut Parts<'_>, length: &tallow_ir::Dim) -> Result<Cross, IrError> {
        let width = i64::from(self.attention_width());
        let ty = || TensorType::f32(tallow_ir::Shape::new([length.clone(), width.into()]));
        (0..self.layers)
            .map(|layer| {
                let k = parts.graph.input(&cross_name("k", layer), ty())?;
                let v = parts.graph.input(&cross_name("v", layer), ty())?;
                Ok((k, v))
            })
            .collect()
    }
}

fn cross_name(what: &str, layer: u32) -> String {
    format!("cross_{what}.{layer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_exact_near_and_logarithmic_far() {
        let relative = |both_ways| Relative { tensor: String::new(), buckets: 32, farthest: 128, both_ways };
        let near = relative(true).table();
        assert_eq!(near[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((near[11], near[12], near[127], near[128]), (8, 9, 15, 15));
        let past = relative(false).table();
        assert_eq!((past[15], past[16], past[20], past[128]), (15, 16, 17, 31));
    }
}
