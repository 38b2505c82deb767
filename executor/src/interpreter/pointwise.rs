//! Operations on each element alone: whole numbers, truth values, comparisons and choices.

use super::host::{as_before, broadcast, by_type, integers, spread, tensor, values};
use super::layout::operand;
use crate::error::Result;
use candle_core::{DType, Tensor, WithDType};
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::ops::{Comparison, Connective};

/// `Rsqrt`, `Floor`, `Round`, `Sign`, `Reciprocal` and `Not`.
pub(super) fn unary(step: &Step, x: &Tensor) -> Result<Tensor> {
    match &step.op {
        Op::Rsqrt => map(x, |v: f32| 1.0 / v.sqrt()),
        Op::Floor => map(x, f32::floor),
        Op::Round => map(x, f32::round_ties_even),
        Op::Reciprocal => map(x, |v: f32| 1.0 / v),
        Op::Sign if x.dtype() == DType::F32 => map(x, |v: f32| if v == 0.0 || v.is_nan() { v } else { v.signum() }),
        Op::Sign => as_before(step, map(&integers(x)?, i64::signum)?, x),
        Op::Not => map(x, |v: u8| u8::from(v == 0)),
        other => Err(operand(step, format!("{} has not one operand", other.name()))),
    }
}

/// `Pow`, `Maximum`, `Minimum` and `Remainder`.
pub(super) fn arithmetic(step: &Step, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let real = a.dtype() == DType::F32;
    match &step.op {
        Op::Pow => pair(step, a, b, |a: f32, b: f32| f64::from(a).powf(f64::from(b)) as f32),
        Op::Maximum if real => pair(step, a, b, |a: f32, b| if a >= b || a.is_nan() { a } else { b }),
        Op::Minimum if real => pair(step, a, b, |a: f32, b| if a <= b || a.is_nan() { a } else { b }),
        Op::Remainder if real => pair(step, a, b, remainder),
        Op::Maximum => as_before(step, pair(step, &integers(a)?, &integers(b)?, i64::max)?, a),
        Op::Minimum => as_before(step, pair(step, &integers(a)?, &integers(b)?, i64::min)?, a),
        Op::Remainder => {
            let b = integers(b)?;
            if values::<i64>(&b)?.contains(&0) {
                return Err(operand(step, "b holds 0, and an integer has no remainder by 0".into()));
            }
            let rest = pair(step, &integers(a)?, &b, |a: i64, b: i64| {
                let r = a.wrapping_rem(b);
                if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
            })?;
            as_before(step, rest, a)
        }
        other => Err(operand(step, format!("{} has not two operands", other.name()))),
    }
}

/// What is left of `a` after whole multiples of `b`, with the sign of `b`; NaN for a `b` of zero.
fn remainder(a: f32, b: f32) -> f32 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// Truth values of a comparison.
pub(super) fn compare(step: &Step, a: &Tensor, b: &Tensor, how: Comparison) -> Result<Tensor> {
    fn typed<T: WithDType>(step: &Step, a: &Tensor, b: &Tensor, how: Comparison) -> Result<Tensor> {
        pair(step, a, b, |a: T, b: T| {
            u8::from(match how {
                Comparison::Equal => a == b,
                Comparison::NotEqual => a != b,
                Comparison::Less => a < b,
                Comparison::LessEqual => a <= b,
                Comparison::Greater => a > b,
                Comparison::GreaterEqual => a >= b,
            })
        })
    }
    by_type!(a, typed(step, a, b, how))
}

/// Two truth values as one.
pub(super) fn logical(step: &Step, a: &Tensor, b: &Tensor, how: Connective) -> Result<Tensor> {
    pair(step, a, b, |a: u8, b: u8| {
        u8::from(match how {
            Connective::And => a != 0 && b != 0,
            Connective::Or => a != 0 || b != 0,
            Connective::Xor => (a != 0) != (b != 0),
        })
    })
}

/// `a` where the condition holds, else `b`.
pub(super) fn select(step: &Step, cond: &Tensor, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    fn typed<T: WithDType>(cond: &[u8], a: &Tensor, b: &Tensor, dims: &[usize]) -> Result<Tensor> {
        let pairs = spread::<T>(a, dims)?.into_iter().zip(spread::<T>(b, dims)?);
        tensor(pairs.zip(cond).map(|((a, b), &c)| if c != 0 { a } else { b }).collect(), dims)
    }
    let dims = broadcast(step, &[cond.dims(), a.dims(), b.dims()])?;
    let cond = spread::<u8>(cond, &dims)?;
    by_type!(a, typed(&cond, a, b, &dims))
}

fn map<A: WithDType, B: WithDType>(x: &Tensor, f: impl Fn(A) -> B) -> Result<Tensor> {
    tensor(values::<A>(x)?.into_iter().map(f).collect(), x.dims())
}

fn pair<A: WithDType, B: WithDType>(step: &Step, a: &Tensor, b: &Tensor, f: impl Fn(A, A) -> B) -> Result<Tensor> {
    let dims = broadcast(step, &[a.dims(), b.dims()])?;
    let pairs = spread::<A>(a, &dims)?.into_iter().zip(spread::<A>(b, &dims)?);
    tensor(pairs.map(|(a, b)| f(a, b)).collect(), &dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_have_the_sign_of_the_divisor() {
        assert_eq!(remainder(-1.0, 3.0), 2.0);
        assert_eq!(remainder(1.0, -3.0), -2.0);
        assert_eq!(remainder(-6.0, 3.0), 0.0);
        assert!(remainder(1.0, 0.0).is_nan());
        let step = super::super::host::testing::step(Op::Remainder);
        let scalar = |v: i64| tensor(vec![v], &[]).unwrap();
        let of = |a, b| arithmetic(&step, &scalar(a), &scalar(b)).unwrap().to_scalar::<i64>().unwrap();
        assert_eq!((of(-1, 3), of(1, -3), of(-6, 3), of(i64::MIN, -1)), (2, -2, 0, 0));
        assert!(arithmetic(&step, &scalar(1), &scalar(0)).is_err());
    }
}
