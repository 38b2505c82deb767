//! Chooses an encoding per tensor, encodes, and measures what that costs.
//!
//! With [`EncodingChoice::Auto`]: vectors, tensors below 4,096 values, rows that are no whole blocks of 32 and the routers
//! of experts become `u32`; a K-quant keeps its bytes; `Q4_0` and `Q4_1` become `q4`, or `q4k` (or `q8`) where that would add 2 % or more; all
//! other matrices become `q8`, or `q6k` where `q8` loses more than 1.5 %. Work is split by rows in chunks of one size, so the
//! bytes do not depend on the number of threads.

use std::str::FromStr;

use rayon::prelude::*;
use tallow_format::encoding::gguf::GgmlType;
use tallow_format::encoding::{Encoding, EncodingError, ErrorMeter};

use crate::error::{BadValue, ImportError, Result};
use crate::names;
use crate::source::{Source, SourceTensor, chunk_rows};

/// Tensors of fewer values are not worth a coarser encoding.
const SMALL: u64 = 4096;
/// Most that `q4` may add to a 4-bit source.
const Q4_LIMIT: f64 = 0.02;
/// Most that `q8` may lose.
const Q8_LIMIT: f64 = 0.015;
/// A tensor that loses more than this in u32 gets a warning.
const U32_LIMIT: f64 = 0.002;
/// Loss of `u16` that is worth a warning.
const U16_LIMIT: f64 = 0.01;
/// Loss in an encoding that was asked for that is worth a warning.
const FORCED_LIMIT: f64 = 0.05;
/// Chunks that are encoded before their bytes are put together: bounds what is held twice.
const WAVE: u64 = 64;

/// Which encoding tensors get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodingChoice {
    /// By tensor, as the module says.
    #[default]
    Auto,
    /// This one for every matrix; vectors become `u32`.
    Force(Encoding),
}

impl FromStr for EncodingChoice {
    type Err = ImportError;

    fn from_str(name: &str) -> Result<Self> {
        if name == "auto" {
            return Ok(Self::Auto);
        }
        Encoding::from_name(name).map(Self::Force).ok_or_else(|| {
            let known: Vec<&str> = Encoding::ALL.iter().map(|e| e.name()).collect();
            ImportError::refused(
                "--encoding",
                format!("`{}` is no encoding", crate::error::clip(name)),
                format!("Choose auto, or one of {}.", known.join(", ")),
            )
        })
    }
}

impl std::fmt::Display for EncodingChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Force(encoding) => f.write_str(encoding.name()),
        }
    }
}

/// A tensor in its encoding.
#[derive(Debug)]
pub struct Encoded {
    /// The encoding.
    pub encoding: Encoding,
    /// The bytes, in the order of the result.
    pub bytes: Vec<u8>,
    /// For `ternary`: one scale for each of the [`scale_rows`], in `u32`.
    pub scales: Option<Vec<u8>>,
    /// Relative root-mean-square error against the source.
    pub error: f64,
    /// A sentence, where the choice is worth one.
    pub warning: Option<String>,
}

/// The encodings among which [`encode`] will choose, the first being tried first. An error where a forced encoding cannot
/// hold the rows.
pub fn candidates(tensor: &SourceTensor, choice: EncodingChoice) -> Result<Vec<Encoding>> {
    let row = tensor.shape.last().copied().unwrap_or(1);
    let fits = |e: Encoding| row.is_multiple_of(e.block_len() as u64);
    let matrix = tensor.shape.len() >= 2;
    let mut list = match choice {
        EncodingChoice::Force(encoding) if matrix => {
            if !fits(encoding) {
                let others: Vec<&str> = Encoding::ALL.into_iter().filter(|&e| fits(e)).map(Encoding::name).collect();
                return Err(ImportError::refused(
                    format!("tensor `{}`", tensor.name),
                    format!(
                        "its rows of {row} values are not whole blocks of {} in `{encoding}`",
                        encoding.block_len()
                    ),
                    format!("Encodings that would fit: {}; or let `auto` choose.", others.join(", ")),
                ));
            }
            return Ok(vec![encoding]);
        }
        EncodingChoice::Force(_) => return Ok(vec![Encoding::U32]),
        EncodingChoice::Auto => match tensor.ty {
            _ if !matrix || tensor.values() < SMALL || !row.is_multiple_of(32) || names::is_router(&tensor.name) => {
                vec![Encoding::U32]
            }
            GgmlType::Q4_0 | GgmlType::Q4_1 => vec![Encoding::Q4, Encoding::Q4K, Encoding::Q8],
            _ => match tensor.same_encoding() {
                Some(same) => vec![same],
                None => vec![Encoding::Q8, Encoding::Q6K],
            },
        },
    };
    list.retain(|&e| fits(e));
    Ok(list)
}

