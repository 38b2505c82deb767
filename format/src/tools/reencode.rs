//! Turns the tensors of a file whose encodings have their older meanings into today's.
//!
//! Under the same four names such a file holds IEEE f32 (`u32`), IEEE f16 (`u16`), GGUF's Q4_0 (`q4`) and Q8_0 (`q8`). The
//! other encodings have always meant what they mean now. The choice of the new encoding is that of an import:
//!
//! - one dimension, fewer than 4,096 values, or rows that are no multiple of 32: `u32`;
//! - Q4_0: `q4` where that adds less than 2 % relative error, else `q4k` where the rows allow, else `q8`;
//! - Q8_0, f16, f32: `q8`; above 1.5 % relative error `q6k` where the rows allow, else `q8` with a warning.

use crate::encoding::gguf::GgmlType;
use crate::encoding::{Encoding, ErrorMeter};
use crate::error::{ErrorKind, FormatError, Result};
use crate::tensors::TensorEntry;

/// One tensor of an upgrade.
#[derive(Clone, Debug, PartialEq)]
pub struct Reencoded {
    /// Its name.
    pub name: String,
    /// What it was, as in `Q4_0`; `None` where its bytes were copied.
    pub from: Option<&'static str>,
    /// What it is now.
    pub to: Encoding,
    /// Relative root-mean-square error against the old values.
    pub error: f64,
    /// Whether the error is above what the choice aims at.
    pub coarse: bool,
}

/// Values decoded at a time: whole blocks of every encoding.
const CHUNK: usize = 1 << 18;

/// What an encoding's name meant in older files; `None` where it means the same.
pub(super) fn legacy_type(encoding: Encoding) -> Option<GgmlType> {
    match encoding {
        Encoding::U32 => Some(GgmlType::F32),
        Encoding::U16 => Some(GgmlType::F16),
        Encoding::Q4 => Some(GgmlType::Q4_0),
        Encoding::Q8 => Some(GgmlType::Q8_0),
        Encoding::Ternary | Encoding::Q2K | Encoding::Q3K | Encoding::Q4K | Encoding::Q5K | Encoding::Q6K => None,
    }
}

/// The encodings to try in order, each with the relative error up to which it is taken. The last is taken anyway.
pub(super) fn candidates(entry: &TensorEntry) -> Vec<(Encoding, f64)> {
    let Some(source) = legacy_type(entry.encoding) else {
        return vec![(entry.encoding, f64::INFINITY)];
    };
    let row = entry.shape.last().copied().unwrap_or(1);
    if entry.shape.len() < 2 || entry.values() < 4096 || row % 32 != 0 {
        return vec![(Encoding::U32, f64::INFINITY)];
    }
    let long = row % 256 == 0;
    match (source, long) {
        (GgmlType::Q4_0, true) => vec![(Encoding::Q4, 0.02), (Encoding::Q4K, f64::INFINITY)],
        (GgmlType::Q4_0, false) => vec![(Encoding::Q4, 0.02), (Encoding::Q8, 0.015)],
        (_, true) => vec![(Encoding::Q8, 0.015), (Encoding::Q6K, 0.015)],
        (_, false) => vec![(Encoding::Q8, 0.015)],
    }
}

/// Encodes one tensor anew: the report and the bytes.
pub(super) fn reencode(entry: &TensorEntry, bytes: &[u8]) -> Result<(Reencoded, Vec<u8>)> {
    let report = |to, from: Option<GgmlType>, error, coarse| Reencoded {
        name: entry.name.clone(),
        from: from.map(GgmlType::name),
        to,
        error,
        coarse,
    };
    let Some(source) = legacy_type(entry.encoding) else {
        return Ok((report(entry.encoding, None, 0.0, false), bytes.to_vec()));
    };
    let mut best: Option<(Encoding, f64, f64, Vec<u8>)> = None;
    let mut failure = None;
    for (encoding, limit) in candidates(entry) {
        match try_encoding(source, encoding, bytes) {
            Ok((error, encoded)) => {
                let better = best.as_ref().is_none_or(|(_, least, _, _)| error < *least || limit.is_infinite());
                if better {
                    best = Some((encoding, error, limit, encoded));
                }
                if error < limit {
                    break;
                }
            }
            Err(error) => failure = Some(error),
        }
    }
    match (best, failure) {
        (Some((encoding, error, limit, encoded)), _) => {
            Ok((report(encoding, Some(source), error, error >= limit), encoded))
        }
        (None, failure) => {
            Err(FormatError::new(ErrorKind::Unsupported, failure.unwrap_or_else(|| "no encoding fits".into()))
                .cure("Import the model again from its source")
                .at(format!("tensor `{}`", entry.name)))
        }
    }
}

