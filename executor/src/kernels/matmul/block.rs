//! The portable kernel for block encodings, and the form that the others are tested against.

use super::super::WeightRows;
use super::super::cpu::multiversion;
use super::super::disjoint::Disjoint;
use super::super::math::add_lanes;
use super::activations::{Activations, Row, place};
use super::groups::{BLOCKS, Group, HALVES, group_bytes, has_minimums, offset, unit, unpack};
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
    let mut halves = [0_i32; HALVES];
    for (half, product) in halves.iter_mut().enumerate() {
        let at = place(half / 2, half % 2);
        let (u, x) = (&group.codes[half * 16..half * 16 + 16], &codes[at..at + 16]);
        let mut sum = 0_i32;
        for (&u, &x) in u.iter().zip(x) {
            sum += i32::from(u) * i32::from(x);
        }
        *product = i32::from(group.factors[half]) * (sum - offset * i32::from(sums[half]));
    }
    for j in 0..BLOCKS {
        let mut term = group.scales[j] * (halves[2 * j] + halves[2 * j + 1]) as f32;
        if has_minimums(encoding) {
            let minimum = i32::from(group.minimums[2 * j]) * i32::from(sums[2 * j])
                + i32::from(group.minimums[2 * j + 1]) * i32::from(sums[2 * j + 1]);
            term -= group.minimum_scale * minimum as f32;
        }
        lanes[j] += scales[j] * term;
    }
}
