//! The inner loops of attention: one query with a block of keys, and with a block of values.

use super::super::Isa;
use super::super::math::{LANES, add_lanes};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Keys or values per block.
pub(super) const KEYS: usize = 8;

/// The products of a query with `count` keys (1 to [`KEYS`]), whose rows are `stride` elements
/// apart; `out` beyond them is of no meaning.
#[allow(unsafe_code, reason = "a call into a function compiled for AVX2")]
pub(super) fn score_keys(isa: Isa, q: &[f32], keys: &[f32], stride: usize, count: usize, out: &mut [f32; KEYS]) {
    assert!((1..=KEYS).contains(&count) && keys.len() >= (count - 1) * stride + q.len(), "a block holds its keys");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the features were found, and the length of the keys was checked above.
        isa if isa >= Isa::Avx2 => unsafe { avx2::score_keys(q, keys.as_ptr(), stride, count, out) },
        _ => {
            for (i, out) in out.iter_mut().enumerate().take(count) {
                *out = score(q, &keys[i * stride..i * stride + q.len()]);
            }
        }
    }
}

/// `out += Σ weight[i] · value[i]` in ascending order of `i`; rows of values are `stride` elements
/// apart.
#[allow(unsafe_code, reason = "a call into a function compiled for AVX2")]
pub(super) fn add_values(isa: Isa, weights: &[f32], values: &[f32], stride: usize, out: &mut [f32]) {
    assert!(weights.is_empty() || values.len() >= (weights.len() - 1) * stride + out.len(), "a block holds its values");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the features were found, and the length of the values was checked above.
        isa if isa >= Isa::Avx2 => unsafe { avx2::add_values(weights, values.as_ptr(), stride, out) },
        _ => {
            for (i, weight) in weights.iter().enumerate() {
                for (out, value) in out.iter_mut().zip(&values[i * stride..]) {
                    *out = weight.mul_add(*value, *out);
                }
            }
        }
    }
}

/// Half-precision numbers as `f32`, exactly.
#[allow(unsafe_code, reason = "a call into a function compiled for AVX2")]
pub(super) fn widen(isa: Isa, from: &[f16], to: &mut [f32]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the features were found.
        isa if isa >= Isa::Avx2 => unsafe { avx2::widen(from, to) },
        _ => from.convert_to_f32_slice(to),
    }
}

/// The product of a query and a key.
fn score(q: &[f32], key: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (q_chunks, q_rest) = q.as_chunks::<LANES>();
    let (k_chunks, k_rest) = key.as_chunks::<LANES>();
    for (q, k) in q_chunks.iter().zip(k_chunks) {
        for ((lane, q), k) in lanes.iter_mut().zip(q).zip(k) {
            *lane = q.mul_add(*k, *lane);
        }
    }
    for ((lane, q), k) in lanes.iter_mut().zip(q_rest).zip(k_rest) {
        *lane = q.mul_add(*k, *lane);
    }
    add_lanes(lanes)
}

/// The same loops with AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "vector loads and stores take pointers")]
mod avx2 {
    use super::{KEYS, LANES, add_lanes};
    use half::f16;
    use std::arch::x86_64::*;

