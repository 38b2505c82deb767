//! Operations on boxes.

use super::layout::operand;
use crate::error::Result;
use candle_core::{Device, Tensor};
use tallow_compiler::Step;
use tallow_ir::Op;
use tallow_ir::ops::MAX_BOXES;

/// Greedy suppression as `torchvision.ops.nms`: boxes `[N, 4]`, scores `[N]`, the numbers of those kept by
/// descending score, the lower number first among equals.
pub(super) fn suppression(step: &Step, boxes: &Tensor, scores: &Tensor) -> Result<Tensor> {
    let Op::NonMaxSuppression { iou, score, limit } = step.op else {
        return Err(operand(step, "no suppression of boxes".into()));
    };
    let scores = scores.to_vec1::<f32>()?;
    if scores.len() > MAX_BOXES || boxes.dims() != [scores.len(), 4] {
        return Err(operand(
            step,
            format!(
                "boxes has shape {:?} and scores {} values; expected [N, 4] and N, at most {MAX_BOXES}: drop the lowest scores first, for example by TopK",
                boxes.dims(),
                scores.len()
            ),
        ));
    }
    let boxes: Vec<[f32; 4]> =
        boxes.to_vec2::<f32>()?.into_iter().filter_map(|corners| corners.try_into().ok()).collect();
    if let Some(i) = (0..scores.len()).find(|&i| scores[i].is_nan() || boxes[i].iter().any(|v| v.is_nan())) {
        return Err(operand(step, format!("box {i} is {:?} with the score {}, not a number", boxes[i], scores[i])));
    }
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| scores[i] >= score.get()).collect();
    // Stable, so that the lower number stays first; zeros of either sign are equal.
    order.sort_by(|&a, &b| scores[b].partial_cmp(&scores[a]).unwrap_or(std::cmp::Ordering::Equal));
    let limit = if limit == 0 { usize::MAX } else { limit as usize };
    let mut kept: Vec<usize> = Vec::new();
    for i in order {
        if kept.len() == limit {
            break;
        }
        if !kept.iter().any(|&k| overlap(&boxes[k], &boxes[i]) > iou.get()) {
            kept.push(i);
        }
    }
    let kept: Vec<i64> = kept.into_iter().map(|i| i as i64).collect();
    let count = kept.len();
    Ok(Tensor::from_vec(kept, count, &Device::Cpu)?)
}

/// Intersection over union; NaN, which is above no threshold, where both are empty.
fn overlap(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let area = |[x1, y1, x2, y2]: &[f32; 4]| (x2 - x1) * (y2 - y1);
    let width = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let inner = width * height;
    inner / (area(a) + area(b) - inner)
}
