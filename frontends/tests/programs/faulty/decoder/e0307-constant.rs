const WIDTH: usize = 8;

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    WIDTH = config.architecture.hidden_size;
    w.embed("model.embed_tokens", ids, WIDTH)
}
