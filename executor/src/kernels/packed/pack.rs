//! Packing: from the blocks of a file to panels.

use super::super::WeightRows;
use super::super::cpu::multiversion;
use super::codes::unpack_codes;
use super::layout::{BLOCK, GROUP, HEAD, Layout, PANEL, QUAD};
use std::ops::Range;
use tallow_format::Encoding;

/// Writes the panels `panels` of `w` to `out`, which holds those alone.
///
/// # Panics
/// When the encoding is not packed, a panel does not exist, or `out` has another length: the caller checks with
/// [`super::Packed::bytes`].
pub fn pack_panels(w: &WeightRows<'_>, panels: Range<usize>, out: &mut [u8]) {
    let Ok(layout) = Layout::new(w.encoding(), w.k()) else {
        unreachable!("the caller asks for the size of the packed matrix first");
    };
    assert_eq!(out.len(), panels.len() * layout.panel_bytes, "panels fill their memory");
    if layout.panel_bytes == 0 {
        return;
    }
    for (panel, out) in panels.zip(out.chunks_exact_mut(layout.panel_bytes)) {
        let rows = panel * PANEL..w.rows().min(panel * PANEL + PANEL);
        if rows.len() < PANEL || layout.simple() {
            // Rows that do not exist, and padding of scales.
            out.fill(0);
        }
        pack_panel(w, &layout, rows, out);
    }
}

multiversion! {
    fn pack_panel(w: &WeightRows<'_>, layout: &Layout, rows: Range<usize>, out: &mut [u8]) {
        let source_bytes = layout.encoding.block_bytes() * (GROUP / layout.encoding.block_len());
        // Codes of a group of all rows, without sign.
        let mut codes = [[0_u8; GROUP]; PANEL];
        for g in 0..layout.k.div_ceil(GROUP) {
            for (r, row) in rows.clone().enumerate() {
                let row = w.row(row);
                let group = &row[g * source_bytes..row.len().min((g + 1) * source_bytes)];
                unpack_codes(layout.encoding, group, &mut codes[r]);
                head(layout, g, r, group, out);
            }
            for b in g * 8..(layout.k / BLOCK).min(g * 8 + 8) {
                let at = layout.codes_at(b);
                block(layout.encoding, &codes, b % 8 * BLOCK, &mut out[at..at + layout.block_bytes]);
            }
        }
    }
}

/// Writes the scales of row `r` of one group.
#[inline(always)]
fn head(layout: &Layout, g: usize, r: usize, group: &[u8], out: &mut [u8]) {
    let at = layout.head_at(g * 8);
    let mut byte = |place: usize, value: u8| out[at + place] = value;
    let mut half = |place: usize, source: usize| {
        byte(place + 2 * r, group[source]);
        byte(place + 2 * r + 1, group[source + 1]);
    };
    match layout.encoding {
        Encoding::Q8 | Encoding::Q4 => {
            for b in 0..group.len() / layout.encoding.block_bytes() {
                half(b * 2 * PANEL, b * layout.encoding.block_bytes());
            }
        }
        Encoding::Q4K | Encoding::Q5K => {
            half(0, 0);
            half(32, 2);
            let scales = &group[4..16];
            for j in 0..8 {
                let (scale, minimum) = if j < 4 {
                    (scales[j] & 63, scales[j + 4] & 63)
                } else {
                    ((scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4, (scales[j + 4] >> 4) | (scales[j] >> 6) << 4)
                };
                byte(64 + j * PANEL + r, scale);
                byte(64 + (8 + j) * PANEL + r, minimum);
            }
        }
        Encoding::Q6K => {
            half(0, 208);
            (0..16).for_each(|j| byte(64 + j * PANEL + r, group[192 + j]));
        }
        Encoding::Q3K => {
            half(0, 108);
            let scales = &group[96..108];
            for j in 0..16 {
                let low = if j < 8 { scales[j] & 15 } else { scales[j - 8] >> 4 };
                let top = scales[8 + j % 4] >> (j / 4 * 2) & 3;
                byte(64 + j * PANEL + r, (low | top << 4).wrapping_sub(32));
            }
        }
        Encoding::Q2K => {
            half(0, 80);
            half(32, 82);
            (0..16).for_each(|j| byte(64 + j * PANEL + r, group[j]));
        }
        // Not packed.
        Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
    }
    const { assert!(HEAD == 64 + 16 * PANEL) }
}

/// Writes the codes of the block that begins at column `from` of a group.
#[inline(always)]
fn block(encoding: Encoding, codes: &[[u8; GROUP]; PANEL], from: usize, out: &mut [u8]) {
    let mut quads = [[[0_u8; 4]; PANEL]; 8];
    for (r, row) in codes.iter().enumerate() {
        for (quad, four) in quads.iter_mut().zip(row[from..from + BLOCK].as_chunks::<4>().0) {
            quad[r] = *four;
        }
    }
    let quads = quads.each_ref().map(|quad| quad.as_flattened());
    let out = out.as_chunks_mut::<QUAD>().0;
    match encoding {
        Encoding::Q8 => out.iter_mut().zip(quads).for_each(|(out, quad)| out.copy_from_slice(quad)),
        Encoding::Q4 | Encoding::Q4K | Encoding::Q5K | Encoding::Q6K => {
            let (nibbles, high) = out.split_at_mut(4);
            for (i, out) in nibbles.iter_mut().enumerate() {
                for ((out, low), top) in out.iter_mut().zip(quads[i]).zip(quads[i + 4]) {
                    *out = low & 15 | top << 4;
                }
            }
            match encoding {
                Encoding::Q5K => bits(&quads, 4, &mut high[0]),
                Encoding::Q6K => pairs(&quads, 4, high),
                _ => {}
            }
        }
        Encoding::Q2K => pairs(&quads, 0, out),
        Encoding::Q3K => {
            let (low, high) = out.split_at_mut(2);
            pairs(&quads, 0, low);
            bits(&quads, 2, &mut high[0]);
        }
        // Not packed.
        Encoding::U32 | Encoding::U16 | Encoding::Ternary => {}
    }
}

/// Bits `shift` and `shift + 1` of each quad.
#[inline(always)]
fn pairs(quads: &[&[u8]; 8], shift: usize, out: &mut [[u8; QUAD]]) {
    for (out, quads) in out.iter_mut().zip(quads.as_chunks::<4>().0) {
        for (i, out) in out.iter_mut().enumerate() {
            let pair = |j: usize| (quads[j][i] >> shift & 3) << (2 * j);
            *out = pair(0) | pair(1) | pair(2) | pair(3);
        }
    }
}

/// Bit `shift` of each quad.
#[inline(always)]
fn bits(quads: &[&[u8]; 8], shift: usize, out: &mut [u8; QUAD]) {
    out.fill(0);
    for (j, quad) in quads.iter().enumerate() {
        for (out, code) in out.iter_mut().zip(*quad) {
            *out |= (code >> shift & 1) << j;
        }
    }
}
