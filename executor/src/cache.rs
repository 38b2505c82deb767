//! The key-value cache of one attention layer in one session.

use crate::error::Result;
use crate::kernels::{KvData, KvLayout, KvRows};
use crate::value::with_slice;
use candle_core::{DType, Device, Tensor};
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
    /// Blocks of `KvCompress`.
    Bytes(Vec<u8>),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Data::F32(data) => data.len(),
            Data::F16(data) => data.len(),
            Data::Bytes(data) => data.len(),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Data::F32(data) => data.truncate(len),
            Data::F16(data) => data.truncate(len),
            Data::Bytes(data) => data.truncate(len),
        }
    }
}

/// How the rows of one side came, which later calls must repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Batch and heads of `[B, heads, rows, width]`; `None` for `[rows, width]`.
    batch: Option<[usize; 2]>,
    /// Values of a row: of all batches and heads together, where there are any.
    width: usize,
    /// Rows that one token appends.
    per_token: usize,
}

/// Keys, or values.
#[derive(Clone, Debug)]
struct Side {
    /// Row after row, whatever the layout.
    data: Data,
    /// `None` before the first rows.
    layout: Option<Layout>,
}

/// The rows that calls of a session have appended.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    sides: [Side; 2],
    /// Whether real numbers are rounded to half precision.
    half: bool,
}

impl Cache {
    /// An empty cache.
    pub fn new(half: bool) -> Self {
        let data = if half { Data::F16(Vec::new()) } else { Data::F32(Vec::new()) };
        let side = Side { data, layout: None };
        Cache { sides: [side.clone(), side], half }
    }

    /// Appends `[rows, width]` or `[B, heads, rows, width]` for `tokens` tokens: `f32`, or bytes. The
    /// outer error is Candle's, the inner one says what does not fit the rows before.
    pub fn append(&mut self, part: Part, rows: &Tensor, tokens: usize) -> Result<std::result::Result<(), String>> {
        let (rows, count, batch) = match *rows.dims() {
            [count, _] => (rows.contiguous()?, count, None),
            [batch, heads, count, _] => (rows.permute((2, 0, 1, 3))?.contiguous()?, count, Some([batch, heads])),
            _ => return Ok(Err(format!("cache rows of shape {:?}, expected [S, …] or [B, heads, S, …]", rows.dims()))),
        };
        let width = rows.dims()[1..].iter().product();
        if count == 0 {
            // No rows, whose form is known all the same.
            let layout = Layout { batch, width, per_token: 0 };
            self.sides[part as usize].layout.get_or_insert(layout);
            return Ok(Ok(()));
        }
        if tokens == 0 || count % tokens != 0 {
            return Ok(Err(format!("{count} cache rows do not divide into {tokens} tokens")));
        }
        let layout = Layout { batch, width, per_token: count / tokens };
        let side = &mut self.sides[part as usize];
        let bytes = rows.dtype() == DType::U8;
        // The first rows, of a form that calls without rows may have told.
        if side.layout.is_none_or(|l| l.per_token == 0 && (l.batch, l.width) == (batch, width)) {
            side.layout = Some(layout);
            side.data = match (bytes, self.half) {
                (true, _) => Data::Bytes(Vec::new()),
                (false, true) => Data::F16(Vec::new()),
                (false, false) => Data::F32(Vec::new()),
            };
        }
        match side.layout {
            Some(before) if before != layout => {
                return Ok(Err(format!("cache rows come as {layout:?}, after rows that came as {before:?}")));
            }
            _ => {}
        }
        match &mut side.data {
            Data::F32(data) => with_slice(&rows, |rows| data.extend_from_slice(rows))?,
            Data::F16(data) => with_slice(&rows, |rows| {
                let at = data.len();
                data.resize(at + rows.len(), f16::ZERO);
                data[at..].convert_from_f32_slice(rows);
            })?,
            Data::Bytes(data) => data.extend(rows.flatten_all()?.to_vec1::<u8>()?),
        }
        Ok(Ok(()))
    }

