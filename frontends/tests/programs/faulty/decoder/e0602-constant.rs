const WIDTH: usize = HEADS * 4;
const HEADS: usize = WIDTH / 4;

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    w.embed("model.embed_tokens", ids, WIDTH)
}
