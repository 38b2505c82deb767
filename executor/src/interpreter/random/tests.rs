use super::*;

/// The share of standard normal values below `x`, by the series of the error function.
fn share_below(x: f64) -> f64 {
    let z = x / std::f64::consts::SQRT_2;
    let (mut term, mut sum) = (z, z);
    for n in 1..400 {
        let n = f64::from(n);
        term *= -z * z / n;
        sum += term / (2.0 * n + 1.0);
    }
    0.5 + sum / std::f64::consts::PI.sqrt()
}

#[test]
fn quantiles_are_those_of_the_normal_distribution() {
    // Published quantiles of 0.975, 0.999 and 1e-9.
    for (p, want) in
        [(0.5, 0.0), (0.975, 1.959_963_984_540_054), (0.999, 3.090_232_306_167_813_5), (1e-9, -5.997_807_015_007_682)]
    {
        let bits = ((p * (1u64 << 52) as f64) as u64) << 12;
        let got = f64::from(standard_normal(bits));
        assert!((got - want).abs() < 4e-7, "{p}: {got}");
    }
    for i in 1..1000 {
        let bits = (u64::MAX / 1000) * i;
        let share = share_below(f64::from(standard_normal(bits)));
        assert!((share - i as f64 / 1000.0).abs() < 1e-7, "{i}: {share}");
    }
    assert!((natural_log(10.0) - 10f64.ln()).abs() < 1e-15 && (natural_log(1e-17) - 1e-17f64.ln()).abs() < 1e-14);
    let (least, most) = (standard_normal(0), standard_normal(u64::MAX));
    assert!(least == -most && (8.0..9.0).contains(&most), "{least} {most}");
}

/// The values of draw `draws` of a session.
fn draw(seed: u64, draws: u64, payload: u32, n: u64) -> Vec<f32> {
    let key = RandomState { seed, draws }.next(payload);
    (0..n).map(|i| standard_normal(at(key, i))).collect()
}

#[test]
fn values_are_normal_and_independent() {
    const N: usize = 100_000;
    let values = draw(3, 0, 7, N as u64);
    let mean = |f: &dyn Fn(f64) -> f64| values.iter().map(|&v| f(f64::from(v))).sum::<f64>() / N as f64;
    // Four standard errors of each moment.
    let bound = |variance: f64| 4.0 * (variance / N as f64).sqrt();
    assert!(mean(&|v| v).abs() < bound(1.0));
    assert!((mean(&|v| v * v) - 1.0).abs() < bound(2.0));
    assert!(mean(&|v| v.powi(3)).abs() < bound(15.0));
    assert!((mean(&|v| v.powi(4)) - 3.0).abs() < bound(96.0));
    // Kolmogorov and Smirnov: the distance that a sample exceeds once in ten thousand.
    let mut sorted: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    sorted.sort_by(f64::total_cmp);
    let distance = sorted.iter().enumerate().map(|(i, &v)| (share_below(v) - (i as f64 + 0.5) / N as f64).abs());
    let worst = distance.fold(0.0, f64::max);
    assert!(worst < 2.2 / (N as f64).sqrt(), "{worst}");
    // Neighbours, and the same places of other draws, sessions and payloads, have nothing in common.
    let correlation = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(x * y)).sum::<f64>() / N as f64;
    assert!(correlation(&values[1..], &values).abs() < bound(1.0));
    for other in [draw(3, 1, 7, N as u64), draw(4, 0, 7, N as u64), draw(3, 0, 8, N as u64)] {
        assert!(correlation(&other, &values).abs() < bound(1.0));
    }
}

#[test]
fn a_value_follows_from_its_place_alone() {
    assert_eq!(draw(1, 2, 3, 10)[..5], draw(1, 2, 3, 5));
    assert_ne!(draw(1, 2, 3, 5), draw(2, 1, 3, 5));
    // The same bytes on every machine.
    let bits: Vec<u32> = draw(0, 0, 0, 4).iter().map(|v| v.to_bits()).collect();
    assert_eq!(bits, [3_213_911_176, 3_218_252_794, 1_054_978_859, 1_056_876_872]);
}