    /// [`Cache::append`] of numbers that lie one after another, in rows of `width`.
    pub fn append_rows(&mut self, part: Part, rows: &[f32], width: usize, tokens: usize) -> std::result::Result<(), String> {
        let count = rows.len().checked_div(width).unwrap_or(0);
        if tokens == 0 || count == 0 || !count.is_multiple_of(tokens) {
            return Err(format!("{count} cache rows do not divide into {tokens} tokens"));
        }
        let layout = Layout { batch: None, width, per_token: count / tokens };
        let side = &mut self.sides[part as usize];
        if side.layout.is_none_or(|l| l.per_token == 0 && (l.batch, l.width) == (None, width)) {
            side.layout = Some(layout);
            if matches!(side.data, Data::Bytes(_)) {
                side.data = if self.half { Data::F16(Vec::new()) } else { Data::F32(Vec::new()) };
            }
        }
        match side.layout {
            Some(before) if before != layout => {
                return Err(format!("cache rows come as {layout:?}, after rows that came as {before:?}"));
            }
            _ => {}
        }
        match &mut side.data {
            Data::F32(data) => data.extend_from_slice(rows),
            Data::F16(data) => {
                let at = data.len();
                data.resize(at + rows.len(), f16::ZERO);
                data[at..].convert_from_f32_slice(rows);
            }
            Data::Bytes(_) => return Err("cache rows come as numbers, after blocks".into()),
        }
        Ok(())
    }

