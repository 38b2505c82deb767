//! Attention inside segments, such as the texts of a batch that stand one after another.
//!
//! Each segment is a call of its own, over its own rows alone: what it gives has the same bits whatever else is in the
//! batch, and many short texts cost the sum of the squares of their lengths.
#![allow(unsafe_code, reason = "threads write disjoint parts of the output")]

use super::super::{Disjoint, KernelError, Team, check_len};
use super::call::Strided;
use super::{AttentionCall, AttentionMask, AttentionShared, AttentionSpec, KvData, KvLayout, KvRows, SCRATCH};
use std::ops::Range;

/// `out[S, heads·head_dim]` = attention of `q` `[S, heads·head_dim]` over the rows of `k` and `v`
/// `[S, kv_heads·head_dim]` of the same segment. `segments` are ranges of rows that follow one another from 0 to `S`;
/// `bias` is `[heads, S, S]`, or `[1, S, S]` for all heads, of which only values inside segments are read.
///
/// # Errors
/// [`KernelError::Attribute`] for numbers of heads that do not divide; [`KernelError::Length`].
#[allow(clippy::too_many_arguments)]
pub fn attend_segments(
    spec: &AttentionSpec,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    segments: &[Range<usize>],
    bias: Option<AttentionMask<'_>>,
    out: &mut [f32],
    team: &Team,
) -> Result<(), KernelError> {
    let width = spec.heads.saturating_mul(spec.head_dim);
    let kv_width = spec.kv_heads.saturating_mul(spec.head_dim);
    let rows = segments.last().map_or(0, |last| last.end);
    let mut end = 0;
    for segment in segments {
        check_len("rows before a segment of attention", segment.start, Some(end))?;
        check_len("rows up to the end of a segment of attention", segment.end, Some(segment.end.max(end)))?;
        end = segment.end;
    }
    check_len("query of attention", q.len(), rows.checked_mul(width))?;
    check_len("key of attention", k.len(), rows.checked_mul(kv_width))?;
    check_len("value of attention", v.len(), rows.checked_mul(kv_width))?;
    check_len("output of attention", out.len(), Some(q.len()))?;
    if let Some(bias) = &bias {
        let heads = if bias.per_head { spec.heads } else { 1 };
        let expected = rows.checked_mul(rows).and_then(|square| square.checked_mul(heads));
        check_len("bias of attention", bias.values.len(), expected)?;
    }
    let work = segments.iter().fold(0usize, |sum, s| sum.saturating_add(s.len() * s.len()));
    let threads = if work.saturating_mul(width) < 16 * 1024 { 1 } else { team.threads() };

    let (mut calls, mut ends, mut total, mut rest) = (Vec::new(), Vec::new(), 0, out);
    for segment in segments {
        let count = segment.len();
        let (own, after) = rest.split_at_mut(count * width);
        rest = after;
        let part = |width: usize| segment.start * width..segment.end * width;
        let [keys, values] = [k, v].map(|x| KvRows {
            data: KvData::F32(&x[part(kv_width)]),
            layout: KvLayout::Rows,
            rows: count,
            width: kv_width,
        });
        let mut call = AttentionCall::new(spec, &q[part(width)], count, keys, values, None, threads)?;
        if let Some(bias) = &bias {
            let values = &bias.values[(segment.start * (rows + 1)).min(bias.values.len())..];
            call = call.masked(Strided { values, head: if bias.per_head { rows * rows } else { 0 }, row: rows });
        }
        total += call.items();
        ends.push(total);
        calls.push((call, Disjoint::new(own)));
    }
    // As many queries as keys are never cut along the keys, so that nothing is shared.
    let shared = AttentionShared::default();
    let step = if threads == 1 { usize::MAX } else { 1 };
    team.run_chunks(total, step, |items| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut item = items.start;
            let mut at = ends.partition_point(|&end| end <= item);
            while item < items.end {
                let (call, out) = &calls[at];
                let first = ends[at] - call.items();
                let last = items.end.min(ends[at]);
                // SAFETY: each item of a call is in one range, and its output is borrowed until all are done.
                unsafe { call.run_items(item - first..last - first, scratch, &shared, out) };
                (item, at) = (last, at + 1);
            }
        });
    });
    Ok(())
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one segment is a list of segments")]
mod tests {
    use super::super::tests::{plain, reference, values};
    use super::*;

