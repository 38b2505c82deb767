// What the config may or may not say.
use cyb::nn::{Config, Tensor, Weights};

fn eps(config: &Config) -> f64 {
    let a = &config.architecture;
    if let Some(eps) = a.layer_norm_eps {
        return eps;
    }
    a.get("rms_norm_eps").or(a.norm_eps).unwrap_or(1e-5)
}

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> (Tensor, Tensor) {
    let a = &config.architecture;
    let scale = match a.embedding_multiplier {
        Some(x) => x as f32,
        None => (a.hidden_size as f32).sqrt(),
    };
    let mut h = w.embed("embed", ids, a.hidden_size).scale(scale);
    if a.head.dropout.is_some_and(|p| p > 0.5) {
        panic!("dropout of {} is for training", a.head.dropout);
    }
    if a.use_norm.unwrap_or(true) && w.has("norm.weight") {
        h = w.rmsnorm(&h, "norm", eps(config));
    }
    let act = a.head.hidden_act.map(|s| s.to_lowercase()).unwrap_or_else(|| "relu".to_string());
    let squashed = match act.as_str() {
        "silu" => h.silu(),
        "relu" => h.relu(),
        other => panic!("activation {other}"),
    };
    let keys: Vec<String> = config.keys().filter(|k| k.starts_with("tok")).collect();
    assert_eq!(keys, ["tokenizer"]);
    assert!(!config.contains_key("vision") && a.head.contains_key("dropout"));
    (squashed, h)
}
