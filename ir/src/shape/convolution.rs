//! Convolutions, pooling and picture layouts: everything is `[N, C, spatial…]`.

use super::{Context, Types, bail, float, overflow, rank, same_dim};
use crate::{Dim, Op, RuleError, Shape, TensorType};

/// x `[N, C, spatial…]`, W `[out, in/groups, kernel…]`, b `[out]` gives `[N, out, spatial…]` with
/// `⌊(n + 2·padding − dilation·(kernel − 1) − 1) / stride⌋ + 1` in each direction.
pub(crate) fn convolution(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let steps: Vec<Step> = match op {
        Op::Conv1d { kernel, stride, padding, dilation, .. } => vec![Step::new(*kernel, *stride, *padding, *dilation)],
        Op::Conv2d { kernel, stride, padding, dilation, .. } => Step::zip(kernel, stride, padding, dilation),
        Op::Conv3d { kernel, stride, padding, dilation, .. } => Step::zip(kernel, stride, padding, dilation),
        Op::CausalConv1d { kernel } => vec![Step::new(*kernel, 1, 0, 1)],
        Op::DepthwiseConv { kernel, stride } => match x[0].shape.rank() {
            r @ (3 | 4) => vec![Step::new(*kernel, *stride, kernel / 2, 1); r - 2],
            _ => bail!("x has shape {}, expected [N, C, L] or [N, C, H, W]", x[0].shape),
        },
        Op::PatchEmbed { patch } => vec![Step::new(*patch, *patch, 0, 1); 2],
        _ => bail!("{} is not a convolution", op.name()),
    };
    float("x", &x[0])?;
    float("W", &x[1])?;
    rank("x", &x[0], steps.len() + 2)?;
    rank("W", &x[1], steps.len() + 2)?;
    let (channels, out, per_group) = (&x[0].shape.0[1], &x[1].shape.0[0], &x[1].shape.0[1]);
    let groups = match op {
        Op::Conv1d { groups, .. } | Op::Conv2d { groups, .. } | Op::Conv3d { groups, .. } => {
            Dim::constant(i64::from(*groups))
        }
        Op::DepthwiseConv { .. } => channels.clone(),
        Op::CausalConv1d { .. } => match channels.div_exact(per_group) {
            Some(groups) => groups,
            None => bail!("x has {channels} channels, no multiple of the {per_group} of W"),
        },
        _ => Dim::constant(1),
    };
    if groups == Dim::constant(0) {
        bail!("groups is 0, expected at least 1");
    }
    let needed = per_group.mul(&groups).ok_or_else(overflow)?;
    if needed != *channels {
        bail!("x has {channels} channels, W takes {needed} ({per_group} in each of {groups} groups)");
    }
    if out.div_exact(&groups).is_none() {
        bail!("W gives {out} channels, no multiple of {groups} groups");
    }
    bias(x, out)?;
    for (i, step) in steps.iter().enumerate() {
        same_dim(&format!("dimension {} of W", i + 2), &x[1].shape.0[i + 2], &Dim::constant(step.kernel))?;
    }
    let mut dims = vec![x[0].shape.0[0].clone(), out.clone()];
    for (step, size) in steps.iter().zip(&x[0].shape.0[2..]) {
        dims.push(match op {
            // Padding on the left only, by what the kernel needs.
            Op::CausalConv1d { .. } => {
                step.check()?;
                size.clone()
            }
            _ => step.size(size)?,
        });
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// x `[N, in, spatial…]`, W `[in, out/groups, kernel…]`, b `[out]`:
/// `(n − 1)·stride − 2·padding + dilation·(kernel − 1) + output_padding + 1` in each direction.
pub(crate) fn transposed(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let (steps, groups, more) = match op {
        Op::ConvTranspose1d { kernel, stride, padding, output_padding, dilation, groups } => {
            (vec![Step::new(*kernel, *stride, *padding, *dilation)], *groups, *output_padding)
        }
        Op::ConvTranspose2d { kernel, stride, padding } => (Step::zip(kernel, stride, padding, &[1, 1]), 1, 0),
        _ => bail!("{} is not a transposed convolution", op.name()),
    };
    float("x", &x[0])?;
    float("W", &x[1])?;
    rank("x", &x[0], steps.len() + 2)?;
    rank("W", &x[1], steps.len() + 2)?;
    same_dim("dimension 0 of W", &x[1].shape.0[0], &x[0].shape.0[1])?;
    if groups == 0 {
        bail!("groups is 0, expected at least 1");
    }
    let groups = Dim::constant(groups.into());
    if x[0].shape.0[1].div_exact(&groups).is_none() {
        bail!("x has {} channels, no multiple of {groups} groups", x[0].shape.0[1]);
    }
    let out = x[1].shape.0[1].mul(&groups).ok_or_else(overflow)?;
    bias(x, &out)?;
    let mut dims = vec![x[0].shape.0[0].clone(), out];
    for (i, step) in steps.iter().enumerate() {
        let reach = step.check()?;
        if i64::from(more) >= step.stride.max(step.dilation) {
            bail!("output_padding {more} is no less than stride {} and dilation {}", step.stride, step.dilation);
        }
        same_dim(&format!("dimension {} of W", i + 2), &x[1].shape.0[i + 2], &Dim::constant(step.kernel))?;
        let size = &x[0].shape.0[i + 2];
        let more = reach.checked_add(i64::from(more) - 2 * step.padding).ok_or_else(overflow)?;
        let wide = size
            .add(&Dim::constant(-1))
            .and_then(|n| n.mul(&Dim::constant(step.stride)))
            .and_then(|n| n.add(&Dim::constant(more)))
            .ok_or_else(overflow)?;
        if wide.as_const().is_some_and(|n| n < 1) {
            bail!("padding {} leaves nothing of dimension {} of x {}", step.padding, i + 2, x[0].shape);
        }
        dims.push(wide);
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// x `[N, C, H, W]`; padding at most half the kernel, so that no window is padding alone.
pub(crate) fn pool(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Pool { kernel, stride, padding, .. } = op else { bail!("{} is not a pool", op.name()) };
    float("x", &x[0])?;
    rank("x", &x[0], 4)?;
    let mut dims = x[0].shape.0.clone();
    for (i, step) in Step::zip(kernel, stride, padding, &[1, 1]).iter().enumerate() {
        if step.padding * 2 > step.kernel {
            bail!("padding {} is over half of kernel {}", step.padding, step.kernel);
        }
        dims[i + 2] = step.size(&dims[i + 2])?;
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// x `[N, C, H, W]` gives `⌊n · scale⌋` in both directions; see
/// [`interpolated_size`](crate::ops::interpolated_size).
pub(crate) fn interpolate(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Interpolate { scale, .. } = op else { bail!("{} is not an interpolation", op.name()) };
    float("x", &x[0])?;
    rank("x", &x[0], 4)?;
    let scale = scale.get();
    if !(scale.is_finite() && scale > 0.0) {
        bail!("scale is {scale}, expected a positive number");
    }
    let mut dims = x[0].shape.0.clone();
    for (dim, unknown) in dims[2..].iter_mut().zip(["?height", "?width"]) {
        let size = match dim.as_const() {
            Some(n) => crate::ops::interpolated_size(n, scale).map(Dim::constant),
            // Rounding in single precision is no algebra for other scales: only running tells.
            None => Some(scaled(dim, scale).unwrap_or_else(|| Dim::symbol(unknown))),
        };
        let Some(size) = size else { bail!("the size {dim} times scale {scale} is too large to represent") };
        if size.as_const().is_some_and(|n| n < 1) {
            bail!("scale {scale} leaves nothing of the size {dim}");
        }
        *dim = size;
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// A symbolic size times a scale that is a whole number over a power of two.
fn scaled(dim: &Dim, scale: f32) -> Option<Dim> {
    const FINEST: i64 = 1 << 16;
    let mut below = 1i64;
    while below <= FINEST {
        let above = f64::from(scale) * below as f64;
        if above.fract() == 0.0 && above < i64::MAX as f64 {
            return dim.mul(&Dim::constant(above as i64))?.div_floor(below);
        }
        below *= 2;
    }
    None
}

/// `[N, C·f², H, W]` to `[N, C, H·f, W·f]`, and back.
pub(crate) fn pixel_shuffle(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let (Op::PixelShuffle { factor } | Op::PixelUnshuffle { factor }) = op else {
        bail!("{} is not a pixel shuffle", op.name())
    };
    rank("x", &x[0], 4)?;
    if *factor == 0 {
        bail!("factor is 0, expected at least 1");
    }
    let f = Dim::constant(i64::from(*factor));
    let square = f.mul(&f).ok_or_else(overflow)?;
    let [n, c, h, w] = x[0].shape.dims() else { bail!("x has shape {}, expected [N, C, H, W]", x[0].shape) };
    let wider = matches!(op, Op::PixelShuffle { .. });
    let times = |d: &Dim, by: &Dim| d.mul(by).ok_or_else(overflow);
    let part = |what: &str, d: &Dim, by: &Dim| {
        d.div_exact(by).ok_or_else(|| RuleError::new(format!("x has {what} {d}, no multiple of {by}")))
    };
    let dims = if wider {
        [n.clone(), part("channels", c, &square)?, times(h, &f)?, times(w, &f)?]
    } else {
        [n.clone(), times(c, &square)?, part("height", h, &f)?, part("width", w, &f)?]
    };
    Ok(vec![TensorType::new(x[0].dtype, Shape::new(dims))])
}

/// Refused: the operation says nothing of the size of a patch, and its operand fits many.
pub(crate) fn unpatchify(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    bail!(
        "Unpatchify is not supported: it carries no patch size, and x {} does not settle it; write \
         Reshape and Permute with the sizes instead",
        x[0].shape
    )
}

/// b `[out]`, where there is one.
fn bias(x: &[TensorType], out: &Dim) -> Result<(), RuleError> {
    let Some(b) = x.get(2) else { return Ok(()) };
    float("b", b)?;
    rank("b", b, 1)?;
    same_dim("the length of b", &b.shape.0[0], out)
}

/// How a window moves in one direction.
#[derive(Clone, Copy)]
struct Step {
    kernel: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
}

impl Step {
    fn new(kernel: u32, stride: u32, padding: u32, dilation: u32) -> Self {
        Step { kernel: kernel.into(), stride: stride.into(), padding: padding.into(), dilation: dilation.into() }
    }

    fn zip<const N: usize>(kernel: &[u32; N], stride: &[u32; N], padding: &[u32; N], dilation: &[u32; N]) -> Vec<Self> {
        (0..N).map(|i| Step::new(kernel[i], stride[i], padding[i], dilation[i])).collect()
    }

    /// The number of places from the first tap to the last, which is at least 1.
    fn check(&self) -> Result<i64, RuleError> {
        for (what, n) in [("kernel", self.kernel), ("stride", self.stride), ("dilation", self.dilation)] {
            if n == 0 {
                bail!("{what} is 0, expected at least 1");
            }
        }
        // Both are below 2³².
        self.dilation.checked_mul(self.kernel - 1).and_then(|n| n.checked_add(1)).ok_or_else(overflow)
    }

    /// The number of places of the window over `size`.
    fn size(&self, size: &Dim) -> Result<Dim, RuleError> {
        let reach = self.check()?;
        let room = size
            .add(&Dim::constant(2 * self.padding))
            .and_then(|n| n.sub(&Dim::constant(reach)))
            .ok_or_else(overflow)?;
        if room.as_const().is_some_and(|n| n < 0) {
            bail!(
                "kernel {} (dilation {}) is larger than the size {size} with padding {}",
                self.kernel,
                self.dilation,
                self.padding
            );
        }
        room.div_floor(self.stride).and_then(|n| n.add(&Dim::constant(1))).ok_or_else(overflow)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good};
    use super::*;
    use crate::ops::{Interpolation, PoolMode};

    #[test]
    fn convolutions() {
        let one = |stride, padding, groups| Op::Conv1d { kernel: 3, stride, padding, dilation: 1, groups };
        let w = f("32, 8, 3");
        assert_eq!(good(one(1, 1, 1), &[f("N, 8, S"), w.clone(), f("32")]), "f32[N, 32, S]");
        assert_eq!(good(one(2, 1, 1), &[f("1, 8, 2*S"), w.clone()]), "f32[1, 32, S]");
        assert_eq!(good(one(2, 1, 1), &[f("1, 8, 3000"), w.clone()]), "f32[1, 32, 1500]");
        assert_eq!(good(one(1, 0, 4), &[f("1, 32, 9"), w.clone()]), "f32[1, 32, 7]");
        assert_eq!(good(one(2, 1, 1), &[f("1, 8, S"), w.clone()]), "f32[1, 32, floor((S + 1)/2)]");
        bad(one(1, u32::MAX, 1), &[f("1, 8, 9223372036854775807"), w.clone()], "too large");
        bad(one(1, 1, 1), &[f("1, 9, S"), w.clone()], "x has 9 channels, W takes 8");
        bad(one(1, 1, 0), &[f("1, 8, S"), w.clone()], "groups is 0");
        bad(one(1, 1, 3), &[f("1, 24, S"), w.clone()], "no multiple of 3 groups");
        bad(one(0, 1, 1), &[f("1, 8, S"), w.clone()], "stride is 0");
        bad(one(1, 0, 1), &[f("1, 8, 2"), w.clone()], "larger than the size 2");
        bad(one(1, 1, 1), &[f("8, S"), w.clone()], "x has shape [8, S], expected 3");
        bad(one(1, 1, 1), &[f("1, 8, S"), f("32, 8, 5")], "dimension 2 of W is 5, expected 3");
        bad(one(1, 1, 1), &[f("1, 8, S"), w, f("31")], "the length of b is 31, expected 32");
        let two = Op::Conv2d { kernel: [3, 5], stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 1 };
        let w = f("16, 3, 3, 5");
        assert_eq!(good(two.clone(), &[f("N, 3, 224, S"), w.clone()]), "f32[N, 16, 112, S - 4]");
        bad(two, &[f("N, 3, 224"), w], "expected 4 dimensions");
        let three =
            |kernel: [u32; 3]| Op::Conv3d { kernel, stride: kernel, padding: [0; 3], dilation: [1; 3], groups: 1 };
        let w = f("16, 3, 2, 14, 14");
        assert_eq!(good(three([2, 14, 14]), &[f("1, 3, 2*T, 28, 14*n"), w.clone()]), "f32[1, 16, T, 2, n]");
        bad(three([2, 14, 7]), &[f("1, 3, 2, 28, 28"), w], "dimension 4 of W is 14");
    }

    #[test]
    fn causal_depthwise_and_patches() {
        let causal = Op::CausalConv1d { kernel: 4 };
        assert_eq!(good(causal.clone(), &[f("1, 64, S"), f("64, 1, 4"), f("64")]), "f32[1, 64, S]");
        assert_eq!(good(causal.clone(), &[f("1, 64, S"), f("32, 64, 4")]), "f32[1, 32, S]");
        bad(causal, &[f("1, 64, S"), f("64, 3, 4")], "no multiple of the 3 of W");
        bad(Op::CausalConv1d { kernel: 0 }, &[f("1, 4, S"), f("4, 1, 0")], "kernel is 0");
        let deep = Op::DepthwiseConv { kernel: 3, stride: 2 };
        assert_eq!(good(deep.clone(), &[f("1, 8, 15, 16"), f("8, 1, 3, 3")]), "f32[1, 8, 8, 8]");
        assert_eq!(good(deep.clone(), &[f("1, 8, 2*S"), f("16, 1, 3")]), "f32[1, 16, S]");
        bad(deep.clone(), &[f("1, 8, 15, 16"), f("8, 8, 3, 3")], "W takes 64");
        bad(deep, &[f("8, 15"), f("8, 1, 3")], "expected [N, C, L] or [N, C, H, W]");
        let patch = Op::PatchEmbed { patch: 14 };
        assert_eq!(good(patch.clone(), &[f("B, 3, 224, 230"), f("768, 3, 14, 14"), f("768")]), "f32[B, 768, 16, 16]");
        bad(patch, &[f("B, 3, 13, 224"), f("768, 3, 14, 14")], "larger than the size 13");
        bad(Op::PatchEmbed { patch: 0 }, &[f("B, 3, 13, 224"), f("768, 3, 0, 0")], "kernel is 0");
    }

    #[test]
    fn transposed_convolution_and_pool() {
        let up = |padding| Op::ConvTranspose2d { kernel: [4, 2], stride: [2, 2], padding: [padding, 0] };
        let w = f("8, 16, 4, 2");
        assert_eq!(good(up(1), &[f("1, 8, H, 7"), w.clone(), f("16")]), "f32[1, 16, 2*H, 14]");
        bad(up(1), &[f("1, 9, H, 7"), w.clone()], "dimension 0 of W is 8, expected 9");
        bad(up(9), &[f("1, 8, 2, 7"), w.clone()], "padding 9 leaves nothing");
        bad(up(1), &[f("1, 8, 2, 7"), f("8, 16, 3, 2")], "dimension 2 of W is 3");
        bad(up(1), &[f("1, 8, 2, 7"), w, f("8")], "the length of b");
        let pool = |padding| Op::Pool { mode: PoolMode::Max, kernel: [2, 3], stride: [2, 1], padding: [padding, 1] };
        assert_eq!(good(pool(0), &[f("N, 8, 15, S")]), "f32[N, 8, 7, S]");
        bad(pool(2), &[f("N, 8, 15, S")], "padding 2 is over half of kernel 2");
        assert_eq!(good(pool(0), &[f("N, 8, H, S")]), "f32[N, 8, floor(H/2), S]");
        let one = |output_padding, dilation, groups| Op::ConvTranspose1d {
            kernel: 4,
            stride: 2,
            padding: 1,
            output_padding,
            dilation,
            groups,
        };
        let w = f("8, 3, 4");
        assert_eq!(good(one(0, 1, 1), &[f("B, 8, S"), w.clone(), f("3")]), "f32[B, 3, 2*S]");
        assert_eq!(good(one(1, 3, 4), &[f("1, 8, 5"), w.clone(), f("12")]), "f32[1, 12, 17]");
        bad(one(2, 1, 1), &[f("1, 8, 5"), w.clone()], "output_padding 2 is no less than stride 2");
        bad(one(0, 0, 1), &[f("1, 8, 5"), w.clone()], "dilation is 0");
        bad(one(0, 1, 0), &[f("1, 8, 5"), w.clone()], "groups is 0");
        bad(one(0, 1, 3), &[f("1, 8, 5"), w.clone()], "no multiple of 3 groups");
        bad(one(0, u32::MAX, 1), &[f("1, 8, 9223372036854775807"), w], "too large");
    }

    #[test]
    fn sizes_of_pictures() {
        let to = |scale: f32| Op::Interpolate { mode: Interpolation::Nearest, scale: scale.into() };
        assert_eq!(good(to(2.0), &[f("1, 3, H, 7")]), "f32[1, 3, 2*H, 14]");
        assert_eq!(good(to(0.5), &[f("1, 3, 4*H, 7")]), "f32[1, 3, 2*H, 3]");
        assert_eq!(good(to(1.5), &[f("1, 3, 2*H + 1, 7")]), "f32[1, 3, 3*H + 1, 10]");
        assert_eq!(good(to(0.7), &[f("1, 3, 10, 10")]), "f32[1, 3, 7, 7]");
        assert_eq!(good(to(0.5), &[f("1, 3, H, 7")]), "f32[1, 3, floor(H/2), 3]");
        assert_eq!(good(to(0.7), &[f("1, 3, H, 10")]), "f32[1, 3, ?height, 7]");
        bad(to(f32::NAN), &[f("1, 3, 8, 8")], "scale is NaN");
        bad(to(0.1), &[f("1, 3, 8, 8")], "leaves nothing");
        bad(to(f32::MAX), &[f("1, 3, 8, 8")], "is too large");
        let (wide, deep) = (Op::PixelShuffle { factor: 2 }, Op::PixelUnshuffle { factor: 2 });
        assert_eq!(good(wide.clone(), &[f("1, 12, H, 5")]), "f32[1, 3, 2*H, 10]");
        assert_eq!(good(deep.clone(), &[f("1, 3, 2*H, 10")]), "f32[1, 12, H, 5]");
        bad(wide, &[f("1, 10, H, 5")], "x has channels 10, no multiple of 4");
        bad(deep, &[f("1, 3, H, 10")], "x has height H, no multiple of 2");
        bad(Op::PixelShuffle { factor: 0 }, &[f("1, 4, 2, 2")], "factor is 0");
        bad(Op::Unpatchify, &[f("1, 196, 768")], "carries no patch size");
    }
}
