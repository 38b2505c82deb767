//! Token embedding: decoding single rows of an encoded matrix.

use super::disjoint::Disjoint;
use super::{KernelError, Team, WeightRows, check_len};
use std::sync::Mutex;

/// Decodes row `row` of `w` into `out` (`k` values), the scale of a ternary matrix applied.
///
/// # Errors
/// [`KernelError::RowOutOfRange`], [`KernelError::Length`], and [`KernelError::Decode`] for
/// invalid stored bytes.
pub fn dequantize_row(w: &WeightRows<'_>, row: usize, out: &mut [f32]) -> Result<(), KernelError> {
    if row >= w.rows() {
        return Err(KernelError::RowOutOfRange { row: row as u64, rows: w.rows() });
    }
    check_len("output of a row", out.len(), Some(w.k()))?;
    w.encoding().decode(w.row(row), out).map_err(|source| KernelError::Decode { row, source })?;
    let scale = w.row_scale(row);
    if scale != 1.0 {
        out.iter_mut().for_each(|value| *value *= scale);
    }
    Ok(())
}

/// Decodes the rows `ids` of `w` into `out` `[ids.len(), k]`.
///
/// # Errors
/// As [`dequantize_row`]; of several wrong ids the first is named.
#[allow(unsafe_code, reason = "threads write disjoint ranges of rows of the output")]
pub fn gather_rows(w: &WeightRows<'_>, ids: &[u32], out: &mut [f32], team: &Team) -> Result<(), KernelError> {
    if let Some(&id) = ids.iter().find(|&&id| id as usize >= w.rows()) {
        return Err(KernelError::RowOutOfRange { row: id.into(), rows: w.rows() });
    }
    let k = w.k();
    check_len("output of a gather", out.len(), ids.len().checked_mul(k))?;
    let out = Disjoint::new(out);
    let failed = Mutex::new(None);
    team.run_chunks(ids.len(), 8, |range| {
        for index in range {
            // SAFETY: every index is in one range only.
            let row = unsafe { out.part(index * k..(index + 1) * k) };
            if let Err(error) = dequantize_row(w, ids[index] as usize, row)
                && let Ok(mut failed) = failed.lock()
            {
                *failed = Some(error);
            }
        }
    });
    match failed.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallow_format::Encoding;

    #[test]
    fn kernels_gather_decodes_rows_and_refuses_ids_past_the_end() {
        let values: Vec<f32> = (0..5 * 64).map(|i| (i % 17) as f32 / 16.0 - 0.5).collect();
        let mut bytes = Vec::new();
        Encoding::Q8.encode(&values, &mut bytes).unwrap();
        let w = WeightRows::new(Encoding::Q8, &bytes, 5, 64).unwrap();
        let mut all = vec![0.0; values.len()];
        Encoding::Q8.decode(&bytes, &mut all).unwrap();
        let team = Team::new(2).unwrap();
        let mut out = vec![0.0; 3 * 64];
        gather_rows(&w, &[4, 0, 4], &mut out, &team).unwrap();
        assert_eq!(out[..64], all[4 * 64..]);
        assert_eq!(out[64..128], all[..64]);
        assert_eq!(out[128..], all[4 * 64..]);
        let error = gather_rows(&w, &[1, 5, 1], &mut out, &team).unwrap_err();
        assert!(error.to_string().contains("row 5"), "{error}");
        assert!(gather_rows(&w, &[1], &mut out, &team).is_err());
    }

    #[test]
    fn kernels_gather_applies_the_ternary_scale_and_reports_bad_codes() {
        let bytes = [0b01_10_00_01, 0b11_00_00_00];
        let w = WeightRows::new(Encoding::Ternary, &bytes, 2, 4).unwrap().with_scale(&[0.5, 2.0]).unwrap();
        let mut out = [0.0; 4];
        dequantize_row(&w, 0, &mut out).unwrap();
        assert_eq!(out, [0.5, 0.0, -0.5, 0.5]);
        let error = dequantize_row(&w, 1, &mut out).unwrap_err();
        assert!(matches!(error, KernelError::Decode { row: 1, .. }));
    }
}
