//! Attention in all its forms, and rotary embedding.

use super::{Args, Builtin};
use crate::families;
use crate::families::decoder::{self, DecoderSpec, HeadNorm};
use crate::program::ast::Span;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use indexmap::IndexMap;
use std::sync::Arc;
use tallow_ir::{Op, Value as Node};

/// Heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadCount {
    /// Query heads.
    pub heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Size of each.
    pub head_dim: u32,
}

/// The functions.
pub static FUNCTIONS: &[Builtin] = &[
    Builtin {
        name: "flash_attention",
        params: "q, k, v, heads, kv_heads, head_dim",
        doc: "The decoder attention that the config describes: norms of query and key heads where the tensor index holds `q_norm` and `k_norm` beside the projections that made q and k, rotary embedding with the config's base and scaling, the key-value cache, causal masking, and the layer's window. q `[S, heads·head_dim]`, k and v `[S, kv_heads·head_dim]` → `[S, heads·head_dim]`. The layer is the number in the name of q's projection.",
        lower: |e, a| {
            let (q, k, v) = (a.tensor(e, 0)?, a.tensor(e, 1)?, a.tensor(e, 2)?);
            let count = HeadCount { heads: a.count(e, 3)?, kv_heads: a.count(e, 4)?, head_dim: a.count(e, 5)? };
            Ok(Value::Tensor(e.flash_attention([q, k, v], count, None, a.span)?))
        },
    },
    Builtin {
        name: "causal_attention",
        params: "q, k, v, heads, head_dim",
        doc: "Attention in which no row sees a later one, over all tokens so far: keys and values of earlier calls are cached. q, k, v `[S, heads·head_dim]` → the same.",
        lower: causal_attention,
    },
    Builtin {
        name: "attention",
        params: "q, k, v, heads, head_dim[, mask]",
        doc: "Attention of every row of q over every row of k and v, which may come from elsewhere; `mask` is added to the scores and broadcast to `[heads, S, T]`. q `[S, heads·head_dim]` or `[N, S, heads·head_dim]` → the same.",
        lower: attention,
    },
    Builtin {
        name: "self_attention",
        params: "qkv, heads, head_dim",
        doc: "Attention over queries, keys and values that one projection made: `[…, 3·heads·head_dim]` → `[…, heads·head_dim]`.",
        lower: self_attention,
    },
    Builtin {
        name: "rope",
        params: "x, head_dim, theta",
        doc: "Rotary embedding of `[S, heads·head_dim]` at the positions of the tokens: pairs `(j, j + head_dim/2)`, angles `pos / theta^(2j/head_dim)`.",
        lower: rope,
    },
];

impl Evaluator<'_> {
    /// The decoder that the config describes.
    pub(crate) fn decoder_spec(&mut self, span: Span) -> Eval<Arc<DecoderSpec>> {
        let build = self.build(span)?;
        if let Some(spec) = &build.decoder {
            return Ok(spec.clone());
        }
        let none = IndexMap::<String, Vec<u64>>::new();
        let spec = families::describe_any(build.config, build.tensors.unwrap_or(&none)).map_err(|error| {
            let d =
                Diagnostic::new(Code::FamilyConfig, span, "the config does not describe the attention of a decoder");
            d.label("needs it").help(error.to_string())
        })?;
        let spec = Arc::new(spec);
        build.decoder = Some(spec.clone());
        Ok(spec)
    }

    /// The attention that the config describes; `layer` where the caller knows it, else from the name of q's
    /// projection.
    pub(crate) fn flash_attention(
        &mut self,
        [q, k, v]: [Node; 3],
        count: HeadCount,
        layer: Option<usize>,
        span: Span,
    ) -> Eval<Node> {
        let spec = self.decoder_spec(span)?;
        let described = &spec.attention;
        if described.head_dim != count.head_dim {
            let message = format!("heads of {} here, and of {} by the config", count.head_dim, described.head_dim);
            let d = Diagnostic::new(Code::FamilyConfig, span, message).label("`head_dim` differs");
            return Err(d.help("read `head_dim` from the config, where it has a default").into());
        }
        let mut spec = (*spec).clone();
        (spec.attention.heads, spec.attention.kv_heads) = (count.heads, count.kv_heads);
        let name_of = |e: &Self, node: Node| e.build.as_ref().and_then(|b| b.projections.get(&node).cloned());
        let (q_name, k_name) = (name_of(self, q), name_of(self, k));
        let layer = match layer.or_else(|| layer_of(q_name.as_deref()?)) {
            Some(layer) if layer < spec.layers.len() => layer,
            Some(layer) => {
                let message = format!("layer {layer} of a config with {} layers", spec.layers.len());
                return Err(Diagnostic::new(Code::Layer, span, message).into());
            }
            None if spec.layers.windows(2).all(|w| w[0] == w[1]) && !spec.layers.is_empty() => 0,
            None => {
                let d =
                    Diagnostic::new(Code::Layer, span, "the layer of this attention cannot be told, and layers differ");
                return Err(d.help("make q by `w.linear` with the number of the layer in the name").into());
            }
        };
        let q_gain = self.head_gain(&spec, q_name.as_deref(), "q", span)?;
        let k_gain = self.head_gain(&spec, k_name.as_deref(), "k", span)?;
        let before = self.build(span)?.graph.node_bound();
        let graph = &mut self.build(span)?.graph;
        let mut work = || {
            let q = decoder::turn_heads(graph, &spec, layer, q, count.heads, q_gain, "q")?;
            let k = decoder::turn_heads(graph, &spec, layer, k, count.kv_heads, k_gain, "k")?;
            decoder::attend(graph, &spec, layer, [q, k, v])
        };
        let result = work();
        self.place_nodes(before, span);
        result.map_err(|error| self.rule(error, &[q, k, v], span))
    }

    /// Notes where nodes made since `before` stand in the source.
    pub(crate) fn place_nodes(&mut self, before: usize, span: Span) {
        if let Some(build) = &mut self.build {
            for at in before..build.graph.node_bound() {
                build.spans.insert(at, span);
            }
        }
    }

    /// The gain of the norm of query or key heads, where there is one beside the projection.
    fn head_gain(
        &mut self,
        spec: &DecoderSpec,
        projection: Option<&str>,
        what: &str,
        span: Span,
    ) -> Eval<Option<Node>> {
        let Some(projection) = projection else { return Ok(None) };
        let Some(parent) = projection.strip_suffix(&format!("{what}_proj.weight")) else { return Ok(None) };
        let name = format!("{parent}{what}_norm.weight");
        let known = match self.build(span)?.tensors {
            Some(tensors) => tensors.shape(&name).is_some(),
            None => spec.attention.head_norm == HeadNorm::PerHead,
        };
        if !known {
            return Ok(None);
        }
        let weight = self.weight(&name, Some(&[i64::from(spec.attention.head_dim)]), span)?;
        let graph = &mut self.build(span)?.graph;
        let gain = decoder::gain(graph, spec, weight);
        gain.map(Some).map_err(|error| self.rule(error, &[weight], span))
    }
}

