//! From the description of an encoder to its graph.

use super::texts::Texts;
use super::{Convolution, Counting, EncoderSpec, Gating, Places, head, relative};
use crate::families::Build;
use crate::families::parts::{Built, Parts};
use tallow_ir::{Dim, IrError, Op, SEQUENCE, Shape, TensorType, Value};

impl Build for EncoderSpec {
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let tokens = || TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)]));
        let ids = parts.graph.input("input_ids", tokens())?;
        let texts = Texts::new(parts, ids)?;
        parts.idle.extend(self.idle.iter().cloned());
        let mut encoder = Encoder { spec: self, parts, texts };
        let embedded = encoder.embeddings(ids, tokens())?;
        let shared = relative::shared(encoder.parts, self, &encoder.texts)?;
        let places = match self.layers.iter().any(|layer| layer.rope.is_some()) {
            true => Some(encoder.texts.places(encoder.parts)?),
            false => None,
        };
        let mut h = embedded;
        for layer in 0..self.layers.len() {
            h = encoder.layer(layer, h, places, shared.as_ref())?;
            if let (0, Some(convolution)) = (layer, &self.convolution) {
                h = encoder.convolution(convolution, embedded, h)?;
            }
        }
        if let Some(name) = &self.final_norm {
            h = encoder.norm(h, name, "final_norm")?;
        }
        let Encoder { parts, texts, .. } = encoder;
        head::outputs(parts, self, &texts, h)
    }
}

struct Encoder<'a, 'p, 't> {
    spec: &'a EncoderSpec,
    parts: &'p mut Parts<'t>,
    texts: Texts,
}

