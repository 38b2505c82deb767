//! AVX-512 with VNNI: products of unsigned codes with the signed bytes of activations. Codes are unpacked in registers.
//!
//! One token: several panels at a time, so that memory is read in several streams. Several tokens: tiles of up to sixteen
//! pass over a panel; each unpacks it anew, which costs less than to write it down and read it twice as large.
#![allow(unsafe_code, reason = "vector loads and stores take pointers")]

use super::activations::{Codes, Quantized, Row, TILE, Tile};
use super::block::excess;
use super::layout::{BLOCK, BLOCKS, GROUP, HEAD, PANEL, QUAD, factor, has_halves, has_minimums, unit};
use super::{Isa, Packed, Target};
use std::arch::x86_64::*;
use std::ops::Range;
use tallow_format::Encoding;

/// Panels that one token runs over at once: of few bits more, so that as much memory is under way.
const STREAMS: usize = 4;
/// The same of eight bits.
const STREAMS_Q8: usize = 2;
/// Tokens of a tile up to which the sums of both planes of activations fit into registers.
const SPLIT: usize = 12;
/// Bytes of panels that stay in the second-level cache while tiles of tokens pass over them.
const PANELS_CACHED: usize = 1 << 18;
/// How far ahead memory is asked for, in bytes.
const AHEAD: usize = 1024;
/// The same where tiles of tokens run over it, which takes longer.
const AHEAD_OF_TILES: usize = 4096;

/// As [`super::product`].
pub(super) fn product(x: &Quantized, w: &Packed<'_>, panels: Range<usize>, target: &mut Target<'_>) {
    assert!(Isa::best() >= Isa::Avx512, "the dispatcher chose this path for a machine with AVX-512");
    // SAFETY: the features were found.
    unsafe {
        match w.encoding() {
            Encoding::Q8 => product_of::<Q8>(x, w, panels, target),
            Encoding::Q4 => product_of::<Q4>(x, w, panels, target),
            Encoding::Q2K => product_of::<Q2K>(x, w, panels, target),
            Encoding::Q3K => product_of::<Q3K>(x, w, panels, target),
            Encoding::Q4K => product_of::<Q4K>(x, w, panels, target),
            Encoding::Q5K => product_of::<Q5K>(x, w, panels, target),
            Encoding::Q6K => product_of::<Q6K>(x, w, panels, target),
            Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
        }
    }
}

/// [`product`] for one encoding.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn product_of<const E: u8>(x: &Quantized, w: &Packed<'_>, panels: Range<usize>, target: &mut Target<'_>) {
    // SAFETY: the features are there.
    unsafe {
        if x.tiled() {
            tiles::<E>(x, w, panels, target)
        } else {
            (0..x.m()).for_each(|m| one_token::<E>(x, m, w, panels.clone(), target))
        }
    }
}

const Q8: u8 = 0;
const Q4: u8 = 1;
const Q2K: u8 = 2;
const Q3K: u8 = 3;
const Q4K: u8 = 4;
const Q5K: u8 = 5;
const Q6K: u8 = 6;

const fn encoding_of(e: u8) -> Encoding {
    match e {
        Q8 => Encoding::Q8,
        Q4 => Encoding::Q4,
        Q2K => Encoding::Q2K,
        Q3K => Encoding::Q3K,
        Q4K => Encoding::Q4K,
        Q5K => Encoding::Q5K,
        _ => Encoding::Q6K,
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
        put::<E>(y, m, first + p, w, target);
    }
}

/// Writes the outputs of token `m` with a panel.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn put<const E: u8>(y: __m512, m: usize, panel: usize, w: &Packed<'_>, target: &mut Target<'_>) {
    let mut out = [0.0; PANEL];
    // SAFETY: sixteen numbers.
    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_mul_ps(y, _mm512_set1_ps(unit(encoding_of(E))))) };
    target.put(m, panel * PANEL, &mut out[..PANEL.min(w.rows() - panel * PANEL)]);
}

