//! Operations on boxes.

use super::{Context, Types, bail, float, rank, same_dim};
use crate::ops::MAX_BOXES;
use crate::{Dim, Op, Shape, TensorType};

/// boxes `[N, 4]`, scores `[N]`: i64 `[?kept]`.
pub(crate) fn suppression(op: &Op, x: &[TensorType], _: &mut Context) -> Types {
    let Op::NonMaxSuppression { iou, score, .. } = op else { bail!("not NonMaxSuppression") };
    if !(0.0..=1.0).contains(&iou.get()) {
        bail!("iou is {}, expected a number from 0 to 1", iou.get());
    }
    if score.get().is_nan() {
        bail!("score is NaN, expected a number; -inf keeps every box");
    }
    float("boxes", &x[0])?;
    float("scores", &x[1])?;
    rank("boxes", &x[0], 2)?;
    rank("scores", &x[1], 1)?;
    let [n, corners] = x[0].shape.dims() else { bail!("boxes has shape {}", x[0].shape) };
    same_dim("the last dimension of boxes", corners, &Dim::constant(4))?;
    same_dim("the length of scores", &x[1].shape.0[0], n)?;
    if n.as_const().is_some_and(|n| n > MAX_BOXES as i64) {
        bail!(
            "boxes has {n} rows, at most {MAX_BOXES} are possible; drop the lowest scores first, for example by TopK"
        );
    }
    Ok(vec![TensorType::i64(Shape::new([Dim::symbol("?kept")]))])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bad, f, good, t};
    use super::*;
    use crate::DType;

    #[test]
    fn boxes_have_four_corners_and_a_score_each() {
        let op = |iou: f32, score: f32| Op::NonMaxSuppression { iou: iou.into(), score: score.into(), limit: 0 };
        let plain = || op(0.5, f32::NEG_INFINITY);
        assert_eq!(good(plain(), &[f("N, 4"), f("N")]), "i64[?kept]");
        assert_eq!(good(plain(), &[f("0, 4"), f("0")]), "i64[?kept]");
        bad(op(1.5, 0.0), &[f("N, 4"), f("N")], "iou is 1.5");
        bad(op(f32::NAN, 0.0), &[f("N, 4"), f("N")], "iou is NaN");
        bad(op(0.5, f32::NAN), &[f("N, 4"), f("N")], "score is NaN");
        bad(plain(), &[f("N, 5"), f("N")], "the last dimension of boxes is 5, expected 4");
        bad(plain(), &[f("N, 4"), f("M")], "the length of scores is M, expected N");
        bad(plain(), &[f("N, 4"), f("N, 1")], "scores has shape [N, 1]");
        bad(plain(), &[t(DType::I64, "N, 4"), f("N")], "boxes has the type i64");
        bad(plain(), &[f("65537, 4"), f("65537")], "at most 65536");
    }
}
