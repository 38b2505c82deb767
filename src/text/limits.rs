//! How long a text may be.

use super::IDS;
use crate::{Model, Result};
use tallow_compiler::Plan;
use tallow_frontends::families::vision::text::{CLIP_POSITIONS, SIGLIP_POSITIONS};
use tallow_ir::{Bindings, Dim, TensorType};

/// Most elements of a value that grows with the square of the tokens, as scores by distance do: 512 MiB of numbers.
const MOST_SQUARE: f64 = (1_u64 << 27) as f64;

/// The most tokens for which all values of a plan have a size that can be; none where none grows with their square.
pub(crate) fn most_tokens(plan: &Plan) -> Option<usize> {
    let input = plan.inputs.iter().find(|input| input.name == IDS)?;
    let symbol = input.ty.shape.dims().first()?.as_symbol()?;
    let size = |ty: &TensorType, tokens: i64| -> Option<f64> {
        let dims = ty.shape.dims().iter();
        let bound = |dim: &Dim| {
            Bindings::from_iter(dim.symbols().into_iter().map(|s| (s.to_owned(), if s == symbol { tokens } else { 1 })))
        };
        dims.map(|dim| dim.evaluate(&bound(dim)).map(|n| n as f64)).product()
    };
    let square = |ty: &TensorType| {
        let (one, two) = (size(ty, 1 << 12)?, size(ty, 1 << 13)?);
        // What the tokens alone multiply, or add to, doubles with them.
        (two > 3.0 * one).then(|| (MOST_SQUARE / one).sqrt() * f64::from(1 << 12))
    };
    let types = plan.steps.iter().flat_map(|step| &step.types);
    types.filter_map(square).min_by(f64::total_cmp).map(|tokens| tokens as usize)
}

/// The most tokens for which the model has positions.
pub(crate) fn positions(model: &Model) -> Result<Option<usize>> {
    let config = model.file().config();
    let usual = match config.model_type() {
        "clip" | "clip_text_model" => Some(CLIP_POSITIONS as usize),
        "siglip" | "siglip_text_model" => Some(SIGLIP_POSITIONS as usize),
        _ => None,
    };
    let rows = config.architecture().usize("max_position_embeddings")?.or(usual);
    // Their first token has the position behind that of padding.
    let skipped = match config.model_type() {
        "roberta" | "xlm-roberta" | "camembert" => config.pad_id()?.unwrap_or(1) as usize + 1,
        "mpnet" => 2,
        _ => 0,
    };
    Ok(rows.map(|rows| rows.saturating_sub(skipped)))
}
