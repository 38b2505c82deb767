// Sizes that only running tells, and a stack of work.
use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> Tensor {
    let ids = tok.encode(text);
    let n = ids.len();
    let width = config.architecture.hidden_size;
    let heads = config.architecture.num_attention_heads;
    let h = w.embed("embed", &ids, width);
    let (rows, columns) = (h.dim(0), h.dim(1));
    assert_eq!(columns, width);
    let split = h.reshape([n, heads, width / heads]).permute([1, 0, 2]);
    let mut work = vec![(split, 0)];
    let mut done = vec![];
    while let Some((x, depth)) = work.pop() {
        if depth >= 2 {
            done.push(x);
            continue;
        }
        for part in x.chunk(2, 2 - depth * 2).iter().rev() {
            work.push((part.scale(0.5), depth + 1));
        }
    }
    assert_eq!(done.len(), 4);
    let joined = Tensor::concat(&done, -1);
    joined.reshape([rows, columns])
}
