// A `while` with a counter, and a list of ends.
use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    let ends = vec![2, 3, 5];
    let mut ids = tok.encode(text);
    let mut made = 0;
    while made < a.max_tokens {
        let logits = step(&ids, config, w);
        let next = logits.sample_top_p(config.sampling.top_p, config.sampling.temperature);
        if ends.contains(&next) {
            break;
        }
        ids.push(next);
        made += 1;
    }
    tok.decode(&ids)
}

fn step(ids: &Vec<u32>, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let h = (0..a.num_hidden_layers)
        .fold(w.embed("embed", ids, a.hidden_size), |h, i| layer(&h, i, config, w));
    w.linear(&w.rmsnorm(&h, "norm", a.rms_norm_eps), "head", a.vocab_size).last()
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
