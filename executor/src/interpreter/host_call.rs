//! Calls of functions outside the graph.

use super::Frame;
use super::layout::operand;
use crate::error::{ExecutorError, Result};
use crate::value::element;
use candle_core::{DType, Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;

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
    let wanted = element(*dtype);
    let fits = y.rank() == shape.len() && y.dims().iter().zip(shape).all(|(&n, &s)| s == -1 || n as i64 == s);
    if y.dtype() != wanted || !fits {
        let found = format!("{:?} {:?}", y.dtype(), y.dims());
        let expected = format!("{wanted:?} {shape:?}, where -1 is any size");
        return Err(operand(step, format!("the function {name:?} gave {found}, the graph declares {expected}")));
    }
    let y = y.to_device(&Device::Cpu)?.contiguous()?;
    if let Some((least, most)) = dtype.range() {
        let values = y.flatten_all()?.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        let bad = values.into_iter().find(|v| !(least..=most).contains(v));
        if let Some(v) = bad {
            return Err(operand(
                step,
                format!("the function {name:?} gave the value {v}, which {dtype} does not hold"),
            ));
        }
    }
    Ok(y)
}
