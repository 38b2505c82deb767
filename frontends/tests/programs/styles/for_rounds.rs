// A `for` over rounds, tokens that begin with the start token, two ends by `||`.
use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    let start = config.tokenizer.bos_id;
    let end = config.tokenizer.eos_id;
    let mut tokens: Vec<u32> = vec![start];
    for _ in 0..a.max_tokens {
        let mut h = w.embed("embed", &tokens, a.hidden_size);
        for i in 0..a.num_hidden_layers {
            h = layer(&h, i, config, w);
        }
        let h = w.rmsnorm(&h, "norm", a.rms_norm_eps);
        let next = w.linear(&h, "head", a.vocab_size).last().sample_greedy();
        if next == end || next == 0 {
            break;
        }
        tokens.push(next);
    }
    tok.decode(&tokens)
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
