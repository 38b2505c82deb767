//! Tests of sampling: filters against hand-worked distributions, limits, and repeatability.

use super::*;

fn sampler(params: SamplingParams) -> Sampler {
    Sampler::new(params).unwrap()
}

fn warm() -> SamplingParams {
    SamplingParams { temperature: 1.0, ..SamplingParams::default() }
}

fn ids(params: SamplingParams, logits: &[f32]) -> Vec<u32> {
    let distribution = sampler(params).distribution(logits, &[]).unwrap();
    let sum: f64 = distribution.iter().map(|(_, p)| p).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    distribution.into_iter().map(|(id, _)| id).collect()
}

/// Logits whose softmax is these probabilities.
fn logits_of(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln()).collect()
}

#[test]
fn greedy_takes_the_largest_and_the_lowest_id_of_equals() {
    let mut sampler = sampler(SamplingParams::default());
    assert_eq!(sampler.sample(&[0.0, 3.0, -1.0, 3.0], &[]), Ok(1));
    let mut long = vec![-2.0; 1000];
    long[333] = 1.0;
    long[999] = 1.0;
    assert_eq!(sampler.sample(&long, &[]), Ok(333));
    long[1] = f32::NEG_INFINITY;
    assert_eq!(sampler.sample(&long, &[]), Ok(333));
}

#[test]
fn greedy_ignores_settings_it_does_not_use() {
    let params = SamplingParams { top_p: 0.0, min_p: 7.0, top_k: 1, ..SamplingParams::default() };
    assert_eq!(sampler(params).sample(&[0.0, 1.0], &[]), Ok(1));
}

#[test]
fn settings_out_of_range_are_errors_where_they_are_used() {
    let bad = |params| {
        let Err(SamplingError::OutOfRange { name, .. }) = Sampler::new(params) else {
            panic!("{params:?} was accepted");
        };
        name
    };
    assert_eq!(bad(SamplingParams { top_p: 0.0, ..warm() }), "top_p");
    assert_eq!(bad(SamplingParams { top_p: 1.1, ..warm() }), "top_p");
    assert_eq!(bad(SamplingParams { top_p: f32::NAN, ..warm() }), "top_p");
    assert_eq!(bad(SamplingParams { min_p: -0.1, ..warm() }), "min_p");
    let temperature = |temperature| bad(SamplingParams { temperature, ..warm() });
    assert_eq!(temperature(-1.0), "temperature");
    assert_eq!(temperature(f32::INFINITY), "temperature");
    let repetition_penalty = 0.0;
    let params = SamplingParams { repetition_penalty, ..SamplingParams::default() };
    assert_eq!(bad(params), "repetition_penalty");
}

#[test]
fn top_k_keeps_exactly_k_and_the_lowest_ids_of_equals() {
    let logits = [1.0, 2.0, 2.0, 2.0, 0.0];
    assert_eq!(ids(SamplingParams { top_k: 2, ..warm() }, &logits), [1, 2]);
    assert_eq!(ids(SamplingParams { top_k: 4, ..warm() }, &logits), [0, 1, 2, 3]);
    assert_eq!(ids(SamplingParams { top_k: 99, ..warm() }, &logits).len(), 5);
    assert_eq!(ids(warm(), &logits), [0, 1, 2, 3, 4]);
}

#[test]
fn top_p_keeps_the_token_that_reaches_it() {
    let logits = logits_of(&[0.1, 0.5, 0.15, 0.25]);
    let kept = |top_p| ids(SamplingParams { top_p, ..warm() }, &logits);
    assert_eq!(kept(0.0001), [1]);
    assert_eq!(kept(0.49), [1]);
    assert_eq!(kept(0.6), [1, 3]);
    assert_eq!(kept(0.8), [1, 2, 3]);
    assert_eq!(kept(0.95), [0, 1, 2, 3]);
}

#[test]
fn min_p_is_relative_to_the_likeliest() {
    let logits = logits_of(&[0.1, 0.5, 0.15, 0.25]);
    let kept = |min_p| ids(SamplingParams { min_p, ..warm() }, &logits);
    assert_eq!(kept(0.45), [1, 3]);
    assert_eq!(kept(0.25), [1, 2, 3]);
    assert_eq!(kept(1.0), [1]);
}

#[test]
fn filters_work_after_temperature_and_in_order() {
    // Temperature 0.5 squares the ratios: of the first two, 25/34 and 9/34 remain after top-k 2.
    let logits = logits_of(&[0.5, 0.3, 0.1, 0.1]);
    let params = SamplingParams { temperature: 0.5, top_k: 2, ..warm() };
    let distribution = sampler(params).distribution(&logits, &[]).unwrap();
    assert!((distribution[0].1 - 25.0 / 34.0).abs() < 1e-6);
    let params = SamplingParams { top_p: 0.7, ..params };
    assert_eq!(ids(params, &logits), [0]);
    let params = SamplingParams { temperature: 2.0, ..params };
    assert_eq!(ids(params, &logits), [0, 1]);
}

