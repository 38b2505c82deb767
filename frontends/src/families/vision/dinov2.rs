//! The reader of dinov2 (Oquab et al. 2023).

use super::layers::{Defaults, Layers, Names};
use super::patches::Patches;
use super::prepared;
use super::vit::{self, Head, Vit};
use crate::families::encoder::read;
use crate::families::{Build, FamilyError, PROCESSOR, Settings, TensorShapes};
use tallow_ir::ops::Activation;

const NAMES: Names = Names {
    norms: ["norm1", "norm2"],
    up: "mlp.fc1",
    down: "mlp.fc2",
    scales: Some(["layer_scale1.lambda1", "layer_scale2.lambda1"]),
    ..vit::NAMES
};

const DEFAULTS: Defaults = Defaults { hidden: 768, layers: 12, heads: 12, width: None, activation: "gelu", eps: 1e-6 };

/// dinov2: branches with scales, a feed-forward that may be gated, pictures of any size by interpolated positions. The
/// size is that which the processor makes, and `image_size` without one.
pub fn dinov2(s: &mut Settings<'_>, tensors: &dyn TensorShapes) -> Result<Box<dyn Build>, FamilyError> {
    let base = read::prefix(tensors, &["dinov2."], "embeddings.patch_embeddings.projection");
    let gated = s.flag("use_swiglu_ffn", false)?;
    let names = match gated {
        true => Names { up: "mlp.weights_in", down: "mlp.weights_out", ..NAMES },
        false => NAMES,
    };
    let list = format!("{base}encoder.layer");
    let mut layers = Layers::read(s, ("layer", list), names, DEFAULTS)?;
    layers.width = width(s, layers.hidden, gated)?;
    layers.bias = s.flag("qkv_bias", true)?;
    layers.gated = gated;
    if gated {
        // Whatever the config's activation.
        layers.activation = Activation::Silu;
    }
    let mut patches = Patches::read(s, layers.hidden, 224, 14)?;
    let size = patches.size;
    if let Some(made) = prepared(s)? {
        Patches::grid(s, PROCESSOR, made, patches.patch)?;
        patches.size = made;
    }
    if patches.size != size && patches.table[0] != patches.table[1] {
        return Err(s.unsupported(
            "image_size",
            format!("{} × {}", size[0], size[1]),
            "positions of pictures that are no squares are not interpolated",
            "Let the processor make pictures of that size",
        ));
    }
    let head = match tensors.shape("classifier.weight").is_some() {
        true => Head::Classifier { labels: read::labels(s, tensors, "classifier")?, mean: true },
        false => {
            // Names of labels say nothing without a classifier.
            s.texts("labels")?;
            Head::Class("pooler_output")
        }
    };
    Ok(Box::new(Vit { base, patches, layers, distilled: false, head }))
}

/// Width between the matrices of the feed-forward; a gated one has two thirds of it, rounded up to a multiple of 8.
fn width(s: &Settings<'_>, hidden: u32, gated: bool) -> Result<u32, FamilyError> {
    let key = "mlp_ratio";
    let ratio = s.positive(key)?.unwrap_or(4.0);
    let width = (f64::from(hidden) * ratio) as u64;
    if !(1..=MOST_WIDTH).contains(&width) {
        let cause = format!("the feed-forward would have {width} lanes, and may have up to {MOST_WIDTH}");
        return Err(s.bad(key, ratio, cause, "Correct it"));
    }
    let width = if gated { ((width as f64 * 2.0 / 3.0) as u64).div_ceil(8) * 8 } else { width };
    Ok(width as u32)
}

/// Lanes of a feed-forward.
const MOST_WIDTH: u64 = 1 << 24;
