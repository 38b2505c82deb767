//! Attention against a plain double-precision form, and independence of chunks and threads.

use super::*;

pub(super) fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| (((i + seed) * 7919 + seed * 31) % 1009) as f32 / 504.5 - 1.0).collect()
}

pub(super) fn reference(
    spec: &AttentionSpec,
    q: &[f32],
    s: usize,
    k: &[f32],
    v: &[f32],
    mask: Option<AttentionMask<'_>>,
) -> Vec<f64> {
    let (heads, d) = (spec.heads, spec.head_dim);
    let kv_width = spec.kv_heads * d;
    let t = k.len() / kv_width;
    let mut out = vec![0.0; s * heads * d];
    for row in 0..s {
        for head in 0..heads {
            let kv = head / (heads / spec.kv_heads) * d;
            let position = (t + row) as i64 - s as i64;
            let mut scores = vec![f64::NEG_INFINITY; t];
            for key in 0..t {
                let causal = spec.causal || spec.window.is_some();
                if causal && key as i64 > position {
                    continue;
                }
                if let Some(window) = spec.window
                    && key as i64 <= position - window as i64
                {
                    continue;
                }
                if spec.reach.is_some_and(|reach| (key as i64).abs_diff(position) > reach as u64) {
                    continue;
                }
                let mut score = 0.0;
                for i in 0..d {
                    score += f64::from(q[(row * heads + head) * d + i]) * f64::from(k[key * kv_width + kv + i]);
                }
                score *= f64::from(spec.scale);
                if let Some(cap) = spec.softcap {
                    score = f64::from(cap) * (score / f64::from(cap)).tanh();
                }
                if let Some(mask) = mask {
                    let head = if mask.per_head { head } else { 0 };
                    score += f64::from(mask.values[(head * s + row) * t + key]);
                }
                scores[key] = score;
            }
            let top = scores.iter().cloned().fold(f64::NEG_INFINITY, f64::max);
            if top < -1e38 {
                continue;
            }
            let sum: f64 = scores.iter().map(|x| (x - top).exp()).sum();
            for key in 0..t {
                let weight = (scores[key] - top).exp() / sum;
                for i in 0..d {
                    out[(row * heads + head) * d + i] += weight * f64::from(v[key * kv_width + kv + i]);
                }
            }
        }
    }
    out
}

pub(super) fn plain(heads: usize, kv_heads: usize, head_dim: usize) -> AttentionSpec {
    AttentionSpec {
        heads,
        kv_heads,
        head_dim,
        causal: true,
        window: None,
        reach: None,
        scale: 1.0 / (head_dim as f32).sqrt(),
        softcap: None,
    }
}

#[test]
fn kernels_attention_matches_the_formula() {
    for (heads, kv_heads, d) in [(1, 1, 1), (4, 2, 8), (7, 1, 20), (6, 3, 64)] {
        for (s, t) in [(1, 1), (1, 37), (5, 5), (9, 40), (3, 2)] {
            for case in 0..6 {
                let mut spec = plain(heads, kv_heads, d);
                spec.causal = case != 1;
                spec.window = (case == 2).then_some(3);
                spec.softcap = (case == 3).then_some(0.7);
                let q = values(s * heads * d, 1);
                let k = values(t * kv_heads * d, 2);
                let v = values(t * kv_heads * d, 3);
                let mut mask = values(heads * s * t, 4);
                mask.iter_mut().step_by(3).for_each(|m| *m = f32::NEG_INFINITY);
                let per_head = case == 4;
                let mask = (case >= 4).then_some(AttentionMask {
                    values: &mask[..if per_head { heads * s * t } else { s * t }],
                    per_head,
                });
                let want = reference(&spec, &q, s, &k, &v, mask);
                for threads in [1, 2, 3] {
                    let team = Team::new(threads).unwrap();
                    let mut out = vec![7.0; q.len()];
                    attention(&spec, &q, s, &k, &v, mask, &mut out, &team).unwrap();
                    for (out, want) in out.iter().zip(&want) {
                        assert!((f64::from(*out) - want).abs() < 2e-6, "{spec:?} {s} {t}");
                    }
                }
            }
        }
    }
}

