pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let mut n = 0;
    while n < limit {
        n += 1;
    }
    w.get("lm_head").scale(n)
}
