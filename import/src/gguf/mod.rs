//! GGUF files, versions 2 and 3, little-endian: metadata and tensor directory, single or in shards.
//!
//! Everything a file declares is checked against the bytes that remain before anything is allocated for it.

mod reader;
mod shards;
mod types;
mod value;

pub(crate) use reader::shortest;
pub use reader::{GgufFile, GgufTensor, MAX_DIMENSIONS};
pub use shards::{Gguf, shard_paths};
pub use types::type_name;
pub use value::{MAX_NESTING, Value, ValueKind};
