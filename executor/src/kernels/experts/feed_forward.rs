//! The feed-forward of experts from end to end: what lies between its products stays in working memory that is used again.

use super::{Group, Grouped, Item, SCRATCH, items};
use crate::kernels::activation::{Activation, gate_in_place};
use crate::kernels::cpu::multiversion;
use crate::kernels::disjoint::Disjoint;
use crate::kernels::packed::{PANEL, Packed, Quantized, QuantizedRows, Scratch, Target, product};
use crate::kernels::{Isa, KernelError, Team, check_len, room};
use std::cell::RefCell;
use std::ops::Range;

/// The packed matrices of all experts, those of one expert after those of another; each has whole panels.
#[derive(Clone, Copy, Debug)]
pub struct ExpertMatrices<'a> {
    /// How many experts there are.
    pub experts: usize,
    /// From rows of x to the width between.
    pub inner: Inner<'a>,
    /// `[experts · columns, width]`.
    pub down: Packed<'a>,
}

/// The matrices of gate and up.
#[derive(Clone, Copy, Debug)]
pub enum Inner<'a> {
    /// Gate, and up, `[experts · width, k]` each.
    Apart(Packed<'a>, Packed<'a>),
    /// Of each expert the rows of its gate, then those of its up: `[experts · 2 · width, k]`.
    Joined(Packed<'a>),
}

impl ExpertMatrices<'_> {
    /// Values per row of x, between, and of the result. `None` where the matrices do not fit together, or experts share
    /// panels.
    pub fn widths(&self) -> Option<[usize; 3]> {
        let each = |w: &Packed<'_>| w.rows().is_multiple_of(self.experts).then(|| w.rows() / self.experts.max(1));
        let (k, width) = match &self.inner {
            Inner::Apart(gate, up) => {
                (gate.k(), each(gate).filter(|_| up.rows() == gate.rows() && up.k() == gate.k())?)
            }
            Inner::Joined(both) => (both.k(), each(both).filter(|n| n.is_multiple_of(2))? / 2),
        };
        let columns = each(&self.down).filter(|_| self.down.k() == width)?;
        let whole = |n: usize| n > 0 && n.is_multiple_of(PANEL);
        (k > 0 && whole(width) && whole(columns)).then_some([k, width, columns])
    }

    /// The matrices of gate and up, and the rows where those of an expert begin.
    fn of(&self, expert: usize, width: usize) -> [(&Packed<'_>, usize); 2] {
        match &self.inner {
            Inner::Apart(gate, up) => [(gate, expert * width), (up, expert * width)],
            Inner::Joined(both) => [(both, expert * 2 * width), (both, (expert * 2 + 1) * width)],
        }
    }
}

