//! The modules of `.tri`.
//!
//! Weights have no names in this language: the role of a call tells which weight it reads. So values remember where
//! they come from: the norm of a residual stream remembers the stream, and a matrix product waits until attention
//! takes it. What the roles mean (names, norms around branches, multipliers) is the decoder that the config describes.

use super::attention::{HeadCount, no_role};
use super::{Args, Builtin};
use crate::families::decoder::{self, Activation, DecoderSpec, Norm, NormPlaces};
use crate::program::ast::{Language, Pattern, PatternKind, Span};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator, Walk};
use crate::program::module::Sampling;
use crate::program::value::{TriValue, Value};
use std::collections::HashMap;
use tallow_ir::ops::SampleMethod;
use tallow_ir::{IrError, Op, Value as Node};

/// What is known of values and of the place in the program.
#[derive(Debug, Default)]
pub struct Roles {
    /// The layers whose bodies are being evaluated, innermost last.
    layers: Vec<Layer>,
    /// Normalised values, and the residual stream that went into the norm.
    streams: HashMap<Node, Node>,
    /// Matrix products that wait for their role.
    pending: Vec<Pending>,
    /// Whether the norm after the layers has been applied.
    final_norm: bool,
}

#[derive(Clone, Copy, Debug)]
struct Layer {
    number: i128,
    norms: u32,
}

/// A matrix product whose role is not known yet.
#[derive(Clone, Debug)]
struct Pending {
    x: Node,
    layer: usize,
    out: i64,
    span: Span,
    role: Option<&'static str>,
}

/// `tensor.…`
pub static TENSOR: &[Builtin] = &[
    Builtin {
        name: "embed",
        params: "tok, seq, hidden, vocab",
        doc: "The rows of the table of embeddings that ids name: `[S]` → `[S, hidden]`.",
        lower: embed,
    },
    Builtin {
        name: "rmsnorm",
        params: "h, seq, hidden, eps",
        doc: "The first in a layer body reads the norm before attention, the second the one before the feed-forward, one outside of the loop the last norm. It remembers `h` as the residual stream.",
        lower: rmsnorm,
    },
    Builtin {
        name: "matvec",
        params: "h, layer, out, in",
        doc: "A projection of the layer; as first, second or third argument of attention it is that of queries, keys or values, with its bias where there is one.",
        lower: matvec,
    },
    Builtin {
        name: "flash_attention",
        params: "q, k, v, heads, kv_heads, head_dim, seq",
        doc: "The attention that the config describes (norms of heads, rotation, cache, window), and the output projection.",
        lower: flash_attention,
    },
    Builtin {
        name: "residual_add",
        params: "h, x, hidden",
        doc: "`x` added to the residual stream that `h` carries: the value before the norm, where `h` is normalised.",
        lower: residual_add,
    },
    Builtin {
        name: "swiglu",
        params: "h, layer, inter, hidden",
        doc: "The feed-forward of the layer, with the activation of the config, added to the residual stream.",
        lower: swiglu,
    },
    Builtin {
        name: "linear",
        params: "h, vocab, hidden",
        doc: "Logits: the last norm where the program has not applied one since the loop, then the output matrix or the tied table of embeddings.",
        lower: linear,
    },
    Builtin {
        name: "sample_top_p",
        params: "logits, vocab, p, temperature",
        doc: "A token from the likeliest that together reach the probability `p`; numbers are divided by the config's scale.",
        lower: |e, a| sample(e, a, SampleMethod::TopP),
    },
    Builtin {
        name: "sample_top_k",
        params: "logits, vocab, k, temperature",
        doc: "A token from the `k` likeliest; the temperature is divided by the config's scale.",
        lower: |e, a| sample(e, a, SampleMethod::TopK),
    },
    Builtin {
        name: "sample_greedy",
        params: "logits, vocab",
        doc: "The token of the largest logit.",
        lower: |e, a| sample(e, a, SampleMethod::Greedy),
    },
];