/// Encodes a tensor in the best of its candidates. Errors: a value that is not finite, or that the encoding cannot hold.
pub fn encode(source: &Source, tensor: &SourceTensor, choice: EncodingChoice) -> Result<Encoded> {
    let list = candidates(tensor, choice)?;
    if list == [Encoding::Ternary] {
        return ternary(source, tensor);
    }
    if let [only] = list.as_slice()
        && tensor.same_encoding() == Some(*only)
    {
        return copy(source, tensor, *only);
    }
    let four_bits = list.first() == Some(&Encoding::Q4);
    let limit = if four_bits { Q4_LIMIT } else { Q8_LIMIT };
    let mut trouble = None;
    let last = list.len().saturating_sub(1);
    for (n, &encoding) in list.iter().enumerate() {
        match encode_as(source, tensor, encoding) {
            // A later candidate may reach further; a value that is no number helps none.
            Err(e) if n < last && beyond_range(&e) => trouble = Some(e),
            Err(e) => return Err(trouble.unwrap_or(e)),
            Ok((bytes, error)) => {
                let good = match encoding {
                    Encoding::Q4 => error < limit,
                    Encoding::Q8 => error <= limit,
                    _ => true,
                };
                // After q4, q4k is taken as it comes; q8 is there for rows that q4k cannot hold.
                if good || n == last || matches!(choice, EncodingChoice::Force(_)) {
                    let warning = warning(tensor, encoding, error, choice);
                    return Ok(Encoded { encoding, bytes, scales: None, error, warning });
                }
            }
        }
    }
    Err(ImportError::refused(
        format!("tensor `{}`", tensor.name),
        "no encoding holds its rows",
        "Choose `--encoding u32`.",
    ))
}

fn beyond_range(error: &ImportError) -> bool {
    matches!(error, ImportError::Value(bad) if bad.value.is_finite())
}

fn warning(tensor: &SourceTensor, encoding: Encoding, error: f64, choice: EncodingChoice) -> Option<String> {
    let percent = error * 100.0;
    match (encoding, choice) {
        (Encoding::U16, _) if error > U16_LIMIT => Some(format!(
            "`{}` loses {percent:.2} % in u16, whose step of 1/256 is coarse for it; q8 would do better.",
            tensor.name
        )),
        (Encoding::Q8, EncodingChoice::Auto) if error > Q8_LIMIT => Some(format!(
            "`{}` loses {percent:.2} % in q8, and its rows of {} values are too short for q6k.",
            tensor.name,
            tensor.shape.last().copied().unwrap_or(1)
        )),
        (Encoding::U32, _) if error > U32_LIMIT => Some(format!(
            "`{}` loses {percent:.2} % in u32, whose step of 1/65536 is coarse for values so small; scale the tensor up, and its use down.",
            tensor.name
        )),
        _ => None,
    }
}

/// The bytes of the source, rows in the order of the result.
fn copy(source: &Source, tensor: &SourceTensor, encoding: Encoding) -> Result<Encoded> {
    let mut bytes = Vec::with_capacity(tensor.byte_len());
    source.raw_rows(tensor, 0..tensor.rows().0, &mut bytes);
    encoding.check(&bytes).map_err(|e| value_error(source, tensor, encoding, &e, None))?;
    Ok(Encoded { encoding, bytes, scales: None, error: 0.0, warning: None })
}

