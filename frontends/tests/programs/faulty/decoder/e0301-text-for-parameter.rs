pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_tokens", ids, 8);
    norm(&h, 0, w)
}

fn norm(h: &Tensor, name: &str, w: &Weights) -> Tensor {
    w.rmsnorm(h, name, 1e-6)
}