/// `io.…`
pub static IO: &[Builtin] = &[
    Builtin {
        name: "bpe_encode",
        params: "input, seq, vocab",
        doc: "The ids of the prompt: `[S]`.",
        lower: |e, a| match e.deref(a.value(0).clone()) {
            Value::Tri(TriValue::Input) => Ok(Value::Tokens),
            other => Err(e.mismatch(&other, "the prompt", a.at(0))),
        },
    },
    Builtin {
        name: "bpe_decode",
        params: "token, output",
        doc: "Writes the text of a token to the output.",
        lower: bpe_decode,
    },
    Builtin {
        name: "write_token",
        params: "id",
        doc: "Writes a token into the prompt that a chat function builds.",
        lower: |e, a| {
            let id = a.int(e, 0)?;
            let id = u32::try_from(id).map_err(|_| a.wrong(0, format!("{id} is no token id")))?;
            e.write_chat(ChatPiece::Token(id), a.span)
        },
    },
    Builtin {
        name: "write_string",
        params: "text",
        doc: "Writes a text into the prompt that a chat function builds.",
        lower: |e, a| {
            let text = a.text(e, 0)?;
            e.write_chat(ChatPiece::Text(text.to_string()), a.span)
        },
    },
];

/// `convert.…`
pub static CONVERT: &[Builtin] = &[
    Builtin { name: "as_field", params: "x", doc: "`x`.", lower: |_, a| Ok(a.value(0).clone()) },
    Builtin { name: "as_u32", params: "x", doc: "`x`.", lower: |_, a| Ok(a.value(0).clone()) },
    Builtin { name: "as_bool", params: "x", doc: "`x`.", lower: |_, a| Ok(a.value(0).clone()) },
];

/// What a chat function writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatPiece {
    /// A token.
    Token(u32),
    /// A text.
    Text(String),
}

