//! From the description of a decoder to its graph.

use super::{Activation, DecoderSpec, Gate, HeadNorm, Norm, NormPlaces, Projections};
use crate::families::experts::Place;
use crate::families::parts::{Built, Parts};
use crate::families::{FamilyError, TensorShapes};
use tallow_ir::{Dim, Graph, IrError, Op, SEQUENCE, Shape, TensorType, Value};

/// Builds the graph of `spec`: `input_ids` (i64 `[S]`) to `logits` (f32 `[S, vocab]`).
///
/// `hints` are lines about the config that go into an error about tensors.
///
/// # Errors
/// Every missing tensor and every tensor of another shape, together.
pub fn build(spec: &DecoderSpec, tensors: &dyn TensorShapes, hints: &[String]) -> Result<Graph, FamilyError> {
    let mut parts = Parts::new(spec.model_type, tensors);
    let mut decoder = || {
        let ids = parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
        let mut h = embed(&mut parts, spec, ids)?;
        if let Some(most) = spec.embedding.positions {
            let table = format!("{}{}.weight", spec.names.prefix, spec.names.positions);
            let learned = parts.learned_positions(ids, &table, [most, spec.hidden])?;
            h = parts.op(Op::Add, &[h, learned], "embed_with_positions")?;
        }
        decode(&mut parts, spec, h, None)
    };
    decoder().map_err(|source| FamilyError::Graph { model_type: spec.model_type.to_owned(), source })?;
    parts.finish(hints)
}

/// The rows of the table of embeddings, `[S, hidden]`, for `ids` (i64 `[S]`).
pub(crate) fn embed(parts: &mut Parts<'_>, spec: &DecoderSpec, ids: Value) -> Built {
    let table = parts.weight(&spec.embedding.tensor, &[spec.vocab, spec.hidden])?;
    let rows = parts.graph.op(Op::TokenEmbed, &[ids, table])?;
    let h = scaled(&mut parts.graph, rows, spec.embedding.scale)?;
    parts.graph.name(h, "embed");
    Ok(h)
}

/// From the embedded tokens `h` (`[S, hidden]`) to the output `logits` (`[S, vocab]`). `places` (i64 `[axes, S]`) are
/// their positions where the rotation has several axes.
pub(crate) fn decode(
    parts: &mut Parts<'_>,
    spec: &DecoderSpec,
    h: Value,
    places: Option<Value>,
) -> Result<(), IrError> {
    Builder { spec, parts, places }.decoder(h)
}

struct Builder<'a, 'p> {
    spec: &'a DecoderSpec,
    parts: &'a mut Parts<'p>,
    places: Option<Value>,
}

impl Builder<'_, '_> {
    fn decoder(&mut self, mut h: Value) -> Result<(), IrError> {
        let spec = self.spec;
        for layer in 0..spec.layers.len() {
            h = self.layer(layer, h)?;
        }
        let last = format!("{}{}", spec.names.prefix, spec.names.final_norm);
        let h = self.norm(h, &last, spec.hidden, "final_norm")?;
        let head = self.parts.weight(&spec.head.tensor, &[spec.vocab, spec.hidden])?;
        let mut raw = self.parts.graph.op(Op::Matmul, &[h, head])?;
        if let Some(bias) = &spec.head.bias {
            let bias = self.parts.weight(bias, &[spec.vocab])?;
            raw = self.parts.graph.op(Op::Add, &[raw, bias])?;
        }
        let scaled = scaled(&mut self.parts.graph, raw, spec.head.scale)?;
        let logits = soft_capped(&mut self.parts.graph, scaled, spec.head.softcap)?;
        self.parts.graph.name(logits, "logits");
        self.parts.graph.output("logits", logits)
    }

