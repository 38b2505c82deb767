//! Where weights come from, and how a loaded one is kept.

use crate::error::{ExecutorError, Result};
use candle_core::{Device, Tensor};
use std::sync::{Arc, OnceLock};
use tallow_format::{Encoding, ModelFile};

/// One tensor as it lies in its source.
#[derive(Clone, Copy, Debug)]
pub struct WeightView<'a> {
    /// Row-major shape.
    pub shape: &'a [u64],
    /// How the bytes hold values.
    pub encoding: Encoding,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A source of weights, shared by all sessions of a program; usually a mapped [`ModelFile`].
pub trait WeightSource: Send + Sync {
    /// The tensor of this name.
    fn weight(&self, name: &str) -> Option<WeightView<'_>>;
}

impl WeightSource for ModelFile {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let view = self.tensor(name)?;
        Some(WeightView { shape: view.shape, encoding: view.encoding, bytes: view.bytes })
    }
}

/// A weight of a program: the bytes stay in the source until an operation needs values.
pub(crate) struct Weight {
    name: String,
    source: Arc<dyn WeightSource>,
    decoded: OnceLock<Tensor>,
    /// Values of a ternary tensor are multiplied by its sibling `NAME.scale`.
    scales: Option<Vec<f32>>,
}

impl Weight {
    /// Checks that the source has the tensor.
    pub fn new(name: &str, source: &Arc<dyn WeightSource>) -> Result<Self> {
        let view = source.weight(name).ok_or_else(|| ExecutorError::MissingWeight { name: name.into() })?;
        if view.encoding == Encoding::Ternary {
            // Products read the invalid code as 0, so it is looked for once, here.
            let fault = |e: tallow_format::EncodingError| ExecutorError::Weight { name: name.into(), cause: e.to_string() };
            view.encoding.check(view.bytes).map_err(fault)?;
        }
        let scales = match view.encoding {
            Encoding::Ternary => source.weight(&format!("{name}.scale")).map(|s| decode(name, &s)).transpose()?,
            _ => None,
        };
        Ok(Weight { name: name.into(), source: source.clone(), decoded: OnceLock::new(), scales })
    }

    /// The name of the tensor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes, with shape and encoding.
    pub fn view(&self) -> Result<WeightView<'_>> {
        self.source.weight(&self.name).ok_or_else(|| ExecutorError::MissingWeight { name: self.name.clone() })
    }

    /// The sibling scales of a ternary tensor: one, or one per row.
    pub fn scales(&self) -> Option<&[f32]> {
        self.scales.as_deref()
    }

    /// The values as an `f32` tensor; decoded on first use and kept.
    pub fn tensor(&self) -> Result<Tensor> {
        if let Some(tensor) = self.decoded.get() {
            return Ok(tensor.clone());
        }
        let view = self.view()?;
        let mut values = decode(&self.name, &view)?;
        if let Some(scales) = &self.scales {
            let per = values.len().div_ceil(scales.len().max(1)).max(1);
            for (chunk, scale) in values.chunks_mut(per).zip(scales) {
                chunk.iter_mut().for_each(|v| *v *= scale);
            }
        }
        let shape: Vec<usize> = view.shape.iter().map(|&n| n as usize).collect();
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?;
        Ok(self.decoded.get_or_init(|| tensor).clone())
    }
}

fn decode(name: &str, view: &WeightView<'_>) -> Result<Vec<f32>> {
    let count = view.bytes.len() / view.encoding.block_bytes() * view.encoding.block_len();
    let mut values = vec![0f32; count];
    view.encoding
        .decode(view.bytes, &mut values)
        .map_err(|e| ExecutorError::Weight { name: name.into(), cause: e.to_string() })?;
    // A ternary byte holds four values; the last may be only partly used.
    let wanted = view.shape.iter().product::<u64>() as usize;
    values.truncate(wanted);
    Ok(values)
}