/// Tensors that lose much in an encoding that was asked for, counted for one warning about all.
#[derive(Debug, Default)]
pub struct Losses {
    tensors: usize,
    /// The largest loss, its tensor and encoding.
    worst: Option<(f64, String, Encoding)>,
}

impl Losses {
    /// Takes note of a tensor, unless it has a warning of its own.
    pub fn add(&mut self, tensor: &SourceTensor, encoded: &Encoded, choice: EncodingChoice) {
        let loss = encoded.error;
        let forced = matches!(choice, EncodingChoice::Force(_));
        if !forced || loss <= FORCED_LIMIT || encoded.warning.is_some() {
            return;
        }
        self.tensors += 1;
        if self.worst.as_ref().is_none_or(|(most, ..)| loss > *most) {
            self.worst = Some((loss, tensor.name.clone(), encoded.encoding));
        }
    }

    /// A sentence, where there is something to tell.
    pub fn warning(&self) -> Option<String> {
        let (loss, name, encoding) = self.worst.as_ref()?;
        let s = if self.tensors == 1 { " loses" } else { "s lose" };
        Some(format!(
            "{} tensor{s} more than {:.0} % in {encoding}, most of all `{name}` with {:.1} %; `--encoding auto` stays closer to the source.",
            self.tensors,
            FORCED_LIMIT * 100.0,
            loss * 100.0
        ))
    }
}

/// Rows of a tensor that have a scale of their own in `ternary`: its first dimension, whatever the number of others.
pub fn scale_rows(tensor: &SourceTensor) -> u64 {
    tensor.shape.first().copied().unwrap_or(1)
}

/// Encodes all rows in one encoding, and measures.
fn encode_as(source: &Source, tensor: &SourceTensor, encoding: Encoding) -> Result<(Vec<u8>, f64)> {
    let total = encoding.byte_len(tensor.values()).unwrap_or(0) as usize;
    let mut out = Vec::with_capacity(total);
    let mut meter = ErrorMeter::new();
    waves(
        source,
        tensor,
        1,
        |values, first| {
            let mut bytes = Vec::with_capacity(encoding.byte_len(values.len() as u64).unwrap_or(0) as usize);
            let fail = |e: EncodingError| {
                let value = e.index().and_then(|at| values.get(at)).copied();
                value_error(source, tensor, encoding, &e.shifted(first), value)
            };
            encoding.encode(values, &mut bytes).map_err(fail)?;
            let mut back = vec![0.0; values.len()];
            encoding.decode(&bytes, &mut back).map_err(fail)?;
            let mut meter = ErrorMeter::new();
            meter.add(values, &back);
            Ok((bytes, meter))
        },
        |(bytes, chunk)| {
            out.extend_from_slice(&bytes);
            meter.merge(&chunk);
        },
    )?;
    Ok((out, meter.relative_rms()))
}

/// Runs `work` on chunks of rows in parallel and hands the results to `take` in order. The rows of one `group`, of which
/// there must be a whole number, stay together. The first error by place is returned, whichever was met first.
fn waves<T: Send>(
    source: &Source,
    tensor: &SourceTensor,
    group: u64,
    work: impl Fn(&[f32], usize) -> Result<T> + Sync,
    mut take: impl FnMut(T),
) -> Result<()> {
    let (rows, len) = tensor.rows();
    let step = chunk_rows(len * group) * group;
    let chunks = rows.div_ceil(step);
    let mut next = 0;
    while next < chunks {
        let end = chunks.min(next + WAVE);
        let done: Vec<Result<T>> = (next..end)
            .into_par_iter()
            .map(|n| {
                let part = n * step..rows.min((n + 1) * step);
                let first = (part.start * len) as usize;
                let mut values = vec![0.0f32; ((part.end - part.start) * len) as usize];
                source.read_rows(tensor, part, &mut Vec::new(), &mut values)?;
                work(&values, first)
            })
            .collect();
        for result in done {
            take(result?);
        }
        next = end;
    }
    Ok(())
}

