//! Embeddings, positions and schedules.

use super::{Context, Types, bail, float, last, rank, same_dim};
use crate::{DType, Dim, Op, Shape, TensorType};

/// ids of any shape, integers or whole floats; W `[V, H]`: the shape of ids, then `H`.
pub(crate) fn token_embed(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    if x[0].dtype == DType::Bool {
        bail!("ids has the type bool, expected integers or whole real numbers");
    }
    float("W", &x[1])?;
    rank("W", &x[1], 2)?;
    let mut dims = x[0].shape.0.clone();
    dims.push(x[1].shape.0[1].clone());
    Ok(vec![TensorType::new(x[1].dtype, Shape(dims))])
}

/// The shape of the payload, of which no size is unknown; one value, or one for each element.
pub(crate) fn constant(op: &Op, _: &[TensorType], _: &mut Context) -> Types {
    let Op::Constant { dtype, shape, values } = op else { bail!("not Constant") };
    let mut elements = 1i64;
    for &size in shape {
        if size < 0 {
            bail!("`shape` holds {size}, expected sizes of at least 0");
        }
        match elements.checked_mul(size) {
            Some(n) => elements = n,
            None => bail!("`shape` has more elements than 64 bits count"),
        }
    }
    if values.len() != 1 && usize::try_from(elements).ok() != Some(values.len()) {
        bail!("`values` has {} elements, expected 1 or the {elements} of `shape`", values.len());
    }
    if dtype.is_encoding() {
        bail!("`dtype` is {dtype}, which only weights have");
    }
    if let Some((least, most)) = dtype.range() {
        let fits = |v: f32| v.fract() == 0.0 && v.abs() < 16_777_216.0 && (v as i64) >= least && (v as i64) <= most;
        if let Some(v) = values.iter().map(|v| v.get()).find(|&v| !fits(v)) {
            bail!("`values` holds {v}, which is no {dtype}, or not below 2^24");
        }
    }
    Ok(vec![TensorType::new(*dtype, Shape::fixed(shape))])
}

/// Integer positions look rows up; a float operand has row `i` of W added at place `i`.
pub(crate) fn pos_embed(op: &Op, x: &[TensorType], cx: &mut Context) -> Types {
    if x[0].dtype.is_integer() {
        return token_embed(op, x, cx);
    }
    float("x", &x[0])?;
    float("W", &x[1])?;
    rank("W", &x[1], 2)?;
    same_dim("the last dimension of x", last("x", &x[0])?, &x[1].shape.0[1])?;
    let [.., places, _] = x[0].shape.dims() else {
        bail!("x has shape {}, expected [S, {}]", x[0].shape, x[1].shape.0[1])
    };
    if let (Some(places), Some(rows)) = (places.as_const(), x[1].shape.0[0].as_const())
        && places > rows
    {
        bail!("x has {places} places, W has rows for {rows}");
    }
    Ok(vec![x[0].clone()])
}

/// t of any shape gains a last dimension `dim`.
pub(crate) fn sinusoidal(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::SinusoidalEmbed { dim } = op else { bail!("not SinusoidalEmbed") };
    if dim % 2 != 0 || *dim == 0 {
        bail!("dim is {dim}, expected an even number, at least 2");
    }
    if x[0].dtype == DType::Bool {
        bail!("t has the type bool, expected numbers");
    }
    let mut dims = x[0].shape.0.clone();
    dims.push(Dim::constant((*dim).into()));
    Ok(vec![TensorType::f32(Shape(dims))])
}

/// q_len and k_len of one element, table `[buckets, heads]`: `[heads, ?q_len, ?k_len]`. Only running
/// tells the lengths; as a mask they fit any.
pub(crate) fn relative_bias(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::RelativePosEmbedding { buckets } = op else { bail!("not RelativePosEmbedding") };
    // Half of the buckets for each direction, half of those for exact distances.
    if *buckets < 4 {
        bail!("buckets is {buckets}, expected at least 4");
    }
    for (what, t) in ["q_len", "k_len"].into_iter().zip(x) {
        if t.dtype == DType::Bool {
            bail!("{what} has the type bool, expected a number");
        }
        if t.shape.elements() != Some(Dim::constant(1)) {
            bail!("{what} has shape {}, expected one number", t.shape);
        }
    }
    float("table", &x[2])?;
    rank("table", &x[2], 2)?;
    same_dim("the number of rows of table", &x[2].shape.0[0], &Dim::constant((*buckets).into()))?;
    let heads = x[2].shape.0[1].clone();
    Ok(vec![TensorType::f32(Shape::new([heads, Dim::symbol("?q_len"), Dim::symbol("?k_len")]))])
}

/// Two results of the operand's type.
pub(crate) fn noise_schedule(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    float("t", &x[0])?;
    Ok(vec![x[0].clone(), x[0].clone()])
}

