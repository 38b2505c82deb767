//! The key-value cache of one attention layer in one session.

use crate::error::Result;
use candle_core::{Device, Tensor};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Keys.
    Key,
    /// Values.
    Value,
}

/// Rows of one side, in the cache's element type.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// Exact.
    F32(Vec<f32>),
    /// Rounded to half precision before anything reads them.
    F16(Vec<f16>),
}

/// The rows that calls of a session have appended.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// Keys, values.
    sides: [Data; 2],
    /// Values per row of each side; 0 before the first append.
    widths: [usize; 2],
    /// Rows that one token appends.
    rows_per_token: usize,
}

impl Cache {
    /// An empty cache.
    pub fn new(half: bool) -> Self {
        let empty = || if half { Data::F16(Vec::new()) } else { Data::F32(Vec::new()) };
        Cache { sides: [empty(), empty()], widths: [0; 2], rows_per_token: 1 }
    }

    /// Appends rows of `width` values, for `tokens` tokens.
    pub fn append(&mut self, part: Part, rows: &[f32], width: usize, tokens: usize) {
        self.widths[part as usize] = width;
        self.rows_per_token = (rows.len() / width.max(1) / tokens.max(1)).max(1);
        match &mut self.sides[part as usize] {
            Data::F32(data) => data.extend_from_slice(rows),
            Data::F16(data) => {
                let at = data.len();
                data.resize(at + rows.len(), f16::ZERO);
                data[at..].convert_from_f32_slice(rows);
            }
        }
    }

    /// The rows of one side and their width.
    pub fn side(&self, part: Part) -> (&Data, usize) {
        (&self.sides[part as usize], self.widths[part as usize])
    }

    /// A copy of one side as an `f32` tensor `[rows, width]`.
    pub fn tensor(&self, part: Part) -> Result<Tensor> {
        let (data, width) = self.side(part);
        let values = match data {
            Data::F32(data) => data.clone(),
            Data::F16(data) => data.to_f32_vec(),
        };
        let rows = values.len() / width.max(1);
        Ok(Tensor::from_vec(values, (rows, width), &Device::Cpu)?)
    }

    /// Forgets everything past the first `tokens` tokens.
    pub fn truncate(&mut self, tokens: usize) {
        for (data, width) in self.sides.iter_mut().zip(self.widths) {
            let keep = tokens * self.rows_per_token * width;
            match data {
                Data::F32(data) => data.truncate(keep),
                Data::F16(data) => data.truncate(keep),
            }
        }
    }

    /// Bytes of rows held.
    pub fn bytes(&self) -> usize {
        self.sides
            .iter()
            .map(|d| match d {
                Data::F32(data) => data.len() * 4,
                Data::F16(data) => data.len() * 2,
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_rounds_and_truncates_by_token() {
        let mut cache = Cache::new(true);
        cache.append(Part::Key, &[1.0, 2.0, 3.0, 0.1], 2, 2);
        cache.append(Part::Value, &[1.0, 2.0, 3.0, 4.0], 2, 2);
        let rounded = f32::from(f16::from_f32(0.1));
        assert_eq!(cache.tensor(Part::Key).unwrap().to_vec2::<f32>().unwrap(), [[1.0, 2.0], [3.0, rounded]]);
        assert_eq!(cache.bytes(), 16);
        cache.truncate(1);
        assert_eq!(cache.tensor(Part::Value).unwrap().to_vec2::<f32>().unwrap(), [[1.0, 2.0]]);
    }
}
