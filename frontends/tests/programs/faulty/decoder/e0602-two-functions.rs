fn even(n: usize) -> bool {
    odd(n + 1)
}

fn odd(n: usize) -> bool {
    even(n + 1)
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    if even(0) { w.get("lm_head") } else { w.get("model.norm") }
}
