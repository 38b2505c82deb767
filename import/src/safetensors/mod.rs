//! Safetensors files, single or in shards with a `model.safetensors.index.json`.

mod folder;
mod header;

pub(crate) use folder::with_suffix as folder_files;
pub use folder::{WeightFiles, find_weights};
pub use header::{DType, MAX_HEADER, SafeTensor, SafetensorsFile};
