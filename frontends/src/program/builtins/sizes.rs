//! Sizes as arguments, and operations whose sizes only running tells.

use super::Args;
use crate::program::ast::Span;
use crate::program::build::InputKind;
use crate::program::codes::Code;
use crate::program::diagnostic::Diagnostic;
use crate::program::eval::{Eval, Evaluator, Flow};
use crate::program::value::Value;
use std::ops::Range;
use tallow_ir::{DType, Dim, Op, Shape, TensorType, Value as Node};

/// A size that a call asks for; `None` stands for -1.
pub(crate) type Wanted = Option<Dim>;

impl Args {
    /// Argument `i`, a list of sizes, or one: known, or those that only running tells; -1 is `None`.
    pub(crate) fn sizes(&self, e: &Evaluator<'_>, i: usize) -> Eval<Vec<Wanted>> {
        let one = |v: &Value| -> Eval<Wanted> {
            let dim = e.to_dim(v, self.at(i))?;
            match dim.as_const() {
                Some(-1) => Ok(None),
                Some(n) if n < 0 => Err(self.wrong(i, format!("{n} is no size; -1 stands for what is left"))),
                _ => Ok(Some(dim)),
            }
        };
        match e.deref(self.value(i).clone()) {
            Value::List(items) | Value::Tuple(items) => items.iter().map(one).collect(),
            other => Ok(vec![one(&other)?]),
        }
    }

    /// Argument `i`, a list of sizes without -1.
    pub(crate) fn shape(&self, e: &Evaluator<'_>, i: usize) -> Eval<Vec<Dim>> {
        let sizes = self.sizes(e, i)?;
        let open = || self.wrong(i, "-1 where every size is needed");
        sizes.into_iter().map(|size| size.ok_or_else(open)).collect()
    }

    /// Argument `i`, one size.
    pub(crate) fn dim(&self, e: &Evaluator<'_>, i: usize) -> Eval<Dim> {
        e.to_dim(self.value(i), self.at(i))
    }

    /// The receiver as an operand; where it is an input whose shape nobody has told yet, it gets this one.
    pub(crate) fn this_as(&self, e: &mut Evaluator<'_>, axes: &[Wanted]) -> Eval<Node> {
        match &self.receiver {
            Some((value, span)) => e.operand(value, axes, *span),
            None => Err(Flow::Poisoned),
        }
    }
}

