//! Plans on Candle tensors: kernels, sessions, sampling, tokenizer, chat.
//!
//! A [`Program`] is a plan with its weights, shared by any number of [`Session`]s, each with its
//! own cache. Two engines walk the same plan: the interpreter, one Candle operation after another
//! in `f32`, which is the oracle; and the CPU path, which multiplies by encoded weights as they lie
//! in the file.

mod cache;
pub mod chat;
mod cpu;
mod error;
pub mod host;
mod interpreter;
pub mod kernels;
mod program;
pub mod sampling;
mod session;
pub mod stream;
pub mod tokenizer;
mod value;
pub mod weights;

pub use candle_core::{DType, Device, Tensor};
pub use error::ExecutorError;
pub use host::HostFunctions;
pub use program::{CacheType, Engine, Program, ProgramOptions};
pub use session::{Rows, Session};
pub use weights::{WeightSource, WeightView};

/// The tensors of a safetensors file in memory.
///
/// # Errors
/// Bytes that are no such file.
pub fn load_safetensors(bytes: &[u8]) -> Result<std::collections::HashMap<String, Tensor>, ExecutorError> {
    Ok(candle_core::safetensors::load_buffer(bytes, &Device::Cpu)?)
}

/// The bytes of a safetensors file with these tensors, in order of their names.
///
/// # Errors
/// An element type that the format lacks.
pub fn save_safetensors(tensors: &[(String, Tensor)]) -> Result<Vec<u8>, ExecutorError> {
    let mut sorted: Vec<_> = tensors.iter().map(|(n, t)| (n.as_str(), t)).collect();
    sorted.sort_by_key(|(n, _)| *n);
    let bytes = safetensors::serialize(sorted, None).map_err(|e| candle_core::Error::Msg(e.to_string()))?;
    Ok(bytes)
}
