//! Products of exact encodings: each kernel against the portable one to the bit, the portable one
//! against decoded weights in double precision.

use super::*;
use tallow_format::Encoding;

/// Marsaglia's xorshift generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 20) as usize % n
    }

    /// Uniform in −1 … 1.
    fn value(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.value()).collect()
    }

    /// Any bytes that are valid in an encoding, with finite scales.
    fn weights(&mut self, encoding: Encoding, n: usize, k: usize) -> Vec<u8> {
        let block = encoding.block_bytes();
        let mut bytes: Vec<u8> = (0..n * k / encoding.block_len() * block).map(|_| (self.next() >> 30) as u8).collect();
        for block in bytes.chunks_exact_mut(block) {
            if encoding == Encoding::Ternary {
                // A pair of bits 11 becomes 01.
                block[0] &= !(block[0] >> 1 & 0x55) << 1 | 0x55;
            }
            if encoding == Encoding::U32 {
                // About −2 … 2.
                let value = i32::from_le_bytes([block[0], block[1], block[2], block[3]]) >> 14;
                block.copy_from_slice(&value.to_le_bytes());
            }
        }
        bytes
    }
}

/// The instruction sets of this machine.
fn sets() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|&isa| isa <= Isa::best()).collect()
}

fn shapes(encoding: Encoding, random: &mut Random) -> Vec<(usize, usize, usize)> {
    let block = encoding.block_len();
    let mut shapes = vec![(1, 1, block), (1, 33, 3 * block), (70, 17, 2 * block)];
    for _ in 0..6 {
        let k = block * (1 + random.below(300 / block));
        shapes.push((1 + random.below(20), 1 + random.below(60), k));
    }
    shapes
}

/// Largest difference over largest magnitude.
fn error(got: &[f32], want: &[f64]) -> f64 {
    let most = want.iter().fold(1e-30_f64, |most, x| most.max(x.abs()));
    got.iter().zip(want).map(|(&got, want)| (f64::from(got) - want).abs()).fold(0.0, f64::max) / most
}

fn product(x: &[f64], w: &[f32], m: usize, n: usize, k: usize) -> Vec<f64> {
    let mut y = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            let (x, w) = (&x[i * k..(i + 1) * k], &w[j * k..(j + 1) * k]);
            y[i * n + j] = x.iter().zip(w).map(|(x, &w)| x * f64::from(w)).sum();
        }
    }
    y
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn kernels_matmul_matches_decoded_weights_and_itself() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let teams = [1, 2, 3].map(|threads| Team::new(threads).unwrap());
    for encoding in Encoding::ALL.into_iter().filter(|encoding| !encoding.is_block()) {
        for (m, n, k) in shapes(encoding, &mut random) {
            // An odd offset: stored bytes need no alignment.
            let mut bytes = vec![0];
            bytes.extend(random.weights(encoding, n, k));
            let bytes = &bytes[1..];
            let scale = random.values(n);
            let mut w = WeightRows::new(encoding, bytes, n, k).unwrap();
            let mut decoded = vec![0.0; n * k];
            encoding.decode(bytes, &mut decoded).unwrap();
            if encoding == Encoding::Ternary {
                w = w.with_scale(&scale).unwrap();
                for (row, scale) in decoded.chunks_mut(k).zip(&scale) {
                    row.iter_mut().for_each(|value| *value *= scale);
                }
            }
            let x = random.values(m * k);
            let exact: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let mut first: Option<Vec<f32>> = None;
            for isa in sets() {
                for team in &teams {
                    let mut y = vec![f32::NAN; m * n];
                    matmul_on(isa, &x, m, k, &w, &mut y, team).unwrap();
                    let first = first.get_or_insert_with(|| y.clone());
                    assert_eq!(bits(first), bits(&y), "{encoding} {m}x{n}x{k} {isa:?}");
                }
                for row in [0, m - 1] {
                    let mut y = vec![f32::NAN; n];
                    let x = &x[row * k..(row + 1) * k];
                    matmul_on(isa, x, 1, k, &w, &mut y, &teams[1]).unwrap();
                    let many = &first.as_ref().unwrap()[row * n..(row + 1) * n];
                    assert_eq!(bits(&y), bits(many), "{encoding} row {row} of {m}x{n}x{k}");
                }
            }
            let y = first.unwrap();
            let want = product(&exact, &decoded, m, n, k);
            assert!(error(&y, &want) < 1e-6 * (k as f64).sqrt(), "{encoding} {m}x{n}x{k}");
        }
    }
}