impl Encoder<'_, '_, '_> {
    fn norm(&mut self, x: Value, name: &str, says: &str) -> Built {
        let norm = self.spec.norm;
        self.parts.layer_norm(x, name, self.spec.hidden, norm.eps, norm.bias, says)
    }

    fn embeddings(&mut self, ids: Value, tokens: TensorType) -> Built {
        let (spec, e) = (self.spec, &self.spec.embeddings);
        let table = self.parts.weight(&format!("{}.weight", e.words), &[spec.vocab, e.width])?;
        let mut h = self.parts.op(Op::TokenEmbed, &[ids, table], "words")?;
        if let Some((name, rows)) = &e.types {
            let types = self.parts.graph.input("token_type_ids", tokens)?;
            let table = self.parts.weight(&format!("{name}.weight"), &[*rows, e.width])?;
            let row = self.parts.op(Op::TokenEmbed, &[types, table], "token_types")?;
            h = self.parts.graph.op(Op::Add, &[h, row])?;
        }
        if let Some(positions) = &e.positions {
            let places = match positions.counting {
                Counting::Places => self.texts.places(self.parts)?,
                Counting::Words(pad) => self.texts.words(self.parts, ids, pad)?,
            };
            let table = self.parts.weight(&format!("{}.weight", positions.tensor), &[positions.rows, e.width])?;
            let row = self.parts.op(Op::TokenEmbed, &[places, table], "positions")?;
            h = self.parts.graph.op(Op::Add, &[h, row])?;
        }
        let projection = e.projection.as_ref().map(|p| (p, [spec.hidden, e.width]));
        if let Some((p, shape)) = projection.filter(|(p, _)| p.before_norm) {
            h = self.parts.linear(h, &p.name, shape, p.bias, "embed_projection")?;
        }
        let width = if projection.is_some_and(|(p, _)| !p.before_norm) { e.width } else { spec.hidden };
        h = self.parts.layer_norm(h, &e.norm, width, spec.norm.eps, spec.norm.bias, "embed")?;
        if let Some((p, shape)) = projection.filter(|(p, _)| !p.before_norm) {
            h = self.parts.linear(h, &p.name, shape, p.bias, "embed_projection")?;
        }
        Ok(h)
    }

    fn layer(&mut self, layer: usize, h: Value, places: Option<Value>, shared: Option<&relative::Shared<'_>>) -> Built {
        let (spec, names) = (self.spec, &self.spec.names);
        let part = |p: &str| names.in_layer(layer, p);
        let says = |what: &str| format!("layer{layer}.{what}");
        match spec.places {
            Places::After => {
                let branch = self.attention(layer, h, places, shared)?;
                let h = self.parts.op(Op::Add, &[h, branch], says("attn_residual"))?;
                let h = self.norm(h, &part(names.attention_norm), &says("attn_norm"))?;
                let branch = self.feed_forward(layer, h)?;
                let h = self.parts.op(Op::Add, &[h, branch], says("ffn_residual"))?;
                self.norm(h, &part(names.feed_forward_norm), &says("out"))
            }
            Places::Before => {
                let x = match spec.layers[layer].attention_norm {
                    true => self.norm(h, &part(names.attention_norm), &says("attn_norm"))?,
                    false => h,
                };
                let branch = self.attention(layer, x, places, shared)?;
                let h = self.parts.op(Op::Add, &[h, branch], says("attn_residual"))?;
                let x = self.norm(h, &part(names.feed_forward_norm), &says("ffn_norm"))?;
                let branch = self.feed_forward(layer, x)?;
                self.parts.op(Op::Add, &[h, branch], says("out"))
            }
        }
    }

    fn attention(
        &mut self,
        layer: usize,
        x: Value,
        places: Option<Value>,
        shared: Option<&relative::Shared<'_>>,
    ) -> Built {
        let (spec, names, a) = (self.spec, &self.spec.names, &self.spec.attention);
        let part = |p: &str| names.in_layer(layer, p);
        let says = |what: &str| format!("layer{layer}.{what}");
        let width = a.heads * a.head_dim;
        let shape = [width, spec.hidden];
        let (q, k, v) = match a.fused {
            true => {
                let shape = [3 * width, spec.hidden];
                let all = self.parts.linear(x, &part(names.qkv), shape, a.bias, says("qkv"))?;
                let three = self.parts.split(all, &[width; 3])?;
                for (value, what) in three.iter().zip(["q", "k", "v"]) {
                    self.parts.graph.name(*value, says(what));
                }
                (three[0], three[1], three[2])
            }
            false => (
                self.parts.linear(x, &part(names.q), shape, a.bias, says("q"))?,
                self.parts.linear(x, &part(names.k), shape, a.bias, says("k"))?,
                self.parts.linear(x, &part(names.v), shape, a.bias, says("v"))?,
            ),
        };
        let (q, k) = match (&spec.layers[layer].rope, places) {
            (Some(rope), Some(places)) => {
                let op = rope.op(a.head_dim);
                (self.turned(q, &op, places, &says("q_rope"))?, self.turned(k, &op, places, &says("k_rope"))?)
            }
            _ => (q, k),
        };
        let mut operands = vec![q, k, v, self.texts.segments];
        if let Some(shared) = shared {
            operands.extend(relative::bias(self.parts, spec, layer, shared, [q, k])?);
        }
        let window = spec.layers[layer].window.unwrap_or(0);
        let (heads, head_dim, scale, softcap) = (a.heads, a.head_dim, a.scale.into(), 0.0.into());
        let op = Op::SegmentAttention { heads, kv_heads: heads, head_dim, window, scale, softcap };
        let mixed = self.parts.op(op, &operands, says("attn"))?;
        self.parts.linear(mixed, &part(names.out), [spec.hidden, width], a.out_bias, says("attn_out"))
    }

    /// Each head of `x` (`[S, heads · head_dim]`) turned by the place of its token.
    fn turned(&mut self, x: Value, op: &Op, places: Value, says: &str) -> Built {
        let a = &self.spec.attention;
        let (heads, dim) = (i64::from(a.heads), i64::from(a.head_dim));
        let x = self.parts.graph.op(Op::Reshape { shape: vec![-1, heads, dim] }, &[x])?;
        let x = self.parts.op(op.clone(), &[x, places], says)?;
        self.parts.graph.op(Op::Reshape { shape: vec![-1, heads * dim] }, &[x])
    }

    fn feed_forward(&mut self, layer: usize, x: Value) -> Built {
        let (hidden, names, f) = (self.spec.hidden, &self.spec.names, &self.spec.feed_forward);
        let part = |p: &str| names.in_layer(layer, p);
        let says = |what: &str| format!("layer{layer}.{what}");
        let (gate, up) = match f.gating {
            Gating::Off => (self.parts.linear(x, &part(names.up), [f.width, hidden], f.bias, says("up"))?, None),
            Gating::Separate => {
                let gate = self.parts.linear(x, &part(names.gate), [f.width, hidden], f.bias, says("gate"))?;
                let up = self.parts.linear(x, &part(names.up), [f.width, hidden], f.bias, says("up"))?;
                (gate, Some(up))
            }
            Gating::Fused => {
                let both = self.parts.linear(x, &part(names.up), [2 * f.width, hidden], f.bias, says("gate_up"))?;
                let two = self.parts.split(both, &[f.width; 2])?;
                self.parts.graph.name(two[0], says("gate"));
                self.parts.graph.name(two[1], says("up"));
                (two[0], Some(two[1]))
            }
        };
        let mut y = match f.activation.op() {
            Some(op) => self.parts.op(op, &[gate], says("activated"))?,
            None => gate,
        };
        if let Some(up) = up {
            y = self.parts.op(Op::Mul, &[y, up], says("gated"))?;
        }
        self.parts.linear(y, &part(names.down), [hidden, f.width], f.bias, says("ffn_out"))
    }

    /// `norm(h + act(conv(embedded)))`: a product of the matrix with the rows of the neighbours side by side.
    fn convolution(&mut self, c: &Convolution, embedded: Value, h: Value) -> Built {
        let (hidden, kernel) = (self.spec.hidden, c.kernel);
        let half = i64::from(kernel / 2);
        let mut taps = Vec::new();
        for offset in -half..=half {
            taps.push(self.texts.moved(self.parts, embedded, offset)?);
        }
        let x = self.parts.op(Op::Concat { axis: 1 }, &taps, "conv_taps")?;
        let w = self.parts.weight(&format!("{}.weight", c.name), &[hidden, hidden, kernel])?;
        let w = self.parts.graph.op(Op::Permute { dims: vec![0, 2, 1] }, &[w])?;
        let shape = vec![hidden.into(), i64::from(hidden) * i64::from(kernel)];
        let w = self.parts.graph.op(Op::Reshape { shape }, &[w])?;
        let b = self.parts.weight(&format!("{}.bias", c.name), &[hidden])?;
        let y = self.parts.graph.op(Op::Matmul, &[x, w])?;
        let mut y = self.parts.op(Op::Add, &[y, b], "conv")?;
        if let Some(op) = c.activation.op() {
            y = self.parts.graph.op(op, &[y])?;
        }
        let sum = self.parts.graph.op(Op::Add, &[h, y])?;
        self.norm(sum, &c.norm, "conv_out")
    }
}
