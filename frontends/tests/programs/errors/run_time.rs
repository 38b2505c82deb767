// Decisions about what is known only when running.
use cyb::nn::{Config, Weights};

pub fn forward(text: &str, config: &Config, w: &Weights) -> usize {
    let words = ["a", "b"];
    let n = text.len();
    let found = words.iter().filter(|w| text.contains(w)).count();
    let sorted = words.iter().max_by_key(|w| w.len() + n);
    for _ in 0..n {
        return 3;
    }
    0
}
