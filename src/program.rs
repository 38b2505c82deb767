//! Programs while they run: their host functions.

use std::collections::HashMap;
use std::sync::Arc;
use tallow_executor::{DType, Device, HostFunctions, Tensor};
use tallow_frontends::program::build::host_name;
use tallow_frontends::program::diagnostic::Diagnostics;
use tallow_frontends::program::host::{HostId, Leaf};
use tallow_frontends::program::value::Value;
use tallow_frontends::program::{Diagnostic, Module};
use tallow_ir::{DType as IrType, NodeKind, Op};

/// Most steps that one call of a host function may take.
const MOST_STEPS: u64 = 1 << 25;

/// Gives the id of a token by its exact text.
type LookUp = dyn Fn(&str) -> Option<u32> + Send + Sync;

/// The functions that the graphs of a program call: code on text and numbers that only running tells.
pub struct ProgramHost {
    module: Arc<Module>,
    name: String,
    source: Arc<str>,
    /// What the graphs declare of each function: element type and number of dimensions.
    declared: HashMap<String, (IrType, usize)>,
    /// The id of a token by its exact text.
    look_up: Box<LookUp>,
}

impl ProgramHost {
    /// The host functions of a module; `name` and `source` of the program are for messages.
    pub fn new(module: Arc<Module>, name: impl Into<String>, source: impl Into<Arc<str>>) -> Self {
        let mut declared = HashMap::new();
        for graph in module.graphs.values() {
            for id in graph.nodes() {
                if let NodeKind::Op(Op::HostCall { function, dtype, shape }) = &graph.node(id).kind {
                    declared.insert(function.as_str().to_owned(), (*dtype, shape.len()));
                }
            }
        }
        ProgramHost { module, name: name.into(), source: source.into(), declared, look_up: Box::new(|_| None) }
    }

    /// The same, with a vocabulary: the id of a token by its exact text.
    pub fn with_vocabulary(mut self, look_up: impl Fn(&str) -> Option<u32> + Send + Sync + 'static) -> Self {
        self.look_up = Box::new(look_up);
        self
    }

    /// Computes a value of the program; `given` has what its leaves name: text as bytes, numbers as a tensor.
    ///
    /// # Errors
    /// What went wrong, shown on the program.
    pub fn value(&self, value: &Value, given: &dyn Fn(&str) -> Option<Tensor>) -> Result<Value, String> {
        let mut leaves: Vec<(Leaf, Value)> = Vec::new();
        for leaf in self.module.host.leaves(value) {
            let (Leaf::Text(name) | Leaf::Numbers(name)) = &leaf;
            let tensor = given(name).ok_or_else(|| format!("`{name}` was not given"))?;
            let bound = bind(&leaf, &tensor).map_err(|cause| format!("`{name}`: {cause}"))?;
            leaves.push((leaf, bound));
        }
        let find = |leaf: &Leaf| leaves.iter().find(|(l, _)| l == leaf).map(|(_, v)| v.clone());
        self.module.host.run(value, &find, &*self.look_up, MOST_STEPS).map_err(|d| self.shown(d))
    }

    fn shown(&self, d: Diagnostic) -> String {
        Diagnostics { name: self.name.clone(), source: self.source.clone(), list: vec![d] }.to_string()
    }
}

impl HostFunctions for ProgramHost {
    fn call(&self, name: &str, operands: &[Tensor]) -> Result<Tensor, String> {
        let id = name.strip_prefix("host").and_then(|n| n.parse().ok()).map(HostId);
        let known = id.filter(|id| host_name(*id) == name && (id.0 as usize) < self.module.host.nodes.len());
        let Some(id) = known else { return Err(format!("the program has no function `{name}`")) };
        let value = Value::Host(id);
        let leaves = self.module.host.leaves(&value);
        if leaves.len() != operands.len() {
            return Err(format!("`{name}` takes {} operands, found {}", leaves.len(), operands.len()));
        }
        let given = |wanted: &str| {
            let named = |leaf: &Leaf| matches!(leaf, Leaf::Text(n) | Leaf::Numbers(n) if n == wanted);
            leaves.iter().position(named).map(|i| operands[i].clone())
        };
        let made = self.value(&value, &given)?;
        let (dtype, rank) = self.declared.get(name).copied().unwrap_or((IrType::F32, 0));
        tensor(&made, dtype, rank)
    }
}

