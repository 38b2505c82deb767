//! Storage of cached keys and values, in the order in which attention reads them.
//!
//! Values lie row after row. Keys lie in blocks of sixteen rows, within a block value by value:
//! element `c` of row `r` is element `(r / 16 · width + c) · 16 + r % 16`. So a product of a query
//! with sixteen keys reads one after another what it needs, of one head or of all.
//!
//! With [`KvEncoding::Q8`] thirty-two consecutive values of a row share a half-precision scale, and
//! stand as integers from −127 to 127: the value is the integer times the scale. A block of which a
//! value is not finite is NaN as a whole.
#![allow(unsafe_code, reason = "rows are written by several threads, and aligned storage is seen as its elements")]

use super::super::Disjoint;
use super::super::cpu::multiversion;
use half::f16;
use half::slice::HalfFloatSliceExt;
use std::collections::TryReserveError;

/// Rows of a block of keys.
pub const BLOCK: usize = 16;
/// Values that share a scale.
pub const SCALED: usize = 32;
/// Rows for which room is made at least.
const ROOM: usize = 256;

/// How cached numbers are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvEncoding {
    /// Exact.
    F32,
    /// Rounded to half precision.
    F16,
    /// Rounded to 8 bits with a scale for each 32 values.
    Q8,
}

/// The order of cached numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvLayout {
    /// Row after row.
    Rows,
    /// Blocks of sixteen rows, within a block value by value.
    Lanes,
}

impl KvLayout {
    /// Where element `column` of row `row` of rows of `width` stands.
    #[inline(always)]
    fn at(self, row: usize, column: usize, width: usize) -> usize {
        match self {
            Self::Rows => row * width + column,
            Self::Lanes => (row / BLOCK * width + column) * BLOCK + row % BLOCK,
        }
    }

    /// Rows for which there is storage where `rows` are held.
    fn stored(self, rows: usize) -> usize {
        match self {
            Self::Rows => rows,
            Self::Lanes => rows.next_multiple_of(BLOCK),
        }
    }
}

/// The numbers of a [`KvRows`].
#[derive(Clone, Copy, Debug)]
pub enum KvData<'a> {
    /// Exact.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [f16]),
    /// Integers and the scales of each [`SCALED`] of a row, in the same layout.
    Q8(&'a [i8], &'a [f16]),
}

/// Keys or values as attention reads them.
#[derive(Clone, Copy, Debug)]
pub struct KvRows<'a> {
    /// The numbers.
    pub data: KvData<'a>,
    /// Their order.
    pub layout: KvLayout,
    /// Rows held.
    pub rows: usize,
    /// Values of a row.
    pub width: usize,
}

impl KvRows<'_> {
    /// How many numbers, and scales where there are any, the rows need.
    pub(super) fn needs(&self) -> Option<(usize, usize)> {
        let stored = match self.layout {
            KvLayout::Rows => self.rows,
            KvLayout::Lanes => self.rows.checked_next_multiple_of(BLOCK)?,
        };
        let scales = if matches!(self.data, KvData::Q8(..)) { self.width.div_ceil(SCALED) } else { 0 };
        Some((stored.checked_mul(self.width)?, stored.checked_mul(scales)?))
    }

    /// The value of one element.
    #[inline(always)]
    fn value(&self, row: usize, column: usize) -> f32 {
        let at = self.layout.at(row, column, self.width);
        match self.data {
            KvData::F32(data) => data[at],
            KvData::F16(data) => data[at].to_f32(),
            KvData::Q8(codes, scales) => {
                let scale = self.layout.at(row, column / SCALED, self.width.div_ceil(SCALED));
                f32::from(codes[at]) * scales[scale].to_f32()
            }
        }
    }

    /// How many numbers and scales there are.
    pub(super) fn lengths(&self) -> (usize, usize) {
        match self.data {
            KvData::F32(data) => (data.len(), 0),
            KvData::F16(data) => (data.len(), 0),
            KvData::Q8(codes, scales) => (codes.len(), scales.len()),
        }
    }

    /// Some consecutive values of a row.
    #[inline(always)]
    pub(super) fn head(&self, row: usize, column: usize, count: usize) -> impl Iterator<Item = f32> {
        (column..column + count).map(move |column| self.value(row, column))
    }

    /// All values, row after row.
    pub fn to_rows(&self) -> Vec<f32> {
        match (self.data, self.layout) {
            (KvData::F32(data), KvLayout::Rows) => data[..self.rows * self.width].to_vec(),
            (KvData::F16(data), KvLayout::Rows) => data[..self.rows * self.width].to_f32_vec(),
            _ => {
                let mut out = Vec::with_capacity(self.rows * self.width);
                for row in 0..self.rows {
                    out.extend((0..self.width).map(|column| self.value(row, column)));
                }
                out
            }
        }
    }
}

