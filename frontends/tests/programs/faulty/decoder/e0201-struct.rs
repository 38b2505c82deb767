struct Block {
    width: usize,
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let block = Blok { width: 8 };
    w.embed("model.embed_tokens", ids, block.width)
}
