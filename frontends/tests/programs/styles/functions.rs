// Functions as values: tables of them, fields that hold them, functions that give them.
use cyb::nn::{Config, Tensor, Weights};

struct Stage<'a> {
    name: &'a str,
    apply: fn(&Tensor, &str, &Weights) -> Tensor,
}

fn dense(x: &Tensor, name: &str, w: &Weights) -> Tensor {
    let out = w.shape(format!("{name}.weight"))[0];
    w.linear(x, name, out)
}

fn normed(x: &Tensor, name: &str, w: &Weights) -> Tensor {
    w.rmsnorm(x, name, 1e-6)
}

fn scaled(by: f32) -> impl Fn(&Tensor) -> Tensor {
    move |x| x.scale(by)
}

fn stages() -> [Stage<'static>; 3] {
    [
        Stage { name: "layers.0.norm1", apply: normed },
        Stage { name: "layers.0.up", apply: dense },
        Stage { name: "layers.0.down", apply: dense },
    ]
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let h = w.embed("embed", ids, config.architecture.hidden_size);
    let half = scaled(0.5);
    let result = stages().iter().fold(half(&h), |x, stage| (stage.apply)(&x, stage.name, w));
    let gates: Vec<(&str, Box<dyn Fn(&Tensor) -> Tensor>)> =
        vec![("a", Box::new(|x| x.sigmoid())), ("b", Box::new(scaled(2.0)))];
    gates.iter().filter(|(name, _)| *name != "c").map(|(_, f)| f(&result)).reduce(|a, b| a.mul(&b)).unwrap()
}
