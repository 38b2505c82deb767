//! Cache rows as blocks of small integers. The layout of a block stands with the shape rule
//! (`tallow_ir`'s `shape::attention`): an `f32` scale, then one signed byte a value, or two values a
//! byte as nibbles of value + 8, the first in the low half.

use super::host::{tensor, values};
use super::layout::operand;
use super::limits::elements;
use crate::error::Result;
use candle_core::Tensor;
use tallow_compiler::Step;

/// Bytes of the scale that begins a block.
const SCALE: usize = 4;

/// Each run of `head_dim` values as a block: the scale is the largest magnitude over 127 (or 7), a
/// value the nearest multiple of it, half to even. A run of zeros has the scale 0.
///
/// # Errors
/// A value that is not finite: no scale holds it.
pub(super) fn compress(step: &Step, x: &Tensor, head_dim: u32, bits: u32) -> Result<Tensor> {
    let (run, most) = (head_dim as usize, if bits == 4 { 7.0 } else { 127.0 });
    let block = block_bytes(run, bits);
    let dims = with_last(x, run, block)?;
    let mut bytes = Vec::with_capacity(elements(step, &dims)?);
    for (i, head) in values::<f32>(x)?.chunks(run.max(1)).enumerate() {
        if let Some(value) = head.iter().find(|v| !v.is_finite()) {
            return Err(operand(step, format!("head row {i} of x holds {value}; only finite numbers are kept")));
        }
        let scale = head.iter().fold(0f32, |m, v| m.max(v.abs())) / most;
        bytes.extend_from_slice(&scale.to_le_bytes());
        let quantised = |v: f32| -> i8 {
            // A scale may round down to 0 or to a coarse number near the least that there is.
            if scale == 0.0 { 0 } else { (v / scale).round_ties_even().clamp(-most, most) as i8 }
        };
        if bits == 4 {
            let nibble = |v: f32| (quantised(v) + 8) as u8;
            bytes.extend(head.chunks(2).map(|pair| match *pair {
                [a, b] => nibble(a) | nibble(b) << 4,
                _ => nibble(pair[0]),
            }));
        } else {
            bytes.extend(head.iter().map(|&v| quantised(v) as u8));
        }
    }
    tensor(bytes, &dims)
}

/// The values of blocks: integer times scale.
///
/// # Errors
/// A scale that is not finite.
pub(super) fn decompress(step: &Step, x: &Tensor, head_dim: u32, bits: u32) -> Result<Tensor> {
    let run = head_dim as usize;
    let block = block_bytes(run, bits);
    let dims = with_last(x, block, run)?;
    let mut y = Vec::with_capacity(elements(step, &dims)?);
    for (i, block) in values::<u8>(x)?.chunks_exact(block).enumerate() {
        let (head, rest) = block.split_at(SCALE);
        let scale = f32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        if !scale.is_finite() {
            return Err(operand(step, format!("block {i} of x has the scale {scale}; it is no block of KvCompress")));
        }
        if bits == 4 {
            let value = |nibble: u8| f32::from(nibble as i8 - 8) * scale;
            y.extend(rest.iter().flat_map(|b| [value(b & 15), value(b >> 4)]));
        } else {
            y.extend(rest.iter().map(|&b| f32::from(b as i8) * scale));
        }
    }
    tensor(y, &dims)
}

fn block_bytes(run: usize, bits: u32) -> usize {
    SCALE + if bits == 4 { run / 2 } else { run }
}

/// x's sizes with the last, a multiple of `from`, counted in `to` instead.
fn with_last(x: &Tensor, from: usize, to: usize) -> Result<Vec<usize>> {
    let mut dims = x.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = *last / from.max(1) * to;
    }
    Ok(dims)
}
