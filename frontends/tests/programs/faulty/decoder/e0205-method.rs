struct Block {
    width: usize,
}

impl Block {
    fn heads(&self, size: usize) -> usize {
        self.width / size
    }
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let block = Block { width: 8 };
    w.embed("model.embed_tokens", ids, block.heads() * 4)
}
