//! Products with packed matrices: `y[M, N] = x[M, K] · Wᵀ` for block encodings.
//!
//! A matrix is packed once ([`pack_panels`]): 16 rows make a panel, whose codes are interleaved so that one 64-byte
//! vector holds four consecutive codes of each row (`layout.rs`). All instruction sets read the same layout, and the
//! codes and scales are those of the file, without loss.
//!
//! **Arithmetic**, the same to the bit in every form:
//!
//! - activations are quantised to 12-bit codes `16 · high + low`, with one `f32` scale `dx` for a block of 32
//!   ([`Quantized`]);
//! - of a block of 32 codes `c` (16 for `q2k`, `q3k`, `q6k`) the sum of `high · fc + low · round(fc / 16)`, with `f` the
//!   power of two that makes `fc` a byte, is an exact 32-bit integer: the sum of products over `16 / f`, exact for codes
//!   of up to four bits, off by at most half a low byte's weight for wider ones. `acc = fma(f32(sum), dw · dx, acc)` with the block's
//!   scale `dw`, in ascending order of blocks, and for encodings with minimums after it
//!   `acc = fma(−min · f / 16, f32(sum of the activations' codes) · dx, acc)`;
//! - at the end `acc` is multiplied by `16 / f` and the encoding's unit, a power of two or 1/32512.
//!
//! So an output depends on its row of `x` and its row of `W` alone: not on `M`, the threads, or the instruction set.

mod activations;
#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod codes;
mod layout;
mod pack;

pub use activations::{Quantized, QuantizedRows};
pub use layout::{PANEL, panels};
pub use pack::pack_panels;

use super::disjoint::Disjoint;
use super::{Isa, KernelError, Team, WeightRows, check_len};
use layout::Layout;
use std::ops::Range;
use tallow_format::Encoding;

/// Whether this process may use tiles.
#[cfg(target_arch = "x86_64")]
pub(super) fn amx_allowed() -> bool {
    amx::allowed()
}

/// Bytes that panels are aligned to.
pub const ALIGN: usize = 64;

/// A packed matrix `[rows, k]`: a view of bytes that [`pack_panels`] wrote. Lengths and alignment have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    layout: Layout,
    rows: usize,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// Whether matrices of this encoding are packed: the block encodings.
    pub fn packs(encoding: Encoding) -> bool {
        encoding.is_block()
    }

    /// Bytes of a packed matrix: a multiple of [`ALIGN`].
    ///
    /// # Errors
    /// [`KernelError::Attribute`] for an encoding that is not packed, [`KernelError::RowNotWholeBlocks`], and
    /// [`KernelError::Length`] where the size overflows.
    pub fn bytes(encoding: Encoding, rows: usize, k: usize) -> Result<usize, KernelError> {
        let layout = Layout::new(encoding, k)?;
        let size = layout.panel_bytes.checked_mul(panels(rows));
        size.ok_or(KernelError::Length { what: "packed matrix (in rows)", found: rows, expected: usize::MAX })
    }

    /// A view of packed bytes.
    ///
    /// # Errors
    /// As [`Packed::bytes`], and [`KernelError::Length`] for another length and [`KernelError::Attribute`] for bytes that
    /// do not begin at a multiple of [`ALIGN`].
    pub fn new(encoding: Encoding, rows: usize, k: usize, bytes: &'a [u8]) -> Result<Self, KernelError> {
        check_len("packed matrix (in bytes)", bytes.len(), Some(Self::bytes(encoding, rows, k)?))?;
        if !bytes.as_ptr().addr().is_multiple_of(ALIGN) {
            return Err(KernelError::Attribute {
                what: "the address of a packed matrix",
                value: format!("{:#x}", bytes.as_ptr().addr()),
                expected: "a multiple of 64",
            });
        }
        Ok(Self { layout: Layout::new(encoding, k)?, rows, bytes })
    }

    /// How the values were stored before packing.
    pub fn encoding(&self) -> Encoding {
        self.layout.encoding
    }

    /// Rows of the matrix, the `N` of a product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row, the `K` of a product.
    pub fn k(&self) -> usize {
        self.layout.k
    }

    /// Panels: groups of [`PANEL`] rows, the last of which may have fewer.
    pub fn panels(&self) -> usize {
        panels(self.rows)
    }

    /// Bytes of one panel.
    pub fn panel_bytes(&self) -> usize {
        self.layout.panel_bytes
    }

    /// The bytes of one panel.
    fn panel(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.layout.panel_bytes..][..self.layout.panel_bytes]
    }
}

/// Where the outputs of a product go: row `m`, column `n` of the matrix at `m · stride + column + n`.
pub struct Target<'a> {
    y: &'a Disjoint<'a, f32>,
    stride: usize,
    column: usize,
    finish: Option<&'a mut Finish<'a>>,
}

/// Changes the outputs of a row from a column on before they are stored.
pub(crate) type Finish<'a> = dyn FnMut(usize, usize, &mut [f32]) + 'a;

impl<'a> Target<'a> {
    /// Outputs in `y`, whose rows are `stride` elements apart, from column `column` on.
    pub(crate) fn new(y: &'a Disjoint<'a, f32>, stride: usize, column: usize) -> Self {
        Self { y, stride, column, finish: None }
    }

    /// Outputs of the columns from `first` on alone, which stand at the beginning of rows.
    pub(crate) fn from_column(y: &'a Disjoint<'a, f32>, stride: usize, first: usize) -> Self {
        Self::new(y, stride, first.wrapping_neg())
    }

