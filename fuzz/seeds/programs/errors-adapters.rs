// Adapters upon adapters.
use cyb::nn::{Config, Weights};

pub fn forward(config: &Config, w: &Weights) -> usize {
    let mut it = vec![1, 2].into_iter();
    for _ in 0..100000 {
        it = it.map(|x| x + 1);
    }
    it.next().unwrap()
}
