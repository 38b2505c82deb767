//! The instructions of one step.

mod attention;
mod matrix;

use super::call::{Codes, Grid, Norm, Pair, Source, Turning, Work};
use super::memory::{LINE, Place};
use super::schedule::Location;
use crate::cpu::activation;
use crate::error::Result;
use crate::interpreter::limits;
use crate::kernels::activation::Activation;
use crate::program::Loaded;
use crate::value::{Val, with_slice};
use candle_core::DType;
use std::collections::HashMap;
use std::sync::Arc;
use tallow_compiler::{Buffer, Memory, Step};
use tallow_ir::{Bindings, DType as IrType, Op, POS, TensorType};

/// Elements of a single row up to which every thread computes it for itself.
const OWN: usize = 8192;
/// Elements of fixed operands that are kept decoded.
const FIXED: usize = 1 << 22;

/// What becomes of a step.
pub(super) enum Lowered {
    /// It has these instructions.
    Calls,
    /// It has none and runs by itself.
    Alone,
}

/// A schedule that is being made.
pub(super) struct Lowering<'a> {
    pub loaded: &'a Loaded,
    pub memory: &'a Memory,
    pub types: &'a [Option<&'a TensorType>],
    pub bindings: &'a Bindings,
    pub tokens: usize,
    /// Where each buffer is.
    pub locations: Vec<Location>,
    /// The instructions, with the number of their step.
    pub works: Vec<(usize, Work)>,
    /// Buffers that must be copied to a place before the segment that is being made.
    pub imports: Vec<(u32, Place)>,
    pub tables: Vec<Turning>,
    /// Sizes of the quantised operands that all threads share.
    pub codes: Vec<Grid>,
    /// The longest row that a thread quantises for itself.
    pub own_codes: usize,
    /// Counters for claims.
    pub counters: usize,
    /// The input that holds the ids of the call, and for each table its rows.
    pub ids: Option<(usize, usize)>,
    /// Elements of the block so far, with what is not of the plan.
    pub end: usize,
    /// Memory beside that of the plan: by use and size, its first element.
    pub extra: HashMap<(Extra, usize), usize>,
    /// What the codes of each kind hold, so that the same operand is not quantised again.
    pub prepared: Option<(Buffer, Option<Codes>)>,
}

/// What memory beside that of the plan is for. One use ends before another of the same kind begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Extra {
    /// An input of the call.
    Input(u32),
    /// Normalised rows.
    Values,
    /// Turned queries.
    Queries,
}

