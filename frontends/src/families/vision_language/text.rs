//! The decoder, with rows of pictures among its words.

use super::ROWS;
use crate::families::decoder::axes::AXES;
use crate::families::decoder::{self, DecoderSpec};
use crate::families::parts::{Built, Parts};
use tallow_ir::ops::Comparison;
use tallow_ir::{DType, Dim, IrError, Op, SEQUENCE, Shape, TensorType, Value};

/// The dimension of the tables of a text.
const TABLE: &str = "T";

/// The graph for tokens.
pub(super) fn build(parts: &mut Parts<'_>, spec: &DecoderSpec) -> Result<(), IrError> {
    let ids = parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
    let picture = [Dim::symbol(ROWS), Dim::constant(spec.hidden.into())];
    let picture = parts.graph.input("picture", TensorType::f32(Shape::new(picture)))?;
    let table = || Dim::symbol(TABLE);
    let axes = Shape::new([Dim::constant(AXES as i64), table()]);
    let places = parts.graph.input("places", TensorType::i64(axes))?;
    let rows = parts.graph.input("picture_rows", TensorType::i64(Shape::new([table()])))?;

    let at = At::new(parts, ids, rows)?;
    let places = at.places(parts, places)?;
    let words = decoder::embed(parts, spec, ids)?;
    let h = at.spliced(parts, words, picture, rows)?;
    decoder::decode(parts, spec, h, Some(places))
}

/// Where the tokens of a call stand in the tables.
struct At {
    /// The column of each, i64 `[S]`; the last one for what is generated.
    column: Value,
    /// How far each is behind the last column, i64 `[S]`.
    beyond: Value,
}

impl At {
    fn new(parts: &mut Parts<'_>, ids: Value, rows: Value) -> Result<At, IrError> {
        let numbers = parts.graph.op(Op::Iota { axis: 0 }, &[ids])?;
        let past = parts.graph.pos()?;
        let token = parts.op(Op::Add, &[numbers, past], "token")?;
        let size = parts.graph.op(Op::Size { axis: 0 }, &[rows])?;
        let last = parts.op(Op::AddScalar { value: (-1.0).into() }, &[size], "prompt_length")?;
        let column = parts.op(Op::Minimum, &[token, last], "column")?;
        let beyond = parts.op(Op::Sub, &[token, column], "generated")?;
        Ok(At { column, beyond })
    }

    /// Positions of the tokens, i64 `[3, S]`.
    fn places(&self, parts: &mut Parts<'_>, table: Value) -> Built {
        let of_column = parts.graph.op(Op::Gather { axis: 1 }, &[table, self.column])?;
        parts.op(Op::Add, &[of_column, self.beyond], "positions")
    }

    /// `words` (`[S, hidden]`), with rows of `picture` where the table says so.
    fn spliced(&self, parts: &mut Parts<'_>, words: Value, picture: Value, table: Value) -> Built {
        let row = parts.op(Op::Gather { axis: 0 }, &[table, self.column], "picture_row")?;
        let nothing = Op::Constant { dtype: DType::I64, shape: vec![], values: vec![0.0.into()] };
        let nothing = parts.graph.op(nothing, &[])?;
        let seen = parts.graph.op(Op::Compare { how: Comparison::Greater }, &[row, nothing])?;
        let seen = parts.op(Op::Unsqueeze { axes: vec![1] }, &[seen], "is_picture")?;
        let index = parts.graph.op(Op::AddScalar { value: (-1.0).into() }, &[row])?;
        let index = parts.graph.op(Op::Maximum, &[index, nothing])?;
        let rows = parts.op(Op::Gather { axis: 0 }, &[picture, index], "pictures")?;
        parts.op(Op::Select, &[seen, rows, words], "embed_with_pictures")
    }
}
