//! Calls of functions outside the graph.

use super::Frame;
use super::layout::operand;
use crate::error::{ExecutorError, Result};
use candle_core::{DType, Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::{DType as ElementType, Op};

/// Calls the function and holds its result against the payload.
pub(super) fn host_call(step: &Step, x: &[Tensor], frame: &Frame<'_>) -> Result<Tensor> {
    let Op::HostCall { function, dtype, shape } = &step.op else {
        return Err(operand(step, "no call".into()));
    };
    let name = function.as_str();
    let Some(host) = frame.host else {
        return Err(ExecutorError::Unsupported {
            op: step.op.name(),
            place: step.name.clone(),
            what: format!("a call of the unregistered function {name:?}"),
            cure: "register it: give the program an implementation of HostFunctions by Program::with_host".into(),
        });
    };
    let y = host.call(name, x).map_err(|cause| operand(step, format!("the function {name:?} failed: {cause}")))?;
    let wanted = match dtype {
        ElementType::F16 => DType::F16,
        ElementType::BF16 => DType::BF16,
        ElementType::Bool => DType::U8,
        _ if dtype.is_integer() => DType::I64,
        _ => DType::F32,
    };
    let fits = y.rank() == shape.len() && y.dims().iter().zip(shape).all(|(&n, &s)| s == -1 || n as i64 == s);
    if y.dtype() != wanted || !fits {
        let found = format!("{:?} {:?}", y.dtype(), y.dims());
        let expected = format!("{wanted:?} {shape:?}, where -1 is any size");
        return Err(operand(step, format!("the function {name:?} gave {found}, the graph declares {expected}")));
    }
    let y = y.to_device(&Device::Cpu)?.contiguous()?;
    if let Some((least, most)) = range(*dtype) {
        let bad = match wanted {
            DType::U8 => y.flatten_all()?.to_vec1::<u8>()?.into_iter().map(i64::from).find(|v| *v > most),
            _ => y.flatten_all()?.to_vec1::<i64>()?.into_iter().find(|v| !(least..=most).contains(v)),
        };
        if let Some(v) = bad {
            return Err(operand(
                step,
                format!("the function {name:?} gave the value {v}, which {dtype} does not hold"),
            ));
        }
    }
    Ok(y)
}

/// The least and the largest value of a type that holds whole numbers from a range.
fn range(dtype: ElementType) -> Option<(i64, i64)> {
    match dtype {
        ElementType::Bool => Some((0, 1)),
        ElementType::I8 => Some((i8::MIN.into(), i8::MAX.into())),
        ElementType::U8 => Some((0, u8::MAX.into())),
        ElementType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        _ => None,
    }
}
