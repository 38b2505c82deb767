//! What a family sees of a model's tensors: names, shapes and encodings.

use indexmap::IndexMap;
use tallow_format::{Encoding, TensorIndex};
use tallow_ir::DType;

/// Which tensors exist, and how large they are. Implemented for the tensor index of a file, and for
/// a map of shapes so that an importer can ask before there is a file.
pub trait TensorShapes: Sync {
    /// The shape of a tensor, row-major; `None` if there is no such tensor.
    fn shape(&self, name: &str) -> Option<Vec<u64>>;

    /// How the tensor is stored; `None` if there is no such tensor or that is not settled yet.
    fn dtype(&self, name: &str) -> Option<DType>;

    /// Every name, in the order of the source.
    fn names(&self) -> Vec<String>;
}

impl TensorShapes for TensorIndex {
    fn shape(&self, name: &str) -> Option<Vec<u64>> {
        self.get(name).map(|t| t.shape.clone())
    }

    fn dtype(&self, name: &str) -> Option<DType> {
        self.get(name).map(|t| dtype_of(t.encoding))
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|t| t.name.clone()).collect()
    }
}

/// Shapes alone: every tensor counts as `f32`.
impl TensorShapes for IndexMap<String, Vec<u64>> {
    fn shape(&self, name: &str) -> Option<Vec<u64>> {
        self.get(name).cloned()
    }

    fn dtype(&self, name: &str) -> Option<DType> {
        self.contains_key(name).then_some(DType::F32)
    }

    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

/// The element type that a graph gives a weight stored in an encoding.
pub fn dtype_of(encoding: Encoding) -> DType {
    match encoding {
        Encoding::U32 => DType::U32,
        Encoding::U16 => DType::U16,
        Encoding::Q8 => DType::Q8,
        Encoding::Q4 => DType::Q4,
        Encoding::Ternary => DType::Ternary,
        Encoding::Q2K => DType::Q2K,
        Encoding::Q3K => DType::Q3K,
        Encoding::Q4K => DType::Q4K,
        Encoding::Q5K => DType::Q5K,
        Encoding::Q6K => DType::Q6K,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_maps_to_the_type_of_its_name() {
        for encoding in Encoding::ALL {
            assert_eq!(dtype_of(encoding).name(), encoding.name());
        }
    }
}