/// The outputs of all tokens, which lie in tiles.
///
/// # Safety
/// The machine has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn tiles<const E: u8>(x: &Quantized, w: &Packed<'_>, panels: Range<usize>, target: &mut Target<'_>) {
    let together = (PANELS_CACHED / w.panel_bytes().max(1)).max(1);
    for start in panels.clone().step_by(together) {
        for first in (0..x.m()).step_by(TILE) {
            let tokens = first..x.m().min(first + TILE);
            for panel in start..panels.end.min(start + together) {
                let tokens = tokens.clone();
                // SAFETY: the features are there, and the panel and the tile.
                unsafe {
                    match tokens.len() {
                        ..=2 => tile::<E, 2>(x, tokens, w, panel, target),
                        ..=4 => tile::<E, 4>(x, tokens, w, panel, target),
                        ..=8 => tile::<E, 8>(x, tokens, w, panel, target),
                        ..=12 => tile::<E, 12>(x, tokens, w, panel, target),
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
                block_of_tile::<E, N>(x, b, start.add(layout.codes_at(b)), of_block, &head, &mut y);
            }
        }
    }
    for (m, y) in tokens.zip(y) {
        put::<E>(y, m, panel, w, target);
    }
}

/// Adds the products of one block of one panel with `N` tokens.
///
/// # Safety
/// `codes` and `block_head` point at the block's parts, and the tile has the block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn block_of_tile<const E: u8, const N: usize>(
    x: Tile<'_>,
    b: usize,
    codes: *const u8,
    block_head: *const u8,
    head: &Head,
    acc: &mut [__m512; N],
) {
    let encoding = encoding_of(E);
    let halves = if has_halves(encoding) { 2 } else { 1 };
    // SAFETY: the caller's promise.
    unsafe {
        ask(codes.wrapping_add(AHEAD_OF_TILES), block_bytes(E));
        let quads = quads::<E>(codes);
        let x_codes = x.codes.as_ptr().add(b).cast::<i8>();
        let (x_scales, weights, sums) =
            (x.scales.get_unchecked(b), x.weights.get_unchecked(b), x.sums.get_unchecked(b));
        for half in 0..halves {
            let parts = if halves == 1 { 0..2 } else { half..half + 1 };
            // Codes of a part of the block, of token `t`: four of the high bytes or of the low ones.
            let four = |t: usize, part: usize, plane: usize, i: usize| {
                let at = x_codes.add(part * BLOCK).add(t * size_of::<Codes>() + plane * (BLOCK / 2) + i * 4);
                _mm512_set1_epi32(at.cast::<i32>().read())
            };
            let excess: [i32; N] = std::array::from_fn(|t| {
                let [one, two] = sums[t];
                -excess(encoding, if halves == 1 { one + two } else { sums[t][half] })
            });
            let shift = |v: __m512i| {
                let by = const { factor(encoding_of(E)).trailing_zeros() };
                _mm512_sll_epi32(v, _mm_cvtsi32_si128(by as i32))
            };
            let mut total = [_mm512_setzero_si512(); N];
            if N > SPLIT {
                // One plane after the other: sums of both would not fit into registers.
                for part in parts.clone() {
                    for i in 0..4 {
                        let above = quads[4 * part + i];
                        for t in 0..N {
                            total[t] = _mm512_dpbusd_epi32(total[t], above, four(t, part, 0, i));
                        }
                    }
                }
                for t in 0..N {
                    total[t] = _mm512_add_epi32(shift(total[t]), _mm512_set1_epi32(excess[t]));
                }
                for part in parts {
                    for i in 0..4 {
                        let below = sixteenth::<E>(quads[4 * part + i]);
                        for t in 0..N {
                            total[t] = _mm512_dpbusd_epi32(total[t], below, four(t, part, 1, i));
                        }
                    }
                }
            } else {
                let mut low = excess.map(|e| _mm512_set1_epi32(e));
                for part in parts {
                    for i in 0..4 {
                        let above = quads[4 * part + i];
                        let below = sixteenth::<E>(above);
                        for t in 0..N {
                            total[t] = _mm512_dpbusd_epi32(total[t], above, four(t, part, 0, i));
                            low[t] = _mm512_dpbusd_epi32(low[t], below, four(t, part, 1, i));
                        }
                    }
                }
                for t in 0..N {
                    total[t] = _mm512_add_epi32(shift(total[t]), low[t]);
                }
            }
            let (scale, minimum) = scales::<E>(block_head, head, b % BLOCKS, half);
            for t in 0..N {
                let scale = _mm512_mul_ps(scale, _mm512_set1_ps(x_scales[t]));
                acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total[t]), scale, acc[t]);
                if has_minimums(encoding) {
                    let weight = weights[t][if halves == 1 { 2 } else { half }];
                    acc[t] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(weight), acc[t]);
                }
            }
        }
    }
}

