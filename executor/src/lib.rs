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
mod native;
pub mod packed;
pub mod profile;
mod program;
pub mod sampling;
mod session;
pub mod stream;
pub mod tensors;
pub mod tokenizer;
mod trace;
mod value;
pub mod weights;

pub use candle_core::{DType, Device, Error as CandleError, Tensor};
pub use error::ExecutorError;
pub use host::HostFunctions;
pub use interpreter::Interpreter;
pub use packed::{PackedCache, PackedReport, PackedStore};
pub use program::{CacheType, Engine, Program, ProgramOptions, Variant, Variants, Walk};
pub use session::{Rows, Session};
pub use tallow_compiler::Stage;
pub use tensors::{load_safetensors, save_safetensors};
pub use trace::{Trace, Traced};
pub use weights::{WeightSource, WeightView};
