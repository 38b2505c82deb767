// A list without end.
use cyb::nn::{Config, Weights};

pub fn forward(config: &Config, w: &Weights) -> usize {
    let all: Vec<usize> = std::iter::repeat(1).collect();
    all.len()
}
