//! Constant folding: operations on constants, and sizes that are known, become constants.

use crate::body::Body;
use crate::patch::Patch;
use crate::pipeline::{Context, Rule};
use tallow_ir::{Effect, Literal, NodeId, Op, TensorType, Value};

/// The most elements of a constant that a fold makes: a table that is computed fast is no smaller for being written out.
const MOST_ELEMENTS: u64 = 4096;
const WHAT: &str = "constant";

/// The pass.
pub(in crate::passes) struct Constants;

impl Rule for Constants {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let op = body.op(at)?;
        if matches!(op, Op::Constant { .. }) || op.info().effect != Effect::Pure {
            return None;
        }
        let results = match op {
            Op::Size { axis } => vec![size(body, at, *axis)?],
            Op::Iota { .. } => vec![(0..elements(body.types(at).first()?)?).map(|n| n as f32).collect()],
            _ => return folded(body, at, op, cx),
        };
        patch(body, at, op, &results, cx)
    }
}

/// The known size of a dimension.
fn size(body: &Body, at: NodeId, axis: i32) -> Option<Vec<f32>> {
    let dims = body.ty(body.operand(at, 0)?).shape.dims();
    let axis = if axis < 0 { i64::from(axis) + dims.len() as i64 } else { i64::from(axis) };
    let size = dims.get(usize::try_from(axis).ok()?)?.as_const()?;
    Some(vec![size as f32])
}

/// An operation whose operands are all constants.
fn folded(body: &Body, at: NodeId, op: &Op, cx: &mut Context<'_>) -> Option<Patch> {
    let operands = body.operands(at);
    if operands.is_empty() {
        return None;
    }
    let constants: Vec<&Op> = operands.iter().map(|&v| constant(body, v)).collect::<Option<_>>()?;
    if body.types(at).iter().any(|ty| elements(ty).is_none_or(|n| n > MOST_ELEMENTS)) {
        let types: Vec<String> = body.types(at).iter().map(ToString::to_string).collect();
        cx.missed(at, WHAT, format!("{} would hold more than {MOST_ELEMENTS} elements", types.join(", ")));
        return None;
    }
    let Some(evaluate) = cx.evaluate else {
        cx.missed(at, WHAT, "nothing here computes constants");
        return None;
    };
    let literals: Vec<Literal> =
        operands.iter().zip(constants).map(|(&v, op)| literal(body.ty(v), op)).collect::<Option<_>>()?;
    let Some(results) = evaluate.evaluate(op, &literals) else {
        cx.missed(at, WHAT, format!("{} of these values is an error, or no number that a graph can hold", op.name()));
        return None;
    };
    let values: Vec<Vec<f32>> = results.into_iter().map(|l| l.values).collect();
    patch(body, at, op, &values, cx)
}

fn patch(body: &Body, at: NodeId, op: &Op, results: &[Vec<f32>], cx: &mut Context<'_>) -> Option<Patch> {
    let mut patch = Patch::new(format!("{} as a constant", op.name()));
    for (value, values) in body.results(at).zip(results) {
        let ty = body.ty(value);
        if values.len() as u64 > MOST_ELEMENTS {
            return None;
        }
        if values.iter().any(|v| v.is_nan()) {
            cx.missed(at, WHAT, "the result is not a number");
            return None;
        }
        let first = values.first().copied();
        let same = first.filter(|f| values.iter().all(|v| v.to_bits() == f.to_bits()));
        let values = match same {
            Some(value) => vec![value.into()],
            None => values.iter().map(|&v| v.into()).collect(),
        };
        let shape = ty.shape.dims().iter().map(|d| d.as_const()).collect::<Option<Vec<i64>>>()?;
        match patch.op(body, Op::Constant { dtype: ty.dtype, shape, values }, &[]) {
            Ok(new) => patch.replace(value, new),
            Err(why) => {
                cx.missed(at, WHAT, why.to_string());
                return None;
            }
        }
    }
    Some(patch)
}

fn constant(body: &Body, value: Value) -> Option<&Op> {
    match body.maker(value)? {
        (_, op @ Op::Constant { .. }) => Some(op),
        _ => None,
    }
}

fn literal(ty: &TensorType, op: &Op) -> Option<Literal> {
    let Op::Constant { values, .. } = op else { return None };
    let count = usize::try_from(elements(ty)?).ok().filter(|&n| n as u64 <= MOST_ELEMENTS)?;
    let values = match values.as_slice() {
        [one] => vec![one.get(); count],
        many => many.iter().map(|v| v.get()).collect(),
    };
    Some(Literal { ty: ty.clone(), values })
}

/// The number of elements, where it is known.
fn elements(ty: &TensorType) -> Option<u64> {
    u64::try_from(ty.shape.elements()?.as_const()?).ok()
}
