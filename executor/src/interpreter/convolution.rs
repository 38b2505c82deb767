//! Convolutions: the inputs under the taps of every output place are gathered into columns, which a
//! matrix of weights multiplies; transposed convolutions multiply first and then spread.

use super::layout::operand;
use super::limits::{elements, elements_of};
use crate::error::Result;
use crate::value::with_slice;
use candle_core::{Device, Tensor};
use std::ops::Range;
use tallow_compiler::Step;
use tallow_ir::Op;

/// About how many elements are gathered at a time.
const BLOCK: usize = 1 << 22;

/// How a window moves in one direction.
#[derive(Clone, Copy)]
pub(super) struct Window {
    kernel: usize,
    stride: usize,
    /// Padding before the first element …
    before: usize,
    /// … and after the last.
    after: usize,
    dilation: usize,
}

impl Window {
    /// The window of a direction that is not there.
    const NONE: Window = Window { kernel: 1, stride: 1, before: 0, after: 0, dilation: 1 };

    pub fn new(kernel: u32, stride: u32, padding: u32, dilation: u32) -> Self {
        let padding = padding as usize;
        let (kernel, stride, dilation) = (kernel as usize, stride as usize, dilation as usize);
        Window { kernel, stride, before: padding, after: padding, dilation }
    }

    fn zip<const N: usize>(kernel: &[u32; N], stride: &[u32; N], padding: &[u32; N], dilation: &[u32; N]) -> Vec<Self> {
        (0..N).map(|i| Window::new(kernel[i], stride[i], padding[i], dilation[i])).collect()
    }

    /// From the first tap to the last.
    fn reach(&self) -> usize {
        self.kernel.saturating_sub(1).saturating_mul(self.dilation).saturating_add(1)
    }

    /// The number of places of the window over `size` elements.
    pub fn places(&self, step: &Step, size: usize) -> Result<usize> {
        let padded = size.saturating_add(self.before).saturating_add(self.after);
        match padded.checked_sub(self.reach()) {
            Some(room) => Ok(room / self.stride.max(1) + 1),
            None => Err(operand(
                step,
                format!(
                    "kernel {} (dilation {}) is larger than the size {size} with padding {} and {}",
                    self.kernel, self.dilation, self.before, self.after
                ),
            )),
        }
    }

    /// Which element, counted from the first, lies under the first tap at a place.
    pub fn first(&self, place: usize) -> i64 {
        (place * self.stride) as i64 - self.before as i64
    }
}

/// Every convolution that is not transposed. x `[N, C, spatial…]`, W `[out, C/groups, kernel…]`.
pub(super) fn convolution(step: &Step, x: &[Tensor]) -> Result<Tensor> {
    let channels = x[0].dim(1)?;
    let (windows, groups) = match &step.op {
        Op::Conv1d { kernel, stride, padding, dilation, groups } => {
            (vec![Window::new(*kernel, *stride, *padding, *dilation)], *groups as usize)
        }
        Op::Conv2d { kernel, stride, padding, dilation, groups } => {
            (Window::zip(kernel, stride, padding, dilation), *groups as usize)
        }
        Op::Conv3d { kernel, stride, padding, dilation, groups } => {
            (Window::zip(kernel, stride, padding, dilation), *groups as usize)
        }
        Op::CausalConv1d { kernel } => {
            let before = (*kernel as usize).saturating_sub(1);
            let window = Window { before, after: 0, ..Window::new(*kernel, 1, 0, 1) };
            (vec![window], channels / x[1].dim(1)?.max(1))
        }
        Op::DepthwiseConv { kernel, stride } => {
            let window = Window::new(*kernel, *stride, kernel / 2, 1);
            (vec![window; x[0].rank().saturating_sub(2)], channels)
        }
        Op::PatchEmbed { patch } => (vec![Window::new(*patch, *patch, 0, 1); 2], 1),
        other => return Err(operand(step, format!("{} is no convolution", other.name()))),
    };
    let sizes = &x[0].dims()[2..];
    let taps: Vec<usize> = windows.iter().map(|w| w.kernel).collect();
    let fits = windows.len() == sizes.len()
        && x[1].dims().get(2..) == Some(&taps)
        && groups > 0
        && x[1].dim(1)?.checked_mul(groups) == Some(channels)
        && x[1].dim(0)? % groups == 0;
    if !fits {
        return Err(misfit(step, x));
    }
    let places = windows.iter().zip(sizes).map(|(w, &n)| w.places(step, n)).collect::<Result<Vec<_>>>()?;
    let mut dims = vec![x[0].dim(0)?, x[1].dim(0)?];
    dims.extend(&places);
    let mut y = vec![0f32; elements(step, &dims)?];
    let grid = Grid { windows: three(&windows, Window::NONE), sizes: three(sizes, 1), places: three(&places, 1) };
    elements_of(step, "W", x[1].dims())?;
    let k = x[1].dim(1)? * taps.iter().product::<usize>();
    if !y.is_empty() && k > 0 {
        let weights = x[1].contiguous()?.reshape((groups, dims[1] / groups, k))?;
        with_slice(&x[0], |values| grid.products(values, &weights, &mut y))??;
    }
    add_bias(&mut y, x.get(2), &dims)?;
    Ok(Tensor::from_vec(y, dims, &Device::Cpu)?)
}