/// Storage that begins at a cache line.
#[derive(Clone, Debug, Default)]
struct Lines(Vec<Line>);

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Plain numbers, for which any bytes stand.
trait Plain: Copy {}
impl Plain for f32 {}
impl Plain for f16 {}
impl Plain for i8 {}

impl Lines {
    #[inline(always)]
    fn slice<T: Plain>(&self) -> &[T] {
        // SAFETY: any bytes are a `T`, which is aligned less strictly than a line.
        unsafe { self.0.align_to::<T>().1 }
    }

    #[inline(always)]
    fn slice_mut<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { self.0.align_to_mut::<T>().1 }
    }

    /// Makes room for that many bytes.
    fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        let lines = bytes.div_ceil(64);
        self.0.try_reserve_exact(lines.saturating_sub(self.0.len()))
    }

    /// Holds that many bytes, new ones zero.
    fn resize(&mut self, bytes: usize) {
        self.0.resize(bytes.div_ceil(64), Line([0; 64]));
    }
}

/// Numbers that begin at a cache line, so that no vector of them lies in two.
#[derive(Debug, Default)]
pub(super) struct Floats(Lines);

impl Floats {
    /// Holds that many at least.
    pub(super) fn hold(&mut self, len: usize) {
        if self.len() < len {
            self.0.resize(len.saturating_mul(4));
        }
    }
}

impl std::ops::Deref for Floats {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        self.0.slice()
    }
}

impl std::ops::DerefMut for Floats {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        self.0.slice_mut()
    }
}

/// Owned rows of keys or of values.
#[derive(Debug)]
pub struct KvStore {
    encoding: KvEncoding,
    layout: KvLayout,
    width: usize,
    rows: usize,
    /// Rows for which there is room.
    room: usize,
    numbers: Lines,
    scales: Lines,
}

impl Clone for KvStore {
    fn clone(&self) -> Self {
        // The copy has no more room than it needs.
        Self { numbers: self.numbers.clone(), scales: self.scales.clone(), room: 0, ..*self }
    }
}

impl KvStore {
    /// No rows of `width` values.
    pub fn new(encoding: KvEncoding, layout: KvLayout, width: usize) -> Self {
        Self { encoding, layout, width, rows: 0, room: 0, numbers: Lines::default(), scales: Lines::default() }
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How the numbers are held.
    pub fn encoding(&self) -> KvEncoding {
        self.encoding
    }

    /// Bytes of numbers and of scales of that many rows.
    fn sizes(&self, rows: usize) -> (usize, usize) {
        let stored = self.layout.stored(rows);
        let numbers = stored.saturating_mul(self.width);
        match self.encoding {
            KvEncoding::F32 => (numbers.saturating_mul(4), 0),
            KvEncoding::F16 => (numbers.saturating_mul(2), 0),
            KvEncoding::Q8 => (numbers, stored.saturating_mul(self.width.div_ceil(SCALED)) * 2),
        }
    }

    /// Bytes of the rows held.
    pub fn bytes(&self) -> usize {
        // Of the rows themselves: what a block of keys has left is no part of them.
        let (numbers, scales) =
            Self { layout: KvLayout::Rows, ..Self::new(self.encoding, self.layout, self.width) }.sizes(self.rows);
        numbers + scales
    }

    /// Makes room for `rows` rows in all, so that appending up to there allocates nothing.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn reserve(&mut self, rows: usize) -> Result<(), TryReserveError> {
        if rows <= self.room {
            return Ok(());
        }
        let (numbers, scales) = self.sizes(rows);
        self.numbers.reserve(numbers)?;
        self.scales.reserve(scales)?;
        self.room = rows;
        Ok(())
    }

