//! Encoder-decoders: a graph that runs once over the source, and one that is given its keys and values with the tokens so
//! far.
//!
//! | module | holds |
//! |---|---|
//! | [`speech`] | what hearing needs beside the graphs |
//! | `stack` | the layers of either side |
//! | `text` | from ids to the residual stream |
//! | [`t5`], [`bart`], [`whisper`] | a reader for each type |

pub mod bart;
pub mod speech;
mod stack;
pub mod t5;
mod text;
pub mod whisper;

pub use speech::Speech;
pub use stack::{AttentionNames, Relative, Stack, StackNames, StackNorm};
pub use text::{Positions, TextIn};

use super::decoder::scaled;
use super::parts::Parts;
use super::{Build, FamilyError, Settings};
use crate::program::module::{Driver, Sampling, Start};
use tallow_ir::{Dim, IrError, Op, SEQUENCE, Shape, TensorType, Value};

/// Rows that the encoder gives.
const SOURCE: &str = "T";

/// Text to text.
#[derive(Clone, Debug)]
pub struct EncoderDecoder {
    /// Rows of the head.
    pub vocab: u32,
    /// From source ids to the encoder.
    pub source: TextIn,
    /// From target ids to the decoder.
    pub target: TextIn,
    /// The encoder.
    pub encoder: Stack,
    /// The decoder.
    pub decoder: Stack,
    /// From the decoder to logits.
    pub head: Output,
    /// How tokens are generated.
    pub driver: Driver,
    /// Tensors that files hold beside these and that say nothing.
    pub idle: Vec<String>,
}

/// From the decoder to logits.
#[derive(Clone, Debug)]
pub struct Output {
    /// The matrix, `[vocab, hidden]`.
    pub tensor: String,
    /// Added to logits: the name and its shape.
    pub bias: Option<(String, Vec<u32>)>,
    /// What comes out of the decoder is multiplied by this.
    pub scale: f32,
}

impl Build for EncoderDecoder {
    fn once(&self, parts: &mut Parts<'_>) -> Result<bool, IrError> {
        let ids = parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
        let h = self.source.embed(parts, ids, &self.encoder, false)?;
        let h = self.encoder.layers(parts, h, None)?;
        self.decoder.put_cross(parts, h)?;
        Ok(true)
    }

    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        self.idle.iter().for_each(|name| parts.pass_over(name));
        let ids = parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
        let cross = self.decoder.take_cross(parts, &Dim::symbol(SOURCE))?;
        let h = self.target.embed(parts, ids, &self.decoder, true)?;
        let h = self.decoder.layers(parts, h, Some(&cross))?;
        logits(parts, h, &self.head, self.vocab, self.decoder.hidden)
    }

    fn driver(&self) -> Option<Driver> {
        Some(self.driver.clone())
    }
}

/// The output `logits` from the rows `h` of a decoder.
fn logits(parts: &mut Parts<'_>, h: Value, head: &Output, vocab: u32, hidden: u32) -> Result<(), IrError> {
    let h = scaled(&mut parts.graph, h, head.scale)?;
    let matrix = parts.weight(&head.tensor, &[vocab, hidden])?;
    let mut logits = parts.graph.op(Op::Matmul, &[h, matrix])?;
    if let Some((name, shape)) = &head.bias {
        let mut bias = parts.weight(name, shape)?;
        if shape.len() > 1 {
            bias = parts.graph.op(Op::Reshape { shape: vec![-1] }, &[bias])?;
        }
        logits = parts.graph.op(Op::Add, &[logits, bias])?;
    }
    parts.graph.name(logits, "logits");
    parts.graph.output("logits", logits)
}

/// A generation that begins with `decoder_start_token_id`, and `forced_bos_token_id` where that is set.
fn driver(s: &Settings<'_>, start: Option<u32>, total: Option<u32>) -> Result<Driver, FamilyError> {
    let Some(first) = s.token_id("decoder_start_token_id")?.or(start) else {
        return Err(s.bad(
            "decoder_start_token_id",
            "nothing",
            "the decoder begins with it, and this type has no default",
            "Add it",
        ));
    };
    // It ends a text at its limit, where ours ends by itself.
    s.token_id("forced_eos_token_id")?;
    let ids = [Some(first), s.token_id("forced_bos_token_id")?].into_iter().flatten().collect();
    let suppress = |key: &str| -> Result<Vec<u32>, FamilyError> {
        let list = s.integers(key)?.unwrap_or_default();
        Ok(list.into_iter().filter_map(|n| u32::try_from(n).ok()).collect())
    };
    Ok(Driver {
        start: Start::Ids(ids),
        sampling: Sampling::greedy(),
        suppress: suppress("suppress_tokens")?,
        suppress_first: suppress("begin_suppress_tokens")?,
        stop: Vec::new(),
        limit: None,
        total: total.map(|n| n as usize),
    })
}