/// Real values, of which a row is whole blocks of a type that has an encoder.
pub(crate) fn quantize(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Quantize { dtype } = op else { bail!("not Quantize") };
    float("x", &x[0])?;
    let block = match dtype {
        DType::F32 | DType::F16 | DType::BF16 | DType::U32 | DType::U16 => return Ok(vec![x[0].clone()]),
        DType::Ternary => 4,
        DType::Q4 | DType::Q8 => 32,
        DType::Q2K | DType::Q3K | DType::Q4K | DType::Q5K | DType::Q6K => 256,
        DType::I8 | DType::U8 | DType::Bool | DType::Q8_0 | DType::Q4_0 | DType::I32 | DType::I64 => bail!(
            "values cannot be rounded through {dtype}; use f32, f16, bf16, u32, u16, q8, q4, ternary, q2k, q3k, q4k, q5k or q6k"
        ),
    };
    let width = last("x", &x[0])?;
    if width.div_exact(&Dim::constant(block)).is_none() && !super::elementwise::unknown(width) {
        bail!("the last dimension of x is {width}, no multiple of the {block} values of a block of {dtype}");
    }
    Ok(vec![x[0].clone()])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    #[test]
    fn embeddings() {
        let w = t(DType::Q8, "512, 64");
        assert_eq!(good(Op::TokenEmbed, &[t(DType::I64, "S"), w.clone()]), "f32[S, 64]");
        assert_eq!(good(Op::TokenEmbed, &[f("1"), w.clone()]), "f32[1, 64]");
        bad(Op::TokenEmbed, &[t(DType::Bool, "S"), w.clone()], "ids has the type bool");
        bad(Op::TokenEmbed, &[t(DType::I64, "S"), f("64")], "W has shape [64]");
        assert_eq!(good(Op::PosEmbed, &[t(DType::I64, "S"), w.clone()]), "f32[S, 64]");
        assert_eq!(good(Op::PosEmbed, &[f("B, S, 64"), w.clone()]), "f32[B, S, 64]");
        bad(Op::PosEmbed, &[f("S, 32"), w.clone()], "the last dimension of x is 32, expected 64");
        bad(Op::PosEmbed, &[f("513, 64"), w.clone()], "513 places, W has rows for 512");
        bad(Op::PosEmbed, &[f("64"), w], "expected [S, 64]");
    }

    #[test]
    fn positions_and_schedules() {
        let sin = |dim| Op::SinusoidalEmbed { dim };
        assert_eq!(good(sin(8), &[f("B")]), "f32[B, 8]");
        assert_eq!(good(sin(8), &[t(DType::I64, "")]), "f32[8]");
        bad(sin(7), &[f("B")], "dim is 7, expected an even number");
        bad(sin(0), &[f("B")], "dim is 0");
        let bias = |buckets| Op::RelativePosEmbedding { buckets };
        let n = t(DType::I64, "");
        let made = good(bias(32), &[n.clone(), f("1"), f("32, 8")]);
        assert_eq!(made, "f32[8, ?q_len, ?k_len]");
        bad(bias(32), &[n.clone(), n.clone(), f("31, 8")], "rows of table is 31, expected 32");
        bad(bias(3), &[n.clone(), n.clone(), f("3, 8")], "buckets is 3");
        bad(bias(32), &[f("2"), n, f("32, 8")], "q_len has shape [2]");
        assert_eq!(good(Op::NoiseSchedule, &[f("B")]), "f32[B] f32[B]");
        bad(bias(32), &[t(DType::Bool, ""), f("1"), f("32, 8")], "q_len has the type bool");
        bad(Op::NoiseSchedule, &[t(DType::I64, "B")], "t has the type i64");
    }

    #[test]
    fn rounding_through_blocks() {
        for &dtype in DType::ALL {
            let op = Op::Quantize { dtype };
            match dtype {
                DType::I8 | DType::U8 | DType::Bool | DType::Q8_0 | DType::Q4_0 | DType::I32 | DType::I64 => {
                    bad(op, &[f("S, 256")], &format!("cannot be rounded through {dtype}"));
                }
                _ => assert_eq!(good(op, &[f("S, 256")]), "f32[S, 256]"),
            }
        }
        assert_eq!(good(Op::Quantize { dtype: DType::U16 }, &[f("")]), "f32[]");
        bad(Op::Quantize { dtype: DType::Q8 }, &[f("S, 48")], "no multiple of the 32 values");
        bad(Op::Quantize { dtype: DType::Q4K }, &[f("4, S")], "the last dimension of x is S");
        bad(Op::Quantize { dtype: DType::Q4 }, &[f("")], "x is a scalar");
        bad(Op::Quantize { dtype: DType::Q4 }, &[t(DType::I64, "32")], "x has the type i64");
    }
}
