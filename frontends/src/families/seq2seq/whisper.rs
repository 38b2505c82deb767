//! The reader of whisper: sound to text.

use super::bart::attention_names;
use super::{Output, Positions, SOURCE, Stack, StackNames, StackNorm, TextIn, driver, logits};
use crate::families::decoder::Activation;
use crate::families::parts::{Built, Parts};
use crate::families::{Build, FamilyError, Settings, TensorShapes};
use crate::program::module::Driver;
use tallow_ir::ops::{MelLog, MelScale};
use tallow_ir::{Dim, IrError, Op, SEQUENCE, Shape, TensorType};

/// Samples of a second.
pub const SAMPLE_RATE: u32 = 16_000;
/// Samples from one frame of the spectrogram to the next.
pub const HOP: u32 = 160;
/// Samples of a frame.
const FFT: u32 = 400;

/// Sound to text (Radford et al. 2022): the encoder takes `samples`, as many as it has positions for.
#[derive(Clone, Debug)]
pub struct Whisper {
    vocab: u32,
    mels: u32,
    positions: u32,
    prefix: &'static str,
    encoder: Stack,
    decoder: Stack,
    target: TextIn,
    head: Output,
    driver: Driver,
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
    let mut stack = |side: &'static str, of: &str| -> Result<Stack, FamilyError> {
        let layers = s.layers_under(&format!("{of}_layers"), 4)?;
        let heads = s.size(&format!("{of}_attention_heads"), 6)?;
        let width = s.size(&format!("{of}_ffn_dim"), 1536)?;
        let head_dim = s.head_dim((&format!("{of}_attention_heads"), heads), ("d_model", hidden))?;
        Ok(Stack {
            side,
            layers,
            hidden,
            heads,
            head_dim,
            width,
            norm: StackNorm::Layer { eps: 1e-5 },
            pre_norm: true,
            scale: (1.0 / f64::from(head_dim).sqrt()) as f32,
            bias: true,
            key_bias: false,
            gated: false,
            activation,
            names: StackNames {
                prefix: format!("{prefix}{of}.layers"),
                own: attention_names(true),
                cross: attention_names(false),
                feed_norm: "final_layer_norm",
                up: "fc1",
                gate: "",
                down: "fc2",
            },
            final_norm: Some(format!("{prefix}{of}.layer_norm")),
            relative: None,
        })
    };
    let (encoder, decoder) = (stack("enc", "encoder")?, stack("dec", "decoder")?);
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
    let mut driver = driver(s, Some(50_257), Some(longest))?;
    if let crate::program::module::Start::Ids(ids) = &mut driver.start {
        ids.extend(s.pairs("forced_decoder_ids")?.into_iter().map(|(_, id)| id));
    }
    for key in ["lang_to_id", "task_to_id"] {
        if let Some(table) = s.table(key)? {
            s.absorb_all(table);
        }
    }
    for key in ["no_timestamps_token_id", "max_initial_timestamp_index"] {
        s.token_id(key)?;
    }
    s.flag("is_multilingual", true)?;
    let head = Output { tensor: head, bias: None, scale: 1.0 };
    Ok(Box::new(Whisper { vocab, mels, positions, prefix, encoder, decoder, target, head, driver }))
}

/// Positions of the encoder: ten minutes.
const MOST_POSITIONS: u32 = 30_000;

impl Whisper {
    /// Samples to `[positions, hidden]`: the log-mel spectrogram, and two convolutions, of which the second halves the frames.
    fn hear(&self, parts: &mut Parts<'_>) -> Built {
        let samples = i64::from(2 * self.positions * HOP);
        let samples = parts.graph.input("samples", TensorType::f32(Shape::fixed(&[samples])))?;
        let mel = Op::LogMel {
            sample_rate: SAMPLE_RATE,
            fft: FFT,
            hop: HOP,
            mels: self.mels,
            low: 0.0.into(),
            high: 8000.0.into(),
            scale: MelScale::Slaney,
            log: MelLog::Whisper,
        };
        let mel = parts.op(mel, &[samples], "mel")?;
        let mut x = parts.graph.op(Op::Unsqueeze { axes: vec![0] }, &[mel])?;
        let hidden = self.encoder.hidden;
        for (name, channels, stride) in [("conv1", self.mels, 1), ("conv2", hidden, 2)] {
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
}
