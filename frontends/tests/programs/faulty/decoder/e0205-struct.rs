struct Pair(usize, usize);

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let pair = Pair(8);
    w.embed("model.embed_tokens", ids, pair.0)
}
