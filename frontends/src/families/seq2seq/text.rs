//! From ids to the residual stream of a stack.

use super::Stack;
use crate::families::decoder::scaled;
use crate::families::parts::{Built, Parts};
use tallow_ir::ops::Real;
use tallow_ir::{DType, Op, Value};

/// From ids to the residual stream.
#[derive(Clone, Debug)]
pub struct TextIn {
    /// The table, `[rows, hidden]`.
    pub table: String,
    /// Its rows.
    pub rows: u32,
    /// Rows are multiplied by this.
    pub scale: f32,
    /// What is added for the position.
    pub positions: Positions,
    /// The norm of the sum, where there is one.
    pub norm: Option<String>,
}

/// What is added for a position.
#[derive(Clone, Debug)]
pub enum Positions {
    /// Nothing.
    None,
    /// A row of a table: position 0 takes the row `offset`.
    Learned {
        /// The table, `[rows, hidden]`.
        table: String,
        /// Its rows, those before `offset` included.
        rows: u32,
        /// See above.
        offset: u32,
    },
    /// Sines of the position times each frequency, then cosines.
    Sinusoid {
        /// Half as many as the residual stream is wide.
        frequencies: Vec<f32>,
        /// Position 0 counts as this.
        offset: u32,
    },
}

impl TextIn {
    /// The rows of `ids` `[S]`, which follow earlier ones where `past`.
    pub fn embed(&self, parts: &mut Parts<'_>, ids: Value, stack: &Stack, past: bool) -> Built {
        let table = parts.weight(&self.table, &[self.rows, stack.hidden])?;
        let rows = parts.graph.op(Op::TokenEmbed, &[ids, table])?;
        let mut h = scaled(&mut parts.graph, rows, self.scale)?;
        if let Some(positions) = self.positions(parts, ids, stack.hidden, past)? {
            h = parts.graph.op(Op::Add, &[h, positions])?;
        }
        parts.graph.name(h, format!("{}_embed", stack.side));
        match &self.norm {
            Some(name) => stack.normed(parts, h, name, format!("{}_embed_norm", stack.side)),
            None => Ok(h),
        }
    }

    fn positions(
        &self,
        parts: &mut Parts<'_>,
        ids: Value,
        hidden: u32,
        past: bool,
    ) -> Result<Option<Value>, tallow_ir::IrError> {
        let offset = match &self.positions {
            Positions::None => return Ok(None),
            Positions::Learned { offset, .. } | Positions::Sinusoid { offset, .. } => *offset,
        };
        let mut at = parts.graph.op(Op::Iota { axis: 0 }, &[ids])?;
        if past {
            let pos = parts.graph.pos()?;
            at = parts.graph.op(Op::Add, &[at, pos])?;
        }
        if offset > 0 {
            at = parts.graph.op(Op::AddScalar { value: (offset as f32).into() }, &[at])?;
        }
        match &self.positions {
            Positions::None => Ok(None),
            Positions::Learned { table, rows, .. } => {
                let table = parts.weight(table, &[*rows, hidden])?;
                parts.graph.op(Op::TokenEmbed, &[at, table]).map(Some)
            }
            Positions::Sinusoid { frequencies, .. } => {
                let g = &mut parts.graph;
                let values: Vec<Real> = frequencies.iter().map(|&x| x.into()).collect();
                let shape = vec![values.len() as i64];
                let frequencies = g.op(Op::Constant { dtype: DType::F32, shape, values }, &[])?;
                let at = g.op(Op::Cast { dtype: DType::F32 }, &[at])?;
                let at = g.op(Op::Unsqueeze { axes: vec![1] }, &[at])?;
                let angles = g.op(Op::Mul, &[at, frequencies])?;
                let halves = [g.op(Op::Sin, &[angles])?, g.op(Op::Cos, &[angles])?];
                g.op(Op::Concat { axis: 1 }, &halves).map(Some)
            }
        }
    }
}
