//! Where the texts of a batch begin, and what follows from it.

use crate::families::parts::{Built, Parts};
use tallow_ir::ops::{Comparison, Reduction};
use tallow_ir::{DType, Dim, IrError, Op, Shape, TensorType, Value};

/// The texts of a batch, one after another.
pub(in crate::families) struct Texts {
    /// The first token of each text, i64 `[B]`.
    pub starts: Value,
    /// The number of its text for each token, i64 `[S]`.
    pub segments: Value,
    /// The place of each token in the batch, i64 `[S]`.
    pub row: Value,
}

impl Texts {
    /// The texts of tokens `ids` (i64 `[S]`), with the input that says where they begin.
    pub fn new(parts: &mut Parts<'_>, ids: Value) -> Result<Texts, IrError> {
        let starts = parts.graph.input("starts", TensorType::i64(Shape::new([Dim::symbol("B")])))?;
        let row = parts.op(Op::Iota { axis: 0 }, &[ids], "row")?;
        // As many texts have begun as there are starts up to a token.
        let column = parts.graph.op(Op::Unsqueeze { axes: vec![1] }, &[row])?;
        let begun = parts.graph.op(Op::Compare { how: Comparison::GreaterEqual }, &[column, starts])?;
        let begun = parts.graph.op(Op::Cast { dtype: DType::I64 }, &[begun])?;
        let count = parts.graph.op(Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: false }, &[begun])?;
        let segments = parts.op(Op::AddScalar { value: (-1.0).into() }, &[count], "segments")?;
        Ok(Texts { starts, segments, row })
    }

    /// The place of each token in its text, i64 `[S]`.
    pub fn places(&self, parts: &mut Parts<'_>) -> Built {
        let start = parts.graph.op(Op::Gather { axis: 0 }, &[self.starts, self.segments])?;
        parts.op(Op::Sub, &[self.row, start], "places")
    }

    /// Positions that count words, i64 `[S]`: `pad` plus the tokens of the text up to each that are not the id `pad`,
    /// itself included; `pad` for those that are.
    pub fn words(&self, parts: &mut Parts<'_>, ids: Value, pad: u32) -> Built {
        let values = vec![(pad as f32).into()];
        let id = parts.graph.op(Op::Constant { dtype: DType::I64, shape: vec![], values }, &[])?;
        let word = parts.graph.op(Op::Compare { how: Comparison::NotEqual }, &[ids, id])?;
        let word = parts.graph.op(Op::Cast { dtype: DType::I64 }, &[word])?;
        let sum = parts.graph.op(Op::CumSum { axis: 0 }, &[word])?;
        let before = parts.graph.op(Op::Sub, &[sum, word])?;
        let before = parts.graph.op(Op::Gather { axis: 0 }, &[before, self.starts])?;
        let before = parts.graph.op(Op::Gather { axis: 0 }, &[before, self.segments])?;
        let count = parts.graph.op(Op::Sub, &[sum, before])?;
        let count = parts.graph.op(Op::Mul, &[count, word])?;
        parts.op(Op::AddScalar { value: (pad as f32).into() }, &[count], "places")
    }

    /// The first row of each text of `x` (`[S, …]`).
    pub fn first(&self, parts: &mut Parts<'_>, x: Value) -> Built {
        parts.graph.op(Op::Gather { axis: 0 }, &[x, self.starts])
    }

    /// The rows of each text of `x` (`[S, …]`) as one.
    pub fn combined(&self, parts: &mut Parts<'_>, x: Value, how: Reduction) -> Built {
        parts.graph.op(Op::SegmentReduce { how }, &[x, self.starts])
    }

    /// `x` (`[S, width]`) moved so that each row holds the one `offset` places later; zeros where that is outside the
    /// text.
    pub fn moved(&self, parts: &mut Parts<'_>, x: Value, offset: i64) -> Built {
        if offset == 0 {
            return Ok(x);
        }
        let (before, after) = ((-offset).max(0), offset.max(0));
        let (start, end) = (after, if before > 0 { -before } else { i64::MAX });
        let cut = Op::Slice { axis: 0, start, end };
        let pad =
            |value: f32, pads: Vec<i64>| Op::Pad { mode: tallow_ir::ops::PadMode::Constant, pads, value: value.into() };
        let near = parts.graph.op(pad(0.0, vec![before, after, 0, 0]), &[x])?;
        let near = parts.graph.op(cut.clone(), &[near])?;
        let other = parts.graph.op(pad(-1.0, vec![before, after]), &[self.segments])?;
        let other = parts.graph.op(cut, &[other])?;
        let same = parts.graph.op(Op::Compare { how: Comparison::Equal }, &[other, self.segments])?;
        let same = parts.graph.op(Op::Cast { dtype: DType::F32 }, &[same])?;
        let same = parts.graph.op(Op::Unsqueeze { axes: vec![1] }, &[same])?;
        parts.graph.op(Op::Mul, &[near, same])
    }
}