/// Signs and one scale per row. A row that holds one magnitude beside zero is kept exactly; another is rounded at half its
/// mean magnitude, and its scale is the mean of what is kept.
fn ternary(source: &Source, tensor: &SourceTensor) -> Result<Encoded> {
    let (all, row_len) = tensor.rows();
    let rows = scale_rows(tensor);
    let group = all / rows.max(1);
    let len = (group * row_len) as usize;
    let total = Encoding::Ternary.byte_len(tensor.values()).unwrap_or(0) as usize;
    let mut bytes = Vec::with_capacity(total);
    let mut scales = Vec::with_capacity(rows as usize * Encoding::U32.block_bytes());
    let mut meter = ErrorMeter::new();
    waves(
        source,
        tensor,
        group,
        |values, first| {
            let mut bytes = Vec::new();
            let mut scales = Vec::new();
            let mut meter = ErrorMeter::new();
            let fail = |e: &EncodingError, value| value_error(source, tensor, Encoding::Ternary, e, value);
            for (n, row) in values.chunks(len).enumerate() {
                if let Some(at) = row.iter().position(|x| !x.is_finite()) {
                    let e = EncodingError::NotFinite { index: first + n * len + at };
                    return Err(fail(&e, Some(row[at])));
                }
                let (signs, scale) = ternary_row(row);
                let start = scales.len();
                Encoding::U32.encode(&[scale], &mut scales).map_err(|e| fail(&e.shifted(first), Some(scale)))?;
                let mut stored = [0.0];
                Encoding::U32.decode(&scales[start..], &mut stored).map_err(|e| fail(&e, None))?;
                Encoding::Ternary.encode(&signs, &mut bytes).map_err(|e| fail(&e, None))?;
                let back: Vec<f32> = signs.iter().map(|s| s * stored[0]).collect();
                meter.add(row, &back);
            }
            Ok((bytes, scales, meter))
        },
        |(b, s, m)| {
            bytes.extend_from_slice(&b);
            scales.extend_from_slice(&s);
            meter.merge(&m);
        },
    )?;
    Ok(Encoded { encoding: Encoding::Ternary, bytes, scales: Some(scales), error: meter.relative_rms(), warning: None })
}

fn ternary_row(row: &[f32]) -> (Vec<f32>, f32) {
    let most = row.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    let exact = row.iter().all(|x| *x == 0.0 || x.abs() == most);
    let mean = row.iter().map(|x| f64::from(x.abs())).sum::<f64>() / row.len().max(1) as f64;
    let threshold = if exact { 0.0 } else { (mean / 2.0) as f32 };
    let keep = |x: f32| x.abs() > threshold;
    let (sum, count) =
        row.iter().filter(|x| keep(**x)).fold((0.0f64, 0u64), |(s, n), x| (s + f64::from(x.abs()), n + 1));
    let scale = match (exact, count) {
        (true, _) => most,
        (false, 0) => 0.0,
        (false, n) => (sum / n as f64) as f32,
    };
    let signs = row.iter().map(|&x| if keep(x) { x.signum() } else { 0.0 }).collect();
    (signs, scale)
}

fn value_error(
    source: &Source,
    tensor: &SourceTensor,
    encoding: Encoding,
    error: &EncodingError,
    value: Option<f32>,
) -> ImportError {
    let index = error.index().unwrap_or(0) as u64;
    let (cause, cure) = match error {
        EncodingError::NotFinite { .. } => (
            "which is no finite number".to_owned(),
            "The file is damaged or the model was saved after its training went wrong: download it again, or take another checkpoint.".to_owned(),
        ),
        EncodingError::OutOfRange { limit, .. } => (
            format!("beyond what `{encoding}` holds, {limit}"),
            "The K-quants reach further (`--encoding`), where rows are multiples of 256 values; else scale the tensor down, and its use up.".to_owned(),
        ),
        other => (other.to_string(), "Choose another encoding with `--encoding`.".to_owned()),
    };
    ImportError::Value(Box::new(BadValue {
        path: source.path(tensor).to_owned(),
        tensor: tensor.name.clone(),
        source_name: tensor.source_name.clone(),
        index,
        position: tensor.position(index),
        value: value.unwrap_or(f32::NAN),
        cause,
        cure,
    }))
}
