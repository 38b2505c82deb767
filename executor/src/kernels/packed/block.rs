//! The portable kernel, and the form that the others are tested against.

use super::super::cpu::multiversion;
use super::activations::{Quantized, Row};
use super::layout::{BLOCK, BLOCKS, GROUP, Layout, PANEL, QUAD, factor, has_halves, has_minimums, offset, unit};
use super::{Packed, Target};
use half::f16;
use std::ops::Range;
use tallow_format::Encoding;

/// Blocks of one panel with a byte a code and `f32` scales.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    pub(super) codes: Vec<Quads>,
    /// Scales of the halves of a block; the second is unused where a block has one.
    pub(super) scales: Vec<Scales>,
    /// Minimums, negated, over 16 / [`factor`].
    pub(super) minimums: Vec<Scales>,
}

/// The codes of a block, by half: four quads of codes times [`factor`], which meet the high bytes of activations, then
/// four of a sixteenth of that, rounded to nearest, which meet the low ones. A quad is `[row · 4 + k mod 4]`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Quads(pub(super) [[[[u8; QUAD]; 4]; 2]; 2]);

/// Scales of the halves of a block, by row.
pub(super) type Scales = [[f32; PANEL]; 2];

impl Unpacked {
    /// Makes room for so many columns.
    pub(super) fn reserve(&mut self, columns: usize) {
        let blocks = columns / BLOCK;
        if self.codes.len() < blocks {
            self.codes.resize(blocks, Quads([[[[0; QUAD]; 4]; 2]; 2]));
            self.scales.resize(blocks, [[0.0; PANEL]; 2]);
            self.minimums.resize(blocks, [[0.0; PANEL]; 2]);
        }
    }

    /// Unpacks blocks of a panel. Codes get their sign, `signed`, or keep the offset that they are packed with.
    pub(super) fn fill(&mut self, layout: &Layout, panel: &[u8], blocks: Range<usize>, signed: bool) {
        self.reserve(blocks.len() * BLOCK);
        let offset = if signed { offset(layout.encoding) } else { 0 };
        match layout.encoding {
            Encoding::Q8 => unpack_q8(layout, panel, blocks, offset, self),
            Encoding::Q4 => unpack_q4(layout, panel, blocks, offset, self),
            Encoding::Q2K => unpack_q2k(layout, panel, blocks, offset, self),
            Encoding::Q3K => unpack_q3k(layout, panel, blocks, offset, self),
            Encoding::Q4K => unpack_q4k(layout, panel, blocks, offset, self),
            Encoding::Q5K => unpack_q5k(layout, panel, blocks, offset, self),
            Encoding::Q6K => unpack_q6k(layout, panel, blocks, offset, self),
            // Not packed.
            Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
        }
    }
}

/// [`factor`] by encoding.
const Q8: u8 = factor(Encoding::Q8);
const Q4: u8 = factor(Encoding::Q4);
const Q5K: u8 = factor(Encoding::Q5K);
const Q6K: u8 = factor(Encoding::Q6K);
const Q3K: u8 = factor(Encoding::Q3K);
const Q2K: u8 = factor(Encoding::Q2K);

multiversion! {
    fn unpack_q8(layout: &Layout, panel: &[u8], blocks: Range<usize>, offset: u8, to: &mut Unpacked) {
        for Block { from, head, to, .. } in each_block(layout, panel, blocks, to) {
            for (j, from) in from.iter().enumerate() {
                fill::<Q8>(to.codes, j, offset, |i| from[i]);
            }
            words(head, &mut to.scales[0]);
        }
    }
}

multiversion! {
    fn unpack_q4(layout: &Layout, panel: &[u8], blocks: Range<usize>, offset: u8, to: &mut Unpacked) {
        for Block { from, head, to, .. } in each_block(layout, panel, blocks, to) {
            nibbles::<Q4>(from, |_, _| 0, offset, to.codes);
            words(head, &mut to.scales[0]);
        }
    }
}

multiversion! {
    fn unpack_q4k(layout: &Layout, panel: &[u8], blocks: Range<usize>, offset: u8, to: &mut Unpacked) {
        for Block { b, from, head, to } in each_block(layout, panel, blocks, to) {
            nibbles::<Q4>(from, |_, _| 0, offset, to.codes);
            with_minimums::<Q4>(head, b % BLOCKS, to);
        }
    }
}

multiversion! {
    fn unpack_q5k(layout: &Layout, panel: &[u8], blocks: Range<usize>, offset: u8, to: &mut Unpacked) {
        for Block { b, from, head, to } in each_block(layout, panel, blocks, to) {
            nibbles::<Q5K>(from, |j, i| (from[4][i] >> j & 1) << 4, offset, to.codes);
            with_minimums::<Q5K>(head, b % BLOCKS, to);
        }
    }
}