/// Working memory of a calling thread.
#[derive(Default)]
struct Room {
    /// The rows of x.
    rows: Quantized,
    /// The same by group, then what lies between.
    groups: Vec<Quantized>,
    /// What the gates give, in the order of the groups.
    between: Vec<f32>,
    /// What the experts give, in the same order.
    made: Vec<f32>,
    /// Where in that order each place is.
    order: Vec<usize>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

/// `y[s] = Σ weights[s, c] · W_down[e]·(activation(W_gate[e]·x[s]) · (W_up[e]·x[s]))` with the places `(s, c)` that `grouped`
/// sorts by their experts `e`: `x` `[S, k]`, `weights` `[S, chosen]`, `y` `[S, columns]`. Sums are in double precision, in
/// the order of the choices.
///
/// # Errors
/// [`KernelError::Length`] for matrices without [`ExpertMatrices::widths`] and slices that do not fit them.
pub fn feed_forward_packed(
    x: &[f32],
    grouped: &Grouped,
    weights: &[f32],
    matrices: &ExpertMatrices<'_>,
    activation: Activation,
    y: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    let Some([k, width, columns]) = matrices.widths() else {
        let (what, found) = ("row of the matrices of experts", matrices.down.k());
        return Err(KernelError::Length { what, found, expected: matrices.down.rows() });
    };
    let (places, tokens) = (grouped.places.len(), x.len() / k);
    check_len("input of a product", x.len(), tokens.checked_mul(k))?;
    check_len("output of a product", y.len(), tokens.checked_mul(columns))?;
    check_len("weights of experts", weights.len(), Some(places))?;
    let chosen = places.checked_div(tokens).unwrap_or(0);
    check_len("choices of experts", places, chosen.checked_mul(tokens))?;
    if let Some(group) = grouped.groups.iter().find(|group| group.expert >= matrices.experts) {
        return Err(KernelError::RowOutOfRange { row: group.expert as u64, rows: matrices.experts });
    }
    ROOM.with_borrow_mut(|room| {
        room::grow(&mut room.between, places * width, 0.0);
        room::grow(&mut room.made, places * columns, 0.0);
        let (between, made) = (&mut room.between[..places * width], &mut room.made[..places * columns]);
        if room.groups.len() < grouped.groups.len() {
            room.groups.resize_with(grouped.groups.len(), Quantized::default);
        }
        let groups = &mut room.groups[..grouped.groups.len()];

        room.rows.resize_in_rows(tokens, k)?;
        let rows = room.rows.rows();
        team.run_chunks(tokens, some_rows(k), |range| range.for_each(|s| quantize(&rows, s, &x[s * k..][..k])));
        let rows = &room.rows;
        each_row(grouped, groups, k, team, |to, row, at| copy(to, row, rows, grouped.places[at] / chosen))?;
        Gates { grouped, groups, matrices, activation, width }.run(&Disjoint::new(between), team);

        let between = &*between;
        each_row(grouped, groups, width, team, |to, row, at| quantize(to, row, &between[at * width..][..width]))?;
        let (out, panels) = (Disjoint::new(made), columns / PANEL);
        let items = items(grouped, |_| panels, team);
        team.run_chunks(items.len(), 1, |range| {
            for Item { group: number, part } in &items[range] {
                let group = &grouped.groups[*number];
                let first = group.expert * panels;
                let column = (group.range.start * columns).wrapping_sub(first * PANEL);
                let target = Target::new(&out, columns, column);
                let part = first + part.start..first + part.end;
                SCRATCH.with_borrow_mut(|(scratch, _)| {
                    product(Isa::detect(), &groups[*number], &matrices.down, part, target, scratch);
                });
            }
        });

        room.order.clear();
        room.order.resize(places, 0);
        grouped.places.iter().enumerate().for_each(|(at, &place)| room.order[place] = at);
        let sums = Sums { made, order: &room.order, weights, chosen, columns };
        let y = Disjoint::new(y);
        team.run_chunks(tokens, some_rows(chosen * columns), |range| sums.run(range, &y));
        Ok(())
    })
}

/// Rows that a thread takes at a time of what has `width` values each.
fn some_rows(width: usize) -> usize {
    (8192 / width.max(1)).max(1)
}

/// Calls `f` for each row of the groups, with the rows of its group, its number there, and its number in the order of the
/// groups.
fn each_row(
    grouped: &Grouped,
    groups: &mut [Quantized],
    k: usize,
    team: &Team,
    f: impl Fn(&QuantizedRows<'_>, usize, usize) + Sync,
) -> Result<(), KernelError> {
    for (quantized, group) in groups.iter_mut().zip(&grouped.groups) {
        quantized.resize(group.range.len(), k)?;
    }
    let targets: Vec<QuantizedRows<'_>> = groups.iter_mut().map(Quantized::rows).collect();
    team.run_chunks(grouped.places.len(), some_rows(k), |range| {
        let first = grouped.groups.partition_point(|group| group.range.end <= range.start);
        for (target, group) in targets.iter().zip(&grouped.groups).skip(first) {
            for at in group.range.start.max(range.start)..group.range.end.min(range.end) {
                f(target, at - group.range.start, at);
            }
        }
    });
    Ok(())
}

#[allow(unsafe_code, reason = "threads write disjoint rows")]
fn quantize(to: &QuantizedRows<'_>, row: usize, x: &[f32]) {
    // SAFETY: a row is in one range of one group, and each is filled once.
    unsafe { to.quantize(row, x) };
}

#[allow(unsafe_code, reason = "threads write disjoint rows")]
fn copy(to: &QuantizedRows<'_>, row: usize, from: &Quantized, of: usize) {
    // SAFETY: as in `quantize`.
    unsafe { to.copy(row, from, of) };
}

/// The products with gate and up, and the gate.
struct Gates<'a> {
    grouped: &'a Grouped,
    groups: &'a [Quantized],
    matrices: &'a ExpertMatrices<'a>,
    activation: Activation,
    width: usize,
}

impl Gates<'_> {
    /// Writes `[places, width]` in the order of the groups.
    fn run(&self, out: &Disjoint<'_, f32>, team: &Team) {
        let items = items(self.grouped, |_| self.width / PANEL, team);
        team.run_chunks(items.len(), 1, |range| {
            for Item { group: number, part } in &items[range] {
                let (group, x) = (&self.grouped.groups[*number], &self.groups[*number]);
                SCRATCH.with_borrow_mut(|(scratch, gates)| self.part(group, x, part, out, scratch, gates));
            }
        });
    }