/// Transposed convolutions. x `[N, C, spatial…]`, W `[C, out/groups, kernel…]`.
pub(super) fn transposed(step: &Step, x: &[Tensor]) -> Result<Tensor> {
    let (windows, groups, more) = match &step.op {
        Op::ConvTranspose1d { kernel, stride, padding, output_padding, dilation, groups } => {
            let window = Window::new(*kernel, *stride, *padding, *dilation);
            (vec![window], *groups as usize, *output_padding as usize)
        }
        Op::ConvTranspose2d { kernel, stride, padding } => (Window::zip(kernel, stride, padding, &[1, 1]), 1, 0),
        other => return Err(operand(step, format!("{} is no transposed convolution", other.name()))),
    };
    let (places, channels) = (&x[0].dims()[2..], x[0].dim(1)?);
    let taps: Vec<usize> = windows.iter().map(|w| w.kernel).collect();
    let fits = windows.len() == places.len()
        && x[1].dims().get(2..) == Some(&taps)
        && x[1].dim(0)? == channels
        && groups > 0
        && channels % groups == 0;
    if !fits {
        return Err(misfit(step, x));
    }
    let per_group = x[1].dim(1)?;
    let mut dims = vec![x[0].dim(0)?, per_group.saturating_mul(groups)];
    for (w, &n) in windows.iter().zip(places) {
        let all = n.saturating_sub(1).saturating_mul(w.stride).saturating_add(w.reach()).saturating_add(more);
        let all = if n == 0 { all.saturating_sub(w.stride) } else { all };
        match all.checked_sub(w.before.saturating_add(w.after)) {
            Some(size) if size > 0 => dims.push(size),
            _ => return Err(operand(step, format!("padding {} leaves nothing of the size {n}", w.before))),
        }
    }
    let mut y = vec![0f32; elements(step, &dims)?];
    let grid = Grid { windows: three(&windows, Window::NONE), sizes: three(&dims[2..], 1), places: three(places, 1) };
    elements_of(step, "W", x[1].dims())?;
    elements_of(step, "x", x[0].dims())?;
    let all: usize = places.iter().product();
    if !y.is_empty() && channels > 0 && all > 0 {
        let rows = per_group * taps.iter().product::<usize>();
        // [groups, out/groups · taps, C/groups]
        let weights = x[1].contiguous()?.reshape((groups, channels / groups, rows))?.transpose(1, 2)?.contiguous()?;
        let inputs = x[0].contiguous()?.reshape((dims[0] * groups, channels / groups, all))?;
        grid.spread(&inputs, &weights, &mut y)?;
    }
    add_bias(&mut y, x.get(2), &dims)?;
    Ok(Tensor::from_vec(y, dims, &Device::Cpu)?)
}

/// Windows over three directions; those that are not there have the size 1 and stand first.
struct Grid {
    windows: [Window; 3],
    /// Sizes of what the windows move over.
    sizes: [usize; 3],
    /// Number of places in each direction.
    places: [usize; 3],
}

impl Grid {
    /// Where the first tap lies for each of a range of places.
    fn firsts(&self, range: Range<usize>) -> Vec<[i64; 3]> {
        let [_, h, w] = self.places;
        range.map(|p| [p / (h * w), p / w % h, p % w]).map(|p| [0, 1, 2].map(|i| self.windows[i].first(p[i]))).collect()
    }

