//! Packed products: every form against the portable one to the bit, the portable one against decoded weights in double
//! precision.

use super::*;
use half::f16;

/// Marsaglia's xorshift generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From −1 to 1.
    fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

const ENCODINGS: [Encoding; 7] =
    [Encoding::Q8, Encoding::Q4, Encoding::Q2K, Encoding::Q3K, Encoding::Q4K, Encoding::Q5K, Encoding::Q6K];

/// Where the half-precision scales of a block lie.
fn scales_of(encoding: Encoding) -> &'static [usize] {
    match encoding {
        Encoding::Q4K | Encoding::Q5K => &[0, 2],
        Encoding::Q6K => &[208],
        Encoding::Q3K => &[108],
        Encoding::Q2K => &[80, 82],
        _ => &[],
    }
}

/// Random codes, all bits of them, under scales that are finite.
fn matrix(encoding: Encoding, rows: usize, k: usize, random: &mut Random) -> Vec<u8> {
    let blocks = rows * (k / encoding.block_len());
    let mut bytes: Vec<u8> = (0..blocks * encoding.block_bytes()).map(|_| (random.next() >> 32) as u8).collect();
    for block in bytes.chunks_mut(encoding.block_bytes()) {
        for &at in scales_of(encoding) {
            // Extreme, subnormal and ordinary scales.
            let scale = match random.below(8) {
                0 => f16::from_bits(random.below(1024) as u16),
                1 => f16::from_f32(60_000.0 * random.real()),
                2 => f16::ZERO,
                _ => f16::from_f32(random.real()),
            };
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    bytes
}

/// Bytes at an address that is a multiple of [`ALIGN`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGN]);

struct Aligned(Vec<Line>);

impl Aligned {
    fn new(len: usize) -> Self {
        Self(vec![Line([0xa5; ALIGN]); len / ALIGN])
    }

    #[allow(unsafe_code, reason = "plain bytes")]
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: lines are bytes without padding.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * ALIGN) }
    }
}

fn packed_bytes(w: &WeightRows<'_>, team: &Team) -> Aligned {
    let mut bytes = Aligned::new(Packed::bytes(w.encoding(), w.rows(), w.k()).unwrap());
    pack(w, bytes.bytes(), team).unwrap();
    bytes
}

/// The sets that this machine has.
fn sets() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| *isa <= Isa::best())
}

fn activations(m: usize, k: usize, random: &mut Random) -> Vec<f32> {
    (0..m * k)
        .map(|_| {
            let x = random.real();
            match random.below(64) {
                0 => x * 1000.0,
                1 => x * 1e-20,
                2 => 0.0,
                _ => x,
            }
        })
        .collect()
}

fn quantize(isa: Isa, x: &[f32], m: usize, k: usize) -> Quantized {
    let mut quantized = Quantized::default();
    quantized.quantize_on(isa, x, m, k, &Team::new(1).unwrap()).unwrap();
    quantized
}

#[test]
fn packed_products_are_near_double_precision() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let team = Team::new(2).unwrap();
    for encoding in ENCODINGS {
        for (m, n, k) in [(1, 16, 256), (3, 37, 768), (2, 5, 1024)] {
            let bytes = matrix(encoding, n, k, &mut random);
            let w = WeightRows::new(encoding, &bytes, n, k).unwrap();
            let mut aligned = packed_bytes(&w, &team);
            let packed = Packed::new(encoding, n, k, aligned.bytes()).unwrap();
            let x: Vec<f32> = (0..m * k).map(|_| random.real()).collect();
            let mut y = vec![0.0; m * n];
            matmul_packed_on(Isa::Portable, &quantize(Isa::Portable, &x, m, k), &packed, &mut y, &team).unwrap();
            let mut values = vec![0.0; n * k];
            encoding.decode(&bytes, &mut values).unwrap();
            for row in 0..m {
                for column in 0..n {
                    let pairs = || x[row * k..].iter().zip(&values[column * k..(column + 1) * k]);
                    let exact: f64 = pairs().map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                    let size: f64 = pairs().map(|(x, w)| (f64::from(*x) * f64::from(*w)).abs()).sum();
                    let error = (f64::from(y[row * n + column]) - exact).abs();
                    assert!(
                        error <= size * 2e-4 + 1e-30,
                        "{encoding} {m}x{n}x{k} [{row}, {column}]: {error} of {size}"
                    );
                }
            }
        }
    }
}

#[test]
fn packed_products_are_the_same_on_every_instruction_set() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let teams = [Team::new(1).unwrap(), Team::new(3).unwrap()];
    let shapes = [
        (1, 1, 1),
        (1, 16, 3),
        (2, 17, 1),
        (3, 40, 2),
        (5, 513, 2),
        (11, 20, 1),
        (16, 50, 2),
        (17, 33, 4),
        (33, 100, 2),
        (1, 80, 5),
        (513, 24, 1),
    ];
    for encoding in ENCODINGS {
        let blocks = |unit: usize| if encoding.block_len() == 256 { unit * 256 } else { unit * 7 * 32 + 32 };
        for (m, n, unit) in shapes {
            let k = blocks(unit);
            let bytes = matrix(encoding, n, k, &mut random);
            let w = WeightRows::new(encoding, &bytes, n, k).unwrap();
            let mut aligned = packed_bytes(&w, &teams[1]);
            let packed = Packed::new(encoding, n, k, aligned.bytes()).unwrap();
            let values = activations(m, k, &mut random);
            let mut portable = vec![0.0; m * n];
            matmul_packed_on(Isa::Portable, &quantize(Isa::Portable, &values, m, k), &packed, &mut portable, &teams[0])
                .unwrap();
            for isa in sets() {
                let x = quantize(isa, &values, m, k);
                for team in &teams {
                    let mut y = vec![f32::NAN; m * n];
                    matmul_packed_on(isa, &x, &packed, &mut y, team).unwrap();
                    let place = y.iter().zip(&portable).position(|(a, b)| a.to_bits() != b.to_bits());
                    assert_eq!(place.map(|at| (at, y[at], portable[at])), None, "{encoding} {m}x{n}x{k} {isa:?}");
                }
            }
        }
    }
}

