//! The graph of gemma4.

use super::{Gemma4, Gemma4Layer, Keys, PerLayer};
use crate::families::Build;
use crate::families::decoder::{gated, scaled, soft_capped};
use crate::families::experts::{Experts, Place};
use crate::families::parts::{Built, Parts};
use tallow_ir::{DType, Dim, IrError, Op, SEQUENCE, Shape, TensorType, Value};

impl Build for Gemma4 {
    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let ids = parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
        let table = parts.weight(&self.embedding.tensor, &[self.vocab, self.hidden])?;
        let rows = parts.graph.op(Op::TokenEmbed, &[ids, table])?;
        let mut h = scaled(&mut parts.graph, rows, self.embedding.scale)?;
        parts.graph.name(h, "embed");
        let inputs = match self.per_layer {
            Some(per_layer) => self.inputs(parts, per_layer, ids, h)?,
            None => Vec::new(),
        };
        let mut kept = Vec::with_capacity(self.layers.len());
        for (number, layer) in self.layers.iter().enumerate() {
            let (tensors, says) = (self.names.in_layer(number, ""), format!("layer{number}"));
            let place = Place { tensors: &tensors, says: &says, hidden: self.hidden };
            h = self.layer(parts, layer, place, h, inputs.get(number).copied(), &mut kept)?;
        }
        let last = format!("{}{}", self.names.prefix, self.names.final_norm);
        let h = parts.rms_norm(h, &last, self.hidden, self.eps, "final_norm")?;
        let head = parts.weight(&self.head.tensor, &[self.vocab, self.hidden])?;
        let raw = parts.graph.op(Op::Matmul, &[h, head])?;
        let logits = soft_capped(&mut parts.graph, raw, self.head.softcap)?;
        parts.graph.name(logits, "logits");
        parts.graph.output("logits", logits)
    }
}

impl Gemma4 {
    /// The input of each layer, `[S, width]`: from a table by id, and from the embedding `h`.
    fn inputs(
        &self,
        parts: &mut Parts<'_>,
        PerLayer { width, vocab }: PerLayer,
        ids: Value,
        h: Value,
    ) -> Result<Vec<Value>, IrError> {
        let name = |what: &str| format!("{}{what}", self.names.prefix);
        let count = self.layers.len() as u32;
        let all = width * count;
        let table = parts.weight(&name("embed_tokens_per_layer.weight"), &[vocab, all])?;
        let rows = parts.graph.op(Op::TokenEmbed, &[ids, table])?;
        let token = scaled(&mut parts.graph, rows, f64::from(width).sqrt() as f32)?;
        let projection = name("per_layer_model_projection");
        let context = parts.linear(h, &projection, [all, self.hidden], false, "per_layer_context")?;
        let context = scaled(&mut parts.graph, context, f64::from(self.hidden).powf(-0.5) as f32)?;
        let shape = vec![-1, count.into(), width.into()];
        let context = parts.graph.op(Op::Reshape { shape }, &[context])?;
        let norm = name("per_layer_projection_norm");
        let context = parts.rms_norm(context, &norm, width, self.eps, "per_layer_context_norm")?;
        let context = parts.graph.op(Op::Reshape { shape: vec![-1, all.into()] }, &[context])?;
        let sum = parts.graph.op(Op::Add, &[context, token])?;
        let sum = scaled(&mut parts.graph, sum, 2f64.powf(-0.5) as f32)?;
        parts.graph.name(sum, "per_layer_inputs");
        parts.split(sum, &vec![width; count as usize])
    }

