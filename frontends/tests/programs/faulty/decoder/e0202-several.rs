pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let h = w.embed("model.embed_tokens", ids, a.hiden_size);
    let n = h.softmax(-1).scale(a.heads);
    let gate = w.get("model.gate");
    let b = a.hidden_size / 0;
    n.add(&gate).scale(b)
}