/// The number in the name of a tensor of a layer.
fn layer_of(name: &str) -> Option<usize> {
    name.split('.').find_map(|part| part.parse().ok())
}

/// Plain attention over the last two dimensions but for heads.
fn attend(
    e: &mut Evaluator<'_>,
    qkv: [Node; 3],
    mask: Option<Node>,
    sizes: (u32, u32),
    causal: bool,
    span: Span,
) -> Eval<Node> {
    let (heads, head_dim) = sizes;
    let batched = e.dims(qkv[0]).len() == 3;
    let mut operands = Vec::with_capacity(4);
    for x in qkv {
        operands.push(if batched { split_heads(e, x, heads, head_dim, span)? } else { x });
    }
    operands.extend(mask);
    let y = e.op(Op::Sdpa { heads, kv_heads: heads, head_dim, causal }, &operands, span)?;
    if batched { join_heads(e, y, span) } else { Ok(y) }
}

/// `[N, S, heads·d]` → `[N, heads, S, d]`.
pub(crate) fn split_heads(e: &mut Evaluator<'_>, x: Node, heads: u32, head_dim: u32, span: Span) -> Eval<Node> {
    let parts = e.op(Op::Unflatten { axis: 2, sizes: vec![heads.into(), head_dim.into()] }, &[x], span)?;
    e.op(Op::Permute { dims: vec![0, 2, 1, 3] }, &[parts], span)
}

/// `[N, heads, S, d]` → `[N, S, heads·d]`.
pub(crate) fn join_heads(e: &mut Evaluator<'_>, x: Node, span: Span) -> Eval<Node> {
    let rows = e.op(Op::Permute { dims: vec![0, 2, 1, 3] }, &[x], span)?;
    e.op(Op::Flatten { start: 2, end: 3 }, &[rows], span)
}

fn causal_attention(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (q, k, v) = (a.tensor(e, 0)?, a.tensor(e, 1)?, a.tensor(e, 2)?);
    let sizes = (a.count(e, 3)?, a.count(e, 4)?);
    let cached = e.ops(Op::KvCache, &[k, v], a.span)?;
    Ok(Value::Tensor(attend(e, [q, cached[0], cached[1]], None, sizes, true, a.span)?))
}

fn attention(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (q, k, v) = (a.tensor(e, 0)?, a.tensor(e, 1)?, a.tensor(e, 2)?);
    let sizes = (a.count(e, 3)?, a.count(e, 4)?);
    let mask = if a.has(5) { Some(a.tensor(e, 5)?) } else { None };
    Ok(Value::Tensor(attend(e, [q, k, v], mask, sizes, false, a.span)?))
}

fn self_attention(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let qkv = a.tensor(e, 0)?;
    let sizes = (a.count(e, 1)?, a.count(e, 2)?);
    let axis = e.dims(qkv).len().saturating_sub(1) as u32;
    let parts = e.ops(Op::Chunk { axis, chunks: 3 }, &[qkv], a.span)?;
    Ok(Value::Tensor(attend(e, [parts[0], parts[1], parts[2]], None, sizes, false, a.span)?))
}

fn rope(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.tensor(e, 0)?;
    let head_dim = a.count(e, 1)?;
    let base = a.float(e, 2)? as f32;
    let width = e.width(x, a.at(0))?;
    let pos = e.build(a.span)?.graph.pos().map_err(|error| e.rule(error, &[], a.span))?;
    let heads = e.op(Op::Reshape { shape: vec![-1, width / i64::from(head_dim), head_dim.into()] }, &[x], a.span)?;
    let turned = e.op(Op::Rope { head_dim, rope_dim: head_dim, base: base.into() }, &[heads, pos], a.span)?;
    Ok(Value::Tensor(e.op(Op::Reshape { shape: vec![-1, width] }, &[turned], a.span)?))
}
