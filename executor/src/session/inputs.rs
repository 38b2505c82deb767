//! The inputs of a call: whether they fit the plan, and the sizes that they give its symbols.

use super::{Rows, Session};
use crate::error::{ExecutorError, Result};
use crate::value::element;
use candle_core::{DType, Device, Tensor};
use tallow_compiler::PlanInput;
use tallow_ir::{Bindings, DType as IrType, Dim, PAST, POS};

impl Session {
    /// The inputs in the plan's order, as the plan's types, and the symbols that their shapes bind.
    pub(crate) fn bind(&self, inputs: &[(String, Tensor)], rows: Rows) -> Result<(Vec<Tensor>, Bindings)> {
        let plan = &self.program.loaded(rows).plan;
        let fault = |name: &str, cause: String| ExecutorError::Input { name: name.into(), cause };
        let signature = || plan.signature();
        if inputs.iter().any(|(n, _)| n == POS) {
            return Err(fault(POS, "is the number of cached tokens, which the session fills in; leave it out".into()));
        }
        if let Some((name, _)) = inputs.iter().find(|(n, _)| !plan.inputs.iter().any(|i| i.name == *n)) {
            return Err(fault(name, format!("is no input of this graph; it takes {}", signature())));
        }
        if let Some((name, _)) = inputs.iter().enumerate().find_map(|(i, n)| inputs[..i].iter().find(|m| m.0 == n.0)) {
            return Err(fault(name, "is given twice; give it once".into()));
        }
        let mut found = Vec::with_capacity(plan.inputs.len());
        for input in plan.inputs.iter().filter(|i| i.name != POS) {
            let (_, tensor) = inputs
                .iter()
                .find(|(n, _)| *n == input.name)
                .ok_or_else(|| fault(&input.name, format!("is missing; the graph takes {}", signature())))?;
            found.push(ranked(input, tensor).map_err(|cause| fault(&input.name, cause))?);
        }
        // Sizes that are a symbol bind it, then those that follow from one; at last all must agree.
        let mut bindings = Bindings::from([(PAST.to_owned(), self.past as i64)]);
        let given = plan.inputs.iter().filter(|i| i.name != POS).zip(&found);
        for solve in [|d: &Dim, n: i64| d.as_symbol().map(|s| (s.to_owned(), n)), |d: &Dim, n: i64| d.solve(n)] {
            for (input, tensor) in given.clone() {
                for (dim, &size) in input.ty.shape.dims().iter().zip(tensor.dims()) {
                    if let Some((symbol, value)) = solve(dim, size as i64) {
                        bindings.entry(symbol).or_insert(value);
                    }
                }
            }
        }
        for (input, tensor) in given {
            agrees(input, tensor, &bindings).map_err(|cause| fault(&input.name, cause))?;
        }
        let mut found = found.into_iter();
        let mut given = Vec::with_capacity(plan.inputs.len());
        for input in &plan.inputs {
            if input.name == POS {
                given.push(position(input, self.past)?);
            } else if let Some(tensor) = found.next() {
                given.push(as_type(input.ty.dtype, &tensor)?.map_err(|cause| fault(&input.name, cause))?);
            }
        }
        Ok((given, bindings))
    }
}

/// The injected number of cached tokens, in the declared form of one number.
fn position(input: &PlanInput, past: usize) -> Result<Tensor> {
    let dims = input.ty.shape.dims();
    if !input.ty.dtype.is_integer() || dims.iter().any(|d| d.as_const() != Some(1)) {
        let cause = format!("is declared as {}; the session fills in one whole number, i64[]", input.ty);
        return Err(ExecutorError::Input { name: POS.into(), cause });
    }
    Ok(Tensor::from_vec(vec![past as i64], vec![1; dims.len()], &Device::Cpu)?)
}

/// `tensor` with the declared number of dimensions: one leading 1 too many or too few is accepted.
fn ranked(input: &PlanInput, tensor: &Tensor) -> std::result::Result<Tensor, String> {
    let declared = input.ty.shape.dims();
    let fitted = match tensor.rank() as i64 - declared.len() as i64 {
        0 => Ok(tensor.clone()),
        1 if tensor.dims().first() == Some(&1) => tensor.squeeze(0),
        -1 if declared.first().is_some_and(|d| d.as_const() == Some(1) || d.as_symbol().is_some()) => {
            tensor.unsqueeze(0)
        }
        _ => return Err(format!("has shape {:?}, expected {}", tensor.dims(), input.ty)),
    };
    fitted.map_err(|e| e.to_string())
}

/// Whether each size is what its dimension gives under `bindings`.
fn agrees(input: &PlanInput, tensor: &Tensor, bindings: &Bindings) -> std::result::Result<(), String> {
    for (&size, dim) in tensor.dims().iter().zip(input.ty.shape.dims()) {
        match dim.evaluate(bindings) {
            Some(n) if n == size as i64 => {}
            Some(_) if dim.as_const().is_some() => {
                return Err(format!("has shape {:?}, expected {}", tensor.dims(), input.ty));
            }
            _ => {
                let bound: Vec<_> = bindings.iter().map(|(s, n)| format!("{s} = {n}")).collect();
                let bound = bound.join(", ");
                return Err(format!("has shape {:?}, expected {} where {bound}", tensor.dims(), input.ty));
            }
        }
    }
    Ok(())
}

/// `tensor` in the element type that holds values of `dtype`; the inner error says which value does
/// not fit it.
fn as_type(dtype: IrType, tensor: &Tensor) -> Result<std::result::Result<Tensor, String>> {
    let wanted = element(dtype);
    if !wanted.is_float() && tensor.dtype().is_float() {
        let values = tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
        if let Some(v) = values.iter().find(|v| v.fract() != 0.0 || v.abs() > 9e15) {
            return Ok(Err(format!("holds {v}, where whole numbers are expected")));
        }
    }
    if let Some((least, most)) = dtype.range().filter(|_| dtype != IrType::I64) {
        let values = tensor.flatten_all()?.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        if let Some(v) = values.iter().find(|v| !(least..=most).contains(v)) {
            return Ok(Err(format!("holds {v}, where {dtype} values from {least} to {most} are expected")));
        }
    }
    Ok(Ok(tensor.to_dtype(wanted)?))
}
