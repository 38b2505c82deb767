//! Attention in all its forms, and rotary embedding.

use super::{Args, Builtin};
use crate::families;
use crate::families::decoder::{self, DecoderSpec, Gate, HeadNorm, Norm, NormPlaces, Projections};
use crate::program::ast::Span;
use crate::program::build::is_float;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use indexmap::IndexMap;
use std::sync::Arc;
use tallow_ir::{NodeKind, Op, Value as Node};

/// Most operations between a matrix product and the attention that takes it.
const MOST_STEPS_BACK: usize = 64;

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
            for (i, (x, what, heads)) in
                [(q, "q", count.heads), (k, "k", count.kv_heads), (v, "v", count.kv_heads)].into_iter().enumerate()
            {
                rows_of_heads(e, x, what, heads, count.head_dim, a.at(i))?;
            }
            Ok(Value::Tensor(e.flash_attention([q, k, v], count, None, a.span)?))
        },
    },
    Builtin {
        name: "causal_attention",
        params: "q, k, v, heads, head_dim",
        doc: "Attention in which no row sees a later one, over all tokens so far: keys and values of earlier calls are cached. q, k, v `[S, heads·head_dim]` or `[N, S, heads·head_dim]` → the same.",
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

    /// The decoder that the config describes, for functions that compute its parts by their roles.
    pub(crate) fn decoder_roles(&mut self, span: Span) -> Eval<Arc<DecoderSpec>> {
        let spec = self.decoder_spec(span)?;
        match without_role(&spec) {
            Some(what) => Err(no_role(&spec, what, span).into()),
            None => Ok(spec),
        }
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
        let layer = match layer.or_else(|| layer_of(&self.projection_of(q, true)?)) {
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
        let (q_name, k_name) = (self.projection_of(q, false), self.projection_of(k, false));
        let q_norm = self.head_norm(&spec, q_name.as_deref(), "q", span)?;
        let k_norm = self.head_norm(&spec, k_name.as_deref(), "k", span)?;
        let before = self.build(span)?.graph.node_bound();
        let graph = &mut self.build(span)?.graph;
        let mut work = || {
            let q = decoder::turn_heads(graph, &spec, layer, q, count.heads, q_norm, None, "q")?;
            let k = decoder::turn_heads(graph, &spec, layer, k, count.kv_heads, k_norm, None, "k")?;
            decoder::attend(graph, &spec, layer, [q, k, v])
        };
        let result = work();
        self.place_nodes(before, span);
        result.map_err(|error| self.rule(error, &[q, k, v], span))
    }

    /// The weight of the matrix product that a value is, or is a part of. A norm on the way ends the search unless
    /// `through_norms`: a program that writes the norms of heads itself has no more of them.
    fn projection_of(&self, node: Node, through_norms: bool) -> Option<String> {
        let build = self.build.as_ref()?;
        let mut node = node;
        for _ in 0..MOST_STEPS_BACK {
            if let Some(name) = build.projections.get(&node) {
                return Some(name.clone());
            }
            let NodeKind::Op(op) = &build.graph.node(node.node).kind else { return None };
            let passes = match op {
                Op::RmsNorm { .. } | Op::LayerNorm { .. } => through_norms,
                Op::Add | Op::Sub | Op::Mul | Op::MulScalar { .. } | Op::AddScalar { .. } | Op::Cast { .. } => true,
                Op::Split { .. } | Op::Chunk { .. } | Op::Slice { .. } | Op::Reshape { .. } => true,
                Op::Permute { .. } | Op::Transpose { .. } | Op::Flatten { .. } | Op::Unflatten { .. } => true,
                Op::Squeeze { .. } | Op::Unsqueeze { .. } => true,
                _ => false,
            };
            if !passes {
                return None;
            }
            let is_weight = |v: &Node| matches!(build.graph.node(v.node).kind, NodeKind::Weight(_));
            node = build.graph.operands(node.node).iter().copied().find(|v| !is_weight(v))?;
        }
        None
    }

    /// Notes where nodes made since `before` stand in the source.
    pub(crate) fn place_nodes(&mut self, before: usize, span: Span) {
        if let Some(build) = &mut self.build {
            for at in before..build.graph.node_bound() {
                build.spans.insert(at, span);
            }
        }
    }

    /// ε and gain of the norm of query or key heads, where there is one beside the projection.
    fn head_norm(
        &mut self,
        spec: &DecoderSpec,
        projection: Option<&str>,
        what: &str,
        span: Span,
    ) -> Eval<Option<(f32, Node)>> {
        let Some(projection) = projection else { return Ok(None) };
        let eps = match (spec.attention.head_norm, spec.norm) {
            (HeadNorm::Off | HeadNorm::PerHead, Norm::Rms { eps, .. }) => Some(eps),
            _ => None,
        };
        let other = || {
            let message = format!("no function computes the norm of query and key heads of `{}`", spec.model_type);
            let d = Diagnostic::new(Code::FamilyConfig, span, message).label("needs it");
            d.help("write the norms of q and k into the program, before this call")
        };
        if eps.is_none() && spec.attention.head_norm != HeadNorm::Off {
            return Err(other().into());
        }
        let of = projection.strip_suffix(".weight").unwrap_or(projection);
        let Some((parent, _)) = of.rsplit_once('.') else { return Ok(None) };
        let name = format!("{parent}.{what}_norm.weight");
        let known = match self.build(span)?.tensors {
            Some(tensors) => tensors.shape(&name).is_some(),
            None => spec.attention.head_norm == HeadNorm::PerHead,
        };
        if !known {
            return Ok(None);
        }
        let Some(eps) = eps else { return Err(other().into()) };
        let weight = self.weight(&name, Some(&[i64::from(spec.attention.head_dim)]), span)?;
        let graph = &mut self.build(span)?.graph;
        let gain = decoder::gain(graph, spec, weight);
        gain.map(|gain| Some((eps, gain))).map_err(|error| self.rule(error, &[weight], span))
    }
}

/// The error where a decoder has something that the functions for its roles do not compute.
pub(super) fn no_role(spec: &DecoderSpec, what: &str, span: Span) -> Diagnostic {
    let message = format!("a decoder of type `{}` has {what}, which this language has no role for", spec.model_type);
    let d = Diagnostic::new(Code::FamilyConfig, span, message).label("a part of that decoder");
    d.help("such a model runs without a program; or write its parts by the names of their weights")
}

/// What of a decoder the functions for its roles do not compute.
fn without_role(spec: &DecoderSpec) -> Option<&'static str> {
    if let Norm::Layer { .. } = spec.norm {
        return Some("layer norms");
    }
    match spec.places {
        NormPlaces::Before | NormPlaces::Around => {}
        NormPlaces::After => return Some("norms after its branches alone"),
        NormPlaces::Parallel | NormPlaces::ParallelNorms => return Some("attention and feed-forward side by side"),
    }
    match spec.attention.head_norm {
        HeadNorm::Off | HeadNorm::PerHead => {}
        HeadNorm::Projection => return Some("a norm over all heads together"),
        HeadNorm::RowPerHead | HeadNorm::TensorPerHead => return Some("norms of a weight for each head"),
    }
    if spec.attention.projections == Projections::FusedByHead {
        return Some("queries, keys and values in one matrix, head by head");
    }
    if spec.feed_forward.gate == Gate::Off {
        return Some("a feed-forward without a gate");
    }
    if spec.embedding.positions.is_some() {
        return Some("learned positions");
    }
    spec.head.bias.as_ref().map(|_| "a head with a bias")
}