    /// The offset of every tap from the first.
    fn taps(&self) -> impl Iterator<Item = [i64; 3]> + '_ {
        let [d, h, w] = self.windows.map(|w| w.kernel);
        (0..d * h * w)
            .map(move |t| [t / (h * w), t / w % h, t % w])
            .map(|t| [0, 1, 2].map(|i| (t[i] * self.windows[i].dilation) as i64))
    }

    /// The element under a tap; `None` in the padding.
    fn at(&self, first: [i64; 3], tap: [i64; 3]) -> Option<usize> {
        let mut at = 0;
        for i in 0..3 {
            let here = usize::try_from(first[i] + tap[i]).ok().filter(|&n| n < self.sizes[i])?;
            at = at * self.sizes[i] + here;
        }
        Some(at)
    }

    /// `y[n, g·out + o, place] = Σ weights[g, o, c, tap] · x[n, g·C + c, place + tap]`, with weights
    /// `[groups, out, C · taps]`.
    fn products(&self, x: &[f32], weights: &Tensor, y: &mut [f32]) -> Result<()> {
        let (groups, out, k) = weights.dims3()?;
        let (plane, all) = (self.sizes.iter().product::<usize>(), self.places.iter().product::<usize>());
        let channels = k / self.taps().count();
        for (at, y) in y.chunks_mut(out * all).enumerate() {
            let matrix = weights.get(at % groups)?;
            let x = &x[at * channels * plane..][..channels * plane];
            for range in blocks(all, k) {
                let firsts = self.firsts(range.clone());
                let mut columns = vec![0f32; k * firsts.len()];
                let mut rows = columns.chunks_mut(firsts.len());
                for c in 0..channels {
                    for (tap, row) in self.taps().zip(&mut rows) {
                        for (value, first) in row.iter_mut().zip(&firsts) {
                            if let Some(i) = self.at(*first, tap) {
                                *value = x[c * plane + i];
                            }
                        }
                    }
                }
                let columns = Tensor::from_vec(columns, (k, range.len()), &Device::Cpu)?;
                with_slice(&matrix.matmul(&columns)?, |product| {
                    for (y, row) in y.chunks_mut(all).zip(product.chunks(range.len())) {
                        y[range.clone()].copy_from_slice(row);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// `y[n, g·out + o, place + tap] += Σ weights[g, o, tap, c] · x[n·groups + g, c, place]`, with
    /// weights `[groups, out · taps, C]`.
    fn spread(&self, x: &Tensor, weights: &Tensor, y: &mut [f32]) -> Result<()> {
        let (groups, rows, _) = weights.dims3()?;
        let (plane, all) = (self.sizes.iter().product::<usize>(), self.places.iter().product::<usize>());
        let out = rows / self.taps().count();
        for (at, y) in y.chunks_mut(out * plane).enumerate() {
            let (matrix, x) = (weights.get(at % groups)?, x.get(at)?);
            for range in blocks(all, rows) {
                let firsts = self.firsts(range.clone());
                let part = x.narrow(1, range.start, range.len())?.contiguous()?;
                with_slice(&matrix.matmul(&part)?, |product| {
                    let mut product = product.chunks(range.len());
                    for y in y.chunks_mut(plane) {
                        for (tap, row) in self.taps().zip(&mut product) {
                            for (value, first) in row.iter().zip(&firsts) {
                                if let Some(i) = self.at(*first, tap) {
                                    y[i] += value;
                                }
                            }
                        }
                    }
                })?;
            }
        }
        Ok(())
    }
}

/// `all` places in ranges of about [`BLOCK`] elements, where each place takes `each`.
fn blocks(all: usize, each: usize) -> impl Iterator<Item = Range<usize>> {
    let length = (BLOCK / each.max(1)).max(1);
    (0..all).step_by(length).map(move |from| from..all.min(from + length))
}

/// The last of three from a list of at most three, `filler` before them.
fn three<T: Copy>(list: &[T], filler: T) -> [T; 3] {
    let mut all = [filler; 3];
    let skipped = 3usize.saturating_sub(list.len());
    for (slot, value) in all[skipped..].iter_mut().zip(list) {
        *slot = *value;
    }
    all
}

/// Adds one number a channel to values of shape `dims`, `[N, C, …]`.
fn add_bias(y: &mut [f32], bias: Option<&Tensor>, dims: &[usize]) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    let bias = bias.to_vec1::<f32>()?;
    let plane: usize = dims[2..].iter().product();
    if bias.is_empty() || plane == 0 {
        return Ok(());
    }
    for (y, b) in y.chunks_mut(plane).zip(bias.iter().cycle()) {
        y.iter_mut().for_each(|v| *v += b);
    }
    Ok(())
}

fn misfit(step: &Step, x: &[Tensor]) -> crate::error::ExecutorError {
    operand(step, format!("x has the shape {:?}, which does not fit W {:?}", x[0].dims(), x[1].dims()))
}