impl Lowering<'_> {
    /// Adds the instructions of a step.
    ///
    /// # Errors
    /// Weights that do not decode.
    pub fn step(&mut self, at: usize, step: &Step) -> Result<Lowered> {
        let (works, imports) = (self.works.len(), self.imports.len());
        match self.try_step(at, step)? {
            Some(()) => Ok(Lowered::Calls),
            None => {
                // What was begun is taken back.
                self.works.truncate(works);
                self.imports.truncate(imports);
                self.prepared = None;
                step.results.iter().for_each(|b| self.locations[b.0 as usize] = Location::Alone);
                Ok(Lowered::Alone)
            }
        }
    }

    fn try_step(&mut self, at: usize, step: &Step) -> Result<Option<()>> {
        match (&step.op, step.operands.as_slice()) {
            (Op::TokenEmbed, &[ids, table]) => Ok(self.embed(at, step, ids, table)),
            (Op::RmsNorm { eps }, &[x, gain]) => self.norm(at, step, None, [x, gain], None, eps.get()),
            (Op::LayerNorm { eps }, &[x, gain, bias]) => self.norm(at, step, None, [x, gain], Some(bias), eps.get()),
            (Op::FusedSkipNorm { eps }, &[x, skip, gain]) => {
                self.norm(at, step, Some(skip), [x, gain], None, eps.get())
            }
            (Op::SkipLayerNorm { eps }, &[x, skip, gain, bias]) => {
                self.norm(at, step, Some(skip), [x, gain], Some(bias), eps.get())
            }
            (Op::Add, &[a, b]) => self.pair(at, step, Pair::Add, a, b),
            (Op::Sub, &[a, b]) => self.pair(at, step, Pair::Sub, a, b),
            (Op::Mul, &[a, b]) => self.pair(at, step, Pair::Mul, a, b),
            (Op::Div, &[a, b]) => self.pair(at, step, Pair::Div, a, b),
            (Op::AddScalar { value }, &[x]) => {
                self.each(at, step, x, |x, grid, out| Work::Affine { factor: 1.0, term: value.get(), x, grid, out })
            }
            (Op::MulScalar { value }, &[x]) => {
                self.each(at, step, x, |x, grid, out| Work::Affine { factor: value.get(), term: 0.0, x, grid, out })
            }
            (Op::SwiGlu | Op::FusedSwiGlu, &[gate, up]) => self.gate(at, step, Activation::Silu, gate, up),
            (Op::GeGlu, &[gate, up]) => self.gate(at, step, Activation::Gelu, gate, up),
            (Op::Glu, &[gate, up]) => self.gate(at, step, Activation::Sigmoid, gate, up),
            (Op::Gated { activation: by }, &[gate, up]) => match by.op().as_ref().and_then(activation) {
                Some(kind) => self.gate(at, step, kind, gate, up),
                None => Ok(None),
            },
            (Op::Slice { axis: 0, start, end }, &[x]) => Ok(self.slice(at, step, x, *start, *end)),
            (op, &[x, ..]) if op.is_view() => Ok(self.view(at, step, x)),
            (op, &[x]) if activation(op).is_some() => {
                let Some(kind) = activation(op) else { return Ok(None) };
                self.each(at, step, x, |x, grid, out| Work::Activate { kind, x, grid, out })
            }
            (Op::Rope { .. } | Op::RopeScaled { .. }, &[x, pos]) => self.rope(at, step, x, pos),
            (Op::KvCache, &[k, v]) => self.append(at, step, k, v),
            (Op::CachedAttention { .. }, all) => self.cached_attention(at, step, all),
            (
                Op::Sdpa { .. } | Op::SdpaWindow { .. } | Op::FlashAttention { .. } | Op::Attention { .. },
                &[q, k, v],
            ) => self.attention(at, step, &step.op, q, [k, v]),
            _ => self.products(at, step),
        }
    }

    /// The sizes of a buffer.
    fn dims(&self, buffer: Buffer) -> Option<Vec<usize>> {
        self.types[buffer.0 as usize]?.shape.evaluate(self.bindings)
    }

    /// Rows and their length, of a buffer of real numbers in single precision.
    fn grid(&self, buffer: Buffer) -> Option<Grid> {
        let ty = self.types[buffer.0 as usize]?;
        let dims = self.dims(buffer).filter(|_| ty.dtype == IrType::F32)?;
        let (width, rows) = (*dims.last()?, dims.iter().rev().skip(1).product());
        (width > 0 && rows > 0).then_some(Grid { rows, width })
    }

    /// The place of a result. `own`: every thread may compute it for itself.
    fn result(&mut self, step: &Step, at: usize, own: bool) -> Option<(Grid, Place)> {
        let buffer = *step.results.get(at)?;
        let grid = self.grid(buffer)?;
        let (offset, _) = self.memory.places[buffer.0 as usize]?;
        let len = grid.rows.checked_mul(grid.width)?;
        let own = own && grid.rows == 1 && grid.width <= OWN;
        let place = Place { own, at: usize::try_from(offset / 4).ok()?, len };
        self.locations[buffer.0 as usize] = Location::Place(place);
        Some((grid, place))
    }

    /// Memory beside that of the plan.
    fn extra(&mut self, kind: Extra, len: usize, own: bool) -> Place {
        let end = &mut self.end;
        let at = *self.extra.entry((kind, len)).or_insert_with(|| {
            let at = *end;
            *end += len.next_multiple_of(LINE);
            at
        });
        Place { own, at, len }
    }

    /// An operand of real numbers, copied to a place if it is elsewhere; `None` where it is none.
    fn real(&mut self, buffer: Buffer) -> Result<Option<Source>> {
        let at = buffer.0 as usize;
        match &self.locations[at] {
            Location::Place(place) => Ok(Some(Source::Place(*place))),
            Location::Fixed => Ok(self.fixed(buffer)?.map(Source::Fixed)),
            Location::Cache(..) => Ok(None),
            Location::Input(_) | Location::Alone => {
                let Some(grid) = self.grid(buffer) else { return Ok(None) };
                let len = grid.rows * grid.width;
                let place = match self.memory.places[at] {
                    Some((offset, _)) => Place { own: false, at: (offset / 4) as usize, len },
                    None => self.extra(Extra::Input(buffer.0), len, false),
                };
                if !self.imports.iter().any(|(b, _)| *b == buffer.0) {
                    self.imports.push((buffer.0, place));
                }
                Ok(Some(Source::Place(place)))
            }
        }
    }

    /// The values of a weight, or of what is computed from weights alone.
    fn fixed(&self, buffer: Buffer) -> Result<Option<Arc<[f32]>>> {
        let value = self.loaded.fixed[buffer.0 as usize].as_ref();
        if let Some(Val::Weight(w)) = value
            && w.view()?.shape.iter().product::<u64>() > FIXED as u64
        {
            return Ok(None);
        }
        let Some(value) = value else { return Ok(None) };
        let mut vectors = self.loaded.vectors.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = vectors.get(&buffer.0) {
            return Ok(Some(found.clone()));
        }
        let tensor = value.tensor(&[])?;
        if tensor.dtype() != DType::F32 || tensor.elem_count() > FIXED {
            return Ok(None);
        }
        let values: Arc<[f32]> = with_slice(&tensor, |values| Arc::from(values))?;
        vectors.insert(buffer.0, values.clone());
        Ok(Some(values))
    }

    /// Elements of a fixed operand or of an intermediate.
    fn len(&self, source: &Source) -> usize {
        match source {
            Source::Place(place) => place.len,
            Source::Fixed(values) => values.len(),
        }
    }

    fn embed(&mut self, at: usize, step: &Step, ids: Buffer, table: Buffer) -> Option<()> {
        let Location::Input(input) = self.locations[ids.0 as usize] else { return None };
        let Some(Val::Weight(weight)) = &self.loaded.fixed[table.0 as usize] else { return None };
        let weight = weight.clone();
        let &[rows, k] = weight.view().ok()?.shape else { return None };
        if !self.types[ids.0 as usize]?.dtype.is_integer() || self.ids.is_some_and(|(other, _)| other != input) {
            return None;
        }
        let (grid, out) = self.result(step, 0, true).filter(|(g, out)| out.own || g.rows > 1)?;
        if grid.width as u64 != k || grid.rows != self.dims(ids)?.iter().product::<usize>() {
            return None;
        }
        let rows = self.ids.map_or(rows as usize, |(_, least)| least.min(rows as usize));
        self.ids = Some((input, rows));
        self.works.push((at, Work::Embed { table: weight, grid, out }));
        Some(())
    }

    fn norm(
        &mut self,
        at: usize,
        step: &Step,
        skip: Option<Buffer>,
        [x, gain]: [Buffer; 2],
        bias: Option<Buffer>,
        eps: f32,
    ) -> Result<Option<()>> {
        let Some(grid) = self.grid(x) else { return Ok(None) };
        let (Some(x), Some(gain)) = (self.real(x)?, self.real(gain)?) else { return Ok(None) };
        if self.len(&gain) != grid.width || self.len(&x) != grid.rows * grid.width {
            return Ok(None);
        }
        let norm = match bias {
            None => Norm::Rms { gain, eps },
            Some(bias) => match self.real(bias)? {
                Some(bias) if self.len(&bias) == grid.width => Norm::Layer { gain, bias, eps },
                _ => return Ok(None),
            },
        };
        let skip = match skip {
            None => None,
            Some(skip) => {
                if self.grid(skip) != Some(grid) {
                    return Ok(None);
                }
                let (Some(source), Some((_, sum))) = (self.real(skip)?, self.result(step, 1, true)) else {
                    return Ok(None);
                };
                Some((source, sum))
            }
        };
        // A long single row has no shares: a step by itself is as good.
        let result = self.result(step, 0, true).filter(|(g, out)| *g == grid && (out.own || g.rows > 1));
        let Some((_, out)) = result else { return Ok(None) };
        self.works.push((at, Work::Norm { x, skip, norm, grid, out }));
        Ok(Some(()))
    }

    fn pair(&mut self, at: usize, step: &Step, how: Pair, a: Buffer, b: Buffer) -> Result<Option<()>> {
        let (Some(grid), Some(a_dims), Some(b_dims)) = (self.grid(a), self.dims(a), self.dims(b)) else {
            return Ok(None);
        };
        let row = b_dims.len() == 1 && a_dims.len() > 1 && b_dims.last() == a_dims.last();
        if a_dims != b_dims && !row {
            return Ok(None);
        }
        let (Some(a), Some(b)) = (self.real(a)?, self.real(b)?) else { return Ok(None) };
        let repeated = self.len(&b);
        let fits = self.len(&a) == grid.rows * grid.width && repeated == b_dims.iter().product::<usize>();
        let Some((_, out)) = self.result(step, 0, true).filter(|(g, _)| *g == grid && fits) else { return Ok(None) };
        self.works.push((at, Work::Pair { how, a, b, repeated, grid, out }));
        Ok(Some(()))
    }

    /// An operation of one operand, element by element.
    fn each(
        &mut self,
        at: usize,
        step: &Step,
        x: Buffer,
        work: impl FnOnce(Source, Grid, Place) -> Work,
    ) -> Result<Option<()>> {
        let Some(grid) = self.grid(x) else { return Ok(None) };
        let Some(x) = self.real(x)? else { return Ok(None) };
        let fits = self.len(&x) == grid.rows * grid.width;
        let Some((_, out)) = self.result(step, 0, true).filter(|(g, _)| *g == grid && fits) else { return Ok(None) };
        self.works.push((at, work(x, grid, out)));
        Ok(Some(()))
    }

    fn gate(&mut self, at: usize, step: &Step, kind: Activation, gate: Buffer, up: Buffer) -> Result<Option<()>> {
        if self.dims(gate) != self.dims(up) {
            return Ok(None);
        }
        let Some(up) = self.real(up)? else { return Ok(None) };
        self.each(at, step, gate, |gate, grid, out| Work::Gate { kind, gate, up, grid, out })
    }

    /// Some rows of an intermediate, one after another.
    fn slice(&mut self, at: usize, step: &Step, x: Buffer, start: i64, end: i64) -> Option<()> {
        let Location::Place(place) = self.locations[x.0 as usize] else { return None };
        let size = i64::try_from(*self.dims(x)?.first()?).ok()?;
        let bound = |n: i64| match n {
            i64::MAX => size,
            n if n < 0 => n + size,
            n => n,
        };
        let (from, to) = (usize::try_from(bound(start)).ok()?, usize::try_from(bound(end)).ok()?);
        let row = place.len.checked_div(size as usize)?;
        let (grid, out) = self.result(step, 0, true)?;
        if from > to || to > size as usize || (to - from) * row != out.len {
            return None;
        }
        let part = Place { at: place.at + from * row, len: out.len, ..place };
        self.works.push((at, Work::Copy { x: Source::Place(part), grid, out }));
        Some(())
    }

    /// Another shape for the same elements: where they lie, or a copy.
    fn view(&mut self, at: usize, step: &Step, x: Buffer) -> Option<()> {
        let Location::Place(place) = self.locations[x.0 as usize] else { return None };
        let (grid, mut out) = self.result(step, 0, true)?;
        if out.len != place.len {
            return None;
        }
        if out.at == place.at {
            self.locations[step.results[0].0 as usize] = Location::Place(place);
            return Some(());
        }
        out.own &= place.own;
        self.locations[step.results[0].0 as usize] = Location::Place(out);
        self.works.push((at, Work::Copy { x: Source::Place(place), grid, out }));
        Some(())
    }

    /// Whether a buffer holds the number of cached tokens that the session fills in.
    fn is_position(&self, buffer: Buffer) -> bool {
        matches!(self.locations[buffer.0 as usize], Location::Input(i) if self.loaded.plan.inputs[i].name == POS)
    }

    /// Whether a product of these sizes is small enough to run.
    fn is_possible(step: &Step, grid: Grid, columns: usize) -> bool {
        limits::product(step, &[grid.rows, columns]).is_ok()
    }
}
