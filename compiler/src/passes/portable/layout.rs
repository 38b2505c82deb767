//! Algebra of moves: reshapes of reshapes, permutations of permutations, and what joins only what was cut.

use crate::body::Body;
use crate::patch::Patch;
use crate::pipeline::{Context, Rule};
use tallow_ir::{Dim, NodeId, Op, TensorType, Value};

/// The pass.
pub(in crate::passes) struct Layout;

impl Rule for Layout {
    fn visit(&self, body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
        let op = body.op(at)?;
        match op {
            op if op.is_view() => of_view(body, at, cx),
            Op::Transpose { perm: order } | Op::Permute { dims: order } => of_permutation(body, at, order, cx),
            Op::BatchMatmul { transpose_b } => of_product(body, at, *transpose_b),
            Op::Slice { axis, start, end } => of_slice(body, at, *axis, *start, *end),
            Op::Concat { axis } => of_concat(body, at, *axis),
            Op::Split { axis, .. } | Op::Chunk { axis, .. } => of_split(body, at, *axis),
            Op::Flip { axes } => match body.maker(body.operand(at, 0)?)? {
                (inner, Op::Flip { axes: before }) if axes == before => {
                    Some(Patch::of("Flip of Flip", result(at), body.operand(inner, 0)?))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn result(at: NodeId) -> Value {
    Value { node: at, port: 0 }
}

/// The `shape` of a Reshape that gives this type; `None` where more than one size is open, or a size is 0, so that an
/// open one could not be told.
fn reshape_to(ty: &TensorType) -> Option<Op> {
    let sizes: Vec<Option<i64>> = ty.shape.dims().iter().map(Dim::as_const).collect();
    let open = sizes.iter().filter(|s| s.is_none()).count();
    if open > 1 || (open == 1 && sizes.contains(&Some(0))) {
        return None;
    }
    Some(Op::Reshape { shape: sizes.into_iter().map(|s| s.unwrap_or(-1)).collect() })
}

/// A view of a view reads the first one's operand.
fn of_view(body: &Body, at: NodeId, cx: &mut Context<'_>) -> Option<Patch> {
    let (inner, before) = body.maker(body.operand(at, 0)?)?;
    if !before.is_view() {
        return None;
    }
    let source = body.operand(inner, 0)?;
    let ty = &body.types(at)[0];
    let label = format!("{} of {}", body.op(at)?.name(), before.name());
    if body.ty(source) == ty {
        return Some(Patch::of(label, result(at), source));
    }
    let Some(op) = reshape_to(ty) else {
        cx.missed(at, "view of a view", format!("{ty} has more than one open size, or one of 0"));
        return None;
    };
    let mut patch = Patch::new(label);
    let new = patch.op(body, op, &[source.into()]).ok()?;
    if patch.ty(body, new) != ty {
        cx.missed(at, "view of a view", format!("the sizes of {} give no {ty} at once", body.ty(source)));
        return None;
    }
    patch.replace(result(at), new);
    Some(patch)
}

fn of_permutation(body: &Body, at: NodeId, order: &[u32], cx: &mut Context<'_>) -> Option<Patch> {
    let x = body.operand(at, 0)?;
    let ty = &body.types(at)[0];
    if let Some((inner, Op::Transpose { perm: before } | Op::Permute { dims: before })) = body.maker(x) {
        let both: Vec<u32> = order.iter().map(|&d| before.get(d as usize).copied()).collect::<Option<_>>()?;
        let source = body.operand(inner, 0)?;
        let label = "permutation of a permutation";
        if both.iter().zip(0..).all(|(&d, at)| d == at) {
            return Some(Patch::of(label, result(at), source));
        }
        let mut patch = Patch::new(label);
        let new = patch.op(body, Op::Permute { dims: both }, &[source.into()]).ok()?;
        patch.replace(result(at), new);
        return Some(patch);
    }
    // Elements stay in order where only dimensions of size 1 move.
    let dims = body.ty(x).shape.dims();
    let wide = |&d: &u32| dims.get(d as usize).is_some_and(|d| d.as_const() != Some(1));
    let moved: Vec<u32> = order.iter().copied().filter(wide).collect();
    if order.iter().zip(0..).all(|(&d, at)| d == at) || !moved.is_sorted() {
        return None;
    }
    let Some(op) = reshape_to(ty) else {
        cx.missed(at, "permutation as a view", format!("{ty} has more than one open size"));
        return None;
    };
    let mut patch = Patch::new("permutation of sizes 1 as a view");
    let new = patch.op(body, op, &[x.into()]).ok()?;
    if patch.ty(body, new) != ty {
        cx.missed(at, "permutation as a view", format!("the sizes of {} give no {ty} at once", body.ty(x)));
        return None;
    }
    patch.replace(result(at), new);
    Some(patch)
}

/// A product with a transposed second operand.
fn of_product(body: &Body, at: NodeId, transpose_b: bool) -> Option<Patch> {
    let [a, b] = *body.operands(at) else { return None };
    let (inner, Op::Transpose { perm: order } | Op::Permute { dims: order }) = body.maker(b)? else { return None };
    let rank = order.len();
    let mut swapped: Vec<u32> = (0..rank as u32).collect();
    if rank < 2 {
        return None;
    }
    swapped.swap(rank - 1, rank - 2);
    if *order != swapped {
        return None;
    }
    let mut patch = Patch::new("transposition as part of the product");
    let source = body.operand(inner, 0)?;
    let new = patch.op(body, Op::BatchMatmul { transpose_b: !transpose_b }, &[a.into(), source.into()]).ok()?;
    patch.replace(result(at), new);
    Some(patch)
}

/// The bounds of a slice that are counted from the front.
fn bounds(start: i64, end: i64, size: Option<i64>) -> Option<(i64, i64)> {
    let from_front = |n: i64| match (n, size) {
        (i64::MAX, Some(size)) => Some(size),
        (n, Some(size)) if n < 0 => Some((n + size).max(0)),
        (n, Some(size)) => Some(n.min(size)),
        (n, None) => (n >= 0).then_some(n),
    };
    Some((from_front(start)?, from_front(end)?)).filter(|(a, b)| a <= b)
}

fn size_of(body: &Body, value: Value, axis: u32) -> Option<i64> {
    body.ty(value).shape.dims().get(axis as usize)?.as_const()
}

fn of_slice(body: &Body, at: NodeId, axis: u32, start: i64, end: i64) -> Option<Patch> {
    let x = body.operand(at, 0)?;
    match body.maker(x)? {
        (inner, &Op::Slice { axis: before, start: s, end: e }) if before == axis => {
            let source = body.operand(inner, 0)?;
            // What is beyond an end that is not known cannot be counted.
            let (s, _) = bounds(s, e, Some(size_of(body, source, axis)?))?;
            let (start, end) = bounds(start, end, Some(size_of(body, x, axis)?))?;
            let mut patch = Patch::new("Slice of Slice");
            let op = Op::Slice { axis, start: s + start, end: s + end };
            let new = patch.op(body, op, &[source.into()]).ok()?;
            patch.replace(result(at), new);
            Some(patch)
        }
        (inner, &Op::Concat { axis: joined }) if joined == axis => {
            let (start, end) = bounds(start, end, size_of(body, x, axis))?;
            let mut offset = 0;
            for &part in body.operands(inner) {
                let size = size_of(body, part, axis)?;
                if (start, end) == (offset, offset + size) {
                    return Some(Patch::of("Slice of one part of Concat", result(at), part));
                }
                offset += size;
                if offset > start {
                    return None;
                }
            }
            None
        }
        _ => None,
    }
}

/// All parts of what was cut, in order.
fn of_concat(body: &Body, at: NodeId, axis: u32) -> Option<Patch> {
    let operands = body.operands(at);
    let first = operands.first()?;
    let cut = first.node;
    let (Op::Split { axis: by, .. } | Op::Chunk { axis: by, .. }) = body.op(cut)? else { return None };
    let whole = *by == axis && operands.len() == body.types(cut).len();
    let in_order = operands.iter().zip(0..).all(|(v, port)| *v == Value { node: cut, port });
    let source = body.operand(cut, 0)?;
    (whole && in_order).then(|| Patch::of("Concat of what was cut", result(at), source))
}

/// Parts of what was joined, cut where it was joined.
fn of_split(body: &Body, at: NodeId, axis: u32) -> Option<Patch> {
    let (joined, Op::Concat { axis: by }) = body.maker(body.operand(at, 0)?)? else { return None };
    let parts = body.operands(joined);
    let same = parts.iter().copied().zip(body.results(at)).all(|(part, value)| body.ty(part) == body.ty(value));
    if *by != axis || parts.len() != body.types(at).len() || !same {
        return None;
    }
    let mut patch = Patch::new("cut where it was joined");
    body.results(at).zip(parts).for_each(|(value, &part)| patch.replace(value, part));
    Some(patch)
}
