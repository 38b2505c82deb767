//! Operations that move elements without computing.

use super::{Context, Types, bail, overflow};
use crate::ops::MAX_RANK;
use crate::{Dim, Op, RuleError, Shape, TensorType};

/// `Transpose` and `Permute`: a permutation of the dimensions.
pub(crate) fn permute(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let (Op::Transpose { perm } | Op::Permute { dims: perm }) = op else { bail!("not a permutation") };
    let rank = x[0].shape.rank();
    let mut seen = vec![false; rank];
    for &p in perm {
        match seen.get_mut(p as usize) {
            Some(slot) if !*slot => *slot = true,
            _ => bail!("{perm:?} is not a permutation of the {rank} dimensions of {}", x[0].shape),
        }
    }
    if perm.len() != rank {
        bail!("{perm:?} names {} dimensions, x has shape {}", perm.len(), x[0].shape);
    }
    let dims = perm.iter().map(|&p| x[0].shape.0[p as usize].clone()).collect();
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// The same number of elements; one dimension may be -1.
pub(crate) fn reshape(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Reshape { shape } = op else { bail!("not Reshape") };
    if shape.len() > MAX_RANK {
        bail!("shape has {} dimensions, at most {MAX_RANK} are possible", shape.len());
    }
    // Beside a 0 too: strides are products of dimensions.
    if shape.iter().filter(|n| **n > 0).try_fold(1i64, |product, n| product.checked_mul(*n)).is_none() {
        return Err(overflow());
    }
    let total = x[0].shape.elements().ok_or_else(overflow)?;
    let mut known = Dim::constant(1);
    let mut open = None;
    let mut dims = Vec::with_capacity(shape.len());
    for (i, &n) in shape.iter().enumerate() {
        match n {
            -1 if open.is_none() => open = Some(i),
            -1 => bail!("shape {shape:?} has more than one -1"),
            n if n < 0 => bail!("shape {shape:?} has the negative dimension {n}"),
            n => known = known.mul(&Dim::constant(n)).ok_or_else(overflow)?,
        }
        dims.push(Dim::constant(n));
    }
    match open {
        Some(i) => match total.div_exact(&known) {
            Some(rest) => dims[i] = rest,
            None => bail!("{} has {total} elements, no multiple of the {known} that {shape:?} fixes", x[0].shape),
        },
        None if known != total => {
            bail!("{} has {total} elements, {shape:?} has {known}", x[0].shape)
        }
        None => {}
    }
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

/// All dimensions but `axis` agree; those along it add up.
pub(crate) fn concat(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Concat { axis } = op else { bail!("not Concat") };
    let Some(first) = x.first() else { bail!("Concat needs at least one operand") };
    let at = axis_of(*axis, first)?;
    let mut total = Dim::constant(0);
    for t in x {
        let agrees = t.shape.rank() == first.shape.rank()
            && t.dtype == first.dtype
            && t.shape.0.iter().zip(&first.shape.0).enumerate().all(|(i, (a, b))| i == at || a == b);
        if !agrees {
            bail!("operands {first} and {t} differ outside dimension {at}");
        }
        total = total.add(&t.shape.0[at]).ok_or_else(overflow)?;
    }
    let mut dims = first.shape.0.clone();
    dims[at] = total;
    Ok(vec![TensorType::new(first.dtype, Shape(dims))])
}

/// `Split` by sizes that add up, `Chunk` into equal parts.
pub(crate) fn split(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let (at, sizes) = match op {
        Op::Split { axis, sizes } => {
            let at = axis_of(*axis, &x[0])?;
            if sizes.is_empty() {
                bail!("sizes is empty, expected at least one part");
            }
            let sum = Dim::constant(sizes.iter().map(|&n| i64::from(n)).sum());
            if x[0].shape.0[at] != sum {
                bail!("sizes {sizes:?} add up to {sum}, dimension {at} of {} does not", x[0].shape);
            }
            (at, sizes.iter().map(|&n| Dim::constant(i64::from(n))).collect::<Vec<_>>())
        }
        Op::Chunk { axis, chunks } => {
            let at = axis_of(*axis, &x[0])?;
            let whole = &x[0].shape.0[at];
            if *chunks == 0 || *chunks > 1 << 20 {
                bail!("{chunks} chunks are not possible");
            }
            match whole.div_exact(&Dim::constant(i64::from(*chunks))) {
                Some(part) => (at, vec![part; *chunks as usize]),
                None => bail!("dimension {at} of {} is no multiple of {chunks}", x[0].shape),
            }
        }
        _ => bail!("not a split"),
    };
    Ok(sizes
        .into_iter()
        .map(|n| {
            let mut dims = x[0].shape.0.clone();
            dims[at] = n;
            TensorType::new(x[0].dtype, Shape(dims))
        })
        .collect())
}

/// `start..end` along one dimension; symbolic dimensions allow bounds counted from one end.
pub(crate) fn slice(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Slice { axis, start, end } = op else { bail!("not Slice") };
    let at = axis_of(*axis, &x[0])?;
    let size = &x[0].shape.0[at];
    let bound = |n: i64| -> Result<Dim, RuleError> {
        match n {
            i64::MAX => Ok(size.clone()),
            n if n < 0 => size.add(&Dim::constant(n)).ok_or_else(overflow),
            n => Ok(Dim::constant(n)),
        }
    };
    let (from, to) = (bound(*start)?, bound(*end)?);
    let length = to.sub(&from).ok_or_else(overflow)?;
    if let (Some(n), Some(f), Some(t)) = (size.as_const(), from.as_const(), to.as_const())
        && !(0 <= f && f <= t && t <= n)
    {
        bail!("{start}..{end} lies outside dimension {at} of {}", x[0].shape);
    }
    if length.as_const().is_some_and(|n| n < 0) {
        bail!("{start}..{end} is empty backwards");
    }
    let mut dims = x[0].shape.0.clone();
    dims[at] = length;
    Ok(vec![TensorType::new(x[0].dtype, Shape(dims))])
}

fn axis_of(axis: u32, t: &TensorType) -> Result<usize, RuleError> {
    super::axis(i64::from(axis), t)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;

    #[test]
    fn permutations() {
        let p = |perm: &[u32]| Op::Transpose { perm: perm.into() };
        assert_eq!(good(p(&[1, 0]), &[f("S, 4")]), "f32[4, S]");
        let q = |dims: &[u32]| Op::Permute { dims: dims.into() };
        assert_eq!(good(q(&[2, 0, 1]), &[t(DType::I64, "S, 4, 5")]), "i64[5, S, 4]");
        bad(p(&[0, 0]), &[f("S, 4")], "is not a permutation");
        bad(p(&[0, 2]), &[f("S, 4")], "is not a permutation");
        bad(q(&[0]), &[f("S, 4")], "names 1 dimensions");
    }

    #[test]
    fn shapes() {
        let r = |shape: &[i64]| Op::Reshape { shape: shape.into() };
        assert_eq!(good(r(&[-1, 2, 4]), &[f("S, 8")]), "f32[S, 2, 4]");
        assert_eq!(good(r(&[-1]), &[f("S, 8")]), "f32[8*S]");
        assert_eq!(good(r(&[2, 4]), &[f("8")]), "f32[2, 4]");
        assert_eq!(good(r(&[]), &[f("1, 1")]), "f32[]");
        bad(r(&[-1, 3]), &[f("S, 8")], "no multiple of the 3");
        bad(r(&[-1, -1]), &[f("S, 8")], "more than one -1");
        bad(r(&[-2, 4]), &[f("8")], "negative dimension -2");
        bad(r(&[9]), &[f("8")], "8 elements, [9] has 9");
        bad(r(&[1; 17]), &[f("1")], "17 dimensions, at most 16");
        bad(r(&[i64::MAX, i64::MAX]), &[f("8")], "too large");
        bad(r(&[0, i64::MAX, i64::MAX]), &[f("0")], "too large");
    }

    #[test]
    fn parts() {
        let c = |axis| Op::Concat { axis };
        assert_eq!(good(c(0), &[f("P, 4"), f("S, 4")]), "f32[P + S, 4]");
        bad(c(1), &[f("P, 4"), f("S, 4")], "differ outside dimension 1");
        bad(c(0), &[], "at least one operand");
        bad(c(2), &[f("P, 4")], "dimension 2 does not exist");
        let s = |sizes: &[u32]| Op::Split { axis: 1, sizes: sizes.into() };
        assert_eq!(good(s(&[3, 5]), &[f("S, 8")]), "f32[S, 3] f32[S, 5]");
        bad(s(&[3, 4]), &[f("S, 8")], "add up to 7");
        bad(s(&[]), &[f("S, 0")], "sizes is empty");
        let k = |axis, chunks| Op::Chunk { axis, chunks };
        assert_eq!(good(k(0, 2), &[f("2*S, 8")]), "f32[S, 8] f32[S, 8]");
        bad(k(0, 2), &[f("S, 8")], "no multiple of 2");
        bad(k(1, 0), &[f("S, 8")], "0 chunks");
        bad(k(1, u32::MAX), &[f("S, 8")], "are not possible");
        let l = |axis, start, end| Op::Slice { axis, start, end };
        assert_eq!(good(l(0, -1, i64::MAX), &[f("S, 8")]), "f32[1, 8]");
        assert_eq!(good(l(0, 2, i64::MAX), &[f("S, 8")]), "f32[S - 2, 8]");
        assert_eq!(good(l(1, 2, -1), &[f("S, 8")]), "f32[S, 5]");
        bad(l(1, 2, 9), &[f("S, 8")], "lies outside dimension 1");
        bad(l(0, 3, 2), &[f("S, 8")], "is empty backwards");
        bad(l(2, 0, 1), &[f("S, 8")], "dimension 2 does not exist");
    }
}
