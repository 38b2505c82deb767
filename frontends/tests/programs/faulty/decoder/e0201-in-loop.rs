pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let mut n = 0;
    let mut at = 0;
    loop {
        at += 1;
        if at > 5 {
            n = at + other;
            break;
        }
    }
    w.get("lm_head").scale(n)
}
