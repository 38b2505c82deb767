pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    println!("hello");
    w.get("lm_head")
}
