//! CPU kernels: plain functions on slices, parallel over a [`Team`] of threads.
//!
//! | module | holds |
//! |---|---|
//! | [`matmul`](mod@matmul) | products of activations with encoded or `f32` weight rows |
//! | [`attention`](mod@attention) | grouped scaled dot-product attention over a key and value cache |
//! | [`norm`] | root-mean-square and layer normalisation of rows |
//! | [`rope`](mod@rope) | rotary embedding with precomputed cosines and sines |
//! | [`activation`] | activation functions, alone and gated |
//! | [`softmax`](mod@softmax) | softmax of rows |
//! | [`embed`] | decoding single rows of an encoded matrix |
//! | [`team`] | the threads |
//! | [`machine`] | the rates that the machine allows, measured |
//!
//! Every result is a function of its own operands: each output is reduced in one order, whatever
//! the number of rows in the call, the number of threads, or the instruction set. The portable
//! form of a kernel and its AVX2 form give the same bits.
//!
//! Instruction sets are chosen at run time ([`Isa`]). `unsafe` is allowed in the submodules that
//! need it, each block with its reason, and nowhere else in the crate.

pub mod activation;
pub mod attention;
mod cpu;
mod disjoint;
pub mod embed;
mod error;
pub mod machine;
mod math;
pub mod matmul;
pub mod norm;
pub mod rope;
pub mod softmax;
pub mod team;
mod weights;

pub use attention::{AttentionMask, AttentionSpec, KvElement, attention};
pub use cpu::Isa;
pub use embed::{dequantize_row, gather_rows};
pub use error::KernelError;
pub use matmul::{Activations, matmul, matmul_f32, matmul_quantized};
pub use norm::{layer_norm, rms_norm};
pub use rope::{RopeLayout, rope};
pub use softmax::softmax;
pub use team::Team;
pub use weights::WeightRows;

/// Fails with [`KernelError::Length`] unless a slice has the expected length.
fn check_len(what: &'static str, found: usize, expected: Option<usize>) -> Result<(), KernelError> {
    if expected == Some(found) {
        return Ok(());
    }
    Err(KernelError::Length { what, found, expected: expected.unwrap_or(usize::MAX) })
}
