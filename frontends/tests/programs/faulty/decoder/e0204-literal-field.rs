struct Block {
    width: usize,
    heads: usize,
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let block = Block { width: 8, head: 2 };
    w.embed("model.embed_tokens", ids, block.width)
}
