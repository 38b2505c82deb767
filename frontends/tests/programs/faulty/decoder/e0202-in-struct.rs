struct Sizes {
    width: usize,
    heads: usize,
}

fn sizes(config: &Config) -> Sizes {
    let a = &config.architecture;
    Sizes { width: a.hidden_size, heads: a.attention_heads }
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let s = sizes(config);
    let h = w.embed("model.embed_tokens", ids, s.width);
    let mut sum = 0;
    for i in 0..s.heads {
        sum += i;
    }
    match s.heads {
        1 => h,
        _ => h.scale(sum),
    }
}