multiversion! {
    fn unpack_q6k(layout: &Layout, panel: &[u8], blocks: Range<usize>, offset: u8, to: &mut Unpacked) {
        for Block { b, from, head, to } in each_block(layout, panel, blocks, to) {
            nibbles::<Q6K>(from, |j, i| pair(&from[4 + j / 4], j, i) << 4, offset, to.codes);
            signed_scales(head, b % BLOCKS, to.scales);
        }
    }
}

multiversion! {
    fn unpack_q3k(layout: &Layout, panel: &[u8], blocks: Range<usize>, offset: u8, to: &mut Unpacked) {
        for Block { b, from, head, to } in each_block(layout, panel, blocks, to) {
            for j in 0..8 {
                fill::<Q3K>(to.codes, j, offset, |i| pair(&from[j / 4], j, i) | (from[2][i] >> j & 1) << 2);
            }
            signed_scales(head, b % BLOCKS, to.scales);
        }
    }
}

multiversion! {
    fn unpack_q2k(layout: &Layout, panel: &[u8], blocks: Range<usize>, offset: u8, to: &mut Unpacked) {
        for Block { b, from, head, to } in each_block(layout, panel, blocks, to) {
            for j in 0..8 {
                fill::<Q2K>(to.codes, j, offset, |i| pair(&from[j / 4], j, i));
            }
            for half in 0..2 {
                let both = small(head, 2 * (b % BLOCKS) + half);
                for (r, both) in both.iter().enumerate() {
                    to.scales[half][r] = half_at(head, r) * f32::from(both & 15);
                    to.minimums[half][r] = -(half_at(head, PANEL + r) * f32::from(both >> 4));
                }
            }
        }
    }
}

/// Where one block goes.
struct Place<'a> {
    codes: &'a mut Quads,
    scales: &'a mut Scales,
    minimums: &'a mut Scales,
}

/// One block of a panel, and where it goes.
struct Block<'a> {
    b: usize,
    from: &'a [[u8; QUAD]],
    /// Its scales (`q8`, `q4`) or the head of its super-block.
    head: &'a [u8],
    to: Place<'a>,
}

/// The blocks of a panel.
#[inline(always)]
fn each_block<'a>(
    layout: &'a Layout,
    panel: &'a [u8],
    blocks: Range<usize>,
    to: &'a mut Unpacked,
) -> impl Iterator<Item = Block<'a>> {
    let places = to.codes.iter_mut().zip(&mut to.scales).zip(&mut to.minimums);
    blocks.zip(places).map(|(b, ((codes, scales), minimums))| {
        let at = layout.codes_at(b);
        let from = panel[at..at + layout.block_bytes].as_chunks().0;
        Block { b, from, head: &panel[layout.head_at(b)..], to: Place { codes, scales, minimums } }
    })
}

/// Fills both quads of quad `j` of a block from codes without sign.
#[inline(always)]
fn fill<const FACTOR: u8>(to: &mut Quads, j: usize, offset: u8, f: impl Fn(usize) -> u8) {
    let [high, low] = &mut to.0[j / 4];
    let (offset, low_offset) = (offset.wrapping_mul(FACTOR), offset.wrapping_mul(FACTOR) / 16);
    for (i, (high, low)) in high[j % 4].iter_mut().zip(&mut low[j % 4]).enumerate() {
        let code = f(i);
        *high = code.wrapping_mul(FACTOR).wrapping_sub(offset);
        *low = sixteenth::<FACTOR>(code).wrapping_sub(low_offset);
    }
}

/// `code · FACTOR / 16`, rounded to nearest, halves up.
#[inline(always)]
fn sixteenth<const FACTOR: u8>(code: u8) -> u8 {
    if FACTOR == 16 { code } else { (code / (8 / FACTOR)).wrapping_add(1) / 2 }
}

/// Codes with four low bits in nibbles; `high` gives the rest of quad `j`.
#[inline(always)]
fn nibbles<const FACTOR: u8>(from: &[[u8; QUAD]], high: impl Fn(usize, usize) -> u8, offset: u8, to: &mut Quads) {
    for (j, from) in from.iter().enumerate().take(4) {
        fill::<FACTOR>(to, j, offset, |i| from[i] & 15 | high(j, i));
        fill::<FACTOR>(to, j + 4, offset, |i| from[i] >> 4 | high(j + 4, i));
    }
}

