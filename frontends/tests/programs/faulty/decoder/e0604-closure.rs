pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let mut n = 0;
    for i in 0..4 {
        let stop = || { break; };
        stop();
        n += i;
    }
    w.get("lm_head").scale(n)
}