/// The number in the name of a tensor of a layer.
fn layer_of(name: &str) -> Option<usize> {
    name.split('.').find_map(|part| part.parse().ok())
}

/// Queries, keys and values as one attention takes them.
struct Operands {
    qkv: [Node; 3],
    heads: u32,
    head_dim: u32,
    /// Whether they have a batch.
    batched: bool,
}

impl Operands {
    /// Checks the three, whose places in the source are given.
    fn new(e: &mut Evaluator<'_>, qkv: [Node; 3], heads: u32, head_dim: u32, at: [Span; 3]) -> Eval<Operands> {
        for ((x, what), at) in qkv.into_iter().zip(["q", "k", "v"]).zip(at) {
            rows_of_heads(e, x, what, heads, head_dim, at)?;
        }
        let ranks = qkv.map(|x| e.dims(x).len());
        if ranks[0] != ranks[1] || ranks[0] != ranks[2] {
            let odd = if ranks[0] != ranks[1] { 1 } else { 2 };
            let d = Diagnostic::new(Code::Rank, at[odd], "q, k and v must all have a batch or none");
            return Err(d.label(format!("q is {}, k {} and v {}", e.ty(qkv[0]), e.ty(qkv[1]), e.ty(qkv[2]))).into());
        }
        let (k, v) = (e.dims(qkv[1]), e.dims(qkv[2]));
        if k[k.len() - 2] != v[v.len() - 2] {
            let d =
                Diagnostic::new(Code::Shape, at[2], format!("{} keys and {} values", k[k.len() - 2], v[v.len() - 2]));
            return Err(d.label(format!("k is {} and v {}", e.ty(qkv[1]), e.ty(qkv[2]))).into());
        }
        Ok(Operands { qkv, heads, head_dim, batched: ranks[0] == 3 })
    }

