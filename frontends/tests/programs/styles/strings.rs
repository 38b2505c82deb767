// A network written as text, read while compiling.
use cyb::nn::{Config, Tensor, Weights};
use std::collections::HashMap;

const PLAN: &str = "
    up   layers.0.up 16
    act  silu
    down layers.0.down 8   # back to the stream
    skip
    up   layers.1.up 16
    act  gelu
    down layers.1.down 8
";

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let mut h = w.embed("embed", ids, config.architecture.hidden_size);
    let mut saved = HashMap::new();
    saved.insert("start".to_string(), h.clone());
    for (number, line) in PLAN.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        h = match words[..] {
            ["up" | "down", name, width] => {
                let width: usize = width.parse().expect("a width");
                w.linear(&h, name, width)
            }
            ["act", name] => activate(&h, name),
            ["skip"] => {
                let key = saved.keys().last().unwrap().clone();
                let sum = h.add(&saved[&key]);
                saved.insert(format!("line {number}"), sum.clone());
                sum
            }
            _ => panic!("line {}: {:?} is no step", number + 1, words),
        };
    }
    assert_eq!(saved.len(), 2);
    h
}

fn activate(h: &Tensor, name: &str) -> Tensor {
    if name.eq_ignore_ascii_case("SILU") { h.silu() } else { h.gelu() }
}
