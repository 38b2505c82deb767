pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let mut h = w.embed("model.embed_tokens", ids, 8);
    for i in 0..config.architecture.num_hidden_layers {
        h = h.add(&feed_forward(&h, i, w));
    }
    h
}

fn feed_forward(h: &Tensor, i: usize, w: &Weights) -> Tensor {
    let wide = w.linear(h, format!("model.layers.{i}.mlp.up_porj"), 16).silu();
    w.linear(&wide, format!("model.layers.{i}.mlp.down_proj"), 8)
}
