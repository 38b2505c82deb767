// Code on text that runs with the model, written into `forward` itself.
use cyb::nn::{Config, Tensor, Weights};

pub fn forward(text: &str, config: &Config, w: &Weights) -> Tensor {
    let vocab = config.architecture.vocab_size;
    let shift = 3u32;
    let ids = text
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric())
        .map(|c| (c as u32).wrapping_mul(31).wrapping_add(shift) % vocab)
        .collect::<Vec<_>>();
    w.embed("embed", &ids, config.architecture.hidden_size).mean(0)
}
