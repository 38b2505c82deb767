//! The portable kernel, and the form that the others are tested against.

use super::super::cpu::multiversion;
use super::activations::{Quantized, Row};
use super::layout::{BLOCK, BLOCKS, GROUP, Layout, PANEL, QUAD, has_halves, has_minimums, offset, unit};
use super::{Packed, Target};
use half::f16;
use std::ops::Range;
use tallow_format::Encoding;

/// One panel with a byte a code and `f32` scales, in the order of blocks.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    /// Codes with their sign: eight quads a block.
    pub(super) codes: Vec<Quads>,
    /// Scales of the halves of a block; the second is unused where a block has one.
    pub(super) scales: Vec<[[f32; PANEL]; 2]>,
    /// Minimums, negated.
    pub(super) minimums: Vec<[[f32; PANEL]; 2]>,
}

/// The codes of a block: `[quad][row · 4 + k mod 4]`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Quads(pub(super) [[u8; QUAD]; 8]);

impl Unpacked {
    /// Makes room for rows of `k`.
    pub(super) fn reserve(&mut self, k: usize) {
        let blocks = k / BLOCK;
        if self.codes.len() < blocks {
            self.codes.resize(blocks, Quads([[0; QUAD]; 8]));
            self.scales.resize(blocks, [[0.0; PANEL]; 2]);
            self.minimums.resize(blocks, [[0.0; PANEL]; 2]);
        }
    }

    /// Unpacks a panel. Codes get their sign, `signed`, or stay as they are packed.
    pub(super) fn fill(&mut self, layout: &Layout, panel: &[u8], signed: bool) {
        self.reserve(layout.k);
        let offset = if signed { offset(layout.encoding) } else { 0 };
        let (codes, scales, minimums) = (&mut self.codes, &mut self.scales, &mut self.minimums);
        match layout.encoding {
            Encoding::Q8 => unpack_q8(layout, panel, offset, codes, scales),
            Encoding::Q4 => unpack_q4(layout, panel, offset, codes, scales),
            Encoding::Q2K => unpack_q2k(layout, panel, offset, codes, scales, minimums),
            Encoding::Q3K => unpack_q3k(layout, panel, offset, codes, scales),
            Encoding::Q4K => unpack_q4k(layout, panel, offset, codes, scales, minimums),
            Encoding::Q5K => unpack_q5k(layout, panel, offset, codes, scales, minimums),
            Encoding::Q6K => unpack_q6k(layout, panel, offset, codes, scales),
            // Not packed.
            Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
        }
    }
}

/// Scales of the halves of a block, by row.
type Scales = [[f32; PANEL]; 2];

multiversion! {
    fn unpack_q8(layout: &Layout, panel: &[u8], offset: u8, codes: &mut [Quads], scales: &mut [Scales]) {
        each_block(layout, panel, |b, from, head| {
            for (to, from) in codes[b].0.iter_mut().zip(from) {
                fill(to, |i| from[i].wrapping_sub(offset));
            }
            words(head, &mut scales[b][0]);
        });
    }
}

multiversion! {
    fn unpack_q4(layout: &Layout, panel: &[u8], offset: u8, codes: &mut [Quads], scales: &mut [Scales]) {
        each_block(layout, panel, |b, from, head| {
            nibbles(from, |_, _| 0, offset, &mut codes[b]);
            words(head, &mut scales[b][0]);
        });
    }
}

multiversion! {
    fn unpack_q4k(
        layout: &Layout,
        panel: &[u8],
        offset: u8,
        codes: &mut [Quads],
        scales: &mut [Scales],
        minimums: &mut [Scales],
    ) {
        each_block(layout, panel, |b, from, head| {
            nibbles(from, |_, _| 0, offset, &mut codes[b]);
            with_minimums(head, b % BLOCKS, &mut scales[b], &mut minimums[b]);
        });
    }
}

multiversion! {
    fn unpack_q5k(
        layout: &Layout,
        panel: &[u8],
        offset: u8,
        codes: &mut [Quads],
        scales: &mut [Scales],
        minimums: &mut [Scales],
    ) {
        each_block(layout, panel, |b, from, head| {
            nibbles(from, |j, i| (from[4][i] >> j & 1) << 4, offset, &mut codes[b]);
            with_minimums(head, b % BLOCKS, &mut scales[b], &mut minimums[b]);
        });
    }
}

multiversion! {
    fn unpack_q6k(layout: &Layout, panel: &[u8], offset: u8, codes: &mut [Quads], scales: &mut [Scales]) {
        each_block(layout, panel, |b, from, head| {
            nibbles(from, |j, i| pair(&from[4 + j / 4], j, i) << 4, offset, &mut codes[b]);
            signed_scales(head, b % BLOCKS, &mut scales[b]);
        });
    }
}

multiversion! {
    fn unpack_q3k(layout: &Layout, panel: &[u8], offset: u8, codes: &mut [Quads], scales: &mut [Scales]) {
        each_block(layout, panel, |b, from, head| {
            for (j, to) in codes[b].0.iter_mut().enumerate() {
                fill(to, |i| (pair(&from[j / 4], j, i) | (from[2][i] >> j & 1) << 2).wrapping_sub(offset));
            }
            signed_scales(head, b % BLOCKS, &mut scales[b]);
        });
    }
}

