//! Sound and speech.

use super::{Args, Builtin};
use crate::program::ast::Span;
use crate::program::build::is_float;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator};
use crate::program::value::Value;
use tallow_ir::ops::{Comparison, MelLog, MelScale, Reduction};
use tallow_ir::{DType, Dim, Op, Value as Node};

/// The methods.
pub static METHODS: &[Builtin] = &[
    Builtin {
        name: "expand_by_durations",
        params: "durations",
        doc: "Each row repeated as often as its duration says: rows `[T, D]` → `[F, D]`, columns `[N, D, T]` → `[N, D, F]`, for whole durations `[T]` of at least 0, whose sum F is known only when running. Two calls with the same durations give one size.",
        lower: expand_by_durations,
    },
    Builtin {
        name: "affine_coupling_inverse",
        params: "mean, log_scale",
        doc: "`(x - mean) · exp(-log_scale)`, the inverse of `x · exp(log_scale) + mean`; all three broadcast.",
        lower: |e, a| {
            let (x, mean, log_scale) = (a.this(e)?, a.tensor(e, 0)?, a.tensor(e, 1)?);
            let off = e.op(Op::Sub, &[x, mean], a.span)?;
            let minus = e.op(Op::Neg, &[log_scale], a.span)?;
            let factor = e.op(Op::Exp, &[minus], a.span)?;
            Ok(Value::Tensor(e.op(Op::Mul, &[off, factor], a.span)?))
        },
    },
];

/// The functions.
pub static FUNCTIONS: &[Builtin] = &[Builtin {
    name: "mel_spectrogram",
    params: "samples, bands[, sample_rate, fft, hop, low, high, scale, log]",
    doc: "Mel spectrogram of `[N]` or `[B, N]` samples: `[bands, N/hop]` or `[B, bands, N/hop]`. As whisper has it unless told otherwise: sample_rate 16000, fft 400, hop 160, frequencies from 0 to half of sample_rate, scale \"slaney\" (or \"htk\"), log \"whisper\" (or \"natural\", or \"none\" for powers).",
    lower: mel_spectrogram,
}];

fn mel_spectrogram(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let samples = e.operand(a.value(0), &[None], a.at(0))?;
    let ty = e.ty(samples);
    if !(1..=2).contains(&ty.shape.rank()) {
        let d = Diagnostic::new(Code::Rank, a.at(0), "samples are `[N]` or `[B, N]`");
        return Err(d.label(format!("this is {ty}")).into());
    }
    let mels = a.count(e, 1)?;
    let sample_rate = a.count_or(e, 2, 16_000)?;
    let fft = a.count_or(e, 3, 400)?;
    let hop = a.count_or(e, 4, 160)?;
    let low = a.float_or(e, 5, 0.0)? as f32;
    let high = a.float_or(e, 6, f64::from(sample_rate) / 2.0)? as f32;
    let scale = named(e, a, 7, MelScale::Slaney, &[("slaney", MelScale::Slaney), ("htk", MelScale::Htk)])?;
    let logs = [("whisper", MelLog::Whisper), ("natural", MelLog::Natural), ("none", MelLog::Power)];
    let log = named(e, a, 8, MelLog::Whisper, &logs)?;
    let op = Op::LogMel { sample_rate, fft, hop, mels, low: low.into(), high: high.into(), scale, log };
    Ok(Value::Tensor(e.op(op, &[samples], a.span)?))
}

/// Argument `i`, one of several names; the default where it is not given.
fn named<T: Copy>(e: &Evaluator<'_>, a: &Args, i: usize, default: T, known: &[(&str, T)]) -> Eval<T> {
    if !a.has(i) {
        return Ok(default);
    }
    let name = a.text(e, i)?;
    match known.iter().find(|(n, _)| *n == &*name) {
        Some((_, value)) => Ok(*value),
        None => {
            let names: Vec<String> = known.iter().map(|(n, _)| format!("\"{n}\"")).collect();
            Err(a.wrong(i, format!("expected {}, found \"{name}\"", names.join(" or "))))
        }
    }
}

fn expand_by_durations(e: &mut Evaluator<'_>, a: &Args) -> Eval {
    let (x, durations) = (a.this(e)?, a.tensor(e, 0)?);
    let (ty, counts) = (e.ty(x), e.ty(durations));
    let axis = match ty.shape.rank() {
        2 => 0,
        3 => 2,
        _ => {
            let at = a.receiver.as_ref().map_or(a.span, |(_, span)| *span);
            let d = Diagnostic::new(Code::Rank, at, "expected rows `[T, D]` or columns `[N, D, T]`");
            return Err(d.label(format!("this is {ty}")).into());
        }
    };
    let rows = &ty.shape.dims()[axis];
    if counts.shape.dims() != [rows.clone()] || counts.dtype == DType::Bool {
        let d = Diagnostic::new(
            Code::Shape,
            a.at(0),
            format!("durations are {counts}, and {rows} of them are needed: `[{rows}]`"),
        );
        let d = d.label(format!("what is repeated is {ty}"));
        return Err(d.help("`durations.reshape([-1])` drops dimensions of 1").into());
    }
    let index = match e.build(a.span)?.expansions.get(&durations) {
        Some(&index) => index,
        None => {
            let index = row_of_each_frame(e, durations, a.span)?;
            e.build(a.span)?.expansions.insert(durations, index);
            index
        }
    };
    Ok(Value::Tensor(e.op(Op::Gather { axis: axis as i32 }, &[x, index], a.span)?))
}

/// The number of the row that each frame comes from, i64 `[F]`: how many rows have ended by then.
fn row_of_each_frame(e: &mut Evaluator<'_>, durations: Node, span: Span) -> Eval<Node> {
    let sum = |axes: Vec<i64>| Op::Reduce { how: Reduction::Sum, axes, keep: false };
    let mut counts = durations;
    if is_float(e.ty(counts).dtype) {
        counts = e.op(Op::Cast { dtype: DType::I64 }, &[counts], span)?;
    }
    let total = e.op(sum(Vec::new()), &[counts], span)?;
    let frames = numbers_below(e, total, span)?;
    let ends = e.op(Op::CumSum { axis: 0 }, &[counts], span)?;
    let column = e.op(Op::Unsqueeze { axes: vec![1] }, &[frames], span)?;
    let ended = e.op(Op::Compare { how: Comparison::LessEqual }, &[ends, column], span)?;
    // As f32, which takes half the memory of i64: a count of rows is exact in both.
    let ended = e.op(Op::Cast { dtype: DType::F32 }, &[ended], span)?;
    let row = e.op(sum(vec![1]), &[ended], span)?;
    e.op(Op::Cast { dtype: DType::I64 }, &[row], span)
}

/// 0, 1, 2 … as many as a number says that only running tells. An attention bias has the size that its operand says;
/// what it holds does not matter.
fn numbers_below(e: &mut Evaluator<'_>, count: Node, span: Span) -> Eval<Node> {
    const BUCKETS: u32 = 4;
    let one = e.filled(DType::I64, &[], vec![1.0], span)?;
    let table = e.full_of(DType::F32, &[Dim::constant(BUCKETS.into()), Dim::constant(1)], 0.0, span)?;
    let bias = e.op(Op::RelativePosEmbedding { buckets: BUCKETS }, &[one, count, table], span)?;
    e.op(Op::Iota { axis: 2 }, &[bias], span)
}
