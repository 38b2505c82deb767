//! Tiles of 8-bit integers (AMX-INT8): products of several tokens.
//!
//! A panel is unpacked once; of each block, a tile of codes is multiplied by the tiles of both planes of 16 tokens. Tiles
//! are written in assembly, since their intrinsics are not stable.
#![allow(unsafe_code, reason = "tile instructions take pointers, and the system is asked to allow them")]

use super::activations::Quantized;
use super::block::Unpacked;
use super::layout::{BLOCK, BLOCKS, GROUP, PANEL, QUAD, has_halves, has_minimums, unit};
use super::{Packed, TOGETHER, Target};
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::OnceLock;

/// Tokens of a tile.
const TOKENS: usize = 16;
/// Bytes of activations that stay in the second-level cache while panels pass over them.
const CACHED: usize = 1 << 20;

/// Whether the processor has the tiles and the system lets this process use them.
pub(super) fn allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| has_tiles() && system_allows())
}

/// AMX-TILE and AMX-INT8: bits 24 and 25 of EDX of leaf 7.
fn has_tiles() -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx >> 24 & 3 == 3
}

/// Asks the kernel for the use of tile data, which holds for all threads of the process.
#[cfg(target_os = "linux")]
fn system_allows() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    // SAFETY: a system call without pointers, which fails on kernels that do not know it.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

/// Other systems have no such call that is known to work.
#[cfg(not(target_os = "linux"))]
fn system_allows() -> bool {
    false
}

/// The shapes of the tiles: palette 1, sums in tiles 0 to 3, planes of activations in 4 and 5, codes in 6.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    /// For sums over `depth` columns.
    fn new(depth: usize) -> Self {
        let mut config = Config { palette: 1, start: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        for tile in 0..4 {
            (config.row_bytes[tile], config.rows[tile]) = (QUAD as u16, TOKENS as u8);
        }
        for tile in 4..6 {
            (config.row_bytes[tile], config.rows[tile]) = (depth as u16, TOKENS as u8);
        }
        (config.row_bytes[6], config.rows[6]) = (QUAD as u16, depth as u8 / 4);
        config
    }
}

const _: () = assert!(size_of::<Config>() == 64);

/// Tiles in use by this thread; released at the end, also by a panic.
struct Tiles;

impl Tiles {
    fn configure(config: &Config) -> Self {
        // SAFETY: the process may use tiles, and the configuration is valid.
        unsafe { asm!("ldtilecfg [{}]", in(reg) config, options(nostack, preserves_flags)) };
        Tiles
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: this thread has configured them.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
    }
}

/// As [`super::product`].
pub(super) fn product(
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: Target<'_>,
    unpacked: &mut [Unpacked; TOGETHER],
) {
    assert!(allowed(), "the dispatcher chose this path for a machine with tiles");
    let halves = has_halves(w.encoding());
    let _tiles = Tiles::configure(&Config::new(if halves { BLOCK / 2 } else { BLOCK }));
    let unit = unit(w.encoding());
    let mut sums = [const { Sums([[[0; PANEL]; TOKENS]; 2]) }; RING];
    let step = (CACHED / (2 * x.k().max(1)) / TOKENS * TOKENS).max(TOKENS);
    for start in (0..x.m()).step_by(step) {
        let tokens = start..x.m().min(start + step);
        let mut panel = panels.start;
        while panel < panels.end {
            let count = TOGETHER.min(panels.end - panel);
            for (i, unpacked) in unpacked.iter_mut().enumerate().take(count) {
                unpacked.fill(&w.layout, w.panel(panel + i), true);
            }
            let columns = (count * PANEL).min(w.rows() - panel * PANEL);
            for first in tokens.clone().step_by(TOKENS) {
                // The tokens' codes stay in the first-level cache while the panels pass.
                let mut y = [[[0.0; PANEL]; TOGETHER]; TOKENS];
                for (i, unpacked) in unpacked.iter().enumerate().take(count) {
                    // SAFETY: tiles are configured for these shapes, the panel is unpacked for rows of this length, and
                    // the features of AVX-512 come with tiles.
                    unsafe {
                        match (halves, has_minimums(w.encoding())) {
                            (false, false) => tile::<false, false>(x, first, unpacked, unit, &mut sums, &mut y, i),
                            (false, true) => tile::<false, true>(x, first, unpacked, unit, &mut sums, &mut y, i),
                            (true, false) => tile::<true, false>(x, first, unpacked, unit, &mut sums, &mut y, i),
                            (true, true) => tile::<true, true>(x, first, unpacked, unit, &mut sums, &mut y, i),
                        }
                    }
                }
                for (t, y) in y.iter().enumerate().take(tokens.end - first) {
                    target.put(first + t, panel * PANEL, &y.as_flattened()[..columns]);
                }
            }
            panel += count;
        }
    }
}