/// Two bits of quad `j`.
#[inline(always)]
fn pair(from: &[u8; QUAD], j: usize, i: usize) -> u8 {
    from[i] >> (j % 4 * 2) & 3
}

/// Scales in fixed point.
#[inline(always)]
fn words(head: &[u8], to: &mut [f32; PANEL]) {
    for (to, word) in to.iter_mut().zip(head.as_chunks::<2>().0) {
        *to = f32::from(u16::from_le_bytes(*word));
    }
}

/// Half-precision number `index` of a head.
#[inline(always)]
fn half_at(head: &[u8], index: usize) -> f32 {
    f16::from_le_bytes([head[2 * index], head[2 * index + 1]]).to_f32()
}

/// The integer scales `index` of the rows.
#[inline(always)]
fn small(head: &[u8], index: usize) -> &[u8] {
    &head[64 + index * PANEL..64 + (index + 1) * PANEL]
}

/// The scales of `q4k` and `q5k`, one a block.
#[inline(always)]
fn with_minimums<const FACTOR: u8>(head: &[u8], j: usize, to: Place<'_>) {
    let (scale, minimum) = (small(head, j), small(head, 8 + j));
    for r in 0..PANEL {
        to.scales[0][r] = half_at(head, r) * f32::from(scale[r]);
        let minimum = half_at(head, PANEL + r) * f32::from(minimum[r]);
        to.minimums[0][r] = minimum * (f32::from(FACTOR) * -0.0625);
    }
}

/// The scales of `q3k` and `q6k`, two a block.
#[inline(always)]
fn signed_scales(head: &[u8], j: usize, scales: &mut Scales) {
    for (half, scales) in scales.iter_mut().enumerate() {
        for (r, (scale, small)) in scales.iter_mut().zip(small(head, 2 * j + half)).enumerate() {
            *scale = half_at(head, r) * f32::from(*small as i8);
        }
    }
}

/// As [`super::product`].
pub(super) fn product(
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
    unpacked: &mut Unpacked,
) {
    for panel in panels {
        unpacked.fill(&w.layout, w.panel(panel), 0..x.k() / BLOCK, false);
        let rows = PANEL.min(w.rows - panel * PANEL);
        for m in 0..x.m() {
            let mut y = [0.0; PANEL];
            row(w.layout.encoding, x.row(m), unpacked, &mut y);
            target.put(m, panel * PANEL, &mut y[..rows]);
        }
    }
}

/// What a sum of products of codes with their offset has too much, for activations whose codes have the sum `sum`.
#[inline(always)]
pub(super) fn excess(encoding: Encoding, sum: i32) -> i32 {
    sum * (i32::from(offset(encoding)) * i32::from(factor(encoding)) / 16)
}

multiversion! {
    /// The outputs of one row of activations with one unpacked panel of codes with their offset.
    pub(super) fn row(encoding: Encoding, x: Row<'_>, w: &Unpacked, y: &mut [f32; PANEL]) {
        let mut acc = [0.0_f32; PANEL];
        for (b, (codes, &scale)) in x.codes.iter().zip(x.scales).enumerate() {
            let [one, two] = x.sums[b];
            let mut sums = [[-excess(encoding, one); PANEL], [-excess(encoding, two); PANEL]];
            for ((sums, codes), quads) in sums.iter_mut().zip(codes.0.as_chunks::<BLOCK>().0).zip(&w.codes[b].0) {
                for (four, quad) in codes.as_chunks::<4>().0.iter().zip(quads.as_flattened()) {
                    for (sum, codes) in sums.iter_mut().zip(quad.as_chunks::<4>().0) {
                        for (code, x) in codes.iter().zip(four) {
                            *sum += i32::from(*code) * i32::from(*x);
                        }
                    }
                }
            }
            let parts = if has_halves(encoding) {
                [Some((sums[0], one)), Some((sums[1], two))]
            } else {
                let [first, second] = sums;
                [Some((std::array::from_fn(|r| first[r] + second[r]), one + two)), None]
            };
            for (half, (sums, sum)) in parts.into_iter().flatten().enumerate() {
                for r in 0..PANEL {
                    acc[r] = (sums[r] as f32).mul_add(w.scales[b][half][r] * scale, acc[r]);
                    if has_minimums(encoding) {
                        acc[r] = w.minimums[b][half][r].mul_add(sum as f32 * scale, acc[r]);
                    }
                }
            }
        }
        for (y, acc) in y.iter_mut().zip(acc) {
            *y = acc * unit(encoding);
        }
    }
}

const _: () = assert!(GROUP == BLOCKS * BLOCK);