    /// A layer. `kept` are the keys and values of the layers before; those of this one are added.
    fn layer(
        &self,
        parts: &mut Parts<'_>,
        layer: &Gemma4Layer,
        at: Place<'_>,
        h: Value,
        input: Option<Value>,
        kept: &mut Vec<[Value; 2]>,
    ) -> Built {
        let x = self.norm(parts, at, h, "input_layernorm", "attn_norm")?;
        let branch = self.attention(parts, layer, at, x, kept)?;
        let branch = self.norm(parts, at, branch, "post_attention_layernorm", "attn_post_norm")?;
        let h = parts.op(Op::Add, &[h, branch], at.value("attn_residual"))?;

        let x = self.norm(parts, at, h, "pre_feedforward_layernorm", "ffn_norm")?;
        let mut branch = self.feed_forward(parts, layer, at, x)?;
        if let Some(experts) = &self.experts {
            let dense = self.norm(parts, at, branch, "post_feedforward_layernorm_1", "dense_norm")?;
            let routed = self.experts(parts, experts, at, h)?;
            branch = parts.op(Op::Add, &[dense, routed], at.value("dense_and_experts"))?;
        }
        let branch = self.norm(parts, at, branch, "post_feedforward_layernorm", "ffn_post_norm")?;
        let mut h = parts.op(Op::Add, &[h, branch], at.value("ffn_residual"))?;

        if let (Some(PerLayer { width, .. }), Some(input)) = (self.per_layer, input) {
            let (down, up) = (at.tensor("per_layer_input_gate"), at.tensor("per_layer_projection"));
            let gate = parts.linear(h, &down, [width, self.hidden], false, at.value("input_gate"))?;
            let y = gated(&mut parts.graph, gate, input, self.activation)?;
            let y = parts.linear(y, &up, [self.hidden, width], false, at.value("input_out"))?;
            let y = self.norm(parts, at, y, "post_per_layer_input_norm", "input_norm")?;
            h = parts.op(Op::Add, &[h, y], at.value("input_residual"))?;
        }
        let scale = parts.weight(&at.tensor("layer_scalar"), &[1])?;
        let scale = parts.graph.op(Op::Expand { shape: vec![self.hidden.into()] }, &[scale])?;
        parts.op(Op::Mul, &[h, scale], at.value("out"))
    }

    fn attention(
        &self,
        parts: &mut Parts<'_>,
        layer: &Gemma4Layer,
        at: Place<'_>,
        x: Value,
        kept: &mut Vec<[Value; 2]>,
    ) -> Built {
        let &Gemma4Layer { head_dim, kv_heads, .. } = layer;
        let part = |what: &str| at.tensor(&format!("self_attn.{what}"));
        let (q_width, kv_width) = (self.heads * head_dim, kv_heads * head_dim);
        let q = parts.linear(x, &part("q_proj"), [q_width, self.hidden], self.bias, at.value("q"))?;
        let q = self.turned(parts, layer, at, q, self.heads, "q")?;
        let [k, v] = match layer.keys {
            Keys::Of(earlier) => kept[earlier],
            Keys::Own | Keys::Joint => {
                let rows = [kv_width, self.hidden];
                let k = parts.linear(x, &part("k_proj"), rows, self.bias, at.value("k"))?;
                let v = match layer.keys {
                    Keys::Joint => k,
                    _ => parts.linear(x, &part("v_proj"), rows, self.bias, at.value("v"))?,
                };
                let k = self.turned(parts, layer, at, k, kv_heads, "k")?;
                let v = self.values(parts, layer, at, v)?;
                match self.causal {
                    true => {
                        let cached = parts.graph.op_many(Op::KvCache, &[k, v])?;
                        parts.graph.name(cached[0], at.value("k_all"));
                        parts.graph.name(cached[1], at.value("v_all"));
                        [cached[0], cached[1]]
                    }
                    false => [k, v],
                }
            }
        };
        kept.push([k, v]);
        let op = Op::Attention {
            heads: self.heads,
            kv_heads,
            head_dim,
            causal: self.causal,
            window: layer.window.unwrap_or(0),
            scale: 1.0.into(),
            softcap: 0.0.into(),
        };
        let mixed = parts.op(op, &[q, k, v], at.value("attn"))?;
        parts.linear(mixed, &part("o_proj"), [self.hidden, q_width], self.bias, at.value("attn_out"))
    }

