//! The interpreter as what computes constants for the compiler.

use super::alone;
use crate::value::{Val, element};
use candle_core::{DType, Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::{Bindings, Effect, Evaluate, Literal, NodeId, Op, TensorType};

/// Computes operations on constants as the interpreter would where they stand.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter;

impl Evaluate for Interpreter {
    fn evaluate(&self, op: &Op, operands: &[Literal]) -> Option<Vec<Literal>> {
        let types: Vec<TensorType> = operands.iter().map(|l| l.ty.clone()).collect();
        let types = op.infer(&types).ok()?;
        if op.info().effect != Effect::Pure {
            return None;
        }
        let made = Step {
            op: op.clone(),
            node: NodeId::from_index(0),
            name: op.name().to_owned(),
            operands: Vec::new(),
            results: Vec::new(),
            types: types.clone(),
            frees: Vec::new(),
            cache: None,
        };
        let values: Vec<Val> = operands.iter().map(|l| tensor(l).map(Val::Tensor)).collect::<Option<_>>()?;
        let results = alone(&made, &values).ok()?;
        types.into_iter().zip(results).map(|(ty, value)| literal(ty, &value)).collect()
    }
}

fn tensor(literal: &Literal) -> Option<Tensor> {
    let dims = literal.ty.shape.evaluate(&Bindings::new())?;
    let real = Tensor::from_slice(&literal.values, dims, &Device::Cpu).ok()?;
    real.to_dtype(element(literal.ty.dtype)).ok()
}

fn literal(ty: TensorType, value: &Val) -> Option<Literal> {
    let tensor = value.tensor(&[]).ok()?;
    if tensor.dims() != ty.shape.evaluate(&Bindings::new())?.as_slice() {
        return None;
    }
    let exact = tensor.to_dtype(DType::F64).ok()?.flatten_all().ok()?.to_vec1::<f64>().ok()?;
    let small = |v: f64| !ty.dtype.is_integer() || v.abs() < 16_777_216.0;
    if !exact.iter().all(|&v| small(v)) {
        return None;
    }
    Some(Literal { ty, values: exact.into_iter().map(|v| v as f32).collect() })
}
