// An iterator that nests itself without end.
use cyb::nn::{Config, Weights};

fn nested(n: usize) -> impl Iterator<Item = usize> {
    std::iter::once(n).flat_map(|n| nested(n + 1))
}

pub fn forward(config: &Config, w: &Weights) -> usize {
    nested(0).count()
}
