//! Types of values: an element type and a shape of symbolic dimensions.

use crate::{Bindings, DType, Dim};
use std::fmt;

/// A shape, outermost dimension first; empty for a scalar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// A shape of dimensions.
    pub fn new(dims: impl IntoIterator<Item = Dim>) -> Self {
        Shape(dims.into_iter().collect())
    }

    /// A shape of constants.
    pub fn fixed(dims: &[i64]) -> Self {
        Shape(dims.iter().map(|&n| Dim::constant(n)).collect())
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The dimensions.
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// The last dimension, if there is one.
    pub fn last(&self) -> Option<&Dim> {
        self.0.last()
    }

    /// Number of elements; `None` when the product cannot be represented.
    pub fn elements(&self) -> Option<Dim> {
        self.0.iter().try_fold(Dim::constant(1), |n, d| n.mul(d))
    }

    /// Sizes under `bindings`; `None` for an unbound symbol, an overflow or a negative size.
    pub fn evaluate(&self, bindings: &Bindings) -> Option<Vec<usize>> {
        self.0.iter().map(|d| usize::try_from(d.evaluate(bindings)?).ok()).collect()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

/// The type of one value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
}

impl TensorType {
    /// A type.
    pub fn new(dtype: DType, shape: Shape) -> Self {
        TensorType { dtype, shape }
    }

    /// An `f32` tensor.
    pub fn f32(shape: Shape) -> Self {
        Self::new(DType::F32, shape)
    }

    /// An `i64` tensor.
    pub fn i64(shape: Shape) -> Self {
        Self::new(DType::I64, shape)
    }
}

/// Prints `f32[S, 256]`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}
