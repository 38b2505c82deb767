//! Encoder-decoders: a graph that runs once over the source, and one that is given its keys and values with the tokens so
//! far.
//!
//! | module | holds |
//! |---|---|
//! | `generation` | how a text is generated, from the settings |
//! | [`speech`] | what hearing needs beside the graphs |
//! | `stack` | the layers of either side |
//! | `text` | from ids to the residual stream |
//! | [`t5`], [`bart`], [`whisper`] | a reader for each type |

pub mod bart;
mod generation;
pub mod speech;
mod stack;
pub mod t5;
mod text;
pub mod whisper;

pub use generation::{GENERATION, IGNORED};
pub use speech::Speech;
pub use stack::{AttentionNames, Relative, Stack, StackNames, StackNorm};
pub use text::{Positions, TextIn};

use super::Build;
use super::decoder::scaled;
use super::parts::Parts;
use crate::program::module::Driver;
use generation::driver;
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
