pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("model.embed_tokens", ids, 8);
    let next = w.linear(&h, "lm_head", 32).last().sample_greedy();
    h.select(1, next)
}
