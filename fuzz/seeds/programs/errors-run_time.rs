// Decisions about what is known only when running, around tensors and out of loops.
use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> Tensor {
    let words = ["a", "b"];
    let n = text.len();
    let h = w.embed("embed", [1, 2], config.architecture.hidden_size);
    let chosen = words.iter().filter(|name| text.contains(*name)).map(|name| w.get(name)).count();
    for _ in 0..n {
        return h;
    }
    let mut sum = h;
    while let Some(c) = text.chars().next() {
        sum = sum.add(&h);
    }
    let tokens = tok.encode(text.trim());
    sum
}
