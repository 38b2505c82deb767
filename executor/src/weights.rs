//! Where weights come from, and how a loaded one is kept.

use crate::error::{ExecutorError, Result};
use crate::kernels::{KernelError, Team, WeightRows};
use crate::packed::{Matrix, Packed, PackedCache, PackedStore};
use candle_core::{Device, Tensor};
use std::sync::{Arc, OnceLock};
use tallow_format::{Encoding, FileIdentity, ModelFile};

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

    /// Lets go of the memory that holds the bytes of a tensor, where they can be had again: they are rarely read from here on.
    fn release(&self, name: &str) {
        let _ = name;
    }

    /// What tells the file of these weights from others, where they come from a file. What is made of the weights
    /// is kept for other runs by it.
    fn identity(&self) -> Option<FileIdentity> {
        None
    }
}

impl WeightSource for ModelFile {
    fn weight(&self, name: &str) -> Option<WeightView<'_>> {
        let view = self.tensor(name)?;
        Some(WeightView { shape: view.shape, encoding: view.encoding, bytes: view.bytes })
    }

    fn release(&self, name: &str) {
        self.release_pages(name);
    }

    fn identity(&self) -> Option<FileIdentity> {
        self.container().identity()
    }
}

/// A weight of a program: the bytes stay in the source until an operation needs values.
pub(crate) struct Weight {
    name: String,
    source: Arc<dyn WeightSource>,
    decoded: OnceLock<Tensor>,
    /// Values of a ternary tensor are multiplied by its sibling `NAME.scale`.
    scales: Option<Vec<f32>>,
    /// The store that has a place for the packed matrix, and which.
    packed: OnceLock<(Arc<PackedStore>, usize)>,
}

impl std::fmt::Debug for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Weight").field(&self.name).finish()
    }
}

impl Weight {
    /// Checks that the source has the tensor, and of a ternary one its codes and the size of its scale.
    pub fn new(name: &str, source: &Arc<dyn WeightSource>) -> Result<Self> {
        let view = source.weight(name).ok_or_else(|| ExecutorError::MissingWeight { name: name.into() })?;
        if view.encoding == Encoding::Ternary {
            // Products read the invalid code as 0, so it is looked for once, here.
            let fault =
                |e: tallow_format::EncodingError| ExecutorError::Weight { name: name.into(), cause: e.to_string() };
            view.encoding.check(view.bytes).map_err(fault)?;
        }
        let scales = match view.encoding {
            Encoding::Ternary => scales(name, &view, source.as_ref())?,
            _ => None,
        };
        Ok(Weight {
            name: name.into(),
            source: source.clone(),
            decoded: OnceLock::new(),
            scales,
            packed: OnceLock::new(),
        })
    }