/// Relative error and bytes of one encoding, or why it cannot hold the values.
fn try_encoding(source: GgmlType, to: Encoding, bytes: &[u8]) -> Result<(f64, Vec<u8>), String> {
    let chunk_bytes = CHUNK / source.block_len() * source.block_bytes();
    let mut meter = ErrorMeter::new();
    let mut out = Vec::new();
    let (mut values, mut again) = (Vec::new(), Vec::new());
    for (index, chunk) in bytes.chunks(chunk_bytes).enumerate() {
        let count = chunk.len() / source.block_bytes() * source.block_len();
        values.resize(count, 0.0f32);
        again.resize(count, 0.0f32);
        let place = |e: crate::EncodingError| e.shifted(index * CHUNK).to_string();
        source.decode(chunk, &mut values).map_err(place)?;
        let start = out.len();
        to.encode(&values, &mut out).map_err(place)?;
        to.decode(&out[start..], &mut again).map_err(place)?;
        meter.add(&values, &again);
    }
    Ok((meter.relative_rms(), out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(shape: &[u64], encoding: Encoding) -> TensorEntry {
        TensorEntry { name: "t".into(), shape: shape.to_vec(), encoding, offset: 0, size: 0 }
    }

    fn f32_bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn small_and_one_dimensional_tensors_become_fixed_point() {
        let values = [0.5, -1.25, 3.0, 100.0];
        let (report, bytes) = reencode(&entry(&[4], Encoding::U32), &f32_bytes(&values)).unwrap();
        assert_eq!((report.from, report.to, report.error), (Some("F32"), Encoding::U32, 0.0));
        assert_eq!(bytes[..4], 32768i32.to_le_bytes());
        assert_eq!(candidates(&entry(&[100, 33], Encoding::U32))[0].0, Encoding::U32);
    }

    #[test]
    fn matrices_become_q8_and_wide_blocks_finer() {
        let smooth: Vec<f32> = (0..32 * 256).map(|i| ((i * 37 % 201) as f32 - 100.0) / 100.0).collect();
        let (report, bytes) = reencode(&entry(&[32, 256], Encoding::U32), &f32_bytes(&smooth)).unwrap();
        assert_eq!(report.to, Encoding::Q8);
        assert!(report.error < 0.015 && !report.coarse, "{report:?}");
        assert_eq!(bytes.len(), 32 * 256 / 32 * 34);
        // Values far below the step of an 8.8 scale.
        let tiny: Vec<f32> = smooth.iter().map(|v| v / 2000.0).collect();
        let (report, _) = reencode(&entry(&[32, 256], Encoding::U32), &f32_bytes(&tiny)).unwrap();
        assert_eq!(report.to, Encoding::Q6K);
    }

    #[test]
    fn values_that_nothing_holds_are_an_error_with_the_tensor() {
        let error = reencode(&entry(&[2], Encoding::U32), &f32_bytes(&[1.0, f32::NAN])).unwrap_err().to_string();
        assert!(error.contains("tensor `t`: value 1 is not a finite number"), "{error}");
        let error = reencode(&entry(&[1], Encoding::U32), &f32_bytes(&[1e9])).unwrap_err().to_string();
        assert!(error.contains("beyond the encoding's range"), "{error}");
    }

    #[test]
    fn other_encodings_are_copied() {
        let (report, bytes) = reencode(&entry(&[4], Encoding::Ternary), &[0b01]).unwrap();
        assert_eq!((report.from, report.to, bytes), (None, Encoding::Ternary, vec![1]));
    }
}
