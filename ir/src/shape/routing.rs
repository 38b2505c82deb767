//! Products with chosen experts.

use super::{Context, Types, bail, float, rank, same_dim};
use crate::{DType, Op, Shape, TensorType};

/// x `[S, K]` or `[S, chosen, K]`, W `[experts, N, K]`, index `[S, chosen]`: `[S, chosen, N]`.
pub(crate) fn expert_matmul(_op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    float("x", &x[0])?;
    float("W", &x[1])?;
    rank("W", &x[1], 3)?;
    rank("index", &x[2], 2)?;
    if x[2].dtype == DType::Bool {
        bail!("index has the type bool, expected integers or whole real numbers");
    }
    let [_, n, k] = x[1].shape.dims() else { bail!("W has shape {}", x[1].shape) };
    let [rows, chosen] = x[2].shape.dims() else { bail!("index has shape {}", x[2].shape) };
    match x[0].shape.dims() {
        [s, width] => {
            same_dim("the last dimension of x", width, k)?;
            same_dim("the number of rows of index", rows, s)?;
        }
        [s, each, width] => {
            same_dim("the last dimension of x", width, k)?;
            same_dim("the number of rows of index", rows, s)?;
            same_dim("the number of choices of index", chosen, each)?;
        }
        _ => bail!("x has shape {}, expected [{rows}, {k}] or [{rows}, {chosen}, {k}]", x[0].shape),
    }
    Ok(vec![TensorType::f32(Shape::new([rows.clone(), chosen.clone(), n.clone()]))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;

    #[test]
    fn experts_multiply_rows_or_rows_of_each_choice() {
        let (w, index) = (t(DType::Q8, "8, 16, 32"), t(DType::I64, "S, 2"));
        let op = || Op::ExpertMatmul;
        assert_eq!(good(op(), &[f("S, 32"), w.clone(), index.clone()]), "f32[S, 2, 16]");
        assert_eq!(good(op(), &[f("S, 2, 32"), w.clone(), f("S, 2")]), "f32[S, 2, 16]");
        bad(op(), &[f("S, 31"), w.clone(), index.clone()], "the last dimension of x is 31, expected 32");
        bad(op(), &[f("4, 32"), w.clone(), index.clone()], "the number of rows of index is S, expected 4");
        bad(op(), &[f("S, 3, 32"), w.clone(), index.clone()], "the number of choices of index is 2, expected 3");
        bad(op(), &[f("32"), w.clone(), index.clone()], "x has shape [32]");
        bad(op(), &[f("S, 32"), f("16, 32"), index.clone()], "W has shape [16, 32]");
        bad(op(), &[f("S, 32"), w.clone(), t(DType::I64, "S")], "index has shape [S]");
        bad(op(), &[f("S, 32"), w.clone(), t(DType::Bool, "S, 2")], "index has the type bool");
        bad(op(), &[t(DType::I64, "S, 32"), w, index], "x has the type i64");
    }
}
