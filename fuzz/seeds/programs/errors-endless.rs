// An iterator without end.
use cyb::nn::{Config, Weights};

pub fn forward(config: &Config, w: &Weights) -> usize {
    (0..).filter(|x| x % 2 == 3).count()
}
