//! Tests of the encodings. The comparison with llama.cpp is in `tests/encoding_goldens.rs`.

mod gguf;
mod scaled;

use super::gguf::GgmlType;
use super::*;

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// In −1 ..= 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Roughly normal, of the given deviation.
    fn normal(&mut self, deviation: f32) -> f32 {
        (0..12).map(|_| self.unit()).sum::<f32>() * 0.5 * deviation
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 32) as u8).collect()
    }

    fn values(&mut self, len: usize, deviation: f32) -> Vec<f32> {
        (0..len).map(|_| self.normal(deviation)).collect()
    }
}

fn encoded(encoding: Encoding, values: &[f32]) -> Vec<u8> {
    let mut out = Vec::new();
    encoding.encode(values, &mut out).unwrap();
    out
}

fn decoded(encoding: Encoding, bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; bytes.len() / encoding.block_bytes() * encoding.block_len()];
    encoding.decode(bytes, &mut out).unwrap();
    out
}

fn scale_of(block: &[u8]) -> u16 {
    u16::from_le_bytes([block[0], block[1]])
}

/// Σ(a − b)² in double precision.
fn squared_error(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum()
}

#[test]
fn table() {
    let table = [
        ("u32", 1, 4, 4),
        ("u16", 1, 2, 2),
        ("q8", 32, 34, 2),
        ("q4", 32, 18, 2),
        ("ternary", 4, 1, 1),
        ("q2k", 256, 84, 2),
        ("q3k", 256, 110, 2),
        ("q4k", 256, 144, 2),
        ("q5k", 256, 176, 2),
        ("q6k", 256, 210, 2),
    ];
    for (encoding, (name, len, bytes, alignment)) in Encoding::ALL.into_iter().zip(table) {
        assert_eq!(encoding.name(), name);
        assert_eq!(encoding.to_string(), name);
        assert_eq!(Encoding::from_name(name), Some(encoding));
        assert_eq!(name.parse(), Ok(encoding));
        assert_eq!(encoding.block_len(), len);
        assert_eq!(encoding.block_bytes(), bytes);
        assert_eq!(encoding.alignment(), alignment);
        assert_eq!(encoding.is_block(), len >= 32);
        assert_eq!(encoding.byte_len(3 * len as u64), Some(3 * bytes as u64));
        assert_eq!(encoding.byte_len(0), Some(0));
        if len > 1 {
            assert_eq!(encoding.byte_len(len as u64 + 1), None);
        }
    }
    assert_eq!(Encoding::U32.byte_len(u64::MAX), None);
    assert_eq!(Encoding::Q8.byte_len(u64::MAX - 31), None);
    assert_eq!(Encoding::from_name("Q8"), None);
    let message = "q5".parse::<Encoding>().unwrap_err().to_string();
    assert!(message.contains("\"q5\"") && message.contains("q5k"), "{message}");
}

#[test]
fn fixed_point() {
    let bytes = encoded(Encoding::U32, &[1.0, -0.5, 1.0 / 65536.0, -32768.0, 32767.998]);
    let words: Vec<i32> = bytes.as_chunks::<4>().0.iter().map(|raw| i32::from_le_bytes(*raw)).collect();
    assert_eq!(words, [65536, -32768, 1, i32::MIN, 0x7fff_ff80]);
    assert_eq!(encoded(Encoding::U16, &[1.0, -0.5, 127.997]), [0, 1, 0x80, 0xff, 0xff, 0x7f]);
    // Ties go to even.
    assert_eq!(encoded(Encoding::U16, &[0.5 / 256.0, 1.5 / 256.0]), [0, 0, 2, 0]);
    assert_eq!(decoded(Encoding::U16, &[0x00, 0x80, 0xff, 0x7f]), [-128.0, 32767.0 / 256.0]);
    assert_eq!(decoded(Encoding::U32, &[0xff, 0xff, 0xff, 0x7f]), [32768.0]);
    for (encoding, value, limit) in [
        (Encoding::U32, 32768.0, f64::from(i32::MAX) / 65536.0),
        (Encoding::U32, -32769.0, -32768.0),
        (Encoding::U16, 128.0, 32767.0 / 256.0),
        (Encoding::U16, -128.01, -128.0),
        (Encoding::U16, 3e38, 32767.0 / 256.0),
    ] {
        let error = encoding.encode(&[0.0, value], &mut Vec::new());
        let expected = EncodingError::OutOfRange { index: 1, value, limit };
        assert_eq!(error, Err(expected));
    }
}

#[test]
fn fixed_point_and_ternary_encode_what_they_decode() {
    let mut random = Random(1);
    let bytes = random.bytes(2 * 4096);
    assert_eq!(encoded(Encoding::U16, &decoded(Encoding::U16, &bytes)), bytes);
    let mut bytes = random.bytes(4 * 4096);
    // Single precision holds 24 bits of the 32.
    bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|raw| {
        raw[3] = if raw[2] & 0x80 == 0 { 0 } else { 0xff };
    });
    assert_eq!(encoded(Encoding::U32, &decoded(Encoding::U32, &bytes)), bytes);
    let mut bytes = random.bytes(4096);
    for byte in &mut bytes {
        *byte &= !(*byte >> 1 & 0x55);
    }
    assert_eq!(encoded(Encoding::Ternary, &decoded(Encoding::Ternary, &bytes)), bytes);
}