    /// The name of the tensor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes, with shape and encoding.
    pub fn view(&self) -> Result<WeightView<'_>> {
        self.source.weight(&self.name).ok_or_else(|| ExecutorError::MissingWeight { name: self.name.clone() })
    }

    /// The rows of a matrix.
    pub fn rows(&self) -> Result<WeightRows<'_>> {
        let view = self.view()?;
        let &[rows, k] = view.shape else {
            let cause = format!("has shape {:?}, expected a matrix", view.shape);
            return Err(ExecutorError::Weight { name: self.name.clone(), cause });
        };
        let fault = |e: KernelError| self.fault(&e);
        let matrix = WeightRows::new(view.encoding, view.bytes, rows as usize, k as usize).map_err(fault)?;
        match self.scales() {
            Some(scales) => matrix.with_scale(scales).map_err(fault),
            None => Ok(matrix),
        }
    }

    /// The rows of one of several matrices of a size, `[matrices, rows, k]`.
    pub fn rows_of(&self, matrix: usize) -> Result<WeightRows<'_>> {
        let view = self.view()?;
        let &[count, rows, k] = view.shape else {
            let cause = format!("has shape {:?}, expected several matrices", view.shape);
            return Err(ExecutorError::Weight { name: self.name.clone(), cause });
        };
        let fault = |e: KernelError| self.fault(&e);
        let all = WeightRows::new(view.encoding, view.bytes, count.saturating_mul(rows) as usize, k as usize)
            .map_err(fault)?;
        let rows = rows as usize;
        let one = all.slice(matrix * rows..(matrix + 1) * rows).map_err(fault)?;
        // A ternary scale is one value, or one for each matrix.
        match self.scales() {
            None => Ok(one),
            Some(scale @ [_]) => one.with_scale(scale).map_err(fault),
            Some(scales) => one.with_scale(&scales[matrix..matrix + 1]).map_err(fault),
        }
    }

    /// A kernel's error as one of this weight.
    pub fn fault(&self, error: &KernelError) -> ExecutorError {
        ExecutorError::Weight { name: self.name.clone(), cause: error.to_string() }
    }

    /// The matrix that a store packs: several matrices of a size, `[matrices, rows, k]`, count as one with all their rows.
    /// None for a tensor of another shape or encoding.
    pub fn matrix(&self) -> Option<Matrix> {
        let view = self.view().ok()?;
        let (rows, k) = match *view.shape {
            [rows, k] => (rows, k),
            [count, rows, k] => (count.checked_mul(rows)?, k),
            _ => return None,
        };
        let (rows, k) = (usize::try_from(rows).ok()?, usize::try_from(k).ok()?);
        Packed::packs(view.encoding).then(|| Matrix { name: self.name.clone(), encoding: view.encoding, rows, k })
    }

    /// Names the store that has a place for the packed matrix, if it has one.
    pub fn set_store(&self, store: &Arc<PackedStore>) {
        if let Some(index) = store.index_of(&self.name) {
            // Set once, when the program is loaded.
            let _ = self.packed.set((store.clone(), index));
        }
    }

    /// The packed matrix, packed on first use; none for a tensor of another shape or encoding.
    pub fn packed(&self, team: &Team) -> Result<Option<Packed<'_>>> {
        let (store, index) = match self.packed.get() {
            Some(place) => place,
            None => {
                // A matrix that no product of the plan names is no part of the program's region.
                let Some(matrix) = self.matrix() else { return Ok(None) };
                let own = Arc::new(PackedStore::new(vec![matrix], self.source.clone(), PackedCache::Off)?);
                self.packed.get_or_init(|| (own, 0))
            }
        };
        store.matrix(*index, team).map(Some)
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
        match self.scales.as_deref() {
            None => {}
            Some([scale]) => values.iter_mut().for_each(|v| *v *= scale),
            Some(scales) => {
                // One scale a row, as checked on loading.
                let row = values.len() / rows(&view).max(1);
                for (row, scale) in values.chunks_mut(row.max(1)).zip(scales) {
                    row.iter_mut().for_each(|v| *v *= scale);
                }
            }
        }
        let shape: Vec<usize> = view.shape.iter().map(|&n| n as usize).collect();
        let tensor = Tensor::from_vec(values, shape, &Device::Cpu)?;
        Ok(self.decoded.get_or_init(|| tensor).clone())
    }
}

/// Rows of a tensor, each of which may have a scale of its own: its first dimension.
fn rows(view: &WeightView<'_>) -> usize {
    view.shape.first().map_or(1, |&n| n as usize)
}