/// What host code sees of a tensor: a text, a number, or a list, nested for each dimension.
fn bind(leaf: &Leaf, tensor: &Tensor) -> Result<Value, String> {
    let fail = |e: &dyn std::fmt::Display| e.to_string();
    let flat = tensor.flatten_all().map_err(|e| fail(&e))?;
    if let Leaf::Text(_) = leaf {
        let bytes = flat.to_dtype(DType::U8).and_then(|t| t.to_vec1::<u8>()).map_err(|e| fail(&e))?;
        let text = String::from_utf8(bytes).map_err(|e| format!("is no UTF-8: {e}"))?;
        return Ok(Value::str(text));
    }
    let numbers: Vec<Value> = if tensor.dtype().is_float() {
        let values = flat.to_dtype(DType::F32).and_then(|t| t.to_vec1::<f32>()).map_err(|e| fail(&e))?;
        values.into_iter().map(|v| Value::Float(v.into())).collect()
    } else {
        let values = flat.to_dtype(DType::I64).and_then(|t| t.to_vec1::<i64>()).map_err(|e| fail(&e))?;
        values.into_iter().map(Value::int).collect()
    };
    Ok(nested(&numbers, tensor.dims()))
}

/// Numbers in row-major order as lists inside lists.
fn nested(numbers: &[Value], dims: &[usize]) -> Value {
    match dims {
        [] => numbers.first().cloned().unwrap_or(Value::Unit),
        [_] => Value::list(numbers.to_vec()),
        [n, rest @ ..] => {
            let part = numbers.len() / (*n).max(1);
            Value::list((0..*n).map(|i| nested(&numbers[i * part..(i + 1) * part], rest)).collect())
        }
    }
}

/// A value of host code as a tensor of the type that the graph declares.
fn tensor(value: &Value, dtype: IrType, rank: usize) -> Result<Tensor, String> {
    let (mut numbers, mut dims) = (Vec::new(), Vec::new());
    flatten(value, rank, 0, &mut numbers, &mut dims)?;
    // Lists without an element tell no sizes below them.
    dims.resize(rank, 0);
    let made = if dtype.is_integer() {
        let whole = |v: &f64| (v.fract() == 0.0 && v.abs() < 9e15).then_some(*v as i64);
        let Some(values) = numbers.iter().map(whole).collect::<Option<Vec<i64>>>() else {
            return Err("gave numbers that are not whole, where ids are needed".into());
        };
        Tensor::from_vec(values, dims, &Device::Cpu)
    } else if dtype == IrType::Bool {
        Tensor::from_vec(numbers.iter().map(|v| u8::from(*v != 0.0)).collect(), dims, &Device::Cpu)
    } else {
        Tensor::from_vec(numbers.iter().map(|v| *v as f32).collect(), dims, &Device::Cpu)
    };
    made.map_err(|e| e.to_string())
}

fn flatten(value: &Value, rank: usize, depth: usize, out: &mut Vec<f64>, dims: &mut Vec<usize>) -> Result<(), String> {
    let number = match value {
        Value::List(items) | Value::Tuple(items) => {
            if depth >= rank {
                return Err(format!("gave lists nested deeper than the {rank} that the graph takes"));
            }
            match dims.get(depth) {
                None => dims.push(items.len()),
                Some(&n) if n == items.len() => {}
                Some(&n) => return Err(format!("gave lists of {n} and of {} numbers beside each other", items.len())),
            }
            return items.iter().try_for_each(|v| flatten(v, rank, depth + 1, out, dims));
        }
        Value::Ref(place) => return flatten(&place.load(), rank, depth, out, dims),
        Value::Int(n) => n.value as f64,
        Value::Float(x) => *x,
        Value::Bool(b) => f64::from(u8::from(*b)),
        other => return Err(format!("gave {}, where numbers are needed", other.kind())),
    };
    if depth != rank {
        return Err(format!("gave a number at depth {depth} of its lists, where the graph takes {rank}"));
    }
    out.push(number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_tensors_are_each_other() {
        let x = Tensor::new(&[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &Device::Cpu).unwrap();
        let value = bind(&Leaf::Numbers("x".into()), &x).unwrap();
        let back = tensor(&value, IrType::F32, 2).unwrap();
        assert_eq!(back.to_vec2::<f32>().unwrap(), x.to_vec2::<f32>().unwrap());
        assert_eq!(tensor(&value, IrType::I64, 2).unwrap().dims(), [2, 3]);
        assert!(tensor(&value, IrType::F32, 1).unwrap_err().contains("deeper than the 1"));
        assert!(tensor(&Value::int(1), IrType::F32, 1).unwrap_err().contains("depth 0"));
        let ragged = Value::list(vec![Value::list(vec![Value::int(1)]), Value::list(vec![])]);
        assert!(tensor(&ragged, IrType::F32, 2).unwrap_err().contains("beside each other"));
        assert!(tensor(&Value::list(vec![Value::Float(0.5)]), IrType::I64, 1).unwrap_err().contains("not whole"));
        assert_eq!(tensor(&Value::list(vec![]), IrType::I64, 1).unwrap().dims(), [0]);
        let bytes = Tensor::new(&[104u8, 105], &Device::Cpu).unwrap();
        let text = bind(&Leaf::Text("t".into()), &bytes).unwrap();
        assert!(matches!(text, Value::Str(t) if &*t == "hi"));
    }
}
