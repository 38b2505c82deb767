//! What the end-to-end tests share.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "test helpers fail by panicking")]

pub mod cases;
pub mod child;
pub mod one_token;
pub mod page;
pub mod tokenizers;

use std::path::{Path, PathBuf};
use tallow::import::{EncodingChoice, ImportOptions};
use tallow::{Engine, Model, ModelOptions, PackedCache, Tensor, tensor_file};

/// A folder of this repository.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Imports `source` into a new file in `into`.
pub fn import(source: &Path, into: &Path, encoding: &str) -> PathBuf {
    let encoding: EncodingChoice = encoding.parse().unwrap();
    let out = into.join("model.model");
    let options = ImportOptions { encoding, ..ImportOptions::default() };
    tallow::import::import(source, &out, &options, &mut ()).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    out
}

/// Opens a model on an engine with so many threads and so long prompt chunks.
pub fn open(path: &Path, engine: Engine, threads: usize, chunk: usize) -> Model {
    let mut options = ModelOptions::default();
    options.program.engine = engine;
    options.program.threads = threads;
    options.program.chunk = chunk;
    // Nothing is left in the user's cache folder.
    options.program.packed_cache = PackedCache::Off;
    // The goldens' texts are longer than their configs say, as the reference sets no limit.
    options.program.context = Some(4096);
    Model::open_with(path, &options).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The ids of a golden.
pub fn ids(golden: &Path, name: &str) -> Option<Vec<u32>> {
    let tensor = tensor_file::read(golden, name).ok()?;
    Some(tensor.flatten_all().unwrap().to_vec1::<i64>().unwrap().into_iter().map(|i| i as u32).collect())
}

/// The values of a tensor.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// `max|a − b| / max|b|`.
pub fn error(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let top = b.iter().fold(0f32, |m, v| m.max(v.abs()));
    let worst =
        a.iter().zip(b).fold(0f32, |m, (x, y)| if (x - y).is_nan() { f32::INFINITY } else { m.max((x - y).abs()) });
    worst / top
}

/// A real model, imported from `models/real` or the folder that `TALLOW_REAL_MODELS` names, with the
/// folder that holds it; without the file the test says that it was skipped.
pub fn real_model(file: &str) -> Option<(PathBuf, tempfile::TempDir)> {
    let models = std::env::var_os("TALLOW_REAL_MODELS").map_or_else(|| folder("models/real"), PathBuf::from);
    let source = models.join(file);
    if !source.exists() {
        println!("skipped: {} is not there; scripts/real-models.sh fetches it", source.display());
        return None;
    }
    let temporary = tempfile::tempdir().unwrap();
    let model = import(&source, temporary.path(), "auto");
    Some((model, temporary))
}

/// Numbers that are the same in every run.
pub struct Numbers(u64);

impl Numbers {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Values from -2 to 2.
    pub fn values(&mut self, count: usize) -> Vec<f32> {
        let mut next = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 40) as f32 / (1 << 22) as f32 - 2.0
        };
        (0..count).map(|_| next()).collect()
    }
}