impl Evaluator<'_> {
    /// Whether a loop may walk over layers.
    pub(crate) fn walks_layers(&self, walked: &Walk, pattern: &Pattern) -> bool {
        let range = matches!(walked, Walk::Range(..)) && matches!(pattern.kind, PatternKind::Bind { .. });
        self.tree.language == Language::Tri && range && self.build.is_some()
    }

    /// Begins a loop over layers.
    pub(crate) fn enter_layers(&mut self) {
        if let Some(build) = &mut self.build {
            build.roles.layers.push(Layer { number: 0, norms: 0 });
        }
    }

    /// Begins the body of a layer.
    pub(crate) fn set_layer(&mut self, number: i128) {
        if let Some(layer) = self.build.as_mut().and_then(|b| b.roles.layers.last_mut()) {
            *layer = Layer { number, norms: 0 };
        }
    }

    /// Ends a loop over layers.
    pub(crate) fn leave_layers(&mut self) {
        if let Some(build) = &mut self.build {
            build.roles.layers.pop();
            build.roles.final_norm = false;
        }
    }

    /// Errors about matrix products that nothing takes.
    pub(crate) fn check_roles(&mut self) {
        let Some(build) = &self.build else { return };
        let idle: Vec<Span> = build.roles.pending.iter().filter(|p| p.role.is_none()).map(|p| p.span).collect();
        for span in idle {
            let d = Diagnostic::new(
                Code::Role,
                span,
                "this matrix product feeds no attention, so its weight cannot be told",
            );
            self.report(
                d.label("query, key or value?")
                    .help("give it to `tensor.flash_attention` as its first, second or third argument"),
            );
        }
    }

    /// The value of a matrix product once its role is known.
    fn project(&mut self, value: &Value, role: &'static str, at: Span) -> Eval<(Node, usize)> {
        let Value::Pending(number) = value else {
            let d = Diagnostic::new(
                Code::Role,
                at,
                format!("attention takes products of `tensor.matvec`, found {}", value.kind()),
            );
            return Err(d.help(format!("make the {} by `tensor.matvec(h, layer, out, in)`", role_name(role))).into());
        };
        let spec = self.decoder_roles(at)?;
        let build = self.build(at)?;
        let pending = build.roles.pending[*number].clone();
        match pending.role {
            Some(other) if other != role => {
                let d = Diagnostic::new(
                    Code::Role,
                    at,
                    format!("this matrix product is used as {} and as {}", role_name(other), role_name(role)),
                );
                return Err(d.related(pending.span, "made here").into());
            }
            Some(_) => {
                let d = Diagnostic::new(Code::Role, at, "this matrix product feeds two attentions");
                return Err(d.related(pending.span, "made here").into());
            }
            None => build.roles.pending[*number].role = Some(role),
        }
        let part = match role {
            "q" => spec.names.q,
            "k" => spec.names.k,
            _ => spec.names.v,
        };
        let name = format!("{}.weight", spec.names.in_layer(pending.layer, part));
        let node = self.matmul_by_name(pending.x, &name, pending.out, true, pending.span, pending.span)?;
        self.build(at)?.graph.name(node, format!("layer{}.{role}", pending.layer));
        Ok((node, pending.layer))
    }

    /// Work on the graph by the families' own parts.
    pub(super) fn parts(
        &mut self,
        operands: &[Node],
        span: Span,
        work: impl FnOnce(&mut tallow_ir::Graph) -> Result<Node, IrError>,
    ) -> Eval<Node> {
        let build = self.build(span)?;
        let before = build.graph.node_bound();
        let result = work(&mut build.graph);
        self.place_nodes(before, span);
        result.map_err(|error| self.rule(error, operands, span))
    }

    /// A norm by the name of its weight.
    pub(super) fn norm_by_name(
        &mut self,
        spec: &DecoderSpec,
        x: Node,
        name: &str,
        eps: Option<f32>,
        span: Span,
    ) -> Eval<Node> {
        let width = self.width(x, span)?;
        let weight = self.weight(&format!("{name}.weight"), Some(&[width]), span)?;
        let Norm::Rms { eps: own, .. } = spec.norm else { return Err(no_role(spec, "layer norms", span).into()) };
        self.parts(&[x, weight], span, |graph| {
            let gain = decoder::gain(graph, spec, weight)?;
            graph.op(Op::RmsNorm { eps: eps.unwrap_or(own).into() }, &[x, gain])
        })
    }

    /// What a branch goes through before it is added to the residual stream.
    pub(super) fn branch_end(
        &mut self,
        spec: &DecoderSpec,
        branch: Node,
        norm: &str,
        layer: usize,
        span: Span,
    ) -> Eval<Node> {
        let branch = match spec.places {
            NormPlaces::Around | NormPlaces::After => {
                self.norm_by_name(spec, branch, &spec.names.in_layer(layer, norm), None, span)?
            }
            NormPlaces::Before | NormPlaces::Parallel | NormPlaces::ParallelNorms => branch,
        };
        self.parts(&[branch], span, |graph| decoder::scaled(graph, branch, spec.residual_scale))
    }

    /// The residual stream that a value carries.
    fn stream(&mut self, h: Node, span: Span) -> Eval<Node> {
        Ok(self.build(span)?.roles.streams.get(&h).copied().unwrap_or(h))
    }

    fn write_chat(&mut self, piece: ChatPiece, span: Span) -> Eval {
        match self.run.as_mut().and_then(|run| run.chat.as_mut()) {
            Some(pieces) => {
                pieces.push(piece);
                Ok(Value::Unit)
            }
            None => {
                let d = Diagnostic::new(Code::NoResult, span, "text is written here, and this is no chat function");
                Err(d.help("a function whose first parameter is `&[Message]` builds a prompt").into())
            }
        }
    }
}

fn role_name(role: &str) -> &'static str {
    match role {
        "q" => "queries",
        "k" => "keys",
        _ => "values",
    }
}

fn embed(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let ids = a.tensor(e, 0)?;
    let (hidden, vocab) = (i64::from(a.count(e, 2)?), i64::from(a.count(e, 3)?));
    let spec = e.decoder_roles(a.span)?;
    let table = e.weight(&spec.embedding.tensor, Some(&[vocab, hidden]), a.span)?;
    let rows = e.op(Op::TokenEmbed, &[ids, table], a.span)?;
    Ok(Value::Tensor(e.parts(&[rows], a.span, |graph| decoder::scaled(graph, rows, spec.embedding.scale))?))
}