#[test]
fn kernels_matmul_of_computed_matrices() {
    let mut random = Random(88_172_645_463_325_252);
    for (m, n, k) in [(1, 1, 1), (5, 7, 3), (4, 9, 8), (13, 18, 61), (70, 5, 130), (10, 150, 4003)] {
        let (x, w) = (random.values(m * k), random.values(n * k));
        let exact: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let want = product(&exact, &w, m, n, k);
        let mut first: Option<Vec<f32>> = None;
        for isa in sets() {
            for threads in [1, 2, 3] {
                let team = Team::new(threads).unwrap();
                let mut y = vec![f32::NAN; m * n];
                f32_on(isa, &x, m, k, &w, n, &mut y, &team).unwrap();
                assert!(error(&y, &want) < 1e-6 * (k as f64).sqrt());
                let first = first.get_or_insert_with(|| y.clone());
                assert_eq!(bits(first), bits(&y), "{m}x{n}x{k} {isa:?}");
            }
            let mut y = vec![f32::NAN; n];
            f32_on(isa, &x[..k], 1, k, &w, n, &mut y, &Team::new(1).unwrap()).unwrap();
            assert_eq!(bits(&first.as_ref().unwrap()[..n]), bits(&y));
        }
    }
}

#[test]
fn kernels_matmul_keeps_nan_and_infinity() {
    let team = Team::new(1).unwrap();
    for encoding in [Encoding::U16, Encoding::U32] {
        let bytes = Random(7).weights(encoding, 3, 256);
        let w = WeightRows::new(encoding, &bytes, 3, 256).unwrap();
        for bad in [f32::NAN, f32::INFINITY] {
            let mut x = vec![0.25; 512];
            x[300] = bad;
            let mut y = [0.0; 6];
            matmul(&x, 2, 256, &w, &mut y, &team).unwrap();
            assert!(y[..3].iter().all(|y| y.is_finite()));
            assert!(y[3..].iter().all(|y| !y.is_finite()), "{encoding} {y:?}");
        }
    }
}

#[test]
fn kernels_matmul_refuses_shapes_that_do_not_fit() {
    let team = Team::new(1).unwrap();
    let bytes = [0; 34 * 2];
    assert!(WeightRows::new(Encoding::Q8, &bytes, 2, 31).is_err());
    assert!(WeightRows::new(Encoding::Q8, &bytes, 3, 32).is_err());
    assert!(WeightRows::new(Encoding::Q8, &bytes, usize::MAX, 64).is_err());
    assert!(WeightRows::new(Encoding::Q6K, &[], usize::MAX / 256, usize::MAX & !255).is_err());
    let w = WeightRows::new(Encoding::Q8, &bytes, 2, 32).unwrap();
    assert!(w.with_scale(&[1.0]).is_err());
    assert!(w.slice(1..3).is_err());
    assert_eq!(w.slice(1..2).unwrap().bytes().len(), 34);
    let mut y = [0.0; 2];
    let block = w;
    assert!(matmul(&[0.0; 32], 1, 32, &block, &mut y, &team).is_err());
    let w = WeightRows::new(Encoding::U16, &bytes[..64], 2, 16).unwrap();
    assert!(matmul(&[0.0; 64], 1, 64, &w, &mut y, &team).is_err());
    assert!(matmul(&[0.0; 15], 1, 16, &w, &mut y, &team).is_err());
    assert!(matmul(&[0.0; 16], 1, 16, &w, &mut y[..1], &team).is_err());
    assert!(matmul(&[0.0; 16], usize::MAX, 16, &w, &mut y, &team).is_err());
    assert!(matmul_f32(&[0.0; 4], 1, 4, &[0.0; 4], 2, &mut y, &team).is_err());
    matmul(&[], 0, 16, &w, &mut [], &team).unwrap();
    matmul(&[0.0; 16], 1, 16, &w, &mut y, &team).unwrap();
    matmul_f32(&[], 3, 0, &[], 2, &mut [1.0; 6], &team).unwrap();
}
