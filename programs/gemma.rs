//! A decoder of the gemma kind (gemma, and the text part of gemma3): one token in, one token out.
//!
//! Beside `decoder.rs`: embeddings are multiplied by √hidden_size, norm weights are stored as w − 1, the
//! feed-forward has the tanh form of gelu, and gemma3 has norms behind both branches too.

use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    let s = &config.sampling;
    // The two types read different keys; gemma means the tanh form by `gelu` too.
    let gemma = config.model_type == "gemma";
    let usual = "gelu_pytorch_tanh";
    let act = if gemma { a.hidden_act.unwrap_or(usual) } else { a.hidden_activation.unwrap_or(usual) };
    let tanh_form = [usual, "gelu_new", "gelu_fast"].contains(&act) || gemma && act == "gelu";
    assert!(tanh_form, "only the tanh form of gelu is written here");

    let ids = tok.encode(text);
    let rows = w.embed("model.embed_tokens", &ids, a.hidden_size);
    let mut h = rows.scale((a.hidden_size as f64).sqrt());
    for i in 0..a.num_hidden_layers {
        let layer = format!("model.layers.{i}");
        // Four norms a layer (gemma3), or two, of which the second stands before the feed-forward.
        let around = w.has(format!("{layer}.pre_feedforward_layernorm"));

        let x = norm(&h, format!("{layer}.input_layernorm"), config, w);
        let mut branch = attention(&x, &layer, config, w);
        if around {
            branch = norm(&branch, format!("{layer}.post_attention_layernorm"), config, w);
        }
        h = h.add(&branch);

        let before = if around { "pre_feedforward_layernorm" } else { "post_attention_layernorm" };
        let x = norm(&h, format!("{layer}.{before}"), config, w);
        let mut branch = feed_forward(&x, &layer, config, w);
        if around {
            branch = norm(&branch, format!("{layer}.post_feedforward_layernorm"), config, w);
        }
        h = h.add(&branch);
    }

    let h = norm(&h, "model.norm", config, w);
    let tied = a.tie_word_embeddings.unwrap_or(true);
    let head = if tied { "model.embed_tokens" } else { "lm_head" };
    let mut logits = w.linear(&h, head, a.vocab_size);
    if let Some(bound) = a.final_logit_softcapping {
        logits = logits.scale(1.0 / bound).tanh().scale(bound);
    }
    let next = logits.last().sample_top_p(s.top_p, s.temperature, s.scale);
    tok.decode(next)
}

/// Root mean square norm whose gain is the stored weight + 1.
fn norm(x: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    let gain = w.get(name).add(1.0);
    x.rms_norm(&gain, config.architecture.rms_norm_eps)
}

/// Attention as the config describes it: norms of q and k where the model has them, the theta and the
/// window of the layer's kind, the scale of the scores, the cache.
fn attention(x: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (heads, kv_heads, size) = (a.num_attention_heads, a.num_key_value_heads, a.head_dim);
    let q = w.linear(x, format!("{layer}.self_attn.q_proj"), heads * size);
    let k = w.linear(x, format!("{layer}.self_attn.k_proj"), kv_heads * size);
    let v = w.linear(x, format!("{layer}.self_attn.v_proj"), kv_heads * size);
    let mixed = Tensor::flash_attention(&q, &k, &v, heads, kv_heads, size);
    w.linear(&mixed, format!("{layer}.self_attn.o_proj"), a.hidden_size)
}

/// down(gelu(gate(x)) · up(x))
fn feed_forward(x: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let gate = w.linear(x, format!("{layer}.mlp.gate_proj"), a.intermediate_size);
    let up = w.linear(x, format!("{layer}.mlp.up_proj"), a.intermediate_size);
    w.linear(&gate.gelu_tanh().mul(&up), format!("{layer}.mlp.down_proj"), a.hidden_size)
}