impl Evaluator<'_> {
    /// A value as an operand; where it is an input whose shape nobody has told yet, it gets this one, with a symbol
    /// for each open size.
    pub(crate) fn operand(&mut self, value: &Value, axes: &[Wanted], span: Span) -> Eval<Node> {
        match self.undeclared(value, span)? {
            Some(input) => self.declare(input, axes, span),
            None => self.to_node(value, span),
        }
    }

    /// The number of an input whose shape nobody has told yet.
    pub(crate) fn undeclared(&mut self, value: &Value, span: Span) -> Eval<Option<usize>> {
        let Value::Input(input) = self.deref(value.clone()) else { return Ok(None) };
        let found = &self.build(span)?.inputs[input];
        Ok((found.kind == InputKind::Tensor && found.node.is_none()).then_some(input))
    }

    /// Settles the shape of an input.
    fn declare(&mut self, input: usize, axes: &[Wanted], span: Span) -> Eval<Node> {
        let build = self.build(span)?;
        let name = build.inputs[input].name.clone();
        let plain = name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let stem = if plain { name.clone() } else { format!("input{input}") };
        let open = |axis: usize| Dim::symbol(&format!("{stem}_{axis}"));
        let dims = axes.iter().enumerate().map(|(i, size)| size.clone().unwrap_or_else(|| open(i)));
        let ty = TensorType::f32(Shape::new(dims));
        match build.graph.input(&name, ty) {
            Ok(node) => {
                build.inputs[input].node = Some(node);
                Ok(node)
            }
            Err(error) => Err(self.rule(error, &[], span)),
        }
    }

    /// An operand of a known number of dimensions; `form` names them.
    pub(crate) fn ranked(&mut self, node: Node, form: &str, span: Span) -> Eval<Vec<Dim>> {
        let ty = self.ty(node);
        let rank = form.split(',').count();
        if ty.shape.rank() == rank {
            return Ok(ty.shape.dims().to_vec());
        }
        let d = Diagnostic::new(Code::Rank, span, format!("expected {form}, found {} dimensions", ty.shape.rank()))
            .label(format!("this is {ty}"));
        Err(match ty.shape.rank() + 1 == rank {
            true => d.help("`unsqueeze(0)` puts a dimension of 1 in front").into(),
            false => d.into(),
        })
    }

    /// A value of the graph with a dimension of this size, and which: inputs first.
    fn carrier(&mut self, dim: &Dim, span: Span) -> Eval<(Node, usize)> {
        let build = self.build(span)?;
        if let Some(found) = build.carriers.get(dim) {
            return Ok(*found);
        }
        let graph = &build.graph;
        let within = |v: Node| {
            let at = graph.try_ty(v).ok()?.shape.dims().iter().position(|d| d == dim)?;
            Some((v, at))
        };
        let found = graph.inputs().find_map(|(_, v)| within(v));
        match found.or_else(|| graph.nodes().flat_map(|id| graph.results(id)).find_map(within)) {
            Some(found) => {
                build.carriers.insert(dim.clone(), found);
                Ok(found)
            }
            None => {
                let d = Diagnostic::new(Code::RunTimeSize, span, format!("no tensor before this has the size {dim}"));
                Err(d.help("a size that is known only when running must be that of a tensor").into())
            }
        }
    }

    /// A size that only running tells, as an i64 number.
    pub(crate) fn size_number(&mut self, dim: &Dim, span: Span) -> Eval<Node> {
        let (like, axis) = self.carrier(dim, span)?;
        self.op(Op::Size { axis: axis as i32 }, &[like], span)
    }

    /// 0, 1, 2 … as i64 `[size]`.
    pub(crate) fn iota(&mut self, size: &Dim, span: Span) -> Eval<Node> {
        let (like, axis) = match size.as_const() {
            Some(n) => (self.filled(DType::I64, &[n], vec![0.0], span)?, 0),
            None => self.carrier(size, span)?,
        };
        self.op(Op::Iota { axis: axis as i32 }, &[like], span)
    }

    /// `x` with dimensions of 1 repeated to `shape`, and new ones in front.
    pub(crate) fn expand_to(&mut self, x: Node, shape: &[Wanted], span: Span) -> Eval<Node> {
        let ty = self.ty(x);
        let own = ty.shape.dims();
        let Some(new) = shape.len().checked_sub(own.len()) else {
            let message = format!("{} sizes for a tensor of {} dimensions", shape.len(), own.len());
            return Err(Diagnostic::new(Code::Rank, span, message).label(format!("this is {ty}")).into());
        };
        let one = Dim::constant(1);
        let (mut plain, mut later) = (Vec::new(), Vec::new());
        for (i, wanted) in shape.iter().enumerate() {
            let had = i.checked_sub(new).map(|i| &own[i]);
            plain.push(match (wanted, had) {
                (None, Some(_)) => -1,
                (None, None) => {
                    let message = format!("-1 for dimension {i}, which is new: it needs a size");
                    return Err(Diagnostic::new(Code::Shape, span, message)
                        .label(format!("the tensor is {ty}"))
                        .into());
                }
                (Some(dim), Some(had)) if dim == had => -1,
                (Some(dim), had) => match dim.as_const() {
                    Some(n) => n,
                    None if had.is_none_or(|had| *had == one) => {
                        later.push((i, dim.clone()));
                        if had.is_some() { -1 } else { 1 }
                    }
                    None => {
                        let message = format!("dimension {i} cannot become {dim}; only a size of 1 expands");
                        return Err(Diagnostic::new(Code::Shape, span, message)
                            .label(format!("the tensor is {ty}"))
                            .into());
                    }
                },
            });
        }
        let mut y = x;
        if new > 0 || plain.iter().any(|n| *n != -1) {
            y = self.op(Op::Expand { shape: plain }, &[y], span)?;
        }
        // The first of one element, as often as there are elements in a tensor of that size.
        for (axis, dim) in later {
            let numbers = self.iota(&dim, span)?;
            let first = self.op(Op::MulScalar { value: 0.0.into() }, &[numbers], span)?;
            y = self.op(Op::Gather { axis: axis as i32 }, &[y, first], span)?;
        }
        Ok(y)
    }

    /// A tensor of one number, whose sizes may be known only when running.
    pub(crate) fn full_of(&mut self, dtype: DType, shape: &[Dim], value: f32, span: Span) -> Eval<Node> {
        let known: Vec<i64> = shape.iter().map(|d| d.as_const().unwrap_or(1)).collect();
        let x = self.filled(dtype, &known, vec![value], span)?;
        let wanted: Vec<Wanted> = shape.iter().cloned().map(Some).collect();
        self.expand_to(x, &wanted, span)
    }

    /// The same elements in another shape.
    pub(crate) fn reshape_to(&mut self, x: Node, shape: &[Wanted], span: Span) -> Eval<Node> {
        let ty = self.ty(x);
        let target = self.complete(&ty, shape, span)?;
        if target == ty.shape.dims() {
            return Ok(x);
        }
        if target.iter().filter(|d| d.as_const().is_none()).count() <= 1 {
            let shape = target.iter().map(|d| d.as_const().unwrap_or(-1)).collect();
            return self.op(Op::Reshape { shape }, &[x], span);
        }
        // Where no dimensions belong together, all of them do.
        let groups = groups(ty.shape.dims(), &target).unwrap_or_else(|| vec![(0..ty.shape.rank(), 0..target.len())]);
        let mut y = x;
        // From the last, so that the places of those before stay.
        for (from, to) in groups.into_iter().rev() {
            let sizes: Vec<i64> = target[to.clone()].iter().map(|d| d.as_const().unwrap_or(-1)).collect();
            if from.len() > 1 {
                let (start, end) = (from.start as i32, from.end as i32 - 1);
                y = self.op(Op::Flatten { start, end }, &[y], span)?;
            }
            let axis = from.start as i32;
            // One dimension is parted into several open ones by looking each element up.
            if sizes.iter().filter(|n| **n == -1).count() > 1 {
                let index = self.row_major(&target[to], span)?;
                y = self.op(Op::Gather { axis }, &[y, index], span)?;
            } else if to.len() > 1 {
                y = self.op(Op::Unflatten { axis, sizes }, &[y], span)?;
            }
        }
        Ok(y)
    }

    /// The number of each place of a shape, i64: 0, 1, 2 … in row-major order.
    fn row_major(&mut self, shape: &[Dim], span: Span) -> Eval<Node> {
        let mut index = None;
        for dim in shape {
            let numbers = self.iota(dim, span)?;
            let Some(before) = index else {
                index = Some(numbers);
                continue;
            };
            let column = self.op(Op::Unsqueeze { axes: vec![-1] }, &[before], span)?;
            let scaled = match dim.as_const() {
                Some(n) => {
                    let value = whole(n, span)?.into();
                    self.op(Op::MulScalar { value }, &[column], span)?
                }
                None => {
                    let (like, axis) = self.carrier(dim, span)?;
                    let size = self.op(Op::Size { axis: axis as i32 }, &[like], span)?;
                    self.op(Op::Mul, &[column, size], span)?
                }
            };
            index = Some(self.op(Op::Add, &[scaled, numbers], span)?);
        }
        index.ok_or(Flow::Poisoned)
    }

    /// A shape with the size that -1 stands for, which has as many elements as `ty`.
    fn complete(&self, ty: &TensorType, shape: &[Wanted], span: Span) -> Eval<Vec<Dim>> {
        let wrong = |message: String| -> Flow {
            Diagnostic::new(Code::Shape, span, message).label(format!("the tensor is {ty}")).into()
        };
        let total = ty.shape.elements();
        let known = Shape(shape.iter().flatten().cloned().collect()).elements();
        let (Some(total), Some(known)) = (total, known) else {
            return Err(wrong("too many elements".into()));
        };
        let shown = || {
            let sizes: Vec<String> =
                shape.iter().map(|d| d.as_ref().map_or("-1".into(), ToString::to_string)).collect();
            format!("[{}]", sizes.join(", "))
        };
        match shape.iter().filter(|d| d.is_none()).count() {
            0 if known == total => Ok(shape.iter().flatten().cloned().collect()),
            0 => Err(wrong(format!("a tensor of {total} elements as {}, which has {known}", shown()))),
            1 => match total.div_exact(&known) {
                Some(rest) => Ok(shape.iter().map(|d| d.clone().unwrap_or_else(|| rest.clone())).collect()),
                None => Err(wrong(format!("{total} elements are no multiple of the {known} that {} tells", shown()))),
            },
            n => Err(wrong(format!("{} has {n} times -1, and one size at most follows from the others", shown()))),
        }
    }
}

