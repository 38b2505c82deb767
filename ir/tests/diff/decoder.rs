//! A decoder with everything that the tests change, built with and without the change.

use crate::common::{f, shape};
use tallow_ir::{DType, Graph, Op, TensorType, Value};

/// What to build otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edit {
    Epsilon,
    Swapped,
    NoBias,
    Window,
    Activation,
    Scaled,
    Fused,
    Encoding,
    WiderMlp,
    Renamed,
    SkipFromStart,
    RotatedByLayer,
    NoNorm,
    TwoExtra,
    MulForAdd,
}

/// The edit, and the layers that have it.
pub type Edits<'a> = &'a [(Edit, &'a [usize])];

/// How values are called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Names {
    Layers,
    Odd,
    None,
}

/// Whether weights are called by layer, are the same in all, or there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weights {
    Layers,
    Shared,
    None,
}

/// A decoder of `layers` layers.
pub fn decoder(layers: usize, edits: Edits<'_>, names: Names, weights: Weights) -> Graph {
    let mut g = Graph::new();
    let ids = g.input("input_ids", TensorType::i64(shape("S"))).unwrap();
    let embed = g.weight("model.embed_tokens.weight", TensorType::new(DType::Q8, shape("64, 32"))).unwrap();
    let mut h = g.op(Op::TokenEmbed, &[ids, embed]).unwrap();
    let start = h;
    let pos = g.pos().unwrap();
    for layer in 0..layers {
        let has = |edit| edits.iter().any(|(e, at)| *e == edit && at.contains(&layer));
        let mut b = Block { g: &mut g, layer, names, weights, unnamed: 0 };
        // Attention.
        let eps = if has(Edit::Epsilon) { 1e-5 } else { 1e-6 };
        let x = b.norm(h, "input_layernorm", eps);
        let mut q = b.matmul(x, "self_attn.q_proj", "32, 32", false);
        let q_bias = !has(Edit::NoBias);
        if q_bias {
            q = b.bias(q, "self_attn.q_proj", "32");
        }
        let k = b.matmul(x, "self_attn.k_proj", "32, 32", false);
        let k = b.bias(k, "self_attn.k_proj", "32");
        let v = b.matmul(x, "self_attn.v_proj", "32, 32", false);
        let v = b.bias(v, "self_attn.v_proj", "32");
        let base = if has(Edit::RotatedByLayer) { 5e5 } else { 1e4 };
        let (q, k) = (b.rope(q, pos, base, "q_rot"), b.rope(k, pos, base, "k_rot"));
        let kv = b.g.op_many(Op::KvCache, &[k, v]).unwrap();
        let window = if has(Edit::Window) { 16 } else { 8 };
        let a = b.op(Op::SdpaWindow { heads: 4, head_dim: 8, window }, &[q, kv[0], kv[1]], "attn");
        let a = b.matmul(a, "self_attn.o_proj", "32, 32", has(Edit::Encoding));
        let skip = if has(Edit::SkipFromStart) { start } else { h };
        let join = if has(Edit::MulForAdd) { Op::Mul } else { Op::Add };
        h = b.op(join, &[skip, a], "attn_out");
        if has(Edit::Scaled) {
            h = b.op(Op::MulScalar { value: 0.5.into() }, &[h], "scaled");
        }
        // Feed forward, about the mean of its input.
        let x = if has(Edit::NoNorm) { h } else { b.norm(h, "post_attention_layernorm", 1e-6) };
        let mean = b.op(Op::Softmax { dim: -1 }, &[x], "mlp.mean");
        let x = match has(Edit::Swapped) {
            true => b.op(Op::Sub, &[mean, x], "mlp.centred"),
            false => b.op(Op::Sub, &[x, mean], "mlp.centred"),
        };
        let (wide, narrow) = if has(Edit::WiderMlp) { ("96, 32", "32, 96") } else { ("64, 32", "32, 64") };
        let gate = b.matmul(x, if has(Edit::Renamed) { "mlp.w1" } else { "mlp.gate_proj" }, wide, false);
        let up = b.matmul(x, "mlp.up_proj", wide, false);
        let x = if has(Edit::Fused) {
            b.op(Op::SwiGlu, &[gate, up], "mlp.gated")
        } else {
            let act = if has(Edit::Activation) { Op::Gelu { approximate: true } } else { Op::Silu };
            let gate = b.op(act, &[gate], "mlp.act");
            b.op(Op::Mul, &[gate, up], "mlp.gated")
        };
        let mut x = b.matmul(x, "mlp.down_proj", narrow, false);
        if has(Edit::TwoExtra) {
            x = b.op(Op::Tanh, &[x], "mlp.t");
            x = b.op(Op::MulScalar { value: 2.0.into() }, &[x], "mlp.s");
        }
        h = b.op(Op::Add, &[h, x], "out");
    }
    let gain = g.weight("model.norm.weight", f("32")).unwrap();
    let x = g.op(Op::RmsNorm { eps: 1e-6.into() }, &[h, gain]).unwrap();
    let logits = g.op(Op::Matmul, &[x, embed]).unwrap();
    g.output("logits", logits).unwrap();
    g
}

