//! Tests of `q8` and `q4`: layout, and the choice of the stored scale.

use super::*;

#[test]
fn q8_layout() {
    let mut block = vec![2, 1];
    block.extend((0..32).map(|code: u8| (code * 8).wrapping_sub(128)));
    let values = decoded(Encoding::Q8, &block);
    for (index, value) in values.iter().enumerate() {
        let exact = (index as f64 * 8.0 - 128.0) * 258.0 / 32512.0;
        assert_eq!(*value, exact as f32, "one rounding of {exact}");
    }
    // Every product of a code and a scale is rounded once.
    for scale in [1_u16, 7, 129, 255, 4097, 32767, 65535] {
        for code in -128..=127_i8 {
            let mut block = vec![code as u8; 34];
            block[..2].copy_from_slice(&scale.to_le_bytes());
            let exact = f64::from(code) * f64::from(scale) / 32512.0;
            assert_eq!(decoded(Encoding::Q8, &block)[0], exact as f32);
        }
    }
}

/// The slow, obvious encoder: the given scales one after the other, by what they decode to.
fn least_error(encoding: Encoding, values: &[f32], scales: std::ops::RangeInclusive<u16>) -> f64 {
    let (divisor, least, most) = match encoding {
        Encoding::Q8 => (32512.0, -127.0, 127.0),
        _ => (2048.0, -8.0, 7.0),
    };
    scales
        .map(|scale| {
            let step = f64::from(scale) / divisor;
            let errors = values.iter().map(|&value| {
                let value = f64::from(value);
                let code = (value / step).round().clamp(least, most);
                let code = if scale == 0 { 0.0 } else { code };
                (value - code * step).powi(2)
            });
            errors.sum()
        })
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn q8_takes_the_best_of_the_covering_scale_and_its_neighbours() {
    let mut random = Random(2);
    for round in 0..3000 {
        let deviation = 10.0_f32.powf(random.unit() * 3.0 - 1.5);
        let values = random.values(32, deviation);
        let magnitude = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let cover = (magnitude * 256.0).ceil() as u16;
        let block = encoded(Encoding::Q8, &values);
        let scale = scale_of(&block);
        assert!(scale.abs_diff(cover) <= 1, "round {round}: {scale}, {cover} covers");
        let error = squared_error(&values, &decoded(Encoding::Q8, &block));
        let least = least_error(Encoding::Q8, &values, cover.saturating_sub(1)..=cover + 1);
        assert!(error <= least * 1.000_01, "round {round}: {error} against {least}");
        // No value is further than half a step, but for one cut off by the smaller scale.
        let half = f64::from(scale) / 32512.0 * 0.500_01;
        for (value, found) in values.iter().zip(decoded(Encoding::Q8, &block)) {
            let cut = f64::from(value.abs()) > f64::from(scale) / 256.0;
            let difference = (f64::from(*value) - f64::from(found)).abs();
            assert!(cut || difference <= half, "round {round}: {value} became {found}");
        }
    }
}

#[test]
fn q8_encodes_again_what_it_decoded() {
    let mut random = Random(3);
    for _ in 0..500 {
        // From magnitudes of 2 on, the largest value always has the largest code.
        let mut values = random.values(32, 3.0);
        values[7] = 2.5;
        let once = encoded(Encoding::Q8, &values);
        assert_eq!(encoded(Encoding::Q8, &decoded(Encoding::Q8, &once)), once);
    }
}

#[test]
fn q4_layout() {
    let mut block = vec![0x00, 0x08];
    block.extend((0..16).map(|low: u8| low | (15 - low) << 4));
    let values = decoded(Encoding::Q4, &block);
    let expected: Vec<f32> = (-8..=7).chain((-8..=7).rev()).map(|code| code as f32).collect();
    assert_eq!(values, expected);
    assert_eq!(encoded(Encoding::Q4, &values), block);
}

#[test]
fn q4_takes_the_best_scale_of_its_range() {
    let mut random = Random(4);
    for round in 0..1500 {
        let deviation = 10.0_f32.powf(random.unit() * 2.5 - 1.2).min(20.0);
        let mut values = random.values(32, deviation);
        if round % 3 == 0 {
            // Exact steps, to meet ties.
            let step = 10.0_f32.powf(random.unit());
            values = values.iter().map(|value| (value / step).round() * step).collect();
        }
        let magnitude = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let (low, high) = q4::candidates(magnitude.into());
        let block = encoded(Encoding::Q4, &values);
        let scale = scale_of(&block);
        assert!((low..=high).contains(&scale), "round {round}: {scale} of {low} to {high}");
        let error = squared_error(&values, &decoded(Encoding::Q4, &block));
        let least = least_error(Encoding::Q4, &values, low..=high);
        assert!(error <= least * 1.000_01 + 1e-12, "round {round}: {error} against {least}");
        let wide = std::array::from_fn(|index| f64::from(values[index]));
        let slow = q4::search_one_by_one(&wide, low, high);
        let (fast, slow) = (q4::squared_error(&wide, scale), q4::squared_error(&wide, slow));
        assert!(fast <= slow * (1.0 + 1e-9) + 1e-12, "round {round}: {fast} against {slow}");
    }
}

#[test]
fn q4_candidates() {
    assert_eq!(q4::candidates(0.0), (0, 0));
    assert_eq!(q4::candidates(1.0), (205, 332));
    assert_eq!(q4::candidates(1.25), (256, 416));
    assert_eq!(q4::candidates(127.0), (26010, MAX_SCALE));
    // No integer from 0.8 to 1.3: those around.
    assert_eq!(q4::candidates(0.7 / 256.0), (0, 1));
    assert_eq!(q4::candidates(0.9 / 256.0), (1, 1));
}

#[test]
fn q4_values_survive_a_second_encoding() {
    let mut random = Random(5);
    for _ in 0..500 {
        let bytes = {
            let mut block = random.bytes(18);
            block[1] &= 0x3f;
            block[2] = 0x80;
            block
        };
        let values = decoded(Encoding::Q4, &bytes);
        assert_eq!(decoded(Encoding::Q4, &encoded(Encoding::Q4, &values)), values);
    }
}

#[test]
fn scales_stay_signed_for_other_readers() {
    let limit = f32::from(MAX_SCALE) / 256.0;
    for (encoding, most) in [(Encoding::Q8, limit), (Encoding::Q4, limit * 7.0 / 8.0)] {
        let mut values = vec![0.25; 32];
        values[9] = most;
        values[10] = -limit;
        let block = encoded(encoding, &values);
        assert!(scale_of(&block) <= MAX_SCALE);
        let found = decoded(encoding, &block)[10];
        assert!((found + limit).abs() < limit / 16.0, "{encoding}: {found}");
        values[20] = most * 1.001;
        let error = encoding.encode(&values, &mut Vec::new());
        let limit = f64::from(most);
        assert!(matches!(
            error,
            Err(EncodingError::OutOfRange { index: 20, limit: found, .. }) if (found - limit).abs() < 0.01
        ));
    }
}