#[test]
fn packed_products_have_stretches_of_any_length() {
    // Rows of up to 67 blocks, so that what stays in a cache ends anywhere.
    let mut random = Random(4711);
    let team = Team::new(2).unwrap();
    for (m, blocks) in [(512, 33), (520, 34), (512, 65), (300, 67), (16, 17), (6, 2), (40, 3), (40, 1)] {
        let (n, k) = (20, blocks * 32);
        let bytes = matrix(Encoding::Q8, n, k, &mut random);
        let w = WeightRows::new(Encoding::Q8, &bytes, n, k).unwrap();
        let mut aligned = packed_bytes(&w, &team);
        let packed = Packed::new(Encoding::Q8, n, k, aligned.bytes()).unwrap();
        let values = activations(m, k, &mut random);
        let mut outputs = sets().map(|isa| {
            let mut y = vec![f32::NAN; m * n];
            matmul_packed_on(isa, &quantize(isa, &values, m, k), &packed, &mut y, &team).unwrap();
            y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        let first = outputs.next().unwrap();
        assert!(outputs.all(|other| other == first), "{m} rows of {blocks} blocks");
    }
}

#[test]
fn packed_rows_do_not_depend_on_the_others() {
    let mut random = Random(77);
    let team = Team::new(1).unwrap();
    for encoding in ENCODINGS {
        let (m, n, k) = (40, 48, 512);
        let bytes = matrix(encoding, n, k, &mut random);
        let w = WeightRows::new(encoding, &bytes, n, k).unwrap();
        let mut aligned = packed_bytes(&w, &team);
        let packed = Packed::new(encoding, n, k, aligned.bytes()).unwrap();
        let mut values = activations(m, k, &mut random);
        values[3 * k] = f32::NAN;
        for isa in sets() {
            let mut all = vec![0.0; m * n];
            matmul_packed_on(isa, &quantize(isa, &values, m, k), &packed, &mut all, &team).unwrap();
            for row in 0..m {
                let mut one = vec![0.0; n];
                let x = quantize(isa, &values[row * k..(row + 1) * k], 1, k);
                matmul_packed_on(isa, &x, &packed, &mut one, &team).unwrap();
                let same = one.iter().zip(&all[row * n..]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same || row == 3, "{encoding} {isa:?} row {row}");
                assert!(row != 3 || one.iter().all(|y| y.is_nan()), "{encoding} {isa:?}: a NaN shows");
            }
        }
    }
}

#[test]
fn packed_matrices_are_checked() {
    assert!(Packed::bytes(Encoding::U16, 4, 64).is_err());
    assert!(Packed::bytes(Encoding::Q8, 4, 33).is_err());
    assert!(Packed::bytes(Encoding::Q8, usize::MAX, 1 << 20).is_err());
    assert!(Packed::bytes(Encoding::Q8, 1, usize::MAX - 31).is_err());
    let size = Packed::bytes(Encoding::Q4K, 17, 256).unwrap();
    let mut bytes = Aligned::new(size + ALIGN);
    assert!(Packed::new(Encoding::Q4K, 17, 256, &bytes.bytes()[..size]).is_ok());
    assert!(Packed::new(Encoding::Q4K, 17, 256, &bytes.bytes()[1..=size]).is_err());
    assert!(Packed::new(Encoding::Q4K, 17, 256, &bytes.bytes()[..size - ALIGN]).is_err());
    assert_eq!(Packed::bytes(Encoding::Q8, 0, 64).unwrap(), 0);
}

#[test]
fn packed_extreme_codes_do_not_overflow() {
    // Every code and activation at its end, so that each sum within a block is the largest.
    let (n, k) = (17, 512);
    let team = Team::new(1).unwrap();
    for encoding in ENCODINGS {
        for (fill, sign) in [(0xff, 1.0_f32), (0xff, -1.0), (0x80, 1.0), (0x80, -1.0), (0x7f, 1.0), (0, -1.0)] {
            let mut bytes = vec![fill; k * n / encoding.block_len() * encoding.block_bytes()];
            for block in bytes.chunks_exact_mut(encoding.block_bytes()) {
                for &at in scales_of(encoding) {
                    block[at..at + 2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
                }
            }
            let w = WeightRows::new(encoding, &bytes, n, k).unwrap();
            let mut aligned = packed_bytes(&w, &team);
            let packed = Packed::new(encoding, n, k, aligned.bytes()).unwrap();
            let mut decoded = vec![0.0; n * k];
            encoding.decode(&bytes, &mut decoded).unwrap();
            let want: f64 = decoded[..k].iter().map(|w| f64::from(*w) * f64::from(sign)).sum();
            for m in [1, 3, 9, 16] {
                for isa in sets() {
                    let x = quantize(isa, &vec![sign; m * k], m, k);
                    let mut y = vec![0.0; m * n];
                    matmul_packed_on(isa, &x, &packed, &mut y, &team).unwrap();
                    for y in y {
                        let error = (f64::from(y) - want).abs();
                        assert!(
                            error <= want.abs().max(1e-3) * 1e-5,
                            "{encoding} {fill} {sign} {isa:?}: {y}, not {want}"
                        );
                    }
                }
            }
        }
    }
}