/// The scales of a super-block: `d` and `dmin` of the rows.
struct Head {
    d: __m512,
    dmin: __m512,
}

impl Head {
    /// # Safety
    /// A head is readable there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
    unsafe fn load<const E: u8>(at: *const u8) -> Self {
        if E == Q8 || E == Q4 {
            return Self { d: _mm512_setzero_ps(), dmin: _mm512_setzero_ps() };
        }
        // SAFETY: the caller's promise.
        unsafe {
            Self {
                d: _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())),
                dmin: _mm512_cvtph_ps(_mm256_loadu_si256(at.add(32).cast())),
            }
        }
    }
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

/// Codes times [`factor`], over 16, rounded to nearest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn sixteenth<const E: u8>(codes: __m512i) -> __m512i {
    let half = |v: __m512i| _mm512_avg_epu8(v, _mm512_setzero_si512());
    match E {
        Q8 => half(_mm512_and_si512(_mm512_srli_epi16::<3>(codes), _mm512_set1_epi8(31))),
        Q6K => half(_mm512_and_si512(_mm512_srli_epi16::<1>(codes), _mm512_set1_epi8(127))),
        Q5K => half(codes),
        _ => codes,
    }
}

/// Bytes of the codes of a block.
const fn block_bytes(e: u8) -> usize {
    QUAD * match e {
        Q8 => 8,
        Q2K => 2,
        Q3K => 3,
        Q5K => 5,
        Q6K => 6,
        _ => 4,
    }
}

/// Asks for memory that is read soon.
#[inline(always)]
fn ask(at: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(QUAD) {
        // SAFETY: a hint, which touches nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line).cast()) };
    }
}

