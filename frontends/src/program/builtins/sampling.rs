//! Sampling, and the tokenizer.

use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::build::Sampled;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::host::{HostNode, Leaf};
use crate::program::module::Sampling;
use crate::program::value::Value;
use tallow_ir::Value as Node;
use tallow_ir::ops::SampleMethod;

/// Methods of logits.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "sample_greedy",
        params: "",
        doc: "The token of the largest logit; the lowest of equal ones.",
        lower: |e, a| sample(e, a, SampleMethod::Greedy),
    },
    Builtin {
        name: "sample_top_p",
        params: "p, temperature[, scale]",
        doc: "A token from the likeliest that together reach the probability `p`; both numbers are divided by `scale`, else by the config's. Temperature 0 is greedy.",
        lower: |e, a| sample(e, a, SampleMethod::TopP),
    },
    Builtin {
        name: "sample_top_k",
        params: "k, temperature[, scale]",
        doc: "A token from the `k` likeliest; the temperature is divided by `scale`, else by the config's.",
        lower: |e, a| sample(e, a, SampleMethod::TopK),
    },
    Builtin {
        name: "sample_min_p",
        params: "p, temperature[, scale]",
        doc: "A token from those at least `p` times as likely as the likeliest; both numbers are divided by `scale`, else by the config's.",
        lower: |e, a| sample(e, a, SampleMethod::MinP),
    },
    Builtin {
        name: "sample_temperature",
        params: "temperature[, scale]",
        doc: "A token from the softmax of `logits / temperature`, which is divided by `scale`, else by the config's.",
        lower: |e, a| sample(e, a, SampleMethod::Temperature),
    },
];

/// Methods of the tokenizer.
pub static TOKENIZER: &[Builtin] = &[
    Builtin {
        name: "encode",
        params: "text",
        doc: "The ids of the text input, with the tokens that the model puts around a text: `[S]`.",
        lower: encode,
    },
    Builtin {
        name: "decode",
        params: "tokens",
        doc: "The text of a sampled token or of generated ones: the output of the program.",
        lower: decode,
    },
];

fn sample(e: &mut Evaluator<'_>, a: &Args, method: SampleMethod) -> Eval {
    let logits = a.this(e)?;
    let scale_at = match method {
        SampleMethod::Greedy => usize::MAX,
        SampleMethod::Temperature => 1,
        SampleMethod::TopK | SampleMethod::TopP | SampleMethod::MinP => 2,
    };
    let scale = if a.has(scale_at) { a.float(e, scale_at)? } else { e.sampling_scale() };
    if !(scale.is_finite() && scale > 0.0) {
        return Err(a.wrong(scale_at, format!("numbers are divided by the scale, which is {scale}")));
    }
    let how = match method {
        SampleMethod::Greedy => Sampling { method, temperature: 0.0, p: 1.0, k: 0 },
        SampleMethod::Temperature => Sampling { method, temperature: a.float(e, 0)? / scale, p: 1.0, k: 0 },
        SampleMethod::TopK => {
            Sampling { method, temperature: a.float(e, 1)? / scale, p: 1.0, k: a.natural_or(e, 0, 0)? }
        }
        SampleMethod::TopP | SampleMethod::MinP => {
            Sampling { method, temperature: a.float(e, 1)? / scale, p: a.float(e, 0)? / scale, k: 0 }
        }
    };
    e.note_sampled(logits, how, a.span)
}

impl Evaluator<'_> {
    /// A token sampled from logits; those of all positions where the program takes the last row of them.
    pub(crate) fn note_sampled(&mut self, logits: Node, how: Sampling, span: Span) -> Eval {
        check(&how, span)?;
        let build = self.build(span)?;
        let logits = all_rows(build, logits);
        build.sampled.push(Sampled { logits, how, node: None });
        Ok(Value::Sampled(build.sampled.len() - 1))
    }

    /// What sampling numbers are divided by, as the config says.
    pub(crate) fn sampling_scale(&self) -> f64 {
        let scale = || {
            let build = self.build.as_ref()?;
            build.config.root().table("sampling").ok()??.f64("scale").ok()?
        };
        scale().unwrap_or(1.0)
    }
}

fn check(how: &Sampling, span: Span) -> Eval<()> {
    let bad = |message: String| Flow::from(Diagnostic::new(Code::Type, span, message));
    if !(how.temperature.is_finite() && how.temperature >= 0.0) {
        return Err(bad(format!("the temperature is {}", how.temperature)));
    }
    if matches!(how.method, SampleMethod::TopP | SampleMethod::MinP) && !(how.p > 0.0 && how.p <= 1.0) {
        return Err(bad(format!(
            "the probability `p` is {}, and must lie above 0 and not above 1; check the scale",
            how.p
        )));
    }
    Ok(())
}

/// The logits of all positions, where `logits` are the last row of them and nothing else reads that row.
fn all_rows(build: &crate::program::build::Build<'_>, logits: Node) -> Node {
    build.last_rows.get(&logits).copied().unwrap_or(logits)
}

fn encode(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let value = e.deref(a.value(0).clone());
    match &value {
        Value::Host(id) => {
            let build = e.build(a.span)?;
            match &build.host[id.0 as usize] {
                HostNode::Leaf(Leaf::Text(_)) => Ok(Value::Tokens),
                _ => {
                    let d =
                        Diagnostic::new(Code::RunTimeValue, a.at(0), "`encode` takes the text input as it is given");
                    Err(d.help("put what belongs around a prompt into the `chat` section").into())
                }
            }
        }
        other => Err(e.mismatch(other, "the text input", a.at(0))),
    }
}

fn decode(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let value = e.deref(a.value(0).clone());
    let value = match &value {
        Value::List(items) if items.len() == 1 => items[0].clone(),
        _ => value,
    };
    match value {
        Value::Generated => Ok(Value::Decoded),
        Value::Sampled(sampled) => {
            let build = e.build(a.span)?;
            if build.decoded.is_some_and(|d| d != sampled) {
                return Err(Diagnostic::new(Code::Generation, a.span, "a second sampled token is decoded").into());
            }
            build.decoded = Some(sampled);
            Ok(Value::Decoded)
        }
        other => Err(e.mismatch(&other, "sampled or generated tokens", a.at(0))),
    }
}
