//! Readers of bart, mbart, marian and m2m_100.

use super::{AttentionNames, EncoderDecoder, Output, Positions, Stack, StackNames, StackNorm, TextIn, driver};
use crate::families::decoder::Activation;
use crate::families::{Build, FamilyError, Settings, TensorShapes};

type Read = Result<Box<dyn Build>, FamilyError>;

/// What distinguishes these types.
struct Kind {
    vocab: u32,
    layers: u32,
    heads: u32,
    width: u32,
    hidden: u32,
    pre_norm: bool,
    embed_norm: bool,
    final_norm: bool,
    positions: Places,
    scales: bool,
    activation: Activation,
    start: Option<u32>,
    /// Whether `final_logits_bias` is added.
    bias: bool,
}

/// Positions of a type.
enum Places {
    /// A table that position 0 enters at row 2.
    Learned,
    /// Sines and cosines from position 0 on, with frequencies `10000^(−2k/d)`.
    Sinusoid,
    /// The same from behind the padding id on, with frequencies `10000^(−k/(d/2 − 1))`.
    SinusoidFromPadding,
}

const BART: Kind = Kind {
    vocab: 50265,
    layers: 12,
    heads: 16,
    width: 4096,
    hidden: 1024,
    pre_norm: false,
    embed_norm: true,
    final_norm: false,
    positions: Places::Learned,
    scales: false,
    activation: Activation::Gelu,
    start: Some(2),
    bias: true,
};

/// bart: norms behind the sums, learned positions from row 2 on, a norm of the embeddings.
pub fn bart(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    read(s, tensors, BART)
}

/// mbart: bart with norms before the branches and behind the last layer.
pub fn mbart(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    read(s, tensors, Kind { pre_norm: true, final_norm: true, start: None, ..BART })
}

/// marian: bart without the norm of the embeddings, with computed positions.
pub fn marian(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let kind = Kind { vocab: 58101, embed_norm: false, positions: Places::Sinusoid, start: Some(58100), ..BART };
    read(s, tensors, kind)
}

/// m2m_100: mbart with computed positions behind the padding id, scaled embeddings and relu.
pub fn m2m_100(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Read {
    let kind = Kind {
        vocab: 128_112,
        pre_norm: true,
        embed_norm: false,
        final_norm: true,
        positions: Places::SinusoidFromPadding,
        scales: true,
        activation: Activation::Relu,
        bias: false,
        ..BART
    };
    read(s, tensors, kind)
}

fn read(s: &mut Settings<'_>, tensors: &dyn TensorShapes, kind: Kind) -> Read {
    let has = |name: &str| tensors.shape(name).is_some();
    // A model saved without its head has no `model.` in its names.
    let p = if has("encoder.layers.0.fc1.weight") { "" } else { "model." };
    let hidden = s.size("d_model", kind.hidden)?;
    let vocab = s.size("vocab_size", kind.vocab)?;
    let longest = s.size("max_position_embeddings", 1024)?;
    let scale = if s.flag("scale_embedding", kind.scales)? { f64::from(hidden).sqrt() as f32 } else { 1.0 };
    let activation = s.activation("activation_function", kind.activation)?;
    let shared_key = "share_encoder_decoder_embeddings";
    if !s.flag(shared_key, true)? {
        return Err(s.unsupported(
            shared_key,
            false,
            "a vocabulary of its own for each side is not built",
            "Use a program for such a model",
        ));
    }
    // Of no meaning where both sides share one table.
    s.optional_size("decoder_vocab_size")?;
    s.flag("tie_word_embeddings", true)?;
    s.flag("is_encoder_decoder", true)?;

    let plan = Plan {
        prefix: p,
        hidden,
        layers: kind.layers,
        heads: kind.heads,
        width: kind.width,
        pre_norm: kind.pre_norm,
        final_norm: kind.final_norm,
        key_bias: true,
        activation,
    };
    let (encoder, decoder) = (plan.stack(s, "enc", "encoder")?, plan.stack(s, "dec", "decoder")?);

    let shared = format!("{p}shared.weight");
    let own = |of: &str| format!("{p}{of}.embed_tokens.weight");
    let separate = !has(&shared) && has(&own("encoder"));
    let text = |s: &Settings<'_>, of: &str| -> Result<TextIn, FamilyError> {
        Ok(TextIn {
            table: if separate { own(of) } else { shared.clone() },
            rows: vocab,
            scale,
            positions: positions(s, &kind, hidden, &format!("{p}{of}.embed_positions.weight"), longest)?,
            norm: kind.embed_norm.then(|| format!("{p}{of}.layernorm_embedding")),
        })
    };
    let (source, target) = (text(s, "encoder")?, text(s, "decoder")?);
    let head = if has("lm_head.weight") { "lm_head.weight".to_owned() } else { target.table.clone() };
    let bias = (kind.bias && has("final_logits_bias")).then(|| ("final_logits_bias".to_owned(), vec![1, vocab]));
    let mut idle = vec![own("encoder"), own("decoder")];
    // Computed here; some files hold them.
    idle.extend(["encoder", "decoder"].map(|of| format!("{p}{of}.embed_positions.weight")));
    Ok(Box::new(EncoderDecoder {
        vocab,
        source,
        target,
        encoder,
        decoder,
        head: Output { tensor: head, bias, scale: 1.0 },
        driver: driver(s, vocab, kind.start, Some(longest))?,
        idle,
    }))
}

