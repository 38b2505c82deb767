//! Instructions of steps that multiply by matrices.

use super::super::call::{After, Codes, Grid, Matrix, Part, Prepare, Product, Source, Work};
use super::{Extra, Lowering};
use crate::cpu::activation;
use crate::error::Result;
use crate::value::Val;
use candle_core::DType;
use tallow_compiler::{Buffer, Step};
use tallow_format::Encoding;
use tallow_ir::Op;
use tallow_ir::ops::Activation as IrActivation;

/// A step of products: its operands by role.
struct Roles<'b> {
    x: Buffer,
    norm: Option<(Buffer, f32)>,
    matrices: &'b [Buffer],
    /// The part that each bias is added to.
    biases: Vec<(usize, Buffer)>,
    after: After,
}

impl<'b> Roles<'b> {
    /// `None` for another operation, or an activation without a kernel.
    fn of(step: &'b Step) -> Option<Roles<'b>> {
        let all = step.operands.as_slice();
        let plain = |x: Buffer, norm, matrices, after| Roles { x, norm, matrices, biases: Vec::new(), after };
        let kernel = |a: IrActivation| match a.op() {
            None => Some(None),
            Some(op) => activation(&op).map(Some),
        };
        // x, its norm, and what follows.
        let normed = |eps: Option<f32>| match (eps, all) {
            (None, [x, rest @ ..]) => Some((*x, None, rest)),
            (Some(eps), [x, gain, rest @ ..]) => Some((*x, Some((*gain, eps)), rest)),
            _ => None,
        };
        match &step.op {
            Op::Matmul => match all {
                [x, _] => Some(plain(*x, None, &all[1..], After::Done)),
                _ => None,
            },
            Op::FusedNormMatmul { eps } => match all {
                [x, gain, _] => Some(plain(*x, Some((*gain, eps.get())), &all[2..], After::Done)),
                _ => None,
            },
            Op::JoinedMatmul { parts, norm, bias } => {
                let (x, norm, rest) = normed(norm.map(|e| e.get()))?;
                let (matrices, vectors) = rest.split_at_checked(*parts as usize)?;
                let biases = bias.iter().map(|&b| b as usize).zip(vectors.iter().copied()).collect();
                Some(Roles { biases, ..plain(x, norm, matrices, After::Done) })
            }
            Op::GatedMatmul { activation: by, norm, .. } => {
                let (x, norm, rest) = normed(norm.map(|e| e.get()))?;
                let (matrices, vectors) = rest.split_at_checked(2)?;
                let after = After::Gate(kernel(*by)??);
                let biases = vectors.iter().copied().enumerate().collect();
                Some(Roles { biases, ..plain(x, norm, matrices, after) })
            }
            Op::MatmulBias { activation: by, norm } => {
                let (x, norm, rest) = normed(norm.map(|e| e.get()))?;
                let (matrices, vectors) = rest.split_at_checked(1)?;
                let after = kernel(*by)?.map_or(After::Done, After::Activate);
                let biases = vectors.iter().copied().enumerate().collect();
                Some(Roles { biases, ..plain(x, norm, matrices, after) })
            }
            _ => None,
        }
    }
}

impl Lowering<'_> {
    /// Products with matrices, and what is fused with them.
    pub(super) fn products(&mut self, at: usize, step: &Step) -> Result<Option<()>> {
        let Some(roles) = Roles::of(step) else { return Ok(None) };
        let Some(grid) = self.grid(roles.x) else { return Ok(None) };
        let mut matrices = Vec::with_capacity(roles.matrices.len());
        for &buffer in roles.matrices {
            match self.matrix(buffer, grid.width)? {
                Some((matrix, columns)) if Self::is_possible(step, grid, columns) => matrices.push((matrix, columns)),
                _ => return Ok(None),
            }
        }
        let gated = matches!(roles.after, After::Gate(_));
        if gated && matrices.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            return Ok(None);
        }
        let Some(x) = self.real(roles.x)? else { return Ok(None) };
        let norm = match roles.norm {
            None => None,
            Some((gain, eps)) => match self.real(gain)? {
                Some(gain) if self.len(&gain) == grid.width => Some((gain, eps)),
                _ => return Ok(None),
            },
        };
        let packed = matrices.iter().any(|(m, _)| matches!(m, Matrix::Packed(_)));
        let exact = matrices.iter().any(|(m, _)| !matches!(m, Matrix::Packed(_)));
        let (codes, values) = self.prepare(at, roles.x, x, norm, grid, packed, exact);
        let mut parts = Vec::with_capacity(matrices.len());
        for (index, (matrix, columns)) in matrices.into_iter().enumerate() {
            let bias = match roles.biases.iter().find(|(part, _)| *part == index) {
                None => None,
                Some((_, bias)) => match self.real(*bias)? {
                    Some(bias) if self.len(&bias) == columns => Some(bias),
                    _ => return Ok(None),
                },
            };
            let result = self.result(step, if gated { 0 } else { index }, false);
            let Some((_, out)) = result.filter(|(g, _)| *g == Grid { rows: grid.rows, width: columns }) else {
                return Ok(None);
            };
            parts.push(Part { matrix, columns, bias, out });
        }
        let counter = self.counters;
        self.counters += 1;
        let after = roles.after;
        self.works.push((at, Work::Product(Product { grid, codes, values, parts, after, counter })));
        Ok(Some(()))
    }

    /// Where the operand of products lies once it is normalised and quantised.
    #[allow(clippy::too_many_arguments)]
    fn prepare(
        &mut self,
        at: usize,
        buffer: Buffer,
        x: Source,
        norm: Option<(Source, f32)>,
        grid: Grid,
        packed: bool,
        exact: bool,
    ) -> (Option<Codes>, Option<Source>) {
        let own = grid.rows == 1;
        let codes = packed.then(|| {
            if own {
                self.own_codes = self.own_codes.max(grid.width);
                return Codes::Own;
            }
            let known = self.codes.iter().position(|g| *g == grid);
            Codes::Shared(known.unwrap_or_else(|| {
                self.codes.push(grid);
                self.codes.len() - 1
            }))
        });
        if norm.is_none() && !packed {
            return (None, Some(x));
        }
        if norm.is_none() && !exact && self.prepared == Some((buffer, codes)) {
            return (codes, None);
        }
        let values = match (&norm, exact) {
            (Some(_), true) => {
                let kept = self.extra(Extra::Values, grid.rows * grid.width, own);
                Some(Source::Place(kept))
            }
            (None, true) => Some(x.clone()),
            (_, false) => None,
        };
        let kept = match (&values, &norm) {
            (Some(Source::Place(place)), Some(_)) => Some(*place),
            _ => None,
        };
        // What the codes hold now, for a product with the same operand.
        self.prepared = norm.is_none().then_some((buffer, codes));
        self.works.push((at, Work::Prepare(Prepare { x, norm, grid, codes, values: kept })));
        (codes, values)
    }

    /// A matrix with rows of `k`, and how many.
    fn matrix(&self, buffer: Buffer, k: usize) -> Result<Option<(Matrix, usize)>> {
        Ok(match &self.loaded.fixed[buffer.0 as usize] {
            Some(Val::Weight(weight)) => {
                let view = weight.view()?;
                let &[rows, columns] = view.shape else { return Ok(None) };
                if columns != k as u64 {
                    return Ok(None);
                }
                let matrix = match view.encoding {
                    encoding if encoding.is_block() => Matrix::Packed(weight.clone()),
                    Encoding::U32 | Encoding::U16 | Encoding::Ternary => Matrix::Exact(weight.clone()),
                    _ => return Ok(None),
                };
                Some((matrix, rows as usize))
            }
            Some(Val::Tensor(t)) if t.dtype() == DType::F32 && t.rank() == 2 && t.is_contiguous() => {
                let (rows, columns) = t.dims2()?;
                (columns == k).then(|| (Matrix::Computed(t.clone()), rows))
            }
            _ => None,
        })
    }
}