    /// The same, with outputs that `finish` changes while they are at hand.
    pub(crate) fn finished(self, finish: Option<&'a mut Finish<'a>>) -> Self {
        Self { finish, ..self }
    }

    /// Writes outputs of row `m` from column `n` of the matrix on.
    #[allow(unsafe_code, reason = "threads write disjoint columns of the output")]
    #[inline(always)]
    pub(crate) fn put(&mut self, m: usize, n: usize, values: &mut [f32]) {
        if let Some(finish) = &mut self.finish {
            finish(m, n, values);
        }
        let start = (m * self.stride + n).wrapping_add(self.column);
        // SAFETY: each panel belongs to one call at a time, and the part lives for this copy only.
        let part = unsafe { self.y.part(start..start + values.len()) };
        // Whole panels are a few stores each.
        let (part_panels, part_rest) = part.as_chunks_mut::<PANEL>();
        let (panels, rest) = values.as_chunks::<PANEL>();
        part_panels.iter_mut().zip(panels).for_each(|(part, values)| *part = *values);
        part_rest.copy_from_slice(rest);
    }
}

/// Working memory of one thread. Grows to the largest product and is used again.
#[derive(Debug, Default)]
pub struct Scratch {
    unpacked: block::Unpacked,
    /// Sums of tile kernels.
    #[cfg(target_arch = "x86_64")]
    outputs: Vec<amx::Outputs>,
}

impl Scratch {
    /// Memory for products of `m` rows with matrices of `k` columns, so that these allocate nothing.
    pub fn reserve(&mut self, m: usize, k: usize) {
        self.unpacked.reserve(k);
        #[cfg(target_arch = "x86_64")]
        amx::reserve(m, &mut self.outputs);
    }
}

/// The outputs of the rows of `panels` for all rows of `x`, written to `target`: the part of one thread. Calls for
/// different panels may run at once.
///
/// # Panics
/// When `x` was quantised for another instruction set or has another number of columns, a panel does not exist, or an output lies outside the target: the caller
/// checks with [`check_product`].
pub fn product(
    isa: Isa,
    x: &Quantized,
    w: &Packed<'_>,
    panels: Range<usize>,
    mut target: Target<'_>,
    scratch: &mut Scratch,
) {
    assert_eq!(x.k(), w.k(), "rows of a product have one length");
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx if x.m() >= amx::FROM && x.k() > layout::BLOCK => {
            amx::product(x, w, panels, &mut target, &mut scratch.unpacked, &mut scratch.outputs)
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Amx | Isa::Avx512 => avx512::product(x, w, panels, &mut target, &mut scratch.unpacked),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::product(x, w, panels, &mut target, &mut scratch.unpacked),
        _ => block::product(x, w, panels, &mut target, &mut scratch.unpacked),
    }
}

/// Checks what [`product`] asserts: row lengths, and an output of `y_len` elements.
///
/// # Errors
/// [`KernelError::Length`].
pub fn check_product(x: &Quantized, w: &Packed<'_>, y_len: usize) -> Result<(), KernelError> {
    check_len("row of the weight matrix", w.k(), Some(x.k()))?;
    check_len("output of a product", y_len, x.m().checked_mul(w.rows()))
}

/// `y[M, N] = x[M, K] · Wᵀ` over the threads of a team, with `y` `[x.m(), w.rows()]`.
///
/// # Errors
/// [`KernelError::Length`].
pub fn matmul_packed(x: &Quantized, w: &Packed<'_>, y: &mut [f32], team: &Team) -> Result<(), KernelError> {
    matmul_packed_on(Isa::detect(), x, w, y, team)
}

/// [`matmul_packed`] on a given instruction set, which the machine must have.
fn matmul_packed_on(isa: Isa, x: &Quantized, w: &Packed<'_>, y: &mut [f32], team: &Team) -> Result<(), KernelError> {
    check_product(x, w, y.len())?;
    thread_local! {
        static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
    }
    let y = Disjoint::new(y);
    team.run_chunks(w.panels(), chunk(w.panels(), x.m(), team.threads()), |range| {
        SCRATCH.with_borrow_mut(|scratch| product(isa, x, w, range, Target::new(&y, w.rows(), 0), scratch));
    });
    Ok(())
}

/// Panels that a thread takes at a time in a product of `m` rows: a few parts a thread, since what it takes it brings into
/// its cache; of single rows many, since the last part is waited for, each a multiple of what kernels do at once.
pub fn chunk(panels: usize, m: usize, threads: usize) -> usize {
    match (threads, m) {
        (..=1, _) => panels.max(1),
        (_, ..=1) => panels.div_ceil(threads * 16).max(1).next_multiple_of(4),
        _ => panels.div_ceil(threads * 4).max(1),
    }
}

/// Packs all of a matrix over the threads of a team; `out` has [`Packed::bytes`] bytes.
///
/// # Errors
/// [`KernelError::Length`], and as [`Packed::bytes`].
#[allow(unsafe_code, reason = "threads write disjoint panels")]
pub fn pack(w: &WeightRows<'_>, out: &mut [u8], team: &Team) -> Result<(), KernelError> {
    check_len("packed matrix (in bytes)", out.len(), Some(Packed::bytes(w.encoding(), w.rows(), w.k())?))?;
    let size = out.len().checked_div(panels(w.rows())).unwrap_or(0);
    let out = Disjoint::new(out);
    team.run_chunks(panels(w.rows()), (1_usize << 18).div_ceil(size.max(1)), |range| {
        // SAFETY: every panel is in one range only.
        pack_panels(w, range.clone(), unsafe { out.part(range.start * size..range.end * size) });
    });
    Ok(())
}

#[cfg(test)]
mod tests;