/// The values of the tensor `NAME.scale` beside the ternary tensor `name`, if there is one.
fn scales(name: &str, view: &WeightView<'_>, source: &dyn WeightSource) -> Result<Option<Vec<f32>>> {
    let sibling = format!("{name}.scale");
    let Some(scale) = source.weight(&sibling) else { return Ok(None) };
    let (found, rows) = (scale.shape.iter().product::<u64>(), rows(view));
    if found != 1 && found != rows as u64 {
        return Err(ExecutorError::Weight {
            name: sibling,
            cause: format!(
                "it has {found} values, and `{name}` has {rows} rows; a scale is one value or one per row. Import the model again"
            ),
        });
    }
    decode(&sibling, &scale).map(Some)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Signs of this shape, all 1, and a scale of so many values 1/2, 1, 3/2 …
    struct Signs {
        shape: Vec<u64>,
        bytes: Vec<u8>,
        scale_shape: [u64; 1],
        scale: Vec<u8>,
    }

    impl WeightSource for Signs {
        fn weight(&self, name: &str) -> Option<WeightView<'_>> {
            match name {
                "w" => Some(WeightView { shape: &self.shape, encoding: Encoding::Ternary, bytes: &self.bytes }),
                "w.scale" => Some(WeightView { shape: &self.scale_shape, encoding: Encoding::U32, bytes: &self.scale }),
                _ => None,
            }
        }
    }

    fn load(shape: &[u64], scales: u64) -> Result<Weight> {
        let mut scale = Vec::new();
        let values: Vec<f32> = (1..=scales).map(|n| n as f32 / 2.0).collect();
        Encoding::U32.encode(&values, &mut scale).unwrap();
        let bytes = vec![0b01_01_01_01; shape.iter().product::<u64>() as usize / 4];
        let source: Arc<dyn WeightSource> =
            Arc::new(Signs { shape: shape.to_vec(), bytes, scale_shape: [scales], scale });
        Weight::new("w", &source)
    }

    #[test]
    fn a_ternary_scale_is_one_value_or_one_a_row() {
        let values = |shape: &[u64], scales| {
            let tensor = load(shape, scales).unwrap().tensor().unwrap();
            tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        assert_eq!(values(&[2, 4], 1), [0.5; 8]);
        assert_eq!(values(&[2, 4], 2), [0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0]);
        // A row is all that lies under one index of the first dimension.
        assert_eq!(values(&[2, 2, 4], 2), [[0.5; 8], [1.0; 8]].concat());
        for (shape, scales, rows) in [(&[2, 4][..], 3, 2), (&[2, 4], 8, 2), (&[2, 2, 4], 4, 2), (&[3, 4], 0, 3)] {
            let error = load(shape, scales).map(|_| ()).unwrap_err().to_string();
            let want = format!("tensor `w.scale`: it has {scales} values, and `w` has {rows} rows");
            assert!(error.contains(&want), "{error}");
        }
    }

    /// Blocks of `q8` in a shape.
    struct Blocks(Vec<u64>, Vec<u8>);

    impl WeightSource for Blocks {
        fn weight(&self, _: &str) -> Option<WeightView<'_>> {
            Some(WeightView { shape: &self.0, encoding: Encoding::Q8, bytes: &self.1 })
        }
    }

    #[test]
    fn a_matrix_without_a_store_packs_in_memory_of_its_own() {
        let team = Team::new(1).unwrap();
        let weight = |shape: &[u64]| {
            let blocks = shape.iter().product::<u64>() as usize / Encoding::Q8.block_len();
            let bytes = vec![1; blocks * Encoding::Q8.block_bytes()];
            let source: Arc<dyn WeightSource> = Arc::new(Blocks(shape.to_vec(), bytes));
            Weight::new("w", &source).unwrap()
        };
        let matrix = weight(&[5, 64]);
        for _ in 0..2 {
            let packed = matrix.packed(&team).unwrap().unwrap();
            assert_eq!((packed.rows(), packed.k()), (5, 64));
        }
        let several = weight(&[2, 5, 64]);
        let packed = several.packed(&team).unwrap().unwrap();
        assert_eq!((packed.rows(), packed.k()), (10, 64));
        assert!(weight(&[2, 2, 5, 64]).packed(&team).unwrap().is_none(), "no matrix");
        assert!(weight(&[64]).packed(&team).unwrap().is_none());
    }
}
