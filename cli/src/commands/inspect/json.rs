//! The facts as one JSON object.

use super::facts::{Facts, ModelFacts, PathFacts, Port, Signature, TokenizerFacts};
use crate::commands::tools::hash;
use serde_json::{Map, Value, json};
use tallow::format::{ChatSection, Container, FormatError, SamplingConfig};

/// Every fact; tensors one by one where `tensors` says so.
pub fn object(facts: &Facts, problem: Option<&FormatError>, tensors: bool) -> Value {
    let container = facts.container();
    let mut value = json!({
        "file": container.label(),
        "bytes": container.bytes().len(),
        "name": container.name(),
        "types": container.types(),
        "format_version": facts.format_version,
        "sections": sections(container),
        "card": facts.card(),
        "model": facts.model.as_ref().map(|m| model(m, facts)),
        "problem": problem.map(ToString::to_string),
        "warnings": facts.warnings,
    });
    if tensors {
        value["tensors"] = facts
            .tensors()
            .map(|t| json!({ "name": t.name, "shape": t.shape, "encoding": t.encoding.name(), "offset": t.offset, "bytes": t.size }))
            .collect();
    }
    if let Some(digests) = &facts.digests {
        for (name, digest) in hash::lines(digests) {
            value[name] = json!(digest);
        }
    }
    value
}

fn sections(container: &Container) -> Value {
    let section = |e: &tallow::format::Entry| {
        json!({
            "name": e.name,
            "format": e.format,
            "type": e.kind,
            "offset": e.range.start,
            "bytes": e.range.len(),
            "binary": e.size.is_some(),
        })
    };
    container.entries().iter().map(section).collect()
}

fn model(model: &ModelFacts, facts: &Facts) -> Value {
    let encoding = |e: &super::facts::EncodingFacts| {
        json!({
            "encoding": e.encoding.name(),
            "tensors": e.tensors,
            "values": e.values,
            "bytes": e.bytes,
            "bits_per_weight": e.bits(),
        })
    };
    json!({
        "model_type": model.config.get("model_type"),
        "parameters": model.parameters,
        "config": model.config,
        "encodings": model.encodings.iter().map(encoding).collect::<Vec<_>>(),
        "sampling": or_error(&model.sampling, sampling),
        "tokenizer": or_error(&model.tokenizer, tokenizer),
        "chat": facts.chat().map(chat),
        "scores": model.scores.iter().cloned().collect::<Map<_, _>>(),
        "benchmarks": model.benchmarks,
        "paths": {
            "graph": path(&model.graph),
            "family": family(model),
            "program": program(model),
        },
        "signature": model.signature.as_ref().ok().map(signature),
        "no_signature": model.signature.as_ref().err(),
    })
}

/// A value, or the reason why there is none.
fn or_error<T>(result: &Result<T, String>, show: impl Fn(&T) -> Value) -> Value {
    match result {
        Ok(value) => show(value),
        Err(error) => json!({ "error": error }),
    }
}

fn sampling(s: &SamplingConfig) -> Value {
    json!({
        "temperature": decimal(s.temperature),
        "top_p": decimal(s.top_p),
        "top_k": s.top_k,
        "min_p": decimal(s.min_p),
        "repetition_penalty": decimal(s.repetition_penalty),
    })
}

/// The shortest number that reads as this f32: 0.7, not 0.699999988079071.
fn decimal(x: f32) -> f64 {
    x.to_string().parse().unwrap_or_else(|_| f64::from(x))
}

fn tokenizer(t: &TokenizerFacts) -> Value {
    json!({
        "type": t.kind,
        "tokens": t.counts.as_ref().map(|c| c.tokens),
        "merges": t.counts.as_ref().map(|c| c.merges),
        "verbatim_tokens": t.counts.as_ref().map(|c| c.verbatim),
        "bos_id": t.bos,
        "end_ids": t.end,
        "pad_id": t.pad,
    })
}

fn chat(chat: &ChatSection) -> Value {
    json!({
        "format": chat.format.map(|f| f.name()),
        "template": chat.template,
        "system_default": chat.system_default,
        "eos_sequences": chat.eos_sequences,
    })
}

fn path(path: &PathFacts) -> Value {
    match path {
        PathFacts::Absent => Value::Null,
        PathFacts::Ready { nodes, notes } => json!({ "runs": true, "nodes": nodes, "notes": notes }),
        PathFacts::Fails { why, unsupported } => json!({ "runs": false, "why": why, "unsupported": unsupported }),
    }
}

fn family(model: &ModelFacts) -> Value {
    let mut value = path(&model.family);
    value["type"] = json!(model.family_type);
    value
}

fn program(model: &ModelFacts) -> Value {
    let mut value = path(&model.program);
    if let Some((format, bytes)) = model.program_text {
        value["format"] = json!(format.name());
        value["bytes"] = json!(bytes);
    }
    value
}

fn signature(s: &Signature) -> Value {
    let mut value = json!({
        "path": s.path,
        "default": s.by_default,
        "nodes": s.nodes,
        "operations": s.operations,
        "weights": s.weights,
        "caches": s.caches,
        "inputs": ports(&s.inputs, true),
        "outputs": ports(&s.outputs, false),
    });
    if !s.first.is_empty() {
        value["first_inputs"] = ports(&s.first, true);
    }
    value
}

/// Inputs or outputs by name, in order. A dimension is a number, or a text where it has symbols.
fn ports(all: &[Port], inputs: bool) -> Value {
    let one = |port: &Port| {
        let dims = port.ty.shape.dims().iter();
        let shape: Vec<Value> = dims.map(|d| d.as_const().map_or_else(|| json!(d.to_string()), |n| json!(n))).collect();
        let mut value = json!({ "dtype": port.ty.dtype.name(), "shape": shape });
        if inputs {
            value["injected"] = json!(port.injected);
        }
        (port.name.clone(), value)
    };
    Value::Object(all.iter().map(one).collect())
}
