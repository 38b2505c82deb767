//! The reader of whisper: sound to text.

use super::bart::Plan;
use super::speech::Speech;
use super::{Output, Positions, SOURCE, Stack, TextIn, driver, logits};
use crate::families::decoder::Activation;
use crate::families::parts::{Built, Parts};
use crate::families::{Build, FamilyError, Settings, TensorShapes};
use crate::program::module::{Driver, Start};
use tallow_ir::{Dim, IrError, Op, SEQUENCE, Shape, TensorType};

/// Sound to text (Radford et al. 2022): the encoder takes `input_features` `[mels, 2 · positions]`, which the graph of
/// [`Speech::front_end`] makes of samples.
#[derive(Clone, Debug)]
pub struct Whisper {
    vocab: u32,
    positions: u32,
    prefix: &'static str,
    encoder: Stack,
    decoder: Stack,
    target: TextIn,
    head: Output,
    driver: Driver,
    speech: Speech,
}

/// whisper: two convolutions before the encoder, norms before the branches, keys without bias.
pub fn whisper(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    let has = |name: &str| tensors.shape(name).is_some();
    let prefix = if has("encoder.conv1.weight") { "" } else { "model." };
    let hidden = s.size("d_model", 384)?;
    let vocab = s.size("vocab_size", 51_865)?;
    let mels = s.size("num_mel_bins", 80)?;
    let positions = s.size("max_source_positions", 1500)?;
    let longest = s.size("max_target_positions", 448)?;
    let activation = s.activation("activation_function", Activation::Gelu)?;
    // The reference scales nothing, whatever this says.
    s.flag("scale_embedding", false)?;
    s.flag("tie_word_embeddings", true)?;
    s.flag("is_encoder_decoder", true)?;
    if positions > MOST_POSITIONS {
        return Err(s.bad(
            "max_source_positions",
            positions,
            format!("at most {MOST_POSITIONS} are built"),
            "Correct it",
        ));
    }
    let plan = Plan {
        prefix,
        hidden,
        layers: 4,
        heads: 6,
        width: 1536,
        pre_norm: true,
        final_norm: true,
        key_bias: false,
        activation,
    };
    let (encoder, decoder) = (plan.stack(s, "enc", "encoder")?, plan.stack(s, "dec", "decoder")?);
    let table = format!("{prefix}decoder.embed_tokens.weight");
    let head = if has("proj_out.weight") { "proj_out.weight".to_owned() } else { table.clone() };
    let learned = format!("{prefix}decoder.embed_positions.weight");
    let target = TextIn {
        table,
        rows: vocab,
        scale: 1.0,
        positions: Positions::Learned { table: learned, rows: longest, offset: 0 },
        norm: None,
    };
    let mut driver = driver(s, vocab, Some(50_257), Some(longest))?;
    let start = match &driver.start {
        Start::Ids(ids) => ids.first().copied().unwrap_or_default(),
        Start::Prompt => 0,
    };
    let speech = Speech::read(s, mels, 2 * positions, start)?;
    // Beside sound alone, what old configs force; a language that is to be found out is left out.
    if let Start::Ids(ids) = &mut driver.start {
        ids.extend(speech.forced.iter().flatten());
    }
    let head = Output { tensor: head, bias: None, scale: 1.0 };
    Ok(Box::new(Whisper { vocab, positions, prefix, encoder, decoder, target, head, driver, speech }))
}

/// Positions of the encoder: ten minutes.
const MOST_POSITIONS: u32 = 30_000;

impl Whisper {
    /// Features to `[positions, hidden]`: two convolutions, of which the second halves the frames.
    fn hear(&self, parts: &mut Parts<'_>) -> Built {
        let size = [self.speech.mels, self.speech.frames].map(i64::from);
        let mel = parts.graph.input("input_features", TensorType::f32(Shape::fixed(&size)))?;
        let mut x = parts.graph.op(Op::Unsqueeze { axes: vec![0] }, &[mel])?;
        let hidden = self.encoder.hidden;
        for (name, channels, stride) in [("conv1", self.speech.mels, 1), ("conv2", hidden, 2)] {
            let name = format!("{}encoder.{name}", self.prefix);
            let w = parts.weight(&format!("{name}.weight"), &[hidden, channels, 3])?;
            let b = parts.weight(&format!("{name}.bias"), &[hidden])?;
            let conv = Op::Conv1d { kernel: 3, stride, padding: 1, dilation: 1, groups: 1 };
            x = parts.graph.op(conv, &[x, w, b])?;
            // The erf form, whatever the config's activation.
            x = parts.graph.op(Op::Gelu { approximate: false }, &[x])?;
        }
        let x = parts.graph.op(Op::Squeeze { axes: vec![0] }, &[x])?;
        let x = parts.graph.op(Op::Transpose { perm: vec![1, 0] }, &[x])?;
        let at = parts.weight(&format!("{}encoder.embed_positions.weight", self.prefix), &[self.positions, hidden])?;
        parts.op(Op::Add, &[x, at], "enc_embed")
    }
}

impl Build for Whisper {
    fn once(&self, parts: &mut Parts<'_>) -> Result<bool, IrError> {
        let h = self.hear(parts)?;
        let h = self.encoder.layers(parts, h, None)?;
        self.decoder.put_cross(parts, h)?;
        Ok(true)
    }

    fn build(&self, parts: &mut Parts<'_>) -> Result<(), IrError> {
        let ids = parts.graph.input("input_ids", TensorType::i64(Shape::new([Dim::symbol(SEQUENCE)])))?;
        let cross = self.decoder.take_cross(parts, &Dim::symbol(SOURCE))?;
        let h = self.target.embed(parts, ids, &self.decoder, true)?;
        let h = self.decoder.layers(parts, h, Some(&cross))?;
        logits(parts, h, &self.head, self.vocab, self.decoder.hidden)
    }

    fn driver(&self) -> Option<Driver> {
        Some(self.driver.clone())
    }

    fn speech(&self) -> Option<Speech> {
        Some(self.speech.clone())
    }
}