/// Blocks of activations that are asked for ahead.
const AHEAD: usize = 3;
/// Parts whose sums are kept.
const RING: usize = 4;
/// Parts from the products to the use of their sums, so that no store is waited for.
const DELAY: usize = 3;

/// Sums of one block: of the high plane, then of the low one, by token and row.
#[repr(C, align(64))]
struct Sums([[[i32; PANEL]; TOKENS]; 2]);

/// Multiplies a block of codes by both planes, and stores the sums of the block before. Blocks alternate between two pairs
/// of tiles: a store waits for its products, so that it comes late, when the next products are under way.
///
/// # Safety
/// Tiles are configured; the codes, and the 16 rows of both planes, are readable.
#[inline(always)]
unsafe fn multiply<const ODD: bool>(planes: *const i8, codes: *const u8, before: &mut Sums) {
    macro_rules! block {
        ($a:literal, $b:literal, $before_a:literal, $before_b:literal) => {
            asm!(
                concat!("tilezero tmm", $a),
                concat!("tilezero tmm", $b),
                "tileloadd tmm6, [{codes} + 1*{quad}]",
                "tileloadd tmm4, [{planes} + 1*{row}]",
                concat!("tdpbssd tmm", $a, ", tmm4, tmm6"),
                "tileloadd tmm5, [{planes} + 1*{row} + 512]",
                concat!("tdpbssd tmm", $b, ", tmm5, tmm6"),
                concat!("tilestored [{before} + 1*{quad}], tmm", $before_a),
                concat!("tilestored [{before} + 1*{quad} + 1024], tmm", $before_b),
                codes = in(reg) codes,
                planes = in(reg) planes,
                before = in(reg) &raw mut *before,
                quad = in(reg) QUAD,
                row = in(reg) BLOCK,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the caller's promise; `before` has room for two tiles.
    unsafe {
        if ODD {
            block!("2", "3", "0", "1");
        } else {
            block!("0", "1", "2", "3");
        }
    }
}

/// Stores the sums of the last block, which used the odd pair of tiles or the even one.
///
/// # Safety
/// Tiles are configured.
#[inline(always)]
unsafe fn store_last(odd: bool, out: &mut Sums) {
    macro_rules! store {
        ($a:literal, $b:literal) => {
            asm!(
                concat!("tilestored [{out} + 1*{quad}], tmm", $a),
                concat!("tilestored [{out} + 1*{quad} + 1024], tmm", $b),
                out = in(reg) &raw mut *out,
                quad = in(reg) QUAD,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the caller's promise; `out` has room for two tiles.
    unsafe {
        if odd {
            store!("2", "3");
        } else {
            store!("0", "1");
        }
    }
}

/// Repeats a statement for each token of a tile, so that vectors of all tokens stay in registers.
macro_rules! each_token {
    (|$t:ident| $body:block) => {
        each_token!(@ $t $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $t:ident $body:block $($index:literal)*) => {
        $({
            const $t: usize = $index;
            $body
        })*
    };
}

/// Adds the sums of a group, by the scales of the tokens. A function of its own, so that the registers are left to the sums.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn end_group(
    x: &Quantized,
    first: usize,
    group: usize,
    sums: &[[f32; PANEL]; TOKENS],
    y: &mut [[[f32; PANEL]; TOGETHER]; TOKENS],
    panel: usize,
) {
    for (t, (y, sums)) in y.iter_mut().zip(sums).enumerate() {
        let scale = x.scale(first + t, group);
        y[panel].iter_mut().zip(sums).for_each(|(y, sum)| *y = sum.mul_add(scale, *y));
    }
}

/// The outputs of 16 tokens from `first` on with one unpacked panel of signed codes, to place `panel` of `y`.
///
/// # Safety
/// The machine has the features, tiles are configured, and the panel has the blocks of the rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn tile<const HALVES: bool, const MINIMUMS: bool>(
    x: &Quantized,
    first: usize,
    w: &Unpacked,
    unit: f32,
    sums: &mut [Sums; RING],
    y: &mut [[[f32; PANEL]; TOGETHER]; TOKENS],
    panel: usize,
) {
    let halves = if HALVES { 2 } else { 1 };
    let codes = x.tile(first);
    let parts = x.k() / BLOCK * halves;
    // Products of part `p`; the sums of part `p - 1` are stored.
    let start = |part: usize, sums: &mut [Sums; RING]| {
        let (b, half) = (part / halves, part % halves);
        let quads = w.codes[b].0.as_ptr().cast::<u8>().wrapping_add(half * (4 * QUAD));
        let before = &mut sums[part.wrapping_sub(1) % RING];
        // SAFETY: the block's codes and columns are there.
        unsafe {
            let planes = codes.as_ptr().add(b * (2 * TOKENS * BLOCK) + half * (BLOCK / 2));
            for line in 0..2 * TOKENS * BLOCK / QUAD {
                // A hint: the codes of blocks that follow come from the second-level cache.
                _mm_prefetch::<_MM_HINT_T0>(planes.wrapping_add(AHEAD * (2 * TOKENS * BLOCK) + line * QUAD));
            }
            if part.is_multiple_of(2) {
                multiply::<false>(planes, quads, before);
            } else {
                multiply::<true>(planes, quads, before);
            }
        }
    };
    let zero = _mm512_setzero_ps();
    let mut acc = [zero; TOKENS];
    for part in 0..parts + DELAY {
        if part < parts {
            start(part, sums);
        } else if part == parts && parts > 0 {
            // SAFETY: tiles are configured.
            unsafe { store_last((part - 1) % 2 == 1, &mut sums[(part - 1) % RING]) };
        }
        // The sums of an earlier part are there by now.
        let Some(part) = part.checked_sub(DELAY) else { continue };
        let b = part / halves;
        let Sums([above, below]) = &sums[part % RING];
        // SAFETY: sixteen numbers each.
        let (scale, minimum) = unsafe {
            let half = part % halves;
            (_mm512_loadu_ps(w.scales[b][half].as_ptr()), _mm512_loadu_ps(w.minimums[b][half].as_ptr()))
        };
        each_token!(|T| {
            // SAFETY: sixteen numbers each.
            let (above, below) =
                unsafe { (_mm512_load_si512(above[T].as_ptr().cast()), _mm512_load_si512(below[T].as_ptr().cast())) };
            let total = _mm512_add_epi32(_mm512_slli_epi32::<8>(above), below);
            acc[T] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), scale, acc[T]);
            if MINIMUMS {
                let sum = x.sum::<HALVES>(first + T, part);
                acc[T] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_set1_epi32(sum)), minimum, acc[T]);
            }
        });
        let end_of_group = part + 1 == parts || (part + 1) % (BLOCKS * halves) == 0;
        if end_of_group {
            let mut group = [[0.0; PANEL]; TOKENS];
            each_token!(|T| {
                // SAFETY: sixteen numbers.
                unsafe { _mm512_storeu_ps(group[T].as_mut_ptr(), acc[T]) };
                acc[T] = zero;
            });
            end_group(x, first, part / (BLOCKS * halves), &group, y, panel);
        }
    }
    for y in y {
        // SAFETY: sixteen numbers.
        unsafe {
            let scaled = _mm512_mul_ps(_mm512_loadu_ps(y[panel].as_ptr()), _mm512_set1_ps(unit));
            _mm512_storeu_ps(y[panel].as_mut_ptr(), scaled);
        }
    }
}

const _: () = assert!(GROUP == BLOCKS * BLOCK);
