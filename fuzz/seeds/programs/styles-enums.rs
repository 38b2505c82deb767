// An enum of layers, and `match`.
use cyb::nn::{Config, Tensor, Weights};

enum Kind {
    Norm,
    Linear { out: usize, bias: bool },
    Act(Activation),
}

#[derive(Clone, Copy, PartialEq)]
enum Activation {
    Silu,
    Gelu,
}

impl Activation {
    fn of(name: &str) -> Option<Activation> {
        match name {
            "silu" | "swish" => Some(Activation::Silu),
            "gelu" => Some(Activation::Gelu),
            _ => None,
        }
    }
}

fn plan(config: &Config) -> Vec<(String, Kind)> {
    let a = &config.architecture;
    let act = Activation::of(a.head.hidden_act).unwrap_or(Activation::Gelu);
    let mut steps = vec![("layers.0.norm1".to_string(), Kind::Norm)];
    steps.push(("layers.0.up".to_string(), Kind::Linear { out: a.intermediate_size, bias: true }));
    steps.push((String::new(), Kind::Act(act)));
    steps.push(("layers.0.down".to_string(), Kind::Linear { out: a.hidden_size, bias: false }));
    steps
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let mut h = w.embed("embed", ids, a.hidden_size);
    for (name, kind) in plan(config).iter() {
        h = match kind {
            Kind::Norm => w.rmsnorm(&h, name, a.rms_norm_eps),
            Kind::Linear { out, bias: true } => w.linear(&h, name, *out),
            Kind::Linear { out, .. } => w.linear_no_bias(&h, name, *out),
            Kind::Act(Activation::Silu) => h.silu(),
            Kind::Act(other) if *other == Activation::Gelu => h.gelu(),
            Kind::Act(_) => panic!("no such activation"),
        };
    }
    h
}
