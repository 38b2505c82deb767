//! Whether the weights behind an error are the same on both sides.

use super::Side;
use crate::Result;
use tallow_executor::{ExecutorError, WeightView};

/// Values that are decoded at a time: a multiple of every block.
const CHUNK: usize = 1 << 16;

/// How a weight differs between two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightDifference {
    /// Its name.
    pub name: String,
    /// Its encodings, where they differ.
    pub encodings: Option<(String, String)>,
    /// Number of its values, and of those that differ.
    pub values: usize,
    /// How many of them differ.
    pub differing: usize,
    /// The first one that differs, by its index in each dimension.
    pub first: Vec<usize>,
    /// The largest difference.
    pub max_abs: f64,
}

/// The differences between the weights of these names; those that are equal, or on one side alone, are left out.
pub(super) fn differences(left: &Side, right: &Side, names: &[String]) -> Result<Vec<WeightDifference>> {
    let mut found = Vec::new();
    for name in names {
        let (Some(a), Some(b)) = (left.weights.weight(name), right.weights.weight(name)) else { continue };
        if a.shape == b.shape {
            found.extend(difference(name, &a, &b)?);
        }
    }
    Ok(found)
}

fn difference(name: &str, a: &WeightView<'_>, b: &WeightView<'_>) -> Result<Option<WeightDifference>> {
    let encodings = (a.encoding != b.encoding).then(|| (a.encoding.name().to_owned(), b.encoding.name().to_owned()));
    if encodings.is_none() && a.bytes == b.bytes {
        return Ok(None);
    }
    let values = a.shape.iter().product::<u64>() as usize;
    let (mut differing, mut first, mut max_abs) = (0, None, 0f64);
    let mut x = vec![0f32; CHUNK];
    let mut y = vec![0f32; CHUNK];
    let mut at = 0;
    while at < values {
        let count = decode(name, a, at, &mut x)?.min(decode(name, b, at, &mut y)?).min(values - at);
        if count == 0 {
            break;
        }
        for (i, (p, q)) in x[..count].iter().zip(&y[..count]).enumerate().filter(|(_, (p, q))| p != q) {
            differing += 1;
            first.get_or_insert(at + i);
            max_abs = max_abs.max((f64::from(*p) - f64::from(*q)).abs());
        }
        at += count;
    }
    let Some(first) = first.or(encodings.as_ref().map(|_| 0)) else { return Ok(None) };
    let first = index(first, a.shape);
    Ok(Some(WeightDifference { name: name.to_owned(), encodings, values, differing, first, max_abs }))
}

/// Decodes values from number `at` on, which begins a block; how many there are, the last block's padding included.
fn decode(name: &str, view: &WeightView<'_>, at: usize, out: &mut [f32]) -> Result<usize> {
    let (len, size) = (view.encoding.block_len(), view.encoding.block_bytes());
    let rest = &view.bytes[(at / len * size).min(view.bytes.len())..];
    let blocks = (out.len() / len).min(rest.len() / size);
    let fault = |cause: String| ExecutorError::Weight { name: name.to_owned(), cause };
    let decoded = view.encoding.decode(&rest[..blocks * size], &mut out[..blocks * len]);
    decoded.map_err(|e| fault(e.to_string()))?;
    Ok(blocks * len)
}

/// The index in each dimension of element `at`.
pub(super) fn index(mut at: usize, shape: &[u64]) -> Vec<usize> {
    let mut out = vec![0; shape.len()];
    for (place, &size) in out.iter_mut().zip(shape).rev() {
        let size = (size as usize).max(1);
        *place = at % size;
        at /= size;
    }
    out
}
