//! Values in another element type.

use super::host::{by_type, shown, tensor, values};
use super::layout::operand;
use crate::error::Result;
use crate::value::element;
use candle_core::{DType as Element, Tensor, WithDType};
use tallow_compiler::Step;
use tallow_ir::DType;

/// The values of `x` as `to`. Real numbers are cut towards zero to integers, which are `i64` tensors
/// whatever their width, but for bytes; truth values are bytes too.
pub(super) fn cast(step: &Step, x: &Tensor, to: DType) -> Result<Tensor> {
    match to.range() {
        _ if to == DType::Bool => by_type!(x, truth(x)),
        Some(range) => Ok(integers(step, x, to, range)?.to_dtype(element(to))?),
        None if to.is_encoding() => Err(operand(step, format!("{to} is an encoding of weights, no type of values"))),
        None => Ok(x.to_dtype(element(to))?),
    }
}

fn truth<T: WithDType>(x: &Tensor) -> Result<Tensor> {
    let zero = T::zero();
    tensor(values::<T>(x)?.into_iter().map(|v| u8::from(v != zero)).collect(), x.dims())
}

fn integers(step: &Step, x: &Tensor, to: DType, (least, most): (i64, i64)) -> Result<Tensor> {
    let range = least..=most;
    let outside = |value: String| operand(step, format!("x holds {value}, and {to} holds {least} to {most}"));
    // 2⁶³, which no longer fits and which the conversion would silently lower.
    const EDGE: f32 = 9_223_372_036_854_775_808.0;
    let out: Result<Vec<i64>> = match x.dtype() {
        Element::F32 => values::<f32>(x)?
            .into_iter()
            .map(|v| {
                match v.trunc() {
                    t if (-EDGE..EDGE).contains(&t) => Some(t as i64),
                    _ => None,
                }
                .filter(|n| range.contains(n))
                .ok_or_else(|| outside(shown(v)))
            })
            .collect(),
        _ => values::<i64>(&x.to_dtype(Element::I64)?)?
            .into_iter()
            .map(|n| if range.contains(&n) { Ok(n) } else { Err(outside(n.to_string())) })
            .collect(),
    };
    tensor(out?, x.dims())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_ir::Op;

    fn run(x: Tensor, dtype: DType) -> Result<Vec<i64>> {
        let out = cast(&super::super::host::testing::step(Op::Cast { dtype }), &x, dtype)?;
        assert_eq!(out.dtype(), if dtype == DType::U8 { Element::U8 } else { Element::I64 });
        values(&out.to_dtype(Element::I64)?)
    }

    #[test]
    fn integers_have_ranges() {
        let real = |v: f32| tensor(vec![v], &[]).unwrap();
        let whole = |v: i64| tensor(vec![v], &[1, 1]).unwrap();
        assert_eq!(run(real(-127.9), DType::I8).unwrap(), [-127]);
        assert_eq!(run(real(-128.9), DType::I8).unwrap(), [-128]);
        assert_eq!(run(real(255.5), DType::U8).unwrap(), [255]);
        assert_eq!(run(real(-0.5), DType::U8).unwrap(), [0]);
        assert_eq!(run(whole(i64::MIN), DType::I64).unwrap(), [i64::MIN]);
        let edge = 9_223_372_036_854_775_808.0;
        assert_eq!(run(real(-edge), DType::I64).unwrap(), [i64::MIN]);
        for (x, to, error) in [
            (real(128.0), DType::I8, "x holds 128, and i8 holds -128 to 127"),
            (real(-1.0), DType::U8, "x holds -1, and u8 holds 0 to 255"),
            (whole(256), DType::U8, "x holds 256"),
            (real(f32::NAN), DType::I64, "x holds NaN"),
            (real(edge), DType::I64, "x holds 9223372036854775808"),
            (real(f32::NEG_INFINITY), DType::I64, "x holds -inf"),
            (whole(1 << 31), DType::I32, "x holds 2147483648"),
        ] {
            let found = run(x, to).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
    }
}
