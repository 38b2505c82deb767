//! Products of several tokens: tiles of up to sixteen, which lie together.

use super::super::activations::{Codes, Quantized, TILE, Tile, Weights};
use super::super::block::{Unpacked, excess};
use super::super::layout::{BLOCK, BLOCKS, QUAD, factor, has_halves, has_minimums};
use super::super::{Packed, Target};
use super::codes::{Head, ask, block_bytes, encoding_of, quads, scales, sixteenth};
use super::put;
use std::arch::x86_64::*;
use std::ops::Range;
use tallow_format::Encoding;

/// Tokens of a tile up to which the sums of both planes of activations fit into registers.
const SPLIT: usize = 12;
/// Bytes of panels that stay in the second-level cache while tiles of tokens pass over them.
const PANELS_CACHED: usize = 1 << 18;
/// Bytes of tokens' codes that stay in that cache while unpacked panels pass over them.
const CODES_CACHED: usize = 1 << 20;
/// How far ahead memory is asked for, in bytes: further than for single tokens, as tiles take longer.
const AHEAD_OF_TILES: usize = 4096;

/// The outputs of tokens in whole tiles, a panel at a time. The encoding has scales for half blocks and no minimums.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn many_tokens(
    x: &Quantized,
    tokens: Range<usize>,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
    unpacked: &mut Unpacked,
) {
    let blocks = x.k() / BLOCK;
    let together = (CODES_CACHED / (TILE * size_of::<Codes>() * blocks.max(1))).max(4) * TILE;
    let encoding = w.encoding();
    for start in tokens.clone().step_by(together) {
        for panel in panels.clone() {
            unpacked.fill(&w.layout, w.panel(panel), 0..blocks, false);
            for first in (start..tokens.end.min(start + together)).step_by(TILE) {
                // SAFETY: the features are there, the tile, and the panel has been unpacked for rows of this length.
                let y = unsafe { unpacked_tile(encoding, x.tile(first), unpacked) };
                for (m, y) in (first..).zip(y) {
                    put(encoding, y, m, panel, w, target);
                }
            }
        }
    }
}

/// The products of a tile of tokens with one unpacked panel, as for [`many_tokens`].
///
/// # Safety
/// The machine has the features and the panel the blocks of the rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn unpacked_tile(encoding: Encoding, x: Tile<'_>, w: &Unpacked) -> [__m512; TILE] {
    let mut y = [_mm512_setzero_ps(); TILE];
    for b in 0..x.codes.len() {
        // SAFETY: the blocks are there.
        unsafe {
            let x = Block::of(x, b);
            let quads = &w.codes.get_unchecked(b).0;
            let load = |quad: &[u8; QUAD]| _mm512_load_si512(quad.as_ptr().cast());
            for (half, quads) in quads.iter().enumerate() {
                let sums: [i32; TILE] = x.sums(true, half);
                let mut total = [_mm512_setzero_si512(); TILE];
                // Loops, since calls into `map` would not be inlined here.
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = _mm512_set1_epi32(-excess(encoding, sum));
                }
                for (plane, quads) in quads.iter().enumerate() {
                    for (i, quad) in quads.iter().enumerate() {
                        let quad = load(quad);
                        for (t, total) in total.iter_mut().enumerate() {
                            *total = _mm512_dpbusd_epi32(*total, quad, x.four(t, half, plane, i));
                        }
                    }
                }
                let scale = _mm512_loadu_ps(w.scales[b][half].as_ptr());
                x.add::<true, false, TILE>(half, &total, scale, _mm512_setzero_ps(), &mut y);
            }
        }
    }
    y
}

/// One block of a tile of tokens.
#[derive(Clone, Copy)]
struct Block<'a> {
    codes: &'a [Codes; TILE],
    scales: &'a [f32; TILE],
    sums: &'a [[i32; 2]; TILE],
    weights: &'a [Weights; TILE],
}

impl<'a> Block<'a> {
    /// # Safety
    /// The tile has the block.
    #[inline(always)]
    unsafe fn of(x: Tile<'a>, b: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                codes: x.codes.get_unchecked(b),
                scales: x.scales.get_unchecked(b),
                sums: x.sums.get_unchecked(b),
                weights: x.weights.get_unchecked(b),
            }
        }
    }

    /// The sums of the codes of the block, or of one of its halves.
    #[inline(always)]
    fn sums<const N: usize>(&self, halves: bool, half: usize) -> [i32; N] {
        std::array::from_fn(|t| {
            let [one, two] = self.sums[t];
            if halves { self.sums[t][half] } else { one + two }
        })
    }

    /// Of a half of token `t`, four high bytes or low ones, in every lane.
    ///
    /// # Safety
    /// The machine has the features; two halves, two planes, four times four codes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn four(&self, t: usize, part: usize, plane: usize, i: usize) -> __m512i {
        let base = self.codes.as_ptr().cast::<i8>();
        // SAFETY: inside the codes of the token, whose parts begin at multiples of four bytes.
        unsafe {
            let at = base.add(part * BLOCK).add(t * size_of::<Codes>() + plane * (BLOCK / 2) + i * 4);
            _mm512_set1_epi32(at.cast::<i32>().read())
        }
    }

    /// Adds sums of products times their scales.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    fn add<const HALVES: bool, const MINIMUMS: bool, const N: usize>(
        &self,
        half: usize,
        total: &[__m512i; N],
        scale: __m512,
        minimum: __m512,
        y: &mut [__m512; N],
    ) {
        for (t, (total, y)) in total.iter().zip(y).enumerate() {
            let scale = _mm512_mul_ps(scale, _mm512_set1_ps(self.scales[t]));
            *y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(*total), scale, *y);
            if MINIMUMS {
                let weight = self.weights[t][if HALVES { half } else { 2 }];
                *y = _mm512_fmadd_ps(minimum, _mm512_set1_ps(weight), *y);
            }
        }
    }
}

