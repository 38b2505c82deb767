//! Tiles of 8-bit integers (AMX-INT8): products of several tokens.
//!
//! A stretch of a panel, short enough for the first-level cache, is unpacked once, and the tiles of 16 tokens pass over it.
//! A tile's product is the sum over one block: both bytes of the activations' codes lie in one row of the tile. Tiles are
//! written in assembly, since their intrinsics are not stable.
#![allow(unsafe_code, reason = "tile instructions take pointers, and the system is asked to allow them")]

use super::super::room::grow;
use super::activations::{Codes, Quantized, TILE};
use super::block::{Quads, Unpacked};
use super::layout::{BLOCK, BLOCKS, PANEL, QUAD, has_halves, has_minimums, unit};
use super::{Isa, Packed, Target};
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::OnceLock;

/// Tokens from which on tiles are faster than vectors.
pub(super) const FROM: usize = 6;
/// Tokens that share what stays in the second-level cache.
const TOKENS: usize = 512;
/// Bytes of those tokens' codes that stay there while panels pass over them.
const CODES_CACHED: usize = 1 << 20;
/// Panels times tiles of tokens whose outputs stay there.
const OUTPUTS: usize = 512;
/// Bytes of the codes of a block of one token.
const CODES: usize = size_of::<Codes>();
/// Panels at a time at most.
const TOGETHER: usize = 32;
/// Blocks of a panel that stay in the first-level cache.
const STRETCH: usize = 16;

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

/// The shapes of the tiles: palette 1, sums in tiles 0 to 2, activations in 4, codes of a panel in 6.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    /// For sums over `depth` bytes of codes.
    fn new(depth: usize) -> Self {
        let mut config = Config { palette: 1, start: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        for (tile, row_bytes, rows) in
            [(0, QUAD, TILE), (1, QUAD, TILE), (2, QUAD, TILE), (4, depth, TILE), (6, QUAD, depth / 4)]
        {
            (config.row_bytes[tile], config.rows[tile]) = (row_bytes as u16, rows as u8);
        }
        config
    }
}

const _: () = assert!(size_of::<Config>() == 64 && OUTPUTS * TILE >= TOKENS);

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

/// The outputs of 16 tokens with one panel.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Outputs([[f32; PANEL]; TILE]);

impl Outputs {
    const NONE: Self = Self([[0.0; PANEL]; TILE]);
}

/// Makes room for what [`product`] needs with `m` tokens.
pub(super) fn reserve(m: usize, outputs: &mut Vec<Outputs>) {
    if m >= FROM && Isa::detect() == Isa::Amx {
        grow(outputs, OUTPUTS, Outputs::NONE);
    }
}

/// As [`super::product`]. `outputs` is room for sums.
pub(super) fn product(
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    target: &mut Target<'_>,
    unpacked: &mut Unpacked,
    outputs: &mut Vec<Outputs>,
) {
    assert!(allowed(), "the dispatcher chose this path for a machine with tiles");
    let (halves, minimums) = (has_halves(w.encoding()), has_minimums(w.encoding()));
    let passes_of = match (halves, minimums) {
        (false, false) => passes::<false, false>,
        (false, true) => passes::<false, true>,
        (true, false) => passes::<true, false>,
        (true, true) => passes::<true, true>,
    };
    let _tiles = Tiles::configure(&Config::new(if halves { CODES / 2 } else { CODES }));
    let blocks = x.k() / BLOCK;
    for first in (0..x.m()).step_by(TOKENS) {
        let tokens = first..x.m().min(first + TOKENS);
        let tiles = tokens.len().div_ceil(TILE);
        let together = TOGETHER.min(OUTPUTS / tiles);
        let longest = (CODES_CACHED / (tiles * TILE * CODES) / BLOCKS * BLOCKS).max(BLOCKS);
        for start in panels.clone().step_by(together) {
            let some = start..panels.end.min(start + together);
            grow(outputs, some.len() * tiles, Outputs::NONE);
            for long in even_parts(0..blocks, longest) {
                for (panel, outputs) in some.clone().zip(outputs.chunks_exact_mut(tiles)) {
                    for stretch in even_parts(long.clone(), STRETCH) {
                        // What is unpacked next comes from memory meanwhile.
                        let (panel_next, block_next) = match stretch.end {
                            end if end < long.end => (panel, end),
                            _ => ((panel + 1).min(some.end - 1), long.start),
                        };
                        let ahead = Ahead {
                            next: w.panel(panel_next)[w.layout.codes_at(block_next)..].as_ptr(),
                            lines: (stretch.len() * w.layout.block_bytes / QUAD).div_ceil(tiles),
                        };
                        // Codes with minimums have no sign.
                        unpacked.fill(&w.layout, w.panel(panel), stretch.clone(), !minimums);
                        // SAFETY: tiles are configured for these shapes, the stretch is unpacked, the tiles' tokens have
                        // memory, and the features of AVX-512 come with tiles.
                        unsafe { passes_of(x, first, stretch, unpacked, outputs, ahead) };
                    }
                }
            }
            let unit = unit(w.encoding());
            let columns = (some.len() * PANEL).min(w.rows() - some.start * PANEL);
            let mut row = Row([[0.0; PANEL]; TOGETHER]);
            for token in tokens.clone() {
                // SAFETY: the features of AVX-512 come with tiles.
                unsafe { gather(&outputs[..some.len() * tiles], tiles, token - first, unit, &mut row) };
                target.put(token, some.start * PANEL, &mut row.0.as_flattened_mut()[..columns]);
            }
        }
    }
}

