//! A report as JSON.

use super::measure::Measure;
use super::report::{Compared, Report, Suspect, Verdict};
use serde_json::{Value, json as object};

/// Numbers that JSON lacks are null.
pub(super) fn json(report: &Report) -> Value {
    object!({
        "version": 1,
        "reference": report.left,
        "against": report.right,
        "within": report.is_within(),
        "inputs": report.inputs.iter().map(|(name, shape)| object!({ "name": name, "shape": shape })).collect::<Vec<_>>(),
        "first": report.first,
        "worst": report.worst(10),
        "standing_out": report.standing_out(),
        "values": report.values.iter().map(compared).collect::<Vec<_>>(),
        "suspects": report.suspects.iter().map(suspect).collect::<Vec<_>>(),
        "unmatched": { "reference": report.unmatched.left, "against": report.unmatched.right },
        "unknown": report.unknown.iter().map(|(name, why)| object!({ "name": name, "reason": why })).collect::<Vec<_>>(),
    })
}

fn compared(value: &Compared) -> Value {
    let verdict = match &value.verdict {
        Verdict::Within => "within",
        Verdict::Beyond => "beyond",
        Verdict::NotFinite => "not finite",
        Verdict::Shape(_) => "shape",
    };
    let expected = match &value.verdict {
        Verdict::Shape(shape) => object!(shape),
        Verdict::Within | Verdict::Beyond | Verdict::NotFinite => Value::Null,
    };
    object!({
        "reference": value.left,
        "also": value.also,
        "value": value.right,
        "op": value.op,
        "shape": value.shape,
        "reference_shape": expected,
        "error": value.measure.as_ref().map(measure),
        "tolerance": value.tolerance,
        "far": value.far,
        "note": value.hint,
        "verdict": verdict,
    })
}

fn measure(m: &Measure) -> Value {
    object!({
        "max_abs": m.max_abs,
        "relative": m.relative,
        "cosine": m.cosine,
        "elements": m.elements,
        "differing": m.differing,
        "nan": m.nan,
        "infinite": m.infinite,
        "at": m.at,
    })
}

fn suspect(s: &Suspect) -> Value {
    let weights = s.weights.iter().map(|w| {
        object!({
            "name": w.name,
            "encodings": w.encodings.as_ref().map(|(left, right)| object!([left, right])),
            "values": w.values,
            "differing": w.differing,
            "first": w.first,
            "max_abs": w.max_abs,
        })
    });
    object!({
        "value": s.at,
        "statement": s.statement,
        "between": s.between,
        "weights": weights.collect::<Vec<_>>(),
    })
}
