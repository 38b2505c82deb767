// More than can be held, and copies without end.
use cyb::nn::{Config, Weights};

pub fn forward(config: &Config, w: &Weights) -> usize {
    let big = vec![0; 2000000];
    let mut all = vec![];
    for i in 0..100000 {
        let mut copy = big.clone();
        copy[i] = 1;
        all.push(copy);
    }
    all.len()
}
