// A variable for the last token; the list collects what is written.
use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    let mut current = config.tokenizer.bos_id;
    let mut out = Vec::new();
    loop {
        let mut h = w.embed("embed", &[current], a.hidden_size);
        for i in 0..a.num_hidden_layers {
            h = layer(&h, i, config, w);
        }
        let h = w.rmsnorm(&h, "norm", a.rms_norm_eps);
        let logits = w.linear(&h, "head", a.vocab_size);
        let next = logits.last().sample_greedy();
        if next == 2 {
            break;
        }
        out.push(next);
        if out.len() == 20 {
            break;
        }
        current = next;
    }
    tok.decode(&out)
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
