// Names kept in vectors, widths computed with integers, closures that take closures.
use cyb::nn::{Config, Tensor, Weights};

const PARTS: [&str; 4] = ["q", "k", "v", "o"];
const SCALES: [f32; 2] = [0.5, 2.0];

fn twice(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    f(&f(x))
}

pub fn forward(x: &Tensor, config: &Config, w: &Weights) -> Vec<Tensor> {
    let a = &config.architecture;
    let x = x.reshape([-1, a.hidden_size]);
    let mut names = Vec::with_capacity(8);
    for i in 0..a.num_hidden_layers {
        for part in PARTS.iter().take(2) {
            names.push(format!("layers.{i}.{part}"));
        }
    }
    names.sort_by(|a, b| b.cmp(a));
    names.dedup();
    names.truncate(3);
    let mut outs = vec![];
    for (n, name) in names.iter().enumerate() {
        let project = |t: &Tensor| w.linear(t, name, a.hidden_size);
        let y = twice(&project, &x);
        let scale = SCALES[n % SCALES.len()];
        outs.push(if n % 2 == 0 { y.scale(scale) } else { y.neg().scale(scale) });
    }
    outs.reverse();
    outs
}