    /// Queries or keys (`[S, heads · head_dim]`), each head normalised and turned.
    fn turned(
        &self,
        parts: &mut Parts<'_>,
        layer: &Gemma4Layer,
        at: Place<'_>,
        x: Value,
        heads: u32,
        what: &str,
    ) -> Built {
        let (n, d) = (i64::from(heads), i64::from(layer.head_dim));
        let x = parts.graph.op(Op::Reshape { shape: vec![-1, n, d] }, &[x])?;
        let name = at.tensor(&format!("self_attn.{what}_norm"));
        let mut x = parts.rms_norm(x, &name, layer.head_dim, self.eps, at.value(&format!("{what}_norm")))?;
        if let Some(rope) = &layer.rope {
            let pos = parts.graph.pos()?;
            x = parts.op(rope.clone(), &[x, pos], at.value(&format!("{what}_rope")))?;
        }
        parts.graph.op(Op::Reshape { shape: vec![-1, n * d] }, &[x])
    }

    /// Values (`[S, heads · head_dim]`), each head normalised without a gain.
    fn values(&self, parts: &mut Parts<'_>, layer: &Gemma4Layer, at: Place<'_>, v: Value) -> Built {
        let (n, d) = (i64::from(layer.kv_heads), i64::from(layer.head_dim));
        let v = parts.graph.op(Op::Reshape { shape: vec![-1, n, d] }, &[v])?;
        let ones = self.ones(parts, layer.head_dim)?;
        let v = parts.op(Op::RmsNorm { eps: self.eps.into() }, &[v, ones], at.value("v_norm"))?;
        parts.graph.op(Op::Reshape { shape: vec![-1, n * d] }, &[v])
    }

    /// The gain of a norm that has none.
    fn ones(&self, parts: &mut Parts<'_>, width: u32) -> Built {
        let ones = Op::Constant { dtype: DType::F32, shape: vec![width.into()], values: vec![1.0.into()] };
        parts.graph.op(ones, &[])
    }

    fn feed_forward(&self, parts: &mut Parts<'_>, layer: &Gemma4Layer, at: Place<'_>, x: Value) -> Built {
        let rows = [layer.width, self.hidden];
        let gate = parts.linear(x, &at.tensor("mlp.gate_proj"), rows, false, at.value("gate"))?;
        let up = parts.linear(x, &at.tensor("mlp.up_proj"), rows, false, at.value("up"))?;
        let y = gated(&mut parts.graph, gate, up, self.activation)?;
        let down = at.tensor("mlp.down_proj");
        parts.linear(y, &down, [self.hidden, layer.width], false, at.value("ffn_out"))
    }

    /// What the experts make of the residual stream `h`: the router has a norm of its own, whose gain is a tensor over
    /// √hidden, and a factor for each expert.
    fn experts(&self, parts: &mut Parts<'_>, experts: &Experts, at: Place<'_>, h: Value) -> Built {
        let scale = parts.weight(&at.tensor("router.scale"), &[self.hidden])?;
        let gain = scaled(&mut parts.graph, scale, f64::from(self.hidden).powf(-0.5) as f32)?;
        let normed = parts.op(Op::RmsNorm { eps: self.eps.into() }, &[h, gain], at.value("router_norm"))?;
        let rows = [experts.router.experts, self.hidden];
        let logits = parts.linear(normed, &at.tensor(experts.names.router), rows, false, at.value("router"))?;
        let mut chosen = experts.router.choose(parts, at, logits)?;
        let factors = parts.weight(&at.tensor("router.per_expert_scale"), &[experts.router.experts])?;
        let factors = parts.graph.op(Op::Gather { axis: 0 }, &[factors, chosen.index])?;
        chosen.weights = parts.graph.op(Op::Mul, &[chosen.weights, factors])?;
        let x = self.norm(parts, at, h, "pre_feedforward_layernorm_2", "expert_norm")?;
        let y = experts.apply(parts, at, x, chosen)?;
        self.norm(parts, at, y, "post_feedforward_layernorm_2", "expert_post_norm")
    }

    fn norm(&self, parts: &mut Parts<'_>, at: Place<'_>, x: Value, name: &str, says: &str) -> Built {
        parts.rms_norm(x, &at.tensor(name), self.hidden, self.eps, at.value(says))
    }
}
