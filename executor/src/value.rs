//! What a buffer holds while a plan runs.

use crate::cache::{Cache, Part};
use crate::error::Result;
use crate::weights::Weight;
use candle_core::{CpuStorage, Storage, Tensor};
use std::sync::Arc;
use tallow_ir::DType;

/// The content of a buffer.
#[derive(Clone)]
pub(crate) enum Val {
    /// A computed tensor.
    Tensor(Tensor),
    /// A weight, still encoded.
    Weight(Arc<Weight>),
    /// All rows of one side of a cache of the session.
    Cache(u32, Part),
}

impl Val {
    /// The sizes.
    pub fn dims(&self, caches: &[Cache]) -> Result<Vec<usize>> {
        Ok(match self {
            Val::Tensor(t) => t.dims().to_vec(),
            Val::Weight(w) => w.view()?.shape.iter().map(|&n| n as usize).collect(),
            Val::Cache(cache, part) => caches[*cache as usize].dims(*part),
        })
    }

    /// The values as a tensor: weights are decoded, cache rows copied.
    pub fn tensor(&self, caches: &[Cache]) -> Result<Tensor> {
        match self {
            Val::Tensor(t) => Ok(t.clone()),
            Val::Weight(w) => w.tensor(),
            Val::Cache(cache, part) => caches[*cache as usize].tensor(*part),
        }
    }
}

/// The Candle type of a computed tensor of a type of the IR: bytes and truth values are bytes, other
/// integers 64 bits wide.
pub(crate) fn element(dtype: DType) -> candle_core::DType {
    match dtype {
        DType::F16 => candle_core::DType::F16,
        DType::BF16 => candle_core::DType::BF16,
        DType::Bool | DType::U8 => candle_core::DType::U8,
        _ if dtype.is_integer() => candle_core::DType::I64,
        _ => candle_core::DType::F32,
    }
}

/// Calls `f` with the values of an `f32` CPU tensor in row-major order.
pub(crate) fn with_slice<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> R) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let (start, end) = layout.contiguous_offsets().unwrap_or((0, 0));
    match &*storage {
        Storage::Cpu(CpuStorage::F32(values)) => Ok(f(&values[start..end])),
        _ => Err(candle_core::Error::Msg(format!("expected an f32 CPU tensor, found {:?}", tensor.dtype())).into()),
    }
}