#[test]
fn ternary_codes() {
    assert_eq!(encoded(Encoding::Ternary, &[1.0, -1.0, 0.0, -0.0]), [0b00_00_10_01]);
    assert_eq!(decoded(Encoding::Ternary, &[0b10_00_01_00]), [0.0, 1.0, 0.0, -1.0]);
    let mut out = [0.0; 8];
    let error = Encoding::Ternary.decode(&[0b10_01_00_10, 0b01_11_00_01], &mut out);
    assert_eq!(error, Err(EncodingError::InvalidTernary { index: 6 }));
    let mut bytes = vec![0b10_01_00_10; 10_000];
    assert_eq!(Encoding::Ternary.check(&bytes), Ok(()));
    bytes[9_000] = 0b11_00_00_00;
    bytes[9_001] = 0b11;
    let error = Encoding::Ternary.check(&bytes);
    assert_eq!(error, Err(EncodingError::InvalidTernary { index: 36_003 }));
    let error = Encoding::Ternary.encode(&[0.0, 1.0, 0.5, 0.0], &mut Vec::new());
    let expected = EncodingError::NotTernary { index: 2, value: 0.5 };
    assert_eq!(error, Err(expected));
}

#[test]
fn zeros_stay_zeros() {
    for encoding in Encoding::ALL {
        let zeros = vec![0.0; 512];
        assert_eq!(decoded(encoding, &encoded(encoding, &zeros)), zeros, "{encoding}");
    }
    for encoding in [Encoding::Q8, Encoding::Q4] {
        assert_eq!(scale_of(&encoded(encoding, &[0.0; 32])), 0);
        assert_eq!(scale_of(&encoded(encoding, &[1e-9; 32])), 0);
    }
}

#[test]
fn k_quant_errors_shrink_with_their_width() {
    let mut random = Random(6);
    let values = random.values(256 * 20, 0.02);
    let expected = [
        (Encoding::Q2K, 0.25, 0.34),
        (Encoding::Q3K, 0.12, 0.18),
        (Encoding::Q4K, 0.06, 0.08),
        (Encoding::Q5K, 0.03, 0.045),
        (Encoding::Q6K, 0.014, 0.02),
        (Encoding::Q8, 0.003, 0.008),
    ];
    for (encoding, least, most) in expected {
        let error = relative_rms_error(&values, &decoded(encoding, &encoded(encoding, &values)));
        assert!((least..most).contains(&error), "{encoding}: {error}");
    }
}

#[test]
fn values_that_do_not_fit_are_errors_and_leave_the_output() {
    for encoding in Encoding::ALL {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![1.0; 768];
            values[700] = bad;
            let mut out = vec![1, 2, 3];
            let error = encoding.encode(&values, &mut out);
            assert_eq!(error, Err(EncodingError::NotFinite { index: 700 }), "{encoding}");
            assert_eq!(out, [1, 2, 3], "{encoding}");
        }
        if encoding == Encoding::Ternary {
            continue;
        }
        for bad in [1e9, -1e9, f32::MAX, f32::MIN] {
            let mut values = vec![1.0; 768];
            values[300] = bad;
            match encoding.encode(&values, &mut Vec::new()) {
                Err(EncodingError::OutOfRange { index: 300, value, limit }) => {
                    assert_eq!(value, bad, "{encoding}");
                    assert_eq!(limit < 0.0, bad < 0.0, "{encoding}");
                    assert!(limit.abs() < 1e9, "{encoding}: {limit}");
                }
                other => panic!("{encoding}: {other:?}"),
            }
        }
    }
}

#[test]
fn k_quants_never_store_an_infinite_scale() {
    let mut random = Random(7);
    for encoding in &Encoding::ALL[5..] {
        let mut outcomes = [0, 0];
        for _ in 0..400 {
            let deviation = 10.0_f32.powf(5.5 + random.unit() * 3.5);
            let values = random.values(256, deviation);
            let mut out = Vec::new();
            match encoding.encode(&values, &mut out) {
                Ok(()) => {
                    assert_eq!(encoding.check(&out), Ok(()));
                    outcomes[0] += 1;
                }
                Err(EncodingError::OutOfRange { .. }) => outcomes[1] += 1,
                Err(other) => panic!("{encoding}: {other}"),
            }
        }
        assert!(outcomes[0] > 0 && outcomes[1] > 0, "{encoding}: {outcomes:?}");
    }
}

