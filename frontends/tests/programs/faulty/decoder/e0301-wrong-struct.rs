struct Block {
    width: usize,
}

fn width(block: &Block) -> usize {
    block.width
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    w.embed("model.embed_tokens", ids, width(8))
}
