//! Operations that draw from the session's generator.

use super::{Context, Types, bail, float, last};
use crate::ops::SampleMethod;
use crate::{DType, Op, Shape, TensorType};

/// `f32` in the shape of like, whose element type does not matter.
pub(crate) fn normal(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    Ok(vec![TensorType::f32(x[0].shape.clone())])
}

/// One id per row of logits. Only the fields that the method uses are checked: writers leave zeros in the
/// others.
pub(crate) fn sample(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::Sample { method, temperature, p, .. } = op else { bail!("not Sample") };
    let (temperature, p) = (temperature.get(), p.get());
    if *method != SampleMethod::Greedy && !(temperature.is_finite() && temperature >= 0.0) {
        bail!("temperature is {temperature}, expected 0 or a finite number above it");
    }
    match method {
        SampleMethod::Greedy | SampleMethod::Temperature | SampleMethod::TopK => {}
        SampleMethod::TopP | SampleMethod::MinP => {
            // Temperature 0 is greedy and does not look at p.
            if temperature > 0.0 && !(p > 0.0 && p <= 1.0) {
                bail!("p is {p}, expected a number above 0 and at most 1");
            }
        }
    }
    float("logits", &x[0])?;
    if last("logits", &x[0])?.as_const() == Some(0) {
        bail!("logits has shape {}: there is no token to choose", x[0].shape);
    }
    let rows = x[0].shape.0[..x[0].shape.rank() - 1].to_vec();
    Ok(vec![TensorType::new(DType::I64, Shape(rows))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    #[test]
    fn normal_values_have_the_shape_of_any_operand() {
        assert_eq!(good(Op::RandomNormal { seed: 0 }, &[f("S, 4")]), "f32[S, 4]");
        assert_eq!(good(Op::RandomNormal { seed: 0 }, &[t(DType::I64, "")]), "f32[]");
    }

    #[test]
    fn sample_checks_what_its_method_uses() {
        let op = |method, temperature: f32, p: f32| Op::Sample {
            method,
            temperature: temperature.into(),
            p: p.into(),
            k: 0,
        };
        let greedy = || op(SampleMethod::Greedy, f32::NAN, f32::NAN);
        assert_eq!(good(greedy(), &[f("S, V")]), "i64[S]");
        assert_eq!(good(greedy(), &[f("V")]), "i64[]");
        bad(greedy(), &[f("")], "logits is a scalar");
        bad(greedy(), &[f("S, 0")], "no token to choose");
        bad(greedy(), &[t(DType::I64, "S, V")], "logits has the type i64");
        for method in [SampleMethod::Temperature, SampleMethod::TopK] {
            assert_eq!(good(op(method, 1.0, f32::NAN), &[f("S, V")]), "i64[S]");
            bad(op(method, -1.0, 1.0), &[f("S, V")], "temperature is -1");
            bad(op(method, f32::INFINITY, 1.0), &[f("S, V")], "temperature is inf");
        }
        for method in [SampleMethod::TopP, SampleMethod::MinP] {
            assert_eq!(good(op(method, 1.0, 1.0), &[f("S, V")]), "i64[S]");
            assert_eq!(good(op(method, 0.0, 0.0), &[f("S, V")]), "i64[S]");
            for p in [0.0, 1.5, -0.1, f32::NAN] {
                bad(op(method, 1.0, p), &[f("S, V")], &format!("p is {p}, expected"));
            }
        }
    }
}