/// The codes of a block, without sign.
///
/// # Safety
/// The codes of the block are readable there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn quads<const E: u8>(at: *const u8) -> [__m512i; 8] {
    // SAFETY: the caller's promise.
    let load = |i: usize| unsafe { _mm512_loadu_si512(at.add(i * QUAD).cast()) };
    let low_nibbles = _mm512_set1_epi8(15);
    let mask = |v: __m512i, bits: i8| _mm512_and_si512(v, _mm512_set1_epi8(bits));
    let mut quads = [_mm512_setzero_si512(); 8];
    if E == Q8 {
        for (i, quad) in quads.iter_mut().enumerate() {
            *quad = load(i);
        }
        return quads;
    }
    if E != Q2K && E != Q3K {
        for i in 0..4 {
            let both = load(i);
            quads[i] = _mm512_and_si512(both, low_nibbles);
            quads[i + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low_nibbles);
        }
    }
    // `a | b & c`.
    const JOIN: i32 = 0b1111_1000;
    let join = |a: __m512i, b: __m512i, c: i8| _mm512_ternarylogic_epi32::<JOIN>(a, b, _mm512_set1_epi8(c));
    match E {
        Q5K => {
            let bits = load(4);
            quads[0] = join(quads[0], _mm512_slli_epi16::<4>(bits), 16);
            quads[1] = join(quads[1], _mm512_slli_epi16::<3>(bits), 16);
            quads[2] = join(quads[2], _mm512_slli_epi16::<2>(bits), 16);
            quads[3] = join(quads[3], _mm512_slli_epi16::<1>(bits), 16);
            quads[4] = join(quads[4], bits, 16);
            quads[5] = join(quads[5], _mm512_srli_epi16::<1>(bits), 16);
            quads[6] = join(quads[6], _mm512_srli_epi16::<2>(bits), 16);
            quads[7] = join(quads[7], _mm512_srli_epi16::<3>(bits), 16);
        }
        Q6K => {
            for half in 0..2 {
                let pairs = load(4 + half);
                let quads = &mut quads[4 * half..4 * half + 4];
                quads[0] = join(quads[0], _mm512_slli_epi16::<4>(pairs), 0x30);
                quads[1] = join(quads[1], _mm512_slli_epi16::<2>(pairs), 0x30);
                quads[2] = join(quads[2], pairs, 0x30);
                quads[3] = join(quads[3], _mm512_srli_epi16::<2>(pairs), 0x30);
            }
        }
        Q2K | Q3K => {
            for half in 0..2 {
                let pairs = load(half);
                let quads = &mut quads[4 * half..4 * half + 4];
                quads[0] = mask(pairs, 3);
                quads[1] = mask(_mm512_srli_epi16::<2>(pairs), 3);
                quads[2] = mask(_mm512_srli_epi16::<4>(pairs), 3);
                quads[3] = mask(_mm512_srli_epi16::<6>(pairs), 3);
            }
            if E == Q3K {
                let bits = load(2);
                quads[0] = join(quads[0], _mm512_slli_epi16::<2>(bits), 4);
                quads[1] = join(quads[1], _mm512_slli_epi16::<1>(bits), 4);
                quads[2] = join(quads[2], bits, 4);
                quads[3] = join(quads[3], _mm512_srli_epi16::<1>(bits), 4);
                quads[4] = join(quads[4], _mm512_srli_epi16::<2>(bits), 4);
                quads[5] = join(quads[5], _mm512_srli_epi16::<3>(bits), 4);
                quads[6] = join(quads[6], _mm512_srli_epi16::<4>(bits), 4);
                quads[7] = join(quads[7], _mm512_srli_epi16::<5>(bits), 4);
            }
        }
        _ => {}
    }
    quads
}

/// Scale, and negated minimum over 16 / [`factor`], of a half (or of the whole) of block `j` of a group.
///
/// # Safety
/// The head of the block (`q8`, `q4`) or of its super-block is readable there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn scales<const E: u8>(at: *const u8, head: &Head, j: usize, half: usize) -> (__m512, __m512) {
    let zero = _mm512_setzero_ps();
    // SAFETY: the caller's promise; the indices lie inside a head.
    unsafe {
        let small = |index: usize| _mm_loadu_si128(at.add(64 + index * PANEL).cast());
        let unsigned = |bytes: __m128i| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
        let negated = |v: __m512| _mm512_sub_ps(_mm512_set1_ps(-0.0), v);
        const { assert!(HEAD == 64 + 16 * PANEL && GROUP == 256) }
        match E {
            Q8 | Q4 => {
                let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
                (_mm512_cvtepi32_ps(words), zero)
            }
            Q4K | Q5K => {
                let minimum = _mm512_mul_ps(head.dmin, unsigned(small(8 + j)));
                let part = _mm512_set1_ps(f32::from(factor(encoding_of(E))) * -0.0625);
                (_mm512_mul_ps(head.d, unsigned(small(j))), _mm512_mul_ps(minimum, part))
            }
            Q2K => {
                let both = small(2 * j + half);
                let scale = unsigned(_mm_and_si128(both, _mm_set1_epi8(15)));
                let minimum = unsigned(_mm_and_si128(_mm_srli_epi16::<4>(both), _mm_set1_epi8(15)));
                (_mm512_mul_ps(head.d, scale), negated(_mm512_mul_ps(head.dmin, minimum)))
            }
            _ => {
                let scale = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(small(2 * j + half)));
                (_mm512_mul_ps(head.d, scale), zero)
            }
        }
    }
}
