//! Rules that give the types of results from the types of operands, one file per family.

pub(crate) mod attention;
pub(crate) mod batch;
pub(crate) mod convolution;
pub(crate) mod detection;
pub(crate) mod elementwise;
pub(crate) mod fused;
pub(crate) mod host;
pub(crate) mod index;
pub(crate) mod layout;
pub(crate) mod matrix;
pub(crate) mod norm;
pub(crate) mod other;
pub(crate) mod random;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod reshape;
pub(crate) mod rope_multi;
pub(crate) mod routing;
pub(crate) mod select;
pub(crate) mod sound;

use crate::ops::Real;
use crate::{DType, Dim, RuleError, Shape, TensorType};

/// What the rules share beside the operands. Empty today; data-dependent dimensions will need it.
#[derive(Default)]
pub(crate) struct Context {}

/// What every rule returns.
pub(crate) type Types = Result<Vec<TensorType>, RuleError>;

/// An error with formatted text.
macro_rules! bail {
    ($($text:tt)*) => { return Err($crate::RuleError::new(format!($($text)*))) };
}
pub(crate) use bail;

/// Requires that `found` is `expected`, naming what it is.
pub(crate) fn same_dim(what: &str, found: &Dim, expected: &Dim) -> Result<(), RuleError> {
    if found == expected {
        return Ok(());
    }
    Err(RuleError::new(format!("{what} is {found}, expected {expected}")))
}

/// Requires this rank.
pub(crate) fn rank(what: &str, t: &TensorType, expected: usize) -> Result<(), RuleError> {
    if t.shape.rank() == expected {
        return Ok(());
    }
    Err(RuleError::new(format!("{what} has shape {}, expected {expected} dimensions", t.shape)))
}

/// Requires real numbers: what the half types, the fixed-point types and the block types compute as.
pub(crate) fn float(what: &str, t: &TensorType) -> Result<(), RuleError> {
    if t.dtype.computes_as() == DType::F32 {
        return Ok(());
    }
    Err(RuleError::new(format!("{what} has the type {}, expected real numbers", t.dtype)))
}

/// Requires a finite number that is not negative.
pub(crate) fn epsilon(what: &str, value: Real) -> Result<(), RuleError> {
    let value = value.get();
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(RuleError::new(format!("{what} is {value}, expected a finite number that is not negative")))
}

/// The last dimension, or an error for a scalar.
pub(crate) fn last<'a>(what: &str, t: &'a TensorType) -> Result<&'a Dim, RuleError> {
    t.shape.last().ok_or_else(|| RuleError::new(format!("{what} is a scalar, expected at least one dimension")))
}

/// Position of a possibly negative dimension number.
pub(crate) fn axis(dim: i64, t: &TensorType) -> Result<usize, RuleError> {
    let rank = t.shape.rank() as i64;
    let at = if dim < 0 { dim + rank } else { dim };
    if (0..rank).contains(&at) {
        return Ok(at as usize);
    }
    Err(RuleError::new(format!("dimension {dim} does not exist in shape {}", t.shape)))
}

/// `t` with its last dimension replaced.
pub(crate) fn with_last(t: &TensorType, dim: Dim) -> TensorType {
    let mut dims = t.shape.0.clone();
    if let Some(slot) = dims.last_mut() {
        *slot = dim;
    }
    TensorType::new(t.dtype, Shape(dims))
}

/// A dimension too large to represent.
pub(crate) fn overflow() -> RuleError {
    RuleError::new("a dimension is too large to represent")
}

/// Shorthand of the tests of rules.
#[cfg(test)]
pub(crate) mod testing {
    use crate::{DType, Op, Shape, TensorType};

    /// A type of dtype and dimensions in the text form.
    pub(crate) fn t(dtype: DType, dims: &str) -> TensorType {
        let dims = dims.split(',').map(str::trim).filter(|d| !d.is_empty());
        TensorType::new(dtype, Shape::new(dims.map(|d| d.parse().unwrap())))
    }

    /// An `f32` type.
    pub(crate) fn f(dims: &str) -> TensorType {
        t(DType::F32, dims)
    }

    /// The result types, as text.
    #[track_caller]
    pub(crate) fn good(op: Op, operands: &[TensorType]) -> String {
        let results = op.infer(operands).unwrap_or_else(|e| panic!("{}: {e}", op.name()));
        let texts: Vec<String> = results.iter().map(ToString::to_string).collect();
        assert_eq!(results.len(), op.result_count());
        texts.join(" ")
    }

    /// Requires an error that says `what`.
    #[track_caller]
    pub(crate) fn bad(op: Op, operands: &[TensorType], what: &str) {
        let error = op.infer(operands).expect_err("the operands do not fit").0;
        assert!(error.contains(what), "{error}");
    }
}