    /// The rows of one side for attention; `None` for blocks.
    pub fn rows(&self, part: Part) -> Option<KvRows<'_>> {
        let Side { data, layout } = &self.sides[part as usize];
        let width = layout.map_or(0, |l| l.width);
        let rows = data.len().checked_div(width).unwrap_or(0);
        let data = match data {
            Data::F32(data) => KvData::F32(data),
            Data::F16(data) => KvData::F16(data),
            Data::Bytes(_) => return None,
        };
        Some(KvRows { data, layout: KvLayout::Rows, rows, width })
    }

    /// Puts other values in the place of all rows of one side, given in the form of [`Cache::tensor`].
    pub fn overwrite(&mut self, part: Part, all: &Tensor) -> Result<()> {
        let rows = match all.rank() {
            4 => all.permute((2, 0, 1, 3))?.contiguous()?,
            _ => all.contiguous()?,
        };
        match &mut self.sides[part as usize].data {
            Data::F32(data) => with_slice(&rows, |rows| data.copy_from_slice(rows)),
            Data::F16(data) => with_slice(&rows, |rows| data.convert_from_f32_slice(rows)),
            Data::Bytes(data) => {
                *data = rows.flatten_all()?.to_vec1::<u8>()?;
                Ok(())
            }
        }
    }

    /// The rows of one side, one after another.
    pub fn side(&self, part: Part) -> &Data {
        &self.sides[part as usize].data
    }

    /// A copy of one side in the form in which its rows came, real numbers as `f32`.
    pub fn tensor(&self, part: Part) -> Result<Tensor> {
        let Side { data, layout } = &self.sides[part as usize];
        let (width, batch) = layout.map_or((0, None), |l| (l.width, l.batch));
        let rows = data.len() / width.max(1);
        let shape = (rows, width);
        let flat = match data {
            Data::F32(data) => Tensor::from_slice(data, shape, &Device::Cpu)?,
            Data::F16(data) => Tensor::from_vec(data.to_f32_vec(), shape, &Device::Cpu)?,
            Data::Bytes(data) => Tensor::from_slice(data, shape, &Device::Cpu)?,
        };
        match batch {
            None => Ok(flat),
            Some([batch, heads]) => {
                let wide = flat.reshape((rows, batch, heads, width / (batch * heads).max(1)))?;
                Ok(wide.permute((1, 2, 0, 3))?.contiguous()?)
            }
        }
    }

    /// The shape of [`Cache::tensor`].
    pub fn dims(&self, part: Part) -> Vec<usize> {
        let Side { data, layout } = &self.sides[part as usize];
        let (width, batch) = layout.map_or((0, None), |l| (l.width, l.batch));
        let rows = data.len() / width.max(1);
        match batch {
            None => vec![rows, width],
            Some([batch, heads]) => vec![batch, heads, rows, width / (batch * heads).max(1)],
        }
    }

    /// Forgets everything past the first `tokens` tokens.
    pub fn truncate(&mut self, tokens: usize) {
        for side in &mut self.sides {
            if let Some(layout) = side.layout {
                side.data.truncate(tokens * layout.per_token * layout.width);
            }
            if tokens == 0 {
                side.layout = None;
            }
        }
    }

    /// Bytes of rows held.
    pub fn bytes(&self) -> usize {
        let size = |data: &Data| match data {
            Data::F32(data) => data.len() * 4,
            Data::F16(data) => data.len() * 2,
            Data::Bytes(data) => data.len(),
        };
        self.sides.iter().map(|side| size(&side.data)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[f32], shape: &[usize]) -> Tensor {
        Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
    }

    #[test]
    fn appends_rounds_and_truncates_by_token() {
        let mut cache = Cache::new(true);
        cache.append(Part::Key, &rows(&[1.0, 2.0, 3.0, 0.1], &[2, 2]), 2).unwrap().unwrap();
        cache.append(Part::Value, &rows(&[1.0, 2.0, 3.0, 4.0], &[2, 2]), 2).unwrap().unwrap();
        let rounded = f32::from(f16::from_f32(0.1));
        assert_eq!(cache.tensor(Part::Key).unwrap().to_vec2::<f32>().unwrap(), [[1.0, 2.0], [3.0, rounded]]);
        assert_eq!(cache.bytes(), 16);
        cache.truncate(1);
        assert_eq!(cache.tensor(Part::Value).unwrap().to_vec2::<f32>().unwrap(), [[1.0, 2.0]]);
    }

    #[test]
    fn batches_grow_along_their_rows() {
        let mut cache = Cache::new(false);
        // [B 1, heads 2, rows 1, width 2], then two rows more.
        cache.append(Part::Key, &rows(&[1.0, 2.0, 3.0, 4.0], &[1, 2, 1, 2]), 1).unwrap().unwrap();
        let more = [5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
        cache.append(Part::Key, &rows(&more, &[1, 2, 2, 2]), 2).unwrap().unwrap();
        let all = cache.tensor(Part::Key).unwrap();
        assert_eq!(all.dims(), [1, 2, 3, 2]);
        let flat = all.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(flat, [1.0, 2.0, 5.0, 6.0, 7.0, 8.0, 3.0, 4.0, 9.0, 10.0, 11.0, 12.0]);
        cache.truncate(1);
        let flat = cache.tensor(Part::Key).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(flat, [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn no_rows_have_a_form_too() {
        let mut cache = Cache::new(false);
        cache.append(Part::Key, &rows(&[], &[0, 4]), 0).unwrap().unwrap();
        assert_eq!(cache.tensor(Part::Key).unwrap().dims(), [0, 4]);
        cache.append(Part::Key, &rows(&[1.0; 8], &[2, 4]), 1).unwrap().unwrap();
        assert_eq!(cache.tensor(Part::Key).unwrap().dims(), [2, 4]);
        assert!(cache.append(Part::Key, &rows(&[1.0; 3], &[1, 3]), 1).unwrap().is_err());
    }

    #[test]
    fn rows_of_another_layout_are_refused() {
        let mut cache = Cache::new(false);
        cache.append(Part::Key, &rows(&[1.0, 2.0], &[1, 2]), 1).unwrap().unwrap();
        assert!(cache.append(Part::Key, &rows(&[1.0], &[1, 1]), 1).unwrap().unwrap_err().contains("after rows"));
        assert!(cache.append(Part::Key, &rows(&[0.0; 6], &[3, 2]), 2).unwrap().unwrap_err().contains("do not divide"));
        assert!(cache.append(Part::Key, &rows(&[0.0; 2], &[2]), 1).unwrap().is_err());
        // An emptied cache takes any.
        cache.truncate(0);
        cache.append(Part::Key, &rows(&[1.0], &[1, 1]), 1).unwrap().unwrap();
    }
}