    /// Attention; `cached` over all tokens so far, of which none sees a later one.
    fn attend(self, e: &mut Evaluator<'_>, mask: Option<Node>, cached: bool, span: Span) -> Eval<Node> {
        let Operands { qkv, heads, head_dim, batched } = self;
        let mut operands = Vec::with_capacity(4);
        for x in qkv {
            operands.push(if batched { split_heads(e, x, heads, head_dim, span)? } else { x });
        }
        if cached {
            let all = e.ops(Op::KvCache, &operands[1..], span)?;
            operands.splice(1.., all);
        }
        operands.extend(mask);
        let y = e.op(Op::Sdpa { heads, kv_heads: heads, head_dim, causal: cached }, &operands, span)?;
        if batched { join_heads(e, y, span) } else { Ok(y) }
    }
}

/// Checks that a tensor is `[S, heads·head_dim]` or `[N, S, heads·head_dim]`.
fn rows_of_heads(e: &Evaluator<'_>, x: Node, what: &str, heads: u32, head_dim: u32, at: Span) -> Eval<()> {
    let ty = e.ty(x);
    let wide = i64::from(heads) * i64::from(head_dim);
    if !(2..=3).contains(&ty.shape.rank()) {
        let d = Diagnostic::new(Code::Rank, at, format!("`{what}` must be `[S, {wide}]` or `[N, S, {wide}]`"));
        return Err(d.label(format!("this is {ty}")).into());
    }
    if ty.shape.last().and_then(|d| d.as_const()) != Some(wide) {
        let message = format!("`{what}` is {ty}, and {heads} heads of {head_dim} need rows of {wide}");
        return Err(Diagnostic::new(Code::Shape, at, message).label("rows of another size").into());
    }
    Ok(())
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

/// q, k, v, heads and head_dim, the first arguments of several functions.
fn operands(e: &mut Evaluator<'_>, a: &Args) -> Eval<Operands> {
    let qkv = [a.tensor(e, 0)?, a.tensor(e, 1)?, a.tensor(e, 2)?];
    let (heads, head_dim) = (a.count(e, 3)?, a.count(e, 4)?);
    Operands::new(e, qkv, heads, head_dim, [a.at(0), a.at(1), a.at(2)])
}

fn causal_attention(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let operands = operands(e, a)?;
    let (q, k) = (e.dims(operands.qkv[0]), e.dims(operands.qkv[1]));
    if q[q.len() - 2] != k[k.len() - 2] {
        let message = format!("{} queries and {} keys: each token has one of both", q[q.len() - 2], k[k.len() - 2]);
        let d = Diagnostic::new(Code::Shape, a.at(1), message);
        return Err(d.help("`attention` takes keys and values that come from elsewhere").into());
    }
    Ok(Value::Tensor(operands.attend(e, None, true, a.span)?))
}

fn attention(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let operands = operands(e, a)?;
    let mask = if a.has(5) { Some(a.tensor(e, 5)?) } else { None };
    if let Some(mask) = mask {
        let ty = e.ty(mask);
        if !is_float(ty.dtype) {
            let d = Diagnostic::new(Code::Type, a.at(5), format!("a mask is added to the scores, and this is {ty}"));
            let d = d.label("no real numbers");
            return Err(d
                .help("where attention is allowed 0, elsewhere −∞: `allowed.select_from(0.0, f32::NEG_INFINITY)`")
                .into());
        }
    }
    Ok(Value::Tensor(operands.attend(e, mask, false, a.span)?))
}

fn self_attention(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let qkv = a.tensor(e, 0)?;
    let (heads, head_dim) = (a.count(e, 1)?, a.count(e, 2)?);
    rows_of_heads(e, qkv, "qkv", heads.saturating_mul(3), head_dim, a.at(0))?;
    let axis = e.dims(qkv).len().saturating_sub(1) as u32;
    let parts = e.ops(Op::Chunk { axis, chunks: 3 }, &[qkv], a.span)?;
    let operands = Operands::new(e, [parts[0], parts[1], parts[2]], heads, head_dim, [a.at(0); 3])?;
    Ok(Value::Tensor(operands.attend(e, None, false, a.span)?))
}

fn rope(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.tensor(e, 0)?;
    let head_dim = a.count(e, 1)?;
    let base = a.float(e, 2)? as f32;
    e.ranked(x, "[S, heads·head_dim]", a.at(0))?;
    let width = e.width(x, a.at(0))?;
    if width % i64::from(head_dim) != 0 {
        let d = Diagnostic::new(Code::Shape, a.at(0), format!("rows of {width} are no whole heads of {head_dim}"));
        return Err(d.label(format!("this is {}", e.ty(x))).into());
    }
    let pos = e.build(a.span)?.graph.pos().map_err(|error| e.rule(error, &[], a.span))?;
    let heads = e.op(Op::Reshape { shape: vec![-1, width / i64::from(head_dim), head_dim.into()] }, &[x], a.span)?;
    let turned = e.op(Op::Rope { head_dim, rope_dim: head_dim, base: base.into() }, &[heads, pos], a.span)?;
    Ok(Value::Tensor(e.op(Op::Reshape { shape: vec![-1, width] }, &[turned], a.span)?))
}