/// Outputs of one token.
#[repr(C, align(64))]
struct Row([[f32; PANEL]; TOGETHER]);

/// Brings the outputs of a token together, times `unit`.
#[target_feature(enable = "avx512f")]
fn gather(outputs: &[Outputs], tiles: usize, token: usize, unit: f32, row: &mut Row) {
    for (row, outputs) in row.0.iter_mut().zip(outputs.chunks_exact(tiles)) {
        // SAFETY: sixteen numbers each.
        unsafe {
            let y = _mm512_load_ps(outputs[token / TILE].0[token % TILE].as_ptr());
            _mm512_store_ps(row.as_mut_ptr(), _mm512_mul_ps(y, _mm512_set1_ps(unit)));
        }
    }
}

/// Splits a range into parts of at most `most`, as even as they get: none is shorter than half of that, unless all is.
fn even_parts(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = range.len().div_ceil(most).max(1);
    let at = move |part: usize| range.start + range.len() * part / parts;
    (0..parts).map(move |part| at(part)..at(part + 1))
}

/// The sums of one block, by token and row.
#[repr(C, align(64))]
struct Sums([[i32; PANEL]; TILE]);

/// Multiplies a block into tile `NOW`, and stores the sums of the block before it, in tile `BEFORE`: a store waits for its
/// product, so that it comes late, when the next one is under way.
///
/// # Safety
/// Tiles are configured; the codes of 16 tokens and of the panel are readable, and `before` has room for a tile.
#[inline(always)]
unsafe fn multiply<const NOW: u8, const BEFORE: u8, const MINIMUMS: bool>(
    tokens: *const i8,
    codes: *const u8,
    before: *mut Sums,
) {
    macro_rules! block {
        ($product:literal, $now:literal, $before:literal) => {
            asm!(
                concat!("tilezero tmm", $now),
                "tileloadd tmm4, [{tokens} + 1*{line}]",
                "tileloadd tmm6, [{codes} + 1*{line}]",
                concat!($product, " tmm", $now, ", tmm4, tmm6"),
                concat!("tilestored [{before} + 1*{line}], tmm", $before),
                tokens = in(reg) tokens,
                codes = in(reg) codes,
                before = in(reg) before,
                line = in(reg) QUAD,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        match (NOW, BEFORE, MINIMUMS) {
            (0, _, false) => block!("tdpbssd", "0", "1"),
            (1, 0, false) => block!("tdpbssd", "1", "0"),
            (1, _, false) => block!("tdpbssd", "1", "2"),
            (_, 0, false) => block!("tdpbssd", "2", "0"),
            (_, _, false) => block!("tdpbssd", "2", "1"),
            (0, _, true) => block!("tdpbsud", "0", "1"),
            (1, 0, true) => block!("tdpbsud", "1", "0"),
            (1, _, true) => block!("tdpbsud", "1", "2"),
            (_, 0, true) => block!("tdpbsud", "2", "0"),
            (_, _, true) => block!("tdpbsud", "2", "1"),
        }
    }
}

/// Stores a tile.
///
/// # Safety
/// Tiles are configured, and `out` has room for one.
#[inline(always)]
unsafe fn store_last(odd: bool, out: *mut Sums) {
    macro_rules! store {
        ($tile:literal) => {
            asm!(
                concat!("tilestored [{out} + 1*{line}], tmm", $tile),
                out = in(reg) out,
                line = in(reg) QUAD,
                options(nostack, preserves_flags),
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if odd {
            store!("1");
        } else {
            store!("0");
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

/// Memory that is read soon, so many lines of it during each tile of tokens.
struct Ahead {
    next: *const u8,
    lines: usize,
}

impl Ahead {
    #[inline(always)]
    fn ask(&mut self) {
        for _ in 0..self.lines {
            // SAFETY: a hint, which touches nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(self.next.cast()) };
            self.next = self.next.wrapping_add(QUAD);
        }
    }
}

/// Adds the products of one unpacked stretch of a panel with the tokens from `first` on to `outputs`, a tile of tokens
/// each, which begin with the first stretch.
///
/// Sums are used two parts after their product, from one tile of tokens into the next, so that neither waits for the
/// other. Even parts use tile 0 and odd ones tile 1, but the first part of each tile of tokens tile 2, since the part
/// before it may be of either kind.
///
/// # Safety
/// The machine has the features, tiles are configured, the stretch has been unpacked, and `x` has the tiles of tokens.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn passes<const HALVES: bool, const MINIMUMS: bool>(
    x: &Quantized,
    first: usize,
    stretch: Range<usize>,
    w: &Unpacked,
    outputs: &mut [Outputs],
    mut ahead: Ahead,
) {
    let halves = if HALVES { 2 } else { 1 };
    let parts = stretch.len() * halves;
    assert!(parts >= 2, "rows that are shorter do not come in tiles");
    let fresh = stretch.start == 0;
    let mut ring = [const { Sums([[0; PANEL]; TILE]) }; 3];
    let ring = ring.as_mut_ptr();
    let quads = w.codes.as_ptr().cast::<u8>();
    let (scales, minimums) = (w.scales.as_ptr(), w.minimums.as_ptr());
    let mut acc = [_mm512_setzero_ps(); TILE];

    let tile = x.tile(first);
    let mut codes = tile.codes[stretch.start..].as_ptr().cast::<i8>();
    // Those of the sums that are used.
    let mut dx = tile.scales[stretch.start..].as_ptr();
    let mut weights = tile.weights[stretch.start..].as_ptr();
    let blocks = x.k() / BLOCK;
    let mut output = outputs.as_mut_ptr();

    macro_rules! multiply {
        ($now:literal, $before:literal, $part:expr, $slot:expr) => {
            // SAFETY: the part is one of the stretch and of the tile of tokens, the slot one of the ring.
            unsafe {
                let (b, half) = ($part / halves, $part % halves);
                let codes = codes.add(b * TILE * CODES + half * (CODES / 2));
                let quads = quads.add($part * (size_of::<Quads>() / halves));
                multiply::<$now, $before, MINIMUMS>(codes, quads, ring.add($slot));
            }
        };
    }
    macro_rules! add {
        ($part:expr, $slot:expr) => {{
            let (b, half) = ($part / halves, $part % halves);
            // SAFETY: the part is one of the stretch and of the tile of tokens, the slot one of the ring.
            unsafe {
                let scale = _mm512_loadu_ps((*scales.add(b))[half].as_ptr());
                let minimum = _mm512_loadu_ps((*minimums.add(b))[half].as_ptr());
                let dx = (*dx.add(b)).as_ptr();
                let weight = (*weights.add(b)).as_ptr();
                let sums = (*ring.add($slot)).0.as_ptr().cast::<i32>();
                each_token!(|T| {
                    let sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums.add(T * PANEL).cast()));
                    acc[T] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scale, _mm512_set1_ps(*dx.add(T))), acc[T]);
                    if MINIMUMS {
                        acc[T] = _mm512_fmadd_ps(
                            minimum,
                            _mm512_set1_ps((*weight.add(T))[if HALVES { half } else { 2 }]),
                            acc[T],
                        );
                    }
                });
            }
        }};
    }
    macro_rules! store {
        () => {
            each_token!(|T| {
                // SAFETY: sixteen numbers of the output that the sums belong to.
                unsafe { _mm512_store_ps((*output).0[T].as_mut_ptr(), acc[T]) };
            });
        };
    }

    // The first part waits apart: the last one of the tile before is used after it.
    let slot = |part: usize| if part == 0 { 2 } else { part % 2 };
    let last = parts - 1;
    for tile in 0..outputs.len() {
        ahead.ask();
        if last.is_multiple_of(2) {
            multiply!(2, 0, 0, 0);
        } else {
            multiply!(2, 1, 0, 1);
        }
        if tile > 0 {
            add!(last - 1, slot(last - 1));
        }
        multiply!(1, 2, 1, 2);
        if tile > 0 {
            add!(last, slot(last));
            store!();
            output = output.wrapping_add(1);
            dx = dx.wrapping_add(blocks);
            weights = weights.wrapping_add(blocks);
        }
        each_token!(|T| {
            // SAFETY: sixteen numbers.
            acc[T] = if fresh { _mm512_setzero_ps() } else { unsafe { _mm512_load_ps((*output).0[T].as_ptr()) } };
        });
        let mut part = 2;
        if part <= last {
            multiply!(0, 1, 2, 1);
            add!(0, 2);
            part = 3;
        }
        while part < last {
            multiply!(1, 0, part, 0);
            add!(part - 2, 1);
            multiply!(0, 1, part + 1, 1);
            add!(part - 1, 0);
            part += 2;
        }
        if part == last {
            multiply!(1, 0, part, 0);
            add!(part - 2, 1);
        }
        codes = codes.wrapping_add(blocks * TILE * CODES);
    }
    // SAFETY: tiles are configured, and the slot is one of the ring.
    unsafe { store_last(!last.is_multiple_of(2), ring.add(slot(last))) };
    add!(last - 1, slot(last - 1));
    add!(last, slot(last));
    store!();
}