struct Block<'g> {
    g: &'g mut Graph,
    layer: usize,
    names: Names,
    weights: Weights,
    unnamed: usize,
}

impl Block<'_> {
    fn op(&mut self, op: Op, operands: &[Value], name: &str) -> Value {
        let value = self.g.op(op, operands).unwrap();
        self.unnamed += 1;
        match self.names {
            Names::Layers => self.g.name(value, format!("layer{}.{name}", self.layer)),
            Names::Odd => self.g.name(value, format!("t{}", (self.unnamed * 7919 + self.layer * 31) % 1009)),
            Names::None => {}
        }
        value
    }

    /// A weight, or nothing in its place.
    fn weight(&mut self, part: &str, ty: TensorType) -> Option<Value> {
        match self.weights {
            Weights::Layers => Some(self.g.weight(&format!("model.layers.{}.{part}", self.layer), ty).unwrap()),
            Weights::Shared => Some(self.g.weight(part, ty).unwrap()),
            Weights::None => None,
        }
    }

    fn norm(&mut self, x: Value, part: &str, eps: f32) -> Value {
        match self.weight(&format!("{part}.weight"), f("32")) {
            Some(w) => self.op(Op::RmsNorm { eps: eps.into() }, &[x, w], part),
            None => self.op(Op::AddScalar { value: eps.into() }, &[x], part),
        }
    }

    fn matmul(&mut self, x: Value, part: &str, dims: &str, other: bool) -> Value {
        let dtype = if other { DType::Q4K } else { DType::Q8 };
        let part = if other && self.weights == Weights::Shared { &format!("other.{part}") } else { part };
        let part = if dims.contains("96") && self.weights == Weights::Shared { &format!("wide.{part}") } else { part };
        let name = part.rsplit('.').next().unwrap_or(part).trim_end_matches("_proj");
        match self.weight(&format!("{part}.weight"), TensorType::new(dtype, shape(dims))) {
            Some(w) => self.op(Op::Matmul, &[x, w], name),
            None => self.op(Op::Exp, &[x], name),
        }
    }

    fn bias(&mut self, x: Value, part: &str, dims: &str) -> Value {
        match self.weight(&format!("{part}.bias"), f(dims)) {
            Some(w) => self.op(Op::Add, &[x, w], "biased"),
            None => self.op(Op::AddScalar { value: 1.0.into() }, &[x], "biased"),
        }
    }

    fn rope(&mut self, x: Value, pos: Value, base: f32, name: &str) -> Value {
        let wide = self.op(Op::Reshape { shape: vec![-1, 4, 8] }, &[x], "split");
        let turned = self.op(Op::Rope { head_dim: 8, rope_dim: 8, base: base.into() }, &[wide, pos], name);
        self.op(Op::Reshape { shape: vec![-1, 32] }, &[turned], "joined")
    }
}