#[test]
fn kernels_attention_is_the_same_in_one_call_and_token_by_token() {
    let (heads, kv_heads, d, t) = (6, 2, 40, 83);
    for (window, softcap) in [(None, None), (Some(10), None), (None, Some(2.0))] {
        let mut spec = plain(heads, kv_heads, d);
        (spec.window, spec.softcap) = (window, softcap);
        let q = values(t * heads * d, 5);
        let k = values(t * kv_heads * d, 6);
        let v = values(t * kv_heads * d, 7);
        let half = |x: &[f32]| x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
        let (k16, v16) = (half(&k), half(&v));
        let mut whole = vec![0.0; q.len()];
        let mut whole16 = whole.clone();
        let team = Team::new(2).unwrap();
        attention(&spec, &q, t, &k, &v, None, &mut whole, &team).unwrap();
        attention(&spec, &q, t, &k16, &v16, None, &mut whole16, &team).unwrap();
        let widen = |x: &[f16]| x.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let mut same = whole.clone();
        attention(&spec, &q, t, &widen(&k16), &widen(&v16), None, &mut same, &team).unwrap();
        assert_eq!(whole16, same);
        let (width, kv_width) = (heads * d, kv_heads * d);
        for threads in [1, 3] {
            let team = Team::new(threads).unwrap();
            for chunk in [1, 5, 32] {
                for start in (0..t).step_by(chunk) {
                    let end = t.min(start + chunk);
                    let rows = start * width..end * width;
                    let seen = end * kv_width;
                    let mut out = vec![0.0; rows.len()];
                    let (q, s) = (&q[rows.clone()], end - start);
                    attention(&spec, q, s, &k[..seen], &v[..seen], None, &mut out, &team).unwrap();
                    assert_eq!(out, whole[rows.clone()]);
                    let (k16, v16) = (&k16[..seen], &v16[..seen]);
                    attention(&spec, q, s, k16, v16, None, &mut out, &team).unwrap();
                    assert_eq!(out, whole16[rows]);
                }
            }
        }
    }
}

#[test]
fn kernels_attention_of_masked_rows_is_zero() {
    let spec = plain(2, 1, 8);
    let (q, k) = (values(2 * 16, 1), values(2 * 8, 2));
    let mut v = values(2 * 8, 3);
    // What is out of sight does not count, even when it is not finite.
    v[8] = f32::INFINITY;
    let mask = [f32::MIN, 0.0, 0.0, f32::NEG_INFINITY];
    let mask = Some(AttentionMask { values: &mask, per_head: false });
    let team = Team::new(1).unwrap();
    let mut out = [9.0; 32];
    attention(&spec, &q, 2, &k, &v, mask, &mut out, &team).unwrap();
    assert_eq!(out[..16], [0.0; 16]);
    attention(&spec, &q, 2, &k, &v, None, &mut out, &team).unwrap();
    assert_eq!(out[..8], v[..8]);
    // Fewer keys than queries: the first rows see none.
    let (k, v) = (&k[..8], &v[..8]);
    attention(&spec, &q, 2, k, v, None, &mut out, &team).unwrap();
    assert_eq!(out[..16], [0.0; 16]);
    assert_eq!(out[16..24], v[..8]);
}

#[test]
fn kernels_attention_refuses_shapes_that_do_not_fit() {
    let team = Team::new(1).unwrap();
    let (q, k) = ([0.0; 16], [0.0; 8]);
    let mut out = [0.0; 16];
    let spec = plain(2, 1, 8);
    let mask = Some(AttentionMask { values: &[0.0; 3], per_head: false });
    assert!(attention(&plain(3, 2, 8), &q, 1, &k, &k, None, &mut out, &team).is_err());
    assert!(attention(&plain(2, 0, 8), &q, 1, &k, &k, None, &mut out, &team).is_err());
    assert!(attention(&spec, &q, 2, &k, &k, None, &mut out, &team).is_err());
    assert!(attention(&spec, &q, 1, &k[..7], &k, None, &mut out, &team).is_err());
    assert!(attention(&spec, &q, 1, &k, &k[..7], None, &mut out, &team).is_err());
    assert!(attention(&spec, &q, 1, &k, &k, mask, &mut out, &team).is_err());
    assert!(attention(&spec, &q, 1, &k, &k, None, &mut out[..8], &team).is_err());
    attention::<f32>(&spec, &[], 0, &[], &[], None, &mut [], &team).unwrap();
}
