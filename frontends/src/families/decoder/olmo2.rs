//! Reader of olmo2.

use super::llama::{LLAMA, attention_bias, common, rules, same_layers};
use super::read::Defaults;
use super::{DecoderSpec, HeadNorm, NormPlaces, rope};
use crate::families::{FamilyError, Settings, TensorShapes};

/// olmo2: norms after the branches alone, and one norm over all query heads and one over all key heads together.
pub fn olmo2(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<DecoderSpec, FamilyError> {
    let defaults = Defaults { vocab: 50304, eps: 1e-5, ..LLAMA };
    let (mut spec, sizes) = common(s, tensors, defaults)?;
    attention_bias(s, &mut spec)?;
    spec.places = NormPlaces::After;
    spec.attention.head_norm = HeadNorm::Projection;
    let rope = rope::read(s, rules(sizes, defaults))?;
    same_layers(s, &mut spec, sizes, None, rope)?;
    Ok(spec)
}