/// A whole number that an operation's field holds exactly.
pub(super) fn whole(n: i64, span: Span) -> Eval<f32> {
    if n.unsigned_abs() < 1 << 24 {
        return Ok(n as f32);
    }
    Err(Diagnostic::new(Code::Arithmetic, span, format!("{n} is past the whole numbers that an operation holds"))
        .into())
}

/// Dimensions of both shapes that make the same number of elements, from left to right.
fn groups(from: &[Dim], to: &[Dim]) -> Option<Vec<(Range<usize>, Range<usize>)>> {
    let one = Dim::constant(1);
    let mut groups: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from.len() && j < to.len() {
        let (start, begin) = (i, j);
        let (mut a, mut b) = (from[i].clone(), to[j].clone());
        (i, j) = (i + 1, j + 1);
        while a != b {
            if b.div_exact(&a).is_some() {
                a = a.mul(from.get(i)?)?;
                i += 1;
            } else {
                a.div_exact(&b)?;
                b = b.mul(to.get(j)?)?;
                j += 1;
            }
        }
        groups.push((start..i, begin..j));
    }
    // What is left are dimensions of 1.
    let last = groups.last_mut()?;
    if from[i..].iter().chain(&to[j..]).any(|d| *d != one) {
        return None;
    }
    last.0.end = from.len();
    last.1.end = to.len();
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_group_by_their_products() {
        let dims = |text: &str| -> Vec<Dim> { text.split(' ').map(|d| d.parse().unwrap()).collect() };
        let grouped = |a: &str, b: &str| groups(&dims(a), &dims(b));
        assert_eq!(grouped("S T 8", "S T 2 4").unwrap(), [(0..1, 0..1), (1..2, 1..2), (2..3, 2..4)]);
        assert_eq!(grouped("S 1 T", "S T 1").unwrap(), [(0..1, 0..1), (1..3, 1..3)]);
        assert_eq!(grouped("2*S T", "S 2 T").unwrap(), [(0..1, 0..2), (1..2, 2..3)]);
        assert!(grouped("S T", "T S").is_none());
        assert!(grouped("S 2", "S 3").is_none());
    }
}
