//! The `program` section: the pipeline from ids to logits, as source text.

use tallow_format::ProgramFormat;

const DECODER: &str = include_str!("../../programs/decoder.rs");

/// The program that says what a type of model computes, where the program library has one that is right for it.
pub fn for_type(model_type: &str) -> Option<(ProgramFormat, String)> {
    match model_type {
        "llama" | "mistral" | "qwen2" | "qwen3" => Some((ProgramFormat::Rs, DECODER.to_owned())),
        // The norms of gemma, the joined projections of phi3, the factors of granite and the layers without rotation of
        // smollm3 are not in the plain decoder.
        _ => None,
    }
}
