// Tuples, shadowing, nested functions, early returns, labelled breaks.
use cyb::nn::{Config, Tensor, Weights};

fn split(h: &Tensor, i: usize, w: &Weights) -> (Tensor, Tensor, usize) {
    fn name(i: usize, part: &str) -> String {
        format!("layers.{}.{}", i, part)
    }
    let width = w.shape(name(i, "q"))[0];
    if width == 0 {
        return (h.clone(), h.clone(), 0);
    }
    (w.linear(h, name(i, "q"), width), w.linear(h, name(i, "k"), width), width)
}

fn first_window(config: &Config) -> usize {
    let mut found = 0;
    'search: for i in 0..config.architecture.num_hidden_layers {
        for kind in [config.architecture.layer_types[i]] {
            if kind == "window" {
                found = i;
                break 'search;
            }
        }
    }
    found
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> (Tensor, Tensor) {
    let h = w.embed("embed", ids, config.architecture.hidden_size);
    let (q, k, width) = split(&h, first_window(config), w);
    let (mut a, mut b) = (q.scale(1.0 / width as f32), k);
    let mut rounds = 0;
    while rounds < 2 {
        (a, b) = (b.add(&a), a);
        rounds += 1;
    }
    let a = a.softmax(-1);
    (a, b)
}
