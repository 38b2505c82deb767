//! A decoder of the llama kind: one token in, one token out. Every number comes from the config.

use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    let s = &config.sampling;
    let ids = tok.encode(text);

    let mut h = w.embed("model.embed_tokens", &ids, a.hidden_size);
    for i in 0..a.num_hidden_layers {
        let layer = format!("model.layers.{i}");
        h = h.add(&attention(&h, &layer, config, w));
        h = h.add(&feed_forward(&h, &layer, config, w));
    }

    let h = w.rmsnorm(&h, "model.norm", a.rms_norm_eps);
    let head = if a.tie_word_embeddings { "model.embed_tokens" } else { "lm_head" };
    let logits = w.linear(&h, head, a.vocab_size);
    let next = logits.last().sample_top_p(s.top_p, s.temperature, s.scale);
    tok.decode(next)
}

/// Attention as the config describes it: norms of q and k where the model has them, rotation, cache, window.
fn attention(h: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (heads, kv_heads, size) = (a.num_attention_heads, a.num_key_value_heads, a.head_dim);
    let x = w.rmsnorm(h, format!("{layer}.input_layernorm"), a.rms_norm_eps);
    let q = w.linear(&x, format!("{layer}.self_attn.q_proj"), heads * size);
    let k = w.linear(&x, format!("{layer}.self_attn.k_proj"), kv_heads * size);
    let v = w.linear(&x, format!("{layer}.self_attn.v_proj"), kv_heads * size);
    let mixed = Tensor::flash_attention(&q, &k, &v, heads, kv_heads, size);
    w.linear(&mixed, format!("{layer}.self_attn.o_proj"), a.hidden_size)
}

/// down(act(gate(x)) · up(x)), with the activation of the config.
fn feed_forward(h: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let x = w.rmsnorm(h, format!("{layer}.post_attention_layernorm"), a.rms_norm_eps);
    let gate = w.linear(&x, format!("{layer}.mlp.gate_proj"), a.intermediate_size);
    let up = w.linear(&x, format!("{layer}.mlp.up_proj"), a.intermediate_size);
    let gate = activate(&gate, a.hidden_act.unwrap_or("silu"));
    w.linear(&gate.mul(&up), format!("{layer}.mlp.down_proj"), a.hidden_size)
}

fn activate(x: &Tensor, act: &str) -> Tensor {
    match act {
        "silu" | "swish" => x.silu(),
        "gelu" => x.gelu(),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => x.gelu_tanh(),
        "relu" => x.relu(),
        _ => panic!("no such activation: {act}"),
    }
}
