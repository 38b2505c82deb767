// One step: sample, decode. The driver repeats it.
use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    let ids = tok.encode(text);
    let mut h = w.embed("embed", &ids, a.hidden_size);
    for i in 0..a.num_hidden_layers {
        h = layer(&h, i, config, w);
    }
    let logits = w.linear(&w.rmsnorm(&h, "norm", a.rms_norm_eps), "head", a.vocab_size);
    let next = logits.last().sample_top_k(40, 1.0, 1.0);
    tok.decode(&[next])
}

fn layer(h: &Tensor, i: usize, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let name = |part: &str| format!("layers.{i}.{part}");
    let x = w.rmsnorm(h, name("norm1"), a.rms_norm_eps);
    let [q, k, v] = ["q", "k", "v"].map(|part| w.linear(&x, name(part), a.hidden_size));
    let heads = a.num_attention_heads;
    let mixed = Tensor::causal_attention(&q, &k, &v, heads, a.hidden_size / heads);
    let h = h.add(&w.linear(&mixed, name("o"), a.hidden_size));
    let x = w.rmsnorm(&h, name("norm2"), a.rms_norm_eps);
    let wide = w.linear(&x, name("up"), a.intermediate_size).silu();
    h.add(&w.linear(&wide, name("down"), a.hidden_size))
}
