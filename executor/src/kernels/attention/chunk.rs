//! A chunk of keys or values of one head as the inner loops read it.
#![allow(unsafe_code, reason = "vector instructions take pointers")]

use super::super::lanes::{Lanes, WIDTH};
use super::block::{Block, CHUNK};
use super::call::padded;
use super::kv::{BLOCK, Floats, KvData, KvLayout, KvRows, SCALED};
use half::f16;
use std::ops::Range;

/// Room for a chunk of widened keys and values.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    keys: Floats,
    values: Floats,
}

/// A chunk in the room, or in the cache itself.
#[derive(Clone, Copy)]
pub(super) enum Pointers {
    F32(Block<f32>),
    F16(Block<f16>),
}

impl Chunk {
    pub(super) fn reserve(&mut self, dim: usize) {
        let padded = padded(dim);
        self.keys.hold(CHUNK * dim);
        self.values.hold(CHUNK * padded);
    }

    /// The keys `keys` of the chunk that begins at row `base`, in columns from `column` on: a block
    /// whose rows are the elements of a head and whose vectors are sixteen keys. With `lone` they
    /// are read once.
    ///
    /// # Safety
    /// The instruction set of `V`. The block holds the vectors in which `keys` lie.
    #[inline(always)]
    pub(super) unsafe fn keys<V: Lanes>(
        &mut self,
        from: &KvRows<'_>,
        column: usize,
        dim: usize,
        base: usize,
        keys: Range<usize>,
        lone: bool,
    ) -> Pointers {
        let room = self.keys.as_mut_ptr();
        let widened = Pointers::F32(Block { start: room, row: WIDTH, panel: dim * WIDTH, ahead: 0 });
        let panels = keys.start / WIDTH..keys.end.div_ceil(WIDTH);
        let KvLayout::Lanes = from.layout else {
            for panel in panels {
                let room = &mut self.keys[panel * dim * WIDTH..][..dim * WIDTH];
                for lane in 0..WIDTH.min(from.rows - base - panel * WIDTH) {
                    let row = base + panel * WIDTH + lane;
                    for (to, x) in room[lane..].iter_mut().step_by(WIDTH).zip(from.head(row, column, dim)) {
                        *to = x;
                    }
                }
            }
            return widened;
        };
        // Element `c` of the first key of a block of sixteen.
        let at = |panel: usize, width: usize| (base / BLOCK + panel) * width * BLOCK;
        let ahead = CHUNK * from.width;
        let (start, panel) = (at(0, from.width) + column * BLOCK, from.width * BLOCK);
        match from.data {
            KvData::F32(data) => {
                return Pointers::F32(Block { start: data.as_ptr().wrapping_add(start), row: WIDTH, panel, ahead });
            }
            KvData::F16(data) if lone => {
                return Pointers::F16(Block { start: data.as_ptr().wrapping_add(start), row: WIDTH, panel, ahead });
            }
            KvData::F16(data) => {
                for p in panels {
                    // SAFETY: `dim` vectors of a block of the cache, and of the room.
                    unsafe {
                        let (from, to) = (data.as_ptr().add(start + p * panel), room.add(p * dim * WIDTH));
                        for i in 0..dim {
                            V::load_f16(from.add(i * WIDTH)).store(to.add(i * WIDTH));
                        }
                    }
                }
            }
            KvData::Q8(codes, scales) => {
                for p in panels {
                    let scales = scales.as_ptr().wrapping_add(at(p, from.width.div_ceil(SCALED)));
                    // SAFETY: as above.
                    unsafe {
                        let (from, to) = (codes.as_ptr().add(start + p * panel), room.add(p * dim * WIDTH));
                        let mut i = 0;
                        while i < dim {
                            let block = (column + i) / SCALED;
                            let scale = V::load_f16(scales.add(block * WIDTH));
                            let end = dim.min((block + 1) * SCALED - column);
                            while i < end {
                                V::load_i8(from.add(i * WIDTH)).mul(scale).store(to.add(i * WIDTH));
                                i += 1;
                            }
                        }
                    }
                }
            }
        }
        widened
    }

    /// The values `keys` of the chunk that begins at row `base`, in columns from `column` on: a block
    /// whose rows are values and whose vectors are sixteen of their elements, zero past the last.
    ///
    /// # Safety
    /// The instruction set of `V`. The block holds the rows `keys`.
    #[inline(always)]
    pub(super) unsafe fn values<V: Lanes>(
        &mut self,
        from: &KvRows<'_>,
        column: usize,
        dim: usize,
        base: usize,
        keys: Range<usize>,
        lone: bool,
    ) -> Pointers {
        let padded = padded(dim);
        let room = self.values.as_mut_ptr();
        let start = base * from.width + column;
        let (rows, ahead) = (from.layout == KvLayout::Rows, CHUNK * from.width);
        match from.data {
            KvData::F32(data) if rows && dim == padded => {
                let start = data.as_ptr().wrapping_add(start);
                return Pointers::F32(Block { start, row: from.width, panel: WIDTH, ahead });
            }
            KvData::F16(data) if rows && lone && dim == padded => {
                let start = data.as_ptr().wrapping_add(start);
                return Pointers::F16(Block { start, row: from.width, panel: WIDTH, ahead });
            }
            KvData::F16(data) if rows && dim == padded => {
                for key in keys {
                    // SAFETY: a row of the head, in the cache and in the room.
                    unsafe {
                        let (from, to) = (data.as_ptr().add(start + key * from.width), room.add(key * padded));
                        for i in (0..dim).step_by(WIDTH) {
                            V::load_f16(from.add(i)).store(to.add(i));
                        }
                    }
                }
            }
            KvData::Q8(codes, scales) if rows && dim == padded && column.is_multiple_of(WIDTH) => {
                let blocks = from.width.div_ceil(SCALED);
                for key in keys {
                    // SAFETY: as above.
                    unsafe {
                        let scales = scales.as_ptr().add((base + key) * blocks);
                        let (from, to) = (codes.as_ptr().add(start + key * from.width), room.add(key * padded));
                        for i in (0..dim).step_by(WIDTH) {
                            let scale = V::splat((*scales.add((column + i) / SCALED)).to_f32());
                            V::load_i8(from.add(i)).mul(scale).store(to.add(i));
                        }
                    }
                }
            }
            _ => {
                for key in keys {
                    let room = &mut self.values[key * padded..][..padded];
                    for (to, x) in room.iter_mut().zip(from.head(base + key, column, dim)) {
                        *to = x;
                    }
                    room[dim..].fill(0.0);
                }
            }
        }
        Pointers::F32(Block { start: room, row: padded, panel: WIDTH, ahead: 0 })
    }
}
