fn half(n: usize) -> usize {
    n / 2
}

fn half(x: &Tensor) -> Tensor {
    x.scale(0.5)
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    half(&w.embed("model.embed_tokens", ids, 8))
}
