//! Speech to text, of the type whisper: up to 30 seconds of sound at 16 kHz; what is longer is cut.
//!
//! The text begins with `decoder_start_token_id` and the ids of `forced_decoder_ids`, a list of pairs
//! `[position, id]` (language, task, no timestamps); `eos_token_id` ends it. No id of `suppress_tokens`
//! is ever taken, and none of `begin_suppress_tokens` as the first one after the forced.

use cyb::nn::{Architecture, Config, Tensor, Tokenizer, Weights};

const EPS: f64 = 1e-5;
/// Samples from one frame of the spectrogram to the next.
const HOP: usize = 160;

pub fn forward(samples: &[f32], config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    assert!(a.activation_function.unwrap_or("gelu") == "gelu", "only the activation gelu is written here");

    let sound = encode(&spectrogram(samples, a), a, w);
    // Keys and values of the sound do not depend on the text: they are made once.
    let mut sounds = vec![];
    for i in 0..a.decoder_layers {
        let part = format!("model.decoder.layers.{i}.encoder_attn");
        let k = w.linear(&sound, format!("{part}.k_proj"), a.d_model);
        let v = w.linear(&sound, format!("{part}.v_proj"), a.d_model);
        sounds.push((k, v));
    }

    let mut tokens = vec![a.decoder_start_token_id];
    for pair in a.forced_decoder_ids.unwrap_or(vec![]) {
        tokens.push(pair[1]);
    }
    let never = a.suppress_tokens.unwrap_or(vec![]);
    let not_first = a.begin_suppress_tokens.unwrap_or(vec![]);
    loop {
        let logits = decode(&tokens, &sounds, a, w).last();
        let next = logits.suppress(&never).suppress_first(&not_first).sample_greedy();
        if next == a.eos_token_id {
            break;
        }
        tokens.push(next);
        if tokens.len() >= a.max_target_positions {
            break;
        }
    }
    tok.decode(&tokens)
}

/// Log-mel features `[1, mels, frames]` of samples that are filled up with silence, or cut, to the length
/// that the encoder takes.
fn spectrogram(samples: &Tensor, a: &Architecture) -> Tensor {
    let length = 2 * a.max_source_positions * HOP;
    let sound = samples.pad([0, length]).slice(0, 0, length);
    Tensor::mel_spectrogram(&sound, a.num_mel_bins).unsqueeze(0)
}

/// Two convolutions, of which the second halves the frames, and layers: features to `[T, D]`.
fn encode(features: &Tensor, a: &Architecture, w: &Weights) -> Tensor {
    let heads = a.encoder_attention_heads;
    let x = w.conv1d(features, "model.encoder.conv1", a.d_model, 3, 1, 1).gelu();
    let x = w.conv1d(&x, "model.encoder.conv2", a.d_model, 3, 2, 1).gelu();
    let mut h = x.squeeze(0).transpose().add(&w.get("model.encoder.embed_positions"));
    for i in 0..a.encoder_layers {
        let layer = format!("model.encoder.layers.{i}");
        let x = w.layernorm(&h, format!("{layer}.self_attn_layer_norm"), EPS);
        let (q, k, v) = projections(&x, &layer, a, w);
        let mixed = Tensor::attention(&q, &k, &v, heads, a.d_model / heads);
        h = h.add(&w.linear(&mixed, format!("{layer}.self_attn.out_proj"), a.d_model));
        h = h.add(&feed_forward(&h, &layer, a.encoder_ffn_dim, a, w));
    }
    w.layernorm(&h, "model.encoder.layer_norm", EPS)
}

/// Logits `[S, vocab]` of tokens that hear `sounds`, keys and values for each layer.
fn decode(tokens: &Tensor, sounds: &[(Tensor, Tensor)], a: &Architecture, w: &Weights) -> Tensor {
    let (heads, size) = (a.decoder_attention_heads, a.d_model / a.decoder_attention_heads);
    let words = w.embed("model.decoder.embed_tokens", tokens, a.d_model);
    let mut h = words.add(&w.embed_positions("model.decoder.embed_positions", tokens));
    for i in 0..a.decoder_layers {
        let layer = format!("model.decoder.layers.{i}");
        let x = w.layernorm(&h, format!("{layer}.self_attn_layer_norm"), EPS);
        let (q, k, v) = projections(&x, &layer, a, w);
        let mixed = Tensor::causal_attention(&q, &k, &v, heads, size);
        h = h.add(&w.linear(&mixed, format!("{layer}.self_attn.out_proj"), a.d_model));

        let x = w.layernorm(&h, format!("{layer}.encoder_attn_layer_norm"), EPS);
        let q = w.linear(&x, format!("{layer}.encoder_attn.q_proj"), a.d_model);
        let (k, v) = &sounds[i];
        let heard = Tensor::attention(&q, k, v, heads, size);
        h = h.add(&w.linear(&heard, format!("{layer}.encoder_attn.out_proj"), a.d_model));
        h = h.add(&feed_forward(&h, &layer, a.decoder_ffn_dim, a, w));
    }
    let h = w.layernorm(&h, "model.decoder.layer_norm", EPS);
    let head = if w.has("proj_out") { "proj_out" } else { "model.decoder.embed_tokens" };
    w.linear(&h, head, a.vocab_size)
}

/// Queries, keys and values of a layer's attention to itself. Keys have no bias.
fn projections(x: &Tensor, layer: &str, a: &Architecture, w: &Weights) -> (Tensor, Tensor, Tensor) {
    let project = |part: &str| w.linear(x, format!("{layer}.self_attn.{part}_proj"), a.d_model);
    (project("q"), project("k"), project("v"))
}

/// What the feed-forward of a layer adds to `h`.
fn feed_forward(h: &Tensor, layer: &str, width: usize, a: &Architecture, w: &Weights) -> Tensor {
    let x = w.layernorm(h, format!("{layer}.final_layer_norm"), EPS);
    let wide = w.linear(&x, format!("{layer}.fc1"), width).gelu();
    w.linear(&wide, format!("{layer}.fc2"), a.d_model)
}
