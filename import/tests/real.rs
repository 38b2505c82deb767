//! Real GGUF models, where a folder of them is at hand: `TALLOW_REAL_MODELS`, else `models/real`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first surprise")]

mod common;

use std::path::{Path, PathBuf};

use common::imported;
use tallow_import::EncodingChoice;

fn model(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TALLOW_REAL_MODELS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/real"), PathBuf::from);
    let path = folder.join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: {} is not there; set TALLOW_REAL_MODELS to a folder that holds it", path.display());
    None
}

#[test]
fn qwen2_5_coder() {
    let Some(path) = model("qwen2.5-coder-0.5b.gguf") else {
        return;
    };
    let (report, model) = imported(&path, EncodingChoice::Auto);
    assert_eq!((report.model_type.as_str(), report.tensors.len()), ("qwen2", 291));
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    assert_eq!(model.config().end_ids().unwrap(), [151645, 151643]);
    let worst = report.tensors.iter().map(|t| t.relative_error).fold(0.0, f64::max);
    assert!(worst < 0.01, "{worst}");
    assert!(report.totals.encodings.keys().all(|e| ["q8", "u32", "q6k", "q4k"].contains(&e.as_str())));
    let vocab = model.vocab().unwrap();
    assert_eq!((vocab.len(), vocab.merges.len()), (151665, 151387));
    assert!(model.chat().unwrap().template.as_ref().unwrap().contains("<|im_start|>"));
}

#[test]
fn gemma3_270m() {
    let Some(path) = model("gemma3-270m-q4_k_m.gguf") else {
        return;
    };
    let (report, model) = imported(&path, EncodingChoice::Auto);
    assert_eq!((report.model_type.as_str(), report.tensors.len()), ("gemma3", 236));
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let vocab = model.vocab().unwrap();
    assert_eq!(vocab.len(), 262_144);
    assert_eq!(vocab.merges.len(), 513_511);
    assert_eq!(vocab.merges.get(0), Some(("▁", "t")));
    // Runs of newlines and spaces are matched verbatim and are not special.
    let newline = vocab.added.iter().find(|t| t.text == "\n\n").unwrap();
    assert!(!newline.special && newline.id == 108);
    assert_eq!(model.config().end_ids().unwrap(), [1, 106]);
    assert_eq!(model.config().architecture().f64("rope_theta_full").unwrap(), Some(1e6));
}
