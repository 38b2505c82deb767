//! The portable kernel for block encodings, and the form that the others are tested against.

use super::super::WeightRows;
use super::super::cpu::multiversion;
use super::super::disjoint::Disjoint;
use super::super::math::add_lanes;
use super::activations::{Activations, ODD, Row, place};
use super::groups::{BLOCKS, Group, group_bytes, has_minimums, offset, unit, unpack};
use super::put;
use std::ops::Range;
use tallow_format::Encoding;

/// Rows of activations that share one unpacking of a group of weights.
const ROWS: usize = 16;

/// The outputs of the rows `range` of `w` for all rows of `x`.
pub(super) fn range(x: &Activations, w: &WeightRows<'_>, range: Range<usize>, y: &Disjoint<'_, f32>) {
    let mut out = [0.0; ROWS];
    for m in (0..x.m()).step_by(ROWS) {
        let end = x.m().min(m + ROWS);
        for n in range.clone() {
            row(w.encoding(), w.row(n), x, m..end, &mut out);
            for (m, &value) in (m..end).zip(&out) {
                put(y, w.rows(), m, n..n + 1, &[value]);
            }
        }
    }
}

multiversion! {
    /// The products of one row of weights with up to [`ROWS`] rows of activations.
    pub(super) fn row(
        encoding: Encoding,
        bytes: &[u8],
        x: &Activations,
        rows: Range<usize>,
        out: &mut [f32; ROWS],
    ) {
        let mut lanes = [[0.0_f32; BLOCKS]; ROWS];
        let mut group = Group::ZERO;
        for (g, bytes) in bytes.chunks(group_bytes(encoding)).enumerate() {
            unpack(encoding, bytes, &mut group);
            for (m, lanes) in rows.clone().zip(&mut lanes) {
                add_group(encoding, &group, x.row(m), g, lanes);
            }
        }
        for (out, lanes) in out.iter_mut().zip(lanes) {
            *out = add_lanes(lanes) * unit(encoding);
        }
    }
}

/// Adds the products of one group to the lanes.
#[inline(always)]
fn add_group(encoding: Encoding, group: &Group, x: Row<'_>, g: usize, lanes: &mut [f32; BLOCKS]) {
    let (codes, sums, scales) = (&x.codes[g], &x.sums[g], &x.scales[g]);
    let offset = i32::from(offset(encoding));
    let minimum_scale = if has_minimums(encoding) { Some(group.minimum_scale) } else { None };
    let blocks = group.codes.as_chunks::<16>().0.as_chunks::<2>().0;
    let factors = group.factors.as_chunks::<2>().0;
    let minimums = group.minimums.as_chunks::<2>().0;
    for j in 0..BLOCKS {
        let (mut product, mut minimum) = (0, 0);
        for half in 0..2 {
            let at = place(j, half * 16);
            let (even, odd) = (&codes[at..at + 8], &codes[at + ODD..at + ODD + 8]);
            let mut sum = 0_i32;
            for ((&[u, v], &even), &odd) in blocks[j][half].as_chunks::<2>().0.iter().zip(even).zip(odd) {
                sum += i32::from(u) * i32::from(even) + i32::from(v) * i32::from(odd);
            }
            product += i32::from(factors[j][half]) * (sum - offset * sums[half][j]);
            minimum += i32::from(minimums[j][half]) * sums[half][j];
        }
        let mut term = group.scales[j] * product as f32;
        if let Some(scale) = minimum_scale {
            term -= scale * minimum as f32;
        }
        lanes[j] += scales[j] * term;
    }
}