    fn layer(&mut self, layer: usize, h: Value) -> Built {
        let (spec, names) = (self.spec, &self.spec.names);
        let says = |what: &str| format!("layer{layer}.{what}");
        let (before, after) = match spec.places {
            NormPlaces::Before | NormPlaces::Parallel | NormPlaces::ParallelNorms => (true, false),
            NormPlaces::Around => (true, true),
            NormPlaces::After => (false, true),
        };

        let x = self.layer_norm(layer, before, h, names.attention_norm, "attn_norm")?;
        let branch = self.attention(layer, x)?;
        let branch = self.layer_norm(layer, after, branch, names.attention_post_norm, "attn_post_norm")?;
        let branch = scaled(&mut self.parts.graph, branch, spec.residual_scale)?;
        let sum = self.parts.op(Op::Add, &[h, branch], says("attn_residual"))?;

        let x = match spec.places {
            NormPlaces::Parallel => x,
            NormPlaces::ParallelNorms => self.layer_norm(layer, before, h, names.feed_forward_norm, "ffn_norm")?,
            _ => self.layer_norm(layer, before, sum, names.feed_forward_norm, "ffn_norm")?,
        };
        let branch = self.feed_forward(layer, x)?;
        let branch = self.layer_norm(layer, after, branch, names.feed_forward_post_norm, "ffn_post_norm")?;
        let branch = scaled(&mut self.parts.graph, branch, spec.residual_scale)?;
        self.parts.op(Op::Add, &[sum, branch], says("out"))
    }

    /// `x`, normalised if the layer has this norm.
    fn layer_norm(&mut self, layer: usize, has: bool, x: Value, name: &str, says: &str) -> Built {
        match has {
            true => {
                let name = self.spec.names.in_layer(layer, name);
                self.norm(x, &name, self.spec.hidden, &format!("layer{layer}.{says}"))
            }
            false => Ok(x),
        }
    }

    fn attention(&mut self, layer: usize, x: Value) -> Built {
        let spec = self.spec;
        if let Some(latent) = &spec.attention.latent {
            return latent.build(self.parts, spec, layer, x);
        }
        let (a, names, hidden) = (&spec.attention, &spec.names, spec.hidden);
        let part = |p: &str| names.in_layer(layer, p);
        let says = |what: &str| format!("layer{layer}.{what}");
        let (q_width, kv_width) = (a.heads * a.head_dim, a.kv_heads * a.head_dim);

        let (q, k, v) = match a.projections {
            Projections::Separate => (
                self.parts.linear(x, &part(names.q), [q_width, hidden], a.qkv_bias, says("q"))?,
                self.parts.linear(x, &part(names.k), [kv_width, hidden], a.qkv_bias, says("k"))?,
                self.parts.linear(x, &part(names.v), [kv_width, hidden], a.qkv_bias, says("v"))?,
            ),
            Projections::Fused => {
                let width = q_width + 2 * kv_width;
                let name = part(names.qkv);
                let all = self.parts.linear(x, &name, [width, hidden], a.qkv_bias, says("qkv"))?;
                let parts = self.parts.split(all, &[q_width, kv_width, kv_width])?;
                for (value, what) in parts.iter().zip(["q", "k", "v"]) {
                    self.parts.graph.name(*value, says(what));
                }
                (parts[0], parts[1], parts[2])
            }
            Projections::FusedByHead => {
                let name = part(names.qkv);
                let all = self.parts.linear(x, &name, [3 * q_width, hidden], a.qkv_bias, says("qkv"))?;
                let [q, k, v] = self.parts.split_by_head(all, a.heads, a.head_dim)?;
                for (value, what) in [(q, "q"), (k, "k"), (v, "v")] {
                    self.parts.graph.name(value, says(what));
                }
                (q, k, v)
            }
        };
        let q = self.heads(q, layer, a.heads, names.q_norm, "q")?;
        let k = self.heads(k, layer, a.kv_heads, names.k_norm, "k")?;

        let mixed = attend(&mut self.parts.graph, spec, layer, [q, k, v])?;
        let name = part(names.out);
        self.parts.linear(mixed, &name, [hidden, q_width], a.out_bias, says("attn_out"))
    }