    /// # Safety
    /// `count` rows of `q.len()` keys must be readable.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn score_keys(q: &[f32], keys: *const f32, stride: usize, count: usize, out: &mut [f32; KEYS]) {
        let chunks = q.len() / LANES;
        // A short block repeats its last key, whose extra products are dropped.
        let mut rows = [keys; KEYS];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = keys.wrapping_add(i.min(count - 1) * stride);
        }
        let mut sums = [_mm256_setzero_ps(); KEYS];
        for chunk in 0..chunks {
            // SAFETY: a whole chunk of eight elements of each row.
            unsafe {
                let q = _mm256_loadu_ps(q.as_ptr().add(chunk * LANES));
                for (sum, row) in sums.iter_mut().zip(rows) {
                    let key = _mm256_loadu_ps(row.add(chunk * LANES));
                    *sum = _mm256_fmadd_ps(q, key, *sum);
                }
            }
        }
        if q.len().is_multiple_of(LANES) {
            let sums = add_lanes_of_eight(sums);
            // SAFETY: eight elements.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sums) };
            return;
        }
        for ((sum, row), out) in sums.into_iter().zip(rows).zip(out) {
            let mut lanes = [0.0_f32; LANES];
            // SAFETY: eight elements.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
            for (i, (lane, q)) in lanes.iter_mut().zip(&q[chunks * LANES..]).enumerate() {
                // SAFETY: the elements after the whole chunks.
                let key = unsafe { row.add(chunks * LANES + i).read() };
                *lane = q.mul_add(key, *lane);
            }
            *out = add_lanes(lanes);
        }
    }

    /// Half-precision numbers as `f32`.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn widen(from: &[f16], to: &mut [f32]) {
        let (from, from_rest) = from.as_chunks::<LANES>();
        let (to, to_rest) = to.as_chunks_mut::<LANES>();
        for (from, to) in from.iter().zip(to) {
            // SAFETY: eight numbers of 16 bits, then of 32 bits.
            unsafe {
                let wide = _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()));
                _mm256_storeu_ps(to.as_mut_ptr(), wide);
            }
        }
        for (from, to) in from_rest.iter().zip(to_rest) {
            *to = from.to_f32();
        }
    }

    /// `add_lanes` of eight vectors.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add_lanes_of_eight(v: [__m256; 8]) -> __m256 {
        let [a, b, c, d, e, f, g, h] = v;
        // Vectors `i` and `i + 4` share one, so that the result comes out in order.
        let (ae, bf) = (add_halves(a, e), add_halves(b, f));
        let (cg, dh) = (add_halves(c, g), add_halves(d, h));
        let first = add_quarters(ae, bf);
        let second = add_quarters(cg, dh);
        _mm256_add_ps(
            _mm256_shuffle_ps::<0b10_00_10_00>(first, second),
            _mm256_shuffle_ps::<0b11_01_11_01>(first, second),
        )
    }

    /// The two halves of each vector added: those of `a` in the low half, of `b` in the high.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add_halves(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b))
    }

    /// In each half: elements 0 and 1 plus 2 and 3, of `a` then of `b`.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn add_quarters(a: __m256, b: __m256) -> __m256 {
        let (a, b) = (_mm256_castps_pd(a), _mm256_castps_pd(b));
        _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)))
    }

    /// # Safety
    /// `weights.len()` rows of `out.len()` values must be readable.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn add_values(weights: &[f32], values: *const f32, stride: usize, out: &mut [f32]) {
        let dim = out.len();
        let mut at = 0;
        // SAFETY: each step stays below `dim` in `out` and in every row of values.
        unsafe {
            while at + 8 * LANES <= dim {
                add_columns::<8>(weights, values.add(at), stride, out.as_mut_ptr().add(at));
                at += 8 * LANES;
            }
            while at + LANES <= dim {
                add_columns::<1>(weights, values.add(at), stride, out.as_mut_ptr().add(at));
                at += LANES;
            }
            for (i, out) in out.iter_mut().enumerate().skip(at) {
                for (row, weight) in weights.iter().enumerate() {
                    *out = weight.mul_add(values.add(row * stride + i).read(), *out);
                }
            }
        }
    }

    /// [`add_values`] for `8 · WIDE` columns.
    ///
    /// # Safety
    /// That many elements of each row of values and of the output must be accessible.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn add_columns<const WIDE: usize>(weights: &[f32], values: *const f32, stride: usize, out: *mut f32) {
        let mut sums = [_mm256_setzero_ps(); WIDE];
        // SAFETY: the caller's promise.
        unsafe {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = _mm256_loadu_ps(out.add(i * LANES));
            }
            for (row, &weight) in weights.iter().enumerate() {
                let weight = _mm256_set1_ps(weight);
                for (i, sum) in sums.iter_mut().enumerate() {
                    let value = _mm256_loadu_ps(values.add(row * stride + i * LANES));
                    *sum = _mm256_fmadd_ps(weight, value, *sum);
                }
            }
            for (i, sum) in sums.into_iter().enumerate() {
                _mm256_storeu_ps(out.add(i * LANES), sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_attention_blocks_are_the_same_on_every_instruction_set() {
        let numbers: Vec<f32> = (0..4000).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
        for dim in [1, 7, 8, 40, 64, 72, 129, 256] {
            for count in 1..=KEYS {
                let (q, keys) = (&numbers[3..3 + dim], &numbers[100..]);
                let mut all = Vec::new();
                for isa in [Isa::Portable, Isa::detect()] {
                    let mut scores = [0.0; KEYS];
                    score_keys(isa, q, keys, dim + 5, count, &mut scores);
                    let mut out = numbers[7..7 + dim].to_vec();
                    add_values(isa, &scores[..count], keys, dim + 3, &mut out);
                    let half: Vec<f16> = q.iter().map(|&x| f16::from_f32(x)).collect();
                    let mut wide = vec![0.0; dim];
                    widen(isa, &half, &mut wide);
                    let results = scores[..count].iter().chain(&out).chain(&wide);
                    let bits = results.map(|x| x.to_bits());
                    all.push(bits.collect::<Vec<_>>());
                }
                assert_eq!(all[0], all[1], "{dim} {count}");
            }
        }
    }
}
