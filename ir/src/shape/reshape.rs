//! Operations that change sizes or the number of dimensions.

use super::elementwise::unknown;
use super::reduce::named;
use super::{Context, Types, axis, bail, overflow};
use crate::ops::{MAX_RANK, PadMode};
use crate::{DType, Dim, Op, RuleError, Shape, TensorType};

/// Each dimension grows by its two pads.
pub(crate) fn pad(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Pad { mode, pads, value } = op else { bail!("not Pad") };
    let rank = x[0].shape.rank();
    if pads.len() != 2 * rank {
        bail!("pads has {} numbers, expected {} (two for each dimension of x {})", pads.len(), 2 * rank, x[0].shape);
    }
    if *mode == PadMode::Constant {
        fits(value.get(), x[0].dtype)?;
    }
    let mut dims = Vec::with_capacity(rank);
    for (i, (dim, around)) in x[0].shape.0.iter().zip(pads.chunks_exact(2)).enumerate() {
        let mut grown = dim.clone();
        for &n in around {
            if n < 0 {
                bail!("pads has the negative number {n} for dimension {i}; cut with Slice");
            }
            if n > 0 && dim.as_const().is_some_and(|size| !can_pad(*mode, n, size)) {
                bail!(
                    "pads has {n} for dimension {i} of x {}, which is too short for {}",
                    x[0].shape,
                    mode_name(*mode)
                );
            }
            grown = grown.add(&Dim::constant(n)).ok_or_else(overflow)?;
        }
        dims.push(grown);
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// Whether a dimension of `size` elements has what `mode` puts in `n` > 0 new places.
fn can_pad(mode: PadMode, n: i64, size: i64) -> bool {
    match mode {
        PadMode::Constant => true,
        PadMode::Reflect => n < size,
        PadMode::Replicate => size > 0,
    }
}

fn mode_name(mode: PadMode) -> &'static str {
    match mode {
        PadMode::Constant => "constant",
        PadMode::Reflect => "reflect (more elements than pads are needed)",
        PadMode::Replicate => "replicate (an element is needed)",
    }
}

/// Requires that a tensor of type `dtype` can hold `value`.
fn fits(value: f32, dtype: DType) -> Result<(), RuleError> {
    let (least, most) = match dtype {
        DType::Bool => (0.0, 1.0),
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::I32 => (-2_147_483_648.0, 2_147_483_647.0),
        // The largest single-precision number below 2⁶³.
        DType::I64 => (-9_223_372_036_854_775_808.0, 9_223_371_487_098_961_920.0),
        _ => return Ok(()),
    };
    let wide = f64::from(value);
    if wide.fract() == 0.0 && (least..=most).contains(&wide) {
        return Ok(());
    }
    bail!("value is {value}, which x of type {dtype} cannot hold")
}

/// Sizes 1 become any; new dimensions may lead; -1 keeps.
pub(crate) fn expand(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Expand { shape } = op else { bail!("not Expand") };
    let own = x[0].shape.dims();
    let Some(new) = shape.len().checked_sub(own.len()).filter(|_| shape.len() <= MAX_RANK) else {
        bail!(
            "shape has {} dimensions, expected at least the {} of x {}, at most {MAX_RANK}",
            shape.len(),
            own.len(),
            x[0].shape
        )
    };
    let mut dims = Vec::with_capacity(shape.len());
    for (i, &n) in shape.iter().enumerate() {
        let old = i.checked_sub(new).map(|i| &own[i]);
        let wanted = Dim::constant(n);
        dims.push(match old {
            Some(old) if n == -1 => old.clone(),
            None if n == -1 => bail!("shape is {shape:?}: dimension {i} is new, so it needs a size instead of -1"),
            _ if n < 0 => bail!("shape has the negative dimension {n}"),
            None => wanted,
            Some(old) if *old == wanted || old.as_const() == Some(1) || unknown(old) => wanted,
            Some(old) => bail!("shape is {shape:?}, and x {} has {old} for {n}; only 1 expands", x[0].shape),
        });
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// Dimensions `start..=end` multiply.
pub(crate) fn flatten(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Flatten { start, end } = op else { bail!("not Flatten") };
    let mut dims = x[0].shape.0.clone();
    if dims.is_empty() {
        // A scalar counts as one dimension here, as in torch.flatten.
        dims.push(Dim::constant(1));
    }
    let whole = TensorType::new(x[0].dtype, Shape(dims));
    let (from, to) = (axis(i64::from(*start), &whole)?, axis(i64::from(*end), &whole)?);
    if from > to {
        bail!("start is {start} and end {end}, which comes before it in x {}", x[0].shape);
    }
    let mut dims = whole.shape.0;
    let product = Shape(dims[from..=to].to_vec()).elements().ok_or_else(overflow)?;
    dims.splice(from..=to, [product]);
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// One dimension becomes several, one of which may be -1.
pub(crate) fn unflatten(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Unflatten { axis: a, sizes } = op else { bail!("not Unflatten") };
    let at = axis(i64::from(*a), &x[0])?;
    if sizes.is_empty() || sizes.len() > MAX_RANK {
        bail!("sizes has {} numbers, expected 1 to {MAX_RANK}", sizes.len());
    }
    let whole = &x[0].shape.0[at];
    let mut known = Dim::constant(1);
    let mut open = None;
    for (i, &n) in sizes.iter().enumerate() {
        match n {
            -1 if open.is_none() => open = Some(i),
            -1 => bail!("sizes {sizes:?} have more than one -1"),
            n if n < 0 => bail!("sizes {sizes:?} have the negative number {n}"),
            n => known = known.mul(&Dim::constant(n)).ok_or_else(overflow)?,
        }
    }
    let mut parts: Vec<Dim> = sizes.iter().map(|&n| Dim::constant(n)).collect();
    match open {
        Some(i) => match whole.div_exact(&known) {
            Some(rest) => parts[i] = rest,
            None => bail!("dimension {at} of x {} is no multiple of the {known} of sizes {sizes:?}", x[0].shape),
        },
        None if *whole != known && !unknown(whole) => {
            bail!("sizes {sizes:?} have the product {known}, and dimension {at} of x {} is {whole}", x[0].shape)
        }
        None => {}
    }
    let mut dims = x[0].shape.0.clone();
    dims.splice(at..=at, parts);
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// The dimensions `axes` drop out; each is 1.
pub(crate) fn squeeze(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Squeeze { axes } = op else { bail!("not Squeeze") };
    let mut dims = Vec::new();
    for (i, (dim, gone)) in x[0].shape.0.iter().zip(named(axes, &x[0])?).enumerate() {
        if !gone {
            dims.push(dim.clone());
        } else if dim.as_const() != Some(1) && !unknown(dim) {
            bail!("axes name dimension {i} of x {}, which is {dim}; only 1 drops out", x[0].shape);
        }
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// New dimensions of size 1 stand at `axes` of the result.
pub(crate) fn unsqueeze(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Unsqueeze { axes } = op else { bail!("not Unsqueeze") };
    let rank = x[0].shape.rank() + axes.len();
    if rank > MAX_RANK {
        bail!("the result has {rank} dimensions, at most {MAX_RANK} are possible");
    }
    let one = Dim::constant(1);
    let result = TensorType::new(x[0].dtype, Shape(vec![one.clone(); rank]));
    let mut own = x[0].shape.0.iter().cloned();
    // As many places are left as x has dimensions.
    let dims = named(axes, &result)?
        .into_iter()
        .map(|new| if new { one.clone() } else { own.next().unwrap_or_else(|| one.clone()) })
        .collect();
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// Each dimension is multiplied.
pub(crate) fn tile(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Tile { repeats } = op else { bail!("not Tile") };
    let own = x[0].shape.dims();
    if repeats.len() != own.len() {
        bail!("repeats has {} numbers, expected one for each dimension of x {}", repeats.len(), x[0].shape);
    }
    let dims: Option<Vec<Dim>> = own.iter().zip(repeats).map(|(d, &n)| d.mul(&Dim::constant(i64::from(n)))).collect();
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims.ok_or_else(overflow)?))])
}

/// One dimension is multiplied.
pub(crate) fn repeat_each(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::RepeatEach { axis: a, times } = op else { bail!("not RepeatEach") };
    let at = axis(i64::from(*a), &x[0])?;
    let mut dims = x[0].shape.0.clone();
    dims[at] = dims[at].mul(&Dim::constant(i64::from(*times))).ok_or_else(overflow)?;
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    #[test]
    fn pads() {
        let pad = |mode, pads: &[i64], value: f32| Op::Pad { mode, pads: pads.into(), value: value.into() };
        let zero = |pads: &[i64]| pad(PadMode::Constant, pads, 0.0);
        assert_eq!(good(zero(&[0, 0, 1, 2]), &[f("S, 4")]), "f32[S, 7]");
        assert_eq!(good(zero(&[1, 0, 0, 0]), &[f("S, 4")]), "f32[S + 1, 4]");
        assert_eq!(good(zero(&[]), &[f("")]), "f32[]");
        bad(zero(&[1, 1]), &[f("S, 4")], "pads has 2 numbers, expected 4");
        bad(zero(&[1, -1]), &[f("S")], "negative number -1 for dimension 0");
        bad(zero(&[i64::MAX, i64::MAX]), &[f("S")], "too large");
        let reflect = |n| pad(PadMode::Reflect, &[n, 0], 0.5);
        assert_eq!(good(reflect(3), &[t(DType::I64, "4")]), "i64[7]");
        assert_eq!(good(reflect(9), &[f("S")]), "f32[S + 9]");
        assert_eq!(good(reflect(0), &[f("0")]), "f32[0]");
        bad(reflect(4), &[f("4")], "too short for reflect");
        let replicate = |n| pad(PadMode::Replicate, &[n, 0], 0.0);
        assert_eq!(good(replicate(9), &[t(DType::Bool, "1")]), "bool[10]");
        bad(replicate(1), &[f("0")], "too short for replicate");
        let filled = |value| pad(PadMode::Constant, &[1, 1], value);
        assert_eq!(good(filled(f32::NEG_INFINITY), &[f("S")]), "f32[S + 2]");
        assert_eq!(good(filled(1.0), &[t(DType::Bool, "S")]), "bool[S + 2]");
        bad(filled(2.0), &[t(DType::Bool, "S")], "value is 2, which x of type bool");
        bad(filled(0.5), &[t(DType::I64, "S")], "value is 0.5, which x of type i64");
        bad(filled(f32::NAN), &[t(DType::I64, "S")], "value is NaN");
        bad(filled(9.223_372e18), &[t(DType::I64, "S")], "cannot hold");
        bad(filled(-129.0), &[t(DType::I8, "S")], "x of type i8");
        bad(filled(-1.0), &[t(DType::U8, "S")], "x of type u8");
        bad(filled(3e9), &[t(DType::I32, "S")], "x of type i32");
    }

    #[test]
    fn growth() {
        let expand = |shape: &[i64]| Op::Expand { shape: shape.into() };
        assert_eq!(good(expand(&[2, -1, 5]), &[f("S, 1")]), "f32[2, S, 5]");
        assert_eq!(good(expand(&[3]), &[t(DType::Bool, "")]), "bool[3]");
        assert_eq!(good(expand(&[0, 4]), &[f("1, 4")]), "f32[0, 4]");
        assert_eq!(good(expand(&[3]), &[f("?n")]), "f32[3]");
        bad(expand(&[5]), &[f("S, 1")], "at least the 2 of x [S, 1]");
        bad(expand(&[1; 17]), &[f("1")], "at most 16");
        bad(expand(&[-1, 5]), &[f("1")], "dimension 0 is new");
        bad(expand(&[-2]), &[f("1")], "negative dimension -2");
        bad(expand(&[5]), &[f("S")], "has S for 5");
        bad(expand(&[5]), &[f("4")], "has 4 for 5");
        let tile = |repeats: &[u32]| Op::Tile { repeats: repeats.into() };
        assert_eq!(good(tile(&[2, 0]), &[f("S, 4")]), "f32[2*S, 0]");
        assert_eq!(good(tile(&[]), &[f("")]), "f32[]");
        bad(tile(&[2]), &[f("S, 4")], "repeats has 1 numbers");
        bad(tile(&[u32::MAX, 1]), &[t(DType::I64, "9223372036854775807, 1")], "too large");
        let each = |axis, times| Op::RepeatEach { axis, times };
        assert_eq!(good(each(-1, 3), &[f("S, 4")]), "f32[S, 12]");
        bad(each(2, 3), &[f("S, 4")], "dimension 2 does not exist");
        bad(each(0, 3), &[f("")], "dimension 0 does not exist");
    }

    #[test]
    fn dimensions_come_and_go() {
        let flatten = |start, end| Op::Flatten { start, end };
        assert_eq!(good(flatten(0, 1), &[f("B, S, 8")]), "f32[B*S, 8]");
        assert_eq!(good(flatten(-2, -1), &[f("B, S, 8")]), "f32[B, 8*S]");
        assert_eq!(good(flatten(0, -1), &[f("")]), "f32[1]");
        assert_eq!(good(flatten(1, 1), &[f("B, S")]), "f32[B, S]");
        bad(flatten(1, 0), &[f("B, S")], "start is 1 and end 0");
        bad(flatten(0, 2), &[f("B, S")], "dimension 2 does not exist");
        bad(flatten(0, 1), &[f("")], "dimension 1 does not exist");
        bad(flatten(0, 1), &[f("9223372036854775807, 2")], "too large");
        let unflatten = |axis, sizes: &[i64]| Op::Unflatten { axis, sizes: sizes.into() };
        assert_eq!(good(unflatten(0, &[-1, 4]), &[f("4*S, 8")]), "f32[S, 4, 8]");
        assert_eq!(good(unflatten(-1, &[2, 2, 2]), &[f("S, 8")]), "f32[S, 2, 2, 2]");
        bad(unflatten(0, &[-1, 4]), &[f("S, 8")], "no multiple of the 4");
        bad(unflatten(0, &[-1, 0]), &[f("0")], "no multiple of the 0");
        bad(unflatten(1, &[3, 2]), &[f("S, 8")], "the product 6");
        bad(unflatten(0, &[2, 4]), &[f("S")], "the product 8");
        bad(unflatten(0, &[-1, -1]), &[f("S")], "more than one -1");
        bad(unflatten(0, &[-2, 4]), &[f("S")], "negative number -2");
        bad(unflatten(0, &[]), &[f("1")], "sizes has 0 numbers");
        bad(unflatten(0, &[1; 16]), &[f("1, 1")], "17 dimensions");
        bad(unflatten(0, &[4]), &[f("")], "dimension 0 does not exist");
        let squeeze = |axes: &[i64]| Op::Squeeze { axes: axes.into() };
        assert_eq!(good(squeeze(&[0, -1]), &[f("1, S, 1")]), "f32[S]");
        assert_eq!(good(squeeze(&[]), &[f("1, S")]), "f32[1, S]");
        assert_eq!(good(squeeze(&[0]), &[f("?n, S")]), "f32[S]");
        bad(squeeze(&[1]), &[f("1, S")], "which is S; only 1 drops out");
        bad(squeeze(&[0, -2]), &[f("1, S")], "axes name dimension 0 of [1, S] twice");
        bad(squeeze(&[2]), &[f("1, S")], "dimension 2 does not exist");
        let unsqueeze = |axes: &[i64]| Op::Unsqueeze { axes: axes.into() };
        assert_eq!(good(unsqueeze(&[0, -1]), &[f("S")]), "f32[1, S, 1]");
        assert_eq!(good(unsqueeze(&[1, 2]), &[f("S, 4")]), "f32[S, 1, 1, 4]");
        assert_eq!(good(unsqueeze(&[0]), &[f("")]), "f32[1]");
        bad(unsqueeze(&[3]), &[f("S, 4")], "dimension 3 does not exist");
        bad(unsqueeze(&[1, 1]), &[f("S")], "twice");
        bad(unsqueeze(&[0; 16]), &[f("S")], "17 dimensions");
    }
}