    /// Norm and rotation of queries or keys (`[S, heads · head_dim]`), where the layer has them.
    fn heads(&mut self, x: Value, layer: usize, heads: u32, norm: &str, what: &str) -> Built {
        let (spec, places) = (self.spec, self.places);
        let head_dim = spec.attention.head_dim;
        let name = spec.names.in_layer(layer, norm);
        let says = format!("layer{layer}.{what}_norm");
        let x = match (spec.attention.head_norm, spec.norm) {
            (HeadNorm::Off, _) => return turn_heads(&mut self.parts.graph, spec, layer, x, heads, None, places, what),
            (HeadNorm::Projection, _) => {
                let x = self.norm(x, &name, heads * head_dim, &says)?;
                return turn_heads(&mut self.parts.graph, spec, layer, x, heads, None, places, what);
            }
            (HeadNorm::PerHead, Norm::Rms { eps, .. }) => {
                let gain = Some((eps, self.gain(&name, head_dim, &says)?));
                return turn_heads(&mut self.parts.graph, spec, layer, x, heads, gain, places, what);
            }
            (HeadNorm::PerHead, Norm::Layer { .. }) => {
                let x = split_heads(&mut self.parts.graph, spec, layer, x, heads, what)?;
                self.norm(x, &name, head_dim, &says)?
            }
            (HeadNorm::RowPerHead, _) => {
                let rows = self.parts.weight(&format!("{name}.weight"), &[heads, head_dim])?;
                let x = split_heads(&mut self.parts.graph, spec, layer, x, heads, what)?;
                self.norm_by_rows(x, rows, &says)?
            }
            (HeadNorm::TensorPerHead, _) => {
                let tensors = (0..heads).map(|i| self.parts.weight(&format!("{name}.norms.{i}.weight"), &[head_dim]));
                let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
                let all = self.parts.graph.op(Op::Concat { axis: 0 }, &tensors)?;
                let shape = vec![heads.into(), head_dim.into()];
                let rows = self.parts.op(Op::Reshape { shape }, &[all], format!("{says}_gain"))?;
                let x = split_heads(&mut self.parts.graph, spec, layer, x, heads, what)?;
                self.norm_by_rows(x, rows, &says)?
            }
        };
        turn_split_heads(&mut self.parts.graph, spec, layer, x, heads, places, what)
    }

    /// The norm over each head of `x` (`[S, heads, head_dim]`), with a row of `gains` (`[heads, head_dim]`) for each.
    fn norm_by_rows(&mut self, x: Value, gains: Value, says: &str) -> Built {
        let width = self.spec.attention.head_dim;
        let ones = self.parts.filled(width, 1.0)?;
        let y = match self.spec.norm {
            Norm::Rms { eps, .. } => self.parts.graph.op(Op::RmsNorm { eps: eps.into() }, &[x, ones])?,
            Norm::Layer { eps, .. } => {
                let zeros = self.parts.filled(width, 0.0)?;
                self.parts.graph.op(Op::LayerNorm { eps: eps.into() }, &[x, ones, zeros])?
            }
        };
        self.parts.op(Op::Mul, &[y, gains], says)
    }

