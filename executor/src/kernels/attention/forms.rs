//! Attention on every instruction set and over every kind of cache: the same bits, and those of a
//! double-precision form.
#![allow(unsafe_code, reason = "parts of a call are run as threads run them")]

use super::super::{Disjoint, Isa};
use super::tests::{plain, reference, values};
use super::*;

/// The instruction sets of this machine, the portable one first.
fn sets() -> Vec<Isa> {
    let mut sets = vec![Isa::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            sets.push(Isa::Avx2);
        }
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            sets.push(Isa::Avx512);
        }
    }
    sets
}

/// The result of a call whose items are done in turn by `threads` threads.
#[allow(clippy::too_many_arguments)]
fn run(
    isa: Isa,
    spec: &AttentionSpec,
    q: &[f32],
    s: usize,
    k: KvRows<'_>,
    v: KvRows<'_>,
    mask: Option<AttentionMask<'_>>,
    threads: usize,
) -> Vec<u32> {
    let call = AttentionCall::new(spec, q, s, k, v, mask, threads).unwrap().on(isa);
    let mut shared = AttentionShared::default();
    shared.reserve(spec, k.rows);
    let mut scratch: Vec<_> = (0..threads).map(|_| AttentionScratch::default()).collect();
    let mut out = vec![7.0; q.len()];
    let whole = Disjoint::new(&mut out);
    // From the last item to the first, so that nothing depends on their order.
    for item in (0..call.items()).rev() {
        // SAFETY: each item once.
        unsafe { call.run_items(item..item + 1, &mut scratch[item % threads], &shared, &whole) };
    }
    out.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

fn store(encoding: KvEncoding, layout: KvLayout, width: usize, rows: &[f32]) -> KvStore {
    let mut store = KvStore::new(encoding, layout, width);
    store.append(rows).unwrap();
    store
}

const ENCODINGS: [KvEncoding; 3] = [KvEncoding::F32, KvEncoding::F16, KvEncoding::Q8];

/// Keys and values in every form, and the values that they stand for.
fn caches(encoding: KvEncoding, width: usize, k: &[f32], v: &[f32]) -> [KvStore; 2] {
    [store(encoding, KvLayout::Lanes, width, k), store(encoding, KvLayout::Rows, width, v)]
}

#[test]
fn kernels_attention_is_the_same_on_every_instruction_set_and_close_to_double_precision() {
    for (case, dim) in [1, 7, 8, 40, 64, 72, 80, 96, 128, 256].into_iter().enumerate() {
        for (heads, kv_heads, s, t) in
            [(1, 1, 1, 5), (7, 1, 1, 300), (4, 2, 3, 131), (5, 1, 9, 9), (26, 2, 2, 150), (3, 3, 33, 290)]
        {
            let mut spec = plain(heads, kv_heads, dim);
            let variant = (case + s + heads) % 6;
            spec.causal = variant != 1 && variant != 5;
            spec.reach = (variant == 5).then_some(if case % 2 == 0 { 3 } else { 140 });
            spec.window = (variant == 2).then_some(130);
            spec.softcap = (variant == 3).then_some(2.5);
            let width = kv_heads * dim;
            let (q, k, v) = (values(s * heads * dim, 1), values(t * width, 2), values(t * width, 3));
            let mut mask = values(heads * s * t, 4);
            mask.iter_mut().step_by(5).for_each(|m| *m = f32::NEG_INFINITY);
            let per_head = heads % 2 == 0;
            let mask = (variant == 4)
                .then_some(AttentionMask { values: &mask[..if per_head { heads } else { 1 } * s * t], per_head });
            for encoding in ENCODINGS {
                let [keys, vals] = caches(encoding, width, &k, &v);
                let (k, v) = (keys.view().to_rows(), vals.view().to_rows());
                let want = run(Isa::Portable, &spec, &q, s, keys.view(), vals.view(), mask, 1);
                let double = reference(&spec, &q, s, &k, &v, mask);
                for (out, want) in want.iter().zip(&double) {
                    assert!((f64::from(f32::from_bits(*out)) - want).abs() < 3e-6, "{spec:?} {s} {t} {encoding:?}");
                }
                // As plain rows of what the cache stands for.
                let rows = |data| KvRows { data: KvData::F32(data), layout: KvLayout::Rows, rows: t, width };
                for isa in sets() {
                    for threads in [1, 3] {
                        let out = run(isa, &spec, &q, s, keys.view(), vals.view(), mask, threads);
                        assert!(out == want, "{isa:?} {spec:?} {s} {t} {encoding:?} {threads}");
                    }
                    let out = run(isa, &spec, &q, s, rows(&k), rows(&v), mask, 2);
                    assert!(out == want, "{isa:?} {spec:?} {s} {t} {encoding:?} as rows");
                }
            }
        }
    }
}

#[test]
fn kernels_attention_of_many_queries_is_that_of_each() {
    for (heads, kv_heads, dim, s, t, window) in [
        (7, 1, 16, 513, 513, None),
        (4, 1, 24, 300, 700, Some(200)),
        (2, 2, 8, 129, 129, Some(1)),
        (3, 1, 16, 64, 520, Some(5)),
    ] {
        let mut spec = plain(heads, kv_heads, dim);
        spec.window = window;
        let width = kv_heads * dim;
        let (q, k, v) = (values(s * heads * dim, 5), values(t * width, 6), values(t * width, 7));
        for encoding in ENCODINGS {
            let [keys, vals] = caches(encoding, width, &k, &v);
            for isa in sets().into_iter().rev().take(if encoding == KvEncoding::F16 { 3 } else { 1 }) {
                let whole = run(isa, &spec, &q, s, keys.view(), vals.view(), None, 2);
                for chunk in [1, 7, 64] {
                    // Each chunk alone, a few of them.
                    for start in (0..s).step_by(chunk).step_by(1 + 40 / chunk) {
                        let end = s.min(start + chunk);
                        let seen = |store: &KvStore| {
                            let mut store = store.clone();
                            store.truncate(t - s + end);
                            store
                        };
                        let (keys, vals) = (seen(&keys), seen(&vals));
                        let rows = start * heads * dim..end * heads * dim;
                        let out = run(isa, &spec, &q[rows.clone()], end - start, keys.view(), vals.view(), None, 2);
                        assert!(out == whole[rows], "{isa:?} {spec:?} {encoding:?} {start} {chunk}");
                    }
                }
            }
        }
    }
}

#[test]
fn kernels_attention_of_unusual_values_is_the_same_on_every_instruction_set() {
    let (heads, dim, s, t) = (3, 40, 4, 200);
    let spec = AttentionSpec { scale: 1.0, ..plain(heads, 1, dim) };
    let q = values(s * heads * dim, 1);
    let special = [1e-7, 6e-8, -5.9e-8, 65504.0, -65504.0, 1e-40, -0.0, 3e-5];
    let mut k: Vec<f32> = values(t * dim, 2).iter().map(|x| x * 40.0).collect();
    let mut v = values(t * dim, 3);
    for (i, x) in special.into_iter().enumerate() {
        v[(i * 17 + 3) * dim + i] = x;
        k[(i * 19 + 2) * dim + i] = x * 1e-3;
    }
    for infinite in [false, true] {
        if infinite {
            v[150 * dim + 3] = f32::INFINITY;
            k[160 * dim] = f32::NAN;
            v[(t - 1) * dim] = f32::NAN;
        }
        for encoding in ENCODINGS {
            let [keys, vals] = caches(encoding, dim, &k, &v);
            let all: Vec<_> =
                sets().into_iter().map(|isa| run(isa, &spec, &q, s, keys.view(), vals.view(), None, 2)).collect();
            assert!(all.iter().all(|out| *out == all[0]), "{encoding:?}");
            let nan =
                |row: usize| all[0][row * heads * dim..][..heads * dim].iter().any(|&x| f32::from_bits(x).is_nan());
            assert!(nan(s - 1) == infinite && nan(0) == infinite);
        }
    }
    // What is not finite and out of sight does not count: one key, the last, is.
    let mut alone = values(t * dim, 3);
    alone[(t - 1) * dim..].fill(f32::NAN);
    let [keys, vals] = caches(KvEncoding::F16, dim, &k[..].iter().map(|_| 0.5).collect::<Vec<_>>(), &alone);
    for isa in sets() {
        let out = run(isa, &spec, &q, s, keys.view(), vals.view(), None, 2);
        assert!(out[..(s - 1) * heads * dim].iter().all(|&x| f32::from_bits(x).is_finite()));
        assert!(out[(s - 1) * heads * dim..].iter().all(|&x| f32::from_bits(x).is_nan()));
    }
}

#[test]
fn kernels_attention_over_8_bits_is_within_a_hundredth() {
    let (heads, kv_heads, dim, t) = (14, 2, 64, 700);
    let spec = plain(heads, kv_heads, dim);
    let mut state = 9_u64;
    let mut random = |n: usize| -> Vec<f32> {
        // Sums of four uniform numbers, of variance one.
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1_u32 << 24) as f32 - 0.5
        };
        (0..n).map(|_| (uniform() + uniform() + uniform() + uniform()) * 3.0_f32.sqrt()).collect()
    };
    let (q, k, v) = (random(heads * dim), random(t * kv_heads * dim), random(t * kv_heads * dim));
    let exact = caches(KvEncoding::F32, kv_heads * dim, &k, &v);
    let eight = caches(KvEncoding::Q8, kv_heads * dim, &k, &v);
    let isa = Isa::detect();
    let [exact, eight] = [exact, eight].map(|[k, v]| run(isa, &spec, &q, 1, k.view(), v.view(), None, 1));
    let (mut difference, mut size) = (0.0, 0.0);
    for (a, b) in exact.iter().zip(&eight) {
        let (a, b) = (f64::from(f32::from_bits(*a)), f64::from(f32::from_bits(*b)));
        difference += (a - b) * (a - b);
        size += a * a;
    }
    let error = (difference / size).sqrt();
    assert!(error < 0.01 && error > 0.0, "{error}");
}

#[test]
fn kernels_attention_refuses_caches_that_do_not_hold_their_rows() {
    let spec = plain(2, 1, 8);
    let (q, k) = ([0.0; 16], [0.0; 8 * 16]);
    let rows = |data, layout, rows, width| KvRows { data, layout, rows, width };
    let good = rows(KvData::F32(&k), KvLayout::Lanes, 9, 8);
    assert!(AttentionCall::new(&spec, &q, 1, good, good, None, 1).is_ok());
    let codes = [0_i8; 8 * 16];
    for bad in [
        rows(KvData::F32(&k), KvLayout::Lanes, 17, 8),
        rows(KvData::F32(&k[..72]), KvLayout::Lanes, 9, 8),
        rows(KvData::F32(&k), KvLayout::Rows, 9, 16),
        rows(KvData::Q8(&codes, &[]), KvLayout::Rows, 9, 8),
        rows(KvData::F32(&k), KvLayout::Rows, usize::MAX, 8),
    ] {
        assert!(AttentionCall::new(&spec, &q, 1, bad, good, None, 1).is_err());
        assert!(AttentionCall::new(&spec, &q, 1, KvRows { rows: bad.rows, ..good }, bad, None, 1).is_err());
    }
}
