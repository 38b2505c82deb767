use cyb::nn::{Config, Tensor, Tokenizer, Weights};
use std::collections::HashMap;

/// Frames of a window.
const FRAMES: usize = 3_000;

#[derive(Clone, Debug)]
struct Layer {
    heads: usize,
    name: String,
}

struct Pair(Tensor, f32);

enum Shape {
    Square,
    Circle(f32),
    Box { width: u32, height: u32 },
}

impl Layer {
    const DEPTH: usize = 2;

    fn new(heads: usize) -> Self {
        Layer { heads, name: "encoder".to_string() }
    }

    pub fn run(&self, x: &Tensor, w: &Weights) -> Tensor {
        let name = format!("{}.{}", self.name, Self::DEPTH);
        w.linear(x, &name, self.heads * 64)
    }
}

fn apply<F: Fn(f32) -> f32>(g: F, x: f32) -> f32 {
    g(x)
}

fn each(g: impl Fn(f32) -> f32, values: &[f32]) -> Vec<f32> {
    values.iter().map(|&v| g(v)).collect::<Vec<_>>()
}

pub fn forward(samples: &[f32], cfg: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &cfg.architecture;
    let (mut h, rest) = (Tensor::mel_spectrogram(samples, a.num_mel_bins), ());
    for i in 0..a.encoder_layers {
        h = h.add(&w.linear(&h, &format!("model.layers.{i}.fc1"), a.d_model)).gelu();
    }
    let mut tokens: Vec<u32> = vec![cfg.decoder_start_token_id, 1, 2];
    'outer: loop {
        let logits = step(&h, &tokens, w);
        let next = logits.last().argmax() as u32;
        if next == cfg.eos_token_id || tokens.len() >= 448 {
            break 'outer;
        } else if next < 10 {
            continue;
        } else {
            tokens.push(next);
        }
    }
    let total = tokens.iter().filter(|t| **t > 3).map(|t| *t as f32 * 0.5).sum::<f32>();
    let kind = match tokens.len() {
        0 => "none",
        1 | 2 => "few",
        n if n % 2 == 0 => "even",
        3..=9 => "some",
        _ => "many",
    };
    assert!(total >= 0.0, "total is {total:>8.3} for {kind}");
    debug_assert_eq!(tokens.len() as i64, -1 + 2, "{0} {0:?}", kind);
    if let Some(first) = tokens.first() && *first == 3 {
        return tok.decode(&[*first]);
    }
    let Some(x) = tokens.get(1) else { return String::new() };
    let b = matches!(x, 1 | 2 if total > 1.0);
    let z = [0u8; 4];
    let q = a.scale.unwrap_or(1e-6f32).max(-x as f32);
    let y = if b { z[0] } else { b'x' };
    let mut n = 0x1f_u32 << 3 & 0xff | 1 ^ 2;
    n += 1;
    n <<= 2;
    let s = Shape::Box { width: 1, height: n };
    let p = Pair(h.clone(), q);
    let Pair(ref t, _) = p;
    let r = &h[..];
    let last = Layer { heads: 8, ..Layer::new(4) };
    let c = 'é';
    let raw = r#"a "quoted" {text}"#;
    tok.decode(&tokens)
}

fn step(h: &Tensor, tokens: &[u32], w: &Weights) -> Tensor {
    fn inner(x: u32) -> u32 {
        x.wrapping_mul(31)
    }
    const LIMIT: u32 = 7;
    let f = |a: u32, (b, c)| -> u32 { a + b + c };
    while inner(LIMIT) < 3 {
        let _ = f(1, (2, 3));
    }
    h.argmax()
}
