//! Values as a storage type keeps them.

use super::host::{tensor, values};
use super::layout::operand;
use crate::error::Result;
use candle_core::Tensor;
use half::{bf16, f16};
use tallow_compiler::Step;
use tallow_format::Encoding;
use tallow_ir::DType;

/// x encoded as `dtype` and decoded again, block by block along the last dimension.
///
/// # Errors
/// What the encoding cannot hold: values that are not finite or out of its range, and for `ternary`
/// any but -1, 0 and 1. The half types keep infinities and NaNs, and refuse what would become one.
pub(super) fn quantize(step: &Step, x: &Tensor, dtype: DType) -> Result<Tensor> {
    let encoding = match dtype {
        DType::F32 => return Ok(x.clone()),
        DType::F16 => return half(step, x, |v| f16::from_f32(v).to_f32(), dtype),
        DType::BF16 => return half(step, x, |v| bf16::from_f32(v).to_f32(), dtype),
        DType::U32 => Encoding::U32,
        DType::U16 => Encoding::U16,
        DType::Q8 => Encoding::Q8,
        DType::Q4 => Encoding::Q4,
        DType::Ternary => Encoding::Ternary,
        DType::Q2K => Encoding::Q2K,
        DType::Q3K => Encoding::Q3K,
        DType::Q4K => Encoding::Q4K,
        DType::Q5K => Encoding::Q5K,
        DType::Q6K => Encoding::Q6K,
        DType::I8 | DType::U8 | DType::Bool | DType::Q8_0 | DType::Q4_0 | DType::I32 | DType::I64 => {
            return Err(operand(step, format!("{dtype} has no encoder")));
        }
    };
    let mut y = values::<f32>(x)?;
    let mut bytes = Vec::new();
    encoding.encode(&y, &mut bytes).map_err(|e| operand(step, format!("x cannot be kept as {dtype}: {e}")))?;
    encoding.decode(&bytes, &mut y).map_err(|e| operand(step, format!("x as {dtype}: {e}")))?;
    tensor(y, x.dims())
}

fn half(step: &Step, x: &Tensor, round: impl Fn(f32) -> f32, dtype: DType) -> Result<Tensor> {
    let mut y = values::<f32>(x)?;
    for (index, value) in y.iter_mut().enumerate() {
        let kept = round(*value);
        if value.is_finite() && !kept.is_finite() {
            return Err(operand(step, format!("x cannot be kept as {dtype}: value {index} is {value}, out of range")));
        }
        *value = kept;
    }
    tensor(y, x.dims())
}
