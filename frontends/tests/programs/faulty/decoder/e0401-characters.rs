pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let 名前 = "模型"; /* 名 é 😀 */ w.get(名前).add(&w.get("é".to_owned() + 名前))
}
