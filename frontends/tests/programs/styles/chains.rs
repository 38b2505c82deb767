// Iterator chains instead of loops.
use cyb::nn::{Config, Tensor, Weights};
use std::collections::BTreeMap;

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let kinds: BTreeMap<&str, Vec<usize>> =
        a.layer_types.iter().enumerate().fold(BTreeMap::new(), |mut map, (i, kind)| {
            map.entry(kind).or_insert_with(Vec::new).push(i);
            map
        });
    assert_eq!(kinds["window"], [1]);
    let order: Vec<usize> = kinds.values().flatten().copied().rev().collect();
    let h = w.embed("embed", ids, a.hidden_size);
    let outs: Vec<Tensor> = order
        .iter()
        .map(|i| format!("layers.{i}"))
        .map(|p| w.linear(&h, format!("{p}.q"), a.hidden_size))
        .collect();
    let sum = outs.iter().zip([0.25, 0.75]).map(|(t, s)| t.scale(s)).reduce(|x, y| x.add(&y)).unwrap();
    let frequencies: Vec<f32> = (0..a.hidden_size / 2)
        .map(|i| 1.0 / (a.rope_theta as f32).powf(2.0 * i as f32 / a.hidden_size as f32))
        .flat_map(|f| [f, f])
        .collect();
    sum.mul(&Tensor::from(frequencies, [a.hidden_size]))
}
