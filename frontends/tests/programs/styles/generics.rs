// Functions over any type, trait bounds, `where`.
use cyb::nn::{Config, Tensor, Weights};

fn map_all<T, F: Fn(&T) -> Tensor>(items: &[T], f: F) -> Vec<Tensor> {
    let mut out = Vec::new();
    for item in items {
        out.push(f(item));
    }
    out
}

fn pick<T>(items: Vec<T>, wanted: usize) -> Option<T>
where
    T: Clone,
{
    items.get(wanted).cloned()
}

fn sum(parts: Vec<Tensor>) -> Tensor {
    match parts.as_slice() {
        [one] => one.clone(),
        [first, rest @ ..] => first.add(&sum(rest.to_vec())),
        [] => panic!("nothing to add"),
    }
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let width = config.architecture.hidden_size;
    let h = w.embed("embed", ids, width);
    let parts = map_all(&["q", "k", "v"], |part| w.linear(&h, format!("layers.0.{part}"), width));
    let same = pick(parts.clone(), 1).unwrap_or(h.clone());
    let all = sum(parts);
    all.sub(&same).mul(&h)
}
