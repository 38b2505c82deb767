//! AVX-512 with VNNI: products of unsigned codes with the signed bytes of activations.
//!
//! One token: codes are unpacked in registers, several panels at a time, so that memory is read in several streams. Several
//! tokens: tiles of up to sixteen pass over a panel and unpack it in registers each. Many tokens and encodings with scales
//! for half blocks and no minimums: a panel is unpacked once into the cache for all whole tiles.
#![allow(unsafe_code, reason = "vector loads and stores take pointers")]

mod codes;
mod tiles;

use super::activations::{Quantized, Row, TILE};
use super::block::{Unpacked, excess};
use super::layout::{BLOCK, BLOCKS, PANEL, factor, has_halves, has_minimums, unit};
use super::{Isa, Packed, Target};
use codes::{Head, Q2K, Q3K, Q4, Q4K, Q5K, Q6K, Q8, ask, block_bytes, encoding_of, quads, scales, sixteenth};
use std::arch::x86_64::*;
use std::ops::Range;
use tallow_format::Encoding;

/// Panels that one token runs over at once: of few bits more, so that as much memory is under way.
const STREAMS: usize = 4;
/// The same of eight bits.
const STREAMS_Q8: usize = 2;
/// Tokens from which on it pays to unpack a panel into the cache, of encodings with scales for half blocks and
/// no minimums.
const MANY: usize = 2 * TILE;
/// How far ahead memory is asked for, in bytes.
const AHEAD: usize = 1024;

/// As [`super::product`].
pub(super) fn product(
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
    unpacked: &mut Unpacked,
) {
    assert!(Isa::best() >= Isa::Avx512, "the dispatcher chose this path for a machine with AVX-512");
    // SAFETY: the features were found.
    unsafe {
        match w.encoding() {
            Encoding::Q8 => product_of::<Q8>(x, w, panels, target, unpacked),
            Encoding::Q4 => product_of::<Q4>(x, w, panels, target, unpacked),
            Encoding::Q2K => product_of::<Q2K>(x, w, panels, target, unpacked),
            Encoding::Q3K => product_of::<Q3K>(x, w, panels, target, unpacked),
            Encoding::Q4K => product_of::<Q4K>(x, w, panels, target, unpacked),
            Encoding::Q5K => product_of::<Q5K>(x, w, panels, target, unpacked),
            Encoding::Q6K => product_of::<Q6K>(x, w, panels, target, unpacked),
            Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
        }
    }
}

/// [`product`] for one encoding.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn product_of<const E: u8>(
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
    unpacked: &mut Unpacked,
) {
    // SAFETY: the features are there.
    unsafe {
        if !x.tiled() {
            (0..x.m()).for_each(|m| one_token::<E>(x, m, w, panels.clone(), target));
            return;
        }
        // Whole tiles, and what is left.
        let many = x.m() >= MANY && has_halves(encoding_of(E)) && !has_minimums(encoding_of(E));
        let whole = if many { x.m() / TILE * TILE } else { 0 };
        tiles::many_tokens(x, 0..whole, w, panels.clone(), target, unpacked);
        tiles::few_tokens::<E>(x, whole..x.m(), w, panels, target);
    }
}

/// The outputs of token `m`.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn one_token<const E: u8>(
    x: &Quantized,
    m: usize,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
) {
    let mut panel = panels.start;
    while panel < panels.end {
        // SAFETY: the features are there; as many panels follow.
        let done = unsafe {
            if E == Q8 && panels.end - panel >= STREAMS_Q8 {
                some_panels::<E, STREAMS_Q8>(x, m, w, panel, target);
                STREAMS_Q8
            } else if panels.end - panel >= STREAMS {
                some_panels::<E, STREAMS>(x, m, w, panel, target);
                STREAMS
            } else {
                some_panels::<E, 1>(x, m, w, panel, target);
                1
            }
        };
        panel += done;
    }
}

