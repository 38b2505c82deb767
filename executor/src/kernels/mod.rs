//! CPU kernels: plain functions on slices, parallel over a [`Team`] of threads.
//!
//! | module | holds |
//! |---|---|
//! | [`matmul`](mod@matmul) | products of activations with `f32` rows and those of exact encodings |
//! | [`packed`] | the same for matrices of block encodings, packed once into kernel layout |
//! | `experts` | both kinds of products with the matrices of chosen experts |
//! | [`attention`](mod@attention) | grouped scaled dot-product attention over a key and value cache |
//! | [`norm`] | root-mean-square and layer normalisation of rows |
//! | [`rope`](mod@rope) | rotary embedding with precomputed cosines and sines |
//! | [`activation`] | activation functions, alone and gated |
//! | [`softmax`](mod@softmax) | softmax of rows |
//! | [`embed`] | decoding single rows of an encoded matrix |
//! | [`team`] | the threads |
//! | [`barrier`] | where the threads of one job meet |
//! | [`machine`] | the rates that the machine allows, measured |
//!
//! Every result is a function of its own operands: each output is reduced in one order, whatever
//! the number of rows in the call, the number of threads, or the instruction set. The portable
//! form of a kernel and its forms for AVX2 and AVX-512 give the same bits.
//!
//! Instruction sets are chosen at run time ([`Isa`]). `unsafe` is allowed in the submodules that
//! need it, each block with its reason, and nowhere else in the crate.

pub mod activation;
pub mod attention;
pub mod barrier;
mod cpu;
pub(crate) mod disjoint;
pub mod embed;
mod error;
pub(crate) mod experts;
mod lanes;
pub mod machine;
mod math;
pub mod matmul;
pub mod norm;
pub mod packed;
pub(crate) mod room;
pub mod rope;
pub mod softmax;
pub mod team;
mod weights;

pub use attention::{
    AttentionCall, AttentionMask, AttentionScratch, AttentionShared, AttentionSpec, KvData, KvElement, KvEncoding,
    KvLayout, KvRows, KvStore, KvWriter, attend, attend_segments, attention,
};
pub use cpu::{ISA_VARIABLE, Isa};
pub use disjoint::Disjoint;
pub use embed::{dequantize_row, gather_rows};
pub use error::KernelError;
pub use matmul::{matmul, matmul_f32};
pub use norm::{
    layer_norm, layer_norm_row, rms_norm, rms_norm_heads, rms_norm_row, skip_layer_norm_row, skip_rms_factor,
    skip_rms_norm_row,
};
pub use rope::{RopeLayout, RopeTable, rope, turn_heads};
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