    /// Some panels of one group.
    fn part(
        &self,
        group: &Group,
        x: &Quantized,
        part: &Range<usize>,
        out: &Disjoint<'_, f32>,
        scratch: &mut Scratch,
        gates: &mut Vec<f32>,
    ) {
        let columns = part.len() * PANEL;
        room::grow(gates, group.range.len() * columns, 0.0);
        let [(gate, gate_at), (up, up_at)] = self.matrices.of(group.expert, self.width);
        let panels = |first: usize| first / PANEL + part.start..first / PANEL + part.end;
        let made = Disjoint::new(gates);
        let target = Target::from_column(&made, columns, gate_at + part.start * PANEL);
        product(Isa::detect(), x, gate, panels(gate_at), target, scratch);
        let first = up_at + part.start * PANEL;
        let mut finish = |row: usize, column: usize, up: &mut [f32]| {
            gate_in_place(self.activation, &gates[row * columns + column - first..][..up.len()], up);
        };
        let column = (group.range.start * self.width).wrapping_sub(up_at);
        let target = Target::new(out, self.width, column).finished(Some(&mut finish));
        product(Isa::detect(), x, up, panels(up_at), target, scratch);
    }
}

/// The weighted sums of what the experts of each token give.
struct Sums<'a> {
    made: &'a [f32],
    order: &'a [usize],
    weights: &'a [f32],
    chosen: usize,
    columns: usize,
}

impl Sums<'_> {
    #[allow(unsafe_code, reason = "threads write disjoint rows")]
    fn run(&self, tokens: Range<usize>, y: &Disjoint<'_, f32>) {
        const SOME: usize = 256;
        for token in tokens {
            let own = token * self.chosen..(token + 1) * self.chosen;
            for first in (0..self.columns).step_by(SOME) {
                let part = first..self.columns.min(first + SOME);
                let mut sums = [0.0; SOME];
                let sums = &mut sums[..part.len()];
                for (at, weight) in self.order[own.clone()].iter().zip(&self.weights[own.clone()]) {
                    add(sums, &self.made[at * self.columns..][part.clone()], *weight);
                }
                // SAFETY: each token is in one range.
                let y = unsafe { y.part(token * self.columns + part.start..token * self.columns + part.end) };
                y.iter_mut().zip(sums).for_each(|(y, sum)| *y = *sum as f32);
            }
        }
    }
}

multiversion! {
    /// `sums += x · weight`, products in single precision.
    fn add(sums: &mut [f64], x: &[f32], weight: f32) {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += f64::from(x * weight);
        }
    }
}
