//! Readers of t5 and mt5.

use super::{
    AttentionNames, EncoderDecoder, Output, Positions, Relative, Stack, StackNames, StackNorm, TextIn, driver,
};
use crate::families::decoder::Activation;
use crate::families::{Build, FamilyError, Settings, TensorShapes};

/// t5: root-mean-square norms before the branches, a bias by distance instead of positions, scores as they are.
pub fn t5(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    let tied = s.flag("tie_word_embeddings", true)?;
    let scales = s.flag("scale_decoder_outputs", tied)?;
    let defaults = Defaults { vocab: 32128, width: 2048, layers: 6, heads: 8, feed_forward: "relu", start: None };
    read(s, tensors, defaults, scales)
}

/// mt5: t5 with a gated feed-forward and a head of its own, before which nothing is scaled.
pub fn mt5(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    s.flag("tie_word_embeddings", false)?;
    s.flag("scale_decoder_outputs", false)?;
    let defaults =
        Defaults { vocab: 250_112, width: 1024, layers: 8, heads: 6, feed_forward: "gated-gelu", start: Some(0) };
    read(s, tensors, defaults, false)
}

struct Defaults {
    vocab: u32,
    width: u32,
    layers: u32,
    heads: u32,
    feed_forward: &'static str,
    start: Option<u32>,
}

fn read(
    s: &mut Settings<'_>,
    tensors: &dyn TensorShapes,
    defaults: Defaults,
    scales: bool,
) -> Result<Box<dyn Build>, FamilyError> {
    let hidden = s.size("d_model", 512)?;
    let vocab = s.size("vocab_size", defaults.vocab)?;
    let layers = s.layers_under("num_layers", defaults.layers)?;
    let decoder_layers = s.layers_under("num_decoder_layers", layers)?;
    let (heads, head_dim) = (s.size("num_heads", defaults.heads)?, s.size("d_kv", 64)?);
    let width = s.size("d_ff", defaults.width)?;
    let buckets = s.size("relative_attention_num_buckets", 32)?;
    let farthest = s.size("relative_attention_max_distance", 128)?;
    if buckets < 4 || farthest <= buckets {
        return Err(s.bad(
            "relative_attention_num_buckets",
            buckets,
            format!("expected at least 4, and fewer than `relative_attention_max_distance` = {farthest}"),
            "Correct one of them",
        ));
    }
    let (gated, activation) = feed_forward(s, defaults.feed_forward)?;
    // Newer files say the same by keys of their own, which win.
    let gated = s.flag("is_gated_act", gated)?;
    let activation = s.activation("dense_act_fn", activation)?;
    let eps = s.epsilon("layer_norm_epsilon", 1e-6)?;

    let stack = |side: &'static str, of: &str, layers: u32| {
        let decodes = side == "dec";
        let attention = |own: bool| AttentionNames {
            norm: if own { "layer.0.layer_norm" } else { "layer.1.layer_norm" },
            q: if own { "layer.0.SelfAttention.q" } else { "layer.1.EncDecAttention.q" },
            k: if own { "layer.0.SelfAttention.k" } else { "layer.1.EncDecAttention.k" },
            v: if own { "layer.0.SelfAttention.v" } else { "layer.1.EncDecAttention.v" },
            out: if own { "layer.0.SelfAttention.o" } else { "layer.1.EncDecAttention.o" },
        };
        let feed = |encodes: &'static str, decodes_as: &'static str| if decodes { decodes_as } else { encodes };
        Stack {
            side,
            layers,
            hidden,
            heads,
            head_dim,
            width,
            norm: StackNorm::Rms { eps },
            pre_norm: true,
            scale: 1.0,
            bias: false,
            key_bias: false,
            gated,
            activation,
            names: StackNames {
                prefix: format!("{of}.block"),
                own: attention(true),
                cross: attention(false),
                feed_norm: feed("layer.1.layer_norm", "layer.2.layer_norm"),
                up: match gated {
                    true => feed("layer.1.DenseReluDense.wi_1", "layer.2.DenseReluDense.wi_1"),
                    false => feed("layer.1.DenseReluDense.wi", "layer.2.DenseReluDense.wi"),
                },
                gate: feed("layer.1.DenseReluDense.wi_0", "layer.2.DenseReluDense.wi_0"),
                down: feed("layer.1.DenseReluDense.wo", "layer.2.DenseReluDense.wo"),
            },
            final_norm: Some(format!("{of}.final_layer_norm")),
            relative: Some(Relative {
                tensor: format!("{of}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
                buckets,
                farthest,
                both_ways: !decodes,
            }),
        }
    };
    let text =
        TextIn { table: "shared.weight".into(), rows: vocab, scale: 1.0, positions: Positions::None, norm: None };
    let own_head = tensors.shape("lm_head.weight").is_some();
    let head = if own_head { "lm_head.weight" } else { "shared.weight" };
    let scale = if scales { (f64::from(hidden).powf(-0.5)) as f32 } else { 1.0 };
    let same = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    let idle = same.into_iter().chain(["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"]);
    Ok(Box::new(EncoderDecoder {
        vocab,
        source: text.clone(),
        target: text,
        encoder: stack("enc", "encoder", layers),
        decoder: stack("dec", "decoder", decoder_layers),
        head: Output { tensor: head.into(), bias: None, scale },
        driver: driver(s, vocab, defaults.start, None)?,
        idle: idle.map(str::to_owned).collect(),
    }))
}

/// Gating and activation from `feed_forward_proj`: an activation, or `gated-` and one; `gated-gelu` means the tanh form.
fn feed_forward(s: &Settings<'_>, default: &str) -> Result<(bool, Activation), FamilyError> {
    let key = "feed_forward_proj";
    let text = s.text(key)?.unwrap_or_else(|| default.to_owned());
    let (gated, name) = match text.strip_prefix("gated-") {
        Some("gelu") => (true, "gelu_new"),
        Some(name) => (true, name),
        None => (false, text.as_str()),
    };
    match Activation::from_name(name) {
        Some(activation) => Ok((gated, activation)),
        None => Err(s.unsupported(
            key,
            format!("\"{}\"", text.chars().take(60).collect::<String>()),
            "expected an activation, or `gated-` and one, as in relu and gated-gelu",
            "Use a program for another one",
        )),
    }
}
