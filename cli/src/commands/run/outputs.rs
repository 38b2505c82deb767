//! What `run --input` says of its outputs: types as in the IR, and values.

use crate::commands::tools::clean;
use anyhow::Result;
use serde_json::{Value, json};
use tallow::executor::{DType, ExecutorError};
use tallow::{Error, Tensor, compiler::Plan, ir};

/// Values that the line of an output shows.
const SHOWN: usize = 8;
/// Most values that the JSON object of an output holds.
const MOST: usize = 4096;

/// An output with the element type that its graph declares.
pub struct Output<'a> {
    name: &'a str,
    tensor: &'a Tensor,
    dtype: ir::DType,
}

impl<'a> Output<'a> {
    /// The output `name` of `plan`, which Candle's tensor holds.
    pub fn new(plan: &Plan, name: &'a str, tensor: &'a Tensor) -> Self {
        let declared = plan.outputs.iter().find(|(n, _)| n == name).and_then(|(_, b)| plan.type_of(*b));
        let declared = declared.map(|ty| ty.dtype).filter(|d| d.is_integer() || *d == ir::DType::Bool);
        // Candle has one type for all integers here, and no truth values; floats are what they are.
        let dtype = match tensor.dtype() {
            DType::F16 => ir::DType::F16,
            DType::BF16 => ir::DType::BF16,
            DType::U8 => declared.unwrap_or(ir::DType::U8),
            DType::I64 => declared.unwrap_or(ir::DType::I64),
            _ => ir::DType::F32,
        };
        Output { name, tensor, dtype }
    }

    /// `logits: f32[1, 5] = 0.1234, -1.5, …`: all values up to eight, else the first eight.
    pub fn line(&self) -> Result<String> {
        let shown: Vec<String> = self.values(SHOWN)?.iter().map(Scalar::short).collect();
        let more = if self.tensor.elem_count() > SHOWN { ", …" } else { "" };
        let equals = if shown.is_empty() { "" } else { " = " };
        let (name, shape) = (clean(self.name), self.tensor.dims());
        Ok(format!("{name}: {}{shape:?}{equals}{}{more}", self.dtype, shown.join(", ")))
    }

    /// Name, type, shape and the flat list of values, or null for more than 4,096 of them. A value
    /// that JSON lacks, NaN or infinite, is null.
    pub fn json(&self) -> Result<Value> {
        let values = match self.tensor.elem_count() {
            0..=MOST => Value::from(self.values(MOST)?.iter().map(Scalar::json).collect::<Vec<_>>()),
            _ => Value::Null,
        };
        Ok(json!({ "name": self.name, "dtype": self.dtype.name(), "shape": self.tensor.dims(), "values": values }))
    }

    /// The first `most` values in row-major order.
    fn values(&self, most: usize) -> Result<Vec<Scalar>> {
        let read = || {
            let flat = self.tensor.flatten_all()?;
            let flat = flat.narrow(0, 0, most.min(flat.elem_count()))?;
            Ok(match flat.dtype() {
                DType::U8 | DType::I64 => {
                    let values = flat.to_dtype(DType::I64)?.to_vec1::<i64>()?.into_iter();
                    match self.dtype {
                        ir::DType::Bool => values.map(|v| Scalar::Truth(v != 0)).collect(),
                        _ => values.map(Scalar::Whole).collect(),
                    }
                }
                _ => flat.to_dtype(DType::F32)?.to_vec1::<f32>()?.into_iter().map(Scalar::Real).collect(),
            })
        };
        read().map_err(|e: ExecutorError| Error::Executor(e).into())
    }
}

/// One value of an output.
enum Scalar {
    Truth(bool),
    Whole(i64),
    Real(f32),
}

impl Scalar {
    /// The shortest decimal of five significant digits.
    fn short(&self) -> String {
        match *self {
            Scalar::Truth(truth) => truth.to_string(),
            Scalar::Whole(whole) => whole.to_string(),
            Scalar::Real(real) => {
                let rounded: f64 = format!("{real:.4e}").parse().unwrap_or(f64::from(real));
                match rounded.abs() {
                    size if size == 0.0 || !size.is_finite() || (1e-4..1e7).contains(&size) => rounded.to_string(),
                    _ => format!("{rounded:e}"),
                }
            }
        }
    }

    /// The value itself: a float in the fewest digits that give it back as an `f32`.
    fn json(&self) -> Value {
        match *self {
            Scalar::Truth(truth) => json!(truth),
            Scalar::Whole(whole) => json!(whole),
            Scalar::Real(real) => json!(real.to_string().parse::<f64>().ok().filter(|v| v.is_finite())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_short_in_lines_and_exact_in_json() {
        let short = |v: f32| Scalar::Real(v).short();
        assert_eq!([0.1, -1.5, 0.0, 3.0].map(short), ["0.1", "-1.5", "0", "3"]);
        assert_eq!([1.0 / 3.0, 123_456.0, 1e20, 1.5e-7].map(short), ["0.33333", "123460", "1e20", "1.5e-7"]);
        assert_eq!([f32::NAN, f32::INFINITY].map(short), ["NaN", "inf"]);
        assert_eq!(Scalar::Real(0.1).json().to_string(), "0.1");
        assert_eq!([f32::NAN, f32::INFINITY].map(|v| Scalar::Real(v).json()), [Value::Null, Value::Null]);
    }
}
