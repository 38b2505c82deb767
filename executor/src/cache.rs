//! The key-value cache of one attention layer in one session.

use crate::error::{ExecutorError, Result};
use crate::kernels::{KvEncoding, KvLayout, KvRows, KvStore, KvWriter};
use crate::value::with_slice;
use candle_core::{DType, Device, Tensor};

/// Keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Keys.
    Key,
    /// Values.
    Value,
}

/// The rows of one side.
#[derive(Clone, Debug)]
enum Data {
    /// None yet.
    Empty,
    /// Real numbers; one row of the storage for each token.
    Real(KvStore),
    /// Blocks of `KvCompress`.
    Bytes(Vec<u8>),
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
    data: Data,
    /// `None` before the first rows.
    layout: Option<Layout>,
}

impl Side {
    /// Makes room for the rows of `count` tokens of a layout, and makes them the last ones.
    fn extend(&mut self, part: Part, encoding: KvEncoding, layout: Layout, tokens: usize) -> Extended<'_> {
        // The first rows, of a form that calls without rows may have told.
        if self.layout.is_none_or(|l| l.per_token == 0 && (l.batch, l.width) == (layout.batch, layout.width)) {
            self.layout = Some(layout);
            let order = match part {
                Part::Key => KvLayout::Lanes,
                Part::Value => KvLayout::Rows,
            };
            self.data = Data::Real(KvStore::new(encoding, order, layout.per_token.saturating_mul(layout.width)));
        }
        match (self.layout, &mut self.data) {
            (Some(before), Data::Real(store)) if before == layout => {
                let first = store.rows();
                store.extend(tokens).map_err(|_| format!("no memory for {} tokens in the cache", first + tokens))?;
                Ok((store, first))
            }
            (before, _) => Err(changed(layout, before)),
        }
    }
}

/// Storage with new rows, and the first of them; or what does not fit the rows before.
type Extended<'a> = std::result::Result<(&'a mut KvStore, usize), String>;

/// What is wrong with rows of another layout than those before.
fn changed(layout: Layout, before: Option<Layout>) -> String {
    match before {
        Some(before) if before != layout => {
            format!("cache rows come as {layout:?}, after rows that came as {before:?}")
        }
        _ => "cache rows come as another element type than the rows before".into(),
    }
}

/// The rows that calls of a session have appended.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    sides: [Side; 2],
    /// How real numbers are held.
    encoding: KvEncoding,
}

impl Cache {
    /// An empty cache.
    pub fn new(encoding: KvEncoding) -> Self {
        let side = Side { data: Data::Empty, layout: None };
        Cache { sides: [side.clone(), side], encoding }
    }

    /// Makes the rows of `tokens` tokens more the last ones, for [`Cache::writers`] to write: one row of
    /// keys and one of values for each, of these widths. Returns the number of the first. An error
    /// says what does not fit the rows before; allocates nothing where there is room.
    pub fn extend(&mut self, widths: [usize; 2], tokens: usize) -> std::result::Result<usize, String> {
        let encoding = self.encoding;
        let mut first = 0;
        for ((side, part), width) in self.sides.iter_mut().zip([Part::Key, Part::Value]).zip(widths) {
            let layout = Layout { batch: None, width, per_token: 1 };
            (_, first) = side.extend(part, encoding, layout, tokens)?;
        }
        Ok(first)
    }

    /// The rows of real numbers, keys and values, to be written by several threads.
    pub fn writers(&mut self) -> Option<[KvWriter<'_>; 2]> {
        let [keys, values] = &mut self.sides;
        match (&mut keys.data, &mut values.data) {
            (Data::Real(keys), Data::Real(values)) => Some([keys.writer(), values.writer()]),
            _ => None,
        }
    }

    /// Makes room for `tokens` tokens in all, where the form of rows is known; up to there appending
    /// allocates nothing.
    pub fn reserve(&mut self, tokens: usize) -> std::result::Result<(), String> {
        for side in &mut self.sides {
            if let Data::Real(store) = &mut side.data {
                store.reserve(tokens).map_err(|_| format!("no memory for {tokens} tokens in the cache"))?;
            }
        }
        Ok(())
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
        if rows.dtype() == DType::U8 {
            if side.layout.is_none_or(|l| l.per_token == 0 && (l.batch, l.width) == (batch, width)) {
                side.layout = Some(layout);
                side.data = Data::Bytes(Vec::new());
            }
            return match (side.layout, &mut side.data) {
                (Some(before), Data::Bytes(data)) if before == layout => {
                    data.extend(rows.flatten_all()?.to_vec1::<u8>()?);
                    Ok(Ok(()))
                }
                (before, _) => Ok(Err(changed(layout, before))),
            };
        }
        with_slice(&rows, |values| {
            let (store, first) = side.extend(part, self.encoding, layout, tokens)?;
            store.overwrite(first, values);
            Ok(())
        })
    }

    /// Puts other values in the place of all rows of one side, given in the form of [`Cache::tensor`].
    pub fn overwrite(&mut self, part: Part, all: &Tensor) -> Result<()> {
        let rows = match all.rank() {
            4 => all.permute((2, 0, 1, 3))?.contiguous()?,
            _ => all.contiguous()?,
        };
        match &mut self.sides[part as usize].data {
            Data::Empty => Ok(()),
            Data::Real(store) if rows.elem_count() != store.rows() * store.width() => {
                let cause =
                    format!("{:?} in the place of {} cache rows of {}", all.dims(), store.rows(), store.width());
                Err(ExecutorError::from(candle_core::Error::Msg(cause)))
            }
            Data::Real(store) => with_slice(&rows, |rows| store.overwrite(0, rows)),
            Data::Bytes(data) => {
                *data = rows.flatten_all()?.to_vec1::<u8>()?;
                Ok(())
            }
        }
    }

