//! The rest of `.tri`'s standard library: names that other programs use for the same roles, functions that compute
//! what they say, weights by name, and the whole decoder that the config describes.

use super::attention::{HeadCount, no_role};
use super::{Args, Builtin, Owner, tri};
use crate::families::decoder::{self, DecoderSpec, Gate, Projections};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::Value;
use tallow_ir::{Op, Value as Node};

/// `tensor.…`: other names of roles, and what has no role.
pub static TENSOR: &[Builtin] = &[
    Builtin {
        name: "rms_norm",
        params: "h, seq, hidden, eps",
        doc: "As `rmsnorm`.",
        lower: |e, a| by_role(e, a, "rmsnorm"),
    },
    Builtin { name: "matmul", params: "h, layer, out, in", doc: "As `matvec`.", lower: |e, a| by_role(e, a, "matvec") },
    Builtin {
        name: "attention",
        params: "q, k, v, heads, kv_heads, head_dim, seq",
        doc: "As `flash_attention`.",
        lower: |e, a| by_role(e, a, "flash_attention"),
    },
    Builtin { name: "lm_head", params: "h, vocab, hidden", doc: "As `linear`.", lower: |e, a| by_role(e, a, "linear") },
    Builtin { name: "add", params: "x, y", doc: "`x + y`, whatever `x` carries.", lower: |e, a| literal(e, a, "add") },
    Builtin { name: "sub", params: "x, y", doc: "`x - y`.", lower: |e, a| literal(e, a, "sub") },
    Builtin { name: "mul", params: "x, y", doc: "`x · y`.", lower: |e, a| literal(e, a, "mul") },
    Builtin { name: "div", params: "x, y", doc: "`x / y`.", lower: |e, a| literal(e, a, "div") },
    Builtin {
        name: "scale",
        params: "x, n",
        doc: "`x · n`, where `n` is a number.",
        lower: |e, a| literal(e, a, "scale"),
    },
    Builtin { name: "silu", params: "x", doc: "`x · sigmoid(x)`.", lower: |e, a| literal(e, a, "silu") },
    Builtin {
        name: "gelu",
        params: "x",
        doc: "The Gaussian error linear unit, erf form.",
        lower: |e, a| literal(e, a, "gelu"),
    },
    Builtin {
        name: "gelu_tanh",
        params: "x",
        doc: "The Gaussian error linear unit, tanh form.",
        lower: |e, a| literal(e, a, "gelu_tanh"),
    },
    Builtin { name: "relu", params: "x", doc: "`max(x, 0)`.", lower: |e, a| literal(e, a, "relu") },
    Builtin { name: "sigmoid", params: "x", doc: "`1 / (1 + exp(-x))`.", lower: |e, a| literal(e, a, "sigmoid") },
    Builtin { name: "tanh", params: "x", doc: "The hyperbolic tangent.", lower: |e, a| literal(e, a, "tanh") },
    Builtin {
        name: "softmax",
        params: "x[, axis]",
        doc: "Exponentials that sum to 1 along `axis`, the last by default.",
        lower: |e, a| literal(e, a, "softmax"),
    },
    Builtin {
        name: "last", params: "x", doc: "The last row: `[S, D]` → `[D]`.", lower: |e, a| literal(e, a, "last")
    },
    Builtin {
        name: "mean_pool",
        params: "x",
        doc: "The mean of the rows: `[S, D]` → `[D]`.",
        lower: |e, a| literal(e, a, "mean_pool"),
    },
    Builtin {
        name: "rope",
        params: "x, head_dim, theta",
        doc: "Rotary embedding of `[S, heads·head_dim]` at the positions of the tokens.",
        lower: |e, a| pass(e, a, Owner::Function, "rope", &[0, 1, 2]),
    },
    Builtin {
        name: "causal_attention",
        params: "q, k, v, heads, head_dim",
        doc: "Attention in which no row sees a later one, over all tokens so far, of values as they are.",
        lower: |e, a| pass(e, a, Owner::Function, "causal_attention", &[0, 1, 2, 3, 4]),
    },
    Builtin {
        name: "weight",
        params: "name",
        doc: "A tensor of the model by name, with or without `.weight`.",
        lower: |e, a| pass(e, a, Owner::Weights, "get", &[0]),
    },
    Builtin {
        name: "embed_named",
        params: "name, tok, hidden",
        doc: "The rows of a table by name that ids name: `[S]` → `[S, hidden]`.",
        lower: |e, a| pass(e, a, Owner::Weights, "embed", &[0, 1, 2]),
    },
    Builtin {
        name: "linear_named",
        params: "name, x[, out]",
        doc: "`x · Wᵀ` by the name of W, and the sibling bias where there is one; `out` is the number of W's rows.",
        lower: linear_named,
    },
    Builtin {
        name: "rmsnorm_named",
        params: "name, x, eps",
        doc: "`x / √(mean(x²) + ε) · g` by the name of g; an ε of at least 1 means 1/ε.",
        lower: |e, a| pass(e, a, Owner::Weights, "rmsnorm", &[1, 0, 2]),
    },
    Builtin {
        name: "layernorm_named",
        params: "name, x, eps",
        doc: "Normalised, then scale and shift by what their names begin with; an ε of at least 1 means 1/ε.",
        lower: |e, a| pass(e, a, Owner::Weights, "layernorm", &[1, 0, 2]),
    },
];