multiversion! {
    fn unpack_q2k(
        layout: &Layout,
        panel: &[u8],
        offset: u8,
        codes: &mut [Quads],
        scales: &mut [Scales],
        minimums: &mut [Scales],
    ) {
        each_block(layout, panel, |b, from, head| {
            for (j, to) in codes[b].0.iter_mut().enumerate() {
                fill(to, |i| pair(&from[j / 4], j, i).wrapping_sub(offset));
            }
            for half in 0..2 {
                let both = small(head, 2 * (b % BLOCKS) + half);
                for r in 0..PANEL {
                    scales[b][half][r] = half_at(head, r) * f32::from(both[r] & 15);
                    minimums[b][half][r] = -(half_at(head, PANEL + r) * f32::from(both[r] >> 4));
                }
            }
        });
    }
}

/// Calls `f` with the number of each block, its codes, and its scales (`q8`, `q4`) or the head of its super-block.
#[inline(always)]
fn each_block(layout: &Layout, panel: &[u8], mut f: impl FnMut(usize, &[[u8; QUAD]], &[u8])) {
    for b in 0..layout.k / BLOCK {
        let at = layout.codes_at(b);
        f(b, panel[at..at + layout.block_bytes].as_chunks().0, &panel[layout.head_at(b)..]);
    }
}

/// Fills a quad.
#[inline(always)]
fn fill(to: &mut [u8; QUAD], f: impl Fn(usize) -> u8) {
    for (i, to) in to.iter_mut().enumerate() {
        *to = f(i);
    }
}

/// Codes with four low bits in nibbles; `high` gives the rest of quad `j`.
#[inline(always)]
fn nibbles(from: &[[u8; QUAD]], high: impl Fn(usize, usize) -> u8, offset: u8, to: &mut Quads) {
    let (first, second) = to.0.split_at_mut(4);
    for (j, to) in first.iter_mut().enumerate() {
        fill(to, |i| (from[j][i] & 15 | high(j, i)).wrapping_sub(offset));
    }
    for (j, to) in second.iter_mut().enumerate() {
        fill(to, |i| (from[j][i] >> 4 | high(j + 4, i)).wrapping_sub(offset));
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
fn with_minimums(head: &[u8], j: usize, scales: &mut Scales, minimums: &mut Scales) {
    let (scale, minimum) = (small(head, j), small(head, 8 + j));
    for r in 0..PANEL {
        scales[0][r] = half_at(head, r) * f32::from(scale[r]);
        minimums[0][r] = -(half_at(head, PANEL + r) * f32::from(minimum[r]));
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
    target: Target<'_>,
    unpacked: &mut Unpacked,
) {
    for panel in panels {
        unpacked.fill(&w.layout, w.panel(panel), true);
        let rows = PANEL.min(w.rows - panel * PANEL);
        for m in 0..x.m() {
            let mut y = [0.0; PANEL];
            row(w.layout.encoding, x.row(m), unpacked, &mut y);
            target.put(m, panel * PANEL, &y[..rows]);
        }
    }
}

multiversion! {
    /// The outputs of one row of activations with one unpacked panel.
    pub(super) fn row(encoding: Encoding, x: Row<'_>, w: &Unpacked, y: &mut [f32; PANEL]) {
        let halves = if has_halves(encoding) { 2 } else { 1 };
        let quads = 8 / halves;
        for (g, &scale) in x.scales.iter().enumerate() {
            let mut acc = [0.0_f32; PANEL];
            for b in g * BLOCKS..(x.high.len() / BLOCK).min((g + 1) * BLOCKS) {
                for half in 0..halves {
                    let mut sums = [0_i32; PANEL];
                    for j in half * quads..(half + 1) * quads {
                        let at = b * BLOCK + j * 4;
                        let mut four = [0_i32; 4];
                        for (i, code) in four.iter_mut().enumerate() {
                            *code = 256 * i32::from(x.high[at + i]) + i32::from(x.low[at + i]);
                        }
                        for (sum, codes) in sums.iter_mut().zip(w.codes[b].0[j].as_chunks::<4>().0) {
                            for (code, x) in codes.iter().zip(four) {
                                *sum += i32::from(*code as i8) * x;
                            }
                        }
                    }
                    let total = if halves == 2 { x.halves[2 * b + half] } else { x.sums[b] } as f32;
                    for r in 0..PANEL {
                        acc[r] = (sums[r] as f32).mul_add(w.scales[b][half][r], acc[r]);
                        if has_minimums(encoding) {
                            acc[r] = total.mul_add(w.minimums[b][half][r], acc[r]);
                        }
                    }
                }
            }
            for (y, acc) in y.iter_mut().zip(acc) {
                *y = acc.mul_add(scale, *y);
            }
        }
        for y in y {
            *y *= unit(encoding);
        }
    }
}

const _: () = assert!(GROUP == BLOCKS * BLOCK);
