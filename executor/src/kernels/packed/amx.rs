//! Tiles of 8-bit integers (AMX-INT8): products of several tokens.
//!
//! A panel is unpacked once; of each block, a tile of codes is multiplied by the tiles of both planes of 16 tokens. Tiles
//! are written in assembly, since their intrinsics are not stable.
#![allow(unsafe_code, reason = "tile instructions take pointers, and the system is asked to allow them")]

use super::activations::Quantized;
use super::block::Unpacked;
use super::layout::{BLOCK, BLOCKS, GROUP, PANEL, QUAD, has_halves, has_minimums, unit};
use super::{Packed, Target};
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::OnceLock;

/// Tokens from which on tiles are faster than vectors.
pub(super) const LEAST: usize = 6;
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
    unpacked: &mut Unpacked,
) {
    assert!(allowed(), "the dispatcher chose this path for a machine with tiles");
    let halves = has_halves(w.encoding());
    let _tiles = Tiles::configure(&Config::new(if halves { BLOCK / 2 } else { BLOCK }));
    let step = (CACHED / (2 * x.k().max(1)) / TOKENS * TOKENS).max(TOKENS);
    for start in (0..x.m()).step_by(step) {
        let tokens = start..x.m().min(start + step);
        for panel in panels.clone() {
            unpacked.fill(&w.layout, w.panel(panel), true);
            let rows = PANEL.min(w.rows() - panel * PANEL);
            for first in tokens.clone().step_by(TOKENS) {
                let mut y = [[0.0; PANEL]; TOKENS];
                // SAFETY: tiles are configured for these shapes, the panel is unpacked for rows of this length, and the
                // features of AVX-512 come with tiles.
                unsafe {
                    match (halves, has_minimums(w.encoding())) {
                        (false, false) => tile::<false, false>(x, first, unpacked, unit(w.encoding()), &mut y),
                        (false, true) => tile::<false, true>(x, first, unpacked, unit(w.encoding()), &mut y),
                        (true, false) => tile::<true, false>(x, first, unpacked, unit(w.encoding()), &mut y),
                        (true, true) => tile::<true, true>(x, first, unpacked, unit(w.encoding()), &mut y),
                    }
                }
                for (i, y) in y.iter().enumerate().take(tokens.end - first) {
                    target.put(first + i, panel * PANEL, &y[..rows]);
                }
            }
        }
    }
}

/// Sums of one block: of the high plane, then of the low one, by token and row.
#[repr(C, align(64))]
struct Sums([[[i32; PANEL]; TOKENS]; 2]);

/// Multiplies a block of codes by both planes.
///
/// # Safety
/// Tiles are configured; the codes, and 16 rows of the planes `stride` bytes apart, are readable.
#[inline(always)]
unsafe fn multiply<const ODD: bool>(high: *const i8, low: *const i8, stride: usize, codes: *const u8, out: &mut Sums) {
    // Blocks alternate between two pairs of tiles, so that the sums of one are stored while the next ones are made.
    macro_rules! block {
        ($a:literal, $b:literal) => {
            asm!(
                concat!("tilezero tmm", $a),
                concat!("tilezero tmm", $b),
                "tileloadd tmm6, [{codes} + 1*{quad}]",
                "tileloadd tmm4, [{high} + 1*{stride}]",
                concat!("tdpbssd tmm", $a, ", tmm4, tmm6"),
                "tileloadd tmm5, [{low} + 1*{stride}]",
                concat!("tdpbssd tmm", $b, ", tmm5, tmm6"),
                concat!("tilestored [{out} + 1*{quad}], tmm", $a),
                concat!("tilestored [{out} + 1*{quad} + 1024], tmm", $b),
                codes = in(reg) codes,
                high = in(reg) high,
                low = in(reg) low,
                out = in(reg) &raw mut *out,
                quad = in(reg) QUAD,
                stride = in(reg) stride,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the caller's promise; `out` has room for two tiles.
    unsafe {
        if ODD {
            block!("2", "3");
        } else {
            block!("0", "1");
        }
    }
}

/// The outputs of 16 tokens from `first` on with one unpacked panel of signed codes.
///
/// # Safety
/// The machine has the features, tiles are configured, and the panel has the blocks of the rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn tile<const HALVES: bool, const MINIMUMS: bool>(
    x: &Quantized,
    first: usize,
    w: &Unpacked,
    unit: f32,
    y: &mut [[f32; PANEL]; TOKENS],
) {
    let halves = if HALVES { 2 } else { 1 };
    let k = x.k();
    let [high, low] = x.tile(first);
    let mut sums = [const { Sums([[[0; PANEL]; TOKENS]; 2]) }; 2];
    let parts = k / BLOCK * halves;
    let start = |part: usize, sums: &mut Sums| {
        let at = part * (BLOCK / halves);
        let codes = w.codes[part / halves].0.as_ptr().cast::<u8>().wrapping_add(part % halves * (4 * QUAD));
        // SAFETY: the block's codes and columns are there.
        unsafe {
            let (high, low) = (high.as_ptr().add(at), low.as_ptr().add(at));
            if part % 2 == 0 {
                multiply::<false>(high, low, k, codes, sums);
            } else {
                multiply::<true>(high, low, k, codes, sums);
            }
        }
    };
    if parts > 0 {
        start(0, &mut sums[0]);
    }
    let mut acc = [_mm512_setzero_ps(); TOKENS];
    for part in 0..parts {
        if part + 1 < parts {
            start(part + 1, &mut sums[(part + 1) % 2]);
        }
        let b = part / halves;
        let Sums([above, below]) = &sums[part % 2];
        // SAFETY: sixteen numbers each.
        let (scale, minimum) = unsafe {
            let half = part % halves;
            (_mm512_loadu_ps(w.scales[b][half].as_ptr()), _mm512_loadu_ps(w.minimums[b][half].as_ptr()))
        };
        for t in 0..TOKENS {
            // SAFETY: sixteen numbers each.
            let (above, below) =
                unsafe { (_mm512_load_si512(above[t].as_ptr().cast()), _mm512_load_si512(below[t].as_ptr().cast())) };
            let total = _mm512_add_epi32(_mm512_slli_epi32::<8>(above), below);
            acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), scale, acc[t]);
            if MINIMUMS {
                let sum = x.sum::<HALVES>(first + t, part);
                acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_set1_epi32(sum)), minimum, acc[t]);
            }
        }
        let end_of_group = part + 1 == parts || (part + 1) % (BLOCKS * halves) == 0;
        if end_of_group {
            let g = part / (BLOCKS * halves);
            for t in 0..TOKENS {
                let scale = _mm512_set1_ps(x.scale(first + t, g));
                // SAFETY: sixteen numbers.
                unsafe {
                    let sum = _mm512_fmadd_ps(acc[t], scale, _mm512_loadu_ps(y[t].as_ptr()));
                    _mm512_storeu_ps(y[t].as_mut_ptr(), sum);
                }
                acc[t] = _mm512_setzero_ps();
            }
        }
    }
    for y in y.iter_mut().flatten() {
        *y *= unit;
    }
}

const _: () = assert!(GROUP == BLOCKS * BLOCK);