/// An error where argument `i`, a width that the call names, is not that of the rows.
fn check_width(e: &mut Evaluator<'_>, a: &Args, i: usize, rows: Node) -> Eval<()> {
    let (named, width) = (i64::from(a.count(e, i)?), e.width(rows, a.at(0))?);
    if named == width {
        return Ok(());
    }
    let d = Diagnostic::new(Code::Shape, a.at(i), format!("the rows have {width} columns, and {named} is said here"));
    Err(d.label("another width").into())
}

fn rmsnorm(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let h = a.tensor(e, 0)?;
    check_width(e, a, 2, h)?;
    let eps = a.epsilon(e, 3, 1e-6)?;
    let spec = e.decoder_roles(a.span)?;
    let roles = &mut e.build(a.span)?.roles;
    let name = match roles.layers.last_mut() {
        Some(layer) => {
            layer.norms += 1;
            let part = match layer.norms {
                1 => spec.names.attention_norm,
                2 => spec.names.feed_forward_norm,
                _ => {
                    let d =
                        Diagnostic::new(Code::LayerBody, a.span, "this is the third norm of a layer, which has two");
                    return Err(d
                        .label("which weight?")
                        .help("a layer has one norm before attention and one before the feed-forward")
                        .into());
                }
            };
            let number = usize::try_from(layer.number).unwrap_or(usize::MAX);
            spec.names.in_layer(number, part)
        }
        None => {
            roles.final_norm = true;
            format!("{}{}", spec.names.prefix, spec.names.final_norm)
        }
    };
    let y = e.norm_by_name(&spec, h, &name, Some(eps), a.span)?;
    e.build(a.span)?.roles.streams.insert(y, h);
    Ok(Value::Tensor(y))
}

fn matvec(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let x = a.tensor(e, 0)?;
    let layer = usize::try_from(a.int(e, 1)?).map_err(|_| a.wrong(1, "a layer is counted from 0"))?;
    let out = i64::from(a.count(e, 2)?);
    let within = i64::from(a.count(e, 3)?);
    let width = e.width(x, a.at(0))?;
    if width != within {
        let d = Diagnostic::new(Code::Shape, a.at(3), format!("the rows have {width} columns, and `in` is {within}"));
        return Err(d.into());
    }
    let roles = &mut e.build(a.span)?.roles;
    roles.pending.push(Pending { x, layer, out, span: a.span, role: None });
    Ok(Value::Pending(roles.pending.len() - 1))
}

fn flash_attention(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let count = HeadCount { heads: a.count(e, 3)?, kv_heads: a.count(e, 4)?, head_dim: a.count(e, 5)? };
    let (q, layer) = e.project(a.value(0), "q", a.at(0))?;
    let (k, k_layer) = e.project(a.value(1), "k", a.at(1))?;
    let (v, v_layer) = e.project(a.value(2), "v", a.at(2))?;
    if layer != k_layer || layer != v_layer {
        let message = format!("queries of layer {layer}, keys of layer {k_layer}, values of layer {v_layer}");
        return Err(Diagnostic::new(Code::Layer, a.span, message)
            .help("give the same layer to the three `tensor.matvec` whose results meet here")
            .into());
    }
    let spec = e.decoder_roles(a.span)?;
    let mixed = e.flash_attention([q, k, v], count, Some(layer), a.span)?;
    let name = format!("{}.weight", spec.names.in_layer(layer, spec.names.out));
    let y = e.matmul_by_name(mixed, &name, spec.hidden.into(), true, a.span, a.span)?;
    Ok(Value::Tensor(e.branch_end(&spec, y, spec.names.attention_post_norm, layer, a.span)?))
}

