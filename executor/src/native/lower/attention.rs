//! Instructions of attention, of the cache, and of rotary embedding.

use super::super::call::{Append, Attend, Heads, Rope, Source, Turn, Turning, Work};
use super::super::memory::Place;
use super::super::schedule::Location;
use super::{Extra, Lowering};
use crate::cache::Part;
use crate::cpu::spec;
use crate::error::Result;
use crate::kernels::{RopeLayout, RopeTable};
use tallow_compiler::{Buffer, Step};
use tallow_ir::Op;
use tallow_ir::ops::{CachedParts, Scaling};

impl Lowering<'_> {
    /// Rows of a matrix of intermediates.
    fn rows(&mut self, buffer: Buffer) -> Result<Option<(Source, [usize; 2])>> {
        let Some(&[rows, width]) = self.dims(buffer).as_deref() else { return Ok(None) };
        if rows == 0 || width == 0 || self.grid(buffer).is_none() {
            return Ok(None);
        }
        let source = self.real(buffer)?.filter(|s| self.len(s) == rows * width);
        Ok(source.map(|source| (source, [rows, width])))
    }

    /// The rotary embedding of `op` on heads of `width`.
    fn turning(&mut self, op: &Op, width: usize) -> Option<Rope> {
        let layout = match op {
            Op::RopeScaled { interleaved: true, .. } => RopeLayout::Interleaved,
            _ => RopeLayout::HalfSplit,
        };
        let by_length = match op {
            Op::RopeScaled { scaling, .. } => matches!(scaling, Scaling::Dynamic | Scaling::LongRope),
            _ => false,
        };
        let known = self.tables.iter().position(|t| t.op == *op);
        let table = match known {
            Some(table) => table,
            None => {
                let (op, angles) = (op.clone(), tallow_ir::rope::angles(op, 1)?);
                self.tables.push(Turning { op, by_length, angles, table: RopeTable::default() });
                self.tables.len() - 1
            }
        };
        (2 * self.tables[table].angles.frequencies.len() <= width).then_some(Rope { table, layout })
    }

    /// Rotary embedding by itself.
    pub(super) fn rope(&mut self, at: usize, step: &Step, x: Buffer, pos: Buffer) -> Result<Option<()>> {
        let Some(dims) = self.dims(x).filter(|_| self.is_position(pos)) else { return Ok(None) };
        let (count, width) = match *dims.as_slice() {
            [tokens, count, width] if tokens == self.tokens => (count, width),
            [rows, width] if self.tokens > 0 && rows % self.tokens == 0 => (rows / self.tokens, width),
            _ => return Ok(None),
        };
        let Some(rope) = self.turning(&step.op, width) else { return Ok(None) };
        let (rows, heads) = (self.tokens, Heads { count, width });
        self.each(at, step, x, |x, _, out| Work::Rope { x, heads, rope, rows, out })
    }

    /// Rows for a cache, without attention.
    pub(super) fn append(&mut self, at: usize, step: &Step, k: Buffer, v: Buffer) -> Result<Option<()>> {
        let Some(cache) = step.cache else { return Ok(None) };
        let (Some((k, [rows, k_width])), Some((v, [v_rows, v_width]))) = (self.rows(k)?, self.rows(v)?) else {
            return Ok(None);
        };
        if rows != self.tokens || v_rows != rows {
            return Ok(None);
        }
        for (&buffer, part) in step.results.iter().zip([Part::Key, Part::Value]) {
            self.locations[buffer.0 as usize] = Location::Cache(cache, part);
        }
        let cache = cache as usize;
        self.works.push((at, Work::Append(Append { cache, k, v, widths: [k_width, v_width], rows, turn: None })));
        Ok(Some(()))
    }

    /// Attention over the rows of a cache, without a mask.
    pub(super) fn attention(
        &mut self,
        at: usize,
        step: &Step,
        op: &Op,
        q: Buffer,
        [k, v]: [Buffer; 2],
    ) -> Result<Option<()>> {
        let location = |b: Buffer| match self.locations[b.0 as usize] {
            Location::Cache(cache, part) => Some((cache, part)),
            _ => None,
        };
        let (Some((cache, Part::Key)), Some((other, Part::Value))) = (location(k), location(v)) else {
            return Ok(None);
        };
        let Some((Source::Place(q), [rows, width])) = self.rows(q)? else { return Ok(None) };
        if cache != other {
            return Ok(None);
        }
        Ok(self.attend(at, step, op, q, cache, rows, width))
    }

    #[allow(clippy::too_many_arguments)]
    fn attend(
        &mut self,
        at: usize,
        step: &Step,
        op: &Op,
        q: Place,
        cache: u32,
        rows: usize,
        width: usize,
    ) -> Option<()> {
        let spec = spec(op)?;
        let groups = spec.kv_heads > 0 && spec.heads.is_multiple_of(spec.kv_heads);
        let (grid, out) = self.result(step, 0, false)?;
        if !groups || spec.heads * spec.head_dim != width || (grid.rows, grid.width) != (rows, width) {
            return None;
        }
        let counter = self.counters;
        self.counters += 1;
        self.works.push((at, Work::Attend(Attend { spec, q, cache: cache as usize, rows, out, counter })));
        Some(())
    }

    /// Heads normalised and turned, appended to the cache, and attention over it.
    pub(super) fn cached_attention(&mut self, at: usize, step: &Step, operands: &[Buffer]) -> Result<Option<()>> {
        let (Some(parts), Some(cache)) = (CachedParts::of(&step.op), step.cache) else { return Ok(None) };
        let &Op::CachedAttention { heads, kv_heads, head_dim, .. } = &step.op else { return Ok(None) };
        let [heads, kv_heads, head_dim] = [heads, kv_heads, head_dim].map(|n| n as usize);
        let &[q, k, v, ref rest @ ..] = operands else { return Ok(None) };
        let (Some((q, [rows, q_width])), Some((k, [k_rows, k_width])), Some((v, [v_rows, v_width]))) =
            (self.rows(q)?, self.rows(k)?, self.rows(v)?)
        else {
            return Ok(None);
        };
        let Source::Place(mut queries) = q else { return Ok(None) };
        if rows != self.tokens || [k_rows, v_rows] != [rows; 2] {
            return Ok(None);
        }
        if [q_width, k_width, v_width] != [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim] {
            return Ok(None);
        }
        let Some((gains, pos)) = rest.split_at_checked(if parts.norm.is_some() { 2 } else { 0 }) else {
            return Ok(None);
        };
        let norm = match (&parts.norm, gains) {
            (Some(Op::RmsNorm { eps }), &[q_gain, k_gain]) => match (self.real(q_gain)?, self.real(k_gain)?) {
                (Some(a), Some(b)) if self.len(&a) == head_dim && self.len(&b) == head_dim => Some((a, b, eps.get())),
                _ => return Ok(None),
            },
            (None, _) => None,
            _ => return Ok(None),
        };
        let rope = match (&parts.rope, pos) {
            (Some(rope), &[pos]) if self.is_position(pos) => match self.turning(rope, head_dim) {
                Some(rope) => Some(rope),
                None => return Ok(None),
            },
            (None, _) => None,
            _ => return Ok(None),
        };
        let turn = (norm.is_some() || rope.is_some()).then(|| {
            let heads_of = |count| Heads { count, width: head_dim };
            let out = self.extra(Extra::Queries, rows * q_width, rows == 1);
            queries = out;
            Turn { q, q_heads: heads_of(heads), k_heads: heads_of(kv_heads), out, norm, rope }
        });
        let work = Work::Append(Append { cache: cache as usize, k, v, widths: [k_width, v_width], rows, turn });
        self.works.push((at, work));
        Ok(self.attend(at, step, &parts.attention, queries, cache, rows, q_width))
    }
}