#[test]
fn any_bytes_decode_without_panic() {
    let mut random = Random(8);
    for encoding in Encoding::ALL {
        for blocks in [0, 1, 2, 9] {
            let bytes = random.bytes(blocks * encoding.block_bytes());
            let mut out = vec![0.0; blocks * encoding.block_len()];
            let decoded = encoding.decode(&bytes, &mut out);
            let invalid = matches!(decoded, Err(EncodingError::InvalidTernary { .. }));
            assert!(decoded.is_ok() || encoding == Encoding::Ternary && invalid);
            let finite = out.iter().all(|value| value.is_finite());
            assert!(finite || encoding.check(&bytes).is_err(), "{encoding}");
        }
    }
    for ty in GgmlType::ALL {
        let bytes = random.bytes(9 * ty.block_bytes());
        ty.decode(&bytes, &mut vec![0.0; 9 * ty.block_len()]).unwrap();
    }
}

#[test]
fn infinite_scales_are_reported() {
    for (encoding, place) in
        [(Encoding::Q2K, 82), (Encoding::Q3K, 108), (Encoding::Q4K, 0), (Encoding::Q5K, 2), (Encoding::Q6K, 208)]
    {
        let mut bytes = vec![0; 3 * encoding.block_bytes()];
        assert_eq!(encoding.check(&bytes), Ok(()));
        bytes[2 * encoding.block_bytes() + place + 1] = 0x7c;
        let error = encoding.check(&bytes);
        assert_eq!(error, Err(EncodingError::NotFinite { index: 512 }), "{encoding}");
    }
}

#[test]
fn hostile_lengths() {
    for encoding in Encoding::ALL {
        let (block, size) = (encoding.block_len(), encoding.block_bytes());
        for len in 0..700 {
            let expected = if len % block == 0 { Ok(()) } else { Err(EncodingError::NotWholeBlocks { len, block }) };
            assert_eq!(encoding.encode(&vec![0.0; len], &mut Vec::new()), expected);
            let bytes = vec![0; len];
            let mut out = vec![0.0; len / size * block];
            let expected =
                if len % size == 0 { Ok(()) } else { Err(EncodingError::NotWholeBlocks { len, block: size }) };
            assert_eq!(encoding.decode(&bytes, &mut out), expected);
            assert_eq!(encoding.check(&bytes), expected);
        }
        for values in [0, block - 1, block + 1, 2 * block] {
            let error = encoding.decode(&vec![0; size], &mut vec![0.0; values]);
            let expected = EncodingError::LengthMismatch { blocks: 1, block, values };
            assert_eq!(error, Err(expected), "{encoding}");
        }
    }
    for ty in GgmlType::ALL {
        let (block, size) = (ty.block_len(), ty.block_bytes());
        assert!(ty.decode(&vec![0; size + 1], &mut vec![0.0; block]).is_err());
        assert!(ty.decode(&vec![0; size], &mut vec![0.0; block + 1]).is_err());
        assert_eq!(ty.byte_len(5 * block as u64), Some(5 * size as u64));
        assert_eq!(ty.byte_len(u64::MAX), None);
    }
}

#[test]
fn meter() {
    assert_eq!(relative_rms_error(&[], &[]), 0.0);
    assert_eq!(relative_rms_error(&[0.0], &[0.0]), 0.0);
    assert_eq!(relative_rms_error(&[0.0], &[1.0]), f64::INFINITY);
    assert_eq!(relative_rms_error(&[1.0, 2.0], &[1.0]), f64::INFINITY);
    assert!(relative_rms_error(&[1.0], &[f32::NAN]).is_nan());
    assert_eq!(relative_rms_error(&[3.0, 4.0], &[3.0, 3.0]), 0.2);

    let mut random = Random(9);
    let (a, b) = (random.values(1000, 1.0), random.values(1000, 1.0));
    let whole = relative_rms_error(&a, &b);
    let direct = squared_error(&a, &b) / squared_error(&a, &[0.0; 1000]);
    assert!((whole - direct.sqrt()).abs() < 1e-12);
    let mut parts = ErrorMeter::new();
    let mut other = ErrorMeter::new();
    parts.add(&a[..123], &b[..123]);
    other.add(&a[123..], &b[123..]);
    parts.merge(&other);
    assert!((parts.relative_rms() - whole).abs() < 1e-12);
    assert_eq!(parts.values(), 1000);
    let largest = a.iter().zip(&b).fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
    assert!((parts.largest() - f64::from(largest)).abs() < 1e-6);
}

#[test]
fn errors_speak_of_the_whole_tensor_after_a_shift() {
    let error = EncodingError::OutOfRange { index: 3, value: 200.0, limit: 127.99609375 };
    let shifted = error.shifted(1000);
    assert_eq!(shifted.index(), Some(1003));
    assert_eq!(shifted.to_string(), "value 1003 is 200, beyond the encoding's range up to 127.99609375");
    let blocks = EncodingError::NotWholeBlocks { len: 33, block: 32 };
    assert_eq!(blocks.shifted(5), blocks);
    assert_eq!(blocks.to_string(), "length 33 is not a whole number of blocks of 32");
}
