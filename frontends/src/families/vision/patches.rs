//! From pixels to rows: a picture in patches, each a row, after the rows of tokens that stand for the whole.

use super::layers::Sight;
use super::{Window, bicubic, convolution, pixels, sides};
use crate::families::parts::{Built, Parts};
use crate::families::{FamilyError, Settings};
use tallow_ir::ops::PadMode;
use tallow_ir::{Dim, IrError, Op, Value};

/// Patches of a side.
const MOST: u32 = 1024;

/// Pictures in patches.
#[derive(Clone, Debug)]
pub(super) struct Patches {
    pub channels: u32,
    /// Height and width of a picture in pixels.
    pub size: [u32; 2],
    /// Of a patch.
    pub patch: [u32; 2],
    /// Patches of the table of positions, down and across.
    pub table: [u32; 2],
    /// Width of a row.
    pub hidden: u32,
}

/// The rows of pictures, `[N · each, hidden]`.
pub(super) struct Rows {
    pub h: Value,
    /// Rows of a picture.
    pub each: u32,
    pub sight: Sight,
}

impl Patches {
    /// Reads the sizes of pictures and patches under their usual keys.
    pub fn read(s: &mut Settings<'_>, hidden: u32, size: u32, patch: u32) -> Result<Self, FamilyError> {
        let channels = s.size("num_channels", 3)?;
        let patch = sides(s, "patch_size", patch)?;
        let size = sides(s, "image_size", size)?;
        let table = Self::grid(s, "image_size", size, patch)?;
        Ok(Patches { channels, size, patch, table, hidden })
    }

    /// The patches of a picture of this size, which stands under `key`.
    pub fn grid(s: &Settings<'_>, key: &str, size: [u32; 2], patch: [u32; 2]) -> Result<[u32; 2], FamilyError> {
        let grid = [size[0] / patch[0], size[1] / patch[1]];
        match grid.iter().all(|n| (1..=MOST).contains(n)) {
            true => Ok(grid),
            false => Err(s.bad(
                key,
                format!("{} × {}", size[0], size[1]),
                format!("in patches of {} × {} a side has from 1 to {MOST} of them", patch[0], patch[1]),
                "Correct it",
            )),
        }
    }

    /// Patches of a picture, down and across.
    fn patches(&self) -> [u32; 2] {
        [self.size[0] / self.patch[0], self.size[1] / self.patch[1]]
    }

    /// Rows of the table of positions behind those of tokens.
    pub fn places(&self) -> u32 {
        self.table[0] * self.table[1]
    }

    /// The patches of the pictures of the input by the convolution `name`, `[N, patches, hidden]`, row by row of a picture.
    pub fn split(&self, parts: &mut Parts<'_>, name: &str, bias: bool) -> Built {
        let size = self.size.map(|n| Dim::constant(n.into()));
        let x = pixels(parts, self.channels, size)?;
        let x = convolution(parts, x, name, [self.hidden, self.channels], Window::tiles(self.patch), bias)?;
        let [down, across] = self.patches().map(i64::from);
        let x = parts.graph.op(Op::Reshape { shape: vec![-1, self.hidden.into(), down * across] }, &[x])?;
        parts.op(Op::Transpose { perm: vec![0, 2, 1] }, &[x], "patches")
    }

    /// Rows of patches `x` behind those of `tokens` (each `[1, 1, hidden]`), plus the table of positions
    /// (`[1, tokens + places, hidden]`), whose part for patches is interpolated where pictures have another number of them.
    pub fn rows(&self, parts: &mut Parts<'_>, x: Value, tokens: &[Value], table: Value) -> Result<Rows, IrError> {
        let front = tokens.len() as i64;
        let [down, across] = self.patches();
        let mut table = table;
        if self.patches() != self.table {
            let near = super::tokens(parts, table, front, i64::MAX)?;
            let near = bicubic::resized(parts, near, self.table, self.patches(), self.hidden)?;
            let first = super::tokens(parts, table, 0, front)?;
            table = parts.graph.op(Op::Concat { axis: 1 }, &[first, near])?;
        }
        let pad = |before: i64, after: i64| Op::Pad {
            mode: PadMode::Constant,
            pads: vec![0, 0, before, after, 0, 0],
            value: 0.0.into(),
        };
        let mut x = x;
        if front > 0 {
            let first = match tokens {
                [one] => *one,
                several => parts.graph.op(Op::Concat { axis: 1 }, several)?,
            };
            let first = parts.graph.op(pad(0, i64::from(down) * i64::from(across)), &[first])?;
            table = parts.graph.op(Op::Add, &[table, first])?;
            x = parts.graph.op(pad(front, 0), &[x])?;
        }
        let x = parts.graph.op(Op::Add, &[x, table])?;
        let h = parts.op(Op::Reshape { shape: vec![-1, self.hidden.into()] }, &[x], "embed")?;
        let each = tokens.len() as u32 + down * across;
        Ok(Rows { h, each, sight: Sight::of(parts, h, each)? })
    }
}

impl Rows {
    /// Rows of all pictures as `[N, each, hidden]`.
    pub fn apart(&self, parts: &mut Parts<'_>, h: Value, hidden: u32) -> Built {
        parts.graph.op(Op::Reshape { shape: vec![-1, self.each.into(), hidden.into()] }, &[h])
    }
}
