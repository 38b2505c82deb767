//! What builders of all families put graphs together from: weights that are checked against the tensors there are, and
//! small pieces over them.

use super::{FamilyError, Misshapen, TensorFaults, TensorShapes};
use std::collections::HashSet;
use tallow_ir::ops::Reduction;
use tallow_ir::{DType, Graph, IrError, Op, Shape, TensorType, Value};

/// The value that a piece gives.
pub type Built = Result<Value, IrError>;

/// The least length that a row is divided by.
const LEAST_LENGTH: f32 = 1e-12;

/// A graph in the making, and the tensors that it reads.
pub struct Parts<'a> {
    /// The graph.
    pub graph: Graph,
    tensors: &'a dyn TensorShapes,
    faults: TensorFaults,
    seen: HashSet<String>,
    passed: HashSet<String>,
}

impl<'a> Parts<'a> {
    /// An empty graph of a type over these tensors.
    pub fn new(model_type: &str, tensors: &'a dyn TensorShapes) -> Self {
        let faults = TensorFaults { model_type: model_type.to_owned(), ..TensorFaults::default() };
        Parts { graph: Graph::new(), tensors, faults, seen: HashSet::new(), passed: HashSet::new() }
    }

    /// The graph. `hints` are lines about the config that go into an error about tensors.
    ///
    /// # Errors
    /// Every missing tensor and every tensor of another shape, together.
    pub fn finish(mut self, hints: &[String]) -> Result<Graph, FamilyError> {
        if self.faults.is_empty() {
            return Ok(self.graph);
        }
        self.faults.hints = hints.to_vec();
        Err(FamilyError::Tensors(self.faults))
    }

    /// The graph so far; the next one begins, over the same tensors.
    pub fn take_graph(&mut self) -> Graph {
        std::mem::take(&mut self.graph)
    }

    /// Says that a tensor, which may be there or not, is known to be of no use.
    pub fn pass_over(&mut self, name: &str) {
        self.passed.insert(name.to_owned());
    }

    /// The names that were passed over.
    pub fn passed(&self) -> &HashSet<String> {
        &self.passed
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.shape(name).is_some()
    }

    /// The result of an operation, under a name that people read.
    pub fn op(&mut self, op: Op, operands: &[Value], says: impl Into<String>) -> Built {
        let y = self.graph.op(op, operands)?;
        self.graph.name(y, says.into());
        Ok(y)
    }

    /// A weight of the expected shape. One that is missing or has another shape is noted, and the
    /// graph goes on as if it were right, so that all of them are found.
    pub fn weight(&mut self, name: &str, expected: &[u32]) -> Built {
        if self.seen.insert(name.to_owned()) {
            let expected: Vec<u64> = expected.iter().map(|&n| n.into()).collect();
            match self.tensors.shape(name) {
                None => self.faults.missing.push((name.to_owned(), expected)),
                Some(found) if found != expected => {
                    self.faults.misshapen.push(Misshapen { name: name.to_owned(), found, expected })
                }
                Some(_) => {}
            }
        }
        let dtype = self.tensors.dtype(name).unwrap_or(DType::F32);
        let dims: Vec<i64> = expected.iter().map(|&n| n.into()).collect();
        self.graph.weight(name, TensorType::new(dtype, Shape::fixed(&dims)))
    }

    /// `x · Wᵀ` with `name.weight` `[rows, columns]`, plus `name.bias` where there is one.
    pub fn linear(
        &mut self,
        x: Value,
        name: &str,
        [rows, columns]: [u32; 2],
        bias: bool,
        says: impl Into<String>,
    ) -> Built {
        let w = self.weight(&format!("{name}.weight"), &[rows, columns])?;
        let mut y = self.graph.op(Op::Matmul, &[x, w])?;
        if bias {
            let b = self.weight(&format!("{name}.bias"), &[rows])?;
            y = self.graph.op(Op::Add, &[y, b])?;
        }
        self.graph.name(y, says.into());
        Ok(y)
    }

    /// Root-mean-square normalisation over the last dimension, times `name.weight` as it is.
    pub fn rms_norm(&mut self, x: Value, name: &str, width: u32, eps: f32, says: impl Into<String>) -> Built {
        let gain = self.weight(&format!("{name}.weight"), &[width])?;
        self.op(Op::RmsNorm { eps: eps.into() }, &[x, gain], says)
    }

    /// Layer normalisation over the last dimension by `name.weight` and `name.bias`; zeros stand for a bias that the norm
    /// does not have.
    pub fn layer_norm(
        &mut self,
        x: Value,
        name: &str,
        width: u32,
        eps: f32,
        bias: bool,
        says: impl Into<String>,
    ) -> Built {
        let gain = self.weight(&format!("{name}.weight"), &[width])?;
        let shift = match bias {
            true => self.weight(&format!("{name}.bias"), &[width])?,
            false => self.filled(width, 0.0)?,
        };
        self.op(Op::LayerNorm { eps: eps.into() }, &[x, gain, shift], says)
    }

    /// The rows of `x` (`[rows, width]`) divided by their lengths.
    pub fn unit_length(&mut self, x: Value) -> Built {
        let squares = self.graph.op(Op::Mul, &[x, x])?;
        let sum = self.graph.op(Op::Reduce { how: Reduction::Sum, axes: vec![1], keep: true }, &[squares])?;
        let length = self.graph.op(Op::Sqrt, &[sum])?;
        let length = self.graph.op(Op::Clamp { min: Some(LEAST_LENGTH.into()), max: None }, &[length])?;
        self.graph.op(Op::Div, &[x, length])
    }

    /// A vector of one number.
    pub fn filled(&mut self, width: u32, value: f32) -> Built {
        let op = Op::Constant { dtype: DType::F32, shape: vec![width.into()], values: vec![value.into()] };
        self.graph.op(op, &[])
    }

    /// The rows of a table of learned positions (`[positions, width]`) for the tokens `ids` (`[S]`) of this call.
    pub fn learned_positions(&mut self, ids: Value, table: &str, [positions, width]: [u32; 2]) -> Built {
        let table = self.weight(table, &[positions, width])?;
        let numbers = self.graph.op(Op::Iota { axis: 0 }, &[ids])?;
        let past = self.graph.pos()?;
        let places = self.op(Op::Add, &[numbers, past], "positions")?;
        self.op(Op::PosEmbed, &[places, table], "learned_positions")
    }

    /// Queries, keys and values, each `[S, heads · size]`, of rows (`[S, heads · 3 · size]`) that hold the three of one
    /// head after another.
    pub fn split_by_head(&mut self, x: Value, heads: u32, size: u32) -> Result<[Value; 3], IrError> {
        let (n, d) = (i64::from(heads), i64::from(size));
        let x = self.graph.op(Op::Reshape { shape: vec![-1, n, 3 * d] }, &[x])?;
        let parts = self.graph.op_many(Op::Split { axis: 2, sizes: vec![size; 3] }, &[x])?;
        let mut rows = |part: usize| self.graph.op(Op::Reshape { shape: vec![-1, n * d] }, &[parts[part]]);
        Ok([rows(0)?, rows(1)?, rows(2)?])
    }

    /// Parts of the last dimension of `x` (`[S, …]`).
    pub fn split(&mut self, x: Value, sizes: &[u32]) -> Result<Vec<Value>, IrError> {
        self.graph.op_many(Op::Split { axis: 1, sizes: sizes.to_vec() }, &[x])
    }
}