/// The outputs of tokens, which lie in tiles.
///
/// # Safety
/// The machine has the features, and `tokens` begin with a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn few_tokens<const E: u8>(
    x: &Quantized,
    tokens: Range<usize>,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
) {
    let together = (PANELS_CACHED / w.panel_bytes().max(1)).max(1);
    for start in panels.clone().step_by(together) {
        for first in tokens.clone().step_by(TILE) {
            let tokens = first..tokens.end.min(first + TILE);
            for panel in start..panels.end.min(start + together) {
                let tokens = tokens.clone();
                // SAFETY: the features are there, and the panel and the tile.
                unsafe {
                    match tokens.len() {
                        0..=2 => tile::<E, 2>(x, tokens, w, panel, target),
                        3..=4 => tile::<E, 4>(x, tokens, w, panel, target),
                        5..=8 => tile::<E, 8>(x, tokens, w, panel, target),
                        9..=12 => tile::<E, 12>(x, tokens, w, panel, target),
                        _ => tile::<E, TILE>(x, tokens, w, panel, target),
                    }
                }
            }
        }
    }
}

/// The outputs of up to `N` tokens with a panel. `tokens` are the first ones of a tile.
///
/// # Safety
/// The machine has the features and the matrix the panel.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn tile<const E: u8, const N: usize>(
    x: &Quantized,
    tokens: Range<usize>,
    w: &Packed<'_>,
    panel: usize,
    target: &mut Target<'_>,
) {
    let x = x.tile(tokens.start);
    let layout = &w.layout;
    let start = w.panel(panel).as_ptr();
    let mut y = [_mm512_setzero_ps(); N];
    let blocks = layout.k / BLOCK;
    for g in 0..blocks.div_ceil(BLOCKS) {
        // SAFETY: offsets of the layout lie inside the panel, and the tile has the blocks.
        unsafe {
            let head = Head::load::<E>(start.add(layout.head_at(g * BLOCKS)));
            for b in g * BLOCKS..blocks.min((g + 1) * BLOCKS) {
                let of_block = start.add(layout.head_at(b));
                block_of_tile::<E, N>(
                    Block::of(x, b),
                    b % BLOCKS,
                    start.add(layout.codes_at(b)),
                    of_block,
                    &head,
                    &mut y,
                );
            }
        }
    }
    for (m, y) in tokens.zip(y) {
        put(encoding_of(E), y, m, panel, w, target);
    }
}

/// Adds the products of one block of one panel with `N` tokens.
///
/// # Safety
/// The machine has the features, and `codes` and `block_head` point at the block's parts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn block_of_tile<const E: u8, const N: usize>(
    x: Block<'_>,
    j: usize,
    codes: *const u8,
    block_head: *const u8,
    head: &Head,
    acc: &mut [__m512; N],
) {
    let encoding = encoding_of(E);
    let whole = !has_halves(encoding);
    let shift = |v: __m512i| {
        let by = const { factor(encoding_of(E)).trailing_zeros() };
        _mm512_sll_epi32(v, _mm_cvtsi32_si128(by as i32))
    };
    // SAFETY: the caller's promise.
    unsafe {
        ask(codes.wrapping_add(AHEAD_OF_TILES), block_bytes(E));
        let quads = quads::<E>(codes);
        for half in 0..if whole { 1 } else { 2 } {
            let parts = if whole { 0..2 } else { half..half + 1 };
            let sums: [i32; N] = x.sums(!whole, half);
            let mut total = [_mm512_setzero_si512(); N];
            if N > SPLIT {
                // One plane after the other: sums of both would not fit into registers.
                for part in parts.clone() {
                    for i in 0..4 {
                        let above = quads[4 * part + i];
                        for (t, total) in total.iter_mut().enumerate() {
                            *total = _mm512_dpbusd_epi32(*total, above, x.four(t, part, 0, i));
                        }
                    }
                }
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = _mm512_add_epi32(shift(*total), _mm512_set1_epi32(-excess(encoding, sum)));
                }
                for part in parts {
                    for i in 0..4 {
                        let below = sixteenth::<E>(quads[4 * part + i]);
                        for (t, total) in total.iter_mut().enumerate() {
                            *total = _mm512_dpbusd_epi32(*total, below, x.four(t, part, 1, i));
                        }
                    }
                }
            } else {
                let mut low = [_mm512_setzero_si512(); N];
                for (low, sum) in low.iter_mut().zip(sums) {
                    *low = _mm512_set1_epi32(-excess(encoding, sum));
                }
                for part in parts {
                    for i in 0..4 {
                        let above = quads[4 * part + i];
                        let below = sixteenth::<E>(above);
                        for (t, (high, low)) in total.iter_mut().zip(&mut low).enumerate() {
                            *high = _mm512_dpbusd_epi32(*high, above, x.four(t, part, 0, i));
                            *low = _mm512_dpbusd_epi32(*low, below, x.four(t, part, 1, i));
                        }
                    }
                }
                for (total, low) in total.iter_mut().zip(low) {
                    *total = _mm512_add_epi32(shift(*total), low);
                }
            }
            let (scale, minimum) = scales::<E>(block_head, head, j, half);
            match (whole, has_minimums(encoding)) {
                (true, false) => x.add::<false, false, N>(half, &total, scale, minimum, acc),
                (true, true) => x.add::<false, true, N>(half, &total, scale, minimum, acc),
                (false, false) => x.add::<true, false, N>(half, &total, scale, minimum, acc),
                (false, true) => x.add::<true, true, N>(half, &total, scale, minimum, acc),
            }
        }
    }
}
