//! Families: the operations that each type and each switch leaves in the graph, and the errors.
//!
//! Numbers are proved elsewhere, against logits of the reference; here it is the structure.

#![allow(clippy::unwrap_used, reason = "test helpers fail by panicking")]

mod encoder;
mod errors;
mod experts;
mod gemma;
mod gemma4;
mod llama;
mod others;
mod rope;
mod seq2seq;
mod tiny;
mod vision;
mod vision_language;
