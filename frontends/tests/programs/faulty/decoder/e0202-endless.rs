pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let mut n = 0;
    loop {
        n += config.architecture.depth;
        if n > 10 {
            break;
        }
    }
    w.get("lm_head").scale(n)
}
