//! What one thread does of an instruction.

use super::call::{Call, Codes, Grid, Norm, Pair, Prepare, Source, Turning, Work};
use super::memory::{Block, Hand, Place, quantize_one};
use super::run::kernel;
use super::schedule::Schedule;
use crate::error::Result;
use crate::kernels::activation::{activate_row, gate_in_place};
use crate::kernels::norm::{layer_norm_row, rms_norm_row};
use crate::kernels::packed::{self, Quantized};
use crate::kernels::room;
use crate::kernels::{AttentionScratch, AttentionShared, Team, dequantize_row};
use crate::weights::Weight;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

/// Elements that an element-by-element operation takes at once.
const CHUNK: usize = 1024;
/// Columns of a single row that one thread takes at least.
const COLUMNS: usize = 64;

/// What a thread has for itself.
#[derive(Default)]
pub(super) struct Scratch {
    /// Intermediates that every thread computes for itself.
    pub block: Block,
    /// Working memory of instructions.
    pub work: Working,
}

/// Working memory of instructions.
#[derive(Default)]
pub(super) struct Working {
    /// One row of anything.
    pub row: Vec<f32>,
    /// The second factor of a gate.
    pub second: Vec<f32>,
    /// The operand of products with one row.
    pub codes: Quantized,
    pub product: packed::Scratch,
    pub attention: AttentionScratch,
}

impl Scratch {
    /// Makes room for a schedule.
    ///
    /// # Errors
    /// Rows that do not divide into blocks.
    pub fn reserve(&mut self, schedule: &Schedule, threads: usize) -> Result<()> {
        self.block.grow(schedule.own);
        let Working { row, second, codes, product, attention } = &mut self.work;
        let grow = |room: &mut Vec<f32>, len: usize| room::grow(room, len, 0.0);
        for call in &schedule.calls {
            match &call.work {
                Work::Norm { grid, .. } | Work::Prepare(Prepare { grid, .. }) => grow(row, grid.width),
                Work::Rope { heads, .. } => grow(row, heads.count * heads.width),
                Work::Append(append) => {
                    let queries = append.turn.as_ref().map_or(0, |t| t.q_heads.count * t.q_heads.width);
                    grow(row, append.widths[0].max(queries));
                }
                Work::Attend(attend) => attention.reserve(&attend.spec),
                Work::Product(p) => {
                    if p.codes.is_some() {
                        product.reserve(p.grid.rows, p.grid.width);
                    }
                    grow(second, p.second(threads));
                }
                _ => {}
            }
        }
        grow(row, CHUNK);
        if schedule.own_codes > 0 {
            codes.resize(1, schedule.own_codes).map_err(kernel)?;
        }
        Ok(())
    }
}

/// One step of a session, as all its threads see it.
pub(super) struct Step<'a> {
    pub ids: &'a [u32],
    pub tables: &'a [Turning],
    pub counters: &'a [AtomicUsize],
    /// What threads that share the keys of one attention leave for each other.
    pub attention: &'a AttentionShared,
    /// Tokens in the cache before the step.
    pub past: usize,
    pub team: &'a Team,
    /// The first error, with its step.
    pub failed: Mutex<Option<(usize, String)>>,
}

/// The share of a thread: a range of the elements of a grid, whole rows where there are several.
pub(super) fn share(hand: &Hand<'_>, own: bool, grid: Grid) -> Range<usize> {
    let all = grid.rows * grid.width;
    if own || hand.member.count == 1 {
        return 0..all;
    }
    let (unit, units) = match grid.rows {
        1 => (COLUMNS, grid.width.div_ceil(COLUMNS)),
        rows => (grid.width, rows),
    };
    let cut = |thread: usize| (units * thread / hand.member.count * unit).min(all);
    cut(hand.member.index)..cut(hand.member.index + 1)
}

/// The rows of a thread's share.
pub(super) fn share_rows(hand: &Hand<'_>, own: bool, grid: Grid) -> Range<usize> {
    if grid.rows == 1 && !own {
        // A row that is not shared out by columns is the work of one thread.
        return if hand.member.index == 0 { 0..1 } else { 0..0 };
    }
    let range = share(hand, own, grid);
    range.start / grid.width..range.end / grid.width
}

/// Elements of an operand.
pub(super) fn read<'h>(hand: &'h Hand<'_>, source: &'h Source, range: Range<usize>) -> &'h [f32] {
    match source {
        Source::Place(place) => hand.read(*place, range),
        Source::Fixed(values) => &values[range],
    }
}

/// All elements of an operand.
pub(super) fn read_all<'h>(hand: &'h Hand<'_>, source: &'h Source) -> &'h [f32] {
    match source {
        Source::Place(place) => hand.read(*place, 0..place.len),
        Source::Fixed(values) => values,
    }
}