    /// Adds `count` rows of no meaning, which the caller writes by [`KvStore::writer`]. Room at
    /// least doubles where there is none left.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn extend(&mut self, count: usize) -> Result<(), TryReserveError> {
        let rows = self.rows.saturating_add(count);
        if rows > self.room {
            self.reserve(rows.max(self.room.saturating_mul(2)).max(ROOM))?;
        }
        let (numbers, scales) = self.sizes(rows);
        self.numbers.resize(numbers);
        self.scales.resize(scales);
        self.rows = rows;
        Ok(())
    }

    /// Forgets all but the first rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
    }

    /// Appends rows, one after another.
    ///
    /// # Errors
    /// There is not that much memory.
    pub fn append(&mut self, rows: &[f32]) -> Result<(), TryReserveError> {
        let first = self.rows;
        self.extend(rows.len().checked_div(self.width).unwrap_or(0))?;
        self.overwrite(first, rows);
        Ok(())
    }

    /// Puts others in the place of the rows from `first` on.
    pub fn overwrite(&mut self, first: usize, rows: &[f32]) {
        // SAFETY: the store is borrowed by this call alone.
        unsafe { self.writer().write(first, rows) };
    }

    /// Access for several threads.
    pub fn writer(&mut self) -> KvWriter<'_> {
        let (layout, width, rows) = (self.layout, self.width, self.rows);
        let data = match self.encoding {
            KvEncoding::F32 => WriterData::F32(Disjoint::new(self.numbers.slice_mut())),
            KvEncoding::F16 => WriterData::F16(Disjoint::new(self.numbers.slice_mut())),
            KvEncoding::Q8 => {
                WriterData::Q8(Disjoint::new(self.numbers.slice_mut()), Disjoint::new(self.scales.slice_mut()))
            }
        };
        KvWriter { data, layout, width, rows }
    }

    /// The rows.
    pub fn view(&self) -> KvRows<'_> {
        let data = match self.encoding {
            KvEncoding::F32 => KvData::F32(self.numbers.slice()),
            KvEncoding::F16 => KvData::F16(self.numbers.slice()),
            KvEncoding::Q8 => KvData::Q8(self.numbers.slice(), self.scales.slice()),
        };
        KvRows { data, layout: self.layout, rows: self.rows, width: self.width }
    }
}

/// The rows of a [`KvStore`], to be written by several threads.
pub struct KvWriter<'a> {
    data: WriterData<'a>,
    layout: KvLayout,
    width: usize,
    rows: usize,
}

