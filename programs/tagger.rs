//! An audio tagger: the Audio Spectrogram Transformer. Every label has a probability of its own, since
//! several things may sound at once; the result are the `top_k` likeliest (5 if the config says nothing).
//!
//! `features` are the normalised log-mel features `[max_length, num_mel_bins]` of the model's own extractor,
//! which takes the mean from each frame and sharpens it before the transform.

use cyb::nn::{Config, Tensor, Weights};

const BASE: &str = "audio_spectrogram_transformer";

pub fn forward(features: &Tensor, config: &Config, w: &Weights) -> (Vec<f32>, Vec<u32>) {
    let a = &config.architecture;
    assert!(a.hidden_act.unwrap_or("gelu") == "gelu", "only the activation gelu is written here");

    let mut h = embed(features, config, w);
    for i in 0..a.num_hidden_layers {
        let layer = format!("{BASE}.encoder.layer.{i}");
        h = h.add(&attention(&h, &layer, config, w));
        h = h.add(&feed_forward(&h, &layer, config, w));
    }
    let h = w.layernorm(&h, format!("{BASE}.layernorm"), a.layer_norm_eps);

    // The first two tokens stand for the whole.
    let pooled = h.slice(0, 0, 2).mean(0);
    let x = w.layernorm(&pooled, "classifier.layernorm", a.layer_norm_eps);
    let labels = w.shape("classifier.dense")[0];
    let scores = w.linear(&x, "classifier.dense", labels).sigmoid();
    scores.topk(a.top_k.unwrap_or(5).min(labels))
}

/// Overlapping patches of the spectrogram, low frequencies first, behind a token for the class and one of
/// the teacher: `[tokens, D]`.
fn embed(features: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let part = |name: &str| format!("{BASE}.embeddings.{name}");
    let picture = features.reshape([a.max_length, a.num_mel_bins]).transpose().reshape([1, 1, a.num_mel_bins, a.max_length]);
    let strides = [a.frequency_stride, a.time_stride];
    let patches = w.conv2d(&picture, part("patch_embeddings.projection"), a.hidden_size, a.patch_size, strides, 0);
    let class = w.get(part("cls_token"));
    let teacher = w.get(part("distillation_token"));
    let tokens = Tensor::concat(&[class, teacher, patches.flatten_patches()], 1);
    tokens.add(&w.get(part("position_embeddings"))).squeeze(0)
}

fn attention(h: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (heads, hidden) = (a.num_attention_heads, a.hidden_size);
    let x = w.layernorm(h, format!("{layer}.layernorm_before"), a.layer_norm_eps);
    let q = w.linear(&x, format!("{layer}.attention.attention.query"), hidden);
    let k = w.linear(&x, format!("{layer}.attention.attention.key"), hidden);
    let v = w.linear(&x, format!("{layer}.attention.attention.value"), hidden);
    let mixed = Tensor::attention(&q, &k, &v, heads, hidden / heads);
    w.linear(&mixed, format!("{layer}.attention.output.dense"), hidden)
}

fn feed_forward(h: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let x = w.layernorm(h, format!("{layer}.layernorm_after"), a.layer_norm_eps);
    let wide = w.linear(&x, format!("{layer}.intermediate.dense"), a.intermediate_size).gelu();
    w.linear(&wide, format!("{layer}.output.dense"), a.hidden_size)
}