impl Step<'_> {
    /// Notes an error; the step goes on with what it has, and fails at its end.
    pub fn fail(&self, call: &Call, cause: impl ToString) {
        if let Ok(mut failed) = self.failed.lock() {
            failed.get_or_insert_with(|| (call.step, cause.to_string()));
        }
    }

    /// Does the share of one thread.
    pub fn run(&self, call: &Call, hand: &Hand<'_>, scratch: &mut Working) {
        match &call.work {
            Work::Embed { table, grid, out } => self.embed(call, hand, table, *grid, *out),
            Work::Norm { x, skip, norm, grid, out } => {
                if let Some((skip, sum)) = skip {
                    let total = |a: &mut [f32], b: &[f32]| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                    each(hand, &mut scratch.row, x, *grid, *sum, |row, range| total(row, read(hand, skip, range)));
                    norm_rows(hand, &mut scratch.row, &Source::Place(*sum), norm, *grid, *out);
                } else {
                    norm_rows(hand, &mut scratch.row, x, norm, *grid, *out);
                }
            }
            Work::Pair { how, a, b, repeated, grid, out } => {
                each(hand, &mut scratch.row, a, *grid, *out, |values, range| {
                    pair(*how, values, hand, b, *repeated, range.start);
                });
            }
            Work::Affine { factor, term, x, grid, out } => {
                each(hand, &mut scratch.row, x, *grid, *out, |values, _| {
                    values.iter_mut().for_each(|v| *v = *v * factor + term);
                });
            }
            Work::Activate { kind, x, grid, out } => {
                each(hand, &mut scratch.row, x, *grid, *out, |values, _| activate_row(*kind, values));
            }
            Work::Gate { kind, gate, up, grid, out } => {
                each(hand, &mut scratch.row, up, *grid, *out, |values, range| {
                    gate_in_place(*kind, read(hand, gate, range), values);
                });
            }
            Work::Copy { x, grid, out } => each(hand, &mut scratch.row, x, *grid, *out, |_, _| {}),
            Work::Prepare(prepare) => self.prepare(call, hand, prepare, scratch),
            Work::Product(product) => self.product(call, hand, product, scratch),
            Work::Rope { x, heads, rope, rows, out } => self.rope(hand, x, *heads, *rope, *rows, *out, scratch),
            Work::Append(append) => self.append(call, hand, append, scratch),
            Work::Attend(attend) => self.attend(call, hand, attend, &mut scratch.attention),
        }
    }

    fn embed(&self, call: &Call, hand: &Hand<'_>, table: &Weight, grid: Grid, out: Place) {
        let rows = share_rows(hand, out.own, grid);
        let table = match table.rows() {
            Ok(table) => table,
            Err(e) => return self.fail(call, e),
        };
        let values = hand.write(out, rows.start * grid.width..rows.end * grid.width);
        for (row, values) in rows.zip(values.chunks_exact_mut(grid.width)) {
            if let Err(e) = dequantize_row(&table, self.ids[row] as usize, values) {
                self.fail(call, e);
            }
        }
    }

    /// Normalises and quantises rows.
    fn prepare(&self, call: &Call, hand: &Hand<'_>, prepare: &Prepare, scratch: &mut Working) {
        let Prepare { x, norm, grid, codes, values } = prepare;
        let own = grid.rows == 1;
        let Working { row: room, codes: own_codes, .. } = scratch;
        if let Some(Codes::Own) = codes
            && let Err(e) = own_codes.resize(1, grid.width)
        {
            return self.fail(call, e);
        }
        for row in share_rows(hand, own, *grid) {
            let range = row * grid.width..(row + 1) * grid.width;
            let source = read(hand, x, range.clone());
            let ready = match norm {
                None => source,
                Some((gain, eps)) => {
                    let room = &mut room[..grid.width];
                    rms_norm_row(source, read_all(hand, gain), *eps, room);
                    room
                }
            };
            match codes {
                None => {}
                Some(Codes::Own) => quantize_one(own_codes, ready),
                Some(Codes::Shared(index)) => hand.quantize(*index, row, ready),
            }
            if let Some(values) = values {
                hand.write(*values, range).copy_from_slice(ready);
            }
        }
    }
}

/// Normalises the rows of a thread's share, one after another.
fn norm_rows(hand: &Hand<'_>, room: &mut [f32], x: &Source, norm: &Norm, grid: Grid, out: Place) {
    let room = &mut room[..grid.width];
    for row in share_rows(hand, out.own, grid) {
        let range = row * grid.width..(row + 1) * grid.width;
        let x = read(hand, x, range.clone());
        match norm {
            Norm::Rms { gain, eps } => rms_norm_row(x, read_all(hand, gain), *eps, room),
            Norm::Layer { gain, bias, eps } => {
                layer_norm_row(x, read_all(hand, gain), Some(read_all(hand, bias)), *eps, room);
            }
        }
        hand.write(out, range).copy_from_slice(room);
    }
}

/// Copies a thread's share of `x`, lets `f` change it, and writes it: piece by piece, so that the result may lie on an
/// operand. `f` is told where the piece is.
fn each(
    hand: &Hand<'_>,
    room: &mut [f32],
    x: &Source,
    grid: Grid,
    out: Place,
    mut f: impl FnMut(&mut [f32], Range<usize>),
) {
    let share = share(hand, out.own, grid);
    for start in share.clone().step_by(CHUNK) {
        let range = start..share.end.min(start + CHUNK);
        let piece = &mut room[..range.len()];
        piece.copy_from_slice(read(hand, x, range.clone()));
        f(piece, range.clone());
        hand.write(out, range).copy_from_slice(piece);
    }
}

/// `values op b`, where `values` are elements from `start` on.
fn pair(how: Pair, values: &mut [f32], hand: &Hand<'_>, b: &Source, repeated: usize, start: usize) {
    let (mut done, mut from) = (0, start % repeated);
    while done < values.len() {
        let count = (repeated - from).min(values.len() - done);
        let part = values[done..done + count].iter_mut().zip(read(hand, b, from..from + count));
        match how {
            Pair::Add => part.for_each(|(a, b)| *a += b),
            Pair::Sub => part.for_each(|(a, b)| *a -= b),
            Pair::Mul => part.for_each(|(a, b)| *a *= b),
            Pair::Div => part.for_each(|(a, b)| *a /= b),
        }
        (done, from) = (done + count, 0);
    }
}