/// A slow, plain form of the filters: sort everything, in double precision.
fn plainly(params: SamplingParams, logits: &[f32]) -> Vec<u32> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| (f64::from(logit - max) / f64::from(params.temperature)).exp();
    let mut ranked: Vec<(u32, f64)> = (0..).zip(logits.iter().map(|&logit| weight(logit))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(if params.top_k == 0 { usize::MAX } else { params.top_k });
    let total: f64 = ranked.iter().map(|(_, w)| w).sum();
    let mut before = 0.0;
    ranked.retain(|(_, w)| {
        let stays = params.top_p == 1.0 || before < f64::from(params.top_p) * total;
        before += w;
        stays
    });
    ranked.retain(|(_, w)| *w >= f64::from(params.min_p));
    let mut ids: Vec<u32> = ranked.into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn filters_agree_with_a_plain_form() {
    let mut rng = Xoshiro256::new(11);
    for round in 0..300 {
        let length = 1 + (rng.next_u64() % 3000) as usize;
        let spread = [1.0, 5.0, 12.0][round % 3];
        let unit = |bits: u64| (bits >> 40) as f32 / (1 << 24) as f32;
        let logits: Vec<f32> = (0..length).map(|_| unit(rng.next_u64()) * spread).collect();
        let params = SamplingParams {
            temperature: 0.5 + unit(rng.next_u64()),
            top_k: [0, 1, 40, 500][(rng.next_u64() % 4) as usize],
            top_p: [1.0, 0.9, 0.3][(rng.next_u64() % 3) as usize],
            min_p: [0.0, 0.05][(rng.next_u64() % 2) as usize],
            ..warm()
        };
        assert_eq!(ids(params, &logits), plainly(params, &logits), "{params:?} over {length}");
    }
}

#[test]
fn the_repetition_penalty_divides_positive_and_multiplies_negative() {
    let params = SamplingParams { repetition_penalty: 2.0, ..SamplingParams::default() };
    let mut greedy = sampler(params);
    assert_eq!(greedy.sample(&[3.0, 2.0, -1.0], &[]), Ok(0));
    assert_eq!(greedy.sample(&[3.0, 2.0, -1.0], &[0, 0, 7]), Ok(1));
    assert_eq!(greedy.sample(&[-1.0, -1.5], &[0]), Ok(1));
    assert_eq!(greedy.sample(&[4.0, 2.0], &[0]), Ok(0));
}

#[test]
fn padding_is_never_chosen() {
    let logits = [1.0, 9.0, 2.0, 9.0, f32::NAN];
    for temperature in [0.0, 1.0] {
        let params = SamplingParams { temperature, ..warm() };
        let mut sampler = sampler(params).with_allowed(AllowedIds::new(3, |id| id != 1));
        for _ in 0..50 {
            assert!([0, 2].contains(&sampler.sample(&logits, &[]).unwrap()));
        }
        let nothing = AllowedIds::new(0, |_| true);
        let mut sampler = sampler.with_allowed(nothing);
        assert_eq!(sampler.sample(&logits, &[]), Err(SamplingError::NoCandidate { count: 5 }));
    }
}

#[test]
fn numbers_gone_wrong_are_errors() {
    for temperature in [0.0, 1.0] {
        for bad in [f32::NAN, f32::INFINITY] {
            for length in [3, 40] {
                for penalty in [1.0, 1.5] {
                    let mut logits = vec![0.5; length];
                    logits[2] = bad;
                    let params = SamplingParams { temperature, repetition_penalty: penalty, ..warm() };
                    let error = sampler(params).sample(&logits, &[0]).unwrap_err();
                    assert!(matches!(error, SamplingError::BadLogit { id: 2, .. }), "{error}");
                }
            }
        }
        let params = SamplingParams { temperature, ..warm() };
        for logits in [&[][..], &[f32::NEG_INFINITY; 20]] {
            let error = sampler(params).sample(logits, &[]).unwrap_err();
            assert!(matches!(error, SamplingError::NoCandidate { .. }));
        }
    }
}

#[test]
fn a_seed_repeats_a_run_and_another_does_not() {
    let logits: Vec<f32> = (0..500).map(|i| (i % 17) as f32 * 0.1).collect();
    let run = |seed| {
        let mut sampler = sampler(SamplingParams { seed, ..warm() });
        (0..40).map(|_| sampler.sample(&logits, &[]).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn draws_follow_the_probabilities() {
    let probabilities = [0.1, 0.5, 0.15, 0.25];
    let logits = logits_of(&probabilities);
    let mut sampler = sampler(warm());
    let mut counts = [0; 4];
    for _ in 0..20_000 {
        counts[sampler.sample(&logits, &[]).unwrap() as usize] += 1;
    }
    for (count, p) in counts.iter().zip(probabilities) {
        let share = f64::from(*count) / 20_000.0;
        assert!((share - f64::from(p)).abs() < 0.015, "{share} for {p}");
    }
}

#[test]
fn extreme_temperatures_and_logits_stay_finite() {
    for temperature in [1e-30, 1e-3, 1e30] {
        let mut sampler = sampler(SamplingParams { temperature, ..warm() });
        let logits = [f32::MAX, f32::MIN, 0.0, -1.0];
        assert!(sampler.sample(&logits, &[]).unwrap() < 4);
        assert_eq!(sampler.sample(&[1.0, f32::NEG_INFINITY], &[]), Ok(0));
    }
}