    fn feed_forward(&mut self, layer: usize, x: Value) -> Built {
        let spec = self.spec;
        if let Some(experts) = &spec.layers[layer].experts {
            let (tensors, says) = (spec.names.in_layer(layer, ""), format!("layer{layer}"));
            let y = experts.build(self.parts, Place { tensors: &tensors, says: &says, hidden: spec.hidden }, x)?;
            self.parts.graph.name(y, format!("{says}.ffn_out"));
            return Ok(y);
        }
        let (f, names, hidden) = (&spec.feed_forward, &spec.names, spec.hidden);
        let part = |p: &str| names.in_layer(layer, p);
        let says = |what: &str| format!("layer{layer}.{what}");
        let (gate, up) = match f.gate {
            Gate::Off => {
                let up = self.parts.linear(x, &part(names.up), [f.width, hidden], f.bias, says("up"))?;
                let y = self.parts.op(f.activation.op(), &[up], says("active"))?;
                return self.parts.linear(y, &part(names.down), [hidden, f.width], f.bias, says("ffn_out"));
            }
            Gate::Separate => (
                self.parts.linear(x, &part(names.gate), [f.width, hidden], f.bias, says("gate"))?,
                self.parts.linear(x, &part(names.up), [f.width, hidden], f.bias, says("up"))?,
            ),
            Gate::Fused => {
                let name = part(names.gate_up);
                let both = self.parts.linear(x, &name, [2 * f.width, hidden], f.bias, says("gate_up"))?;
                let parts = self.parts.split(both, &[f.width, f.width])?;
                self.parts.graph.name(parts[0], says("gate"));
                self.parts.graph.name(parts[1], says("up"));
                (parts[0], parts[1])
            }
        };
        let y = gated(&mut self.parts.graph, gate, up, f.activation)?;
        self.parts.graph.name(y, says("gated"));
        self.parts.linear(y, &part(names.down), [hidden, f.width], f.bias, says("ffn_out"))
    }

    fn norm(&mut self, x: Value, name: &str, width: u32, says: &str) -> Built {
        match self.spec.norm {
            Norm::Rms { eps, .. } => {
                let gain = self.gain(name, width, says)?;
                self.parts.op(Op::RmsNorm { eps: eps.into() }, &[x, gain], says)
            }
            Norm::Layer { eps, bias } => self.parts.layer_norm(x, name, width, eps, bias, says),
        }
    }

    /// The gain of a norm, from its weight.
    fn gain(&mut self, name: &str, width: u32, says: &str) -> Built {
        let weight = self.parts.weight(&format!("{name}.weight"), &[width])?;
        let gain = gain(&mut self.parts.graph, self.spec, weight)?;
        if gain != weight {
            self.parts.graph.name(gain, format!("{says}_gain"));
        }
        Ok(gain)
    }
}

/// The gain of a norm whose weight is `weight`, as the file holds it.
pub(crate) fn gain(graph: &mut Graph, spec: &DecoderSpec, weight: Value) -> Built {
    match spec.norm {
        Norm::Rms { offset, .. } if offset != 0.0 => graph.op(Op::AddScalar { value: offset.into() }, &[weight]),
        Norm::Rms { .. } | Norm::Layer { .. } => Ok(weight),
    }
}

/// Norm of each head of `x` (`[S, heads · head_dim]`) by its mean square, where `norm` gives ε and gain, and rotation,
/// where the layer has it, by `places` where they have several axes. `what` is `q` or `k`.
#[expect(clippy::too_many_arguments, reason = "one step of a layer, of which all parts vary")]
pub(crate) fn turn_heads(
    graph: &mut Graph,
    spec: &DecoderSpec,
    layer: usize,
    x: Value,
    heads: u32,
    norm: Option<(f32, Value)>,
    places: Option<Value>,
    what: &str,
) -> Built {
    if spec.layers[layer].rope.is_none() && norm.is_none() {
        return Ok(x);
    }
    let mut x = split_heads(graph, spec, layer, x, heads, what)?;
    if let Some((eps, gain)) = norm {
        x = graph.op(Op::RmsNorm { eps: eps.into() }, &[x, gain])?;
        graph.name(x, format!("layer{layer}.{what}_norm"));
    }
    turn_split_heads(graph, spec, layer, x, heads, places, what)
}