/// The outputs of `P` panels for one token.
///
/// # Safety
/// The machine has the features and the matrix so many panels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn some_panels<const E: u8, const P: usize>(
    x: &Quantized,
    m: usize,
    w: &Packed<'_>,
    first: usize,
    target: &mut Target<'_>,
) {
    let x = x.row(m);
    let layout = &w.layout;
    let starts: [*const u8; P] = std::array::from_fn(|p| w.panel(first + p).as_ptr());
    let mut y = [_mm512_setzero_ps(); P];
    let blocks = layout.k / BLOCK;
    for g in 0..blocks.div_ceil(BLOCKS) {
        // SAFETY: offsets of the layout lie inside each panel, and the row has the blocks.
        unsafe {
            let heads: [Head; P] = std::array::from_fn(|p| Head::load::<E>(starts[p].add(layout.head_at(g * BLOCKS))));
            for b in g * BLOCKS..blocks.min((g + 1) * BLOCKS) {
                let at = layout.codes_at(b);
                for p in 0..P {
                    one_block::<E>(x, b, starts[p].add(at), starts[p].add(layout.head_at(b)), &heads[p], &mut y[p]);
                }
            }
        }
    }
    for (p, y) in y.into_iter().enumerate() {
        put(encoding_of(E), y, m, first + p, w, target);
    }
}

/// Writes the outputs of token `m` with a panel.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn put(encoding: Encoding, y: __m512, m: usize, panel: usize, w: &Packed<'_>, target: &mut Target<'_>) {
    let mut out = [0.0; PANEL];
    // SAFETY: sixteen numbers.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_mul_ps(y, _mm512_set1_ps(unit(encoding)))) };
    target.put(m, panel * PANEL, &mut out[..PANEL.min(w.rows() - panel * PANEL)]);
}

/// Adds the products of one block of one panel with one token.
///
/// # Safety
/// `codes` and `block_head` point at the block's parts, and the row of `x` has the block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn one_block<const E: u8>(
    x: Row<'_>,
    b: usize,
    codes: *const u8,
    block_head: *const u8,
    head: &Head,
    acc: &mut __m512,
) {
    let encoding = encoding_of(E);
    let halves = if has_halves(encoding) { 2 } else { 1 };
    let quads_of_half = 8 / halves;
    // SAFETY: the caller's promise.
    unsafe {
        ask(codes.wrapping_add(AHEAD), block_bytes(E));
        let quads = quads::<E>(codes);
        let x_codes = x.codes.as_ptr().add(b).cast::<i8>();
        let dx = *x.scales.get_unchecked(b);
        let [one, two] = *x.sums.get_unchecked(b);
        for half in 0..halves {
            let sum = if halves == 1 { one + two } else { [one, two][half] };
            let mut high = _mm512_setzero_si512();
            let mut low = _mm512_set1_epi32(-excess(encoding, sum));
            for (j, quad) in quads.iter().enumerate().skip(half * quads_of_half).take(quads_of_half) {
                let of = |plane: usize| {
                    let at = x_codes.add(j / 4 * BLOCK + plane * (BLOCK / 2) + j % 4 * 4);
                    _mm512_set1_epi32(at.cast::<i32>().read_unaligned())
                };
                high = _mm512_dpbusd_epi32(high, *quad, of(0));
                low = _mm512_dpbusd_epi32(low, sixteenth::<E>(*quad), of(1));
            }
            let shift = const { factor(encoding_of(E)).trailing_zeros() };
            let total = _mm512_add_epi32(_mm512_sll_epi32(high, _mm_cvtsi32_si128(shift as i32)), low);
            let (scale, minimum) = scales::<E>(block_head, head, b % BLOCKS, half);
            let scale = _mm512_mul_ps(scale, _mm512_set1_ps(dx));
            *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), scale, *acc);
            if has_minimums(encoding) {
                *acc = _mm512_fmadd_ps(minimum, _mm512_set1_ps(sum as f32 * dx), *acc);
            }
        }
    }
}
