//! Sampling, and the tokenizer.

use super::{Args, Builtin};
use crate::program::ast::{IntType, Name, Span};
use crate::program::build::{Masks, Sampled};
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::host::{Applied, HostNode, Leaf};
use crate::program::module::Sampling;
use crate::program::value::Value;
use tallow_ir::ops::SampleMethod;
use tallow_ir::{DType, NodeKind, Op, Value as Node};

/// Methods of logits.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "suppress",
        params: "ids",
        doc: "Logits in which these ids are −∞, so that sampling never takes them. Where a driver samples, it sees to that, and the graph gives logits as they are.",
        lower: |e, a| suppress(e, a, false),
    },
    Builtin {
        name: "suppress_first",
        params: "ids",
        doc: "Logits of which the driver never takes one of these ids as the first token that it generates. They can be sampled, and nothing else.",
        lower: |e, a| suppress(e, a, true),
    },
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
    Builtin {
        name: "id",
        params: "text",
        doc: "The id of the token whose text is exactly this, an option: nothing is normalised and nothing merged. The vocabulary is known only when running.",
        lower: id,
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
        SampleMethod::Greedy => Sampling::greedy(),
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
        let row = logits;
        let (logits, masks) = match build.masks.get(&logits) {
            Some((logits, masks)) => (*logits, masks.clone()),
            None => (logits, Masks::default()),
        };
        let logits = all_rows(build, logits);
        build.sampled.push(Sampled { logits, row, how, masks, span, node: None });
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

/// Logits as a driver samples them. The values with −∞ in them are dropped where nothing but a driver reads them.
fn suppress(e: &mut Evaluator<'_>, a: &Args, first: bool) -> Eval {
    let logits = a.this(e)?;
    let mut ids = Vec::new();
    for n in a.ints(e, 0)? {
        ids.push(u32::try_from(n).map_err(|_| a.wrong(0, format!("{n} is no token id")))?);
    }
    if ids.is_empty() {
        return Ok(Value::Tensor(logits));
    }
    let width = e.width(logits, a.span)?;
    if let Some(id) = ids.iter().find(|&&id| i64::from(id) >= width) {
        return Err(a.wrong(0, format!("{id} is no token: there are {width} logits")));
    }
    e.make(width as usize, a.span)?;
    let mut mask = vec![0.0; width as usize];
    if !first {
        ids.iter().for_each(|&id| mask[id as usize] = f32::NEG_INFINITY);
    }
    let mask = e.filled(DType::F32, &[width], mask, a.span)?;
    let masked = e.op(Op::Add, &[logits, mask], a.span)?;
    let build = e.build(a.span)?;
    let (under, mut masks) = match build.masks.get(&logits) {
        Some((under, masks)) => (*under, masks.clone()),
        None => (logits, Masks::default()),
    };
    let list = if first { &mut masks.first } else { &mut masks.always };
    list.extend(ids);
    list.sort_unstable();
    list.dedup();
    build.masks.insert(masked, (under, masks));
    Ok(Value::Tensor(masked))
}

fn id(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let text = e.deref(a.value(0).clone());
    if !matches!(text, Value::Str(_) | Value::Host(_)) {
        return Err(e.mismatch(&text, "the text of a token", a.at(0)));
    }
    let Some(run) = &e.run else {
        let name = Name { text: "id".into(), span: a.name };
        return e.apply_host(Applied::Method(name, Vec::new()), vec![Value::Tokenizer, text], a.span);
    };
    let (Some(vocabulary), Value::Str(text)) = (run.vocabulary, &text) else {
        let d = Diagnostic::new(Code::RunTimeValue, a.span, "there is no vocabulary to look this token up in");
        return Err(d.help("add a `vocab` section to the model").into());
    };
    Ok(match vocabulary(text) {
        Some(id) => Value::some(Value::typed(id.into(), IntType::U32)),
        None => Value::none(),
    })
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
    // The largest logit of a row, which is what greedy sampling takes.
    let value = match value {
        Value::Tensor(node) => match argmax_of(e, node) {
            Some(logits) => e.note_sampled(logits, Sampling::greedy(), a.span)?,
            None => value,
        },
        value => value,
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

/// The row of logits whose largest a value is the index of.
fn argmax_of(e: &Evaluator<'_>, node: Node) -> Option<Node> {
    let build = e.build.as_ref()?;
    match &build.graph.node(node.node).kind {
        NodeKind::Op(Op::Argmax { .. }) if e.dims(node).is_empty() => build.graph.operands(node.node).first().copied(),
        _ => None,
    }
}
