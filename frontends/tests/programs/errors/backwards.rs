// What has no end has no last element, and what walks itself none at all.
use cyb::nn::{Config, Weights};

pub fn forward(config: &Config, w: &Weights) -> usize {
    let a = (0..).rev().next();
    let mut it = vec![1, 2].into_iter();
    it = it.map(|x| it.next());
    let b = it.next();
    0
}
