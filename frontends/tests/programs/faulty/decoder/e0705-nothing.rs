pub fn forward(ids: &[u32], w: &Weights) {
    let h = w.embed("model.embed_tokens", ids, 8);
    h.silu();
}