    /// The rows of one side for attention, one for each token; `None` where they are no real numbers.
    pub fn rows(&self, part: Part) -> Option<KvRows<'_>> {
        match &self.sides[part as usize].data {
            Data::Real(store) => Some(store.view()),
            Data::Empty | Data::Bytes(_) => None,
        }
    }

    /// Values held on one side.
    fn held(&self, part: Part) -> usize {
        match &self.sides[part as usize].data {
            Data::Empty => 0,
            Data::Real(store) => store.rows() * store.width(),
            Data::Bytes(data) => data.len(),
        }
    }

    /// A copy of one side in the form in which its rows came, real numbers as `f32`.
    pub fn tensor(&self, part: Part) -> Result<Tensor> {
        let Side { data, layout } = &self.sides[part as usize];
        let (width, batch) = layout.map_or((0, None), |l| (l.width, l.batch));
        let rows = self.held(part) / width.max(1);
        let shape = (rows, width);
        let flat = match data {
            Data::Empty => Tensor::zeros(shape, DType::F32, &Device::Cpu)?,
            Data::Real(store) => Tensor::from_vec(store.view().to_rows(), shape, &Device::Cpu)?,
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
        let layout = self.sides[part as usize].layout;
        let (width, batch) = layout.map_or((0, None), |l| (l.width, l.batch));
        let rows = self.held(part) / width.max(1);
        match batch {
            None => vec![rows, width],
            Some([batch, heads]) => vec![batch, heads, rows, width / (batch * heads).max(1)],
        }
    }

    /// Forgets everything past the first `tokens` tokens.
    pub fn truncate(&mut self, tokens: usize) {
        for side in &mut self.sides {
            match (&mut side.data, side.layout) {
                (Data::Real(store), _) => store.truncate(tokens),
                (Data::Bytes(data), Some(layout)) => data.truncate(tokens * layout.per_token * layout.width),
                _ => {}
            }
            if tokens == 0 {
                side.layout = None;
            }
        }
    }

    /// Bytes of rows held.
    pub fn bytes(&self) -> usize {
        let size = |data: &Data| match data {
            Data::Empty => 0,
            Data::Real(store) => store.bytes(),
            Data::Bytes(data) => data.len(),
        };
        self.sides.iter().map(|side| size(&side.data)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    fn rows(values: &[f32], shape: &[usize]) -> Tensor {
        Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
    }

    #[test]
    fn appends_rounds_and_truncates_by_token() {
        let mut cache = Cache::new(KvEncoding::F16);
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
        let mut cache = Cache::new(KvEncoding::F32);
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
        let mut cache = Cache::new(KvEncoding::F32);
        cache.append(Part::Key, &rows(&[], &[0, 4]), 0).unwrap().unwrap();
        assert_eq!(cache.tensor(Part::Key).unwrap().dims(), [0, 4]);
        cache.append(Part::Key, &rows(&[1.0; 8], &[2, 4]), 1).unwrap().unwrap();
        assert_eq!(cache.tensor(Part::Key).unwrap().dims(), [2, 4]);
        assert!(cache.append(Part::Key, &rows(&[1.0; 3], &[1, 3]), 1).unwrap().is_err());
    }

    #[test]
    fn rows_of_another_layout_are_refused() {
        let mut cache = Cache::new(KvEncoding::F32);
        cache.append(Part::Key, &rows(&[1.0, 2.0], &[1, 2]), 1).unwrap().unwrap();
        assert!(cache.append(Part::Key, &rows(&[1.0], &[1, 1]), 1).unwrap().unwrap_err().contains("after rows"));
        assert!(cache.append(Part::Key, &rows(&[0.0; 6], &[3, 2]), 2).unwrap().unwrap_err().contains("do not divide"));
        assert!(cache.append(Part::Key, &rows(&[0.0; 2], &[2]), 1).unwrap().is_err());
        // An emptied cache takes any.
        cache.truncate(0);
        cache.append(Part::Key, &rows(&[1.0], &[1, 1]), 1).unwrap().unwrap();
    }

    #[test]
    #[allow(unsafe_code, reason = "two threads write different rows")]
    fn rows_of_threads_are_those_of_tensors() {
        for encoding in [KvEncoding::F32, KvEncoding::F16, KvEncoding::Q8] {
            let values: Vec<f32> = (0..40 * 12).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
            let (mut one, mut other) = (Cache::new(encoding), Cache::new(encoding));
            for tokens in [0..1, 1..20, 20..40] {
                let part = &values[tokens.start * 12..tokens.end * 12];
                for side in [Part::Key, Part::Value] {
                    one.append(side, &rows(part, &[tokens.len(), 12]), tokens.len()).unwrap().unwrap();
                }
                assert_eq!(other.extend([12, 12], tokens.len()).unwrap(), tokens.start);
                other.writers().unwrap().into_iter().for_each(|writer| {
                    let half = tokens.len() / 2 * 12;
                    std::thread::scope(|scope| {
                        let writer = &writer;
                        // SAFETY: the two write different rows.
                        scope.spawn(move || unsafe { writer.write(tokens.start, &part[..half]) });
                        // SAFETY: as above.
                        unsafe { writer.write(tokens.start + half / 12, &part[half..]) };
                    });
                });
            }
            for side in [Part::Key, Part::Value] {
                let [one, other] = [&one, &other].map(|c| c.tensor(side).unwrap().to_vec2::<f32>().unwrap());
                assert_eq!(one, other);
                assert_eq!(one.len(), 40);
            }
            assert!(other.extend([12, 8], 1).unwrap_err().contains("after rows"));
        }
    }
}