fn residual_add(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (h, x) = (a.tensor(e, 0)?, a.tensor(e, 1)?);
    check_width(e, a, 2, h)?;
    let stream = e.stream(h, a.span)?;
    Ok(Value::Tensor(e.op(Op::Add, &[stream, x], a.span)?))
}

fn swiglu(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let h = a.tensor(e, 0)?;
    let layer = usize::try_from(a.int(e, 1)?).map_err(|_| a.wrong(1, "a layer is counted from 0"))?;
    let (inner, hidden) = (i64::from(a.count(e, 2)?), i64::from(a.count(e, 3)?));
    let spec = e.decoder_roles(a.span)?;
    let name = |part: &str| format!("{}.weight", spec.names.in_layer(layer, part));
    let gate = e.matmul_by_name(h, &name(spec.names.gate), inner, true, a.span, a.span)?;
    let up = e.matmul_by_name(h, &name(spec.names.up), inner, true, a.span, a.span)?;
    let activation: Activation = spec.feed_forward.activation;
    let y = e.parts(&[gate, up], a.span, |graph| decoder::gated(graph, gate, up, activation))?;
    let down = e.matmul_by_name(y, &name(spec.names.down), hidden, true, a.span, a.span)?;
    let branch = e.branch_end(&spec, down, spec.names.feed_forward_post_norm, layer, a.span)?;
    let stream = e.stream(h, a.span)?;
    Ok(Value::Tensor(e.op(Op::Add, &[stream, branch], a.span)?))
}

fn linear(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let mut h = a.tensor(e, 0)?;
    let (vocab, hidden) = (i64::from(a.count(e, 1)?), i64::from(a.count(e, 2)?));
    let spec = e.decoder_roles(a.span)?;
    if !e.build(a.span)?.roles.final_norm {
        let name = format!("{}{}", spec.names.prefix, spec.names.final_norm);
        h = e.norm_by_name(&spec, h, &name, None, a.span)?;
    }
    e.weight(&spec.head.tensor, Some(&[vocab, hidden]), a.span)?;
    Ok(Value::Tensor(logits(e, &spec, h, a.span)?))
}

/// The output matrix, or the tied table, with the multiplier and bound of the config.
pub(super) fn logits(e: &mut Evaluator<'_>, spec: &DecoderSpec, h: Node, span: Span) -> Eval<Node> {
    let shape = [i64::from(spec.vocab), i64::from(spec.hidden)];
    let head = e.weight(&spec.head.tensor, Some(&shape), span)?;
    let raw = e.op(Op::Matmul, &[h, head], span)?;
    e.parts(&[raw], span, |graph| {
        let scaled = decoder::scaled(graph, raw, spec.head.scale)?;
        decoder::soft_capped(graph, scaled, spec.head.softcap)
    })
}

fn sample(e: &mut Evaluator<'_>, a: &Args, method: SampleMethod) -> Eval {
    let logits = a.tensor(e, 0)?;
    check_width(e, a, 1, logits)?;
    let scale = e.sampling_scale();
    let how = match method {
        SampleMethod::TopP => Sampling { method, temperature: a.float(e, 3)? / scale, p: a.float(e, 2)? / scale, k: 0 },
        SampleMethod::TopK => {
            Sampling { method, temperature: a.float(e, 3)? / scale, p: 1.0, k: a.natural_or(e, 2, 0)? }
        }
        _ => Sampling { method: SampleMethod::Greedy, temperature: 0.0, p: 1.0, k: 0 },
    };
    e.note_sampled(logits, how, a.span)
}

fn bpe_decode(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    match e.deref(a.value(1).clone()) {
        Value::Tri(TriValue::Output) => {}
        other => return Err(e.mismatch(&other, "the text sink", a.at(1))),
    }
    match e.deref(a.value(0).clone()) {
        Value::Sampled(sampled) => {
            let build = e.build(a.span)?;
            build.decoded = Some(sampled);
            Ok(Value::Unit)
        }
        Value::Generated => Ok(Value::Unit),
        other => Err(e.mismatch(&other, "a sampled token", a.at(0))),
    }
}