enum WriterData<'a> {
    F32(Disjoint<'a, f32>),
    F16(Disjoint<'a, f16>),
    Q8(Disjoint<'a, i8>, Disjoint<'a, f16>),
}

impl KvWriter<'_> {
    /// Writes whole rows, given one after another, in the place of those from `first` on.
    ///
    /// # Safety
    /// No row is written by two threads at once.
    ///
    /// # Panics
    /// Where there are not that many rows.
    pub unsafe fn write(&self, first: usize, rows: &[f32]) {
        if self.width == 0 {
            return;
        }
        let mut at = 0;
        let count = rows.len() / self.width;
        while at < count {
            let values = &rows[at * self.width..];
            let whole = self.layout == KvLayout::Lanes && (first + at).is_multiple_of(BLOCK) && count - at >= BLOCK;
            // SAFETY: the caller's promise.
            at += unsafe {
                match &self.data {
                    WriterData::F32(out) if whole => {
                        self.write_block(out, first + at, values, <[f32]>::copy_from_slice)
                    }
                    WriterData::F16(out) if whole => {
                        self.write_block(out, first + at, values, HalfFloatSliceExt::convert_from_f32_slice)
                    }
                    _ => {
                        self.write_row(first + at, &values[..self.width]);
                        1
                    }
                }
            };
        }
    }

    /// Writes a whole block of keys, converted by `f`; returns how many.
    ///
    /// # Safety
    /// As [`KvWriter::write`].
    unsafe fn write_block<T>(
        &self,
        out: &Disjoint<'_, T>,
        first: usize,
        rows: &[f32],
        f: impl Fn(&mut [T], &[f32]),
    ) -> usize {
        assert!(first + BLOCK <= self.rows, "rows of the cache");
        let mut turned = [0.0; SCALED * BLOCK];
        for column in (0..self.width).step_by(SCALED) {
            let columns = SCALED.min(self.width - column);
            let turned = &mut turned[..columns * BLOCK];
            for (lane, row) in rows.chunks_exact(self.width).take(BLOCK).enumerate() {
                for (to, &x) in turned[lane..].iter_mut().step_by(BLOCK).zip(&row[column..column + columns]) {
                    *to = x;
                }
            }
            let at = self.layout.at(first, column, self.width);
            // SAFETY: the elements of these columns of the block, whose rows the caller alone writes.
            f(unsafe { out.part(at..at + turned.len()) }, turned);
        }
        BLOCK
    }

    /// Writes one row.
    ///
    /// # Safety
    /// As [`KvWriter::write`].
    ///
    /// # Panics
    /// Where there is no such row, or it has another width.
    pub unsafe fn write_row(&self, row: usize, values: &[f32]) {
        assert!(row < self.rows && values.len() == self.width, "a row of the cache");
        let whole = row * self.width..(row + 1) * self.width;
        match (&self.data, self.layout) {
            // SAFETY (all parts): elements of this row, which the caller alone writes.
            (WriterData::F32(out), KvLayout::Rows) => unsafe { out.part(whole) }.copy_from_slice(values),
            (WriterData::F16(out), KvLayout::Rows) => unsafe { out.part(whole) }.convert_from_f32_slice(values),
            (WriterData::F32(out), KvLayout::Lanes) => {
                for (column, &value) in values.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { self.put(out, row, column, self.width, value) };
                }
            }
            (WriterData::F16(out), KvLayout::Lanes) => {
                let mut half = [f16::ZERO; SCALED];
                for (block, values) in values.chunks(SCALED).enumerate() {
                    let half = &mut half[..values.len()];
                    half.convert_from_f32_slice(values);
                    for (i, &value) in half.iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { self.put(out, row, block * SCALED + i, self.width, value) };
                    }
                }
            }
            (WriterData::Q8(out, scales), layout) => {
                let blocks = self.width.div_ceil(SCALED);
                for (block, values) in values.chunks(SCALED).enumerate() {
                    let mut codes = [0_i8; SCALED];
                    let codes = &mut codes[..values.len()];
                    let scale = quantize(values, codes);
                    // SAFETY: as above.
                    unsafe { self.put(scales, row, block, blocks, scale) };
                    if layout == KvLayout::Rows {
                        let at = row * self.width + block * SCALED;
                        // SAFETY: as above.
                        unsafe { out.part(at..at + codes.len()) }.copy_from_slice(codes);
                        continue;
                    }
                    for (i, &code) in codes.iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { self.put(out, row, block * SCALED + i, self.width, code) };
                    }
                }
            }
        }
    }

    /// Writes one element.
    ///
    /// # Safety
    /// As [`KvWriter::write`].
    #[inline(always)]
    unsafe fn put<T>(&self, out: &Disjoint<'_, T>, row: usize, column: usize, width: usize, value: T) {
        let at = self.layout.at(row, column, width);
        // SAFETY: one element of a row that the caller alone writes.
        let place = unsafe { out.part(at..at + 1) };
        place[0] = value;
    }
}

