//! Recurrences over tokens.

use crate::error::Result;
use crate::value::with_slice;
use candle_core::{Device, Tensor};

/// The gated delta rule (Yang 2024) as `torch_recurrent_gated_delta_rule` of Qwen3-Next runs it, but for the
/// scale of the queries and any normalisation, which callers apply. q, k `[S, heads, Dk]`, v
/// `[S, heads, Dv]`, g and beta `[S, heads]`, state `[heads, Dk, Dv]`.
pub(super) fn gated_delta(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let (tokens, heads, key) = x[0].dims3()?;
    let width = x[2].dim(2)?;
    let values = |t: &Tensor| with_slice(t, <[f32]>::to_vec);
    let mut state = match x.get(5) {
        Some(given) => values(given)?,
        None => vec![0f32; heads * key * width],
    };
    let (q, k, v) = (values(&x[0])?, values(&x[1])?, values(&x[2])?);
    let (g, beta) = (values(&x[3])?, values(&x[4])?);
    let mut y = vec![0f32; tokens * heads * width];
    // The sums over keys, in double precision: this is the oracle.
    let mut sums = vec![0f64; width];
    for at in 0..tokens * heads {
        let head = at % heads;
        let state = &mut state[head * key * width..][..key * width];
        let (q, k, v) = (&q[at * key..][..key], &k[at * key..][..key], &v[at * width..][..width]);
        let decay = g[at].exp();
        sums.fill(0.0);
        for (i, &k) in k.iter().enumerate() {
            for (sum, s) in sums.iter_mut().zip(&mut state[i * width..][..width]) {
                *s *= decay;
                *sum += f64::from(*s) * f64::from(k);
            }
        }
        for (sum, &v) in sums.iter_mut().zip(v) {
            *sum = (f64::from(v) - *sum) * f64::from(beta[at]);
        }
        for (i, &k) in k.iter().enumerate() {
            for (delta, s) in sums.iter().zip(&mut state[i * width..][..width]) {
                *s += (f64::from(k) * delta) as f32;
            }
        }
        sums.fill(0.0);
        for (i, &q) in q.iter().enumerate() {
            for (sum, s) in sums.iter_mut().zip(&state[i * width..][..width]) {
                *sum += f64::from(*s) * f64::from(q);
            }
        }
        for (y, sum) in y[at * width..][..width].iter_mut().zip(&sums) {
            *y = *sum as f32;
        }
    }
    Ok(vec![
        Tensor::from_vec(y, (tokens, heads, width), &Device::Cpu)?,
        Tensor::from_vec(state, (heads, key, width), &Device::Cpu)?,
    ])
}
