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
    let mut builder = Builder { spec, parts: Parts::new(spec.model_type, tensors) };
    builder.decoder().map_err(|source| FamilyError::Graph { model_type: spec.model_type.to_owned(), source })?;
    builder.parts.finish(hints)
}

struct Builder<'a> {
    spec: &'a DecoderSpec,
    parts: Parts<'a>,
}

impl Builder<'_> {
    fn decoder(&mut self) -> Result<(), IrError> {
        let spec = self.spec;
        let ids = self.parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
        let table = self.parts.weight(&spec.embedding.tensor, &[spec.vocab, spec.hidden])?;
        let rows = self.parts.graph.op(Op::TokenEmbed, &[ids, table])?;
        let mut h = scaled(&mut self.parts.graph, rows, spec.embedding.scale)?;
        self.parts.graph.name(h, "embed");
        for layer in 0..spec.layers.len() {
            h = self.layer(layer, h)?;
        }
        let last = format!("{}{}", spec.names.prefix, spec.names.final_norm);
        let h = self.norm(h, &last, spec.hidden, "final_norm")?;
        let head = self.parts.weight(&spec.head.tensor, &[spec.vocab, spec.hidden])?;
        let raw = self.parts.graph.op(Op::Matmul, &[h, head])?;
        let scaled = scaled(&mut self.parts.graph, raw, spec.head.scale)?;
        let logits = soft_capped(&mut self.parts.graph, scaled, spec.head.softcap)?;
        self.parts.graph.name(logits, "logits");
        self.parts.graph.output("logits", logits)
    }

    fn layer(&mut self, layer: usize, h: Value) -> Built {
        let spec = self.spec;
        let names = &spec.names;
        let part = |p: &str| names.in_layer(layer, p);
        let says = |what: &str| format!("layer{layer}.{what}");

        let x = self.norm(h, &part(names.attention_norm), spec.hidden, &says("attn_norm"))?;
        let mut branch = self.attention(layer, x)?;
        if spec.places == NormPlaces::Around {
            let name = part(names.attention_post_norm);
            branch = self.norm(branch, &name, spec.hidden, &says("attn_post_norm"))?;
        }
        let branch = scaled(&mut self.parts.graph, branch, spec.residual_scale)?;
        let h = self.parts.op(Op::Add, &[h, branch], says("attn_residual"))?;

        let x = self.norm(h, &part(names.feed_forward_norm), spec.hidden, &says("ffn_norm"))?;
        let mut branch = self.feed_forward(layer, x)?;
        if spec.places == NormPlaces::Around {
            let name = part(names.feed_forward_post_norm);
            branch = self.norm(branch, &name, spec.hidden, &says("ffn_post_norm"))?;
        }
        let branch = scaled(&mut self.parts.graph, branch, spec.residual_scale)?;
        self.parts.op(Op::Add, &[h, branch], says("out"))
    }

    fn attention(&mut self, layer: usize, x: Value) -> Built {
        let spec = self.spec;
        if let Some(latent) = &spec.attention.latent {
            return latent.build(&mut self.parts, spec, layer, x);
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
        };
        let q = self.heads(q, layer, a.heads, names.q_norm, "q")?;
        let k = self.heads(k, layer, a.kv_heads, names.k_norm, "k")?;

        let mixed = attend(&mut self.parts.graph, spec, layer, [q, k, v])?;
        let name = part(names.out);
        self.parts.linear(mixed, &name, [hidden, q_width], a.out_bias, says("attn_out"))
    }

    /// Norm and rotation of each head of `x` (`[S, heads · head_dim]`), where the layer has them.
    fn heads(&mut self, x: Value, layer: usize, heads: u32, norm: &str, what: &str) -> Built {
        let gain = match self.spec.attention.head_norm {
            HeadNorm::PerHead => {
                let name = self.spec.names.in_layer(layer, norm);
                Some(self.gain(&name, self.spec.attention.head_dim, &format!("layer{layer}.{what}_norm"))?)
            }
            HeadNorm::Off => None,
        };
        turn_heads(&mut self.parts.graph, self.spec, layer, x, heads, gain, what)
    }

    fn feed_forward(&mut self, layer: usize, x: Value) -> Built {
        let spec = self.spec;
        if let Some(experts) = &spec.layers[layer].experts {
            let (tensors, says) = (spec.names.in_layer(layer, ""), format!("layer{layer}"));
            let y = experts.build(&mut self.parts, Place { tensors: &tensors, says: &says, hidden: spec.hidden }, x)?;
            self.parts.graph.name(y, format!("{says}.ffn_out"));
            return Ok(y);
        }
        let (f, names, hidden) = (&spec.feed_forward, &spec.names, spec.hidden);
        let part = |p: &str| names.in_layer(layer, p);
        let says = |what: &str| format!("layer{layer}.{what}");
        let (gate, up) = match f.gate {
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
        let gain = self.gain(name, width, says)?;
        let y = norm(&mut self.parts.graph, self.spec, x, gain)?;
        self.parts.graph.name(y, says);
        Ok(y)
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
    let Norm::Rms { offset, .. } = spec.norm;
    match offset == 0.0 {
        true => Ok(weight),
        false => graph.op(Op::AddScalar { value: offset.into() }, &[weight]),
    }
}

/// The norm of `spec` over the last dimension.
pub(crate) fn norm(graph: &mut Graph, spec: &DecoderSpec, x: Value, gain: Value) -> Built {
    let Norm::Rms { eps, .. } = spec.norm;
    graph.op(Op::RmsNorm { eps: eps.into() }, &[x, gain])
}

/// Norm, with `gain` where there is one, and rotation of each head of `x` (`[S, heads · head_dim]`), where the layer
/// has them. `what` is `q` or `k`.
pub(crate) fn turn_heads(
    graph: &mut Graph,
    spec: &DecoderSpec,
    layer: usize,
    x: Value,
    heads: u32,
    gain: Option<Value>,
    what: &str,
) -> Built {
    let head_dim = spec.attention.head_dim;
    let rope = spec.layers[layer].rope.as_ref();
    if rope.is_none() && gain.is_none() {
        return Ok(x);
    }
    let (n, d) = (i64::from(heads), i64::from(head_dim));
    let named = |value: Value, step: &str, graph: &mut Graph| {
        graph.name(value, format!("layer{layer}.{what}_{step}"));
        value
    };
    let mut x = graph.op(Op::Reshape { shape: vec![-1, n, d] }, &[x])?;
    named(x, "heads", graph);
    if let Some(gain) = gain {
        x = norm(graph, spec, x, gain)?;
        named(x, "norm", graph);
    }
    if let Some(rope) = rope {
        let pos = graph.pos()?;
        x = graph.op(rope.op(head_dim), &[x, pos])?;
        named(x, "rope", graph);
    }
    x = graph.op(Op::Reshape { shape: vec![-1, n * d] }, &[x])?;
    Ok(named(x, "rows", graph))
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
    let scale = a.scale.unwrap_or(plain as f32);
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
    let act = match activation {
        Activation::Silu => return graph.op(Op::SwiGlu, &[gate, up]),
        Activation::Gelu => return graph.op(Op::GeGlu, &[gate, up]),
        Activation::GeluTanh => Op::Gelu { approximate: true },
        Activation::QuickGelu => Op::QuickGelu,
        Activation::Relu => Op::Relu,
        Activation::ReluSquared => Op::ReluSquared,
    };
    let active = graph.op(act, &[gate])?;
    graph.op(Op::Mul, &[active, up])
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
