pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let x = 1;
    let (a, a) = (1, 2);
    w.get("lm_head").scale(a)
}