/// `transformer_llama.…`
pub static LLAMA: &[Builtin] = &[Builtin {
    name: "forward",
    params: "tok[, seq, cfg]",
    doc: "The whole decoder that the config describes: ids `[S]` → logits `[S, vocab]`.",
    lower: |e, a| {
        let ids = a.tensor(e, 0)?;
        if a.has(2) && !matches!(e.deref(a.value(2).clone()), Value::Config(_)) {
            return Err(e.mismatch(a.value(2), "the config", a.at(2)));
        }
        Ok(Value::Tensor(whole_decoder(e, ids, a)?))
    },
}];

/// Calls a builtin of another table with some of the arguments.
fn pass(e: &mut Evaluator<'_>, a: &Args, owner: Owner, name: &str, order: &[usize]) -> Eval {
    let Some(builtin) = super::find(owner, name) else { return Err(Flow::Poisoned) };
    let given: Vec<usize> = order.iter().copied().filter(|&i| a.has(i)).collect();
    let values = given.iter().map(|&i| a.value(i).clone()).collect();
    let spans: Vec<_> = given.iter().map(|&i| a.at(i)).collect();
    super::lower(e, builtin, Args::new(None, values, &spans, a.name, a.span))
}

/// The same role under another name.
fn by_role(e: &mut Evaluator<'_>, a: &Args, name: &str) -> Eval {
    pass(e, a, Owner::TriTensor, name, &(0..a.values.len()).collect::<Vec<_>>())
}

/// A method of the first argument, which is a tensor.
fn literal(e: &mut Evaluator<'_>, a: &Args, name: &str) -> Eval {
    let Some(builtin) = super::find(Owner::Tensor, name) else { return Err(Flow::Poisoned) };
    let this = Value::Tensor(a.tensor(e, 0)?);
    let spans = a.spans.get(1..).unwrap_or_default();
    let rest = a.values.iter().skip(1).cloned().collect();
    super::lower(e, builtin, Args::new(Some((this, a.at(0))), rest, spans, a.name, a.span))
}

fn linear_named(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let name = e.weight_name(&a.text(e, 0)?);
    let x = a.tensor(e, 1)?;
    let out = match (a.has(2), e.weight_shape(&name)) {
        (true, _) => i64::from(a.count(e, 2)?),
        (false, Some(shape)) => shape.first().copied().unwrap_or(0),
        (false, None) => {
            // Says that there is no such tensor; without an index, that its shape is not known.
            e.weight(&name, None, a.at(0))?;
            let d = Diagnostic::new(Code::Arity, a.span, "the number of outputs is not known without a tensor index");
            return Err(d.help("give it as the third argument").into());
        }
    };
    Ok(Value::Tensor(e.matmul_by_name(x, &name, out, true, a.at(0), a.span)?))
}

