//! What a stage that runs nothing asks of one that does: the values of an operation on constants.

use crate::{Op, TensorType};

/// A tensor of known values.
#[derive(Clone, Debug, PartialEq)]
pub struct Literal {
    /// Its type, of constant sizes.
    pub ty: TensorType,
    /// Its values in row-major order; integers and truth values as whole numbers.
    pub values: Vec<f32>,
}

/// Computes single operations.
pub trait Evaluate {
    /// The results of a pure operation on known operands; `None` where it has none of these types, or where a value is
    /// no `f32`: an integer past 2^24.
    fn evaluate(&self, op: &Op, operands: &[Literal]) -> Option<Vec<Literal>>;
}