    fn run(
        spec: &AttentionSpec,
        x: [&[f32]; 3],
        segments: &[Range<usize>],
        bias: Option<AttentionMask<'_>>,
        threads: usize,
    ) -> Vec<f32> {
        let mut out = vec![7.0; x[0].len()];
        attend_segments(spec, x[0], x[1], x[2], segments, bias, &mut out, &Team::new(threads).unwrap()).unwrap();
        out
    }

    fn mask(values: &[f32]) -> AttentionMask<'_> {
        AttentionMask { values, per_head: true }
    }

    /// The segments as an additive mask, with the bias inside them.
    fn square(segments: &[Range<usize>], heads: usize, bias: Option<&[f32]>) -> Vec<f32> {
        let rows = segments.last().unwrap().end;
        let mut mask = vec![f32::NEG_INFINITY; heads * rows * rows];
        for head in 0..heads {
            for segment in segments {
                for i in segment.clone() {
                    for j in segment.clone() {
                        let at = (head * rows + i) * rows + j;
                        mask[at] = bias.map_or(0.0, |b| b[at]);
                    }
                }
            }
        }
        mask
    }

    #[test]
    fn kernels_segments_see_their_own_keys_alone_and_have_the_same_bits_alone() {
        let segments = [0..1, 1..14, 14..14 + 131, 145..145 + 300, 445..447];
        let rows = 447;
        for (heads, kv_heads, dim) in [(4, 4, 16), (6, 2, 24), (3, 1, 7)] {
            let (q, kv) = (heads * dim, kv_heads * dim);
            let (q, k, v) = (values(rows * q, 1), values(rows * kv, 2), values(rows * kv, 3));
            let bias = values(heads * rows * rows, 4);
            for (reach, softcap, biased) in [(None, None, false), (Some(5), None, true), (Some(150), Some(2.0), false)]
            {
                let spec = AttentionSpec { causal: false, reach, softcap, ..plain(heads, kv_heads, dim) };
                let given = biased.then(|| mask(&bias[..]));
                let all = run(&spec, [&q, &k, &v], &segments, given, 3);
                let full = square(&segments, heads, biased.then_some(&bias[..]));
                let double = reference(&spec, &q, rows, &k, &v, Some(mask(&full)));
                for (out, want) in all.iter().zip(&double) {
                    assert!((f64::from(*out) - want).abs() < 3e-6, "{spec:?}");
                }
                assert!(all == run(&spec, [&q, &k, &v], &segments, given, 1), "threads: {spec:?}");
                for segment in &segments {
                    let part = |x: &[f32]| {
                        let width = x.len() / rows;
                        x[segment.start * width..segment.end * width].to_vec()
                    };
                    let n = segment.len();
                    let cut = |head: usize, i: usize| &bias[(head * rows + i) * rows..][segment.clone()];
                    let own: Vec<f32> =
                        (0..heads).flat_map(|h| segment.clone().flat_map(move |i| cut(h, i).to_vec())).collect();
                    let given = biased.then(|| mask(&own[..]));
                    let alone = run(&spec, [&part(&q), &part(&k), &part(&v)], &[0..n], given, 2);
                    assert!(alone == part(&all), "{spec:?} {segment:?}");
                }
            }
        }
    }

    #[test]
    fn kernels_segments_that_leave_gaps_or_do_not_fit_are_refused() {
        let spec = AttentionSpec { causal: false, ..plain(2, 1, 4) };
        let (q, kv) = (values(24, 1), values(12, 2));
        let team = Team::new(1).unwrap();
        let mut out = vec![0.0; 24];
        let mut refused = |segments: &[Range<usize>], bias: Option<AttentionMask<'_>>| {
            attend_segments(&spec, &q, &kv, &kv, segments, bias, &mut out, &team).is_err()
        };
        assert!(!refused(&[0..2, 2..3], None));
        #[allow(clippy::reversed_empty_ranges, reason = "that is what must be refused")]
        for bad in [&[0..1, 2..3][..], &[1..3], &[0..2], &[0..2, 2..1, 1..3]] {
            assert!(refused(bad, None), "{bad:?}");
        }
        assert!(refused(&[0..3], Some(AttentionMask { values: &q, per_head: true })));
    }
}
