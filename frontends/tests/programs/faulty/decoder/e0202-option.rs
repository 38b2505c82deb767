pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    if let Some(n) = config.architecture.sliding_window {
        return w.get("lm_head").scale(n);
    }
    let n = config.architecture.sliding_window * 2;
    w.get("lm_head").scale(n)
}
