use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let h = w.embed("model.embed_tokens", &tok.encode(text), a.hidden_size);
    let q = w.linear(&h, "model.layers.0.self_attn.q_proj", 8);
    let k = w.linear(&h, "model.layers.0.self_attn.k_proj", 8);
    let v = w.linear(&h, "model.layers.0.self_attn.v_proj", 8);
    Tensor::flash_attention(&q, &k, &v, 2, 2, 4)
}
