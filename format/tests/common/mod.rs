//! A tiny model for the tests of this crate.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use tallow_format::{Encoding, ModelParts, ModelWriter, ProgramFormat, TensorPlan};

pub const CONFIG: &str = "model_type = \"qwen3\" # dispatch\n\n[architecture]\nhidden_size = 8\nnum_attention_heads = 2\nnum_key_value_heads = 1\nnum_hidden_layers = 1\nvocab_size = 4\nrope_theta = 10000\nrms_norm_eps = 1e-6\n\n[tokenizer]\ntype = \"bpe\"\neos_token_ids = [1]\neos_token = \"</s>\"\n\n[sampling]\ntemperature = 0.7\ntop_p = 0.9\n";

pub const VOCAB: &str = "[tokens]\n0 = \"a\"\n1 = \"b\"\n2 = \"</s>\"\n3 = \"ab\"\n\n[merges]\n0 = [\"a\", \"b\"]\n";

pub fn parts() -> ModelParts {
    ModelParts {
        name: "tiny".into(),
        card: "# Tiny\n\n~~~sh\nls\n~~~".into(),
        config: CONFIG.into(),
        program: Some((ProgramFormat::Rs, "fn forward() {}\n".into())),
        graph: None,
        chat: Some("format = \"chatml\"\n".into()),
        vocab: VOCAB.into(),
        eval: String::new(),
    }
}

/// Names, shapes and values of the tensors.
pub fn tensors() -> Vec<(&'static str, Vec<u64>, Vec<f32>)> {
    let values = |n: usize, seed: usize| (0..n).map(|i| ((i * 7 + seed) % 13) as f32 / 4.0 - 1.5).collect();
    vec![
        ("model.embed_tokens.weight", vec![4, 8], values(32, 1)),
        ("model.layers.0.self_attn.q_proj.weight", vec![8, 8], values(64, 2)),
        ("model.layers.0.self_attn.k_proj.weight", vec![4, 8], values(32, 3)),
        ("model.layers.0.mlp.up_proj.weight", vec![2, 64], values(128, 4)),
        ("model.norm.weight", vec![8], values(8, 5)),
    ]
}

pub fn plan() -> Vec<TensorPlan> {
    let plan = |(name, shape, _): (&str, Vec<u64>, Vec<f32>)| {
        let wide = shape.last().is_some_and(|n| n % 32 == 0);
        TensorPlan {
            name: name.into(),
            shape,
            candidates: if wide { vec![Encoding::Q8, Encoding::U32] } else { vec![Encoding::U32] },
        }
    };
    tensors().into_iter().map(plan).collect()
}

/// Writes the tiny model, its wide matrix in `q8`.
pub fn write_model(path: &Path, parts: ModelParts) {
    let mut writer = ModelWriter::create(path, parts, plan()).unwrap();
    for (name, shape, values) in tensors() {
        let encoding = if shape[shape.len() - 1] % 32 == 0 { Encoding::Q8 } else { Encoding::U32 };
        let mut bytes = Vec::new();
        encoding.encode(&values, &mut bytes).unwrap();
        writer.begin(name, encoding).unwrap();
        for chunk in bytes.chunks(17) {
            writer.write(chunk).unwrap();
        }
    }
    writer.finish().unwrap();
}

/// A folder with `tiny.model` in it.
pub fn tiny() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.model");
    write_model(&path, parts());
    (folder, path)
}

/// The names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// Where `needle` begins.
pub fn find(bytes: &[u8], needle: &str) -> usize {
    bytes.windows(needle.len()).position(|w| w == needle.as_bytes()).unwrap()
}

/// Replaces the first `from` by `to` in a file that holds binary bytes.
pub fn patch(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let at = find(bytes, from);
    [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
}
