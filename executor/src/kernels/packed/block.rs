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
        unpack(layout, panel, signed, &mut self.codes, &mut self.scales, &mut self.minimums);
    }
}

multiversion! {
    fn unpack(
        layout: &Layout,
        panel: &[u8],
        signed: bool,
        codes: &mut [Quads],
        scales: &mut [[[f32; PANEL]; 2]],
        minimums: &mut [[[f32; PANEL]; 2]],
    ) {
        let offset = if signed { offset(layout.encoding) } else { 0 };
        for b in 0..layout.k / BLOCK {
            let at = layout.codes_at(b);
            unpack_block(layout.encoding, &panel[at..at + layout.block_bytes], offset, &mut codes[b]);
            let head = &panel[layout.head_at(b)..];
            unpack_scales(layout.encoding, head, b % BLOCKS, &mut scales[b], &mut minimums[b]);
        }
    }
}

/// The codes of a block, less `offset`.
#[inline(always)]
fn unpack_block(encoding: Encoding, from: &[u8], offset: u8, to: &mut Quads) {
    let from = from.as_chunks::<QUAD>().0;
    for (j, to) in to.0.iter_mut().enumerate() {
        for (i, to) in to.iter_mut().enumerate() {
            let nibble = || from[j % 4][i] >> (j / 4 * 4) & 15;
            let pair = |vector: usize| from[vector][i] >> (j % 4 * 2) & 3;
            let code = match encoding {
                Encoding::Q8 => from[j][i],
                Encoding::Q4 | Encoding::Q4K => nibble(),
                Encoding::Q5K => nibble() | (from[4][i] >> j & 1) << 4,
                Encoding::Q6K => nibble() | pair(4 + j / 4) << 4,
                Encoding::Q2K => pair(j / 4),
                Encoding::Q3K => pair(j / 4) | (from[2][i] >> j & 1) << 2,
                // Not packed.
                Encoding::U32 | Encoding::U16 | Encoding::Ternary => 0,
            };
            *to = code.wrapping_sub(offset);
        }
    }
}

/// The scales and negated minimums of block `j` of a group. `head` begins at those of the block (`q8`, `q4`) or of its
/// super-block.
#[inline(always)]
fn unpack_scales(
    encoding: Encoding,
    head: &[u8],
    j: usize,
    scales: &mut [[f32; PANEL]; 2],
    minimums: &mut [[f32; PANEL]; 2],
) {
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    for r in 0..PANEL {
        let d = || f16::from_bits(word(2 * r)).to_f32();
        let dmin = || f16::from_bits(word(32 + 2 * r)).to_f32();
        let small = |index: usize| head[64 + index * PANEL + r];
        match encoding {
            Encoding::Q8 | Encoding::Q4 => scales[0][r] = f32::from(word(2 * r)),
            Encoding::Q4K | Encoding::Q5K => {
                scales[0][r] = d() * f32::from(small(j));
                minimums[0][r] = -(dmin() * f32::from(small(8 + j)));
            }
            Encoding::Q6K | Encoding::Q3K => {
                for half in 0..2 {
                    scales[half][r] = d() * f32::from(small(2 * j + half) as i8);
                }
            }
            Encoding::Q2K => {
                for half in 0..2 {
                    let byte = small(2 * j + half);
                    scales[half][r] = d() * f32::from(byte & 15);
                    minimums[half][r] = -(dmin() * f32::from(byte >> 4));
                }
            }
            // Not packed.
            Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
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
