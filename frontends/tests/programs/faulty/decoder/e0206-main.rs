pub fn foward(ids: &[u32], w: &Weights) -> Tensor {
    w.embed("model.embed_tokens", ids, 8)
}
