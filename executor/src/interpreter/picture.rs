//! Pictures `[N, C, H, W]`: pools, other sizes, and channels to space.

use super::convolution::Window;
use super::layout::operand;
use super::limits::elements;
use crate::error::Result;
use crate::value::with_slice;
use candle_core::{Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::ops::{Interpolation, PoolMode, interpolated_size};

/// The largest value or the mean under each window. Padding is negative infinity to the one and zero
/// to the other.
pub(super) fn pool(
    step: &Step,
    x: &Tensor,
    mode: PoolMode,
    kernel: &[u32; 2],
    stride: &[u32; 2],
    padding: &[u32; 2],
) -> Result<Tensor> {
    let (n, c, h, w) = x.dims4()?;
    let windows = [0, 1].map(|i| Window::new(kernel[i], stride[i], padding[i], 1));
    let (rows, columns) = (windows[0].places(step, h)?, windows[1].places(step, w)?);
    // What of the window at a place lies inside.
    let inside = |i: usize, place: usize, size: usize| {
        let first = windows[i].first(place);
        let end = (first + i64::from(kernel[i])).clamp(0, size as i64) as usize;
        (first.max(0) as usize).min(end)..end
    };
    let area = f64::from(kernel[0]) * f64::from(kernel[1]);
    let mut y = Vec::with_capacity(elements(step, &[n, c, rows, columns])?);
    with_slice(x, |x| {
        for plane in planes(x, n * c, h * w) {
            for (i, j) in places(rows, columns) {
                let (down, right) = (inside(0, i, h), inside(1, j, w));
                let values = down.flat_map(|r| &plane[r * w..][right.clone()]);
                y.push(match mode {
                    PoolMode::Max => {
                        values.fold(f32::NEG_INFINITY, |top, &v| if v > top || v.is_nan() { v } else { top })
                    }
                    PoolMode::Average => (values.map(|&v| f64::from(v)).sum::<f64>() / area) as f32,
                });
            }
        }
    })?;
    Ok(Tensor::from_vec(y, (n, c, rows, columns), &Device::Cpu)?)
}

/// Another size, `⌊n·scale⌋`. Output `i` covers `i·r … (i + 1)·r` of the source with r the source
/// size over the output size (PyTorch's `recompute_scale_factor=True`):
///
/// - nearest is the source element that holds the centre of that (PyTorch's `nearest-exact`),
/// - bilinear is linear between the source centres around it, without corner alignment,
/// - area is the mean of every source element that it touches (PyTorch's adaptive average).
pub(super) fn interpolate(step: &Step, x: &Tensor, mode: Interpolation, scale: f32) -> Result<Tensor> {
    let (n, c, h, w) = x.dims4()?;
    let size = |from: usize| {
        let size = i64::try_from(from).ok().and_then(|n| interpolated_size(n, scale));
        match size.and_then(|n| usize::try_from(n).ok()) {
            Some(to) if to > 0 && from > 0 => Ok(to),
            _ => Err(operand(step, format!("scale {scale} of the size {from} is no size"))),
        }
    };
    let (rows, columns) = (size(h)?, size(w)?);
    let mut y = Vec::with_capacity(elements(step, &[n, c, rows, columns])?);
    let (down, right): (Vec<Source>, Vec<Source>) = match n * c {
        0 => (Vec::new(), Vec::new()),
        _ => (
            (0..rows).map(|i| Source::new(mode, i, h, rows)).collect(),
            (0..columns).map(|j| Source::new(mode, j, w, columns)).collect(),
        ),
    };
    with_slice(x, |x| {
        for plane in planes(x, n * c, h * w) {
            for (i, j) in places(rows, columns) {
                let (a, b) = (&down[i], &right[j]);
                let mut sum = 0.0;
                for p in 0..a.count {
                    for q in 0..b.count {
                        let value = plane[(a.first + p) * w + b.first + q];
                        sum += a.weight(p) * b.weight(q) * f64::from(value);
                    }
                }
                y.push(sum as f32);
            }
        }
    })?;
    Ok(Tensor::from_vec(y, (n, c, rows, columns), &Device::Cpu)?)
}

/// Source elements of one output element, in one direction.
struct Source {
    first: usize,
    count: usize,
    /// Weight of the first …
    head: f64,
    /// … and of each other.
    rest: f64,
}

impl Source {
    fn new(mode: Interpolation, at: usize, from: usize, to: usize) -> Self {
        match mode {
            Interpolation::Nearest => {
                let first = ((2 * at + 1) * from / (2 * to)).min(from - 1);
                Source { first, count: 1, head: 1.0, rest: 0.0 }
            }
            Interpolation::Bilinear => {
                let centre = ((at as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
                let first = (centre as usize).min(from - 1);
                let rest = centre - first as f64;
                Source {
                    first,
                    count: (from - first).min(2),
                    head: if first + 1 < from { 1.0 - rest } else { 1.0 },
                    rest,
                }
            }
            Interpolation::Area => {
                let (first, end) = (at * from / to, ((at + 1) * from).div_ceil(to));
                let weight = 1.0 / (end - first) as f64;
                Source { first, count: end - first, head: weight, rest: weight }
            }
        }
    }

    fn weight(&self, i: usize) -> f64 {
        if i == 0 { self.head } else { self.rest }
    }
}

/// `[N, C·f², H, W]` to `[N, C, H·f, W·f]`: the channels `c·f² + i·f + j` are the element `(i, j)` of
/// each square.
pub(super) fn pixel_shuffle(step: &Step, x: &Tensor, factor: u32) -> Result<Tensor> {
    let (n, c, h, w) = x.dims4()?;
    let f = factor as usize;
    match f.checked_mul(f) {
        Some(square) if square > 0 && c % square == 0 => {
            elements(step, &[n, c / square, h.saturating_mul(f), w.saturating_mul(f)])?;
            let parts = x.contiguous()?.reshape(vec![n, c / square, f, f, h, w])?;
            Ok(parts.permute(vec![0, 1, 4, 2, 5, 3])?.contiguous()?.reshape((n, c / square, h * f, w * f))?)
        }
        _ => Err(operand(step, format!("x has {c} channels, no multiple of {factor}²"))),
    }
}

/// The inverse of [`pixel_shuffle`].
pub(super) fn pixel_unshuffle(step: &Step, x: &Tensor, factor: u32) -> Result<Tensor> {
    let (n, c, h, w) = x.dims4()?;
    let f = factor as usize;
    if f == 0 || h % f != 0 || w % f != 0 {
        return Err(operand(step, format!("x is {h} by {w}, no multiples of {factor}")));
    }
    let channels = c.saturating_mul(f).saturating_mul(f);
    elements(step, &[n, channels, h / f, w / f])?;
    let parts = x.contiguous()?.reshape(vec![n, c, h / f, f, w / f, f])?;
    Ok(parts.permute(vec![0, 1, 3, 5, 2, 4])?.contiguous()?.reshape((n, channels, h / f, w / f))?)
}

/// `count` planes of `size` elements, which may be none.
fn planes(x: &[f32], count: usize, size: usize) -> impl Iterator<Item = &[f32]> {
    (0..count).map(move |i| &x[i * size..][..size])
}

fn places(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}