/// Ids to logits, as the family of the config builds it.
fn whole_decoder(e: &mut Evaluator<'_>, ids: Node, a: &Args) -> Eval<Node> {
    let (spec, span) = (e.decoder_roles(a.span)?, a.span);
    let attention = &spec.attention;
    let (wide, kv_wide) = (attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim);
    let count = HeadCount { heads: attention.heads, kv_heads: attention.kv_heads, head_dim: attention.head_dim };
    let table = e.weight(&spec.embedding.tensor, Some(&[spec.vocab.into(), spec.hidden.into()]), span)?;
    let rows = e.op(Op::TokenEmbed, &[ids, table], span)?;
    let mut h = e.parts(&[rows], span, |graph| decoder::scaled(graph, rows, spec.embedding.scale))?;
    for layer in 0..spec.layers.len() {
        e.tick(span)?;
        let names = &spec.names;
        let part = |part: &str| names.in_layer(layer, part);
        let x = e.norm_by_name(&spec, h, &part(names.attention_norm), None, span)?;
        let qkv = match attention.projections {
            Projections::Separate => [
                product(e, x, &part(names.q), wide, a)?,
                product(e, x, &part(names.k), kv_wide, a)?,
                product(e, x, &part(names.v), kv_wide, a)?,
            ],
            Projections::Fused => {
                let all = product(e, x, &part(names.qkv), wide + 2 * kv_wide, a)?;
                let parts = e.ops(Op::Split { axis: 1, sizes: vec![wide, kv_wide, kv_wide] }, &[all], span)?;
                [parts[0], parts[1], parts[2]]
            }
            Projections::FusedByHead => return Err(no_role(&spec, "q, k and v head by head", span).into()),
        };
        let mixed = e.flash_attention(qkv, count, Some(layer), span)?;
        let y = product(e, mixed, &part(names.out), spec.hidden, a)?;
        let branch = e.branch_end(&spec, y, names.attention_post_norm, layer, span)?;
        h = e.op(Op::Add, &[h, branch], span)?;
        let x = e.norm_by_name(&spec, h, &part(names.feed_forward_norm), None, span)?;
        let branch = feed_forward(e, &spec, x, layer, a)?;
        h = e.op(Op::Add, &[h, branch], span)?;
    }
    let last = format!("{}{}", spec.names.prefix, spec.names.final_norm);
    let h = e.norm_by_name(&spec, h, &last, None, span)?;
    tri::logits(e, &spec, h, span)
}

fn feed_forward(e: &mut Evaluator<'_>, spec: &DecoderSpec, x: Node, layer: usize, a: &Args) -> Eval<Node> {
    let (f, names, span) = (&spec.feed_forward, &spec.names, a.span);
    let part = |part: &str| names.in_layer(layer, part);
    let (gate, up) = match f.gate {
        Gate::Separate => (product(e, x, &part(names.gate), f.width, a)?, product(e, x, &part(names.up), f.width, a)?),
        Gate::Fused => {
            let both = product(e, x, &part(names.gate_up), 2 * f.width, a)?;
            let parts = e.ops(Op::Split { axis: 1, sizes: vec![f.width, f.width] }, &[both], span)?;
            (parts[0], parts[1])
        }
        Gate::Off => return Err(no_role(spec, "a feed-forward without a gate", span).into()),
    };
    let y = e.parts(&[gate, up], span, |graph| decoder::gated(graph, gate, up, f.activation))?;
    let down = product(e, y, &part(names.down), spec.hidden, a)?;
    e.branch_end(spec, down, names.feed_forward_post_norm, layer, span)
}

fn product(e: &mut Evaluator<'_>, x: Node, name: &str, out: u32, a: &Args) -> Eval<Node> {
    e.matmul_by_name(x, &format!("{name}.weight"), out.into(), true, a.span, a.span)
}