/// The heads (`[S, heads, head_dim]`) of queries or keys.
fn split_heads(graph: &mut Graph, spec: &DecoderSpec, layer: usize, x: Value, heads: u32, what: &str) -> Built {
    let shape = vec![-1, heads.into(), spec.attention.head_dim.into()];
    let x = graph.op(Op::Reshape { shape }, &[x])?;
    graph.name(x, format!("layer{layer}.{what}_heads"));
    Ok(x)
}

/// Rotation, where the layer has it, of heads (`[S, heads, head_dim]`), and their rows (`[S, heads · head_dim]`).
fn turn_split_heads(
    graph: &mut Graph,
    spec: &DecoderSpec,
    layer: usize,
    mut x: Value,
    heads: u32,
    places: Option<Value>,
    what: &str,
) -> Built {
    let head_dim = spec.attention.head_dim;
    if let Some(rope) = &spec.layers[layer].rope {
        let pos = places.map_or_else(|| graph.pos(), Ok)?;
        x = graph.op(rope.op(head_dim), &[x, pos])?;
        graph.name(x, format!("layer{layer}.{what}_rope"));
    }
    let shape = vec![-1, i64::from(heads) * i64::from(head_dim)];
    x = graph.op(Op::Reshape { shape }, &[x])?;
    graph.name(x, format!("layer{layer}.{what}_rows"));
    Ok(x)
}

/// Attention of a layer over queries, keys and values, and the cache before it: `[S, heads · head_dim]`.
pub(crate) fn attend(graph: &mut Graph, spec: &DecoderSpec, layer: usize, [q, k, v]: [Value; 3]) -> Built {
    let a = &spec.attention;
    let window = spec.layers[layer].window;
    let (k, v) = if a.causal {
        let cached = graph.op_many(Op::KvCache, &[k, v])?;
        graph.name(cached[0], format!("layer{layer}.k_all"));
        graph.name(cached[1], format!("layer{layer}.v_all"));
        (cached[0], cached[1])
    } else {
        (k, v)
    };
    let plain = 1.0 / f64::from(a.head_dim).sqrt();
    let depth = if a.scale_by_depth { layer + 1 } else { 1 };
    let scale = a.scale.unwrap_or(plain as f32) / depth as f32;
    let is_plain = scale == plain as f32 && window.is_none() && a.softcap.is_none();
    let (heads, kv_heads, head_dim, causal) = (a.heads, a.kv_heads, a.head_dim, a.causal);
    let op = if is_plain {
        Op::Sdpa { heads, kv_heads, head_dim, causal }
    } else {
        let (window, softcap) = (window.unwrap_or(0), a.softcap.unwrap_or(0.0).into());
        Op::Attention { heads, kv_heads, head_dim, causal, window, scale: scale.into(), softcap }
    };
    let mixed = graph.op(op, &[q, k, v])?;
    graph.name(mixed, format!("layer{layer}.attn"));
    Ok(mixed)
}

/// `act(gate) · up`, as one operation where there is one.
pub(crate) fn gated(graph: &mut Graph, gate: Value, up: Value, activation: Activation) -> Built {
    match activation {
        Activation::Silu => graph.op(Op::SwiGlu, &[gate, up]),
        Activation::Gelu => graph.op(Op::GeGlu, &[gate, up]),
        other => {
            let active = graph.op(other.op(), &[gate])?;
            graph.op(Op::Mul, &[active, up])
        }
    }
}

/// `x · factor`.
pub(crate) fn scaled(graph: &mut Graph, x: Value, factor: f32) -> Built {
    if factor == 1.0 {
        return Ok(x);
    }
    graph.op(Op::MulScalar { value: factor.into() }, &[x])
}

/// `bound · tanh(x / bound)`.
pub(crate) fn soft_capped(graph: &mut Graph, x: Value, bound: Option<f32>) -> Built {
    let Some(bound) = bound else { return Ok(x) };
    let inner = scaled(graph, x, 1.0 / bound)?;
    let bent = graph.op(Op::Tanh, &[inner])?;
    scaled(graph, bent, bound)
}
