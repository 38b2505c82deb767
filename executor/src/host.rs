//! Functions outside the graph, which the operation `HostCall` calls.

use candle_core::Tensor;

/// What a graph may call by name. Given to a program by
/// [`Program::with_host`](crate::Program::with_host).
pub trait HostFunctions: Send + Sync {
    /// Runs the function `name`. Operands are CPU tensors: real numbers as `f32`, integers as `i64`, truth
    /// values as `u8` 0 or 1. The result must have the shape that the graph declares, and its element type:
    /// `f32` (or `f16`, `bf16` where the graph says so), `i64` for every integer type, `u8` for bool.
    /// It runs once for each step of each call of the graph, also where nothing reads its result.
    ///
    /// # Errors
    /// A text that says what is wrong; the call of the graph fails with it. An unknown `name` is such an
    /// error.
    fn call(&self, name: &str, operands: &[Tensor]) -> Result<Tensor, String>;
}