multiversion! {
    /// The integers of up to [`SCALED`] values, and their scale.
    fn quantize(values: &[f32], codes: &mut [i8]) -> f16 {
        let mut top = 0.0_f32;
        let mut finite = true;
        for value in values {
            finite &= value.is_finite();
            top = if value.abs() > top { value.abs() } else { top };
        }
        if !finite {
            codes.fill(1);
            return f16::NAN;
        }
        // A scale that half precision holds: the largest where it would be more, none below the least.
        let scale = f16::from_f32((top / 127.0).min(65504.0));
        let inverse = if scale == f16::ZERO { 0.0 } else { 1.0 / scale.to_f32() };
        for (code, value) in codes.iter_mut().zip(values) {
            *code = (value * inverse).round_ties_even().clamp(-127.0, 127.0) as i8;
        }
        scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    #[test]
    fn kernels_kv_rows_come_back_in_every_layout() {
        for width in [1, 8, 32, 40, 130] {
            for layout in [KvLayout::Rows, KvLayout::Lanes] {
                for encoding in [KvEncoding::F32, KvEncoding::F16, KvEncoding::Q8] {
                    let rows = numbers(37 * width);
                    let mut store = KvStore::new(encoding, layout, width);
                    for part in [0..1, 1..17, 17..37] {
                        store.append(&rows[part.start * width..part.end * width]).unwrap();
                    }
                    let back = store.view().to_rows();
                    assert_eq!(back.len(), rows.len());
                    let bound = match encoding {
                        KvEncoding::F32 => 0.0,
                        KvEncoding::F16 => 0.5 / 1024.0,
                        KvEncoding::Q8 => 0.51 / 127.0,
                    };
                    assert!(
                        back.iter().zip(&rows).all(|(a, b)| (a - b).abs() <= bound),
                        "{width} {layout:?} {encoding:?}"
                    );
                    store.truncate(18);
                    store.overwrite(3, &rows[..2 * width]);
                    let back = store.view().to_rows();
                    assert_eq!(back.len(), 18 * width);
                    assert!(back[3 * width..].iter().zip(&rows[..2 * width]).all(|(a, b)| (a - b).abs() <= bound));
                }
            }
        }
    }

    #[test]
    fn kernels_kv_room_grows_rarely_and_once_reserved_not_at_all() {
        let mut store = KvStore::new(KvEncoding::F16, KvLayout::Lanes, 8);
        let (mut moves, mut last) = (0, std::ptr::null());
        for _ in 0..5000 {
            store.append(&[1.0; 8]).unwrap();
            let now = store.numbers.0.as_ptr();
            moves += usize::from(now != last);
            last = now;
        }
        assert!(moves <= 6, "{moves}");
        let mut store = KvStore::new(KvEncoding::Q8, KvLayout::Rows, 8);
        store.reserve(1000).unwrap();
        store.append(&[1.0; 8]).unwrap();
        let before = (store.numbers.0.as_ptr(), store.scales.0.as_ptr());
        (1..1000).for_each(|_| store.append(&[1.0; 8]).unwrap());
        assert_eq!(before, (store.numbers.0.as_ptr(), store.scales.0.as_ptr()));
        assert!(KvStore::new(KvEncoding::F32, KvLayout::Rows, usize::MAX / 8).reserve(64).is_err());
    }

    #[test]
    fn kernels_kv_q8_holds_extremes() {
        let mut store = KvStore::new(KvEncoding::Q8, KvLayout::Lanes, 64);
        let mut row = vec![0.0; 64];
        (row[0], row[1], row[40]) = (8.3e6, -1e5, f32::INFINITY);
        store.append(&row).unwrap();
        store.append(&[1e-12; 64]).unwrap();
        store.append(&[f32::MAX; 64]).unwrap();
        let back = store.view().to_rows();
        assert!((back[0] - 8.3e6).abs() < 5e3 && (back[1] + 1e5).abs() < 4e4 && back[2] == 0.0);
        assert!(back[32..64].iter().all(|x| x.is_nan()));
        assert!(back[64..128].iter().all(|&x| x == 0.0));
        assert!(back[128..].iter().all(|&x| x == 65504.0 * 127.0));
    }
}