/// What both sides of a model of bart's build share; the numbers are those of a missing key.
pub(super) struct Plan {
    /// What names begin with.
    pub prefix: &'static str,
    pub hidden: u32,
    pub layers: u32,
    pub heads: u32,
    pub width: u32,
    pub pre_norm: bool,
    pub final_norm: bool,
    pub key_bias: bool,
    pub activation: Activation,
}

impl Plan {
    /// The layers of a side, `encoder` or `decoder`, with its own numbers of layers and heads and its own width.
    pub(super) fn stack(&self, s: &mut Settings<'_>, side: &'static str, of: &str) -> Result<Stack, FamilyError> {
        let heads_key = format!("{of}_attention_heads");
        let layers = s.layers_under(&format!("{of}_layers"), self.layers)?;
        let heads = s.size(&heads_key, self.heads)?;
        let width = s.size(&format!("{of}_ffn_dim"), self.width)?;
        let head_dim = s.head_dim((&heads_key, heads), ("d_model", self.hidden))?;
        Ok(Stack {
            side,
            layers,
            hidden: self.hidden,
            heads,
            head_dim,
            width,
            norm: StackNorm::Layer { eps: 1e-5 },
            pre_norm: self.pre_norm,
            scale: (1.0 / f64::from(head_dim).sqrt()) as f32,
            bias: true,
            key_bias: self.key_bias,
            gated: false,
            activation: self.activation,
            names: StackNames {
                prefix: format!("{}{of}.layers", self.prefix),
                own: attention_names(true),
                cross: attention_names(false),
                feed_norm: "final_layer_norm",
                up: "fc1",
                gate: "",
                down: "fc2",
            },
            final_norm: self.final_norm.then(|| format!("{}{of}.layer_norm", self.prefix)),
            relative: None,
        })
    }
}

/// Names of an attention in these types: of a side to itself, or of the decoder to the encoder.
const fn attention_names(own: bool) -> AttentionNames {
    match own {
        true => AttentionNames {
            norm: "self_attn_layer_norm",
            q: "self_attn.q_proj",
            k: "self_attn.k_proj",
            v: "self_attn.v_proj",
            out: "self_attn.out_proj",
        },
        false => AttentionNames {
            norm: "encoder_attn_layer_norm",
            q: "encoder_attn.q_proj",
            k: "encoder_attn.k_proj",
            v: "encoder_attn.v_proj",
            out: "encoder_attn.out_proj",
        },
    }
}

fn positions(s: &Settings<'_>, kind: &Kind, hidden: u32, table: &str, longest: u32) -> Result<Positions, FamilyError> {
    let half = hidden / 2;
    let odd =
        || s.unsupported("d_model", hidden, "computed positions are sines and cosines in equal number", "Make it even");
    match kind.positions {
        Places::Learned => Ok(Positions::Learned { table: table.to_owned(), rows: longest + 2, offset: 2 }),
        _ if !hidden.is_multiple_of(2) || half < 2 => Err(odd()),
        Places::Sinusoid => {
            let frequency = |k: u32| 10_000_f64.powf(-2.0 * f64::from(k) / f64::from(hidden)) as f32;
            Ok(Positions::Sinusoid { frequencies: (0..half).map(frequency).collect(), offset: 0 })
        }
        Places::SinusoidFromPadding => {
            let step = 10_000_f64.ln() / f64::from(half - 1);
            let frequency = |k: u32| (-step * f64::from(k)).exp() as f32;
            let padding = s.token_id("pad_token_id")?.unwrap_or(1);
            Ok(Positions::Sinusoid { frequencies: (0..half).map(frequency).collect(), offset: padding + 1 })
        }
    }
}
