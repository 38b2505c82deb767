//! What one thread does of products with matrices: panels of rows, claimed a few at a time.

use super::call::{After, Call, Codes, Matrix, Part, Product, Work};
use super::memory::Hand;
use super::work::{Step, Working, read, read_all};
use crate::error::Result;
use crate::kernels::activation::{activate_row, gate_in_place};
use crate::kernels::disjoint::Disjoint;
use crate::kernels::matmul::{ExactRows, exact_part};
use crate::kernels::packed::{self, Finish, PANEL, Quantized, Target};
use crate::kernels::{Isa, Team};
use crate::value::with_slice;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Elements of the second factor of a gate that a thread holds at once: as many as stay in its cache.
const SECOND: usize = 64 * 1024;

impl Work {
    /// Packs the matrices that are not packed yet.
    ///
    /// # Errors
    /// Weights that cannot be packed.
    pub fn pack(&self, team: &Team) -> Result<()> {
        let Work::Product(product) = self else { return Ok(()) };
        for part in &product.parts {
            if let Matrix::Packed(weight) = &part.matrix {
                weight.packed(team)?;
            }
        }
        Ok(())
    }
}

impl Product {
    /// Panels of all parts together; those of a gate count once.
    fn panels(&self) -> usize {
        let parts = if matches!(self.after, After::Gate(_)) { &self.parts[..1] } else { &self.parts };
        parts.iter().map(|part| packed::panels(part.columns)).sum()
    }

    /// Panels that a thread claims at a time.
    fn claim(&self, threads: usize) -> usize {
        let claim = packed::chunk(self.panels(), self.grid.rows, threads);
        match self.after {
            After::Gate(_) => claim.min((SECOND / PANEL / self.grid.rows.max(1)).max(1)),
            _ => claim,
        }
    }

    /// Elements of the second factor of a gate that a thread must hold.
    pub fn second(&self, threads: usize) -> usize {
        match self.after {
            // A busy team leaves a call to one thread.
            After::Gate(_) => self.claim(1).max(self.claim(threads)) * PANEL * self.grid.rows,
            _ => 0,
        }
    }
}

/// The operand of a product.
struct Operand<'a> {
    codes: Option<&'a Quantized>,
    values: Option<&'a [f32]>,
    k: usize,
}

impl Step<'_> {
    /// Claims panels until none is left.
    pub fn product(&self, call: &Call, hand: &Hand<'_>, product: &Product, scratch: &mut Working) {
        let Working { codes, second, product: room, .. } = scratch;
        let codes = match product.codes {
            None => None,
            Some(Codes::Own) => Some(&*codes),
            Some(Codes::Shared(index)) => Some(hand.codes(index)),
        };
        let values = product.values.as_ref().map(|source| read_all(hand, source));
        let x = Operand { codes, values, k: product.grid.width };
        let (panels, claim) = (product.panels(), product.claim(hand.member.count));
        loop {
            let start = self.counters[product.counter].fetch_add(claim, Ordering::Relaxed);
            if start >= panels {
                return;
            }
            let mut range = start..panels.min(start + claim);
            if let After::Gate(kind) = product.after {
                let [gate, up] = product.parts.as_slice() else { return };
                let columns = columns(gate, &range);
                self.multiply(call, hand, &x, gate, range.clone(), Some(second), None, room);
                let mut finish = |row: usize, first: usize, values: &mut [f32]| {
                    let range = first..first + values.len();
                    let second = &mut second[row * columns.len() + first - columns.start..][..values.len()];
                    if let Some(bias) = &gate.bias {
                        add(second, read(hand, bias, range.clone()));
                    }
                    if let Some(bias) = &up.bias {
                        add(values, read(hand, bias, range));
                    }
                    gate_in_place(kind, second, values);
                };
                self.multiply(call, hand, &x, up, range, None, Some(&mut finish), room);
                continue;
            }
            for part in &product.parts {
                let own = packed::panels(part.columns);
                let (from, to) = (range.start.min(own), range.end.min(own));
                if from < to {
                    let mut finish = |_: usize, first: usize, values: &mut [f32]| {
                        if let Some(bias) = &part.bias {
                            add(values, read(hand, bias, first..first + values.len()));
                        }
                        if let After::Activate(kind) = product.after {
                            activate_row(kind, values);
                        }
                    };
                    let changes = part.bias.is_some() || product.after != After::Done;
                    let finish: Option<&mut Finish<'_>> = if changes { Some(&mut finish) } else { None };
                    self.multiply(call, hand, &x, part, from..to, None, finish, room);
                }
                range = range.start.saturating_sub(own)..range.end.saturating_sub(own);
            }
        }
    }

    /// The product with some panels of a matrix: in columns of the part's result, or in `apart`, with rows of these columns
    /// alone. Outputs are finished before they are stored.
    #[allow(clippy::too_many_arguments)]
    fn multiply(
        &self,
        call: &Call,
        hand: &Hand<'_>,
        x: &Operand<'_>,
        part: &Part,
        panels: Range<usize>,
        apart: Option<&mut Vec<f32>>,
        finish: Option<&mut Finish<'_>>,
        room: &mut packed::Scratch,
    ) {
        let columns = columns(part, &panels);
        let finish = finish.map(|finish| finish as &mut Finish<'_>);
        let done = match apart {
            None => {
                let y = hand.columns(part.out, part.columns, columns.clone());
                let target = Target::new(&y, part.columns, 0).finished(finish);
                self.multiply_to(x, part, panels, columns, target, room)
            }
            Some(apart) => {
                let y = Disjoint::new(apart.as_mut_slice());
                let target = Target::from_column(&y, columns.len(), columns.start).finished(finish);
                self.multiply_to(x, part, panels, columns, target, room)
            }
        };
        if let Err(e) = done {
            self.fail(call, e);
        }
    }

    fn multiply_to(
        &self,
        x: &Operand<'_>,
        part: &Part,
        panels: Range<usize>,
        columns: Range<usize>,
        to: Target<'_>,
        room: &mut packed::Scratch,
    ) -> Result<()> {
        match (&part.matrix, x.codes, x.values) {
            (Matrix::Packed(weight), Some(codes), _) => {
                if let Some(matrix) = weight.packed(self.team)? {
                    packed::product(Isa::detect(), codes, &matrix, panels, to, room);
                }
            }
            (Matrix::Exact(weight), _, Some(values)) => {
                let matrix = weight.rows()?;
                let rows = ExactRows::of_weights(&matrix).map_err(|e| weight.fault(&e))?;
                exact_part(values, &rows, columns, to);
            }
            (Matrix::Computed(tensor), _, Some(values)) => with_slice(tensor, |matrix| {
                exact_part(values, &ExactRows::of_f32(matrix, part.columns, x.k), columns, to);
            })?,
            // Operands are prepared for the matrices that there are.
            (_, None, _) | (_, _, None) => {}
        }
        Ok(())
    }
}

/// The columns of a result that panels give.
fn columns(part: &Part, panels: &Range<usize>) -> Range<usize> {
    panels.start * PANEL..part.columns.min(panels.end * PANEL)
}

fn add(a: &mut [f32], b: &[f32]) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
}
